#ifndef MEMWALD_MAINTAIN_TICK_H
#define MEMWALD_MAINTAIN_TICK_H

/*
 * tick - the one function that ages a store (design 6).
 *
 *	owners are asked to rotate (who is no shard's home claims it, guest.h);
 *	closed entries are sealed, each shard under
 *	its seal guard; then come the steps under the store's guard: every
 *	shard with enough pending generations is folded; if any was, or if it
 *	was asked for, the base table is compacted.
 *
 * A step looks at the time limit between its I/O (aged_check), and says where
 * it is (aged_enter): the phase in which time ran out is logged and counted.
 *
 * It ages the shards of shm_store_aged_next: this server's own, and those of
 * ordinals that were left to its workers. Of these nothing is left in the end,
 * so each generation is folded, whatever the count trigger says.
 *
 * A busy guard means skip: the work is being done. Seal errors and fold errors
 * are different errors, counted apart, and one does not keep the other from
 * being tried. All errors are logged here, once.
 *
 * Locking:	a thread of the maintainer's pool; the store's guard across
 *		I/O; no lock.
 */

#include "worker/maintain/compact.h"

enum tick_want {
	WANT_SEAL = 1,
	WANT_FOLD = 2,		/* at the count trigger */
	WANT_FORCE = 4,		/* fold whatever is pending */
	WANT_DELETE = 8,	/* the store was marked deleted: take it away */
	WANT_TICK = 16,		/* for the ticker: skipped while one is done */
	WANT_FIRST = 32,	/* before what nobody waits for */
	WANT_ROUTE = 64,	/* a fold that a request asked for: counted apart */
	WANT_COLLECT = 128,	/* as after each fold, but nothing is folded */
	WANT_COMPACT = 256,	/* as was asked for */
	WANT_CLAIM = 512,	/* shards of guests are claimed, also if no tail
				 * is known: who had them may still write */
};

struct tick_result {
	uint32_t sealed;		/* generations made */
	uint32_t reclaimed;		/* generations folded and drained */
	struct err seal_err;
	struct err tail_err;		/* sealed, but for who does not run */
	struct err fold_err;		/* BUSY: the guard was not free */
	struct err delete_err;
	struct compact_result compacted;
	struct err compact_err;
	bool over_threshold;		/* a shard waits for a fold */
	bool urgent;			/* of a store with a backlog */
	uint64_t guard_ns;		/* when the guard was got; 0: not */
	bool late;			/* time ran out while it wrote */
	uint32_t pending;		/* generations left, all shards */
	bool gone;			/* deleted; the slot goes if it can */
	/* Unless 0: when the store wants a forced tick even if nobody writes to
	 * it (clock_mono_ns). */
	uint64_t again_ns;
	uint64_t collect_ns;		/* the same of collection */
};

struct tick_limit {
	uint64_t span_ns;
	_Atomic uint64_t *stepped_ns;	/* clock_mono_ns of each look at it */
};

/* want: enum tick_want, or-ed; asked: for WANT_COMPACT. */
void tick_store(struct maintain_env *, struct shm_ref, uint32_t want,
    const struct compact_wish *asked, const struct tick_limit *,
    struct tick_result *);

#endif
