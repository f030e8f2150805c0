#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "worker/maintain/collect.h"
#include "worker/maintain/explain.h"
#include "worker/maintain/fold.h"
#include "worker/maintain/rotate.h"
#include "worker/maintain/seal.h"
#include "worker/maintain/take_away.h"
#include "worker/maintain/tick.h"
#include "worker/store/pressure.h"
#include "worker/store/registry.h"
#include "worker/store/reload.h"
#include "worker/store/shape.h"

static struct err
seal_all_of(struct aged_store *a, uint32_t shard, struct tick_result *result)
{
	struct seal_result sealed;
	struct err e;

	do {
		e = aged_check(a);
		if (!err_is(e))
			e = seal_shard(a, shard, &sealed);
		if (err_is(e))
			return e;
		result->sealed += sealed.generations;
	} while (sealed.more);
	return e;
}

/* What was closed before is sealed in any case. */
static struct err
wait_and_seal(struct aged_store *a, const struct aged_shards *shards,
    struct aged_shard *s, struct tick_result *result)
{
	struct err e = rotate_wait(a, shards, s), sealed;

	a->phase = TICK_SEAL;
	sealed = seal_all_of(a, s->shard, result);
	if (err_is(e) && !err_is(sealed))
		a->phase = TICK_ROTATE;
	return err_is(sealed) ? sealed : e;
}

static void
count_seal(const struct aged_store *a, struct err e)
{
	shm_metric_add(METRIC_rollout_wal_flush_total,
	    SHM_LABEL2(KIND, aged_result(e), a->kind->id), 1);
}

static bool
in_seal(uint32_t phase)
{
	return phase == TICK_ROTATE || phase == TICK_SEAL;
}

static void
note_error(struct aged_store *a, struct err e)
{
	struct shm_tick_status *t = &shm_store_slot(a->ref)->tick;
	bool timeout = e.kind == ERR_TIMED_OUT;

	if (aged_check(a).kind == ERR_NOT_FOUND) {
		log_debug("tick ended, its store was deleted or pinned "
		    "store=%s", a->name);
		return;
	}
	/* Of a collection its own metric tells: no fold has failed. */
	if (timeout || a->phase != TICK_COLLECT)
		atomic_fetch_add_explicit(timeout ? &t->timeouts :
		    in_seal(a->phase) ? &t->seal_errors : &t->fold_errors, 1,
		    memory_order_relaxed);
	atomic_store_explicit(&t->last_err_kind, e.kind, memory_order_relaxed);
	atomic_store_explicit(&t->last_err_phase, a->phase,
	    memory_order_relaxed);
	a->late |= timeout && a->phase != TICK_ROTATE;
	/* What it has left behind is in no view. */
	if (a->phase != TICK_COLLECT)
		atomic_store_explicit(
		    &shm_store_slot(a->ref)->collected_serial, 0,
		    memory_order_relaxed);
	if (timeout)
		shm_metric_add(METRIC_memwald_tick_timeouts_total, a->phase, 1);
	log_err(LOG_WARN, e, "tick failed, the next one tries again store=%s "
	    "phase=%s", a->name, tick_phase_name(a->phase));
}

static void
check_tail(struct aged_store *a, const struct aged_shard *s,
    struct tick_result *result)
{
	struct err e = rotate_check(a, s);

	if (!err_is(e))
		return;
	a->phase = TICK_ROTATE;
	result->tail_err = aged_keep(a, e);
	note_error(a, e);
}

static void
seal_all(struct aged_store *a, const struct aged_shards *shards,
    struct tick_result *result)
{
	uint32_t i;

	for (i = 0; i < shards->count; i++) {
		struct aged_shard *s = &shards->all[i];
		struct err e;

		if (!rotate_has_any(a, s))
			continue;
		e = wait_and_seal(a, shards, s, result);
		if (err_is(e) && aged_check(a).kind == ERR_NOT_FOUND)
			continue;	/* deleted or pinned: left alone */
		if (err_is(e)) {
			result->seal_err = aged_keep(a, e);
			note_error(a, e);
		}
		count_seal(a, e);
		if (!err_is(e))
			check_tail(a, s, result);
	}
}

static uint32_t
pending_of(const struct aged_store *a, uint32_t shard)
{
	return shm_shard_marks(shm_store_shard(a->ref, shard)).
	    pending_generations;
}

/* The backlog that it saw, pass by pass; what is sealed meanwhile waits for
 * the next tick. */
static struct err
fold_all_of(struct aged_store *a, uint32_t shard, uint32_t threshold,
    struct tick_result *result)
{
	uint32_t seen = pending_of(a, shard), done = 0;
	struct fold_result folded;
	struct err e;

	if (threshold == 0 || seen < threshold)
		return OK;
	a->phase = TICK_PREPARE;
	do {
		e = aged_check(a);
		if (err_is(e))
			break;
		e = fold_shard(a, shard, &folded);
		result->reclaimed += folded.reclaimed;
		done += folded.reclaimed;
	} while (!err_is(e) && folded.more && done < seen);
	return e;
}

static void
count_fold(const struct aged_store *a, uint32_t want, struct err e,
    uint32_t reclaimed)
{
	uint32_t kind = (want & WANT_ROUTE) != 0 ? METRIC_KIND_OR_ROUTE_ROUTE :
	    a->kind->id;
	enum metric_fold_result r = e.kind == ERR_TIMED_OUT ?
	    METRIC_FOLD_RESULT_TIMEOUT : err_is(e) ? METRIC_FOLD_RESULT_FAILED :
	    reclaimed > 0 ? METRIC_FOLD_RESULT_MERGED : METRIC_FOLD_RESULT_NOOP;

	shm_metric_add(METRIC_rollout_wal_cleanup_total,
	    SHM_LABEL2(KIND_OR_ROUTE, r, kind), 1);
	shm_metric_add(METRIC_rollout_wal_generations_reclaimed_total, kind,
	    reclaimed);
}

/* Pending generations from which on a shard is folded; 0: none is. Of a store
 * with a backlog none of it is too few. */
static uint32_t
threshold_of(const struct aged_store *a, uint32_t want)
{
	uint32_t count = CONFIG_NOW(a->env->config, rollout_merge_after_generations);
	enum shm_pressure level = pressure_look(a->env->config, a->ref);

	if ((want & WANT_FORCE) != 0)
		return 1;
	return count == 0 || level == SHM_PRESSURE_NONE ? count : 1;
}

static void
fold_all(struct aged_store *a, uint32_t want, struct tick_result *result)
{
	uint32_t threshold = threshold_of(a, want), at = 0;
	struct shm_aged aged;

	while (shm_store_aged_next(a->ref, &at, &aged)) {
		struct err e = fold_all_of(a, aged.shard,
		    shm_ordinal_guest(aged.ordinal) ? 1 : threshold, result);

		if (err_is(e) && aged_check(a).kind == ERR_NOT_FOUND)
			break;		/* deleted or pinned: left alone */
		if (err_is(e)) {
			result->fold_err = aged_keep(a, e);
			note_error(a, e);
		}
	}
	count_fold(a, want, result->fold_err, result->reclaimed);
}

static void
collect_garbage(struct aged_store *a, uint32_t want, struct tick_result *result)
{
	struct err e;

	(void)want;
	aged_enter(a, TICK_COLLECT);
	e = collect_store(a, &result->collect_ns);
	if (err_is(e))
		note_error(a, e);
}

static void
count_compaction(const struct aged_store *a, struct err e,
    const struct compact_result *r)
{
	struct shm_tick_status *t = &shm_store_slot(a->ref)->tick;

	if (!err_is(e) && r->passes == 0 && a->asked == NULL)
		return;			/* there was nothing to do */
	shm_metric_add(METRIC_rollout_compactions_total, err_is(e) ?
	    METRIC_SUCCESS_FAILED : METRIC_SUCCESS_SUCCESS, 1);
	atomic_store_explicit(&t->compact_err_kind, e.kind,
	    memory_order_relaxed);
	if (r->passes == 0)
		return;
	atomic_fetch_add_explicit(&t->compactions, 1, memory_order_relaxed);
	atomic_store_explicit(&t->compacted_us, clock_wall_us(),
	    memory_order_relaxed);
}

/* By itself only after a fold: nothing else of ours adds fragments or masks. */
static void
compact(struct aged_store *a, uint32_t want, struct tick_result *result)
{
	struct err e;

	if ((want & WANT_COMPACT) == 0 && result->reclaimed == 0)
		return;
	aged_enter(a, TICK_COMPACT);
	if (a->asked != NULL)
		shm_metric_observe(METRIC_rollout_compaction_lock_wait_seconds,
		    0, clock_mono_ns() - a->asked->asked_ns);
	e = compact_store(a, a->asked != NULL ? a->asked : &compact_by_itself,
	    &result->compacted);
	result->compact_err = aged_keep(a, e);
	if (err_is(e) && aged_check(a).kind == ERR_NOT_FOUND)
		return;			/* deleted or pinned: left alone */
	count_compaction(a, e, &result->compacted);
	if (err_is(e))
		note_error(a, e);
}

/*
 * What is done under the store's guard, in this order; each if it is wanted,
 * and if the store is still there and time is left. A step counts and logs its
 * own errors (note_error), and one does not keep the next from being tried.
 */
static const struct step {
	uint32_t want;
	void (*run)(struct aged_store *, uint32_t want, struct tick_result *);
} steps[] = {
	{ WANT_FOLD, fold_all },
	{ WANT_FOLD | WANT_COMPACT, compact },
	{ WANT_FOLD | WANT_COMPACT | WANT_COLLECT, collect_garbage },
};

static uint32_t
all_steps(void)
{
	uint32_t want = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(steps); i++)
		want |= steps[i].want;
	return want;
}

static void
age_guarded(struct aged_store *a, uint32_t want, struct tick_result *result)
{
	uint64_t began = clock_mono_ns(), token = 0;
	size_t i;

	if (!err_is(FAULT(tick_guard)))
		token = shm_store_guard_try(a->ref, a->deadline_ns);
	if (token == 0) {
		atomic_fetch_add_explicit(
		    &shm_store_slot(a->ref)->tick.busy_skips, 1,
		    memory_order_relaxed);
		result->fold_err = result->compact_err = FAIL(BUSY,
		    "store is being folded");
		return;
	}
	result->guard_ns = clock_mono_ns();
	for (i = 0; i < ARRAY_LEN(steps); i++) {
		if ((want & steps[i].want) != 0 && !err_is(aged_check(a)))
			steps[i].run(a, want, result);
	}
	shm_store_guard_release(a->ref, token);
	shm_metric_observe(METRIC_memwald_guard_hold_seconds, 0,
	    clock_mono_ns() - began);
}

static void
sum_up(struct aged_store *a, struct tick_result *result)
{
	uint32_t count = threshold_of(a, WANT_FOLD), at = 0;
	struct shm_slot *slot = shm_store_slot(a->ref);
	struct shm_aged aged;

	while (shm_store_aged_next(a->ref, &at, &aged)) {
		uint32_t pending = pending_of(a, aged.shard);
		uint32_t enough = shm_ordinal_guest(aged.ordinal) ? 1 : count;

		result->pending += pending;
		if (enough != 0 && pending >= enough)
			result->over_threshold = true;
	}
	result->urgent = atomic_load_explicit(&slot->pressure,
	    memory_order_relaxed) != SHM_PRESSURE_NONE;
	/* A clean tick leaves a clean mark; what it could not do is seen by
	 * the next one. */
	if (err_is(result->seal_err) || err_is(result->tail_err) ||
	    err_is(result->fold_err) || result->over_threshold)
		shm_store_touch(a->ref);
}

static void
age(struct aged_store *a, uint32_t want, struct tick_result *result)
{
	/* The mark is of commits, so only a seal may take it away. */
	if ((want & WANT_SEAL) != 0) {
		uint64_t began = clock_mono_ns();
		struct aged_shards shards;

		(void)shm_store_untouch(a->ref);
		result->seal_err = rotate_begin(a, (want & WANT_CLAIM) != 0,
		    &shards);
		if (!err_is(result->seal_err))
			seal_all(a, &shards, result);
		rotate_end(&shards);
		if (!err_is(result->seal_err))
			shm_metric_observe(
			    METRIC_rollout_wal_merge_duration_seconds,
			    METRIC_FOLD_PHASE_SEAL, clock_mono_ns() - began);
	}
	if ((want & all_steps()) != 0)
		age_guarded(a, want, result);
	sum_up(a, result);
}

static void
delete(struct aged_store *a, struct tick_result *result)
{
	result->delete_err = aged_keep(a, take_away(a));
	if (err_is(result->delete_err)) {
		log_err(LOG_ERROR, result->delete_err, "store not deleted, "
		    "delete it again store=%s", a->name);
		return;
	}
	forget_everywhere(a);
	result->gone = true;
}

/* Whether the registry still names this store. */
static struct err
check_registered(const struct aged_store *a)
{
	return registry_check(a->env->root, a->kind, a->name,
	    &shm_store_slot(a->ref)->store);
}

static struct err
open_store(struct aged_store *a)
{
	char directory[REGISTRY_DIRECTORY_MAX];
	struct err e;

	registry_directory(a->kind, a->name, directory);
	e = object_dir_open(a->env->root, directory, false, &a->dir);
	/* The mark comes before the rename, and that before the registry's
	 * entry goes: without the one and with the other the name still was
	 * ours when we opened it. */
	if (!err_is(e))
		e = check_registered(a);
	if (!err_is(e) && (shm_store_flags(a->ref) & SHM_FLAG_DELETED) != 0)
		e = FAIL(NOT_FOUND, "store was deleted");
	if (err_is(e))
		return e;
	e = shape_load(a->kind, a->dir, &a->shape);
	if (e.kind == ERR_NOT_FOUND)
		return FAIL(CORRUPT, "store without a table");
	/* Another instance may have pinned it, or released it. */
	if (!err_is(e))
		e = reload_base(a->dir, a->ref);
	return err_is(e) ? e : aged_check(a);
}

/* A busy guard is no failure: the work is being done. */
static void
count_in_row(const struct aged_store *a, uint32_t want,
    const struct tick_result *result)
{
	struct shm_tick_status *t = &shm_store_slot(a->ref)->tick;
	bool seal_failed = in_seal(atomic_load_explicit(&t->last_err_phase,
	    memory_order_relaxed));

	if (err_is(result->seal_err) || err_is(result->tail_err) ||
	    (err_is(result->fold_err) && result->fold_err.kind != ERR_BUSY))
		atomic_fetch_add_explicit(&t->errors_in_row, 1,
		    memory_order_relaxed);
	/* A seal that went well says nothing of folds. */
	else if (seal_failed == ((want & WANT_SEAL) != 0))
		atomic_store_explicit(&t->errors_in_row, 0,
		    memory_order_relaxed);
}

/* A failure of what was to be done: of a seal, or of a fold. */
static void
not_opened(struct aged_store *a, uint32_t want, struct err e,
    struct tick_result *result)
{
	bool seals = (want & WANT_SEAL) != 0;

	a->phase = seals ? TICK_SEAL : TICK_PREPARE;
	note_error(a, e);
	if (seals) {
		result->seal_err = e;
		count_seal(a, e);
	} else {
		result->fold_err = e;
		count_fold(a, want, e, 0);
	}
}

static void
work(struct aged_store *a, uint32_t want, struct tick_result *result)
{
	struct shm_tick_status *t = &shm_store_slot(a->ref)->tick;
	struct err e;

	atomic_store_explicit(&t->last_start_us, clock_wall_us(),
	    memory_order_relaxed);
	if ((want & WANT_DELETE) != 0) {
		delete(a, result);
		return;
	}
	e = open_store(a);
	if (e.kind == ERR_NOT_FOUND) {
		/* Deleted or pinned: left alone. By another instance: who had
		 * it open here lets go of it, so that the slot can be used. */
		if (check_registered(a).kind == ERR_NOT_FOUND) {
			forget_everywhere(a);
			result->gone = true;
		}
		return;
	}
	if (err_is(e)) {
		not_opened(a, want, aged_keep(a, e), result);
		return;
	}
	explain_store(a->env->root, a->ref);
	age(a, want, result);
	atomic_fetch_add_explicit(&t->ticks, 1, memory_order_relaxed);
	atomic_store_explicit(&t->last_end_us, clock_wall_us(),
	    memory_order_relaxed);
}

/* Texts of errors that the caller sees after a's arena is gone. */
static void
plain(struct err *e)
{
	if (err_is(*e))
		e->what = err_text(*e);
}

void
tick_store(struct maintain_env *env, struct shm_ref ref, uint32_t want,
    const struct compact_wish *asked, const struct tick_limit *limit,
    struct tick_result *result)
{
	struct aged_store a = { .env = env, .ref = ref,
	    .stepped_ns = limit->stepped_ns,
	    .asked = (want & WANT_COMPACT) != 0 ? asked : NULL };
	uint64_t began = clock_mono_ns();
	struct shm_store_info info;

	*result = (struct tick_result){ .seal_err = OK, .tail_err = OK,
	    .fold_err = OK, .compact_err = OK,
	    .delete_err = OK };
	if (!shm_store_peek(ref, &info) || err_is(shm_store_pin(ref)))
		return;
	a.kind = kind_get(info.kind);
	a.deadline_ns = began + limit->span_ns;
	snprintf(a.name, sizeof(a.name), "%s", info.name);
	arena_init(&a.errors, 64u << 10);
	work(&a, want, result);
	result->late = a.late;
	count_in_row(&a, want, result);
	plain(&result->seal_err);
	plain(&result->tail_err);
	plain(&result->fold_err);
	plain(&result->compact_err);
	plain(&result->delete_err);
	arena_free(&a.errors);
	shape_drop(a.kind, a.shape);
	if (a.dir != NULL)
		object_dir_close(a.dir);
	shm_store_unpin(ref);
	if (result->gone && err_is(shm_store_evict(ref)))
		log_debug("slot of a deleted store is still in use store=%s",
		    info.name);
	shm_metric_observe(METRIC_memwald_tick_duration_seconds, info.kind,
	    clock_mono_ns() - began);
}
