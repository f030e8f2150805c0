#ifndef MEMWALD_MAINTAIN_FOLD_JOB_H
#define MEMWALD_MAINTAIN_FOLD_JOB_H

/*
 * fold_job - one shard of one store is folded until it is empty, by order: what
 * becomes of an ordinal that its worker here does not write itself.
 *
 * The store gets a slot, and the shard is looked for; then it is a forced fold
 * (runs.h) with a claim first (guest.h): the worker that owns the ordinal fences
 * whoever wrote the shard before, its tail is sealed, its generations are
 * folded. A job that runs twice finds nothing to do.
 *
 * Death:	of the maintainer: the asker is told (mailbox.h), and asks again.
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread; one store at a time is looked for on the pool.
 * Errors:	of the replies: mailbox.h.
 */

#include "common/loop.h"
#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/object/object.h"

struct fold_job_plan {
	struct loop *loop;
	struct pool *pool;
	struct object_dir *root;
	/* There is no slot for a store. */
	void (*no_room)(void);
	/* A SHM_MAIL_FOLD, which is answered to whom it came from. */
	void (*fold)(const struct shm_command *);
};

void fold_job_start(const struct fold_job_plan *);
/* A SHM_MAIL_FOLD_SHARD, which is answered. */
void fold_job_ask(const struct shm_command *);
/* Who waits is told that the server leaves. */
void fold_job_stop(void);
bool fold_job_idle(void);

#endif
