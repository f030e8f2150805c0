#ifndef MEMWALD_MAINTAIN_FOLD_LARGE_H
#define MEMWALD_MAINTAIN_FOLD_LARGE_H

/*
 * fold_large - the long values of one row of a generation, which a fold copies
 * from data file to data file and never holds.
 *
 * Lifetime:	of the row that was read from the merge; descriptors from open
 *		to close.
 * Errors:	IO, NOT_FOUND: the generation's file is gone.
 */

#include "worker/maintain/fold_parts.h"

#define FOLD_LARGE_MIN	(1u << 20)
#define FOLD_LARGE_MAX	16u		/* a row; more are gathered */

struct fold_value {
	uint32_t column;
	int32_t file;			/* of the fragment */
	const char *bytes;		/* where it is mapped */
	uint64_t offsets[2];
	struct array_far far;
};

struct fold_large {
	const struct source *source;
	uint32_t count;			/* 0: the row is not large */
	struct fold_value values[FOLD_LARGE_MAX];
};

/* Row at of a batch that was read of a source. Does not look at the values. */
void fold_large_find(const struct source *, const struct batch *, uint64_t at,
    struct fold_large *);
bool fold_large_has(const struct fold_large *, uint32_t column);

/* Makes their columns, of a batch of one row, far. */
struct err fold_large_open(const struct fold *, struct fold_large *,
    struct array *columns) MUST_CHECK;
void fold_large_close(struct fold_large *);

#endif
