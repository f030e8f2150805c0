#ifndef MEMWALD_MASTER_CURSOR_H
#define MEMWALD_MASTER_CURSOR_H

/*
 * cursor - where a list that is written in pieces goes on.
 *
 * Stores may come and go between two pieces: one that was there all the time is
 * listed once, any other once or not at all.
 */

#include "common/base.h"
#include "shm/store_table.h"

struct cursor {
	bool begun;
	uint32_t index;			/* the next slot, or row */
	uint32_t inner;			/* the next shard of that slot */
	uint32_t patience_ms;		/* left for locks that are held */
};

#endif
