#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/clock.h"
#include "shm/budget.h"
#include "shm/instance.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/store_table.h"
#include "shm/stray.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/drain.h"
#include "master/facts.h"
#include "master/fanout.h"
#include "master/orphan.h"
#include "master/problem.h"

#define BEAT_OLD_NS	  (3 * NS_PER_SEC)
#define ERRORS_IN_ROW_BAD 3
#define STORES_A_STEP	  512

static void PRINTF_LIKE(2, 3)
add_problem(struct problems *ps, const char *fmt, ...)
{
	va_list ap;

	if (ps->count < PROBLEMS_MAX) {
		va_start(ap, fmt);
		vsnprintf(ps->text[ps->count], sizeof(ps->text[0]), fmt, ap);
		va_end(ap);
	}
	ps->count++;
}

static void
check_processes(struct problems *ps)
{
	uint32_t i;

	for (i = 0; i < child_count(); i++) {
		const struct child *c = child_at(i);
		struct process_facts f = facts_process(c->slot);

		if (c->leaving && (c->pid == 0 || !c->beaten))
			continue;
		if (child_awaits(c))
			add_problem(ps, "%s in slot %u waits for its ordinal to "
			    "come home", f.role, c->slot);
		else if (c->pid == 0)
			add_problem(ps, "%s in slot %u is not running (last "
			    "death: %s)", f.role, c->slot, *c->last_death != '\0' ?
			    c->last_death : "none");
		else if (!c->beaten)
			add_problem(ps, "%s in slot %u is still starting",
			    f.role, c->slot);
		else if (f.beat_age_ms * NS_PER_MS > BEAT_OLD_NS)
			add_problem(ps, "%s in slot %u: its loop stands still "
			    "for %llu ms", f.role, c->slot,
			    (unsigned long long)f.beat_age_ms);
	}
}

static void
check_holders(struct problems *ps, const struct shm_store_info *s)
{
	struct shm_slot *slot = shm_store_slot(s->ref);
	struct lock_facts l = facts_lock(s->ref);
	uint16_t i;

	if (s->guarded && !facts_lives(s->guard_holder.slot))
		add_problem(ps, "store %s: its guard is held by slot %u, where "
		    "nobody lives", s->name, s->guard_holder.slot);
	else if (s->guarded && s->guard_deadline_ns != 0 &&
	    s->guard_deadline_ns < clock_mono_ns())
		add_problem(ps, "store %s: its guard is past its deadline, in "
		    "phase %s", s->name, tick_phase_name(s->guard_phase));
	if (l.writer >= 0 && !facts_lives((uint16_t)l.writer))
		add_problem(ps, "store %s: its lock is held for writing by slot "
		    "%d, where nobody lives", s->name, l.writer);
	if (l.reader >= 0 && !facts_lives((uint16_t)l.reader))
		add_problem(ps, "store %s: its lock is held for reading by slot "
		    "%d, where nobody lives", s->name, l.reader);
	for (i = 0; slot != NULL && i < shm_process_count(); i++) {
		if (!facts_lives(i) && (PEEK(shm_slot_serials(slot)[i]) != 0 ||
		    PEEK(shm_slot_pins(slot)[i]) != 0))
			add_problem(ps, "store %s: a serial or pin is held by slot "
			    "%u, where nobody lives", s->name, i);
	}
}

static void
check_store(struct problems *ps, const struct shm_store_info *s)
{
	check_holders(ps, s);
	if (s->pressure >= SHM_PRESSURE_NO_APPENDS)
		add_problem(ps, "store %s: %u generations and %llu bytes of WAL "
		    "wait, it takes no appends", s->name,
		    s->pending_generations,
		    (unsigned long long)s->tail_bytes);
	if (s->errors_in_row >= ERRORS_IN_ROW_BAD)
		add_problem(ps, "store %s: %u ticks failed in a row, the last "
		    "in phase %s", s->name, s->errors_in_row,
		    tick_phase_name(s->last_err_phase));
}

/* True: that was the last of them. */
static bool
check_stores(struct problems *ps, uint32_t *index)
{
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t n;

	for (n = 0; n < STORES_A_STEP; n++) {
		if (!shm_store_next(index, &ref))
			return true;
		if (shm_store_peek(ref, &s))
			check_store(ps, &s);
	}
	return false;
}

static void
check_budgets(struct problems *ps)
{
	uint16_t slot;
	uint32_t b;

	for (b = 0; b < SHM_BUDGET_COUNT; b++) {
		for (slot = 0; slot < shm_process_count(); slot++) {
			uint64_t share = shm_budget_share((enum shm_budget)b, slot);

			if (share != 0 && !facts_lives(slot))
				add_problem(ps, "budget %s: %llu is held by slot "
				    "%u, where nobody lives",
				    shm_budget_name((enum shm_budget)b),
				    (unsigned long long)share, slot);
		}
	}
}

static void
check_ordinals(struct problems *ps)
{
	struct shm_ordinal o;
	uint32_t i;

	if (drain_has_all(child_wanted()))
		add_problem(ps, "every worker is drained, so the instance is "
		    "not ready and takes no writes: undrain one");
	for (i = 0; i < child_wanted(); i++) {
		if (err_is(shm_ordinal_get(i, &o)) ||
		    o.owner == SHM_WORKER(i) ||
		    drain_marks(shm_instance_id(), i) != 0)
			continue;
		add_problem(ps, "ordinal %.100s is not our worker's, who takes "
		    "no writes (%s, %.40s)", o.name,
		    shm_ordinal_state_name(o.is.state), o.is.instance);
	}
}

/* Drains look at that, but two at once may miss each other when they are late. */
static void
check_candidates(struct problems *ps)
{
	static struct candidates c;

	candidates_find(&c, child_wanted());
	if (c.count == 0)
		add_problem(ps, "every worker that is known of every instance that "
		    "lives is drained: none is ready, and ordinals can go "
		    "nowhere; undrain one");
}

static void
check_lease(struct problems *ps)
{
	struct shm_lease l;

	shm_lease_get(&l);
	if (l.state != SHM_LEASE_HELD)
		add_problem(ps, "the lease is not held, no appends are taken "
		    "(%s: %s)", shm_lease_state_name(l.state), l.why);
}

static void
check_assignment(struct problems *ps)
{
	uint64_t unread = shm_ordinal_unread();

	if (unread != 0)
		add_problem(ps, "the newest assignment of ordinals cannot be "
		    "read, nothing is decided, shards that no worker has "
		    "claimed take no rows, and after a start nothing is sealed or "
		    "folded: _cluster/assignment/%020llu.json",
		    (unsigned long long)unread);
}

static void
check_strays(struct problems *ps)
{
	char shard[UUID_TEXT_LEN + 1];
	uint32_t index = 0;
	struct shm_stray s;

	if (!shm_stray_next(&index, &s))
		return;
	uuid_to_text(&s.shard, shard);
	add_problem(ps, "%u shards that no ordinal explains, nobody seals or "
	    "folds them; one is %s of %s store %.60s", shm_stray_count(),
	    shard, store_kind_name(s.kind), s.store);
}

static void
check_orphans(struct problems *ps)
{
	if (orphan_is_manual() && orphan_count() > 0)
		add_problem(ps, "%u ordinals whose owner is gone: nobody seals or "
		    "folds what lies in their shards until they are "
		    "reassigned (--orphans=manual)", orphan_count());
}

static void
check_fanout(struct problems *ps)
{
	const struct fanout_job *j;
	uint32_t i;

	for (i = 0; i < FANOUT_JOBS; i++) {
		j = fanout_job(i);
		if (j->state != FANOUT_GIVEN_UP)
			continue;
		add_problem(ps, "%u fold jobs failed %u times and more, they are "
		    "tried again now and then; one is %s store %.60s, ordinal "
		    "%.60s: %s", fanout_given_up(), FANOUT_TRIES,
		    store_kind_name(j->kind), j->store,
		    shm_ordinal_name(j->ordinal).ptr, j->err.what);
		return;
	}
}

bool
problems_find(struct problems *ps, uint32_t *index)
{
	if (*index == 0) {
		ps->count = 0;
		check_processes(ps);
		check_budgets(ps);
		check_lease(ps);
		check_assignment(ps);
		check_ordinals(ps);
		check_candidates(ps);
		check_strays(ps);
		check_orphans(ps);
		check_fanout(ps);
	}
	return check_stores(ps, index);
}
