#ifndef MEMWALD_STORE_TAIL_H
#define MEMWALD_STORE_TAIL_H

/*
 * tail - one process's follower of one shard's WAL: which keys it holds, and
 * where their newest rows are.
 *
 * A row is readable as soon as it is acknowledged, through any worker, because
 * every worker follows the WAL itself: before it reads it goes on to the end
 * that the shard's owner has published (shm/shard_state.h), which costs what
 * was written since. Kept are the keys, some 40 bytes a row and the key; rows
 * are read from the entry when they are wanted, and are checked when followed.
 *
 * A tail starts behind the replay_after of the manifest that it is read with,
 * never at a hint, and what a generation has taken over is trimmed. Reads name
 * the replay_after of their own view: rows at or below are not theirs.
 *
 * Entries that were put whole, one a commit, are kept as one, up to a few
 * hundred in a row, and are not kept open: a tail may be thousands of them.
 *
 * Lifetime:	the store's handle, whose directory entries are opened in. A tail_sorted holds what it needs of the
 *		entries, whatever is trimmed meanwhile.
 * Locking:	none; whoever follows or trims has it for himself.
 * Errors:	NOT_FOUND: an entry was collected, take a newer view. CORRUPT is
 *		not an error here: a damaged batch is logged, counted, and the
 *		rest is served (design 4). NO_MEMORY.
 */

#include "common/err.h"
#include "common/uuid.h"
#include "shm/shard_state.h"
#include "worker/arrow/batch.h"
#include "worker/object/local.h"
#include "worker/store/kind.h"

struct tail;
struct tail_entry;

struct tail_batch {		/* a commit's batch, where it lies */
	struct tail_entry *entry;
	uint64_t position;		/* in the WAL, and offset in there */
	uint64_t offset;
	uint32_t bytes;
	uint32_t row_count;
	int64_t sequence;
};

/* Of batches of one shard. */
static inline bool
tail_batch_before(const struct tail_batch *a, const struct tail_batch *b)
{
	return a->position != b->position ? a->position < b->position :
	    a->offset < b->offset;
}

struct tail_row {
	const struct tail_batch *batch;
	struct slice key;
	uint32_t row;			/* in the batch */
};

struct err tail_new(const struct store_shape *, const struct uuid *shard,
    struct tail **) MUST_CHECK;
void tail_free(struct tail *);			/* NULL is fine */
const struct uuid *tail_shard(const struct tail *);

/* Goes on to the published point; start is used the first time, and when the
 * tail has fallen behind it. */
struct err tail_follow(struct tail *, struct object_dir *,
    uint64_t replay_after, struct shm_point) MUST_CHECK;
/* About how many bytes that would read, and build anew of the table: whether
 * it is worth a thread. */
uint64_t tail_behind(const struct tail *, struct shm_point);
/* Forgets entries up to and including this position. */
void tail_trim(struct tail *, uint64_t replay_after);

/* The newest row of a key behind replay_after; hash: hash_bytes of it. */
bool tail_find(const struct tail *, struct slice key, uint64_t hash,
    uint64_t replay_after, struct tail_row *) MUST_CHECK;
size_t tail_bytes(const struct tail *);		/* memory */
uint64_t tail_rows(const struct tail *);

/* The rows of an entry by key; of one key the newest last. Kept by the entry,
 * so that a list sorts only what came since the last one. */
struct tail_run {
	_Atomic uint32_t refs;
	uint64_t count;
	struct tail_row rows[];
};

/* A run an entry, oldest first. Rows at or below after are to be stepped over:
 * of entries kept as one a part may be sealed. */
struct tail_sorted {
	uint64_t after;
	uint32_t run_count;
	struct tail_run **runs;		/* held, as are their entries */
	struct tail_entry **entries;
};

struct err tail_sort(const struct tail *, uint64_t replay_after,
    struct tail_sorted *) MUST_CHECK;
void tail_sorted_free(struct tail_sorted *);

/* Reads a batch; the arena holds its bytes, but for long blobs of a large one,
 * which are far (batch.h, rule 6) and good while the entry is held. */
struct err tail_read(const struct tail_batch *, const struct store_shape *,
    struct arena *, struct batch *) MUST_CHECK;

#endif
