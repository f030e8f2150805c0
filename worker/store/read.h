#ifndef MEMWALD_STORE_READ_H
#define MEMWALD_STORE_READ_H

/*
 * read - gets over base, generations and tails; lists are in read_list.h.
 *
 * read_view brings a store's snapshot and tails up to what is acknowledged
 * now; it costs two looks when nothing has changed. Until the caller returns
 * to the loop it may then get as often as it likes, and open lists, which hold
 * what they need for as long as they run.
 *
 * Last commits are loaded before the view is compared, so that whatever was
 * acknowledged when the read began is in what it reads (design 5).
 *
 * A wait that is strong also reads what other instances have acknowledged and
 * not sealed: their tails are read to the end, which costs a job on the pool,
 * a sync and a pass over the last entry of each of their shards.
 *
 * A wait with a version reads that version of the base table and nothing else
 * (read_past.h); so do all reads of a store that is pinned (pin.h). Then
 * wait->snapshot has no shards.
 *
 * Locking:	the loop's thread.
 * Errors:	NOT_FOUND: there is no such version, named by wait->version; or
 *		the store was deleted. UNAVAILABLE: the view could not be had
 *		after three tries. BACKLOG: too many generations (pressure.h,
 *		contract 6.6).
 */

#include "worker/store/merge_sources.h"
#include "worker/store/store.h"

void read_view(struct store *, struct store_wait *);

enum read_for {
	READ_FOR_NOW,		/* good until the next read of this process */
	READ_TO_KEEP		/* good until the arena is reset */
};

/* Long blobs may be far (batch.h, rule 6): in a file that is open in this turn
 * and, for a list, until its next row. */

/* After read_view, in the same turn, of wait->snapshot: the row that counts. */
struct err read_get(struct store *, const struct snapshot *, struct slice key,
    enum read_for, struct arena *, struct batch *, uint64_t *at, bool *found)
    MUST_CHECK;

/* A sample of rollout_wal_pending_generations for each shard. */
void read_count_pending(const struct snapshot *);

/* For append_rotate and when a handle goes. */
void read_close(struct store *);

#endif
