#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/timer.h"
#include "shm/metric.h"
#include "worker/maintain/askers.h"
#include "worker/maintain/outcome.h"
#include "worker/maintain/runs.h"
#include "worker/maintain/ticker.h"

/* Who waits for a guard that is held looks again after this. */
#define AGAIN_NS	(50 * NS_PER_MS)
#define WATCH_NS	(500 * NS_PER_MS)	/* between looks at fold jobs */

#define SEAL_PART (WANT_SEAL | WANT_CLAIM)	/* what the first lane does */

enum lane_name { LANE_SEAL, LANE_GUARDED, LANE_COUNT };
static_assert((int)LANE_COUNT == (int)METRIC_LANE_COUNT, "counted by lane");
enum queue_name { QUEUE_FIRST, QUEUE_OTHER, QUEUE_COUNT };

struct lane {
	struct list queues[QUEUE_COUNT];
	uint32_t turn;			/* which queue is next */
	uint32_t running, queued;
};

struct job {			/* one store that is, or will be, in a lane */
	struct job *next;		/* of the same slot */
	struct list link;		/* jobs */
	struct list queue_link;		/* empty: in no queue */
	struct shm_ref ref;
	uint32_t kind;
	enum lane_name lane;
	uint32_t want, next_want;	/* of the run, and of the one after it */
	struct compact_wish compact;	/* as was asked for, by one at a time */
	bool running;
	bool first;			/* its queue is QUEUE_FIRST */
	bool waits;			/* for the guard, by the timer */
	uint64_t waits_since_ns;	/* 0: did not find it held */
	struct timer again;
	struct askers askers, next_askers;
	struct op op;
	uint64_t span_ns;		/* time limit of the run, which */
	uint64_t began_ns;
	_Atomic uint64_t stepped_ns;	/* and its last step */
	struct tick_result result;
};

static struct {
	struct runs_plan plan;
	struct lane lanes[STORE_KIND_COUNT][LANE_COUNT];
	struct list jobs;
	struct job **by_slot;
	struct timer watch;		/* set: fold jobs wait */
	bool watches;
	bool draining, closed;
	uint64_t until_ns;		/* while draining */
} runs;

static void run_queues(uint32_t kind);
static void run_all_queues(void);

static struct job *
find_job(struct shm_ref ref, enum lane_name lane)
{
	struct job *j = runs.by_slot[ref.index];

	while (j != NULL && (!shm_ref_eq(j->ref, ref) || j->lane != lane))
		j = j->next;
	return j;
}

/* Who is queued keeps his place, or gets one in the queue of the first. */
static void
queue(struct job *j)
{
	struct lane *lane = &runs.lanes[j->kind][j->lane];
	bool first = j->next_askers.count > 0 ||
	    (j->next_want & WANT_FIRST) != 0;

	timer_cancel(loop_timers(runs.plan.loop), &j->again);
	j->waits = false;
	if (!list_empty(&j->queue_link) && (j->first || !first))
		return;
	j->first = first;
	lane->queued += list_empty(&j->queue_link);
	list_remove(&j->queue_link);
	list_append(&lane->queues[first ? QUEUE_FIRST : QUEUE_OTHER],
	    &j->queue_link);
}

static void
wait_is_over(struct timer *t)
{
	struct job *j = CONTAINER_OF(t, struct job, again);

	queue(j);
	run_queues(j->kind);
}

static struct job *
new_job(struct shm_ref ref, enum lane_name lane)
{
	struct shm_slot *slot = shm_store_slot(ref);
	struct job *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->ref = ref;
	j->lane = lane;
	/* A run of a slot that is gone ends at once, in whatever lane. */
	j->kind = slot == NULL ? 0 : slot->kind;
	list_init(&j->queue_link);
	timer_init(&j->again, wait_is_over);
	list_append(&runs.jobs, &j->link);
	j->next = runs.by_slot[ref.index];
	runs.by_slot[ref.index] = j;
	return j;
}

static void
free_job(struct job *j)
{
	struct job **at = &runs.by_slot[j->ref.index];

	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
	list_remove(&j->link);
	askers_free(&j->askers);
	askers_free(&j->next_askers);
	free(j);
}

/* What was begun goes on, to its own limit. */
static void
watch(struct timer *t)
{
	const struct config *config = runs.plan.env->config;
	struct askers_clock clock = { .now_ns = clock_mono_ns(),
	    .idle_ns = config->merge_idle_timeout_secs * NS_PER_SEC };
	uint32_t left = 0;
	struct list *l;

	LIST_FOREACH(l, &runs.jobs) {
		struct job *j = CONTAINER_OF(l, struct job, link);

		clock.stepped_ns = atomic_load_explicit(&j->stepped_ns,
		    memory_order_relaxed);
		left += askers_tell_late(&j->askers, &clock);
		clock.stepped_ns = 0;
		left += askers_tell_late(&j->next_askers, &clock);
	}
	runs.watches = left > 0;
	if (runs.watches)
		timer_set(loop_timers(runs.plan.loop), t,
		    clock.now_ns + WATCH_NS);
}

static bool
add_asker(struct askers *a, const struct shm_command *c)
{
	if (!askers_add(a, c))
		return false;
	if (askers_is_fold_job(c) && !runs.watches) {
		runs.watches = true;
		timer_set(loop_timers(runs.plan.loop), &runs.watch,
		    clock_mono_ns() + WATCH_NS);
	}
	return true;
}

/* A seal that somebody asked for is no reason: the tick shares the next one. */
static bool
is_skipped(const struct job *j, uint32_t want)
{
	return (want & WANT_TICK) != 0 && ((j->next_want & WANT_TICK) != 0 ||
	    (j->running && (j->lane == LANE_GUARDED ||
	    (j->want & WANT_TICK) != 0)));
}

/* Whoever asks for a second compaction is told so (contract 2.4.6). */
static bool
is_compacted(const struct job *j, const struct shm_command *asker)
{
	return asker != NULL && asker->kind == SHM_MAIL_COMPACT && j != NULL &&
	    ((j->next_want | (j->running ? j->want : 0)) & WANT_COMPACT) != 0;
}

/* asker may be NULL; else he is answered. Begins nothing yet: what is asked for
 * together shares one run. */
static void
enqueue(struct shm_ref ref, uint32_t want, const struct shm_command *asker)
{
	enum lane_name lane = (want & WANT_SEAL) != 0 ? LANE_SEAL :
	    LANE_GUARDED;
	struct job *j;

	MUST(ref.index < shm_store_slots());
	j = runs.closed ? NULL : find_job(ref, lane);
	if (j != NULL && is_skipped(j, want)) {
		runs.plan.skipped(ref, want);
		return;
	}
	if (is_compacted(j, asker)) {
		shm_mailbox_reply(asker, FAIL(COMPACTING, "being compacted"),
		    0);
		return;
	}
	if (j == NULL && !runs.closed)
		j = new_job(ref, lane);
	if (j == NULL || (asker != NULL &&
	    !add_asker(&j->next_askers, asker))) {
		if (asker != NULL)
			shm_mailbox_reply(asker, FAIL(BUSY,
			    "maintainer has too much to do"), 0);
		return;
	}
	j->next_want |= want;
	if (asker != NULL && asker->kind == SHM_MAIL_COMPACT)
		j->compact = (struct compact_wish){ .all = true,
		    .target_rows = asker->args[0],
		    .masked = asker->args[2] != 0,
		    .asked_ns = asker->args[3] };
	if (!j->running)
		queue(j);
}

void
runs_request(struct shm_ref ref, uint32_t want)
{
	enqueue(ref, want, NULL);
	run_all_queues();
}

bool
runs_command(const struct shm_command *c)
{
	uint32_t want = outcome_want(c);

	if (want != 0) {
		enqueue(c->store, want, c);
		run_all_queues();
	}
	return want != 0;
}

/* Whoever has the guard gives it back, maybe before the asker gives up. */
static bool
waits_for_guard(const struct job *j, const struct shm_command *c)
{
	return j->lane == LANE_GUARDED && (c->kind == SHM_MAIL_FOLD ||
	    c->kind == SHM_MAIL_COMPACT) &&
	    outcome_err(&j->result, c).kind == ERR_BUSY && !runs.draining &&
	    clock_mono_ns() < c->args[1];
}

/* Who wants more than a seal waits on, in the other lane. */
static void
answer_askers(struct job *j)
{
	uint32_t i;

	for (i = 0; i < j->askers.count; i++) {
		const struct shm_command *c = &j->askers.commands[i];
		uint32_t rest = outcome_want(c) & ~(uint32_t)SEAL_PART;

		if (j->lane == LANE_SEAL && rest != 0 &&
		    !err_is(outcome_err(&j->result, c))) {
			enqueue(j->ref, rest, c);
		} else if (waits_for_guard(j, c) &&
		    add_asker(&j->next_askers, c)) {
			j->next_want |= rest;
			j->waits = true;
		} else {
			shm_mailbox_reply(c, outcome_answer(j->ref, &j->result,
			    c), outcome_count(&j->result, c));
		}
	}
	j->askers.count = 0;
}

static void
hand_on(struct job *j)
{
	uint32_t rest = j->lane == LANE_SEAL ?
	    j->want & ~(uint32_t)SEAL_PART : 0;
	struct job *guarded;

	if (rest != 0)
		enqueue(j->ref, rest, NULL);
	/* At once, not at the next tick, unless a fold just failed; one that is
	 * under way looks by itself. */
	guarded = find_job(j->ref, LANE_GUARDED);
	if (j->result.over_threshold && !err_is(j->result.fold_err) &&
	    (guarded == NULL || !guarded->running))
		enqueue(j->ref, WANT_FOLD |
		    (j->result.urgent ? WANT_FIRST : 0), NULL);
}

/* One sample for each guard that was got. */
static void
time_guard(struct job *j)
{
	uint64_t got_ns = j->result.guard_ns;

	if (got_ns != 0) {
		shm_metric_observe(METRIC_rollout_wal_merge_lock_wait_seconds,
		    0, j->waits_since_ns == 0 ? 0 : got_ns -
		    MIN(got_ns, j->waits_since_ns));
		j->waits_since_ns = 0;
	} else if (j->waits && j->waits_since_ns == 0) {
		j->waits_since_ns = clock_mono_ns();
	}
}

static void
job_done(struct op *op, int32_t res)
{
	struct job *j = CONTAINER_OF(op, struct job, op);

	(void)res;
	runs.lanes[j->kind][j->lane].running--;
	j->running = false;
	answer_askers(j);
	time_guard(j);
	runs.plan.ended(j->ref, &j->result);
	if (!runs.closed)
		hand_on(j);
	if (!j->running && list_empty(&j->queue_link)) {
		if (j->next_want == 0)
			free_job(j);
		else if (j->waits)
			timer_set(loop_timers(runs.plan.loop), &j->again,
			    clock_mono_ns() + AGAIN_NS);
		else
			queue(j);
	}
	run_all_queues();
}

static int32_t
job_run(struct op *op)
{
	struct job *j = CONTAINER_OF(op, struct job, op);

	tick_store(runs.plan.env, j->ref, j->lane == LANE_SEAL ?
	    j->want & SEAL_PART : j->want, &j->compact,
	    &(struct tick_limit){ j->span_ns, &j->stepped_ns }, &j->result);
	return 0;
}

/* A run that fold jobs alone wait for ends when the last of them is late. */
static uint64_t
span_of(const struct job *j)
{
	uint64_t span_ns = ticker_span_ns(runs.plan.env->config), until_ns = 0;
	uint32_t i;

	if ((j->want & WANT_TICK) != 0)
		return span_ns;
	for (i = 0; i < j->askers.count; i++) {
		const struct shm_command *c = &j->askers.commands[i];

		if (!askers_is_fold_job(c))
			return span_ns;
		until_ns = MAX(until_ns, c->args[2]);
	}
	return until_ns == 0 ? span_ns :
	    MIN(span_ns, until_ns - MIN(until_ns, j->began_ns));
}

static void
start_job(struct job *j)
{
	struct askers swap = j->askers;

	j->askers = j->next_askers;
	j->next_askers = swap;
	j->want = j->next_want;
	j->next_want = 0;
	j->running = true;
	j->began_ns = clock_mono_ns();
	atomic_store(&j->stepped_ns, j->began_ns);
	j->span_ns = span_of(j);
	j->op.done = job_done;
	runs.lanes[j->kind][j->lane].running++;
	/* Bounded by maintain_concurrency, not by the pool's queue. */
	pool_submit_first(runs.plan.pool, &j->op, job_run);
}

static struct list *
next_of(struct lane *lane)
{
	uint32_t i;

	for (i = 0; i < QUEUE_COUNT; i++) {
		struct list *l = list_pop(&lane->queues[lane->turn]);

		lane->turn = (lane->turn + 1) % QUEUE_COUNT;
		if (l == NULL)
			continue;
		lane->queued--;
		return l;
	}
	return NULL;
}

/* Their jobs stay, and can be queued again. */
static void
forget_queues(uint32_t kind)
{
	uint32_t i;

	for (i = 0; i < LANE_COUNT; i++) {
		while (next_of(&runs.lanes[kind][i]) != NULL)
			;
	}
}

static void
run_queues(uint32_t kind)
{
	struct list *l;
	uint32_t i;

	/* The rest stays in the WAL. */
	if (runs.draining && clock_mono_ns() > runs.until_ns)
		forget_queues(kind);
	for (i = 0; i < LANE_COUNT; i++) {
		struct lane *lane = &runs.lanes[kind][i];

		while (lane->running <
		    runs.plan.env->config->maintain_concurrency &&
		    (l = next_of(lane)) != NULL)
			start_job(CONTAINER_OF(l, struct job, queue_link));
		shm_metric_set(METRIC_memwald_runs_running,
		    SHM_LABEL2(KIND, i, kind), lane->running);
		shm_metric_set(METRIC_memwald_runs_queued,
		    SHM_LABEL2(KIND, i, kind), lane->queued);
	}
}

static void
run_all_queues(void)
{
	uint32_t kind;

	for (kind = 0; kind < STORE_KIND_COUNT; kind++)
		run_queues(kind);
}

void
runs_start(const struct runs_plan *plan)
{
	uint32_t kind, i, q;

	runs.plan = *plan;
	list_init(&runs.jobs);
	timer_init(&runs.watch, watch);
	runs.by_slot = calloc(shm_store_slots(), sizeof(*runs.by_slot));
	MUST(runs.by_slot != NULL);
	for (kind = 0; kind < STORE_KIND_COUNT; kind++) {
		for (i = 0; i < LANE_COUNT; i++) {
			for (q = 0; q < QUEUE_COUNT; q++)
				list_init(&runs.lanes[kind][i].queues[q]);
		}
	}
}

void
runs_drain(uint64_t until_ns)
{
	uint32_t kind;
	struct list *l;

	timer_cancel(loop_timers(runs.plan.loop), &runs.watch);
	runs.watches = true;		/* nobody is added any more */
	/* Who still waits is told; the tails stay in the WAL. */
	LIST_FOREACH(l, &runs.jobs) {
		struct job *j = CONTAINER_OF(l, struct job, link);

		timer_cancel(loop_timers(runs.plan.loop), &j->again);
		j->next_want = 0;
		askers_reply(&j->next_askers, FAIL(UNAVAILABLE,
		    "server is draining"));
	}
	for (kind = 0; kind < STORE_KIND_COUNT; kind++)
		forget_queues(kind);
	runs.until_ns = until_ns;
	runs.draining = true;
}

void
runs_close(void)
{
	runs.closed = true;
}

bool
runs_idle(void)
{
	uint32_t kind, i, q;

	for (kind = 0; kind < STORE_KIND_COUNT; kind++) {
		for (i = 0; i < LANE_COUNT; i++) {
			const struct lane *lane = &runs.lanes[kind][i];

			for (q = 0; q < QUEUE_COUNT; q++) {
				if (!list_empty(&lane->queues[q]))
					return false;
			}
			if (lane->running > 0)
				return false;
		}
	}
	return true;
}

uint32_t
runs_older(uint64_t before_ns)
{
	struct list *l;
	uint32_t n = 0;

	LIST_FOREACH(l, &runs.jobs) {
		const struct job *j = CONTAINER_OF(l, struct job, link);

		n += j->running && j->began_ns < before_ns;
	}
	return n;
}
