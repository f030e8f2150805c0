#ifndef MEMWALD_MASTER_UPGRADE_H
#define MEMWALD_MASTER_UPGRADE_H

/*
 * upgrade - the old master's part of an upgrade: it starts its program anew,
 * with what both share, and watches it.
 *
 * The new master is a child that runs the program's file as it is now, with the
 * same arguments. It inherits the listening sockets, the admin socket and the
 * open lock file (so the lock passes over without a gap), the reading end of
 * the family's pipe, and one end of another to say that it is loaded:
 *
 *	MEMWALD_TAKE_OVER = "1" SP workers SP loaded SP family SP lock SP admin
 *			    *(SP listen)
 *
 * after the version of this agreement and the number of workers that run,
 * numbers of descriptors, of which so many sockets listen. Of the family's
 * pipe every process of the old server holds the writing end, the new ones none:
 * its end says that nobody of the old server is left, however they ended. That
 * is when the new master accepts; nobody has to tell it (takeover.h).
 *
 * The old one goes on serving until the new one is loaded, and goes on after all
 * if the new one ends before it took over: where the file is not there, is an
 * older one that knows nothing of this (which waits for the lock in vain), or
 * refuses the options.
 *
 * Death:	of the old master: its children leave as ever, then the new one
 *		takes over. Of the new one: seen by its pidfd.
 * Lifetime:	upgrade_init once.
 * Locking:	the master's one thread.
 * Errors:	logged; they end the upgrade, nothing else.
 */

#include "common/base.h"

#include <poll.h>
#include <sys/types.h>

#define UPGRADE_ENV	"MEMWALD_TAKE_OVER"
#define UPGRADE_VERSION	1

struct upgrade_plan {
	const char *program;		/* what to execute */
	char **argv;
	const int *listen_fds;
	uint32_t listen_count;
	int lock_fd, family_fd;
};

enum upgrade_state { UPGRADE_NONE, UPGRADE_LOADING, UPGRADE_LOADED };

void upgrade_init(const struct upgrade_plan *);
/* SIGUSR2. One at a time: during one it changes nothing. */
void upgrade_begin(uint32_t workers, uint64_t now_ns);
/* After a poll; NONE also when it has just failed. */
enum upgrade_state upgrade_look(uint64_t now_ns);
/* We stop instead, or change: the new one is to leave. */
void upgrade_cancel(void);
pid_t upgrade_pid(void);

#define UPGRADE_POLLS 2
void upgrade_polls(struct pollfd *polls);	/* [UPGRADE_POLLS] */
/* In a child: its copies of the descriptors. */
void upgrade_forget(void);

#endif
