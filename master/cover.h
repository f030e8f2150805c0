#ifndef MEMWALD_MASTER_COVER_H
#define MEMWALD_MASTER_COVER_H

/*
 * cover - whose listening socket is accepted from by whom, besides its own.
 *
 * The kernel goes on putting connections into the socket of a slot that is
 * empty. A replacement finds them there; when none has come within 100 ms
 * (back-off), another worker is told by mailbox to accept from it too, and to
 * stop when the slot has a living worker again. Where a slot is parked (child.h)
 * nobody is waited for: the other begins when its worker has left, not before,
 * since that one shuts the socket.
 *
 * Death:	of the one that covers: another is told.
 * Locking:	mailboxes, one at a time.
 * Errors:	a full mailbox is tried again at the next look.
 */

#include "common/base.h"

void cover_look(uint64_t now_ns);

#endif
