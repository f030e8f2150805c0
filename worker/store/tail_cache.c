#include "common/base.h"

#include <stdlib.h>

#include "worker/store/opened.h"
#include "worker/store/tail_cache.h"
#include "worker/store/tail_parts.h"

#define SLOTS		64u
#define BATCH_MAX	(2048ull << 20)	/* a row may be 1 GiB */

struct kept {
	const struct tail_batch *from;	/* NULL: free; else its entry is held */
	struct batch batch;
	struct arena arena;
	size_t bytes;
	uint64_t used;			/* the cache's count at its last read */
};

struct tail_cache {
	struct kept slots[SLOTS];
	size_t bytes;
	uint64_t reads;
};

struct err
tail_cache_new(struct tail_cache **out)
{
	struct tail_cache *c = calloc(1, sizeof(*c));
	uint32_t i;

	if (c == NULL)
		return FAIL(NO_MEMORY, "keep batches of tails");
	for (i = 0; i < SLOTS; i++)
		arena_init(&c->slots[i].arena, BATCH_MAX);
	*out = c;
	return OK;
}

static void
give_back(struct tail_cache *c, struct kept *k)
{
	arena_free(&k->arena);
	if (k->from == NULL)
		return;
	c->bytes -= k->bytes;
	opened_sub(OPENED_TAIL_BYTES, k->bytes);
	tail_entry_drop(k->from->entry);
	k->from = NULL;
}

static void
give_back_others(struct tail_cache *c, const struct kept *k)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		if (&c->slots[i] != k)
			give_back(c, &c->slots[i]);
	}
}

void
tail_cache_clear(struct tail_cache *c)
{
	give_back_others(c, NULL);
}

void
tail_cache_free(struct tail_cache *c)
{
	if (c == NULL)
		return;
	tail_cache_clear(c);
	free(c);
}

/* Where it is, or else a free slot, or the one that was read least lately. */
static struct kept *
slot_for(struct tail_cache *c, const struct tail_batch *b)
{
	struct kept *best = &c->slots[0];
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		struct kept *k = &c->slots[i];

		if (k->from == b)
			return k;
		if (best->from != NULL &&
		    (k->from == NULL || k->used < best->used))
			best = k;
	}
	return best;
}

struct err
tail_cache_read(struct tail_cache *c, const struct tail_batch *b,
    const struct store_shape *shape, const struct batch **batch)
{
	struct kept *k = slot_for(c, b);
	struct err e;

	if (k->from != b) {
		give_back(c, k);
		e = tail_read(b, shape, &k->arena, &k->batch);
		if (err_is(e)) {
			arena_free(&k->arena);
			return e;
		}
		atomic_fetch_add_explicit(&b->entry->refs, 1,
		    memory_order_relaxed);
		/* What of a large batch stays in its file costs nothing. */
		if (c->bytes + k->arena.total_bytes > TAIL_CACHE_BYTES)
			give_back_others(c, k);
		k->bytes = k->arena.total_bytes;
		k->from = b;
		c->bytes += k->bytes;
		opened_add(OPENED_TAIL_BYTES, k->bytes);
	}
	k->used = ++c->reads;
	*batch = &k->batch;
	return OK;
}
