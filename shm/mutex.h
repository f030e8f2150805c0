#ifndef MEMWALD_SHM_MUTEX_H
#define MEMWALD_SHM_MUTEX_H

/*
 * mutex - a process-shared, robust mutex that nobody waits for for ever.
 *
 * Always taken with a deadline of a second. Beyond it a child panics: somebody
 * was stopped inside, and the master will find and kill that one. The master
 * itself must not die of it; it gives a function that kills the process whose
 * slot is written beside the mutex, and tries again.
 *
 * Who waits looks again in slices. A releaser may die between its release and
 * its wake; the kernel wakes somebody in its place, but not where another took
 * the mutex in between, by a fast path that knows of no sleepers. They would
 * sleep out their deadline beside a mutex that is free most of the time.
 *
 * Death:	the next taker gets EOWNERDEAD, calls the repair function that
 *		lock.def names for this lock, marks the mutex consistent and
 *		goes on. A mutex that is not marked would be lost for ever.
 * Lifetime:	initialised by the master before it forks.
 * Locking:	ranked by order.h. Any thread; unlocked by the one that locked.
 * Errors:	none. No answer within the deadline is a panic.
 */

#include "common/base.h"

#include <pthread.h>

#include "common/clock.h"
#include "shm/order.h"

struct shm_mutex {
	pthread_mutex_t mutex;
	_Atomic uint32_t holder;	/* slot + 1 of the holder, 0: none */
	uint32_t lock;			/* enum shm_lock */
	uint64_t since_ns;		/* of the holder; for the histogram */
};

void shm_mutex_init(struct shm_mutex *, enum shm_lock);
void shm_mutex_lock(struct shm_mutex *);
void shm_mutex_unlock(struct shm_mutex *);

/* What lock.def's repair functions look like. They run with the mutex held,
 * find their table by CONTAINER_OF or by themselves, and may die as well. */
typedef void shm_repair(struct shm_mutex *);

shm_repair shm_ordinal_table_repair, shm_store_table_repair,
    shm_mailbox_repair, shm_rwlock_repair;

/* Master only: called with the slot of a holder that kept a mutex for a whole
 * deadline (SHM_NOBODY if it had no time to write itself down); it should
 * SIGKILL that process. NULL: panic, as in every child. */
void shm_mutex_on_stuck(void (*kill_holder)(uint16_t slot));

/* The deadline; tests make it shorter, before they fork. */
void shm_lock_deadline(uint64_t ns);

/* Of a sleep in which nobody wakes the sleeper. */
#define SHM_WAIT_SLICE_NS	(10 * NS_PER_MS)

struct shm_wait {			/* zeroed, then started */
	uint64_t start_ns;
	uint64_t looks;			/* that found the lock taken */
};

/* After a look in vain: are all that the deadline gives spent? Time in which
 * the waiter itself stood still (a stopped machine or process) does not count:
 * it must have looked for at least half of the slices. */
bool shm_wait_over(struct shm_wait *);

/* The true monotonic clock: a lock is held in true time, also where tests let
 * the server's clock run faster. */
uint64_t shm_lock_now_ns(void);

#endif
