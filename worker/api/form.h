#ifndef MEMWALD_API_FORM_H
#define MEMWALD_API_FORM_H

/*
 * form - the body of an append as multipart/form-data (contract 2.4.1): rows
 * and their payloads, the rows as JSON and the payloads as raw bytes.
 *
 *	1. The first part is named metadata and holds {"records":[R,...]}.
 *	2. Every further part is named by the decimal index of a record; its
 *	   bytes are that record's payload. They come in any order; not every
 *	   record needs one.
 *	3. The index is smaller than the number of records, and comes once.
 *	4. A payload_size of the record is the length of its part.
 *	5. A record with payload_size has a part or an inline payload.
 *	6. A part replaces an inline payload.
 *
 * The same face as row_read: opened, fed, finished. The rows go into a builder
 * of the request's own at once. The bytes of all parts are kept once, in the
 * order in which they came; when that is the order of the rows they become the
 * column's, without a copy. Else they are copied there part by part, and the
 * memory of each is given back to the system behind it, so that a body of a
 * gigabyte costs a gigabyte either way. That takes a second or two, which the
 * loop does not have: it is a step of its own, for a thread of the pool.
 *
 * Lifetime:	in the request's arena; form_free gives back what is not.
 * Locking:	none; one thread at a time, not always the same.
 * Errors:	BAD_INPUT, naming the rule's offender; TOO_LARGE: the builder's
 *		cap, NO_MEMORY. The builder is then of no use.
 */

#include "worker/api/row_read.h"

struct form;

/* From the Content-Type of the request, before its body. */
struct err form_new(struct arena *, struct slice content_type, struct form **)
    MUST_CHECK;
/* The builder is empty, and stays the caller's. The shape has a payload. */
struct err form_open(struct form *, const struct store_shape *,
    const char *list_name, int64_t now_us, struct builder *) MUST_CHECK;
struct err form_feed(struct form *, struct slice) MUST_CHECK;
/* The body is complete. *later: the payloads still have to be put in order,
 * which is much to copy; form_reorder does. */
struct err form_finish(struct form *, struct row_read_result *, bool *later)
    MUST_CHECK;
/* On any thread; nobody else touches form, arena or builder meanwhile. */
struct err form_reorder(struct form *) MUST_CHECK;
/* NULL is nothing. */
void form_free(struct form *);

#endif
