#ifndef MEMWALD_STORE_SNAPSHOT_H
#define MEMWALD_STORE_SNAPSHOT_H

/*
 * snapshot - a view with everything that it names opened.
 *
 * A view (shm/view.h) is numbers; a snapshot is the base table, its fragments,
 * and per shard the manifest and the generations that the base does not hold
 * yet, ready to be read. Building one does I/O; what the snapshot before it
 * had open and is still named is taken over, so that after a fold or a seal
 * only what is new is opened.
 *
 * Generations that the base table names as folded are left out: a crash
 * between base commit and drain leaves them in the manifest (design 6.3).
 *
 * Lifetime:	counted references. The view is booked as read by this process
 *		from take to the last drop, so that collection spares its
 *		files (shm/view.h).
 * Locking:	immutable but for the count; any thread may hold and drop.
 * Errors:	NOT_FOUND: the store or a file of the view is gone, take a
 *		newer view. UNAVAILABLE: the slot must be loaded first.
 */

#include "shm/view.h"
#include "worker/store/base.h"

struct snapshot_shard {
	uint32_t shard;			/* its number in the slot */
	struct uuid uuid;
	struct shard_manifest manifest;	/* version 0: it has none */
	uint32_t source_count;
	struct source **sources;	/* generations, oldest first */
};

struct snapshot {
	_Atomic uint32_t refs;
	struct shm_readers *readers;	/* where view is booked; NULL: nowhere */
	struct shm_view view;
	struct base *base;
	uint32_t shard_count;
	struct snapshot_shard *shards;	/* in the order of view.shards */
	struct arena arena;		/* manifests and arrays */
	uint64_t bytes;			/* as counted (opened.h) */
};

/*
 * Takes a view of the store and opens it. previous: what may be taken over, or
 * NULL.
 */
struct err snapshot_take(struct object_dir *dir, const struct store_shape *,
    struct shm_ref, struct shm_readers *, struct snapshot *previous,
    struct snapshot **) MUST_CHECK;
/*
 * One version of the base table and nothing beside it. It is not booked: what
 * it names left the view long ago, and collection does not ask its readers. All
 * of its files are opened now, so it outlives them. previous: a base that may
 * have some of it open, or NULL. NOT_FOUND: there is no such version, or it is
 * being collected.
 */
struct err snapshot_take_version(struct object_dir *dir,
    const struct store_shape *, uint64_t version, const struct base *previous,
    struct snapshot **) MUST_CHECK;
struct snapshot *snapshot_hold(struct snapshot *);
void snapshot_drop(struct snapshot *);		/* NULL is fine */

/* Whether nothing but the tails has moved since it was taken. */
bool snapshot_is_current(const struct snapshot *);

/* Whether a value that was read lies in a mapped file of it. Looks at each
 * source: not for small ones. */
bool snapshot_maps(const struct snapshot *, const void *value);

/* Pending generations: of the fullest shard, and of all together. */
struct snapshot_pending {
	uint32_t most, sum;
};
struct snapshot_pending snapshot_pending(const struct snapshot *);

#endif
