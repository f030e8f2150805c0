#ifndef MEMWALD_MASTER_ORPHAN_H
#define MEMWALD_MASTER_ORPHAN_H

/*
 * orphan - ordinals whose owner is gone, and who gets them.
 *
 * An ordinal is an orphan if the chain says so (its owner's worker does not run
 * any more: member.h), or if the instance that owns it is gone (member_is_gone);
 * one of which no lease tells is gone after the grace. What is retired is left
 * alone.
 *
 * Its home decides, if that lives: an ordinal whose worker runs goes to that one,
 * all others to the least loaded (candidate.h), at once. Of a home that is gone
 * every instance decides that is left, each after a pause of its own, so that
 * not all do it together. Before anything is decided leases and assignments are
 * looked at anew: who restarted may hold his lease again. Compare and set settles
 * it: who comes too late finds that it is no orphan any more. With
 * --orphans=manual nothing is decided here; status tells of them.
 *
 * Decided once, nothing is taken back: only a home that comes back, or never was
 * away, takes what is its own (member.h), and it is asked nothing else.
 *
 * Death:	nothing is kept but pauses; the next master decides anew.
 * Lifetime:	one a master; its memory is fixed.
 * Locking:	the ordinal table's mutex, for a moment.
 * Errors:	none: what fails is tried again, with back-off, and logged once.
 */

#include "common/base.h"
#include "shm/ordinal_table.h"

struct orphan_plan {
	uint64_t grace_ns;
	bool manual;
};

void orphan_init(const struct orphan_plan *);
/* After member_step, while the server runs. Times of shm_lock_now_ns. */
void orphan_step(uint64_t now_ns);
/* When to call again, at the latest. */
uint64_t orphan_next_ns(uint64_t now_ns);

/* How many there were at the last look. */
uint32_t orphan_count(void);
bool orphan_is_manual(void);
/* Whether no lease tells of its owner, and did not for the grace. */
bool orphan_is_forgotten(uint32_t index, const struct shm_ordinal *,
    uint64_t now_ns);

#endif
