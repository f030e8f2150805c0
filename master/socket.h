#ifndef MEMWALD_MASTER_SOCKET_H
#define MEMWALD_MASTER_SOCKET_H

/*
 * socket - the listening sockets: one a worker slot, all on one port. Those of
 * slots without a worker are bound and do not listen: they get no connection,
 * and are there in every process when a worker is added.
 *
 * With SO_REUSEPORT the kernel spreads connections over them; with one shared
 * socket nearly all went to one process. The port is first bound once without
 * that option: with it alone a second server would silently share the port.
 *
 * Death:	a socket outlives its worker: connections that the kernel took
 *		wait in its queue for the replacement, or for another worker
 *		that is told to accept from it. All processes inherit all.
 * Lifetime:	until the master stops; then socket_close_all.
 * Errors:	EXISTS: port in use for the whole wait. Others name the address.
 *		Texts are static until the next call.
 */

#include "common/base.h"
#include "common/err.h"

struct socket_ask {
	const char *host;
	uint32_t port;			/* 0: any */
	uint32_t count;
	uint64_t wait_ns;		/* for a port in use */
	uint32_t spare;			/* more that only hold the port */
};

/* fds[count + spare]; *port is the real one. TIMED_OUT: asked to stop meanwhile. */
struct err socket_listen(const struct socket_ask *, int *fds, uint32_t *port)
    MUST_CHECK;
/* A spare one, or one that a worker that left has ended, listens; one that does
 * already goes on. */
struct err socket_revive(int fd) MUST_CHECK;
/* It listens no more, in no process; what still waits in its queue is lost. */
void socket_end(int fd);
/* Another master's, which this one takes over: they listen, at that address.
 * BAD_INPUT: they do not. */
struct err socket_adopt(const struct socket_ask *, const int *fds,
    uint32_t *port) MUST_CHECK;
/* Connections come to the queues only with their first bytes (or a second
 * later): then none is accepted whose request is still on its way. */
void socket_defer(const int *fds, uint32_t count, bool on);
void socket_close_all(int *fds, uint32_t count);

#endif
