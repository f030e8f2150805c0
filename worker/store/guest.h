#ifndef MEMWALD_STORE_GUEST_H
#define MEMWALD_STORE_GUEST_H

/*
 * guest - shards of ordinals that this worker owns beside its own: orphans of
 * this instance, and what was moved here from another one.
 *
 * Nobody writes rows to them. Their worker claims them (claim.h), which fences
 * a writer that was only asleep, and records where its tail ends; the entry that
 * does so gets no batch and is closed at once. From then on the tail can be
 * sealed, and nothing comes behind it. The claim stands as long as this life and
 * the ordinal's stay with it, so that it is made once; and as long as no manifest
 * is met with a later epoch: what that claimer acknowledged only another claim
 * ends.
 *
 * A shard without a manifest was never written to: there is nothing to claim.
 *
 * Death:	claim.h. What was asked nobody answers, and it is asked again.
 * Lifetime:	a job; it holds its store.
 * Locking:	the loop's thread; the claim is on the pool.
 * Errors:	as replies. FENCED: the ordinal is not this worker's (any more).
 *		UNAVAILABLE: no lease. BUSY: too many ask. Those of claim.h.
 */

#include "shm/mailbox.h"
#include "worker/store/store.h"

/* ROTATE of a shard that is not this worker's own. Replies. */
void guest_rotate(struct store *, const struct shm_command *);
/* A claim is under way: a drain waits for it. */
bool guest_busy(const struct engine *);

#endif
