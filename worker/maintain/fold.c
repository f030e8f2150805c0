#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/view.h"
#include "worker/maintain/fold_parts.h"
#include "worker/store/reload.h"

/* A store that was deleted or pinned meanwhile is left alone: no error. */
static void
time_phase(const struct fold *f, enum metric_fold_phase phase,
    uint64_t took_ns, struct err e)
{
	if (!err_is(e))
		shm_metric_observe(METRIC_rollout_wal_merge_duration_seconds,
		    phase, took_ns);
	else if (aged_check(f->aged).kind != ERR_NOT_FOUND)
		shm_metric_add(METRIC_rollout_wal_merge_errors_total, phase, 1);
}

/* Whether there is more to do than to drain. */
static bool
any_behind(const struct fold *f, uint64_t folded)
{
	uint32_t i;

	for (i = 0; i < f->manifest.generation_count; i++) {
		if (f->manifest.generations[i].number > folded)
			return true;
	}
	return false;
}

/* Of the generations of one pass; what is larger goes alone. */
static uint64_t
bytes_max(const struct fold *f)
{
	uint64_t cap = CONFIG_NOW(f->aged->env->config, rollout_merge_max_bytes);
	uint64_t room = fold_budget_room();

	return MIN(cap == 0 ? UINT64_MAX : cap, room == 0 ? UINT64_MAX : room);
}

/* Oldest first, within the caps, always one. */
static struct err
open_generations(struct fold *f, uint64_t folded, bool *more)
{
	uint32_t count_max = CONFIG_NOW(f->aged->env->config,
	    rollout_merge_max_generations);
	uint64_t most = bytes_max(f);
	uint32_t i;

	f->sources = arena_calloc(&f->arena,
	    MAX(f->manifest.generation_count, 1u), sizeof(*f->sources));
	if (f->sources == NULL)
		return FAIL(NO_MEMORY, "open generations");
	*more = false;
	f->up_to = 0;
	for (i = 0; i < f->manifest.generation_count; i++) {
		const struct shard_generation *g = &f->manifest.generations[i];
		struct source *s;
		uint64_t bytes;
		struct err e;

		if (g->number <= folded) {
			f->up_to = MAX(f->up_to, g->number);
			continue;
		}
		if (count_max != 0 && f->source_count >= count_max) {
			*more = true;
			break;
		}
		e = FAULT(fold_read);
		if (!err_is(e))
			e = source_open_generation(f->aged->dir,
			    f->aged->shape, &f->uuid, g, &s);
		if (err_is(e))
			return e;
		bytes = fragment_mapped_bytes(s->fragment);
		if (f->source_count > 0 && f->bytes + bytes > most) {
			source_drop(s);
			*more = true;
			break;
		}
		f->sources[f->source_count++] = s;
		f->bytes += bytes;
		f->up_to = g->number;
		f->max_sequence = MAX(f->max_sequence, reload_sequence(
		    s->fragment->table, SLICE(META_MAX_SEQ)));
	}
	return OK;
}

struct drain {
	uint64_t up_to;
	uint32_t drained;
};

/* Relative: what was sealed meanwhile stays. */
static struct err
drop_folded(struct shard_manifest *m, struct arena *arena, bool *stands,
    void *ctx)
{
	struct drain *d = ctx;
	struct shard_generation *kept;
	uint32_t i, n = 0;

	kept = arena_calloc(arena, MAX(m->generation_count, 1u),
	    sizeof(*kept));
	if (kept == NULL)
		return FAIL(NO_MEMORY, "drain a shard");
	for (i = 0; i < m->generation_count; i++) {
		if (m->generations[i].number > d->up_to)
			kept[n++] = m->generations[i];
	}
	d->drained = m->generation_count - n;
	*stands = d->drained == 0;
	m->generations = kept;
	m->generation_count = n;
	return OK;
}

static bool
names_our_file(const struct fold *f, const struct table *t)
{
	uint32_t i;

	for (i = 0; i < t->fragment_count; i++) {
		if (t->fragments[i].file_count > 0 && slice_eq(
		    t->fragments[i].files[0].path, slice_of(f->file.name)))
			return true;
	}
	return false;
}

/* Before the drain: the newest version, found by listing, bears the progress,
 * and what it names of ours is there (design 6.3). Else the commit went into a
 * hole that collection had left, and the generations are still needed. */
static struct err
check_folded(struct fold *f)
{
	char name[sizeof(f->file.name) + sizeof("data/")];
	struct table *newest;
	struct err e;

	e = table_load(f->aged->dir, &f->arena, &newest);
	if (err_is(e))
		return e;
	if (table_progress_of(newest, &f->uuid) < f->up_to)
		e = FAIL(CONFLICT, "the base table does not bear the fold");
	snprintf(name, sizeof(name), "data/%s", f->file.name);
	if (!err_is(e) && f->added != NULL && names_our_file(f, newest))
		e = object_exists(f->aged->dir, name);
	if (e.kind == ERR_NOT_FOUND)
		e = FAIL(CORRUPT, "the base table names a file that is gone");
	table_free(newest);
	return e;
}

static struct err
drain(struct fold *f, uint32_t *drained)
{
	struct shm_shard_state *state =
	    shm_store_shard(f->aged->ref, f->shard);
	struct drain d = { .up_to = f->up_to };
	struct shm_view_mark mark = { .shard = f->shard };
	struct shard_manifest after;
	uint64_t bytes;
	struct err e;

	aged_enter(f->aged, TICK_DRAIN);
	e = FAULT(fold_drain);
	/* What is committed stays; the next tick drains it. */
	if (!err_is(e))
		e = aged_check(f->aged);
	if (!err_is(e) && f->up_to > 0)
		e = check_folded(f);
	if (!err_is(e))
		e = shard_manifest_change(f->aged->dir, &f->uuid, drop_folded,
		    &d, &f->arena, &after);
	if (err_is(e))
		return e;
	*drained = d.drained;
	FAULT_HERE(fold_publish);
	bytes = shm_shard_marks(state).pending_bytes;
	mark.marks.version = after.version;
	mark.marks.epoch = after.epoch;
	mark.marks.replay_after = after.replay_after;
	mark.marks.pending_generations = after.generation_count;
	mark.marks.pending_bytes = after.generation_count == 0 ||
	    bytes < f->bytes ? 0 : bytes - f->bytes;
	return shm_view_raise(f->aged->ref, f->committed.version, &mark, 1,
	    NULL);
}

static struct err
prepare_then_commit(struct fold *f)
{
	uint64_t began = clock_mono_ns();
	struct err e;

	e = fold_prepare(f);
	time_phase(f, METRIC_FOLD_PHASE_READ, clock_mono_ns() - began, e);
	if (!err_is(e))
		e = aged_check(f->aged);
	if (err_is(e))
		return e;
	aged_enter(f->aged, TICK_BASE_COMMIT);
	began = clock_mono_ns();
	f->commit_phase = METRIC_FOLD_PHASE_APPEND;
	e = fold_commit(f);
	time_phase(f, f->commit_phase, clock_mono_ns() - began -
	    f->delete_keys_ns, e);
	if (!err_is(e))
		time_phase(f, METRIC_FOLD_PHASE_DELETE_KEYS, f->delete_keys_ns,
		    e);
	return e;
}

static struct err
prepare_and_commit(struct fold *f)
{
	struct err e = prepare_then_commit(f);

	if (err_is(e))
		merged_file_remove(f->aged, &f->file, e);
	return e;
}

static struct err
wait_for_slot(struct fold *f)
{
	struct err e;

	aged_enter(f->aged, TICK_WAIT);
	e = fold_budget_slot(&f->budget, f->aged);
	if (!err_is(e))
		aged_enter(f->aged, TICK_PREPARE);
	return e;
}

static struct err
wait_for_memory(struct fold *f)
{
	struct err e;

	aged_enter(f->aged, TICK_WAIT);
	e = fold_budget_memory(&f->budget, f->aged, f->bytes);
	if (!err_is(e))
		aged_enter(f->aged, TICK_PREPARE);
	return e;
}

static struct err
fold(struct fold *f, struct fold_result *result)
{
	struct table *newest;
	uint64_t began;
	struct err e;

	aged_enter(f->aged, TICK_PREPARE);
	e = shard_manifest_load(f->aged->dir, &f->uuid, &f->arena,
	    &f->manifest);
	if (e.kind == ERR_NOT_FOUND)
		return OK;		/* never written to */
	/* Nothing pending: who drained it may have died before he published
	 * that; so it goes on to the drain, which does. */
	if (!err_is(e))
		e = table_load(f->aged->dir, &f->arena, &newest);
	if (err_is(e))
		return e;
	f->committed.version = newest->version;
	e = aged_check_table(f->aged, newest);
	if (!err_is(e))
		e = table_writable(newest);
	if (!err_is(e) && any_behind(f, table_progress_of(newest, &f->uuid)))
		e = wait_for_slot(f);
	if (!err_is(e))
		e = open_generations(f, table_progress_of(newest, &f->uuid),
		    &result->more);
	table_free(newest);
	if (!err_is(e) && f->source_count > 0)
		e = wait_for_memory(f);
	if (!err_is(e) && f->source_count > 0)
		e = prepare_and_commit(f);
	if (err_is(e))
		return e;
	result->rows = f->file.fragment.row_count;
	began = clock_mono_ns();
	e = drain(f, &result->reclaimed);
	time_phase(f, METRIC_FOLD_PHASE_DRAIN, clock_mono_ns() - began, e);
	return e;
}

struct err
fold_shard(struct aged_store *aged, uint32_t shard,
    struct fold_result *result)
{
	struct fold f = { .aged = aged, .shard = shard,
	    .uuid = shm_store_shard_uuid(aged->ref, shard) };
	struct err e;
	uint32_t i;

	*result = (struct fold_result){ 0 };
	arena_init(&f.arena, FOLD_ARENA_MAX);
	e = aged_keep(aged, fold(&f, result));
	for (i = 0; i < f.source_count; i++)
		source_drop(f.sources[i]);
	source_drop(f.added);
	key_index_close(f.file.keys);
	base_drop(f.base);
	arena_free(&f.arena);
	fold_budget_give(&f.budget);
	return e;
}
