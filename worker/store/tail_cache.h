#ifndef MEMWALD_STORE_TAIL_CACHE_H
#define MEMWALD_STORE_TAIL_CACHE_H

/*
 * tail_cache - the batches of tails that were read last, parsed.
 *
 * A row lies in its commit's batch, and a batch of 500 rows is a megabyte: gets
 * of keys that were appended together, and lists, whose rows of one commit lie
 * apart in key order, would each read all of it again. A slot is found by the
 * batch's address; it holds the entry, so that no other batch takes that
 * address while it is kept.
 *
 * Bound:	TAIL_CACHE_BYTES, or one larger batch; of too many the one that
 *		was read least lately goes.
 * Lifetime:	a list has one of its own, a worker one for its gets. What is
 *		read is good until the next tail_cache_read.
 * Locking:	none; one thread at a time.
 */

#include "worker/store/tail.h"

#define TAIL_CACHE_BYTES	(32u << 20)

struct tail_cache;

struct err tail_cache_new(struct tail_cache **) MUST_CHECK;
/* Gives all of it back, with the entries that it holds. */
void tail_cache_clear(struct tail_cache *);
void tail_cache_free(struct tail_cache *);	/* NULL is fine */
struct err tail_cache_read(struct tail_cache *, const struct tail_batch *,
    const struct store_shape *, const struct batch **) MUST_CHECK;

#endif
