#ifndef MEMWALD_SHM_REAP_H
#define MEMWALD_SHM_REAP_H

/*
 * reap - the one walk that releases all that a dead process held.
 *
 * The master calls it after waitpid and before it refills the slot, once a
 * death. First the slot's life ends, for claims and for senders; then, store
 * by store, its shares of the rwlock (what a dead writer leaves is marked
 * stale), guards, serials, pins and loads; then budgets and gauges; the
 * mailbox last, so that senders that learn of the death find all else free.
 *
 * It takes no mutex of rank 1 or 2 and no rwlock: robust mutexes are repaired
 * by their next takers, and a walk that waited for a second dead process would
 * wait for itself.
 *
 * Death:	the master's own ends the server; nobody reaps it.
 * Locking:	inner mutexes of the rwlocks (rank 5), mailbox (rank 4), one
 *		at a time.
 * Errors:	none.
 */

#include "common/base.h"

struct shm_reaped {
	uint32_t guards;
	uint32_t seal_guards;
	uint32_t readers;		/* rwlocks held for reading */
	uint32_t writers;		/* slots marked stale */
	uint32_t writers_waiting;
	uint32_t serials;		/* slots that it read views of */
	uint32_t pins;
	uint32_t loads;			/* slots that it was loading */
	uint32_t claims;		/* shards it had claimed; now nobody's */
	uint32_t commands;		/* dropped from its mailbox */
	uint64_t budget;		/* bytes and slots given back */
};

void shm_reap(uint16_t dead_slot, struct shm_reaped *);
/* One log line: what was held. */
void shm_reap_log(uint16_t dead_slot, const struct shm_reaped *);

#endif
