#ifndef MEMWALD_MAINTAIN_FOLD_PARTS_H
#define MEMWALD_MAINTAIN_FOLD_PARTS_H

/*
 * fold_parts - one pass of a fold between its files: fold.c chooses, drains
 * and publishes, fold_prepare.c writes the new fragment, fold_commit.c makes
 * the version of the base table, fold_index.c its key index.
 *
 * The key index of the base stays a few segments, and what a fold writes of it
 * does not grow with the base: its own keys, those of fragments that have no
 * segment yet, and segments that are no larger than all that together, so that
 * each key is written again only when its segment at least doubles. None grows
 * beyond FOLD_SEGMENT_ROWS.
 *
 * Lifetime:	one pass, one thread.
 */

#include "worker/lance/commit.h"
#include "worker/lance/shard_manifest.h"
#include "worker/maintain/fold.h"
#include "worker/store/snapshot.h"

#define FOLD_ARENA_MAX	(256u << 20)
#define FOLD_SEGMENT_ROWS	(2u << 20)

struct fold {
	struct aged_store *aged;
	uint32_t shard;
	struct uuid uuid;
	struct arena arena;
	struct shard_manifest manifest;	/* what the pass started from */
	uint64_t up_to;			/* number of the last generation folded */
	uint64_t max_sequence;
	uint64_t bytes;			/* of the generations, as stored */

	uint32_t source_count;
	struct source **sources;	/* the generations, oldest first */

	/* The new fragment; row_count 0: there is none. */
	char file[96];			/* its name below data/ */
	struct table_fragment fragment;
	struct table_file data;
	struct source *added;
	struct key_index *keys;		/* its keys, in memory */

	struct base *base;		/* the version that was looked at last */
	struct commit_result committed;
};

struct err fold_prepare(struct fold *) MUST_CHECK;
struct err fold_commit(struct fold *) MUST_CHECK;
/* The segment of the new fragment, for the edit that adds it to f->base: its
 * files are durable when OK. Memory: the arena. */
struct err fold_index(struct fold *, struct arena *, struct commit_edit *)
    MUST_CHECK;

#endif
