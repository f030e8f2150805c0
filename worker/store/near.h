#ifndef MEMWALD_STORE_NEAR_H
#define MEMWALD_STORE_NEAR_H

/*
 * near - a row of a large batch whose blobs lie in a file (batch.h, rule 6),
 * with all of it in memory: of that row, not of the batch.
 *
 * Lifetime:	in the arena, and what the batch looks at.
 * Errors:	IO, CORRUPT: the file has not what it had. NO_MEMORY.
 */

#include "worker/arrow/batch.h"

/* Row at as a batch of one row. */
struct err near_row(const struct batch *, uint64_t at, struct arena *,
    struct batch *) MUST_CHECK;

#endif
