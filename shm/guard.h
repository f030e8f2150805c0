#ifndef MEMWALD_SHM_GUARD_H
#define MEMWALD_SHM_GUARD_H

/*
 * guard - the right to age one store, held by at most one tick of the host.
 *
 * Each store slot embeds one guard: only its holder folds, compacts or collects
 * that store. Each shard state embeds another, the right to seal that shard. A
 * guard is tried, never waited for: whoever finds it busy skips, because the
 * work is being done.
 *
 * It is one atomic word and not a robust mutex, for two reasons. A fold moves
 * between the threads of a pool, and a mutex must be unlocked by the thread
 * that locked it. And the master must be able to see and to break the guards
 * of the dead at once, not when somebody next tries them.
 *
 * Death:	the master breaks the guards of a process that it has reaped,
 *		before it refills the slot. What the dead left half done needs
 *		no mark here: a tick is idempotent and starts from the store.
 * Lifetime:	initialised by the master before it forks; ends with the
 *		segment.
 * Locking:	outside the lock order, since nobody waits for it. May be held
 *		while taking any lock, and across I/O.
 * Errors:	none. Busy is an answer; releasing what is not held is a bug.
 */

#include "common/base.h"

/* Where a tick is; for the status page and for the count of time-outs. */
#define TICK_PHASES(X) \
	X(NONE,		"none") \
	X(ROTATE,	"rotate") \
	X(SEAL,		"seal") \
	X(WAIT,		"wait")	/* for a fold slot, for memory */ \
	X(PREPARE,	"prepare") \
	X(BASE_COMMIT,	"base_commit") \
	X(DRAIN,	"drain") \
	X(COMPACT,	"compact") \
	X(COLLECT,	"collect") \
	X(REMOVE,	"remove")

enum tick_phase {
#define X(phase, text) TICK_##phase,
	TICK_PHASES(X)
#undef X
	TICK_PHASE_COUNT
};

const char *tick_phase_name(uint32_t phase);

/* Who holds something: two numbers of one type never travel unnamed. */
struct shm_who {
	uint16_t slot;			/* in the process table */
	uint16_t thread;		/* in that process's pool; for people */
};

struct shm_guard {
	alignas(CACHELINE)
	_Atomic uint64_t word;		/* the only truth; layout in guard.c */

	/* Hints for the status page. The holder writes them; they may lag. */
	_Atomic uint64_t since_ns;	/* monotonic clock */
	_Atomic uint64_t deadline_ns;	/* monotonic clock */
	_Atomic uint32_t phase;		/* enum tick_phase */
};

static_assert(sizeof(struct shm_guard) == CACHELINE,
    "a line each: ticks of neighbouring stores must not share one");

void shm_guard_init(struct shm_guard *);

/* A token that proves this acquisition, or 0 if the guard is busy. */
uint64_t shm_guard_try(struct shm_guard *, struct shm_who self,
    uint64_t deadline_ns) MUST_CHECK;

/* Any thread may release, if it brings the token. */
void shm_guard_release(struct shm_guard *, uint64_t token);

/* The holder says where it is. */
void shm_guard_phase(struct shm_guard *, enum tick_phase);

/* Who holds it now; false if it is free. Old as soon as it is answered. */
bool shm_guard_holder(const struct shm_guard *, struct shm_who *);

/* Master only: frees the guard if the dead slot held it, and says so. */
bool shm_guard_break(struct shm_guard *, uint16_t dead_slot);

#endif
