#include "common/base.h"

#include "tests/unit/arrow_rows.h"
#include "worker/arrow/bits.h"

static void
test_every_type(void **state)
{
	struct builder b;
	struct batch batch;
	uint64_t i;
	uint32_t k;

	(void)state;
	make(&b, 1000);
	batch = builder_batch(&b);
	assert_int_equal(batch.row_count, 1000);
	for (i = 0; i < 1000; i++)
		see_row(&batch, i, i);
	for (k = 0; k < ARRAY_LEN(fields); k++)
		see_counts(&batch.columns[k]);
	assert_true(builder_bytes(&b) > 1000 * 60);
	builder_free(&b);
}

static void
test_empty_has_buffers(void **state)
{
	struct builder b;
	struct batch batch;
	uint32_t k;

	(void)state;
	make(&b, 0);
	batch = builder_batch(&b);
	for (k = 0; k < ARRAY_LEN(fields); k++) {
		assert_non_null(batch.columns[k].values);
		assert_non_null(batch.columns[k].offsets);
		assert_null(batch.columns[k].validity);
	}
	assert_int_equal(array_offset(&batch.columns[S], 0), 0);
	builder_free(&b);
}

/* Cut after each number of columns of a half row, in the middle of values. */
static void
test_cut_half_rows(void **state)
{
	struct builder b;
	struct batch batch;
	uint64_t i, keep;
	uint32_t k, upto;

	(void)state;
	for (upto = 0; upto <= ARRAY_LEN(fields); upto++) {
		make(&b, 40);
		for (k = 0; k < upto; k++)
			assert_true((k + upto) % 2 ? column_null(&b.columns[k]) :
			    put_value(&b.columns[k], 77));
		if (upto <= S) {
			assert_true(column_reserve(&b.columns[S], 8));
			memcpy(column_tail(&b.columns[S]), "unfinish", 8);
			column_grow(&b.columns[S], 8);
			assert_int_equal(column_open_length(&b.columns[S]), 8);
		}
		if (upto <= VEC)
			assert_true(column_item_float(&b.columns[VEC], 1));
		if (upto <= STEPS)
			assert_true(column_bytes(
			    &b.columns[STEPS].children[0].children[0], SLICE("z")));
		keep = upto * 2;
		builder_cut(&b, keep);
		for (i = keep; i < keep + 20; i++)
			assert_true(put_row(&b, i));
		batch = builder_batch(&b);
		assert_int_equal(batch.row_count, keep + 20);
		for (i = 0; i < keep + 20; i++)
			see_row(&batch, i, i);
		for (k = 0; k < ARRAY_LEN(fields); k++)
			see_counts(&batch.columns[k]);
		builder_free(&b);
	}
}

static void
test_cut_forgets_validity(void **state)
{
	struct builder b;

	(void)state;
	make(&b, 3);
	builder_cut(&b, 0);
	assert_true(column_int32(&b.columns[I32], 7));
	assert_int_equal(b.columns[I32].validity.len, 0);
	/* A value of the row that is being written, taken back. */
	column_cut(&b.columns[I32], 0);
	assert_true(column_null(&b.columns[I32]));
	assert_int_equal(b.columns[I32].null_count, 1);
	builder_free(&b);
}

static void
test_pieces(void **state)
{
	struct builder b;
	struct column *c;
	struct array *a;
	int i;

	(void)state;
	make(&b, 0);
	c = &b.columns[S];
	for (i = 0; i < 100; i++) {
		assert_true(column_reserve(c, 3));
		memcpy(column_tail(c), "xyz", 3);
		column_grow(c, 3);
	}
	assert_int_equal(column_open_length(c), 300);
	column_drop_open(c);
	assert_int_equal(column_open_length(c), 0);
	assert_true(column_reserve(c, 2));
	memcpy(column_tail(c), "ok", 2);
	column_grow(c, 2);
	assert_true(column_end_value(c));
	a = &(struct array){ .field = c->field, .length = c->length,
	    .offsets = c->offsets.ptr, .values = c->values.ptr };
	assert_true(slice_eq(array_slice(a, 0), SLICE("ok")));
	builder_free(&b);
}

static void
test_null_struct_keeps_members_even(void **state)
{
	static const struct arrow_field top[] = {
		FIELD("s", STRUCT, .child_count = 2, .children = members),
	};
	static const struct arrow_schema one = { 1, top, 0, NULL };
	struct builder b;
	struct batch batch;

	(void)state;
	assert_false(err_is(builder_init(&b, &one, 4096)));
	assert_true(column_null(&b.columns[0]));
	builder_end_row(&b);
	assert_true(column_bytes(&b.columns[0].children[0], SLICE("k")));
	assert_true(column_double(&b.columns[0].children[1], 2));
	assert_true(column_end_value(&b.columns[0]));
	builder_end_row(&b);
	batch = builder_batch(&b);
	assert_true(array_is_null(&batch.columns[0], 0));
	assert_false(array_is_null(&batch.columns[0], 1));
	assert_int_equal(batch.columns[0].children[0].length, 2);
	assert_true(slice_eq(array_slice(&batch.columns[0].children[0], 1),
	    SLICE("k")));
	builder_free(&b);
}

/* Runs of each length from each start, over the borders of bytes and words. */
static void
test_copy_runs(void **state)
{
	struct builder from, to;
	struct batch source, copy;
	uint64_t first, count, i;
	uint32_t k;

	(void)state;
	make(&from, 300);
	source = builder_batch(&from);
	make(&to, 0);
	for (first = 0; first < 17; first++) {
		for (count = 0; count < 200; count += 1 + count / 3) {
			uint64_t before = first % 9;

			builder_cut(&to, 0);
			for (i = 0; i < before; i++)
				assert_true(put_row(&to, i));
			for (k = 0; k < ARRAY_LEN(fields); k++)
				assert_true(column_copy_run(&to.columns[k],
				    &source.columns[k], first, count));
			to.row_count += count;
			assert_true(put_row(&to, 5));
			copy = builder_batch(&to);
			for (i = 0; i < before; i++)
				see_row(&copy, i, i);
			for (i = 0; i < count; i++)
				see_row(&copy, before + i, first + i);
			see_row(&copy, before + count, 5);
			for (k = 0; k < ARRAY_LEN(fields); k++)
				see_counts(&copy.columns[k]);
		}
	}
	builder_cut(&to, 0);
	for (i = 0; i < 300; i++) {
		for (k = 0; k < ARRAY_LEN(fields); k++)
			assert_true(column_copy(&to.columns[k],
			    &source.columns[k], 299 - i));
		builder_end_row(&to);
	}
	copy = builder_batch(&to);
	for (i = 0; i < 300; i++)
		see_row(&copy, i, 299 - i);
	builder_free(&from);
	builder_free(&to);
}

/* Whatever column is the one that hits the cap: the rows before it stay. */
static void
test_cap(void **state)
{
	struct builder b;
	struct batch batch;
	uint64_t i, rows;
	size_t cap;

	(void)state;
	for (cap = 8; cap < 2000; cap += 13) {
		assert_false(err_is(builder_init(&b, &schema, cap)));
		for (rows = 0; put_row(&b, rows); rows++)
			continue;
		assert_true(rows < 200);
		builder_cut(&b, rows);
		batch = builder_batch(&b);
		for (i = 0; i < rows; i++)
			see_row(&batch, i, i);
		builder_free(&b);
	}
}

static void
test_narrow_offsets_end_at_2_gib(void **state)
{
	/* The child claims its items; none are touched. */
	static const struct arrow_field top[] = {
		FIELD("tags", LIST, .child_count = 1, .children = &item_text),
	};
	static const struct arrow_schema one = { 1, top, 0, NULL };
	struct builder b;
	struct column *c;
	int32_t ends[2] = { 0, INT32_MAX };
	struct array item = { .field = &fields[S], .length = 1, .values = "",
	    .offsets = ends };

	(void)state;
	assert_false(err_is(builder_init(&b, &one, 1u << 20)));
	c = &b.columns[0];
	c->children[0].length = (uint64_t)INT32_MAX + 1;
	assert_false(column_end_value(c));
	c->children[0].length = 0;
	assert_true(column_end_value(c));

	/* A run whose bytes alone would fit, behind a byte that is there. */
	assert_true(column_bytes(&c->children[0], SLICE("y")));
	assert_false(column_copy_run(&c->children[0], &item, 0, 1));
	builder_free(&b);
}

static void
test_clear_keeps_or_gives_back(void **state)
{
	struct builder b;
	char *kept;
	uint64_t i;
	struct batch batch;

	(void)state;
	make(&b, 500);
	kept = b.columns[I64].values.ptr;
	builder_clear(&b, 64u << 20);
	assert_int_equal(b.row_count, 0);
	assert_ptr_equal(b.columns[I64].values.ptr, kept);
	for (i = 0; i < 500; i++)
		assert_true(put_row(&b, i));
	builder_clear(&b, 100);
	assert_null(b.columns[I64].values.ptr);
	assert_true(builder_bytes(&b) <= ARRAY_LEN(fields) * 8);
	for (i = 0; i < 50; i++)
		assert_true(put_row(&b, i));
	batch = builder_batch(&b);
	for (i = 0; i < 50; i++)
		see_row(&batch, i, i);
	builder_free(&b);
}

static void
test_bits(void **state)
{
	uint8_t from[40], to[40], want[40];
	uint64_t a, b, n, i, ones;

	(void)state;
	for (i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 37 + 11);
	for (a = 0; a < 20; a++) {
		for (b = 0; b < 20; b++) {
			for (n = 0; n < 200; n += 7) {
				memset(to, 0xa5, sizeof(to));
				memcpy(want, to, sizeof(to));
				ones = 0;
				for (i = 0; i < n; i++) {
					unsigned bit = from[(a + i) / 8] >>
					    ((a + i) % 8) & 1;

					ones += bit;
					want[(b + i) / 8] &= (uint8_t)~(1u << ((b + i) % 8));
					want[(b + i) / 8] |= (uint8_t)(bit << ((b + i) % 8));
				}
				bits_copy(to, b, from, a, n);
				assert_memory_equal(to, want, sizeof(to));
				assert_int_equal(bits_count(from, a, n), ones);
				for (i = 0; i < n; i++)
					want[(b + i) / 8] |= (uint8_t)(1u << ((b + i) % 8));
				bits_set(to, b, n);
				assert_memory_equal(to, want, sizeof(to));
			}
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_type),
		cmocka_unit_test(test_empty_has_buffers),
		cmocka_unit_test(test_cut_half_rows),
		cmocka_unit_test(test_cut_forgets_validity),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_null_struct_keeps_members_even),
		cmocka_unit_test(test_copy_runs),
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_narrow_offsets_end_at_2_gib),
		cmocka_unit_test(test_clear_keeps_or_gives_back),
		cmocka_unit_test(test_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
