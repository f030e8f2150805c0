#include "common/base.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "common/clock.h"
#include "common/list.h"
#include "shm/budget.h"
#include "shm/metric.h"
#include "worker/maintain/fold_budget.h"

/* What others than this process give back, and deletions, are seen so late. */
#define LOOK_MS 20

struct waiter {			/* a thread; the first of its line tries */
	struct list link;
};

static struct line {
	enum shm_budget budget;
	enum shm_metric wait;
	struct list waiting;
} slots = { SHM_BUDGET_FOLD_SLOTS, METRIC_rollout_wal_merge_slot_wait_seconds,
    { &slots.waiting, &slots.waiting } },
  memory = { SHM_BUDGET_FOLD_MEMORY, METRIC_rollout_merge_budget_wait_seconds,
    { &memory.waiting, &memory.waiting } };

/* Of both lines: a fold waits for seconds, if it does. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

/* With the mutex held. */
static void
wait_a_little(void)
{
	struct timespec until;
	int rc;

	MUST(clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_nsec += LOOK_MS * (long)NS_PER_MS;
	until.tv_sec += until.tv_nsec / (long)NS_PER_SEC;
	until.tv_nsec %= (long)NS_PER_SEC;
	rc = pthread_cond_timedwait(&moved, &mutex, &until);
	MUST(rc == 0 || rc == ETIMEDOUT);
}

static struct err
take(struct line *line, const struct aged_store *a, uint64_t amount)
{
	uint64_t began_ns = clock_mono_ns();
	struct waiter me;
	struct err e = OK;

	MUST(pthread_mutex_lock(&mutex) == 0);
	list_append(&line->waiting, &me.link);
	while (line->waiting.next != &me.link ||
	    !shm_budget_take_alone(line->budget, amount)) {
		e = aged_check(a);
		if (err_is(e))
			break;
		wait_a_little();
	}
	list_remove(&me.link);
	MUST(pthread_cond_broadcast(&moved) == 0);
	MUST(pthread_mutex_unlock(&mutex) == 0);
	if (!err_is(e))
		shm_metric_observe(line->wait, 0, clock_mono_ns() - began_ns);
	return e;
}

static void
give(struct line *line, uint64_t amount)
{
	MUST(pthread_mutex_lock(&mutex) == 0);
	shm_budget_give(line->budget, amount);
	MUST(pthread_cond_broadcast(&moved) == 0);
	MUST(pthread_mutex_unlock(&mutex) == 0);
}

struct err
fold_budget_slot(struct fold_budget *b, const struct aged_store *a)
{
	struct err e;

	MUST(!b->slot);
	e = take(&slots, a, 1);
	b->slot = !err_is(e);
	if (e.kind == ERR_TIMED_OUT) {
		shm_metric_add(METRIC_rollout_wal_self_merge_skipped_total,
		    a->kind->id, 1);
		e.what = "no fold slot within the time limit";
	}
	return e;
}

struct err
fold_budget_memory(struct fold_budget *b, const struct aged_store *a,
    uint64_t bytes)
{
	uint64_t amount = bytes + FOLD_BUFFER_BYTES;
	struct err e;

	MUST(b->slot && b->bytes == 0);
	e = take(&memory, a, amount);
	if (!err_is(e))
		b->bytes = amount;
	if (e.kind == ERR_TIMED_OUT)
		e.what = "no memory for folds within the time limit";
	return e;
}

uint64_t
fold_budget_room(void)
{
	uint64_t limit = shm_budget_limit(SHM_BUDGET_FOLD_MEMORY);

	if (limit == 0)
		return 0;
	return limit > FOLD_BUFFER_BYTES ? limit - FOLD_BUFFER_BYTES : 1;
}

void
fold_budget_give(struct fold_budget *b)
{
	if (b->bytes != 0)
		give(&memory, b->bytes);
	if (b->slot)
		give(&slots, 1);
	*b = (struct fold_budget){ 0 };
}
