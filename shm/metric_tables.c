#include "common/base.h"

#include "common/clock.h"
#include "shm/budget.h"
#include "shm/metric_table.h"
#include "shm/process.h"
#include "shm/segment.h"

/* Gauges that are no counts but a look at the tables of the segment. */

#define HEAD(name, type, help) \
	"# HELP " name " " help "\n# TYPE " name " " type "\n"

struct stores {
	uint64_t resident, dirty, stale, guarded;
	uint64_t generations, generations_max, bytes, tails;
};

static void
look_at_stores(struct stores *all)
{
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t at = 0;

	while (shm_store_next(&at, &ref)) {
		if (!shm_store_peek(ref, &info))
			continue;
		all->resident++;
		all->dirty += info.dirty;
		all->stale += (info.flags & SHM_FLAG_STALE) != 0;
		all->guarded += info.guarded;
		all->generations += info.pending_generations;
		all->generations_max = MAX(all->generations_max,
		    info.pending_generations_max);
		all->bytes += info.pending_bytes;
		all->tails += info.tail_shards;
	}
}

static bool
print_gauge(struct buf *out, const char *head, const char *name,
    uint64_t value)
{
	return buf_printf(out, "%s%s %llu\n", head, name,
	    (unsigned long long)value);
}

#define GAUGE(name, value, help) \
	print_gauge(out, HEAD(name, "gauge", help), name, value)

static bool
print_stores(struct buf *out)
{
	struct stores all = { 0 };

	look_at_stores(&all);
	return GAUGE("rollout_stores_resident", all.resident,
	    "Stores in the segment") &&
	    GAUGE("memwald_stores_dirty", all.dirty,
	    "Stores appended to since their last clean tick") &&
	    GAUGE("memwald_stores_stale", all.stale,
	    "Stores to be loaded again, since a writer died inside") &&
	    GAUGE("memwald_stores_guarded", all.guarded,
	    "Stores being folded, compacted or collected") &&
	    GAUGE("memwald_pending_generations", all.generations,
	    "Generations not folded yet, all shards together") &&
	    GAUGE("memwald_pending_generations_max", all.generations_max,
	    "Generations not folded yet, of the shard with most") &&
	    GAUGE("memwald_pending_bytes", all.bytes,
	    "Bytes of generations not folded yet") &&
	    GAUGE("memwald_tails", all.tails,
	    "Shards with commits not sealed yet");
}

/* The one series with a store's name: its directory. */
static bool
print_refused(struct buf *out)
{
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t at = 0;

	if (!buf_printf(out, HEAD("rollout_reads_refused_pending_total",
	    "counter", "Reads refused for too many pending generations")))
		return false;
	while (shm_store_next(&at, &ref)) {
		if (!shm_store_peek(ref, &info) || info.reads_refused == 0)
			continue;
		if (!buf_printf(out, "rollout_reads_refused_pending_total"
		    "{store=\"%s.%s.lance\"} %u\n", info.name,
		    store_kind_name(info.kind), info.reads_refused))
			return false;
	}
	return true;
}

static bool
print_budgets(struct buf *out)
{
	int b;

	if (!buf_printf(out, HEAD("memwald_budget_used", "gauge",
	    "Budget in use")))
		return false;
	for (b = 0; b < SHM_BUDGET_COUNT; b++) {
		if (!buf_printf(out, "memwald_budget_used{budget=\"%s\"} "
		    "%llu\n", shm_budget_name(b),
		    (unsigned long long)shm_budget_used(b)))
			return false;
	}
	if (!buf_printf(out, HEAD("memwald_budget_limit", "gauge",
	    "Limit of the budget; 0: none")))
		return false;
	for (b = 0; b < SHM_BUDGET_COUNT; b++) {
		if (!buf_printf(out, "memwald_budget_limit{budget=\"%s\"} "
		    "%llu\n", shm_budget_name(b),
		    (unsigned long long)shm_budget_limit(b)))
			return false;
	}
	return true;
}

static bool
print_lives(struct buf *out)
{
	uint32_t lives[SHM_ROLE_COUNT][SHM_LOOP_COUNT] = { 0 };
	uint64_t restarts[SHM_ROLE_COUNT] = { 0 };
	uint32_t role, loop;
	uint16_t slot;

	for (slot = 0; slot < shm_process_count(); slot++) {
		struct shm_process *p = shm_process_get(slot);

		role = shm_role_of(slot);
		loop = atomic_load(&p->loop);
		restarts[role] += atomic_load(&p->restarts);
		if (atomic_load(&p->state) != SHM_PROCESS_EMPTY &&
		    loop < SHM_LOOP_COUNT)
			lives[role][loop]++;
	}
	if (!buf_printf(out, HEAD("memwald_processes", "gauge",
	    "Live processes by role and kind of loop")))
		return false;
	for (role = 0; role < SHM_ROLE_COUNT; role++) {
		for (loop = 0; loop < SHM_LOOP_COUNT; loop++) {
			if (lives[role][loop] > 0 && !buf_printf(out,
			    "memwald_processes{role=\"%s\",loop=\"%s\"} %u\n",
			    shm_role_name(role), shm_loop_name(loop),
			    lives[role][loop]))
				return false;
		}
	}
	if (!buf_printf(out, HEAD("memwald_process_restarts_total", "counter",
	    "Processes that were started again")))
		return false;
	for (role = 0; role < SHM_ROLE_COUNT; role++) {
		if (!buf_printf(out, "memwald_process_restarts_total"
		    "{role=\"%s\"} %llu\n", shm_role_name(role),
		    (unsigned long long)restarts[role]))
			return false;
	}
	return true;
}

bool
metric_print_tables(struct buf *out)
{
	return print_stores(out) && print_refused(out) && print_budgets(out) &&
	    print_lives(out) &&
	    GAUGE("memwald_segment_bytes", shm_segment_bytes(),
	    "Shared memory segment");
}
