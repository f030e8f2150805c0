#ifndef MEMWALD_SHM_RWLOCK_H
#define MEMWALD_SHM_RWLOCK_H

/*
 * rwlock - many readers or one writer, over processes that may die inside.
 *
 * POSIX rwlocks are not robust: a reader that the OOM killer takes holds one
 * for ever. This one counts readers and waiting writers per process, under a
 * robust mutex, so that the master can subtract what a dead process held.
 * Writers that wait keep new readers out. Who must wait sleeps on a futex, in
 * slices, since a releaser may die before it wakes anybody.
 *
 * Nothing long is done under it: copy a view out, swap one in; microseconds. A
 * wait over 100 ms is a log line, over a second (the lock deadline) a panic.
 * The master never takes one: it could wait for a process that only it reaps.
 *
 * Death:	shm_rwlock_reap subtracts what the dead slot held, wakes the
 *		others, and says if it was writing: then what the lock protects
 *		may be half written and its owner marks it stale.
 * Lifetime:	initialised by the master before it forks.
 * Locking:	rank of store_slot; not recursive.
 * Errors:	none.
 */

#include "common/base.h"
#include "shm/mutex.h"

struct shm_rwlock_share {		/* one process; changed by it alone */
	uint16_t readers;		/* threads of it inside */
	uint16_t readers_waiting;
	uint16_t writers_waiting;
};

struct shm_rwlock {
	alignas(CACHELINE)
	struct shm_mutex state;		/* guards all below but change */
	_Atomic uint32_t change;	/* the futex: moves with each release */
	uint16_t writer;		/* slot + 1 of the writer, 0: none */
	uint16_t process_count;
	uint64_t write_since_ns;
	struct shm_rwlock_share shares[];	/* process_count of them */
};

size_t shm_rwlock_bytes(uint16_t process_count);
void shm_rwlock_init(struct shm_rwlock *, uint16_t process_count);

void shm_rwlock_read(struct shm_rwlock *);
void shm_rwlock_read_done(struct shm_rwlock *);
void shm_rwlock_write(struct shm_rwlock *);
void shm_rwlock_write_done(struct shm_rwlock *);

struct shm_rwlock_reaped {
	uint16_t readers;
	uint16_t writers_waiting;
	bool wrote;
};

/* Master only, for a slot that it has reaped. If it died writing, spoil(arg)
 * marks what the lock protects before anybody else gets in. */
struct shm_rwlock_reaped shm_rwlock_reap(struct shm_rwlock *,
    uint16_t dead_slot, void (*spoil)(void *), void *arg);

#endif
