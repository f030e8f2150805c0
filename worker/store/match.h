#ifndef MEMWALD_STORE_MATCH_H
#define MEMWALD_STORE_MATCH_H

/*
 * match - which rows of a list's sources its filter gives, found out when the
 * list comes to them.
 *
 * A list asks row by row in key order, and rows of neighbouring keys may lie
 * anywhere in a file; but a filter is evaluated on runs of rows (filter.h). So
 * the first row that is asked about has the piece of its source evaluated that
 * it lies in, and the answers of its neighbours are kept: a bit each. However
 * rows lie, each is evaluated once, and its column is read in the order of the
 * file. A commit in a tail is one piece.
 *
 * Bounds:	a piece is about MATCH_PIECE_BYTES of the columns that the
 *		filter looks at, at most MATCH_PIECE_ROWS rows, or one longer
 *		row. The bits: an eighth of a byte a row.
 * Lifetime:	the list's. Filter and sources must live as long.
 * Locking:	none; one thread at a time.
 * Errors:	CORRUPT and IO of the sources, NO_MEMORY.
 */

#include "worker/store/filter.h"
#include "worker/store/merge_sources.h"

#define MATCH_PIECE_BYTES	(1u << 20)
#define MATCH_PIECE_ROWS	4096u

struct match;

/* Reads batches of tails by way of the merge, which keeps them. */
struct err match_new(const struct filter *, struct merge *, struct match **)
    MUST_CHECK;
void match_free(struct match *);		/* NULL is fine */
/* *looked: a piece was evaluated, which takes up to a millisecond. */
struct err match_row(struct match *, const struct merge_row *, bool *given,
    bool *looked) MUST_CHECK;

#endif
