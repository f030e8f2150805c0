#include "common/base.h"

#include <unistd.h>

#include "common/clock.h"
#include "common/panic.h"
#include "shm/part.h"
#include "shm/process.h"

static struct shm_process *table;
static uint16_t process_count;

static uint16_t self = SHM_NOBODY;
static uint32_t self_incarnation;
static _Thread_local uint16_t thread_number;

static const char *const role_names[] = {
#define X(role, text) text,
	SHM_ROLES(X)
#undef X
};

static const struct {
	const char *name;
	bool lives;
} states[] = {
#define X(state, text, lives) { text, lives },
	SHM_PROCESS_STATES(X)
#undef X
};

static const char *const loop_names[] = {
#define X(loop, text) text,
	SHM_LOOPS(X)
#undef X
};

uint64_t
shm_process_bytes(const struct shm_config *cfg)
{
	return (2 + (uint64_t)cfg->workers_max) * sizeof(struct shm_process);
}

void
shm_process_carve(void *at, const struct shm_config *cfg)
{
	uint16_t slot;

	table = at;
	process_count = (uint16_t)(2 + cfg->workers_max);
	self = SHM_NOBODY;
	for (slot = 0; slot < process_count; slot++) {
		atomic_init(&table[slot].role, shm_role_of(slot));
		table[slot].eventfd = -1;
	}
}

uint16_t
shm_process_count(void)
{
	return process_count;
}

uint16_t
shm_workers_max(void)
{
	return (uint16_t)(process_count - 2);
}

struct shm_process *
shm_process_get(uint16_t slot)
{
	MUST(slot < process_count);
	return &table[slot];
}

enum shm_role
shm_role_of(uint16_t slot)
{
	if (slot == SHM_MASTER)
		return SHM_ROLE_MASTER;
	return slot == SHM_MAINTAINER ? SHM_ROLE_MAINTAINER : SHM_ROLE_WORKER;
}

const char *
shm_role_name(uint32_t role)
{
	return role < SHM_ROLE_COUNT ? role_names[role] : "unknown";
}

const char *
shm_process_state_name(uint32_t state)
{
	return state < SHM_PROCESS_STATE_COUNT ? states[state].name : "unknown";
}

const char *
shm_loop_name(uint32_t loop)
{
	return loop < SHM_LOOP_COUNT ? loop_names[loop] : "unknown";
}

bool
shm_process_lives(uint16_t slot)
{
	uint32_t state = atomic_load(&shm_process_get(slot)->state);

	return state < SHM_PROCESS_STATE_COUNT && states[state].lives;
}

void
shm_process_died(uint16_t slot)
{
	atomic_fetch_add(&shm_process_get(slot)->restarts, 1);
}

void
shm_process_refill(uint16_t slot)
{
	struct shm_process *p = shm_process_get(slot);
	uint32_t incarnation = atomic_load(&p->incarnation);

	/* What the last life held is released before the next one begins. */
	MUST(atomic_load(&p->state) == SHM_PROCESS_EMPTY);
	/* Skip 0 when the number wraps: a life is never 0. */
	if (++incarnation == 0)
		incarnation = 1;
	p->panic_text[0] = '\0';
	atomic_store(&p->loop, SHM_LOOP_NONE);
	atomic_store(&p->heartbeat_ns, 0);
	atomic_store(&p->busy, 0);
	atomic_store(&p->started_us, clock_wall_us());
	atomic_store(&p->incarnation, incarnation);
	atomic_store(&p->state, SHM_PROCESS_STARTING);
}

void
shm_process_forked(uint16_t slot, int32_t pid)
{
	atomic_store(&shm_process_get(slot)->pid, pid);
}

void
shm_process_clear(uint16_t slot)
{
	struct shm_process *p = shm_process_get(slot);

	atomic_store(&p->pid, 0);
	atomic_store(&p->state, SHM_PROCESS_EMPTY);
}

void
shm_process_attach(uint16_t slot)
{
	struct shm_process *p;

	shm_segment_check();
	p = shm_process_get(slot);
	MUST(atomic_load(&p->state) == SHM_PROCESS_STARTING);
	self = slot;
	self_incarnation = atomic_load(&p->incarnation);
	MUST(self_incarnation != 0);
	atomic_store(&p->pid, getpid());
	panic_attach(p->panic_text, sizeof(p->panic_text));
}

void
shm_process_detach(void)
{
	self = SHM_NOBODY;
	panic_attach(NULL, 0);
}

void
shm_process_enter(enum shm_process_state state)
{
	atomic_store(&shm_process_get(shm_self())->state, state);
}

void
shm_process_loop(enum shm_loop loop)
{
	atomic_store(&shm_process_get(shm_self())->loop, loop);
}

void
shm_process_beat(uint32_t busy)
{
	struct shm_process *p = shm_process_get(shm_self());

	atomic_store_explicit(&p->busy, busy, memory_order_relaxed);
	/* Release: whoever sees this beat sees what was said with it. */
	atomic_store_explicit(&p->heartbeat_ns, clock_mono_ns(),
	    memory_order_release);
}

uint16_t
shm_self(void)
{
	MUST(self != SHM_NOBODY);
	return self;
}

bool
shm_attached(void)
{
	return self != SHM_NOBODY;
}

uint32_t
shm_self_incarnation(void)
{
	MUST(self != SHM_NOBODY);
	return self_incarnation;
}

void
shm_thread_number(uint16_t number)
{
	thread_number = number;
}

struct shm_who
shm_who(void)
{
	return (struct shm_who){ shm_self(), thread_number };
}

/* From the top: 32 bits incarnation, 32 bits slot + 1. */

static uint64_t
life(uint32_t incarnation, uint16_t slot)
{
	return (uint64_t)incarnation << 32 | (slot + 1u);
}

uint64_t
shm_life_self(void)
{
	return life(shm_self_incarnation(), shm_self());
}

uint64_t
shm_life_of(uint16_t slot)
{
	return life(atomic_load(&shm_process_get(slot)->incarnation), slot);
}

uint16_t
shm_life_slot(uint64_t one)
{
	MUST((uint32_t)one != 0);
	return (uint16_t)((uint32_t)one - 1);
}

bool
shm_life_goes_on(uint64_t one)
{
	return one != 0 && shm_life_of(shm_life_slot(one)) == one &&
	    shm_process_lives(shm_life_slot(one));
}
