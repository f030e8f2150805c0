#ifndef MEMWALD_OBJECT_RETRY_H
#define MEMWALD_OBJECT_RETRY_H

/*
 * retry - how often, and until when, something is tried again that an object
 * store did neither do nor refuse.
 *
 * Waits double from 10 ms to 1 s, each cut by chance to between a half and
 * all of it: who collided once shall not collide again (field faults I.2,
 * I.3). The deadline bounds waits and so tries.
 *
 * Lifetime:	of one call, on its stack.
 * Locking:	none; waiting blocks: for threads of a pool.
 * Errors:	none. No time left is an answer.
 */

#include "common/base.h"

struct object_retry {
	uint64_t until_ns;		/* clock_mono_ns */
	uint64_t wait_ns;		/* the next one */
};

void object_retry_begin(struct object_retry *, uint64_t span_ns);
/* Waits; false, at once, if the deadline would pass meanwhile. */
bool object_retry_wait(struct object_retry *) MUST_CHECK;

#endif
