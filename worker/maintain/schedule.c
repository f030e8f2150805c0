#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/log.h"
#include "common/timer.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "worker/lance/own.h"
#include "worker/maintain/make_room.h"
#include "worker/maintain/rate.h"
#include "worker/maintain/schedule.h"
#include "worker/maintain/tick.h"
#include "worker/maintain/walk.h"
#include "worker/store/relieve.h"
#include "worker/store/remove.h"

#define SPAN_MIN_NS	(30 * NS_PER_SEC)
#define ASKERS_MAX	4096u	/* of one store and run; more: BUSY */

struct askers {			/* commands that wait for a run's outcome */
	struct shm_command *commands;
	uint32_t count, room;
};

/* A flush must not wait for a fold, so seals have a lane of their own: what
 * wants both is sealed first and then handed on. */
enum lane { LANE_SEAL, LANE_FOLD, LANE_COUNT };

struct job {			/* one store that is, or will be, in a lane */
	struct list link;		/* jobs */
	struct list queue_link;		/* its lane's queue; empty: running */
	struct shm_ref ref;
	enum lane lane;
	uint32_t want, next_want;	/* of the run, and of the one after it */
	bool running;
	struct askers askers, next_askers;
	struct op op;
	struct tick_result result;
};

static struct {
	const struct config *config;
	struct loop *loop;
	struct pool *pool;
	struct maintain_env env;
	struct timer ticker;
	uint64_t ticks, forced_every;
	uint64_t span_ns;
	struct list jobs;
	struct {
		struct list queue;
		uint32_t running;
	} lanes[LANE_COUNT];
	bool draining;
	uint64_t seal_until_ns;		/* while draining */
	struct relieve relieve;
	struct op trash_op;
	bool trash_runs;
} sched;

static void run_queues(void);

static struct job *
find_job(struct shm_ref ref, enum lane lane)
{
	struct list *l;

	LIST_FOREACH(l, &sched.jobs) {
		struct job *j = CONTAINER_OF(l, struct job, link);

		if (shm_ref_eq(j->ref, ref) && j->lane == lane)
			return j;
	}
	return NULL;
}

static struct job *
new_job(struct shm_ref ref, enum lane lane)
{
	struct job *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->ref = ref;
	j->lane = lane;
	list_init(&j->queue_link);
	list_append(&sched.jobs, &j->link);
	return j;
}

static bool
add_asker(struct askers *a, const struct shm_command *command)
{
	if (a->count == a->room) {
		uint32_t room = MAX(a->room * 2, 8u);
		struct shm_command *more;

		if (a->room >= ASKERS_MAX)
			return false;
		more = realloc(a->commands, room * sizeof(*more));
		if (more == NULL)
			return false;
		a->commands = more;
		a->room = room;
	}
	a->commands[a->count++] = *command;
	return true;
}

/* A run of the store that begins from now on; asker may be NULL. */
static void
request(struct shm_ref ref, uint32_t want, const struct shm_command *asker)
{
	enum lane lane = (want & WANT_SEAL) != 0 ? LANE_SEAL : LANE_FOLD;
	struct job *j = sched.draining ? NULL : find_job(ref, lane);

	if (j == NULL && !sched.draining)
		j = new_job(ref, lane);
	if (j == NULL || (asker != NULL &&
	    !add_asker(&j->next_askers, asker))) {
		if (asker != NULL)
			shm_mailbox_reply(asker, FAIL(BUSY,
			    "maintainer has too much to do"), 0);
		return;
	}
	j->next_want |= want;
	if (!j->running && list_empty(&j->queue_link))
		list_append(&sched.lanes[lane].queue, &j->queue_link);
	run_queues();
}

static void
seal(struct shm_ref ref)
{
	request(ref, WANT_SEAL, NULL);
}

/* The walk found no slot for a store. */
static void
no_room(void)
{
	uint64_t used_ns;

	if (relieve(&sched.relieve, clock_mono_ns(), &used_ns))
		make_room(used_ns, seal);
}

static uint32_t
want_of(const struct shm_command *c)
{
	switch (c->kind) {
	case SHM_MAIL_SEAL:
		return WANT_SEAL;
	case SHM_MAIL_FOLD:
		return WANT_SEAL | WANT_FOLD |
		    (c->args[0] != 0 ? WANT_FORCE : 0);
	case SHM_MAIL_DELETE:
		return WANT_DELETE;
	default:
		return 0;
	}
}

/* What a command asked for came to. */
static struct err
outcome(const struct job *j, const struct shm_command *c)
{
	const struct tick_result *r = &j->result;

	switch (c->kind) {
	case SHM_MAIL_DELETE:
		return r->delete_err;
	case SHM_MAIL_FOLD:
		return err_is(r->seal_err) ? r->seal_err : r->fold_err;
	default:
		return r->seal_err;
	}
}

/* Who wants a fold as well waits on, in the other lane. */
static void
answer_askers(struct job *j)
{
	uint32_t i;

	for (i = 0; i < j->askers.count; i++) {
		const struct shm_command *c = &j->askers.commands[i];
		uint32_t rest = want_of(c) & ~(uint32_t)WANT_SEAL;

		if (j->lane == LANE_SEAL && rest != 0 &&
		    !err_is(j->result.seal_err))
			request(j->ref, rest, c);
		else
			shm_mailbox_reply(c, outcome(j, c),
			    j->result.reclaimed);
	}
	j->askers.count = 0;
}

static void
job_done(struct op *op, int32_t res)
{
	struct job *j = CONTAINER_OF(op, struct job, op);
	uint32_t rest = j->lane == LANE_SEAL ?
	    j->want & ~(uint32_t)WANT_SEAL : 0;

	(void)res;
	sched.lanes[j->lane].running--;
	j->running = false;
	answer_askers(j);
	rate_backlog(j->result.pending);
	/* At once, not at the next tick, unless the fold just failed. */
	if (j->result.over_threshold && !err_is(j->result.fold_err))
		rest |= WANT_FOLD;
	if (rest != 0)
		request(j->ref, rest, NULL);
	if (!j->running && list_empty(&j->queue_link)) {
		if (j->next_want != 0) {
			list_append(&sched.lanes[j->lane].queue,
			    &j->queue_link);
		} else {
			list_remove(&j->link);
			free(j->askers.commands);
			free(j->next_askers.commands);
			free(j);
		}
	}
	run_queues();
}

static int32_t
job_run(struct op *op)
{
	struct job *j = CONTAINER_OF(op, struct job, op);

	tick_store(&sched.env, j->ref, j->lane == LANE_SEAL ? WANT_SEAL :
	    j->want, sched.span_ns, &j->result);
	return 0;
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
	j->op.done = job_done;
	sched.lanes[j->lane].running++;
	/* Bounded by maintain_concurrency, not by the pool's queue. */
	pool_submit_first(sched.pool, &j->op, job_run);
}

static void
forget_queues(void)
{
	uint32_t i;

	for (i = 0; i < LANE_COUNT; i++) {
		while (list_pop(&sched.lanes[i].queue) != NULL)
			;	/* its job stays, and can be queued again */
	}
}

static void
run_queues(void)
{
	struct list *l;
	uint32_t i;

	/* The rest stays in the WAL. */
	if (sched.draining && clock_mono_ns() > sched.seal_until_ns)
		forget_queues();
	for (i = 0; i < LANE_COUNT; i++) {
		while (sched.lanes[i].running <
		    sched.config->maintain_concurrency &&
		    (l = list_pop(&sched.lanes[i].queue)) != NULL)
			start_job(CONTAINER_OF(l, struct job, queue_link));
	}
}

bool
schedule_command(const struct shm_command *c)
{
	switch (c->kind) {
	case SHM_MAIL_REPLY:
	case SHM_MAIL_ABORTED:
		ask_reply(&sched.env.asks, c);
		return true;
	case SHM_MAIL_SEAL:
	case SHM_MAIL_FOLD:
	case SHM_MAIL_DELETE:
		request(c->store, want_of(c), c);
		return true;
	case SHM_MAIL_RELIEVE:
		make_room(c->args[0], seal);
		return true;
	default:
		return false;
	}
}

/* ---- the ticker */

static void
warn_pending(const struct shm_store_info *info)
{
	uint32_t limit = sched.config->rollout_wal_pending_warn_generations;

	if (limit != 0 && info->pending_generations_max >= limit)
		log_warn("store has many unfolded generations, reads get "
		    "slower: check that folds succeed store=%s kind=%s "
		    "generations=%u bytes=%llu", info->name,
		    store_kind_name(info->kind), info->pending_generations,
		    (unsigned long long)info->pending_bytes);
}

static void
tick_all(bool forced)
{
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t index = 0;

	while (shm_store_next(&index, &ref)) {
		struct shm_slot *slot = shm_store_slot(ref);

		/* One load for a store at rest. */
		if (slot == NULL || (!forced && atomic_load_explicit(
		    &slot->dirty, memory_order_relaxed) == 0))
			continue;
		if (!shm_store_peek(ref, &info) ||
		    kind_get(info.kind) == NULL ||
		    (info.flags & SHM_FLAG_DELETED) != 0)
			continue;
		warn_pending(&info);
		if (info.dirty || info.tail_shards > 0 ||
		    info.pending_generations > 0)
			request(ref, WANT_SEAL | WANT_FOLD |
			    (forced ? WANT_FORCE : 0), NULL);
	}
}

static int32_t
trash_run(struct op *op)
{
	uint32_t removed, round;
	struct err e;

	(void)op;
	removed = 0;
	do {
		e = remove_trash(sched.env.root,
		    sched.config->grace_secs * US_PER_SEC, &round);
		removed += round;
	} while (!err_is(e) && round > 0);
	if (err_is(e))
		log_err(LOG_WARN, e, "files of deleted stores not removed, "
		    "the next forced tick tries again");
	else if (removed > 0)
		log_info("files of deleted stores removed stores=%u", removed);
	return 0;
}

static void
trash_done(struct op *op, int32_t res)
{
	(void)op;
	(void)res;
	sched.trash_runs = false;
}

static void
clean_trash(void)
{
	sched.trash_op.done = trash_done;
	if (!sched.trash_runs)
		sched.trash_runs = pool_submit(sched.pool, &sched.trash_op,
		    trash_run);
}

/* A deletion that a maintainer before us began, and slots of deleted stores
 * that somebody still needed. */
static void
delete_marked(void)
{
	struct shm_ref ref;
	uint32_t index = 0;

	while (shm_store_next(&index, &ref)) {
		if ((shm_store_flags(ref) & SHM_FLAG_DELETED) != 0)
			request(ref, WANT_DELETE, NULL);
	}
}

static uint64_t
interval_ns(void)
{
	return sched.config->rollout_flush_interval_secs * NS_PER_SEC;
}

static void
tick(struct timer *t)
{
	uint64_t now = clock_mono_ns();
	uint64_t next = t->deadline_ns + interval_ns();
	bool forced;

	forced = sched.forced_every != 0 &&
	    ++sched.ticks % sched.forced_every == 0;
	tick_all(forced);
	if (forced) {
		clean_trash();
		delete_marked();
	}
	/* Late ones are skipped, not caught up. */
	while (next <= now) {
		shm_metric_add(METRIC_memwald_ticks_missed_total,
		    STORE_ROLLOUT, 1);
		next += interval_ns();
	}
	if (!sched.draining)
		timer_set(loop_timers(sched.loop), t, next);
}

static void
start_ticker(void)
{
	uint64_t flush = sched.config->rollout_flush_interval_secs;
	uint64_t cleanup = sched.config->rollout_cleanup_interval_secs;

	sched.span_ns = MAX(5 * flush * NS_PER_SEC, SPAN_MIN_NS);
	if (flush == 0) {
		log_warn("flush interval is 0: no ticker, nothing is sealed or "
		    "folded unless a request asks for it");
		return;
	}
	if (cleanup == 0)
		log_warn("cleanup interval is 0: no forced folds, shards below "
		    "the count trigger stay unfolded");
	else
		sched.forced_every = MAX((cleanup + flush - 1) / flush, 1ull);
	timer_init(&sched.ticker, tick);
	timer_set(loop_timers(sched.loop), &sched.ticker,
	    clock_mono_ns() + interval_ns());
}

static void
found(struct shm_ref ref)
{
	request(ref, WANT_SEAL | WANT_FOLD | WANT_FORCE, NULL);
}

struct err
schedule_start(const struct config *config, struct loop *loop,
    struct pool *pool, struct object_dir *root)
{
	struct uuid shard = shm_ordinal_shard(0);
	char text[UUID_TEXT_LEN + 1];

	sched.config = config;
	sched.loop = loop;
	sched.pool = pool;
	sched.env.config = config;
	sched.env.root = root;
	object_pace_init(&sched.env.pace, config->maintain_write_rate);
	ask_init(&sched.env.asks);
	uuid_to_text(&shard, text);
	memcpy(sched.env.tag, text, sizeof(sched.env.tag) - 1);
	own_set((uint32_t)strtoul(sched.env.tag, NULL, 16));
	list_init(&sched.jobs);
	list_init(&sched.lanes[LANE_SEAL].queue);
	list_init(&sched.lanes[LANE_FOLD].queue);
	rate_start(config, loop, &sched.env.pace);
	start_ticker();
	delete_marked();
	walk_start(&(struct walk_plan){ loop, pool, root, found, no_room });
	return OK;
}

/* Stores with a tail; their owners have closed what they could. */
static void
seal_tails(void)
{
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t index = 0;

	while (shm_store_next(&index, &ref)) {
		if (shm_store_peek(ref, &info) && info.tail_shards > 0 &&
		    kind_get(info.kind) != NULL &&
		    (info.flags & SHM_FLAG_DELETED) == 0)
			request(ref, WANT_SEAL, NULL);
	}
}

void
schedule_drain(bool seal)
{
	struct list *l;

	rate_stop();
	timer_cancel(loop_timers(sched.loop), &sched.ticker);
	walk_stop();
	/* Who still waits is told; the tails stay in the WAL. */
	LIST_FOREACH(l, &sched.jobs) {
		struct job *j = CONTAINER_OF(l, struct job, link);
		uint32_t i;

		j->next_want = 0;
		for (i = 0; i < j->next_askers.count; i++)
			shm_mailbox_reply(&j->next_askers.commands[i],
			    FAIL(UNAVAILABLE, "server is draining"), 0);
		j->next_askers.count = 0;
	}
	forget_queues();
	sched.seal_until_ns = clock_mono_ns() +
	    sched.config->drain_secs * NS_PER_SEC / 2;
	if (seal)
		seal_tails();
	sched.draining = true;
}

bool
schedule_idle(void)
{
	return sched.lanes[LANE_SEAL].running == 0 &&
	    sched.lanes[LANE_FOLD].running == 0 &&
	    list_empty(&sched.lanes[LANE_SEAL].queue) &&
	    list_empty(&sched.lanes[LANE_FOLD].queue) &&
	    !sched.trash_runs && walk_idle();
}
