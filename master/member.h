#ifndef MEMWALD_MASTER_MEMBER_H
#define MEMWALD_MASTER_MEMBER_H

/*
 * member - this server as one of those that share a data directory: it starts to
 * serve when it holds its lease, and its ordinals are its own.
 *
 * The lease is the maintainer's work (worker/maintain/lease.h); what follows
 * from it is decided here. Each time that it is got anew (a term), at start or
 * after a loss, the ordinals come home: those of the workers that run are
 * wanted for them, whoever had them meanwhile, and what is assigned to a worker
 * of ours that does not run is orphaned. The same when the number of workers
 * changes; those who leave keep theirs until they have left. Between that what
 * an operator moves stays moved; what he drains (drain.h) stays where it is,
 * whatever starts. But what others decided by themselves comes home at once:
 * they took us for gone when we were not (we restarted between two looks of
 * theirs), a drain that moved it has been undone, or it was retired while we did
 * not run, or were drained.
 *
 * A start waits for that: before it is done no worker runs, and connections
 * wait in the sockets' queues. It waits for as long as another's lease has to be
 * watched, and ends (REFUSED) if that one lives. A storage that does not answer
 * is waited for for MEMBER_PATIENCE; then workers start all the same, for reads.
 *
 * Death:	the maintainer's ends a job, which is ordered again.
 * Lifetime:	one a master.
 * Locking:	none but the ordinal table's mutex, for a moment.
 * Errors:	none: what cannot be done now is tried again, with back-off.
 */

#include "common/base.h"
#include "common/clock.h"
#include "shm/instance.h"

#define MEMBER_PATIENCE_NS (3 * NS_PER_SEC)

enum member_state {
	MEMBER_JOINING,			/* no worker shall run yet */
	MEMBER_IN,
	MEMBER_REFUSED			/* the server must end */
};

/* After child_init, whose workers it goes by. */
void member_init(uint64_t orphan_grace_ns, uint64_t now_ns);
/* Looks at the lease, orders what follows from it. */
enum member_state member_step(uint64_t now_ns);
/* When to call again, at the latest. */
uint64_t member_next_ns(uint64_t now_ns);
/* The lease is held and the ordinals are home, of so many workers. */
bool member_is_home(uint32_t *workers);

/* Another instance has been without a lease for longer than the grace, or left
 * in order a whole span ago: what it owned may be given to others. */
bool member_is_gone(const struct shm_instance *);

#endif
