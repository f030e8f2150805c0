#ifndef MEMWALD_MAINTAIN_LEFT_H
#define MEMWALD_MAINTAIN_LEFT_H

/*
 * left - what is not folded in the shards of one ordinal, in all stores that
 * there are, whoever owns it and whether or not they are resident.
 *
 * It reads the registry and the shards' files, and not the segment: an operator
 * asks who wants to be sure, of a server that may know little of the shard. A
 * shard has something left if it has a generation, or an entry with a batch that
 * no generation covers.
 *
 * Who fences its writers asks for every store that has such a shard at all.
 *
 * One look goes over a few stores, or up to the first in which something is
 * left, and says where it is: the next one goes on behind that. A store that is
 * there all the time is looked at.
 *
 * Lifetime:	none; the place is the caller's.
 * Locking:	none; blocks on I/O: for the pool.
 * Errors:	those of the storage. A store that is gone has nothing left.
 */

#include "common/err.h"
#include "common/uuid.h"
#include "shm/store_table.h"
#include "worker/object/object.h"

#define LEFT_STORES_A_LOOK 128u

struct left_at {
	uint32_t kind;			/* STORE_KIND_COUNT: at the end */
	char name[SHM_STORE_NAME_MAX + 1];	/* looked at last; "": none */
};

enum left_what {
	LEFT_ROWS,			/* something is left */
	LEFT_SHARD			/* the shard was ever claimed */
};

/* *found: what is looked for is in the store at which it is now. On an error it is
 * at the store that could not be read; "": at none. */
struct err left_look(struct object_dir *root, const struct uuid *shard,
    enum left_what, struct left_at *, bool *found) MUST_CHECK;

#endif
