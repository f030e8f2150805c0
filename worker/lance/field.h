#ifndef MEMWALD_LANCE_FIELD_H
#define MEMWALD_LANCE_FIELD_H

/*
 * field - a schema as Lance stores it, a flat list of fields, and back.
 *
 * Fields are listed depth first, each with its id and its parent's; a list's
 * item is a field, a fixed-size list's is not. Ids are never derived from
 * positions: a schema that has lived has holes.
 *
 * The primary key is recognised by the engine only by fields 12 and 13, which
 * are written for a field whose metadata says FIELD_KEY_POSITION.
 *
 * Lifetime:	the arena's.
 * Errors:	UNSUPPORTED names the field and its type; CORRUPT: a parent that
 *		is not there, a name twice, deeper than ARROW_DEPTH_MAX.
 * Source:	lance-format.md 3.
 */

#include "worker/arrow/schema.h"

struct Pb__Field;
struct Pb__Pair;

#define FIELD_KEY_MARK		"lance-schema:unenforced-primary-key"
#define FIELD_KEY_POSITION	FIELD_KEY_MARK ":position"

/* A copy of the schema whose fields without an id (-1) have ids from first on,
 * depth first. */
struct err field_assign_ids(struct arena *, const struct arrow_schema *,
    int32_t first, struct arrow_schema *) MUST_CHECK;

/* Every field must have an id. */
struct err field_list_make(struct arena *, const struct arrow_schema *,
    struct Pb__Field ***, size_t *count) MUST_CHECK;
struct err field_list_read(struct arena *, struct Pb__Field **, size_t count,
    struct arrow_schema *) MUST_CHECK;

struct err field_pairs_make(struct arena *, const struct arrow_pair *,
    uint32_t count, struct Pb__Pair ***) MUST_CHECK;
struct err field_pairs_read(struct arena *, struct Pb__Pair **, size_t count,
    const struct arrow_pair **) MUST_CHECK;

#endif
