#ifndef MEMWALD_MAINTAIN_PENDING_LIST_H
#define MEMWALD_MAINTAIN_PENDING_LIST_H

/*
 * pending_list - what lies in shards whose ordinal has moved: for the master,
 * which orders folds of it (master/fanout.h) and has no I/O of its own.
 *
 * A question of the master (SHM_JOB_PENDING, shm/mailbox.h) names a place in the
 * registry and gets the next shard behind it that has a generation or a batch
 * in its tail; only ordinals count whose folds are this server's errand
 * (shm/home.h). Storage is asked, not the segment: nothing has to be resident
 * for it, and a store that is not gets no slot. A question looks at a few stores
 * at most. A shard that cannot be read is named as well: its fold says why.
 *
 * The names of a kind are kept from one question to the next; they are listed
 * anew for each kind, and if another maintainer has taken over.
 *
 * Death:	the asker is told, and asks the next maintainer.
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread; one question at a time, on the pool.
 * Errors:	of the replies: storage; BUSY: one is being answered.
 */

#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/object/object.h"

void pending_list_start(struct pool *, struct object_dir *root);
/* A JOB PENDING, which is answered; false: not one. */
bool pending_list_command(const struct shm_command *);
bool pending_list_idle(void);

/* Whether a shard has anything left. For the pool. */
struct err pending_list_shard(struct object_dir *, const struct uuid *shard,
    struct arena *, bool *pending) MUST_CHECK;

#endif
