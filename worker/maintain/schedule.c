#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "shm/server_state.h"
#include "worker/lance/own.h"
#include "worker/maintain/fold_job.h"
#include "worker/maintain/make_room.h"
#include "worker/maintain/opener.h"
#include "worker/maintain/rate.h"
#include "worker/maintain/runs.h"
#include "worker/maintain/schedule.h"
#include "worker/maintain/ticker.h"
#include "worker/maintain/walk.h"
#include "worker/store/relieve.h"
#include "worker/store/remove.h"

#define JOINED_LOOK_NS	(10 * NS_PER_MS)

static struct {
	const struct config *config;
	struct loop *loop;
	struct pool *pool;
	struct maintain_env env;
	struct relieve relieve;
	struct op trash_op;
	struct timer joined;		/* set: the ordinals are not home yet, */
	struct shm_ref *found;		/* and these wait for it */
	uint32_t found_count;
	bool trash_runs, draining;
} sched;

/* A run of a store ended. */
static void
ended(struct shm_ref ref, const struct tick_result *result)
{
	rate_backlog(result->pending);
	if (result->late || result->reclaimed > 0)
		rate_late(result->late);
	if (result->again_ns != 0)
		ticker_again(ref, result->again_ns);
	if (result->collect_ns != 0)
		ticker_collect(ref, result->collect_ns);
}

/* A tick found the store being aged. If it was a forced one, the next is. */
static void
skipped(struct shm_ref ref, uint32_t want)
{
	struct shm_slot *slot = shm_store_slot(ref);

	if (slot == NULL)
		return;
	atomic_fetch_add_explicit(&slot->tick.busy_skips, 1,
	    memory_order_relaxed);
	shm_metric_add(METRIC_memwald_ticks_skipped_total, slot->kind, 1);
	if ((want & WANT_FORCE) != 0)
		ticker_again(ref, clock_mono_ns());
	if ((want & WANT_COLLECT) != 0)
		ticker_collect(ref, clock_mono_ns());
}

static void
seal(struct shm_ref ref)
{
	runs_request(ref, WANT_SEAL);
}

static void
fold(const struct shm_command *c)
{
	MUST(runs_command(c));
}

/* Nobody closes yet what the shards hold: a run would leave it there. */
static bool
is_joining(void)
{
	return shm_server_is(SHM_SERVER_JOINING);
}

/* The walk found no slot for a store. */
static void
no_room(void)
{
	uint64_t used_ns;

	if (!is_joining() && relieve(&sched.relieve, clock_mono_ns(), &used_ns))
		make_room(used_ns, seal);
}

static void
age_now(struct shm_ref ref)
{
	runs_request(ref, WANT_SEAL | WANT_FOLD | WANT_FORCE);
}

/* The walk found one with something left. It meets each once, and a slot with
 * something left is nobody else's, so there is room. */
static void
found(struct shm_ref ref)
{
	if (is_joining() && sched.found_count < shm_store_slots())
		sched.found[sched.found_count++] = ref;
	else
		age_now(ref);
}

/* It found one in which a collection may have left something. */
static void
garbage(struct shm_ref ref)
{
	runs_request(ref, WANT_COLLECT);
}

static void
look_joined(struct timer *t)
{
	uint32_t i, left = 0;

	if (is_joining()) {
		timer_set(loop_timers(sched.loop), t,
		    loop_now_ns(sched.loop) + JOINED_LOOK_NS);
		return;
	}
	for (i = 0; i < sched.found_count; i++) {
		if (shm_store_left(sched.found[i])) {
			age_now(sched.found[i]);
			left++;
		} else {
			garbage(sched.found[i]);	/* and another's tail */
		}
	}
	sched.found_count = 0;
	log_info("ordinals are home, stores with something left are aged "
	    "stores=%u", left);
}

static void
start_joined(void)
{
	timer_init(&sched.joined, look_joined);
	if (is_joining()) {
		sched.found = calloc(shm_store_slots(), sizeof(*sched.found));
		MUST(sched.found != NULL);
	}
	/* Who comes late, or again, has nothing to wait for, and says so. */
	look_joined(&sched.joined);
}

/* Options changed; what is not kept is read where it is used. */
static void
reload(void)
{
	if (sched.draining)
		return;
	ticker_reload();
	object_pace_set_rate(&sched.env.pace, CONFIG_NOW(sched.config,
	    maintain_write_rate));
}

bool
schedule_command(const struct shm_command *c)
{
	switch (c->kind) {
	case SHM_MAIL_REPLY:
	case SHM_MAIL_ABORTED:
		ask_reply(&sched.env.asks, c);
		return true;
	case SHM_MAIL_RELIEVE:
		make_room(c->args[0], seal);
		return true;
	case SHM_MAIL_WORKERS:
		reload();
		return true;
	case SHM_MAIL_FOLD_SHARD:
		fold_job_ask(c);
		return true;
	case SHM_MAIL_OPEN:
		opener_ask(c);
		return true;
	default:
		return runs_command(c);
	}
}

static int32_t
trash_run(struct op *op)
{
	struct object_gone gone = { 0 };
	uint32_t removed, round;
	struct err e;

	(void)op;
	removed = 0;
	do {
		e = remove_trash(sched.env.root,
		    sched.config->grace_secs * US_PER_SEC, &sched.env.pace,
		    &gone, &round);
		removed += round;
	} while (!err_is(e) && round > 0);
	shm_metric_add(METRIC_memwald_collected_objects_total,
	    SHM_LABEL2(KIND_OR_ROUTE, METRIC_COLLECTED_STORE,
	    METRIC_KIND_OR_ROUTE_ROUTE), gone.objects);
	shm_metric_add(METRIC_memwald_collected_bytes_total,
	    SHM_LABEL2(KIND_OR_ROUTE, METRIC_COLLECTED_STORE,
	    METRIC_KIND_OR_ROUTE_ROUTE), gone.bytes);
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

/* Deletions that a maintainer before us began, and slots of deleted stores
 * that somebody still needed. */
static void
delete_marked(uint32_t kind)
{
	struct shm_ref ref;
	uint32_t index = 0;

	while (shm_store_next(&index, &ref)) {
		struct shm_slot *slot = shm_store_slot(ref);

		if (slot != NULL && slot->kind == kind &&
		    (shm_store_flags(ref) & SHM_FLAG_DELETED) != 0)
			runs_request(ref, WANT_DELETE);
	}
}

static void
forced(uint32_t kind)
{
	delete_marked(kind);
	/* Of all kinds; once a round is enough. */
	if (kind == 0)
		clean_trash();
}

static void
start_env(struct object_dir *root)
{
	struct maintain_env *env = &sched.env;
	struct uuid shard = shm_ordinal_shard(0);
	char text[UUID_TEXT_LEN + 1];

	env->config = sched.config;
	env->root = root;
	object_pace_init(&env->pace, CONFIG_NOW(sched.config, maintain_write_rate));
	ask_init(&env->asks);
	uuid_to_text(&shard, text);
	memcpy(env->tag, text, sizeof(env->tag) - 1);
	own_set((uint32_t)strtoul(env->tag, NULL, 16));
}

struct err
schedule_start(const struct config *config, struct loop *loop,
    struct pool *pool, struct object_dir *root)
{
	uint32_t kind;

	sched.config = config;
	sched.loop = loop;
	sched.pool = pool;
	start_env(root);
	rate_start(config, loop, &sched.env.pace);
	runs_start(&(struct runs_plan){ loop, pool, &sched.env, ended,
	    skipped });
	ticker_start(&(struct ticker_plan){ config, loop, runs_request,
	    forced });
	opener_start(pool, root, no_room);
	fold_job_start(&(struct fold_job_plan){ loop, pool, root, no_room,
	    fold });
	for (kind = 0; kind < STORE_KIND_COUNT; kind++)
		delete_marked(kind);
	start_joined();
	walk_start(&(struct walk_plan){ loop, pool, root, found,
	    garbage, no_room });
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
			seal(ref);
	}
}

void
schedule_drain(bool seal_too)
{
	sched.draining = true;
	timer_cancel(loop_timers(sched.loop), &sched.joined);
	rate_stop();
	ticker_stop();
	walk_stop();
	fold_job_stop();
	runs_drain(clock_mono_ns() + CONFIG_NOW(sched.config, drain_secs) * NS_PER_SEC / 2);
	if (seal_too)
		seal_tails();
	runs_close();
}

void
schedule_end(void)
{
	atomic_store_explicit(&sched.env.ends, true, memory_order_relaxed);
}

uint32_t
schedule_older(uint64_t before_ns)
{
	return runs_older(before_ns);
}

bool
schedule_idle(void)
{
	return runs_idle() && !sched.trash_runs && walk_idle() &&
	    opener_idle() && fold_job_idle();
}
