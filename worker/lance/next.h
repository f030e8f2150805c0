#ifndef MEMWALD_LANCE_NEXT_H
#define MEMWALD_LANCE_NEXT_H

/*
 * next - the bytes of a table's next version; pure, no I/O. Used by commit.c.
 *
 * What an edit does not name is carried over from the manifest that it is made
 * from, unknown fields included; the index section byte for byte, unless the
 * progress of a shard or a segment of the key's index changes.
 *
 * Lifetime:	the arena's.
 * Errors:	BAD_INPUT: an edit that names fragments that are not there.
 *		UNSUPPORTED: progress in a table without a MemWAL entry, or
 *		fragment ids beyond 32 bits. NO_MEMORY.
 * Source:	lance-format.md 4 and 5.
 */

#include "worker/lance/commit.h"

struct next {
	uint64_t version;
	char transaction_name[TABLE_NAME_MAX];	/* empty: there is none */
	struct slice transaction;
	struct slice manifest;			/* the whole file */
};

/* uuid: of the commit, the same in all its tries. */
struct err next_make(struct arena *, const struct table *,
    const struct commit_edit *, const struct uuid *, struct next *) MUST_CHECK;
/* Version 1 of a new table, which has no fragment. */
struct err next_make_first(struct arena *, const struct commit_create *,
    const struct uuid *, struct next *) MUST_CHECK;
/* Version 1 of a generation. */
struct err next_make_generation(struct arena *, const struct arrow_schema *,
    const struct table_fragment *, const struct arrow_pair *, uint32_t count,
    struct next *) MUST_CHECK;

#endif
