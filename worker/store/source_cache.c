#include "common/base.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/metric.h"
#include "worker/store/append.h"
#include "worker/store/opened.h"
#include "worker/store/read.h"
#include "worker/store/store.h"
#include "worker/store/tail_cache.h"

#define LOOK_NS		NS_PER_SEC
/* Before the grace is over (600 s): what an idle view keeps from collection is
 * given back; and an idle entry is sealed. */
#define IDLE_VIEW_NS	(60 * NS_PER_SEC)
#define IDLE_HANDLE_NS	(600 * NS_PER_SEC)
/* Stores that one turn lets go: unmapping takes its time. */
#define BATCH_MAX	64u
#define RELIEVE_MAX	256u
#define TRIM_MIN	256u	/* views and the like */
/* Marks of use are a second coarse (store_table.h). */
#define USE_COARSE_NS	NS_PER_SEC

/* What jobs of the pool open for a moment, and the log. */
#define TRANSIENT_DESCRIPTORS 24u
#define DESCRIPTORS_MIN	8u
#define MAPS_DEFAULT	65530u
#define MAPS_MIN	1024u

static uint32_t
count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	if (dir == NULL)
		return TRANSIENT_DESCRIPTORS;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* Of what is free now connections get what they may have, half at most. */
static uint64_t
descriptors_max(const struct config *c)
{
	uint64_t used = count_descriptors() + TRANSIENT_DESCRIPTORS, left;
	struct rlimit l;

	MUST(getrlimit(RLIMIT_NOFILE, &l) == 0);
	left = l.rlim_cur > used ? l.rlim_cur - used : 0;
	left -= MIN(left / 2, (uint64_t)c->connections_max);
	return MAX(left, (uint64_t)DESCRIPTORS_MIN);
}

/* The kernel's bound on mappings of a process, without what heap, stacks and
 * libraries take. */
static uint64_t
maps_max(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long long n;

	if (f == NULL)
		return MAPS_DEFAULT / 2;
	if (fscanf(f, "%llu", &n) != 1)
		n = MAPS_DEFAULT;
	fclose(f);
	return MAX(n / 2, (unsigned long long)MAPS_MIN);
}

static struct store *
store_of(struct list *l, enum kept what)
{
	struct kept_link *k = CONTAINER_OF(l, struct kept_link, link);

	return CONTAINER_OF(k - what, struct store, kept[0]);
}

static bool
in_use(const struct store *s)
{
	return s->uses > 0 || s->loading || s->viewing || append_busy(s);
}

static void
let_go(struct store *s, enum kept what)
{
	s->engine->cache.let_go++;
	if (what != KEPT_ENTRY && (s->snapshot != NULL || s->past != NULL)) {
		read_close(s);
		shm_metric_add(METRIC_memwald_source_cache_evictions_total, 0,
		    1);
	}
	switch (what) {
	case KEPT_VIEW:
		break;
	case KEPT_ENTRY:
		append_rest(s);
		break;
	default:
		shm_metric_add(METRIC_memwald_store_handles_evicted_total, 0,
		    1);
		append_leave(s);
		store_forget(s);
	}
}

void
source_cache_used(struct store *s, enum kept what)
{
	struct kept_link *k = &s->kept[what];

	k->used_ns = loop_now_ns(s->engine->loop);
	list_remove(&k->link);
	list_append(&s->engine->cache.orders[what], &k->link);
}

void
source_cache_gone(struct store *s, enum kept what)
{
	list_remove(&s->kept[what].link);
}

/* Lets go of the least used that was not used after the time given; who is in
 * use now goes last. False: there is none. */
static bool
let_go_least(struct source_cache *c, enum kept what, uint64_t used_before_ns)
{
	struct list *order = &c->orders[what];
	uint32_t tries;

	for (tries = 0; tries < BATCH_MAX && !list_empty(order); tries++) {
		struct store *s = store_of(order->next, what);

		if (s->kept[what].used_ns > used_before_ns)
			return false;
		if (!in_use(s)) {
			let_go(s, what);
			return true;
		}
		source_cache_used(s, what);
	}
	return false;
}

static void
idle(struct source_cache *c, enum kept what, uint64_t span_ns)
{
	uint64_t now = loop_now_ns(c->engine->loop);
	uint32_t n = 0;

	if (now > span_ns)
		while (n++ < BATCH_MAX && let_go_least(c, what, now - span_ns))
			;
}

static int32_t
trim_heap(struct op *op)
{
	(void)op;
	malloc_trim(0);
	return 0;
}

static void
heap_trimmed(struct op *op, int32_t res)
{
	CONTAINER_OF(op, struct source_cache, trim_op)->trimming = false;
	(void)res;
}

/* What many stores held lies in pieces all over the heap, which keeps it: once
 * no more of them go it is handed to the kernel. */
static void
give_memory_back(struct source_cache *c)
{
	bool more = c->let_go != c->let_go_seen;

	c->let_go_seen = c->let_go;
	if (more || c->trimming || c->let_go - c->let_go_trimmed < TRIM_MIN)
		return;
	c->trim_op.done = heap_trimmed;
	c->trimming = pool_submit(c->engine->pool, &c->trim_op, trim_heap);
	if (c->trimming)
		c->let_go_trimmed = c->let_go;
}

static void
look(struct timer *t)
{
	struct source_cache *c = CONTAINER_OF(t, struct source_cache, look);
	struct loop *loop = c->engine->loop;

	idle(c, KEPT_VIEW, IDLE_VIEW_NS);
	idle(c, KEPT_ENTRY, IDLE_VIEW_NS);
	idle(c, KEPT_HANDLE, IDLE_HANDLE_NS);
	/* Its batches hold entries of tails that may be sealed by now. */
	if (list_empty(&c->orders[KEPT_VIEW]))
		tail_cache_clear(c->engine->tails);
	give_memory_back(c);
	timer_set(loop_timers(loop), t, loop_now_ns(loop) + LOOK_NS);
}

static void
share_bytes(struct source_cache *c, uint32_t workers)
{
	uint64_t all = CONFIG_NOW(c->engine->config, rollout_cache_bytes);

	c->bytes_max = all == 0 ? UINT64_MAX : all / MAX(workers, 1u);
}

void
source_cache_init(struct source_cache *c, struct engine *en, uint32_t workers)
{
	const struct config *config = en->config;
	uint32_t i;

	*c = (struct source_cache){ .engine = en };
	for (i = 0; i < KEPT_COUNT; i++)
		list_init(&c->orders[i]);
	share_bytes(c, workers);
	c->maps_max = maps_max();
	c->descriptors_max = descriptors_max(config);
	log_info("bounds of what is kept open bytes=%llu maps=%llu "
	    "descriptors=%llu", (unsigned long long)c->bytes_max,
	    (unsigned long long)c->maps_max,
	    (unsigned long long)c->descriptors_max);
	timer_init(&c->look, look);
	timer_set(loop_timers(en->loop), &c->look,
	    loop_now_ns(en->loop) + LOOK_NS);
}

bool
source_cache_has_room(const struct source_cache *c)
{
	return opened_now(OPENED_DESCRIPTORS) < c->descriptors_max;
}

static uint64_t
bytes_now(void)
{
	return opened_now(OPENED_SOURCE_BYTES) + opened_now(OPENED_TAIL_BYTES);
}

static void
say(void)
{
	shm_metric_set(METRIC_memwald_source_cache_entries, 0,
	    opened_now(OPENED_SOURCES));
	shm_metric_set(METRIC_memwald_source_cache_bytes, 0,
	    opened_now(OPENED_SOURCE_BYTES));
	shm_metric_set(METRIC_memwald_tail_bytes, 0,
	    opened_now(OPENED_TAIL_BYTES));
	shm_metric_set(METRIC_memwald_store_descriptors, 0,
	    opened_now(OPENED_DESCRIPTORS));
}

void
source_cache_trim(struct source_cache *c)
{
	uint32_t n = 0;

	while ((bytes_now() > c->bytes_max ||
	    opened_now(OPENED_MAPS) > c->maps_max) && n++ < BATCH_MAX &&
	    let_go_least(c, KEPT_VIEW, UINT64_MAX))
		;
	/* Batches that gets keep hold entries of tails. */
	if (opened_now(OPENED_DESCRIPTORS) > c->descriptors_max)
		tail_cache_clear(c->engine->tails);
	n = 0;
	while (opened_now(OPENED_DESCRIPTORS) > c->descriptors_max &&
	    n++ < BATCH_MAX && let_go_least(c, KEPT_HANDLE, UINT64_MAX))
		;
	say();
}

/* Whole stores whose slot nobody on the host has used since. Ours is no later
 * than the host's, but for how coarse that is. */
static void
let_go_used_before(struct source_cache *c, uint64_t used_ns)
{
	uint64_t own_ns = used_ns > UINT64_MAX - USE_COARSE_NS ? UINT64_MAX :
	    used_ns + USE_COARSE_NS;
	struct list *l = c->orders[KEPT_HANDLE].next, *next;
	uint32_t n = 0;

	for (; l != &c->orders[KEPT_HANDLE] && n < RELIEVE_MAX; l = next) {
		struct store *s = store_of(l, KEPT_HANDLE);
		struct shm_slot *slot = shm_store_slot(s->ref);

		next = l->next;
		if (s->kept[KEPT_HANDLE].used_ns > own_ns)
			break;
		if (!in_use(s) && (slot == NULL || atomic_load_explicit(
		    &slot->last_used_ns, memory_order_relaxed) <= used_ns)) {
			let_go(s, KEPT_HANDLE);
			n++;
		}
	}
}

void
source_cache_relieve(struct source_cache *c)
{
	uint64_t used_ns;

	if (relieve(&c->relieve, loop_now_ns(c->engine->loop), &used_ns))
		let_go_used_before(c, used_ns);
}

void
source_cache_command(struct source_cache *c, const struct shm_command *command)
{
	if (command->kind == SHM_MAIL_WORKERS)
		share_bytes(c, (uint32_t)command->args[0]);
	else
		let_go_used_before(c, command->args[0]);
}
