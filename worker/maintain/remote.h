#ifndef MEMWALD_MAINTAIN_REMOTE_H
#define MEMWALD_MAINTAIN_REMOTE_H

/*
 * remote - folds on other instances, which the master orders.
 *
 * A job (SHM_JOB_FOLD_THERE, shm/mailbox.h) is
 *
 *	POST http://ADDRESS/api/v1/internal/merge-wal/NAME?kind=KIND&ordinal=ORDINAL
 *	Authorization: Bearer SECRET		common/secret.h, if there is one
 *
 * at the address in the lease of the ordinal's owner; the answer is
 * {"reclaimed": n} once its shard is empty (contract 2.7.1). It is waited for
 * until the job's deadline, on a thread, REMOTE_AT_ONCE at a time. The work
 * there goes on if nobody waits any more, and may be asked for twice.
 *
 * Death:	the master is told, and asks again.
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread; requests are on the pool.
 * Errors:	of the replies, also those of transport.h. NOT_FOUND: there is no
 *		such store. FENCED: the ordinal is not another instance's.
 *		UNAVAILABLE: refused with 503, or with the wrong secret. IO: any
 *		other answer. BUSY: REMOTE_AT_ONCE are under way.
 */

#include "common/pool.h"
#include "shm/mailbox.h"

#define REMOTE_AT_ONCE	4u

void remote_start(struct pool *);
/* A JOB FOLD_THERE, which is answered; false: not one. */
bool remote_command(const struct shm_command *);
/* What is under way is waited for no longer. */
void remote_stop(void);
bool remote_idle(void);

#endif
