#include "common/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "worker/arrow/column.h"
#include "worker/store/row.h"

#define FIELD(name_, type_, ...) { .name = { name_, sizeof(name_) - 1 }, \
	.type = ARROW_##type_, .nullable = true, .id = -1, ##__VA_ARGS__ }

static const struct arrow_field item_int = FIELD("item", INT32);
static const struct arrow_field members[] = {
	FIELD("k", UTF8),
	FIELD("v", FLOAT32),
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
	FIELD("s", UTF8),
	FIELD("x", LARGE_BINARY),
	FIELD("vec", FIXED_LIST, .dim = 2),
	FIELD("list", LIST, .child_count = 1, .children = &item_int),
	FIELD("steps", LIST, .child_count = 1, .children = &item_struct),
};
static const struct arrow_schema schema = { ARRAY_LEN(fields), fields, 0, NULL };

enum { B, I8, I32, I64, U32, U64, F, D, T, S, X, VEC, LIST_, STEPS };

static struct builder builder;
static struct batch batch;

/* Rows of which one column alone is not null. */
static void
begin(void)
{
	assert_false(err_is(builder_init(&builder, &schema, 1u << 20)));
}

static struct column *
value_of(uint32_t column)
{
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(fields); i++) {
		if (i != column)
			assert_true(column_null(&builder.columns[i]));
	}
	return &builder.columns[column];
}

static void
row(bool ok)
{
	assert_true(ok);
	builder_end_row(&builder);
}

/* They were written in rising order; every pair must say so. */
static void
see_rising(uint32_t column)
{
	uint64_t i, k;

	batch = builder_batch(&builder);
	for (i = 0; i < batch.row_count; i++) {
		for (k = 0; k < batch.row_count; k++) {
			int c = row_compare_value(&batch.columns[column], i,
			    &batch.columns[column], k);
			int r = row_compare(&batch, i, &batch, k, -1);

			if ((c > 0) - (c < 0) != (i > k) - (i < k))
				fail_msg("column %u: rows %llu and %llu: %d",
				    column, (unsigned long long)i,
				    (unsigned long long)k, c);
			assert_int_equal((r > 0) - (r < 0),
			    (i > k) - (i < k));
		}
	}
	builder_free(&builder);
}

static void
whole_numbers(void **state)
{
	static const int64_t wide[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
	static const int32_t narrow[] = { INT32_MIN, -1, 0, 1, INT32_MAX };
	static const int8_t tiny[] = { -128, -1, 0, 1, 127 };
	static const uint64_t without_sign[] = { 0, 1, 1ull << 63,
	    UINT64_MAX };
	static const uint32_t narrow_without[] = { 0, 1, 1u << 31,
	    UINT32_MAX };
	static const uint32_t wides[] = { I64, T };
	size_t i, k;

	(void)state;
	for (k = 0; k < 2; k++) {
		begin();
		row(column_null(value_of(wides[k])));
		for (i = 0; i < ARRAY_LEN(wide); i++)
			row(column_int64(value_of(wides[k]), wide[i]));
		see_rising(wides[k]);
	}
	begin();
	row(column_null(value_of(I32)));
	for (i = 0; i < ARRAY_LEN(narrow); i++)
		row(column_int32(value_of(I32), narrow[i]));
	see_rising(I32);
	begin();
	for (i = 0; i < ARRAY_LEN(tiny); i++)
		row(column_int8(value_of(I8), tiny[i]));
	see_rising(I8);
	begin();
	for (i = 0; i < ARRAY_LEN(without_sign); i++)
		row(column_int64(value_of(U64), (int64_t)without_sign[i]));
	see_rising(U64);
	begin();
	for (i = 0; i < ARRAY_LEN(narrow_without); i++)
		row(column_int32(value_of(U32), (int32_t)narrow_without[i]));
	see_rising(U32);
	begin();
	row(column_null(value_of(B)));
	row(column_bool(value_of(B), false));
	row(column_bool(value_of(B), true));
	see_rising(B);
}

static void
floats(void **state)
{
	static const double values[] = { -INFINITY, -1e300, -1, -0.0, 0.0,
	    1e-300, 1, INFINITY };
	static const float narrow[] = { -INFINITY, -2, -0.5f, -0.0f, 0.0f,
	    0.5f, 2, INFINITY };
	size_t i;

	(void)state;
	begin();
	row(column_null(value_of(D)));
	row(column_double(value_of(D), -(double)NAN));
	for (i = 0; i < ARRAY_LEN(values); i++)
		row(column_double(value_of(D), values[i]));
	row(column_double(value_of(D), (double)NAN));
	see_rising(D);
	begin();
	row(column_null(value_of(F)));
	row(column_float(value_of(F), -NAN));
	for (i = 0; i < ARRAY_LEN(narrow); i++)
		row(column_float(value_of(F), narrow[i]));
	row(column_float(value_of(F), NAN));
	see_rising(F);
}

static void
texts(void **state)
{
	static const struct slice values[] = { { "", 0 }, { "\0", 1 },
	    { "a", 1 }, { "a\0", 2 }, { "aa", 2 }, { "b", 1 },
	    { "\xc3\xa4", 2 }, { "\xff", 1 } };
	static const uint32_t columns[] = { S, X };
	size_t i, k;

	(void)state;
	for (k = 0; k < 2; k++) {
		begin();
		row(column_null(value_of(columns[k])));
		for (i = 0; i < ARRAY_LEN(values); i++)
			row(column_bytes(value_of(columns[k]), values[i]));
		see_rising(columns[k]);
	}
}

static void
vectors(void **state)
{
	static const float values[][2] = { { -1, 5 }, { 0, 1 }, { 0, 2 },
	    { 1, -5 } };
	struct column *c;
	size_t i;

	(void)state;
	begin();
	row(column_null(value_of(VEC)));
	for (i = 0; i < ARRAY_LEN(values); i++) {
		c = value_of(VEC);
		assert_true(column_item_float(c, values[i][0]));
		assert_true(column_item_float(c, values[i][1]));
		row(column_end_value(c));
	}
	see_rising(VEC);
}

static void
lists(void **state)
{
	static const struct {
		size_t count;
		int32_t items[3];
	} values[] = { { 0, { 0 } }, { 1, { 1 } }, { 2, { 1, 1 } },
	    { 2, { 1, 2 } }, { 3, { 1, 2, 0 } }, { 1, { 2 } } };
	struct column *c;
	size_t i, k;

	(void)state;
	begin();
	row(column_null(value_of(LIST_)));
	for (i = 0; i < ARRAY_LEN(values); i++) {
		c = value_of(LIST_);
		for (k = 0; k < values[i].count; k++)
			assert_true(column_int32(&c->children[0],
			    values[i].items[k]));
		row(column_end_value(c));
	}
	see_rising(LIST_);
}

static void
lists_of_structs(void **state)
{
	static const struct {
		const char *k;
		float v;
	} values[] = { { "a", 1 }, { "a", 2 }, { "b", 0 } };
	struct column *c;
	size_t i;

	(void)state;
	begin();
	for (i = 0; i < ARRAY_LEN(values); i++) {
		c = value_of(STEPS);
		assert_true(column_bytes(&c->children[0].children[0],
		    slice_of(values[i].k)));
		assert_true(column_float(&c->children[0].children[1],
		    values[i].v));
		assert_true(column_end_value(&c->children[0]));
		row(column_end_value(c));
	}
	see_rising(STEPS);
}

/* One column decides before all, then they follow in order. */
static void
the_first_column_is_named(void **state)
{
	(void)state;
	begin();
	row(column_int32(value_of(I32), 9));
	row(column_int64(value_of(I64), 1));
	batch = builder_batch(&builder);
	/* By order: i32 comes first, and null is smallest. */
	assert_true(row_compare(&batch, 0, &batch, 1, -1) > 0);
	assert_true(row_compare(&batch, 0, &batch, 1, I64) < 0);
	assert_true(row_compare(&batch, 1, &batch, 0, I64) > 0);
	assert_int_equal(row_compare(&batch, 1, &batch, 1, I64), 0);
	/* A tie there: the others decide. */
	assert_true(row_compare(&batch, 0, &batch, 1, S) > 0);
	builder_free(&builder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers),
		cmocka_unit_test(floats),
		cmocka_unit_test(texts),
		cmocka_unit_test(vectors),
		cmocka_unit_test(lists),
		cmocka_unit_test(lists_of_structs),
		cmocka_unit_test(the_first_column_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
