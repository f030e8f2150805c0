#ifndef MEMWALD_MASTER_SIGNAL_H
#define MEMWALD_MASTER_SIGNAL_H

/*
 * signal - what the kernel tells the master, read from a signalfd.
 *
 * All that matters is blocked before anything else, so that nothing is lost
 * and no handler runs anywhere; also as PID 1, where a signal that nobody
 * asked for is dropped by the kernel. SIGPIPE is ignored here and so in all
 * children.
 *
 * Death:	of a child: SIGCHLD. Signals merge, so whoever sees one reaps
 *		until there is nobody left to reap.
 * Lifetime:	opened once, first thing; children call signal_child.
 * Locking:	none, the master has one thread.
 * Errors:	none: what fails here is a bug.
 */

#include "common/base.h"

struct signal_seen {
	bool stop;		/* SIGTERM or SIGINT */
	bool child;		/* SIGCHLD */
	bool reload;		/* SIGHUP */
	bool upgrade;		/* SIGUSR2 */
};

/* Blocks and opens; the descriptor is to be polled. */
int signal_open(void);
/* Takes what is there; sets fields, never clears them. */
void signal_read(struct signal_seen *);
/* Waits for that long, or until asked to stop: then true. For the retries of
 * the start, before there is a loop. */
bool signal_pause(uint64_t real_ns) MUST_CHECK;

/* In a child, right after fork: closes the descriptor, ignores SIGINT and
 * SIGHUP (the terminal's, who talks to the master) and SIGUSR2, leaves SIGTERM
 * blocked for a signalfd of its own, and unblocks the rest. */
void signal_child(void);

#endif
