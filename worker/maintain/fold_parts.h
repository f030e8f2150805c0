#ifndef MEMWALD_MAINTAIN_FOLD_PARTS_H
#define MEMWALD_MAINTAIN_FOLD_PARTS_H

/*
 * fold_parts - one pass of a fold between its files: fold.c chooses, drains
 * and publishes, fold_prepare.c writes the new fragment, fold_commit.c makes
 * the version of the base table.
 *
 * Lifetime:	one pass, one thread.
 */

#include "shm/metric.h"
#include "worker/lance/commit.h"
#include "worker/lance/shard_manifest.h"
#include "worker/maintain/fold.h"
#include "worker/maintain/fold_budget.h"
#include "worker/maintain/key_segment.h"
#include "worker/maintain/merged_file.h"
#include "worker/store/snapshot.h"

#define FOLD_ARENA_MAX	(256u << 20)

struct fold {
	struct aged_store *aged;
	uint32_t shard;
	struct uuid uuid;
	struct arena arena;
	struct shard_manifest manifest;	/* what the pass started from */
	uint64_t up_to;			/* number of the last generation folded */
	uint64_t max_sequence;
	uint64_t bytes;			/* of the generations, as stored */
	struct fold_budget budget;

	uint32_t source_count;
	struct source **sources;	/* the generations, oldest first */

	struct merged_file file;	/* the new fragment's */
	struct source *added;		/* NULL: it has no row */

	/* Where the commit is, and how long it took to find what is replaced. */
	enum metric_fold_phase commit_phase;
	uint64_t delete_keys_ns;
	struct base *base;		/* the version that was looked at last */
	struct commit_result committed;
};

struct err fold_prepare(struct fold *) MUST_CHECK;
struct err fold_commit(struct fold *) MUST_CHECK;

#endif
