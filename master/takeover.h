#ifndef MEMWALD_MASTER_TAKEOVER_H
#define MEMWALD_MASTER_TAKEOVER_H

/*
 * takeover - the new master's part of an upgrade: what it was given, and when
 * it is its turn.
 *
 * upgrade.h tells the agreement. The new master reads its options, makes its
 * segment and starts its workers, which keep their doors shut and have opened no
 * store; then it says that it is loaded. Until the family's pipe ends it starts
 * no maintainer, answers no admin client, writes nothing.
 *
 * Death:	of the old master, at any time: its family leaves within two
 *		seconds, then it is our turn as well.
 * Lifetime:	takeover_read first thing, before threads and forks.
 * Errors:	BAD_INPUT: the environment is not what this version understands;
 *		then this start ends and the old server goes on.
 */

#include "common/base.h"
#include "common/err.h"
#include "shm/process.h"

struct takeover {
	int loaded_fd, family_fd, lock_fd, admin_fd;
	int listen_fds[SHM_WORKERS_LIMIT];
	uint32_t listen_count;		/* of slots; 0: an ordinary start */
	uint32_t workers;		/* that ran, so many of them listen */
};

/* Takes it out of the environment: it is not for our children. */
struct err takeover_read(struct takeover *) MUST_CHECK;

/* Once: tells the old master that we are loaded. */
void takeover_loaded(struct takeover *);
/* Nobody of the old server is left. */
bool takeover_is_due(const struct takeover *);
/* After that, and in a child: the descriptors that end with the take-over. */
void takeover_end(struct takeover *);

#endif
