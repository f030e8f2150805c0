#ifndef MEMWALD_WORKER_START_H
#define MEMWALD_WORKER_START_H

/*
 * start - what a worker or the maintainer gets from the master at its fork.
 *
 * Lifetime:	made by the master before the first fork; a child inherits the
 *		memory and the descriptors and changes nothing.
 */

#include "common/base.h"

struct config;

struct child_start {
	const struct config *config;
	const char *instance_id;
	bool nameless;			/* it is nobody's in particular */
	uint16_t slot;			/* in the process table */
	int master_fd;			/* pipe; readable: the master is gone */
	const int *listen_fds;		/* by worker number, not process slot */
	uint32_t listen_count;		/* of slots; the later ones may not listen */
	uint32_t workers;		/* that there are to be, at the fork */
	bool hold;			/* the door stays shut until it is told
					 * to accept for its own slot */
};

#endif
