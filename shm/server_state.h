#ifndef MEMWALD_SHM_SERVER_STATE_H
#define MEMWALD_SHM_SERVER_STATE_H

/*
 * server_state - what every process has to know of the server as a whole: is
 * it still starting, is it leaving.
 *
 * A word of marks, one a row below. Each says two things: whether a balancer
 * should look elsewhere (GET /api/v1/ready answers 503 while any such mark is
 * set), and whether replies end their connections. That a server lives is none
 * of this: /api/v1/health says it in every state.
 *
 * Beside the marks a server is not ready while it does not hold its lease
 * (instance.h), which ends by itself. Whatever else makes a server unready joins
 * as a row, with one writer.
 *
 * Death:	of the maintainer: STARTING stays as it was, its successor walks
 *		again beside a server that serves. The master's ends the server.
 * Lifetime:	made before the first fork, with STARTING and JOINING; ends with
 *		the segment.
 * Locking:	one atomic. Readers may see the word of a moment ago: a balancer
 *		asks now and then anyway.
 * Errors:	none.
 */

#include "common/base.h"

#define SHM_SERVER_MARKS(X) /* mark, as it is called, not ready, replies close */ \
	X(STARTING,	"starting",	true,	false)	/* maintainer clears */ \
	/* Until its ordinals are home and its workers run. */ \
	X(JOINING,	"joining",	false,	false)	/* master clears */ \
	X(DRAINING,	"draining",	true,	true)	/* master */ \
	X(DRAINED,	"drained by an operator", true, true)	/* master */ \
	/* The sockets are another's, too. */ \
	X(UPGRADING,	"upgrading",	false,	false)	/* master */ \
	X(HANDING_OVER,	"handing over",	false,	true)	/* master: an upgrade */

enum shm_server_mark {
#define X(mark, text, not_ready, closes) SHM_SERVER_##mark,
	SHM_SERVER_MARKS(X)
#undef X
	SHM_SERVER_MARK_COUNT
};

void shm_server_set(enum shm_server_mark);
void shm_server_clear(enum shm_server_mark);
bool shm_server_is(enum shm_server_mark);

/* NULL: ready; else why not, the first of the table. */
const char *shm_server_not_ready(void);
/* Replies say "Connection: close". */
bool shm_server_replies_close(void);

#endif
