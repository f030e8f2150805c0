#ifndef MEMWALD_MAINTAIN_ROTATE_H
#define MEMWALD_MAINTAIN_ROTATE_H

/*
 * rotate - the shards of a store that is aged, and their owners, asked to close
 * what they hold, so that it can be sealed.
 *
 * A shard's owner is the worker that bears its ordinal. Of a guest, one whose
 * owner is not its home, it is asked to claim the shard first (guest.h). All are
 * asked before the first is waited for, and all together have some seconds.
 *
 * Death:	of an owner: its question is answered; what it left in the WAL
 *		its successor closes (rotate_check).
 * Locking:	none; a thread of the maintainer's pool.
 * Errors:	NO_MEMORY; those of asking (ask.h). UNAVAILABLE: the owner does
 *		not run.
 */

#include "worker/maintain/ask.h"
#include "worker/maintain/maintain.h"

struct aged_shard {
	uint32_t shard, ordinal;
	uint16_t owner;			/* SHM_NOBODY: none that lives */
	bool guest;			/* its owner is not its home */
	bool asked;			/* its owner to rotate: */
	struct ask_question question;
};

struct aged_shards {			/* of one tick */
	uint32_t count;
	struct aged_shard *all;
	uint64_t until_ns;		/* clock_mono_ns; for all answers */
};

/* Lists them and asks whom there is something to ask. claim: guests also where
 * no tail is known. Each that was asked must be waited for; ended in any case. */
struct err rotate_begin(struct aged_store *, bool claim, struct aged_shards *)
    MUST_CHECK;
void rotate_end(struct aged_shards *);

/* Anything was ever committed to it, as far as this host knows. */
bool rotate_has_any(const struct aged_store *, const struct aged_shard *);
/* Of who was asked; for others, and for who died meanwhile, OK: rotate_check
 * tells of those. Errors are logged here. */
struct err rotate_wait(struct aged_store *, const struct aged_shards *,
    struct aged_shard *) MUST_CHECK;
/* After the seal: whether a tail is left that nobody could be asked for. */
struct err rotate_check(const struct aged_store *, const struct aged_shard *)
    MUST_CHECK;

#endif
