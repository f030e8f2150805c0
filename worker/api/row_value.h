#ifndef MEMWALD_API_ROW_VALUE_H
#define MEMWALD_API_ROW_VALUE_H

/*
 * row_value - single values into columns: what row_read does when it has come
 * to one. Knows types and rules, nothing of windows, rows or positions.
 *
 * Errors:	FULL: the column refused, see column.h. Else a text that says
 *		what the value is not; where it stood is the caller's to add.
 */

#include "worker/arrow/column.h"
#include "worker/store/kind.h"

enum row_value_outcome { ROW_VALUE_OK, ROW_VALUE_BAD, ROW_VALUE_FULL };

/* number: a JSON number, as it was written. *why is a format with one %.*s for
 * it, that the caller fills in. */
enum row_value_outcome row_value_number(struct column *, struct slice number,
    const char **why) MUST_CHECK;

/*
 * The fast path of lists: takes as many items "number," as it can, and answers
 * the bytes that it took. It stops before whatever is not plain, or is the
 * last of the list or of the window; that is then seen by the usual way.
 * *full: the column refused.
 */
size_t row_value_run(struct column *, const char *p, const char *end,
    uint64_t *count, bool *full);

/* The next number of a vector, or of a binary that is given as its bytes. */
enum row_value_outcome row_value_item(struct column *, struct slice number,
    const char **why) MUST_CHECK;

/* What the rule gives a column that had no value in row row_count. */
enum row_value_outcome row_value_fill(struct builder *,
    const struct store_shape *, uint32_t column, int64_t now_us) MUST_CHECK;

/* Value of a text column that is still being built. */
struct slice row_value_text(const struct column *, uint64_t row);

/* "an integer", "a string": what a column takes; flags: the shape's. */
const char *row_value_expects(const struct column *, uint32_t flags);

#endif
