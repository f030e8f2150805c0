#include "common/base.h"

#include <stdlib.h>

#include "common/log.h"
#include "shm/metric.h"
#include "worker/store/opened.h"
#include "worker/store/snapshot.h"

/* Manifests of all shards of one view, and the arrays that name sources. */
#define SNAPSHOT_BYTES_MAX	(256u << 20)
#define SHARDS_FIRST_GUESS	32u

/* Views grow with other instances' shards: take again with the room asked. */
static struct err
take_view(struct shm_ref ref, struct snapshot *s)
{
	uint32_t room = SHARDS_FIRST_GUESS;
	struct err e;

	do {
		struct shm_view_shard *shards;

		shards = arena_calloc(&s->arena, room, sizeof(*shards));
		if (shards == NULL)
			return FAIL(NO_MEMORY, "take a view");
		s->view = (struct shm_view){ .shards = shards,
		    .shard_room = room };
		e = shm_view_take(ref, s->readers, &s->view);
		room = s->view.shard_count;
	} while (e.kind == ERR_TOO_LARGE);
	return e;
}

static struct err
open_base(struct object_dir *dir, const struct store_shape *shape,
    uint64_t version, const struct base *before, struct snapshot *s)
{
	struct table *table;
	struct err e;

	e = table_load_version(dir, version, &s->arena, &table);
	if (err_is(e))
		return e;
	return base_open(dir, shape, table, before, &s->base);
}

static struct err
open_base_of_view(struct object_dir *dir, const struct store_shape *shape,
    const struct snapshot *previous, struct snapshot *s)
{
	uint64_t version = s->view.pinned_version != 0 ?
	    s->view.pinned_version : s->view.base_version;

	if (previous != NULL && previous->base->table->version == version) {
		s->base = base_hold(previous->base);
		return OK;
	}
	return open_base(dir, shape, version,
	    previous == NULL ? NULL : previous->base, s);
}

/* A manifest that was taken back may have named another directory by this
 * number. */
static bool
named_before(const struct snapshot_shard *before,
    const struct shard_generation *g)
{
	const struct shard_manifest *m = &before->manifest;
	uint32_t i;

	for (i = 0; i < m->generation_count; i++) {
		if (m->generations[i].number == g->number)
			return slice_eq(m->generations[i].directory,
			    g->directory);
	}
	return false;
}

static struct source *
find_generation(const struct snapshot_shard *before,
    const struct shard_generation *g)
{
	uint32_t i;

	for (i = 0; before != NULL && i < before->source_count; i++) {
		if (before->sources[i]->number == g->number &&
		    named_before(before, g))
			return before->sources[i];
	}
	return NULL;
}

static const struct snapshot_shard *
find_shard(const struct snapshot *previous, const struct uuid *uuid)
{
	uint32_t i;

	for (i = 0; previous != NULL && i < previous->shard_count; i++) {
		if (uuid_eq(&previous->shards[i].uuid, uuid))
			return &previous->shards[i];
	}
	return NULL;
}

static struct err
open_generations(struct object_dir *dir, const struct store_shape *shape,
    const struct snapshot_shard *before, uint64_t folded, struct snapshot *s,
    struct snapshot_shard *shard)
{
	const struct shard_manifest *m = &shard->manifest;
	uint32_t i;

	shard->sources = arena_calloc(&s->arena, MAX(m->generation_count, 1u),
	    sizeof(struct source *));
	if (shard->sources == NULL)
		return FAIL(NO_MEMORY, "open generations");
	for (i = 0; i < m->generation_count; i++) {
		const struct shard_generation *g = &m->generations[i];
		struct source *had = find_generation(before, g);
		struct source **to = &shard->sources[shard->source_count];
		struct err e = OK;

		if (g->number <= folded)
			continue;
		if (had != NULL)
			*to = source_hold(had);
		else
			e = source_open_generation(dir, shape, &shard->uuid, g,
			    to);
		if (err_is(e))
			return e;
		shard->source_count++;
	}
	return OK;
}

static struct err
open_shard(struct object_dir *dir, const struct store_shape *shape,
    const struct snapshot *previous, struct snapshot *s,
    const struct shm_view_shard *from)
{
	struct snapshot_shard *shard = &s->shards[s->shard_count++];
	const struct snapshot_shard *before = find_shard(previous, &from->uuid);
	struct err e;

	shard->shard = from->shard;
	shard->uuid = from->uuid;
	if (from->marks.version == 0)
		return OK;
	e = shard_manifest_load_version(dir, &from->uuid, from->marks.version,
	    &s->arena, &shard->manifest);
	if (err_is(e))
		return e;
	return open_generations(dir, shape, before,
	    table_progress_of(s->base->table, &from->uuid), s, shard);
}

/* Counted, or given back. */
static struct err
opened(struct snapshot *s, struct err e, struct snapshot **out)
{
	if (e.kind == ERR_CORRUPT)
		shm_metric_add(METRIC_memwald_corrupt_sources_total, 0, 1);
	if (err_is(e)) {
		log_err(LOG_DEBUG, e, "view not opened");
		e.what = "open a view";	/* its text is in our arena */
		snapshot_drop(s);
	} else {
		s->bytes = sizeof(*s) + s->arena.total_bytes;
		opened_add(OPENED_SOURCE_BYTES, s->bytes);
		*out = s;
	}
	return e;
}

static struct snapshot *
new_snapshot(struct shm_readers *readers)
{
	struct snapshot *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	atomic_init(&s->refs, 1);
	arena_init(&s->arena, SNAPSHOT_BYTES_MAX);
	s->readers = readers;
	return s;
}

struct err
snapshot_take_version(struct object_dir *dir, const struct store_shape *shape,
    uint64_t version, const struct base *previous, struct snapshot **out)
{
	struct snapshot *s = new_snapshot(NULL);

	if (s == NULL)
		return FAIL(NO_MEMORY, "take a view");
	return opened(s, open_base(dir, shape, version, previous, s), out);
}

struct err
snapshot_take(struct object_dir *dir, const struct store_shape *shape,
    struct shm_ref ref, struct shm_readers *readers, struct snapshot *previous,
    struct snapshot **out)
{
	struct snapshot *s = new_snapshot(readers);
	struct err e;
	uint32_t i;

	if (s == NULL)
		return FAIL(NO_MEMORY, "take a view");
	e = take_view(ref, s);
	if (err_is(e)) {
		s->readers = NULL;	/* nothing is booked */
		goto out;
	}
	s->shards = arena_calloc(&s->arena, MAX(s->view.shard_count, 1u),
	    sizeof(struct snapshot_shard));
	if (s->shards == NULL) {
		e = FAIL(NO_MEMORY, "take a view");
		goto out;
	}
	e = open_base_of_view(dir, shape, previous, s);
	/* A pinned store is read at its version alone (contract 2.4.5). */
	for (i = 0; !err_is(e) && s->view.pinned_version == 0 &&
	    i < s->view.shard_count; i++)
		e = open_shard(dir, shape, previous, s, &s->view.shards[i]);
out:
	return opened(s, e, out);
}

struct snapshot *
snapshot_hold(struct snapshot *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void
snapshot_drop(struct snapshot *s)
{
	uint32_t i, k;

	if (s == NULL)
		return;
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (i = 0; i < s->shard_count; i++) {
		for (k = 0; k < s->shards[i].source_count; k++)
			source_drop(s->shards[i].sources[k]);
	}
	base_drop(s->base);
	if (s->readers != NULL)
		shm_view_drop(s->readers, &s->view);
	opened_sub(OPENED_SOURCE_BYTES, s->bytes);
	arena_free(&s->arena);
	free(s);
}

bool
snapshot_is_current(const struct snapshot *s)
{
	struct shm_slot *slot = shm_store_slot(s->view.ref);

	return slot != NULL && atomic_load_explicit(&slot->serial,
	    memory_order_acquire) == s->view.serial &&
	    (atomic_load_explicit(&slot->flags, memory_order_acquire) &
	    SHM_FLAG_STALE) == 0;
}

static bool
any_maps(struct source *const *sources, uint32_t count, const void *value)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (fragment_file_of(sources[i]->fragment, value) >= 0)
			return true;
	}
	return false;
}

bool
snapshot_maps(const struct snapshot *s, const void *value)
{
	uint32_t i;

	for (i = 0; i < s->shard_count; i++) {
		if (any_maps(s->shards[i].sources, s->shards[i].source_count,
		    value))
			return true;
	}
	return any_maps(s->base->sources, s->base->source_count, value);
}

struct snapshot_pending
snapshot_pending(const struct snapshot *s)
{
	struct snapshot_pending p = { 0, 0 };
	uint32_t i;

	for (i = 0; i < s->shard_count; i++) {
		p.most = MAX(p.most, s->shards[i].source_count);
		p.sum += s->shards[i].source_count;
	}
	return p;
}
