#ifndef MEMWALD_MASTER_TELL_H
#define MEMWALD_MASTER_TELL_H

/*
 * tell - what all children must know that changed since they were forked: live
 * options (config.h), and how many workers there are.
 *
 * A child begins with what the master knows at its fork. When something
 * changes, each child that lives is told by mailbox; whose mailbox is full is
 * told at a later turn. Being told twice does no harm.
 *
 * Death:	of a child: its replacement knows it from the fork.
 * Locking:	none; mailboxes, one at a time.
 */

#include "common/base.h"

/* Something changed. */
void tell_all(void);
/* Once a turn: tells whom it has not told yet. */
void tell_look(void);
/* How many of those who live are still to be told. */
uint32_t tell_left(void);

#endif
