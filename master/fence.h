#ifndef MEMWALD_MASTER_FENCE_H
#define MEMWALD_MASTER_FENCE_H

/*
 * fence - nobody who had an ordinal before this server writes to its shards any
 * more, in no store.
 *
 * That an ordinal has moved tells its writers nothing while they are asleep: one
 * whose claim stands acknowledges the commit that it was in the middle of. So
 * each shard is claimed by the worker that has the ordinal now, and folded until
 * it is empty: a fold job (worker/maintain/fold_job.h) in each store that has
 * one, one after the other. From then on who claims must ask the assignment
 * first.
 *
 * Death:	the maintainer's: asked again where it was, until the call's
 *		deadline. Begun anew it goes over shards that are claimed already.
 * Lifetime:	embedded in its call, all zero at first; fence_drop.
 * Locking:	none, the master has one thread.
 * Errors:	none: what fails is tried again, who waits has a deadline.
 */

#include "common/base.h"
#include "master/left_walk.h"

struct fence {
	struct left_walk walk;		/* where it is */
	bool holds;			/* a shard that is not fenced yet */
	bool asked;
	struct mail_question question;
	uint64_t until_ns, again_ns;
	uint32_t count;			/* shards that are */
	struct err err;			/* of the last try, there */
};

/* True: all are. */
bool fence_step(struct fence *, const struct uuid *shard, uint64_t now_ns)
    MUST_CHECK;
void fence_drop(struct fence *);

#endif
