#ifndef MEMWALD_MASTER_ASSIGN_H
#define MEMWALD_MASTER_ASSIGN_H

/*
 * assign - decisions about ordinals on their way into the chain.
 *
 * Who decides writes wants (shm/ordinal_table.h) and orders this job, which
 * brings all wants that there are. When it is done, whatever its outcome, the
 * segment knows the newest assignment: the decider looks there whether it got
 * its way, was too late, or is to decide anew. A reply says nothing about one
 * want, since wants of several deciders go together.
 *
 * Death:	the maintainer's ends the job with an error; wants stay, and the
 *		next job brings them.
 * Lifetime:	memory of the decider, from assign_order until assign_done or
 *		assign_drop. All zero: nothing is under way.
 * Locking:	none, the master has one thread.
 * Errors:	UNAVAILABLE: no lease, or the maintainer died. TIMED_OUT. Those
 *		of the storage. That some were too late (CONFLICT) is none.
 */

#include "common/base.h"
#include "master/mail.h"

struct assign {
	bool ordered;
	struct mail_question question;
	uint64_t until_ns;
};

/* SHM_JOB_ASSIGN; or SHM_JOB_LOOK, after which what others decided is known. */
void assign_order(struct assign *, enum shm_job, uint64_t now_ns);
/* True: none is under way; *e is what became of it. */
bool assign_done(struct assign *, uint64_t now_ns, struct err *e) MUST_CHECK;
void assign_drop(struct assign *);

#endif
