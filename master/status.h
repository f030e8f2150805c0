#ifndef MEMWALD_MASTER_STATUS_H
#define MEMWALD_MASTER_STATUS_H

/*
 * status - the first lines of a status: who this is, and what is wrong.
 */

#include "common/base.h"
#include "master/list.h"

struct status_server {			/* the master's own facts */
	const char *instance_id;
	const char *host;
	uint32_t port;
	const char *state;
	uint64_t started_us;		/* wall clock */
};

void status_init(const struct status_server *);	/* may change */

/* Looks for problems, all of it before anything is written; then the lines. */
list_section status_find, status_head, status_gap;

#endif
