#ifndef MEMWALD_MASTER_MASTER_H
#define MEMWALD_MASTER_MASTER_H

/*
 * master - the loop of the process that forks all others and watches them.
 *
 * It polls a signalfd and the admin socket, and between two polls looks after
 * its children. It forks at any time, so it has no ring, no thread and no
 * library handle, does no storage I/O and never touches a row.
 *
 * At first only the maintainer runs, until this server may serve (member.h).
 *
 * Stopping begins with --drain-delay-secs in which all goes on, but the server
 * says that it is not ready and ends connections with their next reply. Being
 * asked a second time ends it. Then come steps, in this order, under one
 * deadline (--drain-secs): the workers are told and leave, then the maintainer,
 * then what is left at the deadline is killed.
 *
 * An upgrade (upgrade.h, takeover.h) is a stop that another server waits for.
 * Once that one is loaded, replies end their connections for a while, so that
 * few are idle later, and no store falls due. All goes on until nothing that is
 * under way is old (a slow upload, a fold), for --drain-secs at most; then the
 * workers stop accepting, answer what they have, close their entries and leave,
 * then the maintainer, which has a moment for what it is doing. What waits in the
 * sockets' queues is the other's, and so are admin clients that come now; who
 * came before is answered. If that one ends before it is its turn, all of this is
 * taken back.
 *
 * Death:	the children learn of it (child.h) and leave within 2 s.
 * Errors:	the exit status: 0 stopped in order, 1 nothing could start, or
 *		another server has our instance id.
 */

#include "common/base.h"
#include "master/admin.h"
#include "master/child.h"
#include "master/fanout.h"
#include "master/takeover.h"

/* state, what it is called */
#define MASTER_STATES(X) \
	X(JOIN,			"joining") \
	X(RUN,			"running") \
	X(DRAIN_DELAY,		"draining, still accepting") \
	X(WAIT,			"waiting for the old server to leave") \
	X(HAND_OVER,		"handing over, still accepting") \
	X(HAND_WORKERS,		"handing over, the workers leave") \
	X(HAND_MAINTAINER,	"handing over, the maintainer leaves") \
	X(DRAIN_WORKERS,	"draining workers") \
	X(DRAIN_MAINTAINER,	"draining the maintainer") \
	X(DONE,			"stopped")

enum master_state {
#define X(state, text) MASTER_##state,
	MASTER_STATES(X)
#undef X
	MASTER_STATE_COUNT
};

struct master_plan {
	struct child_plan children;
	const char *admin_path;
	int *listen_fds;
	uint32_t listen_count;
	int signal_fd;
	int lock_fd, family_fd;
	struct takeover *takeover;	/* NULL: an ordinary start */
	const char *program;		/* for an upgrade */
	char **argv;
	uint64_t drain_ns;
	uint64_t drain_delay_ns;
	uint64_t orphan_grace_ns;
	struct fanout_plan fanout;
	bool orphans_manual;
	struct status_server server;	/* state is kept by the loop */
};

/* The exit status. */
int master_run(const struct master_plan *);

#endif
