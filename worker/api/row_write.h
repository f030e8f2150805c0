#ifndef MEMWALD_API_ROW_WRITE_H
#define MEMWALD_API_ROW_WRITE_H

/*
 * row_write - one row of a batch as the JSON object D of contract 2.4.2.
 *
 * Left out: internal columns, blob columns that are not asked for, nulls, empty
 * relationships. Floats are printed as the shortest text that reads back as the
 * same float32 (0.1 comes back as 0.1; with SHAPE_WIDE_FLOATS they are widened
 * to double first); what JSON has no word for is null. Times end in Z, or are
 * whole microseconds (SHAPE_RAW_TIMES). Binaries are base64. metadata is given
 * out as it was stored.
 *
 * The output is valid JSON whatever a foreign engine has stored: bytes that are
 * no UTF-8 become U+FFFD, and metadata that is no JSON comes as a string.
 *
 * A row is written whole or not at all: if the buffer's cap is reached the
 * buffer is cut back to where it was.
 */

#include "common/buf.h"
#include "worker/arrow/batch.h"
#include "worker/store/kind.h"

/* columns: shape order, true where the column is wanted; NULL: all but blobs.
 * The batch has the shape's schema. False: the buffer is full, or a
 * value that is far could not be read. */
bool row_write(struct buf *, const struct store_shape *, const struct batch *,
    uint64_t row, const bool *columns) MUST_CHECK;

#endif
