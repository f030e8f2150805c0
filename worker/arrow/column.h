#ifndef MEMWALD_ARROW_COLUMN_H
#define MEMWALD_ARROW_COLUMN_H

/*
 * column - rows as columns, while they are being written.
 *
 * A builder has one column for each field of its schema, each a few growing
 * buffers. Rows are parsed straight into it; a request that turns out bad is
 * cut back to its mark, so that the rows of others before it stay. When the
 * rows are complete, builder_batch makes a batch that reads the buffers in
 * place.
 *
 * Within one row every column gets exactly one value (or null) and then
 * builder_end_row is called. A string may be written in pieces: reserve, write
 * behind column_tail, column_grow; the value ends with column_end_value. List
 * items are appended to the child, then column_end_value ends the list.
 *
 * Lifetime:	the builder's; batches of it are good until the next change.
 * Locking:	none; one thread at a time.
 * Errors:	functions that may grow answer false when the builder's byte
 *		cap, memory, or (32 bit offsets) 2 GiB is reached; the row is
 *		then half written and the caller cuts back to its mark.
 */

#include "common/buf.h"
#include "worker/arrow/batch.h"

struct column {
	const struct arrow_field *field;
	uint64_t length;
	uint64_t null_count;
	struct buf validity;		/* bits; made at the first null */
	struct buf offsets;		/* 4 or 8 bytes wide; first entry 0 */
	struct buf values;
	struct column *children;
	struct array array;		/* what builder_batch fills in */
	struct array *child_arrays;
};

struct builder {
	const struct arrow_schema *schema;
	uint64_t row_count;
	struct column *columns;
	struct array *arrays;
	size_t cap_bytes;		/* of each buffer */
};

/* Keeps the schema pointer. Fails with NO_MEMORY. */
struct err builder_init(struct builder *, const struct arrow_schema *,
    size_t cap_bytes) MUST_CHECK;
void builder_free(struct builder *);
/* No rows; the memory stays, unless the buffers are larger than keep_bytes
 * in all, then they are given back. */
void builder_clear(struct builder *, size_t keep_bytes);
/* Bytes in all buffers: what the batch costs. */
size_t builder_bytes(const struct builder *);

/* Every column must have exactly one value more than there are rows. */
void builder_end_row(struct builder *);
/* The same for rows that were copied in runs: count values more. */
void builder_end_rows(struct builder *, uint64_t count);
/* Drops all rows from row_count on, and what of a half row is there. */
void builder_cut(struct builder *, uint64_t row_count);
/* Good until the next change. */
struct batch builder_batch(struct builder *);

bool column_null(struct column *) MUST_CHECK;
bool column_bool(struct column *, bool) MUST_CHECK;
bool column_int8(struct column *, int8_t) MUST_CHECK;
bool column_int32(struct column *, int32_t) MUST_CHECK;	/* also UINT32 */
bool column_int64(struct column *, int64_t) MUST_CHECK;	/* also UINT64, timestamps */
bool column_float(struct column *, float) MUST_CHECK;
bool column_double(struct column *, double) MUST_CHECK;
/* One value of a FIXED_LIST column; after dim of them column_end_value. */
bool column_item_float(struct column *, float) MUST_CHECK;
/* A whole string or binary value. */
bool column_bytes(struct column *, struct slice) MUST_CHECK;

/* Pieces of a string or binary value. */
bool column_reserve(struct column *, size_t bytes) MUST_CHECK;
static inline char *
column_tail(struct column *c)
{
	return c->values.ptr + c->values.len;
}
static inline void
column_grow(struct column *c, size_t bytes)
{
	MUST(bytes <= c->values.room - c->values.len);
	c->values.len += bytes;
}
/* Ends a string, list, fixed list or struct value. */
bool column_end_value(struct column *) MUST_CHECK;
/* Bytes (strings) or items (lists) of the value that is being written. */
uint64_t column_open_length(const struct column *);
/* Takes what is written of a value that has not ended back. */
void column_drop_open(struct column *);
/* Drops the values from length on, and what has not ended: with a row's number
 * it takes a value of that row back, when a key comes twice. */
void column_cut(struct column *, uint64_t length);

/* Appends row i of an array of the same type; deep. */
bool column_copy(struct column *, const struct array *, uint64_t i) MUST_CHECK;
/* Appends rows [first, first + count). */
bool column_copy_run(struct column *, const struct array *, uint64_t first,
    uint64_t count) MUST_CHECK;

#endif
