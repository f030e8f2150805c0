#ifndef MEMWALD_STORE_READ_LIST_H
#define MEMWALD_STORE_READ_LIST_H

/*
 * read_list - the rows of a store in key order, some or all, from a view that
 * stays as it was.
 *
 * A filter is asked about the winning row of each key, never about a version
 * that is shadowed; then come offset and limit, which are the caller's. Columns
 * that the filter looks at are read first, piece by piece (match.h), and the
 * others only of rows that it gives. What is wanted is read, nothing else.
 *
 * Nobody waits for long: a call works until its time is over, then it answers
 * READ_LATER, and the next one goes on from there. It does some work in any
 * case, so that a caller whose time is always over gets to the end, too.
 *
 * Bounds:	of memory: one row, and a bit for each row that the filter was
 *		asked about.
 * Lifetime:	opened after read_view, in the same turn, of what that answered;
 *		holds what it reads.
 *		Filter and columns must live as long.
 * Locking:	one thread at a time.
 * Errors:	those of read.h, merge_sources.h and match.h; a list that has
 *		failed can only be closed. Mapped files are read: all but
 *		open and close are for marked reads.
 */

#include "worker/store/filter.h"
#include "worker/store/read.h"

struct read_want {			/* zeroed: everything */
	const struct filter *filter;	/* NULL: all rows */
	const bool *columns;		/* in shape order; NULL: all */
};

enum read_step {
	READ_ROW,
	READ_END,		/* there are no more */
	READ_LATER,		/* the time is over */
};

struct read_list;

struct err read_list_open(struct store *, struct snapshot *,
    const struct read_want *, struct read_list **) MUST_CHECK;
/* Passes over rows without reading more of them than the filter does: *passed
 * of them. ROW: all of count. until_ns: of clock_mono_ns. */
struct err read_list_pass(struct read_list *, uint64_t count,
    uint64_t until_ns, uint64_t *passed, enum read_step *) MUST_CHECK;
/* ROW: the next row is row *at of the batch, good until the next call. Columns
 * that are not wanted are not there (length 0). */
struct err read_list_next(struct read_list *, uint64_t until_ns,
    enum read_step *, const struct batch **, uint64_t *at) MUST_CHECK;
void read_list_close(struct read_list *);	/* NULL is fine */

#endif
