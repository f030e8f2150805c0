#ifndef MEMWALD_LANCE_MEM_WAL_H
#define MEMWALD_LANCE_MEM_WAL_H

/*
 * mem_wal - the MemWAL entry of a table's index section: that the table has
 * shards, and up to which generation each was folded. Pure; used by next.c.
 *
 * The entry has no fields and no files. Of LanceDB's own it differs in having a
 * fragment bitmap, the empty one, without which optimize panics; one that lacks
 * it gets it when its progress changes. All other indices, and what newer
 * engines know of this one, are carried over.
 *
 * Lifetime:	the arena's.
 * Errors:	UNSUPPORTED: there is no entry. CORRUPT. NO_MEMORY.
 * Source:	lance-format.md 7.1.
 */

#include "worker/lance/commit.h"

struct Pb__MergedGeneration;
struct Pb__Transaction;

/* The index section with an entry more, which the transaction names too. */
struct err mem_wal_add(struct arena *, const struct table *,
    struct Pb__Transaction *, struct slice *section) MUST_CHECK;
/* The index section with the edit's progress in it; it never falls. */
struct err mem_wal_change(struct arena *, const struct table *,
    const struct commit_edit *, struct slice *section) MUST_CHECK;
struct err mem_wal_merged(struct arena *, const struct table_progress *,
    uint32_t count, struct Pb__MergedGeneration ***) MUST_CHECK;

#endif
