#ifndef MEMWALD_STORE_STORE_H
#define MEMWALD_STORE_STORE_H

/*
 * store - the face of the engine: one store as this process has it open.
 *
 * A handle is found by name, or made: that asks the registry and loads the
 * slot, on the pool. It holds a pin of the slot. When the store was deleted the
 * handle is dead, no longer found, and freed when the
 * last user has closed it. So a store that is deleted and created anew under
 * the same name is another handle, with another directory. A handle that nobody
 * uses may go at the end of any turn (source_cache.h).
 *
 * Waiting. A function with a struct store_wait calls wait->done exactly once,
 * now or in a later turn; whoever cannot wait any longer still gets it.
 *
 * Lifetime:	a handle is counted: store_open takes a use, store_close gives
 *		it back.
 * Locking:	the loop's thread. Jobs on the pool get what they need handed
 *		over, and while one of them runs, reads of the same store wait.
 * Errors:	NOT_FOUND: not registered, or deleted. BUSY: no slot or no
 *		descriptor, after some tries, or the pool's queue is full. UNAVAILABLE, CORRUPT, IO: from loading.
 */

#include "worker/store/engine.h"
#include "worker/store/kind.h"
#include "worker/store/snapshot.h"
#include "worker/store/tail.h"

struct writer;

struct store_wait {
	void (*done)(struct store_wait *, struct err);
	struct list link;		/* the store's, while it waits */
	struct store *store;		/* result of store_open */
	bool strong;			/* for read_view: see read.h */
	bool past;			/* for read_view: at this version */
	uint64_t version;
	struct snapshot *snapshot;	/* result of read_view, for its turn */
};

struct store {
	struct list link;		/* engine's bucket */
	struct engine *engine;
	const struct kind *kind;
	const struct store_shape *shape;	/* NULL until it is open */
	char name[SHM_STORE_NAME_MAX + 1];
	struct shm_ref ref;
	struct object_dir *dir;
	uint32_t uses;
	bool dead;			/* not found any more */
	bool loading;			/* store_open's job runs, or waits */
	struct timer room_timer;	/* a load that found no room */
	uint64_t open_until_ns;
	struct err load_err;
	struct list openers;		/* store_wait: the load serves them */
	struct list joined;		/* store_wait: came while it ran */
	uint64_t looked_ns;		/* at the registry, last */
	uint64_t reloaded_ns;		/* what the table says, by listing */
	struct kept_link kept[KEPT_COUNT];	/* source_cache.h */

	/* Reading: see read.c. */
	struct shm_readers readers;
	struct snapshot *snapshot;	/* NULL before the first read */
	uint32_t tail_count;
	struct tail **tails;		/* of the snapshot's shards, in order */
	uint64_t shards_seen_ns;	/* _mem_wal as it was when last listed */
	uint64_t listed_ns;		/* when others' moves were, last */
	bool viewing;			/* a job has snapshot and tails */
	struct list viewers;		/* store_wait */
	struct snapshot *past;		/* the old version that was read last */
	bool past_opening;		/* a job opens another */
	struct list past_viewers;	/* store_wait */

	struct writer *writer;		/* NULL before the first append */
	bool appends_stopped;		/* pressure.h: as it was last seen, */
	uint64_t pressure_ns;		/* then */
	uint64_t tick_asked_ns;
};

/* Finds or opens a store; wait->store is set when done is called with OK. */
void store_open(struct engine *, const struct kind *, const char *name,
    struct store_wait *);
struct store *store_hold(struct store *);
void store_close(struct store *);

/* Marks it dead: its slot or its data is gone. */
void store_forget(struct store *);

/*
 * Whether the open directory still is this store's, by a look at its name:
 * whoever deletes a store takes that away first. UNAVAILABLE: another instance
 * did, and what was written since may lie where nobody finds it. BAD_INPUT:
 * this one. IO: not known.
 */
struct err store_check_here(const struct store *) MUST_CHECK;

/* The base version, as the contract's answers show it: the newest, also of a
 * store that is pinned to another. */
uint64_t store_version(const struct store *);
uint64_t store_pinned(const struct store *);	/* 0: it is not */

/* Creates a store: registry and table. For the pool: blocks. EXISTS. BAD_INPUT:
 * what a create that crashed left under that name has another shape. */
struct err store_create(struct object_dir *root, const struct kind *,
    const struct store_shape *, const char *name) MUST_CHECK;

/* All handles of the engine with this slot: NULL if there is none. */
struct store *store_by_ref(struct engine *, struct shm_ref);

#endif
