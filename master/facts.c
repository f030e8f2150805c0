#include "common/base.h"

#include <poll.h>

#include "common/clock.h"
#include "shm/process.h"
#include "master/child.h"
#include "master/facts.h"

struct process_facts
facts_process(uint16_t slot)
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

bool
facts_lives(uint16_t slot)
{
	const struct child *c = child_of_slot(slot);

	return slot == SHM_MASTER || (c != NULL && c->pid != 0);
}

uint32_t
facts_slots(void)
{
	return 1 + child_count();
}

struct lock_facts
facts_lock(struct shm_ref ref)
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

bool
facts_is_locked(const struct lock_facts *f)
{
	return f->writer >= 0 || f->readers > 0 || f->waiting > 0;
}

/*
 * Locks are held for microseconds all the time; what is worth a line is one
 * that is held and not released. So a held one is looked at again until it is
 * free, or something was released, or the patience of this status is used up.
 */
struct lock_facts
facts_kept_lock(struct shm_ref ref, uint32_t *patience_ms)
{
	struct shm_slot *slot = shm_store_slot(ref);
	struct lock_facts f = facts_lock(ref), none = { .writer = -1,
	    .reader = -1 };
	uint32_t change;

	if (slot == NULL || !facts_is_locked(&f))
		return none;
	change = PEEK(shm_slot_lock(slot)->change);
	while (*patience_ms > 0) {
		poll(NULL, 0, 1);
		--*patience_ms;
		f = facts_lock(ref);
		if (!facts_is_locked(&f) || PEEK(shm_slot_lock(slot)->change) != change)
			return none;
	}
	return f;
}

uint64_t
facts_guard_ms(const struct shm_store_info *s)
{
	uint64_t now_ns = clock_mono_ns();

	return now_ns > s->guard_since_ns ?
	    (now_ns - s->guard_since_ns) / NS_PER_MS : 0;
}
