#ifndef MEMWALD_TESTS_ARROW_ROWS_H
#define MEMWALD_TESTS_ARROW_ROWS_H

/*
 * arrow_rows - a schema with every type, and rows that follow from their
 * number alone: put_row writes row i, see_row asserts that it is row i. SEE is
 * what asserts; programs without cmocka define their own before.
 */

#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef SEE
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#define SEE(cond)	assert_true(cond)
#endif

#include "worker/arrow/column.h"

#define FIELD(name_, type_, ...) { .name = { name_, sizeof(name_) - 1 }, \
	.type = ARROW_##type_, .nullable = true, .id = -1, ##__VA_ARGS__ }

static const struct arrow_field item_text = FIELD("item", UTF8);
static const struct arrow_field members[] = {
	FIELD("k", UTF8),
	FIELD("v", FLOAT64),
};
static const struct arrow_field item_struct = FIELD("item", STRUCT,
	.child_count = 2, .children = members);

static const struct arrow_field fields[] = {
	FIELD("b", BOOL),
	FIELD("i8", INT8),
	FIELD("i32", INT32),
	FIELD("i64", INT64),
	FIELD("u32", UINT32),
	FIELD("u64", UINT64),
	FIELD("f", FLOAT32),
	FIELD("d", FLOAT64),
	FIELD("t", TIMESTAMP),
	FIELD("tz", TIMESTAMP_UTC),
	FIELD("s", UTF8),
	FIELD("ls", LARGE_UTF8),
	FIELD("x", BINARY),
	FIELD("lx", LARGE_BINARY),
	FIELD("vec", FIXED_LIST, .dim = 3),
	FIELD("tags", LIST, .child_count = 1, .children = &item_text),
	FIELD("steps", LIST, .child_count = 1, .children = &item_struct),
};
static const struct arrow_schema schema = { ARRAY_LEN(fields), fields, 0, NULL };

enum { B, I8, I32, I64, U32, U64, F, D, T, TZ, S, LS, X, LX, VEC, TAGS, STEPS };

/* Row i holds a value of each column that follows from i alone. A column is
 * null in some rows; each in others. */
static inline bool
is_null_at(uint32_t column, uint64_t i)
{
	return (i + column) % 5 == 3;
}

static inline size_t
text_at(uint64_t i, char text[32])
{
	return (size_t)snprintf(text, 32, "%.*s%llu", (int)(i % 4), "abc",
	    (unsigned long long)i);
}

static inline bool
put_list(struct column *c, uint64_t i)
{
	struct column *item = &c->children[0];
	char text[32];
	uint64_t k;

	for (k = 0; k < i % 4; k++) {
		if (c->field->children[0].type == ARROW_UTF8) {
			if (!(k == 2 ? column_null(item) : column_bytes(item,
			    slice_make(text, text_at(i + k, text)))))
				return false;
			continue;
		}
		if (!column_bytes(&item->children[0],
		    slice_make(text, text_at(i + k, text))))
			return false;
		if (!(k == 1 ? column_null(&item->children[1]) :
		    column_double(&item->children[1], (double)(i + k))))
			return false;
		if (!column_end_value(item))
			return false;
	}
	return column_end_value(c);
}

static inline bool
put_value(struct column *c, uint64_t i)
{
	char text[32];
	size_t len = text_at(i, text);
	uint32_t k;

	switch (c->field->type) {
	case ARROW_BOOL:
		return column_bool(c, i % 3 == 0);
	case ARROW_INT8:
		return column_int8(c, (int8_t)i);
	case ARROW_INT32:
	case ARROW_UINT32:
		return column_int32(c, (int32_t)(i * 0x9e3779b9u));
	case ARROW_INT64:
	case ARROW_UINT64:
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		return column_int64(c, (int64_t)(i * 0x9e3779b97f4a7c15u));
	case ARROW_FLOAT32:
		return column_float(c, (float)i / 2);
	case ARROW_FLOAT64:
		return column_double(c, (double)i / 3);
	case ARROW_FIXED_LIST:
		for (k = 0; k < 3; k++) {
			if (!column_item_float(c, (float)(i + k)))
				return false;
		}
		return column_end_value(c);
	case ARROW_LIST:
		return put_list(c, i);
	default:
		return column_bytes(c, slice_make(text, len));
	}
}

static inline bool
put_row(struct builder *b, uint64_t i)
{
	uint32_t k;

	for (k = 0; k < ARRAY_LEN(fields); k++) {
		if (!(is_null_at(k, i) ? column_null(&b->columns[k]) :
		    put_value(&b->columns[k], i)))
			return false;
	}
	builder_end_row(b);
	return true;
}

static inline void
see_list(const struct array *a, uint64_t at, uint64_t i)
{
	struct span span = array_span(a, at);
	const struct array *item = &a->children[0];
	char text[32];
	uint64_t k;

	SEE(span.count == i % 4);
	for (k = 0; k < span.count; k++) {
		uint64_t row = span.first + k;
		struct slice want = slice_make(text, text_at(i + k, text));

		if (a->field->children[0].type == ARROW_UTF8) {
			SEE(array_is_null(item, row) == (k == 2));
			if (k != 2)
				SEE(slice_eq(array_slice(item, row), want));
			continue;
		}
		SEE(!array_is_null(item, row));
		SEE(slice_eq(array_slice(&item->children[0], row), want));
		SEE(array_is_null(&item->children[1], row) == (k == 1));
		if (k != 1)
			SEE(array_double(&item->children[1], row) ==
			    (double)(i + k));
	}
}

static inline void
see_value(const struct array *a, uint64_t at, uint64_t i)
{
	char text[32];
	size_t len = text_at(i, text);
	uint32_t k;

	switch (a->field->type) {
	case ARROW_BOOL:
		SEE(array_bool(a, at) == (i % 3 == 0));
		break;
	case ARROW_INT8:
		SEE(array_int(a, at) == (int8_t)i);
		break;
	case ARROW_INT32:
		SEE(array_int(a, at) == (int32_t)(i * 0x9e3779b9u));
		break;
	case ARROW_UINT32:
		SEE(array_int(a, at) == (uint32_t)(i * 0x9e3779b9u));
		break;
	case ARROW_INT64:
	case ARROW_UINT64:
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		SEE(array_uint64(a, at) == i * 0x9e3779b97f4a7c15u);
		break;
	case ARROW_FLOAT32:
		SEE(array_float(a, at) == (float)i / 2);
		break;
	case ARROW_FLOAT64:
		SEE(array_double(a, at) == (double)i / 3);
		break;
	case ARROW_FIXED_LIST:
		for (k = 0; k < 3; k++)
			SEE(array_float(a, at * 3 + k) == (float)(i + k));
		break;
	case ARROW_LIST:
		see_list(a, at, i);
		break;
	default:
		SEE(slice_eq(array_slice(a, at), slice_make(text, len)));
	}
}

static inline void
see_row(const struct batch *b, uint64_t at, uint64_t i)
{
	uint32_t k;

	for (k = 0; k < ARRAY_LEN(fields); k++) {
		SEE(array_is_null(&b->columns[k], at) == is_null_at(k, i));
		if (!is_null_at(k, i))
			see_value(&b->columns[k], at, i);
	}
}

/* Null counts must be those of the bits. */
static inline void
see_counts(const struct array *a)
{
	uint64_t i, nulls = 0;
	uint32_t k;

	for (i = 0; i < a->length; i++)
		nulls += array_is_null(a, i);
	SEE(nulls == a->null_count);
	for (k = 0; k < a->field->child_count; k++)
		see_counts(&a->children[k]);
}

static inline void
make(struct builder *b, uint64_t rows)
{
	uint64_t i;

	SEE(!err_is(builder_init(b, &schema, 64u << 20)));
	for (i = 0; i < rows; i++)
		SEE(put_row(b, i));
}

#endif
