#ifndef MEMWALD_ARROW_IPC_H
#define MEMWALD_ARROW_IPC_H

/*
 * ipc - Arrow's stream and file formats: schemas and batches as bytes.
 *
 * A message, all integers little endian:
 *
 *	u32 0xffffffff | i32 metadata bytes | flatbuffer, padded to 8 | body
 *
 * A stream is a schema message, batch messages, and the end: 0xffffffff and a
 * zero length, or no more bytes, or zeroes (a live WAL entry, design 4). A
 * file is "ARROW1", padding, the same messages, the end, a footer, i32 its
 * length, "ARROW1". The body of a batch holds the buffers of all columns depth
 * first, each padded to 8 (other writers: to 64). Tables and slots are those
 * of lance-format.md 10.
 *
 * Validity, checked by all that reads here, whatever the bytes are:
 *	1. Every table, vector, string and buffer lies inside of its message,
 *	   and the message inside of what was given.
 *	2. The types are those of schema.h, no deeper than ARROW_DEPTH_MAX, no
 *	   more than ARROW_FIELDS_MAX columns. Others are UNSUPPORTED, by name.
 *	3. A batch has the nodes and buffers that its schema asks for, each
 *	   buffer as long as its node's length asks for; a column that is not
 *	   nullable has no null; null counts are those of the bits.
 *	4. Offsets begin at 0 or above, never fall, end inside of the bytes or
 *	   items. Nulls have equal offsets.
 *	5. Compressed buffers (ZSTD only) give exactly the bytes they announce,
 *	   and all of them together fit the arena.
 *	Text is not checked to be UTF-8: who shows it to somebody does.
 *
 * Message metadata (Message slot 4) is apart from a schema's own metadata: it
 * belongs to the message, and other readers ignore it.
 *
 * Lifetime:	what is read are views of the given bytes, which must stay as
 *		long; arrays and names are in the given arena.
 * Locking:	none; a layout is immutable once made.
 * Errors:	CORRUPT: a rule is broken; UNSUPPORTED: rule 2; NO_MEMORY: the
 *		arena or the buffer is full. Results are written on success.
 * Source:	Arrow columnar format 1.4, Message.fbs, Schema.fbs, File.fbs.
 */

#include "common/arena.h"
#include "common/buf.h"
#include "worker/arrow/batch.h"

#define IPC_PREFIX_BYTES 8	/* before the metadata of a message */
#define IPC_END_BYTES	8

/* ---- writing */

/* Appends a schema message. */
struct err ipc_schema_write(struct buf *, const struct arrow_schema *,
    const struct arrow_pair *pairs, uint32_t pair_count) MUST_CHECK;
/* Appends the end of a stream. */
bool ipc_end_write(struct buf *) MUST_CHECK;

/*
 * What all batch messages of one schema have in common: the metadata, of which
 * a batch only patches numbers of fixed width. Made once a WAL entry, so that
 * a commit of one row does not build a flatbuffer.
 */
struct ipc_layout {
	const struct arrow_schema *schema;
	struct slice head;		/* prefix and metadata */
	uint32_t node_count;
	uint32_t buffer_count;
	uint32_t body_length_at;	/* all of these: offsets in head */
	uint32_t row_count_at;
	uint32_t nodes_at;
	uint32_t buffers_at;
	uint32_t pair_count;
	const uint32_t *values_at;	/* of each pair, its value */
};

/* Pairs are the metadata of every message; who writes one may patch their
 * values, at values_at, but not change their length. Keeps the schema. */
struct err ipc_layout_init(struct ipc_layout *, const struct arrow_schema *,
    const struct arrow_pair *pairs, uint32_t pair_count, struct arena *)
    MUST_CHECK;
/* Bytes of the message of rows [first, first + count) of a batch. */
size_t ipc_batch_size(const struct ipc_layout *, const struct batch *,
    uint64_t first, uint64_t count);
/* Writes exactly that many bytes, each value copied once, and says how many. */
size_t ipc_batch_write(const struct ipc_layout *, const struct batch *,
    uint64_t first, uint64_t count, char *to);

/*
 * The same message of a whole builder's batch, in parts: the head, which is
 * written to head (layout->head.len bytes), and the columns' buffers where they
 * lie, with their padding between them. So a large row is written without a
 * second copy of it. The parts are good until the builder changes.
 */
struct ipc_parts {
	uint32_t count;
	struct slice *parts;		/* ipc_parts_max of them */
	size_t bytes;			/* of all */
};

uint32_t ipc_parts_max(const struct ipc_layout *);
void ipc_batch_parts(const struct ipc_layout *, const struct batch *,
    char *head, struct ipc_parts *);

/* A whole file of one batch, not compressed, into an empty buffer. */
struct err ipc_file_write(struct buf *, const struct batch *) MUST_CHECK;

/* ---- reading */

enum ipc_kind { IPC_END, IPC_SCHEMA, IPC_BATCH };

struct ipc_message {
	enum ipc_kind kind;
	size_t bytes;			/* prefix, metadata and body; END: 0 */
	struct slice metadata;
	struct slice body;		/* ptr NULL: read_head */
	size_t header;			/* its table's position in metadata */
	size_t pairs;			/* the vector's; 0: none */
};

/* The message that bytes begin with. */
struct err ipc_message_read(struct slice bytes, struct ipc_message *)
    MUST_CHECK;
/* The same of a message whose body is elsewhere: bytes hold its prefix and
 * metadata at least, and from its first byte on there are total bytes. */
struct err ipc_message_read_head(struct slice bytes, uint64_t total,
    struct ipc_message *) MUST_CHECK;
/* A value of the message's metadata; false if there is no such key. */
bool ipc_message_find(const struct ipc_message *, struct slice key,
    struct slice *value) MUST_CHECK;

/* Of an IPC_SCHEMA message. */
struct err ipc_schema_read(const struct ipc_message *, struct arena *,
    struct arrow_schema *) MUST_CHECK;
/* Of an IPC_BATCH message. Keeps the schema. */
struct err ipc_batch_read(const struct ipc_message *,
    const struct arrow_schema *, struct arena *, struct batch *) MUST_CHECK;

/*
 * A body that is in a file: buffers are fetched into the arena one by one, but
 * for the bytes of string columns that are long: those stay, as arrays that are
 * far (batch.h, rule 6). Compressed ones and those with bytes under nulls are
 * fetched whatever their length.
 */
struct ipc_far {
	struct err (*fetch)(int fd, void *to, size_t bytes, uint64_t offset);
	int fd;
	uint64_t body_at;		/* in that file */
	uint64_t bytes_min;		/* of values that stay */
	const bool *columns;		/* those that may */
};

struct err ipc_batch_read_far(const struct ipc_message *,
    const struct arrow_schema *, const struct ipc_far *, struct arena *,
    struct batch *) MUST_CHECK;

struct ipc_file {
	struct slice bytes;
	struct arrow_schema schema;
	uint32_t batch_count;
	const struct slice *batches;	/* the message of each */
};

struct err ipc_file_open(struct slice bytes, struct arena *, struct ipc_file *)
    MUST_CHECK;
struct err ipc_file_batch(const struct ipc_file *, uint32_t index,
    struct arena *, struct batch *) MUST_CHECK;

#endif
