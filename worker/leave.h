#ifndef MEMWALD_WORKER_LEAVE_H
#define MEMWALD_WORKER_LEAVE_H

/*
 * leave - how a child learns that it is to go.
 *
 * Two ways: SIGTERM from a living master asks for a drain, to which the master
 * keeps the deadline. The death of the master, seen as the end of a pipe that
 * only it holds open (SIGTERM comes then, too: the parent-death signal), asks
 * for the same within ORPHAN_NS. A thread of its own waits for that pipe as
 * well and ends the process at that time whatever its loop does: a loop that
 * hangs must not keep port and lock of the next server.
 *
 * Lifetime:	one a process, made after fork, for ever.
 * Locking:	the callback runs on the loop's thread.
 */

#include "common/base.h"
#include "common/clock.h"
#include "common/loop.h"

#define ORPHAN_NS (1800 * NS_PER_MS)	/* "2 s at most", design 2 */

/* Called once to drain, and once more if the master dies after that. */
typedef void leave_fn(bool orphaned);

void leave_watch(struct loop *, int master_fd, leave_fn *);

#endif
