#ifndef MEMWALD_SHM_ORDER_H
#define MEMWALD_SHM_ORDER_H

/*
 * order - which locks this thread holds, checked on every acquire.
 *
 * lock.def gives each lock a rank. Ranks only rise and at most one lock of a
 * rank is held, so no two processes can wait for each other in a ring. The
 * check is a MUST and stays on in production: a wrong order that happens not
 * to deadlock today is still a bug.
 *
 * Death:	thread-local memory; gone with its process.
 * Locking:	none.
 */

#include "common/base.h"

enum shm_lock {
#define LOCK(name, rank, kind, repair, protects, taken_by, death) \
	SHM_LOCK_##name,
#include "shm/lock.def"
#undef LOCK
	SHM_LOCK_COUNT
};

const char *shm_lock_name(enum shm_lock);
uint32_t shm_lock_rank(enum shm_lock);

/* Called by mutex and rwlock, before the wait and after the release. */
void shm_order_acquire(enum shm_lock);
void shm_order_release(enum shm_lock);

/* Whether this thread holds any: who is about to wait for I/O, for a guard or
 * for another process says MUST(!shm_order_holds_any()). */
bool shm_order_holds_any(void);

#endif
