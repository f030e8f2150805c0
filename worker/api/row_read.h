#ifndef MEMWALD_API_ROW_READ_H
#define MEMWALD_API_ROW_READ_H

/*
 * row_read - the body of an append, {"records":[R,...]}, straight into columns.
 *
 * One pass, no tree, and bounded: the body may come in pieces of any size, and
 * what is kept between two of them is one number, name or time at most. What
 * the columns cost is bounded by the builder: each buffer by its cap, all of
 * them by twice that, since a short row may leave a thousand columns out.
 *
 * What is refused (contract 1.1, 2.4.1, 10; field faults H): anything that is
 * not strict JSON in strict UTF-8; NaN and Infinity; a number that is no
 * integer where one is due, or does not fit the column; a lone surrogate;
 * base64 that is not canonical; a missing or null required field; an empty key,
 * a key or a name with U+0000; a name given twice in one object, since nobody
 * could say which value was meant; nesting deeper than JSON_DEPTH_MAX; a body
 * without rows. Rows may repeat each other's key.
 *
 * Names that the kind does not know are skipped, checked all the same, and
 * named once in ignored (those in relationships as "relationships.x"); of a
 * shape with SHAPE_STRICT_NAMES they are errors.
 *
 * After an error, or when the reader is given up, builder rows from first_row
 * on are half of something: the caller cuts back to the row count that the
 * builder had before (builder_cut).
 *
 * Column _seq gets 0 in every row; whoever commits writes the sequence there.
 *
 * Lifetime:	the reader and the texts of its errors are in the arena.
 * Locking:	none; one thread at a time.
 * Errors:	BAD_INPUT, with a text like "records[3].output_tokens[17]:
 *		1.5 is not an integer". SHAPE (SHAPE_TYPED_BODY): no list of
 *		rows. TOO_LARGE: the builder's cap.
 */

#include "common/arena.h"
#include "common/err.h"
#include "worker/arrow/column.h"
#include "worker/store/kind.h"

#define ROW_IGNORED_MAX	64	/* names told; more are skipped untold */

struct row_read;

struct row_read_result {
	uint64_t first_row;		/* in the builder */
	uint64_t count;			/* at least 1, but for SHAPE_EMPTY_BODY */
	uint32_t ignored_count;
	const struct slice *ignored;	/* in the arena, UTF-8 */
};

/* list_name, the one member of the body, is "records". now_us fills created_at. */
struct err row_read_open(struct arena *, const struct store_shape *,
    const char *list_name, int64_t now_us, struct builder *,
    struct row_read **) MUST_CHECK;
/* The next bytes of the body; they may go away afterwards. After an error the
 * reader answers nothing but that error. */
struct err row_read_feed(struct row_read *, struct slice) MUST_CHECK;
/* The body is complete. */
struct err row_read_finish(struct row_read *, struct row_read_result *) MUST_CHECK;

/* Key of row i of the builder: good until the builder changes. */
struct slice row_read_key(const struct builder *, const struct store_shape *,
    uint64_t row);

#endif
