#ifndef MEMWALD_STORE_NEAR_H
#define MEMWALD_STORE_NEAR_H

/*
 * near - rows of a large batch whose long values lie in a file (batch.h, rule
 * 6), with those in memory that are wanted there: of one row, not of the batch.
 *
 * Lifetime:	in the arena, and what the batch looks at.
 * Errors:	IO, CORRUPT: the file has not what it had. NO_MEMORY.
 */

#include "worker/store/kind.h"
#include "worker/arrow/batch.h"

enum near {
	NEAR_SHOWN,		/* all but what has a route of its own: blobs */
	NEAR_ALL
};

/* Row at as a batch of one row. A batch without far columns as well. */
struct err near_row(const struct batch *, uint64_t at,
    const struct store_shape *, enum near, struct arena *, struct batch *)
    MUST_CHECK;

#endif
