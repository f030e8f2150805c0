#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/timer.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "worker/maintain/tick.h"
#include "worker/maintain/ticker.h"

#define SPAN_MIN_NS	(30 * NS_PER_SEC)
#define SPAN_INTERVALS	5

struct ticker {			/* of one kind */
	struct timer timer;
	uint64_t ticks;
};

struct again {			/* of one slot; at_ns 0: nothing */
	uint64_t at_ns;
	uint32_t incarnation;
};

static struct {
	struct ticker_plan plan;
	struct ticker kinds[STORE_KIND_COUNT];
	uint64_t interval_ns;
	uint64_t forced_every;		/* ticks; UINT64_MAX: never */
	struct again *again, *collect;	/* by slot */
} tickers;

uint64_t
ticker_span_ns(const struct config *c)
{
	return MAX(SPAN_INTERVALS * CONFIG_NOW(c, rollout_flush_interval_secs) *
	    NS_PER_SEC, SPAN_MIN_NS);
}

static void
note_again(struct again *a, struct shm_ref ref, uint64_t at_ns)
{
	if (a->at_ns == 0 || a->incarnation != ref.incarnation ||
	    at_ns < a->at_ns)
		*a = (struct again){ at_ns, ref.incarnation };
}

void
ticker_again(struct shm_ref ref, uint64_t at_ns)
{
	note_again(&tickers.again[ref.index], ref, at_ns);
}

void
ticker_collect(struct shm_ref ref, uint64_t at_ns)
{
	note_again(&tickers.collect[ref.index], ref, at_ns);
}

/* Whether that is due, which is then done with. */
static bool
take_again(struct again *a, struct shm_ref ref, uint64_t now_ns)
{
	if (a->at_ns == 0 || a->at_ns > now_ns)
		return false;
	a->at_ns = 0;
	return a->incarnation == ref.incarnation;
}

static void
warn_pending(struct shm_ref ref)
{
	uint32_t limit =
	    CONFIG_NOW(tickers.plan.config, rollout_wal_pending_warn_generations);
	struct shm_store_info info;

	if (limit != 0 && shm_store_peek(ref, &info) &&
	    info.pending_generations_max >= limit)
		log_warn("store has many unfolded generations, reads get "
		    "slower: check that folds succeed store=%s kind=%s "
		    "generations=%u bytes=%llu", info.name,
		    store_kind_name(info.kind), info.pending_generations,
		    (unsigned long long)info.pending_bytes);
}

/* A slot that a worker loaded, or whose last try to do something failed: whether
 * there is garbage nobody knows yet. */
static bool
is_unlooked(struct shm_ref ref, const struct shm_slot *slot)
{
	const struct again *a = &tickers.collect[ref.index];

	return (a->at_ns == 0 || a->incarnation != ref.incarnation) &&
	    atomic_load_explicit(&slot->pinned_version,
	    memory_order_relaxed) == 0 &&
	    atomic_load_explicit(&slot->collected_serial,
	    memory_order_relaxed) != atomic_load_explicit(&slot->serial,
	    memory_order_relaxed);
}

/* True: it is due. */
static bool
tick_store_of(struct shm_ref ref, const struct shm_slot *slot, bool forced,
    uint64_t now_ns)
{
	bool again = take_again(&tickers.again[ref.index], ref, now_ns);
	bool collect = (forced && is_unlooked(ref, slot)) ||
	    take_again(&tickers.collect[ref.index], ref, now_ns);
	bool idle = !again && atomic_load_explicit(&slot->dirty,
	    memory_order_relaxed) == 0 && (!forced || !shm_store_left(ref));
	bool first;

	if (idle && !collect)
		return false;
	if ((shm_store_flags(ref) & SHM_FLAG_DELETED) != 0)
		return false;
	if (idle) {
		tickers.plan.due(ref, WANT_COLLECT | WANT_TICK);
		return true;
	}
	warn_pending(ref);
	first = atomic_load_explicit(&slot->pressure, memory_order_relaxed) !=
	    SHM_PRESSURE_NONE;
	tickers.plan.due(ref, WANT_SEAL | WANT_FOLD | WANT_TICK |
	    (first ? WANT_FIRST : 0) |
	    (forced || again ? WANT_FORCE : 0) |
	    (collect ? WANT_COLLECT : 0));
	return true;
}

/* How many stores are due. */
static uint32_t
tick_kind(uint32_t kind, bool forced, uint64_t now_ns)
{
	struct shm_ref ref;
	uint32_t index = 0, due = 0;

	while (shm_store_next(&index, &ref)) {
		struct shm_slot *slot = shm_store_slot(ref);

		if (slot != NULL && slot->kind == kind)
			due += tick_store_of(ref, slot, forced, now_ns);
	}
	return due;
}

static void
tick(struct timer *t)
{
	struct ticker *k = CONTAINER_OF(t, struct ticker, timer);
	uint32_t kind = (uint32_t)(k - tickers.kinds);
	uint64_t now_ns = clock_mono_ns();
	uint64_t next_ns = t->deadline_ns + tickers.interval_ns;
	bool forced = ++k->ticks % tickers.forced_every == 0;
	uint32_t due;

	for (; next_ns <= now_ns; next_ns += tickers.interval_ns)
		shm_metric_add(METRIC_memwald_ticks_missed_total, kind, 1);
	timer_set(loop_timers(tickers.plan.loop), t, next_ns);
	/* Nothing new for who is about to leave: the next one has tickers. And
	 * before the ordinals are home nobody closes what the shards hold. */
	if (shm_server_is(SHM_SERVER_HANDING_OVER) ||
	    shm_server_is(SHM_SERVER_JOINING))
		return;
	due = tick_kind(kind, forced, now_ns);
	log_debug("tick kind=%s number=%llu forced=%d stores=%u",
	    store_kind_name(kind), (unsigned long long)k->ticks, forced, due);
	if (forced)
		tickers.plan.forced(kind);
}

/* What somebody may not have meant. */
static void
warn_intervals(uint64_t flush, uint64_t cleanup)
{
	if (flush == 0)
		log_warn("flush interval is 0: no ticker and no forced folds, "
		    "nothing is sealed or folded unless a request asks for it "
		    "or a seal reaches the count trigger");
	else if (cleanup == 0)
		log_warn("cleanup interval is 0: no forced folds, shards below "
		    "the count trigger stay unfolded");
	else if (cleanup < flush)
		log_warn("cleanup interval is shorter than the flush interval: "
		    "every tick is forced, none comes earlier interval_s=%llu",
		    (unsigned long long)flush);
	else if (cleanup % flush != 0)
		log_warn("cleanup interval is no multiple of the flush "
		    "interval: the next longer one counts every=%llu "
		    "interval_s=%llu",
		    (unsigned long long)tickers.forced_every,
		    (unsigned long long)(tickers.forced_every * flush));
}

/* By the options as they are now; the next tick is a whole interval away. */
static void
set_intervals(void)
{
	uint64_t flush = CONFIG_NOW(tickers.plan.config,
	    rollout_flush_interval_secs);
	uint64_t cleanup = CONFIG_NOW(tickers.plan.config,
	    rollout_cleanup_interval_secs);
	struct loop *loop = tickers.plan.loop;
	uint64_t every = flush == 0 || cleanup == 0 ? UINT64_MAX :
	    (cleanup + flush - 1) / flush;
	uint32_t kind;

	if (flush * NS_PER_SEC == tickers.interval_ns &&
	    every == tickers.forced_every)
		return;
	tickers.interval_ns = flush * NS_PER_SEC;
	tickers.forced_every = every;
	warn_intervals(flush, cleanup);
	for (kind = 0; kind < STORE_KIND_COUNT; kind++) {
		timer_cancel(loop_timers(loop), &tickers.kinds[kind].timer);
		if (flush != 0)
			timer_set(loop_timers(loop),
			    &tickers.kinds[kind].timer,
			    clock_mono_ns() + tickers.interval_ns);
	}
}

void
ticker_reload(void)
{
	set_intervals();
}

void
ticker_start(const struct ticker_plan *plan)
{
	uint32_t kind;

	tickers.plan = *plan;
	tickers.again = calloc(shm_store_slots(), sizeof(*tickers.again));
	tickers.collect = calloc(shm_store_slots(), sizeof(*tickers.collect));
	MUST(tickers.again != NULL && tickers.collect != NULL);
	for (kind = 0; kind < STORE_KIND_COUNT; kind++)
		timer_init(&tickers.kinds[kind].timer, tick);
	set_intervals();
}

void
ticker_stop(void)
{
	uint32_t kind;

	for (kind = 0; kind < STORE_KIND_COUNT; kind++)
		timer_cancel(loop_timers(tickers.plan.loop),
		    &tickers.kinds[kind].timer);
}
