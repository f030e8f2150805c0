#include "common/base.h"

#include "common/clock.h"
#include "common/log.h"
#include "shm/view.h"
#include "worker/maintain/maintain.h"
#include "worker/object/local.h"
#include "worker/store/pin.h"
#include "worker/store/registry.h"

struct err
aged_check(const struct aged_store *a)
{
	struct shm_slot *slot = shm_store_slot(a->ref);
	uint64_t now_ns = clock_mono_ns();
	struct err e;

	atomic_store_explicit(a->stepped_ns, now_ns, memory_order_relaxed);
	if (slot == NULL || (shm_store_flags(a->ref) & SHM_FLAG_DELETED) != 0)
		return FAIL(NOT_FOUND, "store was deleted");
	if (atomic_load_explicit(&slot->pinned_version,
	    memory_order_acquire) != 0)
		return FAIL(NOT_FOUND, "store is pinned to a version");
	if (a->dir != NULL) {
		e = registry_here(a->env->root, a->kind, a->name, a->dir);
		if (e.kind == ERR_NOT_FOUND)
			return FAIL(NOT_FOUND, "store was deleted by another "
			    "instance");
		if (err_is(e))
			return e;
	}
	if (atomic_load_explicit(&a->env->ends, memory_order_relaxed))
		return FAIL(UNAVAILABLE, "the server is replaced by another "
		    "binary, which goes on");
	if (now_ns > a->deadline_ns)
		return FAIL(TIMED_OUT, "time limit of a tick");
	return OK;
}

void
aged_enter(struct aged_store *a, enum tick_phase phase)
{
	a->phase = phase;
	shm_store_guard_phase(a->ref, phase);
}

void
aged_remove(struct aged_store *a, const char *name, struct err why)
{
	struct object_gone gone = { 0 };
	struct err e;

	if (why.kind == ERR_UNKNOWN)
		return;
	e = object_delete_paced(a->dir, name, &a->env->pace, &gone);
	if (err_is(e))
		log_err(LOG_DEBUG, e, "output of a step that failed stays "
		    "until it is collected store=%s name=%s", a->name, name);
}

enum metric_seal_result
aged_result(struct err e)
{
	return !err_is(e) ? METRIC_SEAL_RESULT_OK :
	    e.kind == ERR_TIMED_OUT ? METRIC_SEAL_RESULT_TIMEOUT :
	    METRIC_SEAL_RESULT_FAILED;
}

struct err
aged_check_table(const struct aged_store *a, const struct table *newest)
{
	uint64_t pinned = pin_of(newest);
	struct err e;

	if (pinned == 0)
		return OK;
	e = shm_view_raise_base(a->ref, newest->version, pinned);
	return err_is(e) ? e : FAIL(NOT_FOUND, "store is pinned to a version");
}

struct err
aged_keep(struct aged_store *a, struct err e)
{
	char *copy;

	if (!err_is(e))
		return e;
	copy = arena_copy(&a->errors, slice_of(e.what));
	e.what = copy == NULL ? "no memory for the reason" : copy;
	return e;
}
