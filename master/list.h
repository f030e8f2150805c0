#ifndef MEMWALD_MASTER_LIST_H
#define MEMWALD_MASTER_LIST_H

/*
 * list - the tables of status, workers, stores, shards, ordinals: each is
 * written in pieces, from the segment, without a lock but the ordinal table's.
 *
 * A section writes until its piece is long enough (CALL_PIECE_BYTES) or it has
 * looked at enough of the segment, and is called again with the cursor where
 * it left it. True: it is complete.
 */

#include "common/base.h"
#include "master/call.h"

typedef bool list_section(struct call *);

list_section list_processes, list_stores, list_locks, list_shards,
    list_ordinals, list_history, list_budgets, list_jobs, list_lanes, list_lease,
    list_instances, list_strays, list_fanout;

/* Whether the store is one that was asked for, by name and kind. */
struct shm_store_info;
bool list_wants(const struct call *, const struct shm_store_info *);

#endif
