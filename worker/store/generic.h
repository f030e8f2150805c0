#ifndef MEMWALD_STORE_GENERIC_H
#define MEMWALD_STORE_GENERIC_H

/*
 * generic - the schema that a generic store is created with (contract 3.3.1),
 * as its users write it, as its table bears it, and as the engine's shape.
 *
 *	{"columns":[[name, {"type":T, "nullable":bool, ...}], ...]}
 *
 *	string (large), int32, int64, float32, float64, bool, timestamp,
 *	binary (blob), vector (dim, metric), list (item: one of the others but
 *	list and vector; no nullable)
 *
 * Rules:	1. 1 to 1024 columns; names of 1 to GENERIC_NAME_MAX bytes, no
 *		   two alike, none that begins with "_", none with "." or "`",
 *		   which the Lance engine could not read.
 *		2. "id" is a string that is not nullable.
 *		3. dim is 1 to GENERIC_DIM_MAX; metric is l2, euclidean, cosine,
 *		   dot or dot_product, in any case. All vectors of a row, which
 *		   take their room also where they are null, have at most
 *		   GENERIC_ROW_BYTES_MAX.
 *		4. no list of lists or vectors; a blob is a column of its own.
 *
 * In the table "id" comes first, then the others as declared, then _seq; field
 * ids run depth first. The table's metadata holds the schema as text, with all
 * defaults written out and the columns as declared (lance-context:schema_spec),
 * lance-context:seal_on_add, and for each vector
 * lance-context:distance_metric:COLUMN; a blob column's metadata holds
 * lance-context:blob.
 *
 * Lifetime:	a shape and all it points to is the arena's.
 * Locking:	none.
 * Errors:	SHAPE: a member is missing or of the wrong type. BAD_INPUT: a
 *		rule is broken; the text names the column. Of a table: CORRUPT,
 *		UNSUPPORTED: its columns are not those of its schema.
 */

#include "common/arena.h"
#include "common/json.h"
#include "worker/lance/table.h"
#include "worker/store/kind.h"

#define GENERIC_COLUMNS_MAX	1024u
#define GENERIC_NAME_MAX	256u
#define GENERIC_DIM_MAX		(1 << 20)
#define GENERIC_ROW_BYTES_MAX	(16u << 20)	/* of its vectors */

/* schema: the JSON object; it may go away afterwards. */
struct err generic_shape_make(struct arena *, const struct json *schema,
    bool seal_on_add, struct store_shape *) MUST_CHECK;
/* What create left in the table. */
struct err generic_shape_read(struct arena *, const struct table *,
    struct store_shape *) MUST_CHECK;

#endif
