#include "common/base.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/json.h"
#include "shm/budget.h"
#include "shm/guard.h"
#include "shm/mutex.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/segment.h"
#include "shm/store_table.h"
#include "master/child.h"
#include "master/status.h"

/*
 * First the facts are collected into plain structs, one function a table;
 * text, JSON and the list of problems are made from those. A process's facts
 * come from the master's own struct child where it has them.
 */

#define PROBLEMS_MAX	  32
#define BEAT_OLD_NS	  (3 * NS_PER_SEC)
#define ERRORS_IN_ROW_BAD 3
#define PATIENCE_MS	  20

struct process_facts {
	uint16_t slot;
	const char *role, *state, *loop;
	int pid;
	uint32_t restarts;
	uint64_t uptime_ms, beat_age_ms;
	const char *last_death;
};

struct lock_facts {			/* one rwlock of a slot */
	int writer;			/* process slot, -1: none */
	uint32_t readers, waiting;
	int reader;			/* one that reads, -1: none */
};

struct problems {
	uint32_t count;
	char text[PROBLEMS_MAX][200];
};

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

/* A number in the segment that somebody else writes under his lock. */
#define PEEK(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

static struct process_facts
process_facts(uint16_t slot)
{
	struct shm_process *p = shm_process_get(slot);
	const struct child *c = child_of_slot(slot);
	uint64_t now_ns = clock_mono_ns(), now_us = clock_wall_us();
	uint64_t beat_ns = PEEK(p->heartbeat_ns), started_us = PEEK(p->started_us);
	struct process_facts f = {
		.slot = slot,
		.role = shm_role_name(PEEK(p->role)),
		.state = shm_process_state_name(PEEK(p->state)),
		.loop = shm_loop_name(PEEK(p->loop)),
		.pid = PEEK(p->pid),
		.restarts = PEEK(p->restarts),
		.last_death = c != NULL ? c->last_death : "",
	};

	if (f.pid != 0) {
		f.uptime_ms = now_us > started_us ?
		    (now_us - started_us) / 1000 : 0;
		f.beat_age_ms = beat_ns != 0 && now_ns > beat_ns ?
		    clock_real_ns(now_ns - beat_ns) / NS_PER_MS : 0;
	}
	if (slot == SHM_MASTER)
		f.beat_age_ms = 0;
	return f;
}

static bool
lives(uint16_t slot)
{
	const struct child *c = child_of_slot(slot);

	return slot == SHM_MASTER || (c != NULL && c->pid != 0);
}

/* The slots in use: the master's and the children's. */
static uint32_t
slots_in_use(void)
{
	return 1 + child_count();
}

static struct lock_facts
lock_facts(struct shm_ref ref)
{
	struct shm_slot *slot = shm_store_slot(ref);
	struct lock_facts f = { .writer = -1, .reader = -1 };
	struct shm_rwlock *l;
	uint16_t i;

	if (slot == NULL)
		return f;
	l = shm_slot_lock(slot);
	f.writer = PEEK(l->writer) - 1;
	for (i = 0; i < shm_process_count(); i++) {
		uint32_t readers = PEEK(l->shares[i].readers);

		if (readers > 0)
			f.reader = i;
		f.readers += readers;
		f.waiting += PEEK(l->shares[i].writers_waiting);
	}
	return f;
}

static bool
is_locked(const struct lock_facts *f)
{
	return f->writer >= 0 || f->readers > 0 || f->waiting > 0;
}

/*
 * Locks are held for microseconds all the time; what is worth a line is one
 * that is held and not released. So a held one is looked at again until it is
 * free, or something was released, or the patience of this status is used up.
 */
static struct lock_facts
held_lock(struct shm_ref ref, uint32_t *patience_ms)
{
	struct shm_slot *slot = shm_store_slot(ref);
	struct lock_facts f = lock_facts(ref), none = { .writer = -1,
	    .reader = -1 };
	uint32_t change;

	if (slot == NULL || !is_locked(&f))
		return none;
	change = PEEK(shm_slot_lock(slot)->change);
	while (*patience_ms > 0) {
		poll(NULL, 0, 1);
		--*patience_ms;
		f = lock_facts(ref);
		if (!is_locked(&f) || PEEK(shm_slot_lock(slot)->change) != change)
			return none;
	}
	return f;
}

/* How long the guard is held; both times are hints that may lag. */
static uint64_t
guard_held_ms(const struct shm_store_info *s)
{
	uint64_t now_ns = clock_mono_ns();

	return now_ns > s->guard_since_ns ?
	    (now_ns - s->guard_since_ns) / NS_PER_MS : 0;
}

/* What is wrong. */

static void
check_processes(struct problems *ps)
{
	uint32_t i;

	for (i = 0; i < child_count(); i++) {
		const struct child *c = child_at(i);
		struct process_facts f = process_facts(c->slot);

		if (c->pid == 0)
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
	struct lock_facts l = lock_facts(s->ref);
	uint16_t i;

	if (s->guarded && !lives(s->guard_holder.slot))
		add_problem(ps, "store %s: its guard is held by slot %u, where "
		    "nobody lives", s->name, s->guard_holder.slot);
	else if (s->guarded && s->guard_deadline_ns != 0 &&
	    s->guard_deadline_ns < clock_mono_ns())
		add_problem(ps, "store %s: its guard is past its deadline, in "
		    "phase %s", s->name, tick_phase_name(s->guard_phase));
	if (l.writer >= 0 && !lives((uint16_t)l.writer))
		add_problem(ps, "store %s: its lock is held for writing by slot "
		    "%d, where nobody lives", s->name, l.writer);
	if (l.reader >= 0 && !lives((uint16_t)l.reader))
		add_problem(ps, "store %s: its lock is held for reading by slot "
		    "%d, where nobody lives", s->name, l.reader);
	for (i = 0; slot != NULL && i < shm_process_count(); i++) {
		if (!lives(i) && (PEEK(shm_slot_serials(slot)[i]) != 0 ||
		    PEEK(shm_slot_pins(slot)[i]) != 0))
			add_problem(ps, "store %s: a serial or pin is held by slot "
			    "%u, where nobody lives", s->name, i);
	}
}

static void
check_stores(struct problems *ps)
{
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t index = 0;

	while (shm_store_next(&index, &ref)) {
		if (!shm_store_peek(ref, &s))
			continue;
		check_holders(ps, &s);
		if (s.pressure >= SHM_PRESSURE_NO_APPENDS)
			add_problem(ps, "store %s: %u generations and %llu bytes of "
			    "WAL wait, it takes no appends", s.name,
			    s.pending_generations,
			    (unsigned long long)s.tail_bytes);
		if (s.errors_in_row >= ERRORS_IN_ROW_BAD)
			add_problem(ps, "store %s: %u ticks failed in a row, the "
			    "last in phase %s", s.name, s.errors_in_row,
			    tick_phase_name(s.last_err_phase));
	}
}

static void
check_budgets(struct problems *ps)
{
	uint16_t slot;
	uint32_t b;

	for (b = 0; b < SHM_BUDGET_COUNT; b++) {
		for (slot = 0; slot < shm_process_count(); slot++) {
			uint64_t share = shm_budget_share((enum shm_budget)b, slot);

			if (share != 0 && !lives(slot))
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

	for (i = 0; i < child_count() - 1; i++) {
		if (err_is(shm_ordinal_get(i, &o)))
			continue;
		if (o.state != SHM_ORDINAL_OWNED || o.owner == SHM_NOBODY)
			add_problem(ps, "ordinal %s has no owner, its shards take "
			    "no writes (%s)", o.name,
			    shm_ordinal_state_name(o.state));
	}
}

static void
find_problems(struct problems *ps)
{
	ps->count = 0;
	check_processes(ps);
	check_stores(ps);
	check_budgets(ps);
	check_ordinals(ps);
}

uint32_t
status_problems(void)
{
	static struct problems ps;

	find_problems(&ps);
	return ps.count;
}

/* Text. */

static bool
text_processes(struct buf *b)
{
	uint32_t i;
	bool ok;

	ok = buf_printf(b, "%4s %-10s %7s %-9s %10s %8s %-5s %8s  %s\n", "SLOT",
	    "ROLE", "PID", "STATE", "UPTIME_MS", "RESTARTS", "LOOP", "BEAT_MS",
	    "LAST DEATH");
	for (i = 0; ok && i < slots_in_use(); i++) {
		struct process_facts f = process_facts((uint16_t)i);

		ok = buf_printf(b, "%4u %-10s %7d %-9s %10llu %8u %-5s %8llu  "
		    "%s\n", f.slot, f.role, f.pid, f.state,
		    (unsigned long long)f.uptime_ms, f.restarts, f.loop,
		    (unsigned long long)f.beat_age_ms, f.last_death);
	}
	return ok;
}

static bool
text_store(struct buf *b, const struct shm_store_info *s,
    uint32_t *patience_ms)
{
	struct lock_facts l = held_lock(s->ref, patience_ms);
	char guard[96] = "free";

	if (s->guarded)
		snprintf(guard, sizeof(guard), "slot %u in %s, for %llu ms",
		    s->guard_holder.slot, tick_phase_name(s->guard_phase),
		    (unsigned long long)guard_held_ms(s));
	return buf_printf(b, "%-8s %-24s %-7s %7llu %7u %12llu %12llu %5u %5u  "
	    "%s%s%s%s%s%s\n",
	    store_kind_name(s->kind), s->name, shm_load_state_name(s->load),
	    (unsigned long long)s->base_version, s->pending_generations,
	    (unsigned long long)s->pending_bytes,
	    (unsigned long long)s->tail_bytes, s->tail_shards, s->pins, guard,
	    s->pressure != SHM_PRESSURE_NONE ? ", " : "",
	    s->pressure != SHM_PRESSURE_NONE ?
	    shm_pressure_name(s->pressure) : "",
	    is_locked(&l) ? ", locked" : "",
	    s->flags & SHM_FLAG_STALE ? ", stale" : "",
	    s->flags & SHM_FLAG_DELETED ? ", deleted" : "");
}

static bool
text_stores(struct buf *b)
{
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t index = 0, shown = 0, left = 0, patience_ms = PATIENCE_MS;
	bool ok;

	ok = buf_printf(b, "%-8s %-24s %-7s %7s %7s %12s %12s %5s %5s  %s\n",
	    "KIND", "STORE", "LOAD", "BASE", "PENDING", "BYTES", "UNSEALED",
	    "TAILS", "PINS",
	    "GUARD");
	while (ok && shm_store_next(&index, &ref)) {
		if (!shm_store_peek(ref, &s))
			continue;
		if (shown++ < STATUS_STORES_MAX)
			ok = text_store(b, &s, &patience_ms);
		else
			left++;
	}
	if (ok && left > 0)
		ok = buf_printf(b, "and %u more\n", left);
	return ok;
}

static bool
text_rest(struct buf *b)
{
	struct shm_ordinal o;
	uint32_t i;
	bool ok = buf_printf(b, "\nORDINAL\n");

	for (i = 0; ok && i < child_count() - 1; i++) {
		if (!err_is(shm_ordinal_get(i, &o)))
			ok = buf_printf(b, "%-24s %-9s owner slot %d\n", o.name,
			    shm_ordinal_state_name(o.state),
			    o.owner == SHM_NOBODY ? -1 : o.owner);
	}
	ok = ok && buf_printf(b, "\nBUDGET\n");
	for (i = 0; ok && i < SHM_BUDGET_COUNT; i++)
		ok = buf_printf(b, "%-24s %llu of %llu\n",
		    shm_budget_name((enum shm_budget)i),
		    (unsigned long long)shm_budget_used((enum shm_budget)i),
		    (unsigned long long)shm_budget_limit((enum shm_budget)i));
	return ok;
}

static struct err
full_or(bool ok)
{
	return ok ? OK : FAIL(NO_MEMORY, "the status does not fit its buffer");
}

struct err
status_workers(struct buf *b)
{
	return full_or(text_processes(b));
}

struct err
status_stores(struct buf *b)
{
	return full_or(text_stores(b));
}

struct err
status_text(struct buf *b, const struct status_server *server)
{
	static struct problems ps;
	uint32_t i;
	bool ok;

	find_problems(&ps);
	ok = buf_printf(b, "instance %s on %s port %u: %s, %s\n",
	    server->instance_id, server->host, server->port, server->state,
	    ps.count == 0 ? "clean" : "not clean");
	for (i = 0; ok && i < MIN(ps.count, PROBLEMS_MAX); i++)
		ok = buf_printf(b, "problem: %s\n", ps.text[i]);
	ok = ok && buf_printf(b, "segment %llu bytes\n\n",
	    (unsigned long long)shm_segment_bytes());
	ok = ok && text_processes(b) && buf_printf(b, "\n") && text_stores(b) &&
	    text_rest(b);
	return full_or(ok);
}

/* JSON. */

static void
json_processes(struct json_writer *w)
{
	uint32_t i;

	json_write_open(w, "processes", '[');
	for (i = 0; i < slots_in_use(); i++) {
		struct process_facts f = process_facts((uint16_t)i);

		json_write_open(w, NULL, '{');
		json_write_uint64(w, "slot", f.slot);
		json_write_text(w, "role", slice_of(f.role));
		json_write_uint64(w, "pid", (uint64_t)f.pid);
		json_write_text(w, "state", slice_of(f.state));
		json_write_uint64(w, "uptime_ms", f.uptime_ms);
		json_write_uint64(w, "restarts", f.restarts);
		json_write_text(w, "loop", slice_of(f.loop));
		json_write_uint64(w, "heartbeat_age_ms", f.beat_age_ms);
		json_write_text(w, "last_death", slice_of(f.last_death));
		json_write_close(w, '}');
	}
	json_write_close(w, ']');
}

/* The shards of this instance that anything waits in, as many as are left to
 * the whole answer. */
static void
json_shards(struct json_writer *w, struct shm_ref ref, uint32_t *left)
{
	struct shm_slot *slot = shm_store_slot(ref);
	uint32_t i;

	json_write_open(w, "shards", '[');
	for (i = 0; slot != NULL && i < shm_workers_max(); i++) {
		const struct shm_shard_state *s = shm_slot_local(slot, i);
		struct shm_manifest_marks m = shm_shard_marks(s);
		uint64_t tail_bytes = shm_shard_tail_bytes(s);

		if (*left == 0 || (m.pending_generations == 0 &&
		    tail_bytes == 0))
			continue;
		--*left;
		json_write_open(w, NULL, '{');
		json_write_uint64(w, "ordinal", i);
		json_write_uint64(w, "pending_generations",
		    m.pending_generations);
		json_write_uint64(w, "pending_bytes", m.pending_bytes);
		json_write_uint64(w, "tail_bytes", tail_bytes);
		json_write_close(w, '}');
	}
	json_write_close(w, ']');
}

static void
json_store(struct json_writer *w, const struct shm_store_info *s,
    uint32_t *shards_left)
{
	json_write_open(w, NULL, '{');
	json_write_text(w, "kind", slice_of(store_kind_name(s->kind)));
	json_write_text(w, "name", slice_of(s->name));
	json_write_text(w, "load", slice_of(shm_load_state_name(s->load)));
	json_write_bool(w, "stale", s->flags & SHM_FLAG_STALE);
	json_write_bool(w, "deleted", s->flags & SHM_FLAG_DELETED);
	json_write_bool(w, "dirty", s->dirty);
	json_write_uint64(w, "base_version", s->base_version);
	json_write_uint64(w, "pinned_version", s->pinned_version);
	json_write_uint64(w, "serial", s->serial);
	json_write_uint64(w, "oldest_serial", s->oldest_serial);
	json_write_uint64(w, "pins", s->pins);
	json_write_uint64(w, "pending_generations", s->pending_generations);
	json_write_uint64(w, "pending_generations_max",
	    s->pending_generations_max);
	json_write_uint64(w, "pending_bytes", s->pending_bytes);
	json_write_uint64(w, "tail_shards", s->tail_shards);
	json_write_uint64(w, "tail_bytes", s->tail_bytes);
	json_write_text(w, "pressure", slice_of(shm_pressure_name(s->pressure)));
	json_shards(w, s->ref, shards_left);
	json_write_uint64(w, "ticks", s->ticks);
	json_write_uint64(w, "busy_skips", s->busy_skips);
	json_write_uint64(w, "seal_errors", s->seal_errors);
	json_write_uint64(w, "fold_errors", s->fold_errors);
	json_write_uint64(w, "errors_in_row", s->errors_in_row);
	json_write_text(w, "last_error_phase",
	    slice_of(tick_phase_name(s->last_err_phase)));
	json_write_uint64(w, "compactions", s->compactions);
	json_write_uint64(w, "timeouts", s->timeouts);
	json_write_open(w, "guard", '{');
	json_write_bool(w, "held", s->guarded);
	if (s->guarded) {
		json_write_uint64(w, "slot", s->guard_holder.slot);
		json_write_uint64(w, "thread", s->guard_holder.thread);
		json_write_text(w, "phase",
		    slice_of(tick_phase_name(s->guard_phase)));
		json_write_uint64(w, "held_ms", guard_held_ms(s));
	}
	json_write_close(w, '}');
	json_write_close(w, '}');
}

static void
json_lock(struct json_writer *w, const struct lock_facts *l, const char *store)
{
	char name[160], holder[80];

	snprintf(name, sizeof(name), "store_slot %s", store);
	snprintf(holder, sizeof(holder), "slot %d, %s",
	    l->writer >= 0 ? l->writer : l->reader,
	    l->writer >= 0 ? "writing" : "reading");
	json_write_open(w, NULL, '{');
	json_write_text(w, "name", slice_of(name));
	json_write_text(w, "holder", slice_of(holder));
	json_write_uint64(w, "readers", l->readers);
	json_write_uint64(w, "writers_waiting", l->waiting);
	json_write_close(w, '}');
}

/* stores, then the locks that anybody keeps. */
static void
json_stores(struct json_writer *w)
{
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t index = 0, shown = 0, left = 0, patience_ms = PATIENCE_MS;
	uint32_t shards_left = STATUS_SHARDS_MAX;

	json_write_open(w, "stores", '[');
	while (shm_store_next(&index, &ref)) {
		if (!shm_store_peek(ref, &s))
			continue;
		if (shown++ < STATUS_STORES_MAX)
			json_store(w, &s, &shards_left);
		else
			left++;
	}
	json_write_close(w, ']');
	json_write_uint64(w, "stores_left_off", left);
	json_write_open(w, "locks", '[');
	for (index = 0; shm_store_next(&index, &ref); ) {
		struct lock_facts l = held_lock(ref, &patience_ms);

		if (is_locked(&l) && shm_store_peek(ref, &s))
			json_lock(w, &l, s.name);
	}
	json_write_close(w, ']');
}

static void
json_rest(struct json_writer *w)
{
	struct shm_ordinal o;
	uint32_t i;

	json_write_open(w, "ordinals", '[');
	for (i = 0; i < child_count() - 1; i++) {
		if (err_is(shm_ordinal_get(i, &o)))
			continue;
		json_write_open(w, NULL, '{');
		json_write_text(w, "name", slice_of(o.name));
		json_write_text(w, "state",
		    slice_of(shm_ordinal_state_name(o.state)));
		json_write_int64(w, "owner", o.owner == SHM_NOBODY ? -1 :
		    o.owner);
		json_write_uint64(w, "version", o.version);
		json_write_close(w, '}');
	}
	json_write_close(w, ']');
	json_write_open(w, "budgets", '{');
	for (i = 0; i < SHM_BUDGET_COUNT; i++) {
		json_write_open(w, shm_budget_name((enum shm_budget)i), '{');
		json_write_uint64(w, "used",
		    shm_budget_used((enum shm_budget)i));
		json_write_uint64(w, "limit",
		    shm_budget_limit((enum shm_budget)i));
		json_write_close(w, '}');
	}
	json_write_close(w, '}');
}

struct err
status_json(struct buf *b, const struct status_server *server)
{
	static struct problems ps;
	struct json_writer w;
	uint32_t i;

	find_problems(&ps);
	json_write_init(&w, b);
	json_write_open(&w, NULL, '{');
	json_write_bool(&w, "clean", ps.count == 0);
	json_write_open(&w, "problems", '[');
	for (i = 0; i < MIN(ps.count, PROBLEMS_MAX); i++)
		json_write_text(&w, NULL, slice_of(ps.text[i]));
	json_write_close(&w, ']');
	json_write_text(&w, "instance_id", slice_of(server->instance_id));
	json_write_text(&w, "host", slice_of(server->host));
	json_write_uint64(&w, "port", server->port);
	json_write_text(&w, "state", slice_of(server->state));
	json_write_uint64(&w, "started_us", server->started_us);
	json_write_uint64(&w, "segment_bytes", shm_segment_bytes());
	json_processes(&w);
	json_stores(&w);
	json_rest(&w);
	json_write_close(&w, '}');
	return json_write_done(&w) && buf_append(b, "\n", 1) ? OK :
	    FAIL(NO_MEMORY, "the status does not fit its buffer");
}
