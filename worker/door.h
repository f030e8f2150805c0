#ifndef MEMWALD_WORKER_DOOR_H
#define MEMWALD_WORKER_DOOR_H

/*
 * door - the listening sockets that this worker accepts from, and how it stops
 * without losing a connection that the kernel has taken for it (D.2).
 *
 * Its own socket, and those of empty slots that it was told to look after. A
 * wake-up can be lost: the ring of a process that was killed stays among those
 * who wait for a socket until the kernel has taken it apart, and a connection
 * wakes only one of them. So the worker looks every DOOR_WATCH_NS whether
 * somebody waits at its doors.
 *
 * To retire, it bars new connections, goes on accepting until those that had
 * begun are through and the queue is empty, then ends the listening, for all
 * processes that have the socket: who comes later is refused and does not hang,
 * and nobody is reset. Connections that are there get
 * DOOR_LINGER_NS for their next request, answered with "Connection: close",
 * then http_drain has its way.
 *
 * To hand over to a server that has the same sockets it only stops accepting:
 * what waits in the queues is the other's. Connections that are there have had
 * a while in which replies ended them, and get HAND_OVER_NS more; who is silent
 * then is idle, and closed. Whose request has not come or whose reply is not
 * taken HAND_CUT_NS after that is cut off: the queues wait for him. The master
 * begins when nobody's request is old (master.h), so these are few.
 *
 * Lifetime:	one a worker; door_init after http_create.
 * Locking:	the loop's thread.
 */

#include "common/base.h"
#include "common/loop.h"
#include "worker/http/http.h"

void door_init(struct loop *, struct http_server *);
void door_open(int fd);
void door_shut(int fd);

/* alone: doors of others that it looked after are theirs, and stay open. */
void door_retire(bool alone);
void door_hand_over(void);
/* No connection is left. */
bool door_retired(void);

#endif
