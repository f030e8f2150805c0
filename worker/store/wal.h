#ifndef MEMWALD_STORE_WAL_H
#define MEMWALD_STORE_WAL_H

/*
 * wal - the entries of one shard: listed, read, started.
 *
 * Where the store can append, an entry is a file that its writer fills commit
 * by commit; where it cannot, each commit is an entry of its own, put whole
 * (wal_put.c), and that entry says itself where it ends. One shard may hold
 * both, one after the other.
 *
 * Entries lie at positions without a gap behind the shard's replay_after. Where
 * a data entry ends is said by the closes of the next data entry (sentinels do
 * not count); the last one has no recorded end: it is the one published in
 * shared memory, or the end of its whole batches (wal_format.h, validity 3 and
 * 4). An entry is never cut, grown or written by anybody but who created it.
 *
 * Death:	an entry is linked into place with its head and its first
 *		batch; before that there is nothing but a temporary file.
 * Locking:	none. One writer a shard, which the claim sees to (claim.h).
 * Errors:	FENCED: the position is taken. Those of local.h. A head that
 *		cannot be read is no error: the span says so, and its batches
 *		are looked for from the first byte on.
 */

#include "common/arena.h"
#include "common/err.h"
#include "worker/object/local.h"
#include "worker/store/wal_format.h"

#define WAL_ENTRY_MIN	(64u << 10)	/* a new entry; doubles while busy */
#define WAL_ENTRY_MAX	(8u << 20)
/* No head of ours is longer; larger ones are read in full. */
#define WAL_HEAD_PEEK	(32u << 10)

struct wal_span {		/* one entry, as a listing found it */
	uint64_t position;
	uint64_t epoch;
	uint64_t head_bytes;		/* where its batches begin */
	uint64_t size_bytes;		/* of the file */
	uint64_t end;			/* recorded: of its last commit */
	bool recorded;
	bool sentinel;
	bool ours;
	bool whole;			/* put whole: recorded by itself */
	bool damaged;			/* its head cannot be read */
	struct wal_end closes;		/* what its head records */
	uint64_t modified_us;		/* of a sentinel: when it was put */
};

struct wal_list {
	uint32_t count;
	struct wal_span *spans;		/* by position, in the arena */
};

/* One entry; its end is recorded only if it was put whole. scratch: of a few
 * times WAL_HEAD_MAX; nothing of it is needed afterwards. */
struct err wal_span_read(struct object_dir *, const struct uuid *shard,
    uint64_t position, struct arena *scratch, struct wal_span *) MUST_CHECK;
/* All entries behind a position, up to the first that is absent. */
struct err wal_list_read(struct object_dir *, const struct uuid *shard,
    uint64_t after, struct arena *, struct wal_list *) MUST_CHECK;
/* The last data entry of it, or NULL. */
const struct wal_span *wal_list_last(const struct wal_list *);

/* Name of an entry relative to the store's directory. */
#define WAL_PATH_MAX 160
void wal_path(const struct uuid *shard, uint64_t position, char *path);
/* Of the folder that they lie in. */
void wal_folder(const struct uuid *shard, char *path);
/* OK: there is an entry at this position. One look. */
struct err wal_exists(struct object_dir *, const struct uuid *shard,
    uint64_t position) MUST_CHECK;

/* What a span holds that has no recorded end: syncs it first, so that nothing
 * is relied on that a loss of power takes away. */
struct wal_found_end {
	uint64_t end;			/* behind the last whole batch */
	uint64_t sequence;		/* of that batch; 0: none */
	bool any;			/* there is a whole batch */
	bool torn;			/* bytes behind it, not all zero */
};

struct err wal_find_end(struct object_dir *, const struct uuid *shard,
    const struct wal_span *, struct wal_found_end *) MUST_CHECK;

/* Up to where readers follow this entry: the recorded end, else the one that
 * was found; position 0 if no batch lies below it. A damaged head may record
 * anything, so the answer is one that a point (shard_state.h) can hold. */
struct wal_end wal_span_end(const struct wal_span *,
    const struct wal_found_end *);

/* An entry that this process writes, or has put. */
struct wal_writer {
	int fd;				/* -1: closed, or put whole */
	uint64_t position;
	uint64_t head_bytes;
	uint64_t end;			/* of the last commit acknowledged */
	uint64_t size_bytes;
	bool whole;			/* takes no commit more */
};

struct wal_start {
	uint64_t position;		/* put whole: at least this */
	uint64_t epoch;
	struct wal_end closes;		/* position 0: nothing to close */
	struct slice first;		/* its first batches, or empty */
	uint32_t large_count;		/* batches behind those, in parts; with */
	const struct ipc_parts *large;	/* one the entry is as long as it must */
	uint64_t size_bytes;		/* at least; grows for a large first */
	struct object_entry *prepared;	/* taken if it is large enough, or
					 * abandoned; NULL: make one */
};

/*
 * Creates a data entry; FENCED if the position is taken. After UNKNOWN from the
 * link it has been read back: OK or FENCED.
 *
 * Where the store cannot append the entry is whole with first, and every
 * outcome but stored or refused is read back, until WAL_PUT_SPAN_NS have
 * passed. What stands at the position tells: ours, a success whose answer was
 * lost; our own earlier commit (of this epoch), which landed late, so the next
 * position is tried; anything else: FENCED. UNKNOWN: neither could be found
 * out; the entry may still appear, and the next commit finds it then.
 */
#define WAL_PUT_SPAN_NS (10 * NS_PER_SEC)
struct err wal_entry_start(struct object_dir *, const struct uuid *shard,
    const struct arrow_schema *, const struct wal_start *,
    struct wal_writer *) MUST_CHECK;
void wal_writer_close(struct wal_writer *);

/* Puts a fence sentinel at the first free position from *position on, and says
 * which it became. What is unknown is read back as above. */
struct err wal_put_sentinel(struct object_dir *, const struct uuid *shard,
    uint64_t epoch, uint64_t *position) MUST_CHECK;

#endif
