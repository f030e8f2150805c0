#ifndef MEMWALD_STORE_CLAIM_H
#define MEMWALD_STORE_CLAIM_H

/*
 * claim - become the writer of a shard, before the first write to it.
 *
 * Six steps (design 4), each needed; the model in shared/model loses rows
 * without any of them:
 *	1. epoch + 1 to the newest shard manifest, found by listing;
 *	2. a bare fence sentinel at the first free position after replay_after:
 *	   from here on the old owner finds its next position taken, and
 *	   acknowledges nothing more;
 *	3. the manifests listed again: the epoch is still ours and replay_after
 *	   lies below the sentinel, else the claim is given up;
 *	4. the tail of what was fenced is synced and read;
 *	5. the first data entry is created; it records where that tail ends;
 *	6. serve.
 * What the old owner could still acknowledge lies before 4; what it did not
 * may appear, and then stays, or not.
 *
 * A worker asks the assignment of its ordinal before it claims, so that it
 * fences nobody for nothing, and again before it serves. One that slept between
 * the first answer and its claim has fenced whoever was given the ordinal since,
 * and who may have folded the shard for good: the second answer tells it so, and
 * it acknowledges nothing. If that answer still names it, whoever is given the
 * ordinal later claims later, too.
 *
 * Death:	at every step the shard is as before or has a sentinel more; the
 *		next claimer does all of it again.
 * Locking:	none; blocks on I/O: for the pool.
 * Errors:	FENCED: another claimed meanwhile; trying again is up to the
 *		caller. Those of wal.h and shard_manifest.h, and of
 *		assignment_check.
 */

#include "worker/lance/shard_manifest.h"
#include "worker/store/wal.h"

struct claim {
	struct shard_manifest manifest;	/* as it stood in step 3; generations
					 * are not kept */
	struct wal_writer entry;	/* the first data entry, without a batch */
	struct wal_end tail;		/* the last batch of what was fenced;
					 * position 0: there is none */
	uint64_t sequence;		/* highest of the tail; 0: none */
};

struct err claim_shard(struct object_dir *, const struct uuid *shard,
    const struct arrow_schema *, struct claim *) MUST_CHECK;

struct claim_right {
	struct object_dir *root;	/* of the assignment */
	uint32_t ordinal;
	uint16_t owner;			/* process slot that claims */
	uint32_t moves;			/* found: of the stay (ordinal_table.h)
					 * to which the claim belongs */
};

/* The same of the shard of an ordinal, by right of the assignment. */
struct err claim_ordinal(struct claim_right *, struct object_dir *,
    const struct uuid *shard, const struct arrow_schema *, struct claim *)
    MUST_CHECK;

#endif
