#ifndef MEMWALD_SHM_PROCESS_H
#define MEMWALD_SHM_PROCESS_H

/*
 * process - the table of the server's processes: who lives in which slot.
 *
 * Slot numbers are fixed for ever: the master is 0, the maintainer 1, worker k
 * is 2 + k. A pid is no identity, since the kernel hands it out again: what
 * names one life of a slot is {slot, incarnation}. The master raises the
 * incarnation before it forks the next life.
 *
 * Death:	nothing here is a lock. The master reads status and panic text,
 *		walks the tables (reap.h), then refills the slot.
 * Lifetime:	made before the first fork; ends with the segment.
 * Locking:	atomics. The master writes pid, incarnation and restarts, the
 *		process itself state, heartbeat, busy, loop and panic text; the
 *		master sets the state once that process is gone. Readers may
 *		see old values, which do no harm: whoever acts on a death is
 *		the master, and it knows from waitpid.
 * Errors:	none.
 */

#include "common/base.h"
#include "shm/guard.h"

#define SHM_MASTER	0u
#define SHM_MAINTAINER	1u
#define SHM_WORKER(k)	(2u + (k))
#define SHM_NOBODY	UINT16_MAX
#define SHM_WORKERS_LIMIT 256u		/* workers_max may not pass it */

#define SHM_ROLES(X) \
	X(MASTER,	"master") \
	X(MAINTAINER,	"maintainer") \
	X(WORKER,	"worker")

enum shm_role {
#define X(role, text) SHM_ROLE_##role,
	SHM_ROLES(X)
#undef X
	SHM_ROLE_COUNT
};

#define SHM_PROCESS_STATES(X) /* state, name, whether somebody lives there */ \
	X(EMPTY,	"empty",	false) \
	X(STARTING,	"starting",	true) \
	X(RUNNING,	"running",	true) \
	X(DRAINING,	"draining",	true) \
	X(DEAD,		"dead",		false)	/* being reaped */

enum shm_process_state {
#define X(state, text, lives) SHM_PROCESS_##state,
	SHM_PROCESS_STATES(X)
#undef X
	SHM_PROCESS_STATE_COUNT
};

#define SHM_LOOPS(X) \
	X(NONE,		"none") \
	X(RING,		"ring") \
	X(EPOLL,	"epoll")

enum shm_loop {
#define X(loop, text) SHM_LOOP_##loop,
	SHM_LOOPS(X)
#undef X
	SHM_LOOP_COUNT
};

#define SHM_PANIC_TEXT 256

struct shm_process {
	alignas(CACHELINE)
	_Atomic int32_t pid;			/* 0: none */
	_Atomic uint32_t incarnation;		/* raised by each refill */
	_Atomic uint32_t state;			/* enum shm_process_state */
	_Atomic uint32_t role;			/* enum shm_role */
	_Atomic uint32_t loop;			/* enum shm_loop */
	_Atomic uint32_t restarts;		/* deaths after which it was replaced */
	_Atomic uint64_t started_us;		/* wall clock */
	int32_t eventfd;			/* the same number everywhere */

	alignas(CACHELINE)
	_Atomic uint64_t heartbeat_ns;		/* monotonic clock */
	_Atomic uint32_t busy;			/* written with it: so much is
						 * under way for long already */

	/* For process_cpu_seconds_total, which may not fall when one dies:
	 * this life's as last seen by a scrape, and of the lives before. */
	_Atomic uint64_t cpu_ticks;
	_Atomic uint64_t cpu_ticks_past;

	alignas(CACHELINE)
	char panic_text[SHM_PANIC_TEXT];	/* read when its writer is gone */
};

/* 2 + workers_max; slots run from 0. */
uint16_t shm_process_count(void);
uint16_t shm_workers_max(void);
struct shm_process *shm_process_get(uint16_t slot);
enum shm_role shm_role_of(uint16_t slot);
/* Whether somebody lives there who takes commands and may hold things. */
bool shm_process_lives(uint16_t slot);

const char *shm_role_name(uint32_t);
const char *shm_process_state_name(uint32_t);
const char *shm_loop_name(uint32_t);

/* Master, before each fork: a new incarnation, STARTING, no panic text. */
void shm_process_refill(uint16_t slot);
/* Master, right after fork, so that a child that never ran has a pid. */
void shm_process_forked(uint16_t slot, int32_t pid);
/* Master: that life ended without being asked to; another one follows. */
void shm_process_died(uint16_t slot);
/* Master, once the walk is done: EMPTY, pid 0. */
void shm_process_clear(uint16_t slot);

/* First thing in a child (and in the master, for slot 0): checks the stamp of
 * the segment, remembers who we are, sends panic texts to the slot. Threads
 * started later belong to the same slot. */
void shm_process_attach(uint16_t slot);
void shm_process_enter(enum shm_process_state);
void shm_process_loop(enum shm_loop);
/* Now and then, by the loop; also says that the process got through its start,
 * and how much an upgrade would have to wait for. */
void shm_process_beat(uint32_t busy);

/* The segment goes away under us (tests): nobody any more. */
void shm_process_detach(void);

/* Who we are; attach must have run. */
bool shm_attached(void);
uint16_t shm_self(void);
uint32_t shm_self_incarnation(void);
/* Number of the calling thread, for people: 0 is the loop. Once a thread. */
void shm_thread_number(uint16_t);
struct shm_who shm_who(void);

/* One life of a slot in one word, never 0: for marks that outlive a death. */
uint64_t shm_life_self(void);
/* Whether that life still goes on: slot, incarnation and state agree. */
bool shm_life_goes_on(uint64_t life);
/* The life that a slot has, or had last. */
uint64_t shm_life_of(uint16_t slot);
/* The slot of a life. */
uint16_t shm_life_slot(uint64_t life);

#endif
