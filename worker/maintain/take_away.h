#ifndef MEMWALD_MAINTAIN_TAKE_AWAY_H
#define MEMWALD_MAINTAIN_TAKE_AWAY_H

/*
 * take_away - a deleted store goes: its files, then the handles of workers.
 *
 * Death:	the mark of the deletion stays in the slot, and the next
 *		maintainer begins anew (store/remove.h: each step is safe twice).
 * Locking:	a thread of the maintainer's pool; takes the store's guard, for
 *		which it waits a bounded time; no lock.
 */

#include "worker/maintain/maintain.h"

/* Out of the registry and into the trash. BUSY: the guard was not free. */
struct err take_away(struct aged_store *) MUST_CHECK;
/* Workers drop their handles, so that the slot can be used again. Who does not
 * answer is logged: the slot then stays until he does. */
void forget_everywhere(struct aged_store *);

#endif
