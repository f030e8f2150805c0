#ifndef MEMWALD_MAINTAIN_OPENER_H
#define MEMWALD_MAINTAIN_OPENER_H

/*
 * opener - a store that is asked for by name gets a slot.
 *
 * For the master, which an operator tells a name and which has no storage I/O
 * of its own. The reply bears the slot, which may be evicted again before it is
 * used; who asks sees that by its incarnation. One job at a time: they are few.
 *
 * Locking:	the loop's thread; the opening is on the pool.
 * Errors:	of the replies: NOT_FOUND, BUSY (too many ask, or no slot is free), what loading
 *		comes to.
 */

#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/object/object.h"

/* no_room: there is no slot for a store; who asks is told BUSY and comes again. */
void opener_start(struct pool *, struct object_dir *root,
    void (*no_room)(void));
/* A SHM_MAIL_OPEN, which is answered. */
void opener_ask(const struct shm_command *);
bool opener_idle(void);

#endif
