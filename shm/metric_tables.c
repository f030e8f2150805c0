#include "common/base.h"

#include "common/clock.h"
#include "shm/budget.h"
#include "shm/instance.h"
#include "shm/metric_table.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/segment.h"
#include "shm/stray.h"

/* Gauges that are no counts but a look at the tables of the segment. */

#define HEAD(name, type, help) \
	"# HELP " name " " help "\n# TYPE " name " " type "\n"

/* As many stores with a backlog as are named, the largest first: a label each,
 * so there is a bound. */
#define NAMED_MAX 16u

struct stores {
	uint64_t resident, dirty, garbage, stale;
	uint64_t guarded[TICK_PHASE_COUNT];
	uint64_t guard_oldest_ns;	/* since when; 0: none is held */
	struct of_kind {
		uint64_t generations, generations_max, bytes, tails, tail_bytes;
		uint64_t pressed[SHM_PRESSURE_COUNT];	/* at this level */
	} kinds[STORE_KIND_COUNT];
	uint32_t named_count;
	struct shm_store_info named[NAMED_MAX];
};

static void
name_store(struct stores *all, const struct shm_store_info *info)
{
	uint32_t at = all->named_count;

	while (at > 0 && all->named[at - 1].pending_generations <
	    info->pending_generations)
		at--;
	if (at == NAMED_MAX)
		return;
	all->named_count = MIN(all->named_count + 1, NAMED_MAX);
	memmove(&all->named[at + 1], &all->named[at],
	    (all->named_count - 1 - at) * sizeof(*info));
	all->named[at] = *info;
}

static void
look_at_guard(struct stores *all, const struct shm_store_info *info)
{
	if (!info->guarded || info->guard_phase >= TICK_PHASE_COUNT)
		return;
	all->guarded[info->guard_phase]++;
	if (all->guard_oldest_ns == 0 ||
	    info->guard_since_ns < all->guard_oldest_ns)
		all->guard_oldest_ns = info->guard_since_ns;
}

static void
look_at_stores(struct stores *all)
{
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t at = 0;

	while (shm_store_next(&at, &ref)) {
		struct of_kind *k;

		if (!shm_store_peek(ref, &info) ||
		    info.kind >= STORE_KIND_COUNT ||
		    info.pressure >= SHM_PRESSURE_COUNT)
			continue;
		k = &all->kinds[info.kind];
		all->resident++;
		all->stale += (info.flags & SHM_FLAG_STALE) != 0;
		look_at_guard(all, &info);
		/* Its slot stays until another store wants it; nobody will
		 * seal, fold or collect any more. */
		if ((info.flags & SHM_FLAG_DELETED) != 0)
			continue;
		all->dirty += info.dirty;
		all->garbage += info.garbage;
		k->generations += info.pending_generations;
		k->generations_max = MAX(k->generations_max,
		    info.pending_generations_max);
		k->bytes += info.pending_bytes;
		k->tails += info.tail_shards;
		k->tail_bytes += info.tail_bytes;
		k->pressed[info.pressure]++;
		if (info.pressure != SHM_PRESSURE_NONE)
			name_store(all, &info);
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

/* One number of struct of_kind for each kind. */
static bool
print_kinds(struct buf *out, const struct stores *all, const char *head,
    const char *name, size_t offset)
{
	uint32_t kind;
	bool ok = buf_printf(out, "%s", head);

	for (kind = 0; ok && kind < STORE_KIND_COUNT; kind++) {
		uint64_t value;

		memcpy(&value, (const char *)&all->kinds[kind] + offset,
		    sizeof(value));
		ok = buf_printf(out, "%s{kind=\"%s\"} %llu\n", name,
		    store_kind_name(kind), (unsigned long long)value);
	}
	return ok;
}

#define KINDS(name, field, help) \
	print_kinds(out, all, HEAD(name, "gauge", help), name, \
	    offsetof(struct of_kind, field))

static bool
print_pressed(struct buf *out, const struct stores *all)
{
	uint32_t kind, level;
	bool ok = buf_printf(out, HEAD("memwald_stores_pressed", "gauge",
	    "Stores by how far their backlog has grown"));

	for (kind = 0; kind < STORE_KIND_COUNT; kind++) {
		for (level = 1; ok && level < SHM_PRESSURE_COUNT; level++)
			ok = buf_printf(out, "memwald_stores_pressed"
			    "{kind=\"%s\",level=\"%s\"} %llu\n",
			    store_kind_name(kind), shm_pressure_name(level),
			    (unsigned long long)all->kinds[kind].
			    pressed[level]);
	}
	return ok;
}

static bool
print_backlogs(struct buf *out, const struct stores *all)
{
	uint32_t i;
	bool ok = buf_printf(out, HEAD("memwald_store_pending_generations",
	    "gauge", "The largest backlogs of stores at a level above none"));

	for (i = 0; ok && i < all->named_count; i++)
		ok = buf_printf(out, "memwald_store_pending_generations"
		    "{store=\"%s.%s.lance\"} %u\n", all->named[i].name,
		    store_kind_name(all->named[i].kind),
		    all->named[i].pending_generations);
	return ok;
}

static bool
print_waiting(struct buf *out, const struct stores *all)
{
	return KINDS("memwald_pending_generations", generations,
	    "Generations not folded yet, all shards together") &&
	    KINDS("memwald_pending_generations_max", generations_max,
	    "Generations not folded yet, of the shard with most") &&
	    KINDS("memwald_pending_bytes", bytes,
	    "Bytes of generations not folded yet") &&
	    KINDS("memwald_tails", tails,
	    "Shards with commits not sealed yet") &&
	    KINDS("memwald_unsealed_bytes", tail_bytes,
	    "Bytes of this instance's WAL not sealed yet") &&
	    print_pressed(out, all) && print_backlogs(out, all);
}

static bool
print_guards(struct buf *out, const struct stores *all)
{
	uint64_t now_ns = clock_mono_ns(), age_ms = 0;
	uint32_t phase;

	if (!buf_printf(out, HEAD("memwald_stores_guarded", "gauge",
	    "Stores being folded, compacted or collected, by phase")))
		return false;
	for (phase = 0; phase < TICK_PHASE_COUNT; phase++) {
		if (!buf_printf(out, "memwald_stores_guarded{phase=\"%s\"} "
		    "%llu\n", tick_phase_name(phase),
		    (unsigned long long)all->guarded[phase]))
			return false;
	}
	if (all->guard_oldest_ns != 0 && now_ns > all->guard_oldest_ns)
		age_ms = (now_ns - all->guard_oldest_ns) / NS_PER_MS;
	return buf_printf(out, "%smemwald_guard_oldest_seconds %llu.%03llu\n",
	    HEAD("memwald_guard_oldest_seconds", "gauge",
	    "How long the guard is held that is held longest"),
	    (unsigned long long)(age_ms / 1000),
	    (unsigned long long)(age_ms % 1000));
}

static bool
print_stores(struct buf *out)
{
	struct stores all = { 0 };

	look_at_stores(&all);
	return GAUGE("rollout_stores_resident", all.resident,
	    "Stores in the segment") &&
	    GAUGE("memwald_stores_garbage", all.garbage,
	    "Stores that were not collected clean since their view changed") &&
	    GAUGE("memwald_stores_dirty", all.dirty,
	    "Stores appended to since their last clean tick") &&
	    GAUGE("memwald_stores_stale", all.stale,
	    "Stores to be loaded again, since a writer died inside") &&
	    print_guards(out, &all) &&
	    print_waiting(out, &all);
}

/* By the contract with the name of the store's directory. */
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
	    "Processes that died and were started again")))
		return false;
	for (role = 0; role < SHM_ROLE_COUNT; role++) {
		if (!buf_printf(out, "memwald_process_restarts_total"
		    "{role=\"%s\"} %llu\n", shm_role_name(role),
		    (unsigned long long)restarts[role]))
			return false;
	}
	return true;
}

static bool
print_ordinals(struct buf *out)
{
	uint32_t counts[SHM_ORDINAL_STATE_COUNT] = { 0 }, i;
	struct shm_ordinal o;

	for (i = 0; i < shm_ordinal_count(); i++) {
		if (!err_is(shm_ordinal_get(i, &o)) && o.version != 0 &&
		    o.is.state < SHM_ORDINAL_STATE_COUNT)
			counts[o.is.state]++;
	}
	if (!buf_printf(out, HEAD("memwald_ordinals", "gauge",
	    "Ordinals of all instances, as they are assigned")))
		return false;
	for (i = 0; i < SHM_ORDINAL_STATE_COUNT; i++) {
		if (!buf_printf(out, "memwald_ordinals{state=\"%s\"} %u\n",
		    shm_ordinal_state_name(i), counts[i]))
			return false;
	}
	return true;
}

static bool
print_cluster(struct buf *out)
{
	uint32_t i, alive = 0;
	struct shm_lease l;

	for (i = 0; i < shm_instance_count(); i++) {
		struct shm_instance other;

		alive += shm_instance_get(i, &other) &&
		    shm_instance_lives(&other);
	}
	shm_lease_get(&l);
	return GAUGE("memwald_lease_held", l.state == SHM_LEASE_HELD ? 1 : 0,
	    "Whether this server holds its lease, and so takes appends") &&
	    buf_printf(out, HEAD("memwald_lease_losses_total", "counter",
	    "Times that this server lost its lease")
	    "memwald_lease_losses_total %u\n", l.losses) &&
	    GAUGE("memwald_instances_alive", alive,
	    "Other instances whose leases live, as seen from here") &&
	    GAUGE("memwald_stray_shards", shm_stray_count(),
	    "Shards that no ordinal explains") &&
	    print_ordinals(out);
}

bool
metric_print_tables(struct buf *out)
{
	return print_stores(out) && print_refused(out) && print_budgets(out) &&
	    print_lives(out) && print_cluster(out) &&
	    GAUGE("memwald_segment_bytes", shm_segment_bytes(),
	    "Shared memory segment");
}
