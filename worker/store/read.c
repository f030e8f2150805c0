#include "common/base.h"

#include <stdlib.h>

#include "common/hash.h"
#include "shm/metric.h"
#include "worker/lance/bloom.h"
#include "worker/store/read.h"
#include "worker/store/tail_cache.h"

#define KEEP_BATCH_MIN	(16u << 10)
#define KEEP_BATCH_MAX	(8u << 20)

/* Refuses reads that would open too much (contract 6.6), and warns early. */
static struct err
check_pending(const struct store *s)
{
	const struct config *c = s->engine->config;
	struct snapshot_pending p = snapshot_pending(s->snapshot);
	struct shm_slot *slot;
	uint32_t i;

	for (i = 0; i < s->snapshot->shard_count; i++)
		shm_metric_observe(METRIC_rollout_wal_pending_generations, 0,
		    s->snapshot->shards[i].source_count);
	if (c->rollout_wal_pending_max_generations == 0 ||
	    p.sum <= c->rollout_wal_pending_max_generations)
		return OK;
	slot = shm_store_slot(s->ref);
	if (slot != NULL)
		atomic_fetch_add_explicit(&slot->reads_refused, 1,
		    memory_order_relaxed);
	return FAIL(BUSY, "too many pending WAL generations");
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
probe_tails(struct get *g, const struct store *s)
{
	uint64_t hash = hash_bytes(g->key.ptr, g->key.len);
	struct tail_row found;
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < s->snapshot->shard_count; i++) {
		struct merge_row row = { .key = g->key };

		if (!tail_find(s->tails[i], g->key, hash,
		    s->snapshot->shards[i].manifest.replay_after, &found))
			continue;
		row.batch = found.batch;
		row.row = found.row;
		e = consider(g, &row);
	}
	return e;
}

static struct err
probe(struct get *g, const struct store *s)
{
	const struct snapshot *snap = s->snapshot;
	uint64_t hash = bloom_hash(g->key);
	struct err e = probe_tails(g, s);
	uint32_t i, k;

	for (i = 0; !err_is(e) && i < snap->shard_count; i++) {
		for (k = 0; !err_is(e) && k < snap->shards[i].source_count; k++)
			e = probe_source(g, snap->shards[i].sources[k], hash);
	}
	for (i = 0; !err_is(e) && i < snap->base->source_count; i++)
		e = probe_source(g, snap->base->sources[i], hash);
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
read_get(struct store *s, struct slice key, enum read_for purpose,
    struct arena *arena, struct batch *batch, uint64_t *at, bool *found)
{
	struct get g = { .store = s, .key = key, .arena = arena };
	struct err e = check_pending(s);

	if (!err_is(e))
		e = probe(&g, s);
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

struct read_list {
	struct snapshot *snapshot;
	uint32_t tail_count, run_count;
	struct tail_sorted *tails;
	struct merge *merge;
};

static struct err
sort_tails(struct store *s, struct read_list *l)
{
	struct err e = OK;
	uint32_t i;

	l->tails = calloc(MAX(s->snapshot->shard_count, 1u),
	    sizeof(*l->tails));
	if (l->tails == NULL)
		return FAIL(NO_MEMORY, "list a store");
	for (i = 0; !err_is(e) && i < s->snapshot->shard_count; i++) {
		e = tail_sort(s->tails[i],
		    s->snapshot->shards[i].manifest.replay_after,
		    &l->tails[i]);
		l->tail_count = i + 1;
		l->run_count += l->tails[i].run_count;
	}
	return e;
}

static void
add_sources(struct read_list *l)
{
	const struct snapshot *s = l->snapshot;
	uint32_t i, k;

	for (i = 0; i < l->tail_count; i++)
		merge_add_tail(l->merge, &l->tails[i]);
	for (i = 0; i < s->shard_count; i++) {
		for (k = 0; k < s->shards[i].source_count; k++)
			merge_add_source(l->merge, s->shards[i].sources[k]);
	}
	for (i = 0; i < s->base->source_count; i++)
		merge_add_source(l->merge, s->base->sources[i]);
}

struct err
read_list_open(struct store *s, struct read_list **out)
{
	struct read_list *l;
	struct err e = check_pending(s);

	if (err_is(e))
		return e;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return FAIL(NO_MEMORY, "list a store");
	l->snapshot = snapshot_hold(s->snapshot);
	if (s->snapshot->view.pinned_version == 0)
		e = sort_tails(s, l);
	if (!err_is(e))
		e = merge_new(s->shape, l->run_count +
		    snapshot_pending(s->snapshot).sum +
		    s->snapshot->base->source_count, &l->merge);
	if (err_is(e)) {
		read_list_close(l);
		return e;
	}
	add_sources(l);
	*out = l;
	return OK;
}

struct err
read_list_skip(struct read_list *l, uint64_t rows)
{
	struct merge_row row;
	bool found = true;
	struct err e = OK;

	while (!err_is(e) && found && rows-- > 0)
		e = merge_next(l->merge, &row, &found);
	return e;
}

struct err
read_list_next(struct read_list *l, const struct batch **batch, uint64_t *at)
{
	struct merge_row row;
	bool found;
	struct err e;

	*batch = NULL;
	e = merge_next(l->merge, &row, &found);
	if (err_is(e) || !found)
		return e;
	return merge_read(l->merge, &row, batch, at);
}

void
read_list_close(struct read_list *l)
{
	uint32_t i;

	if (l == NULL)
		return;
	merge_free(l->merge);
	for (i = 0; i < l->tail_count; i++)
		tail_sorted_free(&l->tails[i]);
	free(l->tails);
	snapshot_drop(l->snapshot);
	free(l);
}
