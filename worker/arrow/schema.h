#ifndef MEMWALD_ARROW_SCHEMA_H
#define MEMWALD_ARROW_SCHEMA_H

/*
 * schema - the types that a column of ours can have, and a table's columns.
 *
 * A field is a tree: a list has one child, its item; a struct has its members;
 * a fixed-size list of float32 has none (its item is implied, as in Lance).
 * The types are those of the three kinds of stores and of Lance's own side
 * files; anything else is refused where a file is read.
 *
 * Lifetime:	a schema and all it points to is immutable and lives as long
 *		as whoever made it says: static for the built-in kinds, an
 *		arena for what came out of a file.
 * Source:	Arrow columnar format 1.4; lance-format.md 3 and 10.
 */

#include "common/arena.h"
#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

/* type, bytes a value (0: bits or not fixed), Lance's logical type */
#define ARROW_TYPES(X) \
	X(BOOL,		0, "bool") \
	X(INT8,		1, "int8") \
	X(INT32,	4, "int32") \
	X(INT64,	8, "int64") \
	X(UINT32,	4, "uint32") \
	X(UINT64,	8, "uint64") \
	X(FLOAT32,	4, "float") \
	X(FLOAT64,	8, "double") \
	X(TIMESTAMP,	8, "timestamp:us:-") \
	X(TIMESTAMP_UTC, 8, "timestamp:us:UTC") \
	X(UTF8,		0, "string") \
	X(LARGE_UTF8,	0, "large_string") \
	X(BINARY,	0, "binary") \
	X(LARGE_BINARY,	0, "large_binary") \
	X(FIXED_LIST,	0, "fixed_size_list:float") \
	X(LIST,		0, "list") \
	X(STRUCT,	0, "struct")

enum arrow_type {
#define X(type, bytes, logical) ARROW_##type,
	ARROW_TYPES(X)
#undef X
	ARROW_TYPE_COUNT
};

#define ARROW_DEPTH_MAX	3	/* list, struct, leaf: no deeper tree exists */
#define ARROW_FIELDS_MAX 1100	/* 1024 columns of a generic store and ours */
#define ARROW_NODES_MAX	(8 * ARROW_FIELDS_MAX)	/* with what is in them */

struct arrow_pair {		/* metadata: text to bytes */
	struct slice key, value;
};

struct arrow_field {
	struct slice name;
	uint8_t type;			/* enum arrow_type */
	bool nullable;
	int32_t dim;			/* FIXED_LIST: values a row; else 0 */
	int32_t id;			/* Lance field id; -1: not assigned */
	uint32_t child_count;
	const struct arrow_field *children;
	uint32_t pair_count;
	const struct arrow_pair *pairs;
};

struct arrow_schema {
	uint32_t field_count;
	const struct arrow_field *fields;
	uint32_t pair_count;
	const struct arrow_pair *pairs;
};

/* Bytes a value, or 0 for bool and everything without a fixed width. */
uint32_t arrow_type_width(enum arrow_type);
const char *arrow_type_name(enum arrow_type);
/* 8 where offsets are 64 bits wide, 4 where 32, 0 where there are none. */
uint32_t arrow_offset_width(enum arrow_type);

/* Index of a column, or -1. */
int arrow_schema_find(const struct arrow_schema *, struct slice name);
/* Same names, types, nullability and order, all the way down. */
bool arrow_field_same(const struct arrow_field *, const struct arrow_field *);
bool arrow_schema_same(const struct arrow_schema *, const struct arrow_schema *);

#endif
