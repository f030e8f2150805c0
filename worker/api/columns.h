#ifndef MEMWALD_API_COLUMNS_H
#define MEMWALD_API_COLUMNS_H

/*
 * columns - which columns of a row an answer has: "columns=a,b", or a list in a
 * body (contract 2.6.3, 10).
 *
 * The key is always among them. Blobs are only if they are named. Blanks around
 * a name are trimmed, empty parts dropped; so "columns=" is the key alone.
 *
 * Lifetime:	the arena's.
 * Errors:	BAD_INPUT names a column that the store has not.
 */

#include "common/arena.h"
#include "common/err.h"
#include "common/json.h"
#include "worker/store/kind.h"

/* *columns: one bool a column of the shape, for row_write; NULL: all but blobs,
 * if the query does not say. */
struct err columns_of_query(struct slice query, const struct store_shape *,
    struct arena *, const bool **columns) MUST_CHECK;
/* list: NULL, or an array of names. SHAPE: an item is no text. */
struct err columns_of_list(const struct json *list, const struct store_shape *,
    struct arena *, const bool **columns) MUST_CHECK;

#endif
