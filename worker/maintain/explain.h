#ifndef MEMWALD_MAINTAIN_EXPLAIN_H
#define MEMWALD_MAINTAIN_EXPLAIN_H

/*
 * explain - each shard of a store belongs to an ordinal; one that does not is
 * told of once, and noted for status and metrics (shm/stray.h).
 *
 * The walk at start asks for every store of every kind, a tick for the store
 * that it ages. Before a shard is called a stray the newest assignment is looked
 * at: an instance's ordinals are in it before its workers claim anything. So is
 * the chain itself where it has more ordinals than the segment has places: those
 * that are retired explain their shards all the same.
 *
 * Locking:	blocks on I/O: for the pool, or a maintainer's thread.
 * Errors:	none: what cannot be looked at now is at the next tick.
 */

#include "shm/store_table.h"
#include "worker/object/object.h"

void explain_store(struct object_dir *root, struct shm_ref);

#endif
