#ifndef MEMWALD_MAINTAIN_WALK_H
#define MEMWALD_MAINTAIN_WALK_H

/*
 * walk - the registry, walked once at the start of the maintainer.
 *
 * A server that comes back has tails and generations that nobody asks for:
 * every store that has any gets a slot, and the callback is told. A few stores
 * a job, one job at a time, so that a start with ten thousand stores does not
 * hold up what is asked for meanwhile. Where there are more stores than slots
 * it waits until those before are sealed and can be evicted. With its end, or
 * that waiting, the server is no longer STARTING (shm/server_state.h).
 *
 * Locking:	the loop's thread; the looking is on the pool.
 */

#include "common/loop.h"
#include "common/pool.h"
#include "shm/store_table.h"
#include "worker/object/object.h"

struct walk_plan {
	struct loop *loop;
	struct pool *pool;
	struct object_dir *root;
	void (*found)(struct shm_ref);
	void (*garbage)(struct shm_ref);	/* collect.h */
	void (*no_room)(void);		/* for the next store; it tries again */
};

void walk_start(const struct walk_plan *);
void walk_stop(void);
bool walk_idle(void);

#endif
