#ifndef MEMWALD_STORE_SOURCE_CACHE_H
#define MEMWALD_STORE_SOURCE_CACHE_H

/*
 * source_cache - what a worker keeps open of its stores, and what it lets go.
 *
 * Of each store a worker keeps up to three things, each in an order of its own,
 * least used first:
 *
 *	the view	its sources and tails: bytes, mapped files, a descriptor
 *			an entry of a tail. Read again from storage when asked.
 *	the entry	the WAL entry that its writer has open, and the next one
 *			made ahead. Closing it leaves the claim: the next commit
 *			begins a new entry.
 *	the handle	all of it, with the claim, the pin of the slot and the
 *			directory. The next request finds or loads the slot.
 *
 * They go when they were not used for a while, and sooner, the least used
 * first, when a limit is passed: views for bytes (--rollout-cache-bytes, an
 * equal share for each worker) and for mapped files, whole handles for
 * descriptors (a share of RLIMIT_NOFILE; the rest is for connections). A store
 * that a request, a read or a commit uses never goes; what a read holds of a
 * view that went is counted until it is done (opened.h). Limits are kept
 * between turns, so one turn may pass them by what it opens.
 *
 * Pins and views of a worker also keep slots of the segment from eviction: when
 * those are short, handles go that others would not (relieve.h).
 *
 * Lifetime:	part of the engine.
 * Locking:	the loop's thread.
 * Errors:	none; what cannot go stays.
 */

#include "common/list.h"
#include "common/loop.h"
#include "common/timer.h"
#include "shm/mailbox.h"
#include "worker/store/relieve.h"

struct engine;
struct store;

enum kept {
	KEPT_VIEW,
	KEPT_ENTRY,
	KEPT_HANDLE,
	KEPT_COUNT
};

struct kept_link {		/* one in a store for each of these */
	struct list link;		/* empty: nothing of this is kept */
	uint64_t used_ns;
};

struct source_cache {
	struct engine *engine;
	struct list orders[KEPT_COUNT];	/* least used first */
	uint64_t bytes_max, maps_max, descriptors_max;
	struct relieve relieve;
	uint64_t let_go, let_go_seen, let_go_trimmed;	/* counts, ever */
	struct op trim_op;
	bool trimming;
	struct timer look;
};

/* workers: of the server, which share its limits. */
void source_cache_init(struct source_cache *, struct engine *,
    uint32_t workers);

/* It was used now: it is kept, and goes last. */
void source_cache_used(struct store *, enum kept);
/* It is not kept any more. */
void source_cache_gone(struct store *, enum kept);

/* Each turn: back within the limits, as far as that goes. */
void source_cache_trim(struct source_cache *);
/* Whether another store may be opened. */
bool source_cache_has_room(const struct source_cache *);

/* A load found no slot, or no descriptor: lets go of what is used least, and
 * tells the others. */
void source_cache_relieve(struct source_cache *);
/* RELIEVE from another process; WORKERS from the master. */
void source_cache_command(struct source_cache *, const struct shm_command *);

#endif
