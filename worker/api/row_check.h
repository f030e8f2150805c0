#ifndef MEMWALD_API_ROW_CHECK_H
#define MEMWALD_API_ROW_CHECK_H

/*
 * row_check - what an append may ask to be checked beyond its kind's rules
 * (contract 10):
 *
 *	?unknown=reject		a key that no column has is a 400
 *	?check=lengths		output_tokens, output_logprobs and loss_mask of
 *				a rollout have the same length where they are
 *				not null, or it is a 400
 *
 * Locking:	none.
 * Errors:	BAD_INPUT, naming the parameter, the key, or row and fields.
 *		UNSUPPORTED: ?unknown=metadata.
 */

#include "worker/api/row_read.h"

struct row_check {
	bool unknown_rejected;
	bool lengths_agree;
};

struct err row_check_read(struct slice query, const struct kind *,
    struct arena *, struct row_check *) MUST_CHECK;
/* The rows of a request, which are in the batch. */
struct err row_check_rows(const struct row_check *, struct arena *,
    const struct batch *, const struct row_read_result *) MUST_CHECK;

#endif
