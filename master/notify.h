#ifndef MEMWALD_MASTER_NOTIFY_H
#define MEMWALD_MASTER_NOTIFY_H

/*
 * notify - what the service manager is told: one datagram a change of state to
 * the socket that NOTIFY_SOCKET names, as sd_notify(3) says.
 *
 *	READY=1			ready for the first time, or has taken over
 *	STOPPING=1		stops
 *	MAINPID=n		the new master, from the old one's last breath
 *
 * By hand and not by libsystemd: it is one sendto.
 *
 * Lifetime:	the environment is read at each call.
 * Errors:	none: without the variable nobody listens; what cannot be sent
 *		is a line in the log.
 */

#include "common/base.h"

void notify_send(const char *text);

#endif
