#ifndef MEMWALD_COMMON_ARENA_H
#define MEMWALD_COMMON_ARENA_H

/*
 * arena - memory of one request or one job, given back all at once.
 *
 * Allocation bumps a pointer in a block; a new block is made when one is full.
 * The cap bounds the sum of all blocks: beyond it an allocation answers NULL
 * and the caller turns that into 413, 503 or BUSY, never into a bigger arena.
 *
 * Lifetime:	what was allocated is good until arena_reset or arena_free.
 *		arena_reset keeps the first block, so that a connection that
 *		serves small requests never calls malloc.
 * Locking:	none; one thread at a time.
 */

#include "common/base.h"
#include "common/slice.h"

struct arena_block;

struct arena {
	struct arena_block *head;	/* newest first; the oldest is kept */
	size_t used_bytes;		/* in head */
	size_t total_bytes;		/* of all blocks */
	size_t cap_bytes;
};

void arena_init(struct arena *, size_t cap_bytes);
void arena_reset(struct arena *);
void arena_free(struct arena *);

/* 16 byte aligned and not cleared, or NULL at the cap. */
void *arena_alloc(struct arena *, size_t bytes) MUST_CHECK;
/* Cleared; count * bytes is checked for overflow. */
void *arena_calloc(struct arena *, size_t count, size_t bytes) MUST_CHECK;
/* A copy with a NUL behind it, or NULL at the cap. */
char *arena_copy(struct arena *, struct slice) MUST_CHECK;
/* Formatted text; at the cap the format string itself, so that an error
 * message is always something. */
const char *arena_printf(struct arena *, const char *fmt, ...)
    PRINTF_LIKE(2, 3);

#endif
