#ifndef MEMWALD_MAINTAIN_CLUSTER_H
#define MEMWALD_MAINTAIN_CLUSTER_H

/*
 * cluster - this server as one of several: when its lease is renewed, when the
 * others are looked at, and the storage jobs that the master orders.
 *
 * A round is: our lease, the leases of others, the assignment of ordinals. One
 * runs at the start, then each third of the lease's span; sooner after a failure
 * and while we have no lease, and at once when the master asks (JOB LOOK). All
 * of it is in true time, also where tests let the server's clock run faster:
 * other servers judge us by theirs.
 *
 * A job of the master (JOB ASSIGN) is done on the pool and answered by mailbox.
 * Without our lease nothing is assigned: UNAVAILABLE.
 *
 * Death:	the next maintainer begins with a round; wants that were not
 *		brought are in the segment, and the master asks again.
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread; rounds and jobs are on the pool, one at a
 *		time.
 * Errors:	of a round are logged here.
 */

#include "common/loop.h"
#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/object/object.h"

struct cluster_plan {
	struct loop *loop;
	struct pool *pool;
	struct object_dir *root;
	uint64_t lease_ns;		/* its span, of true time */
	bool nameless;			/* no instance id of its own */
};

void cluster_start(const struct cluster_plan *);
/* A command that came by mailbox; false: not one of ours. */
bool cluster_command(const struct shm_command *);
/* Gives the lease up, if asked to, and begins nothing more. */
void cluster_leave(bool release);
bool cluster_idle(void);

#endif
