#ifndef MEMWALD_MAINTAIN_FOLD_H
#define MEMWALD_MAINTAIN_FOLD_H

/*
 * fold - the oldest generations of one shard go into the base table.
 *
 * Prepare: the generations are merged by key and written, in key order, as one
 * new fragment with its key index. Nothing is held but a serial and the store's
 * guard; appends, reads and seals go on.
 *
 * Commit: one version of the base table carries the new fragment, deletion
 * vectors for the rows that it replaces, and the shard's merged generation.
 * Each new key is looked up in the key indexes of the base: a base row of a
 * lower sequence is masked there, and where the base row is the newer one, the
 * new row is masked in its own fragment. When another commit took the version,
 * that is done again on top of it; the data file is reused. If the newest
 * version already bears our progress, nothing is written.
 *
 * Drain: the folded generations leave the shard's manifest, and only those,
 * inside the compare-and-set (design 6.4). Then the view is swapped.
 *
 * Death:	before the commit: files that no version names. After it: the
 *		generations are skipped by every reader, and the next fold
 *		merely drains.
 * Locking:	the store's guard, the caller's; no lock across I/O.
 * Errors:	as they come; nothing visible has changed unless the phase says
 *		DRAIN.
 */

#include "worker/maintain/maintain.h"

struct fold_result {
	uint32_t reclaimed;		/* generations drained */
	uint64_t rows;			/* of the new fragment */
	bool more;			/* generations are left */
};

/* One pass: at most MERGE_MAX_GENERATIONS and MERGE_MAX_BYTES, always one. */
struct err fold_shard(struct aged_store *, uint32_t shard,
    struct fold_result *) MUST_CHECK;

#endif
