#ifndef MEMWALD_STORE_GENERIC_PARTS_H
#define MEMWALD_STORE_GENERIC_PARTS_H

/*
 * generic_parts - the inside of generic: a schema as a list of columns, between
 * its text (generic.c) and the engine's shape (generic_shape.c).
 *
 * Lifetime:	names and metrics point into the JSON tree.
 */

#include "common/buf.h"
#include "worker/store/generic.h"

struct generic_column {
	struct slice name;
	uint8_t type;			/* enum arrow_type */
	uint8_t item;			/* LIST: of its items */
	bool nullable;
	bool blob;
	int32_t dim;
	struct slice metric;		/* ptr NULL: not given */
};

struct generic_columns {
	uint32_t count;
	struct generic_column *columns;	/* as declared */
};

struct err generic_columns_read(struct arena *, const struct json *schema,
    struct generic_columns *) MUST_CHECK;
/* False: the buffer is full. */
bool generic_columns_write(const struct generic_columns *, struct buf *)
    MUST_CHECK;

#endif
