#ifndef MEMWALD_TESTS_UNIT_FILTER_ROWS_H
#define MEMWALD_TESTS_UNIT_FILTER_ROWS_H

/*
 * filter_rows - six rows, a to f, with a column of every type for the tests of
 * filters. Row f is null in all that may be null.
 */

#include <math.h>
#include <stdio.h>

#include "worker/arrow/column.h"
#include "worker/store/filter.h"

#define FILTER_TEST_COLUMNS(X) \
	X(id, UTF8) X(i32, INT32) X(i64, INT64) X(f, FLOAT32) X(d, FLOAT64) \
	X(b, BOOL) X(s, UTF8) X(ls, LARGE_UTF8) X(t, TIMESTAMP) \
	X(tz, TIMESTAMP_UTC) X(x, LARGE_BINARY) X(list, LIST) X(vec, FIXED_LIST) \
	X(v, UTF8) X(quoted, INT32) X(say, INT32) X(timestamp, INT32) \
	X(version, INT32) X(yes, BOOL) X(nope, BOOL) X(maybe, BOOL) \
	X(_seq, INT64)

enum {
#define X(name, type) C_##name,
	FILTER_TEST_COLUMNS(X)
#undef X
	C_COUNT
};

struct rows {
	struct arrow_field fields[C_COUNT];
	struct store_shape shape;
	struct builder builder;
	struct batch batch;
};

struct counting {
	const struct batch *batch;
	int asked[C_COUNT];
};

static const struct arrow_field filter_test_item = { .name = { "item", 4 },
	.type = ARROW_INT32, .nullable = true };

static inline void
rows_shape(struct rows *r)
{
	static const struct {
		const char *name;
		uint8_t type;
	} columns[] = {
#define X(name, type) { #name, ARROW_##type },
		FILTER_TEST_COLUMNS(X)
#undef X
	};
	int i;

	*r = (struct rows){ .shape = { .seq = C__seq, .key = C_id } };
	for (i = 0; i < C_COUNT; i++) {
		r->fields[i].name = slice_of(columns[i].name);
		r->fields[i].type = columns[i].type;
		r->fields[i].nullable = i != C_id;
	}
	r->fields[C_quoted].name = SLICE("a b`c");
	r->fields[C_say].name = SLICE("say \"x\"");
	r->fields[C_list].child_count = 1;
	r->fields[C_list].children = &filter_test_item;
	r->fields[C_vec].dim = 1;
	r->shape.schema = (struct arrow_schema){ .field_count = C_COUNT,
		.fields = r->fields };
}

static inline void
rows_fill(struct rows *r)
{
	static const int64_t longs[] = { 9007199254740993, 9007199254740992,
	    -1, INT64_MIN, INT64_MAX };
	static const float floats[] = { 0.1f, 16777216, NAN, 1e10f, -0.0f };
	static const double doubles[] = { 0.1, 9007199254740992.0, NAN, 1e300,
	    0 };
	static const char truths[] = "10?10?";
	static const char *const texts[] = { "it's", "", "ja", "zz", "it's" };
	static const char *const longer[] = { "a", "b", "50%", "c", "zz" };
	static const char *const versions[] = { "ckpt-0012", "7", "none",
	    "99999999999999999999", "v00000000000000000000000" };
	static const int64_t times[] = { 0, 1767225600000000,
	    1767225601500000, 1, -1 };
	struct column *c = r->builder.columns;
	bool ok = true;
	int i, k;

	for (i = 0; i < 6; i++) {
		char id[2] = { (char)('a' + i), '\0' };

		ok = ok && column_bytes(&c[C_id], slice_of(id)) &&
		    column_bool(&c[C_yes], true) &&
		    column_bool(&c[C_nope], false) &&
		    column_null(&c[C_maybe]) && column_int64(&c[C__seq], 1) &&
		    (truths[i] == '?' ? column_null(&c[C_b]) :
		    column_bool(&c[C_b], truths[i] == '1'));
		for (k = 0; i == 5 && k < C_COUNT; k++) {
			if (c[k].length == 5)
				ok = ok && column_null(&c[k]);
		}
		if (i < 5)
			ok = ok && column_int32(&c[C_i32], i + 1) &&
			    column_int64(&c[C_i64], longs[i]) &&
			    column_float(&c[C_f], floats[i]) &&
			    column_double(&c[C_d], doubles[i]) &&
			    column_bytes(&c[C_s], slice_of(texts[i])) &&
			    column_bytes(&c[C_ls], slice_of(longer[i])) &&
			    column_int64(&c[C_t], times[i]) &&
			    column_int64(&c[C_tz], times[i]) &&
			    (i == 1 ? column_null(&c[C_x]) :
			    column_bytes(&c[C_x], SLICE("bytes"))) &&
			    (i % 2 != 0 ? column_null(&c[C_list]) :
			    column_end_value(&c[C_list])) &&
			    (i % 2 != 0 ? column_null(&c[C_vec]) :
			    column_item_float(&c[C_vec], 1) &&
			    column_end_value(&c[C_vec])) &&
			    column_bytes(&c[C_v], slice_of(versions[i])) &&
			    column_int32(&c[C_quoted], i + 1) &&
			    column_int32(&c[C_say], i + 1) &&
			    column_int32(&c[C_timestamp], i + 1) &&
			    column_int32(&c[C_version], i + 1);
		builder_end_row(&r->builder);
	}
	MUST(ok);
}

static inline void
rows_make(struct rows *r)
{
	rows_shape(r);
	MUST(!err_is(builder_init(&r->builder, &r->shape.schema, 1u << 20)));
	rows_fill(r);
	r->batch = builder_batch(&r->builder);
}

static inline void
rows_free(struct rows *r)
{
	builder_free(&r->builder);
}

/* The names of the rows that it gives. */
static inline void
rows_given(const struct rows *r, const struct filter *f, char got[64])
{
	uint64_t match[FILTER_WORDS(6)];
	struct arena arena;
	int i, n = 0;

	arena_init(&arena, 1u << 20);
	MUST(!err_is(filter_eval_batch(f, &r->batch, &arena, match)));
	for (i = 0; i < 64; i++) {
		if ((match[0] >> i & 1) != 0)
			got[n++] = (char)('a' + i);
	}
	got[n] = '\0';
	arena_free(&arena);
}

static inline void
rows_matching(const struct rows *r, const char *text, char got[64])
{
	const struct filter *f;
	struct arena arena;
	struct err e;

	arena_init(&arena, 64u << 20);
	e = filter_parse(&r->shape, slice_of(text), &arena, &f);
	if (err_is(e))
		snprintf(got, 64, "%s", e.what);
	else
		rows_given(r, f, got);
	arena_free(&arena);
}

static inline void
rows_error(const struct rows *r, const char *text, char *got, size_t room)
{
	const struct filter *f;
	struct arena arena;
	struct err e;

	arena_init(&arena, 64u << 20);
	e = filter_parse(&r->shape, slice_of(text), &arena, &f);
	snprintf(got, room, "%s", e.kind == ERR_BAD_INPUT ? e.what :
	    "no such error");
	arena_free(&arena);
}

#endif
