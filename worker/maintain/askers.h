#ifndef MEMWALD_MAINTAIN_ASKERS_H
#define MEMWALD_MAINTAIN_ASKERS_H

/*
 * askers - commands that wait for the outcome of one run of a store.
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

bool askers_add(struct askers *, const struct shm_command *) MUST_CHECK;
/* The same answer for all of them; none is left. */
void askers_reply(struct askers *, struct err);
void askers_free(struct askers *);

#endif
