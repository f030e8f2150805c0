#ifndef MEMWALD_MAINTAIN_MAKE_ROOM_H
#define MEMWALD_MAINTAIN_MAKE_ROOM_H

/*
 * make_room - the maintainer's part when slots are short (store/relieve.h).
 *
 * A slot whose tail is not sealed is never evicted, since nobody would know of
 * the tail any more. So what the host has used least is sealed before its next
 * tick, some stores at a time.
 *
 * Locking:	the loop's thread.
 */

#include "shm/store_table.h"

/* Stores with an unsealed tail, used no later than that: up to a few dozen a
 * call, the next ones in the next call. */
void make_room(uint64_t used_ns, void (*seal)(struct shm_ref));

#endif
