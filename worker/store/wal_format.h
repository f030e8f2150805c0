#ifndef MEMWALD_STORE_WAL_FORMAT_H
#define MEMWALD_STORE_WAL_FORMAT_H

/*
 * wal_format - a WAL entry as bytes: made, checked and taken apart in memory.
 *
 * An entry is one Arrow IPC stream (ipc.h), in the file
 *
 *	wal/{position, 64 binary digits, lowest bit first}.arrow
 *
 *	head	schema message. Metadata of the schema: "writer_epoch" =
 *		decimal; of a fence sentinel also "fence_sentinel" = "true".
 *		Metadata of the message: "memwald:entry" = uuid; "memwald:
 *		closes" = "position:end", decimal, of the data entry before,
 *		if it is open; "memwald:whole" = 20 decimal digits: bytes of
 *		this entry, if it is put whole.
 *	batches	record batch messages, each beginning at a multiple of 8.
 *		Metadata of the message, of fixed width, so that its size is
 *		known before its content:
 *		"memwald:len"	12 decimal digits: bytes of the whole message
 *		"memwald:seq"	20 decimal digits: its commit's sequence
 *		"memwald:xxh3"	16 hex digits: XXH3 of the whole message, from
 *				its 0xffffffff to the end of its body, these
 *				16 digits being "0"
 *	end	zeroes up to the size that the entry was born with, where
 *		entries are appended to; ff ff ff ff 00 00 00 00 and the end of
 *		the object, where they are put whole.
 *
 * Validity:
 *	1. The head is a valid schema message and names an epoch.
 *	2. In an entry of ours (memwald:entry) a batch is whole if its metadata
 *	   can be read, its memwald:len is its length and its XXH3 is right.
 *	   In an entry of the Lance engine it is whole if its metadata can be
 *	   read and it lies inside of the entry.
 *	3. An end is recorded by memwald:whole, or by the closes of the next
 *	   data entry, or is the end that was published in shared memory, or
 *	   the entry's size where another engine put it. Everything below a recorded end is whole batches;
 *	   what is not is corrupt: its rows are lost, the rest is served.
 *	4. Without one, what is not whole is corrupt if a whole batch follows,
 *	   since commits are written one after the other; else it is torn: the
 *	   last commit of a writer that died, never acknowledged.
 *	5. Behind something bad the next batch is where its two lengths (the
 *	   message's own, memwald:len) say if they agree; else the first
 *	   multiple of 8 where a whole batch begins, of a sequence not below
 *	   the last one. A search hashes at most 64 times the entry's size.
 * What is searched could be content of a row that looks like a batch, and very
 * many of them. So 5 trusts agreeing lengths first: a search is needed only
 * when the metadata themselves are damaged.
 *
 * Lifetime:	what is read are views of the entry's bytes; names, schemas
 *		and arrays are in the given arena.
 * Locking:	none.
 * Errors:	as in ipc.h. Damage is an answer of the scan, not an error.
 * Source:	design.md 4, lance-format.md 7.3.
 */

#include "common/uuid.h"
#include "worker/arrow/ipc.h"

#define WAL_NAME_LEN	70	/* 64 digits and ".arrow" */

/* With a NUL behind it. */
void wal_name(uint64_t position, char name[WAL_NAME_LEN + 1]);
/* False for other names, temporary ones too. */
bool wal_name_parse(struct slice name, uint64_t *position) MUST_CHECK;

struct wal_end {
	uint64_t position;	/* from 1; 0: nothing is meant */
	uint64_t end;		/* bytes */
};

struct wal_head {
	uint64_t epoch;
	bool sentinel;
	bool ours;			/* has an entry uuid */
	struct uuid entry;
	struct wal_end closes;
	uint64_t whole_bytes;		/* of the entry; 0: not put whole */
	struct arrow_schema schema;	/* read: with all its metadata */
	size_t bytes;			/* read: where the batches begin */
};

/* ---- writing */

/* Appends the head of a data entry: epoch, entry, closes, whole_bytes, schema.
 * Its size does not depend on the value of whole_bytes, but on 0 or not. */
struct err wal_head_write(struct buf *, const struct wal_head *) MUST_CHECK;
/* Appends all of a sentinel: a head without columns, and the end. */
struct err wal_sentinel_write(struct buf *, uint64_t epoch,
    const struct uuid *entry) MUST_CHECK;
/* Appends the end of an entry that is put whole. */
bool wal_end_write(struct buf *) MUST_CHECK;

/* Made once an entry, or for as long as the schema lives. */
struct wal_layout {
	struct ipc_layout ipc;
};

struct err wal_layout_init(struct wal_layout *, const struct arrow_schema *,
    struct arena *) MUST_CHECK;
/* Bytes of the message of rows [first, first + count): a multiple of 8. */
size_t wal_batch_size(const struct wal_layout *, const struct batch *,
    uint64_t first, uint64_t count);
/* Writes exactly that many bytes. The rows carry _seq themselves. */
void wal_batch_write(const struct wal_layout *, const struct batch *,
    uint64_t first, uint64_t count, uint64_t sequence, char *to);
/* The message of a whole builder's batch in parts that lie where they are
 * (ipc_batch_parts); head and list are in the arena. Reads all of it once. */
struct err wal_batch_parts(const struct wal_layout *, const struct batch *,
    uint64_t sequence, struct arena *, struct ipc_parts *) MUST_CHECK;

/* ---- reading */

/* The head of an entry, of which at least the head is given. */
struct err wal_head_read(struct slice entry, struct arena *, struct wal_head *)
    MUST_CHECK;

enum wal_found {
	WAL_BATCH,	/* a whole batch */
	WAL_END,	/* no more; again and again */
	WAL_TORN,	/* the last commit, unfinished: goes on with END */
	WAL_CORRUPT,	/* rows are lost here: goes on behind it */
};

struct wal_batch {
	uint64_t offset;		/* of the message, or of the damage */
	uint64_t bytes;			/* of it; offset + bytes is its end */
	bool zero;			/* damage: its bytes are all zero */
	uint64_t sequence;		/* 0 if the Lance engine wrote it */
	struct ipc_message message;	/* for ipc_batch_read */
};

/* A walk over an entry, or over what was appended since the last walk. */
struct wal_scan {
	struct slice bytes;
	uint64_t base;			/* where in the entry they begin */
	bool ours;
	bool end_recorded;
	uint64_t end;			/* recorded, or the entry's size */
	uint64_t offset;		/* where to look next */
	uint64_t whole_end;		/* behind the last whole batch */
	uint64_t sequence;		/* of that batch */
};

/* Bytes of the entry from an offset on: from the head's end, or from where an
 * earlier scan ended (its whole_end); up to the entry's size or, if its end is
 * recorded, at least to there. ours is the head's; true if the head itself
 * cannot be read: then offset is 0 and the batches are read with the store's
 * own schema. */
void wal_scan_init(struct wal_scan *, struct slice bytes, bool ours,
    uint64_t offset);
/* Where the entry ends; the bytes may turn out to be fewer. */
void wal_scan_set_end(struct wal_scan *, uint64_t end);
enum wal_found wal_scan_next(struct wal_scan *, struct wal_batch *);
/* The next batch, if what stands there is one and is whole: else nothing is
 * said and nothing changes, since there may be more behind the bytes. */
bool wal_scan_take(struct wal_scan *, struct wal_batch *) MUST_CHECK;

#endif
