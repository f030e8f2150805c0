#ifndef MEMWALD_STORE_PRESSURE_H
#define MEMWALD_STORE_PRESSURE_H

/*
 * pressure - how far a store's backlog has grown, and what that stops.
 *
 * The backlog of a store is what it has sealed and not folded, in generations,
 * and in bytes together with the WAL that is not sealed. Levels, each at a limit
 * of its own (0 in an option takes its limits away):
 *
 *	folds_first	a shard has PENDING_WARN generations, or the bytes are
 *			half of --backlog-max-bytes: it is folded before other
 *			stores
 *	no_appends	the shards together have 7/8 of PENDING_MAX generations,
 *			or the bytes are at their maximum: appends are refused.
 *			The last eighth is for what is in tails by then
 *	no_reads	more than PENDING_MAX generations, with those of other
 *			instances, which a read opens as well: reads are
 *			refused, before they open any
 *
 * The first two go by what this instance can age, and so end by themselves, when
 * enough was folded; the last ends when whoever has the shards folds them. Who refuses an append asks for
 * a tick, so that it does even where no ticker runs.
 *
 * The level that was last seen is noted in the slot, for metrics and the status
 * page, and its changes are logged.
 *
 * Death:	nothing is kept but a hint.
 * Locking:	pressure_look: any thread, without a lock; it looks at each shard
 *		of the store. pressure_append: the loop's thread; it looks once
 *		in PRESSURE_SPAN, so an append costs a comparison.
 * Errors:	BACKLOG: 503 with Retry-After.
 */

#include "common/config.h"
#include "worker/store/store.h"

#define PRESSURE_SPAN_NS (100 * NS_PER_MS)

enum shm_pressure pressure_look(const struct config *, struct shm_ref);

/* Whether the store takes appends now. */
struct err pressure_append(struct store *) MUST_CHECK;
/* Whether a read may open the store's view. */
struct err pressure_read(const struct config *, struct shm_ref) MUST_CHECK;

#endif
