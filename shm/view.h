#ifndef MEMWALD_SHM_VIEW_H
#define MEMWALD_SHM_VIEW_H

/*
 * view - what a read is made of, copied out of a slot, and swapped into it.
 *
 * A view is the base version, and per shard the marks of its manifest and its
 * last commit. It has a serial, which rises with every swap. Taking one copies
 * it under the slot's read lock, last commits before manifests before base, so
 * that a row that is sealed or folded meanwhile is seen twice rather than
 * never; and it notes the serial as read by this process. A file that left the
 * view at serial s may be deleted once no process reads a serial below s.
 *
 * Swaps are element-wise maxima: a base version or a manifest version below
 * the known one changes nothing. So any process may load a view, under no
 * guard. Only a stale slot (a writer died inside) is replaced as a whole.
 *
 * Each process counts its readers of each serial in a book of its own, since
 * the slot holds one number a process: the oldest serial that it still reads.
 *
 * Death:	the master's walk sets the dead one's oldest serial to 0, and
 *		marks the slot stale if it was swapping.
 * Lifetime:	a view until it is dropped; its refs to files are good as long.
 * Locking:	the slot's rwlock, rank 3; the book has a mutex of its own
 *		within the process, taken outside of it.
 * Errors:	NOT_FOUND: old ref, look the name up again. UNAVAILABLE: absent
 *		or stale, load it first. TOO_LARGE: more shards than room.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/uuid.h"

#include <pthread.h>

#include "shm/shard_state.h"
#include "shm/store_table.h"

struct shm_view_shard {
	uint32_t shard;			/* its number, see store_table.h */
	struct uuid uuid;
	struct shm_manifest_marks marks;	/* version 0: no manifest known */
	struct shm_point commit;	/* end of the tail; {0, 0}: none */
	struct shm_point closed;
	struct shm_claim claim;
};

struct shm_view {
	struct shm_ref ref;
	struct uuid store;
	uint64_t serial;
	uint64_t held;			/* serial it is booked under, <= serial */
	uint64_t base_version;		/* 0: none */
	uint64_t pinned_version;
	uint32_t flags;			/* SHM_FLAG_* */
	uint32_t shard_count;		/* shards with anything known */
	uint32_t shard_room;		/* in: of the array */
	struct shm_view_shard *shards;	/* in: the caller's */
};

/* This process's readers of one store, by serial. In a full book a reader is
 * booked under an older serial, which keeps files longer, never shorter. */
#define SHM_READERS_SERIALS 32

struct shm_readers {
	pthread_mutex_t mutex;
	uint32_t count;
	struct {
		uint64_t serial;
		uint32_t readers;
	} entries[SHM_READERS_SERIALS];	/* ascending */
};

/* One a store and process, as long as the process keeps a ref to it. */
void shm_readers_init(struct shm_readers *);
void shm_readers_free(struct shm_readers *);

/* On TOO_LARGE view->shard_count says how much room it takes. */
struct err shm_view_take(struct shm_ref, struct shm_readers *,
    struct shm_view *) MUST_CHECK;
void shm_view_drop(struct shm_readers *, struct shm_view *);

/* The oldest serial that any process reads; UINT64_MAX: nobody reads. */
uint64_t shm_view_oldest(struct shm_ref);

/* One shard's part of a swap. */
struct shm_view_mark {
	uint32_t shard;			/* number; shm_store_shard_add made it */
	struct shm_manifest_marks marks;
};

/* A new base version (0: not changed) and new marks, as maximum. *serial, if
 * not NULL, is the view's afterwards: what left the view left it there. Who
 * raises the base made that version, or knows that it bears no pin. */
struct err shm_view_raise(struct shm_ref, uint64_t base_version,
    const struct shm_view_mark *, uint32_t count, uint64_t *serial) MUST_CHECK;

/* The same of a base version that was found, with the version that it pins the
 * store to (0: none): both come from one manifest, so news of an older one
 * change neither. */
struct err shm_view_raise_base(struct shm_ref, uint64_t base_version,
    uint64_t pinned_version) MUST_CHECK;

/* Loading. Begin notes the serial, then last commits, manifests and base are
 * read from storage in that order, then end swaps them in and makes the slot
 * READY. A stale slot is emptied first, which could undo a raise that came
 * after begin: so end answers CONFLICT if there was one, and loading starts
 * again. shm_store_load_begin may be used before, to do it once. */
struct err shm_view_load_begin(struct shm_ref, uint64_t *serial) MUST_CHECK;
struct err shm_view_load_end(struct shm_ref, uint64_t serial,
    uint64_t base_version, uint64_t pinned_version,
    const struct shm_view_mark *, uint32_t count) MUST_CHECK;

#endif
