#include "common/base.h"

#include "common/hash.h"
#include "shm/metric.h"
#include "worker/lance/bloom.h"
#include "worker/store/read.h"
#include "worker/store/tail_cache.h"

#define KEEP_BATCH_MIN	(16u << 10)
#define KEEP_BATCH_MAX	(8u << 20)

void
read_count_pending(const struct snapshot *snap)
{
	uint32_t i;

	for (i = 0; i < snap->shard_count; i++)
		shm_metric_observe(METRIC_rollout_wal_pending_generations, 0,
		    snap->shards[i].source_count);
}

struct get {
	const struct store *store;
	struct slice key;
	struct arena *arena;
	struct merge_row best;
	bool found;
};

static struct err
consider(struct get *g, const struct merge_row *row)
{
	int order = 1;
	struct err e = OK;

	if (g->found)
		e = merge_compare(g->store->shape, row, &g->best, g->arena,
		    &order);
	if (!err_is(e) && order > 0) {
		g->best = *row;
		g->found = true;
	}
	return e;
}

static struct err
probe_source(struct get *g, const struct source *source, uint64_t hash)
{
	struct merge_row row = { .key = g->key, .source = source };
	struct span at;
	struct err e = OK;
	uint64_t i;

	if (!key_index_find(source->index, g->key, hash, &at))
		return OK;
	for (i = at.first; !err_is(e) && i < at.first + at.count; i++) {
		row.row = key_index_row(source->index, i);
		if (!fragment_is_deleted(source->fragment, row.row))
			e = consider(g, &row);
	}
	return e;
}

static struct err
probe_base(struct get *g, const struct base *b, const struct base_keys *k,
    uint64_t hash)
{
	struct merge_row row = { .key = g->key };
	struct span at;
	struct err e = OK;
	uint32_t source;
	uint64_t i;

	if (!key_index_find(k->index, g->key, hash, &at))
		return OK;
	for (i = at.first; !err_is(e) && i < at.first + at.count; i++) {
		if (!base_row(b, k, i, &source, &row.row))
			continue;
		row.source = b->sources[source];
		e = consider(g, &row);
	}
	return e;
}

static struct err
probe_tails(struct get *g, const struct store *s, const struct snapshot *snap)
{
	uint64_t hash = hash_bytes(g->key.ptr, g->key.len);
	struct tail_row found;
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < snap->shard_count; i++) {
		struct merge_row row = { .key = g->key };

		if (!tail_find(s->tails[i], g->key, hash,
		    snap->shards[i].manifest.replay_after, &found))
			continue;
		row.batch = found.batch;
		row.row = found.row;
		e = consider(g, &row);
	}
	return e;
}

static struct err
probe(struct get *g, const struct store *s, const struct snapshot *snap)
{
	uint64_t hash = bloom_hash(g->key);
	struct err e = probe_tails(g, s, snap);
	uint32_t i, k;

	for (i = 0; !err_is(e) && i < snap->shard_count; i++) {
		for (k = 0; !err_is(e) && k < snap->shards[i].source_count; k++)
			e = probe_source(g, snap->shards[i].sources[k], hash);
	}
	for (i = 0; !err_is(e) && i < snap->base->keys_count; i++)
		e = probe_base(g, snap->base, &snap->base->keys[i], hash);
	return e;
}

/* A large batch is likely to be asked for again, for its other rows. */
static struct err
read_tail_batch(struct store *s, const struct tail_batch *from,
    enum read_for purpose, struct arena *arena, struct batch *batch)
{
	const struct batch *kept;
	struct err e;

	if (purpose == READ_TO_KEEP || from->bytes < KEEP_BATCH_MIN ||
	    from->bytes > KEEP_BATCH_MAX)
		return tail_read(from, s->shape, arena, batch);
	e = tail_cache_read(s->engine->tails, from, s->shape, &kept);
	if (!err_is(e))
		*batch = *kept;
	return e;
}

struct err
read_get(struct store *s, const struct snapshot *snap, struct slice key,
    enum read_for purpose, struct arena *arena, struct batch *batch,
    uint64_t *at, bool *found)
{
	struct get g = { .store = s, .key = key, .arena = arena };
	struct err e;

	read_count_pending(snap);
	e = probe(&g, s, snap);
	*found = g.found;
	if (err_is(e) || !g.found)
		return e;
	if (g.best.batch != NULL) {
		*at = g.best.row;
		return read_tail_batch(s, g.best.batch, purpose, arena, batch);
	}
	*at = 0;
	return source_read(g.best.source, (struct span){ g.best.row, 1 },
	    arena, batch);
}
