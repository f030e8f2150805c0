#ifndef MEMWALD_MAINTAIN_LARGE_ROW_H
#define MEMWALD_MAINTAIN_LARGE_ROW_H

/*
 * large_row - the long values of one row, which go from data file to data file
 * and are never held.
 *
 * Lifetime:	of the row that was read; descriptors from open to close.
 * Errors:	IO, NOT_FOUND: the file is gone.
 */

#include "worker/store/source.h"

#define LARGE_VALUE_MIN	(1u << 20)
#define LARGE_VALUES_MAX	16u	/* a row; more are gathered */

/* Opens a data file of a source by its name: a source keeps mappings alone. */
typedef struct err large_open_fn(void *ctx, const struct source *,
    uint32_t file, int *fd);

struct large_value {
	uint32_t column;
	int32_t file;			/* of the fragment */
	const char *bytes;		/* where it is mapped */
	uint64_t offsets[2];
	struct array_far far;
};

struct large_row {
	const struct source *source;
	uint32_t count;			/* 0: the row is not large */
	struct large_value values[LARGE_VALUES_MAX];
};

/* Row at of a batch that was read of a source, whose column key stays. Does not
 * look at the values. */
void large_row_find(const struct source *, const struct batch *, uint64_t at,
    uint32_t key, struct large_row *);
bool large_row_has(const struct large_row *, uint32_t column);

/* Makes their columns, of a batch of one row, far. */
struct err large_row_open(struct large_row *, large_open_fn *, void *ctx,
    struct array *columns) MUST_CHECK;
void large_row_close(struct large_row *);

#endif
