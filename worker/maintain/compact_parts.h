#ifndef MEMWALD_MAINTAIN_COMPACT_PARTS_H
#define MEMWALD_MAINTAIN_COMPACT_PARTS_H

/*
 * compact_parts - one pass of a compaction between its files: compact.c writes
 * and publishes, compact_choose.c says which fragments, compact_commit.c makes
 * the version of the base table.
 *
 * Lifetime:	one pass, one thread.
 */

#include "worker/lance/commit.h"
#include "worker/lance/deletion.h"
#include "worker/maintain/compact.h"
#include "worker/maintain/merged_file.h"

#define COMPACT_ARENA_MAX	(1024u << 20)
#define COMPACT_NOT_MOVED	UINT32_MAX

struct compaction {
	struct aged_store *aged;
	const struct compact_wish *wish;
	struct arena arena;
	struct base *base;		/* whose rows are read */
	uint32_t chosen_count;
	uint64_t chosen_bytes;
	bool *chosen;			/* of its sources, by number in it */
	uint32_t **moved;		/* of each: the new row of each old one */
	struct merged_file file;	/* the new fragment's */
	uint32_t row_count;		/* of it, so far */

	struct base *now;		/* the version that was looked at last */
	struct compact_result counts;	/* of the edit that was made last */
	struct commit_result committed;
};

/* chosen_count 0: there is nothing to do. */
struct err compact_choose(struct compaction *) MUST_CHECK;

/* The fragments that an index which we do not write covers. */
struct compact_cover {
	bool all;			/* one does not say which */
	struct deletion *ids;		/* else; deletion_free it in any case */
};

struct err compact_cover_of(const struct table *, const struct arrow_field *key,
    struct compact_cover *) MUST_CHECK;
bool compact_covers(const struct compact_cover *, uint64_t fragment_id);

/* CONFLICT: given up. */
struct err compact_commit(struct compaction *) MUST_CHECK;

#endif
