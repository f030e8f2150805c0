#ifndef MEMWALD_MASTER_FACTS_H
#define MEMWALD_MASTER_FACTS_H

/*
 * facts - what processes and locks are doing now, as plain structs.
 *
 * Everything is peeked at without a lock, so that a status can be had whatever
 * hangs; numbers beside each other may be of different instants. A process's
 * facts come from the master's own struct child where it has them.
 */

#include "common/base.h"
#include "shm/store_table.h"

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

struct process_facts facts_process(uint16_t slot);
/* Whether the master has a child in that slot, or is it. */
bool facts_lives(uint16_t slot);
/* The slots in use: the master's and the children's. */
uint32_t facts_slots(void);

struct lock_facts facts_lock(struct shm_ref);
bool facts_is_locked(const struct lock_facts *);
/* The same if it is kept: a lock that is held and not released for as long as
 * the patience lasts, which is used up by that. */
struct lock_facts facts_kept_lock(struct shm_ref, uint32_t *patience_ms);

/* How long the guard is held; both times are hints that may lag. */
uint64_t facts_guard_ms(const struct shm_store_info *);

/* A number in the segment that somebody else writes under his lock. */
#define PEEK(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

#endif
