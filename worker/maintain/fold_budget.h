#ifndef MEMWALD_MAINTAIN_FOLD_BUDGET_H
#define MEMWALD_MAINTAIN_FOLD_BUDGET_H

/*
 * fold_budget - how many folds run on this host at once, and how much memory
 * they take together (shm/budget.h: FOLD_SLOTS, FOLD_MEMORY).
 *
 * A pass takes a slot before it opens its generations, and then, in one step,
 * memory for all of them. Nobody asks for more while he holds some, so nobody
 * waits for one who waits. What does not fit waits, bounded by the time limit of
 * its store. First come, first served: a generation that is larger than the
 * whole budget is admitted when it is alone, and as nobody overtakes it, that
 * comes.
 *
 * What the bytes of its generations cover: their mapped pages, and the keys of
 * the new fragment. Beside them a pass has buffers of FOLD_BUFFER_BYTES.
 *
 * Death:	the master gives back what a dead maintainer had taken.
 * Locking:	any thread; a mutex of the process, of no rank, under which
 *		nothing is taken or waited for but the budget's atomics.
 * Errors:	TIMED_OUT, NOT_FOUND: aged_check while waiting.
 */

#include "worker/maintain/maintain.h"

#define FOLD_BUFFER_BYTES (32u << 20)

struct fold_budget {			/* what one pass has taken */
	bool slot;
	uint64_t bytes;
};

struct err fold_budget_slot(struct fold_budget *,
    const struct aged_store *) MUST_CHECK;
/* For generations of that many bytes together. */
struct err fold_budget_memory(struct fold_budget *,
    const struct aged_store *, uint64_t bytes) MUST_CHECK;
/* Bytes of generations that fit beside nothing else; 0: no limit. */
uint64_t fold_budget_room(void);
/* All of it; nothing taken is fine. */
void fold_budget_give(struct fold_budget *);

#endif
