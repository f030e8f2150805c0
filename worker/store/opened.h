#ifndef MEMWALD_STORE_OPENED_H
#define MEMWALD_STORE_OPENED_H

/*
 * opened - how much this process has open of all its stores together.
 *
 * Whoever opens a source, a tail's entry, a directory or a WAL entry adds what
 * it costs, and takes the same away when the last reference is gone: so what a
 * read in progress still holds is counted, also after the cache has let go of
 * it (source_cache.h, which keeps the sums within their limits).
 *
 * Mapped pages of data files are not counted: they are the kernel's cache, and
 * it takes them back by itself. Those of key indexes are, since opening reads
 * all of them.
 *
 * Locking:	none; atomics, any thread. Sums that are read together may be
 *		of different instants.
 * Errors:	none.
 */

#include "common/base.h"

enum opened_what {
	OPENED_SOURCES,			/* base fragments and generations */
	OPENED_SOURCE_BYTES,		/* their metadata and key indexes */
	OPENED_TAIL_BYTES,		/* followers and their parsed batches */
	OPENED_MAPS,			/* mapped files */
	OPENED_DESCRIPTORS,
	OPENED_COUNT
};

void opened_add(enum opened_what, uint64_t);
void opened_sub(enum opened_what, uint64_t);
/* What was counted as before is now counted as after. */
void opened_change(enum opened_what, uint64_t before, uint64_t after);
uint64_t opened_now(enum opened_what);

#endif
