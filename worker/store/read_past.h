#ifndef MEMWALD_STORE_READ_PAST_H
#define MEMWALD_STORE_READ_PAST_H

/*
 * read_past - reads of a store as an old version of its base table had it.
 *
 * Nothing of the present is in it: no generation, no tail; nor does it change
 * anything for those who read that. The version that was read last stays open
 * beside the store's view, and goes with it (source_cache.h); who asks for
 * another one opens that on the pool, one at a time of a store. What is open of
 * the present, or of the version before, is taken over.
 *
 * Each read looks whether the version is still there: what collection has taken
 * is gone for every worker at once, also where it is open.
 *
 * Locking:	the loop's thread.
 * Errors:	NOT_FOUND: no such version, or not any more.
 */

#include "worker/store/store.h"

/* For read_view: serves a wait with a version. */
void read_past(struct store *, struct store_wait *);

#endif
