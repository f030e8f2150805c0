#ifndef MEMWALD_STORE_RELIEVE_H
#define MEMWALD_STORE_RELIEVE_H

/*
 * relieve - slots are short: who has to be let go, and everybody is told.
 *
 * A slot that a process pins or reads, or whose tail is not sealed, is never
 * evicted (store_table.h). Who finds no slot asks all processes to let go of
 * the stores that the host has used least: workers close the handles that
 * nobody uses, the maintainer seals the tails. An eighth of the resident stores
 * has to go; if that did not help, twice as many the next time, since the least
 * used may be held by slow readers.
 *
 * Lifetime:	one in each process that loads stores.
 * Locking:	the loop's thread.
 * Errors:	none: whoever cannot be told now is told the next time.
 */

#include "common/base.h"

struct relieve {
	uint64_t told_ns;		/* 0: never */
	uint32_t eighths;		/* of the resident stores, then */
};

/* Tells the others, unless that was just done: then false. Stores used no later
 * than *used_ns (shm_slot.last_used_ns) have to go. */
bool relieve(struct relieve *, uint64_t now_ns, uint64_t *used_ns);

#endif
