#ifndef MEMWALD_MAINTAIN_ASKERS_H
#define MEMWALD_MAINTAIN_ASKERS_H

/*
 * askers - commands that wait for the outcome of one run of a store.
 *
 * A fold job among them, a FOLD of one shard (fold_job.h), has deadlines: args[1]
 * for its turn, args[2] for its work, and a span within which each step has to
 * come. Who sent it is told when one passes, whatever holds the run up.
 *
 * Lifetime:	of the job that they are embedded in; memory is freed by
 *		askers_free.
 * Locking:	the loop's thread.
 * Errors:	false: too many, or no memory.
 */

#include "shm/mailbox.h"

#define ASKERS_MAX	4096u	/* of one store and run */

struct askers {			/* zeroed: nobody */
	struct shm_command *commands;
	uint32_t count, room;
};

/* Arg 0 of a FOLD for one shard: its guest is claimed, and who asks is told OK
 * only if the shard is empty then. */
#define ASKERS_FOLD_SHARD 2u

struct askers_clock {			/* of clock_mono_ns */
	uint64_t now_ns;
	uint64_t stepped_ns;		/* the run's last step; 0: not begun */
	uint64_t idle_ns;		/* the longest that one may last */
};

bool askers_add(struct askers *, const struct shm_command *) MUST_CHECK;
bool askers_is_fold_job(const struct shm_command *);
/* Answers those that are late, who are gone then: how many fold jobs are left. */
uint32_t askers_tell_late(struct askers *, const struct askers_clock *);
/* The same answer for all of them; none is left. */
void askers_reply(struct askers *, struct err);
void askers_free(struct askers *);

#endif
