#include "common/base.h"

#include "tests/unit/arrow_rows.h"
#include "tests/unit/lance_dir.h"
#include "worker/lance/field.h"
#include "worker/lance/page_read.h"
#include "worker/lance/page_write.h"

/*
 * Rows of every type through files of every shape: what was written comes back
 * by any run, and no damage is more than an error.
 */

static struct arena arena;
static struct arrow_schema with_ids;

static int
setup(void **state)
{
	dir_setup(state);
	arena_init(&arena, 512u << 20);
	return 0;
}

static int
teardown(void **state)
{
	arena_free(&arena);
	return dir_teardown(state);
}

static int
each(void **state)
{
	(void)state;
	arena_reset(&arena);
	see_ok(field_assign_ids(&arena, &schema, 0, &with_ids));
	return 0;
}

static void
write_rows(const char *name, const struct batch *b, uint64_t step)
{
	struct page_written written;
	struct page_writer *w;
	struct span run = { 0, 0 };

	see_ok(page_write_open(dir, name, &with_ids, NULL, &w));
	for (; run.first < b->row_count; run.first += run.count) {
		run.count = MIN(step, b->row_count - run.first);
		see_ok(page_write_run(w, b, run));
	}
	assert_int_equal(page_write_rows(w), b->row_count);
	see_ok(page_write_finish(w, &written));
	assert_int_equal(written.row_count, b->row_count);
}

static struct err
read_rows(const struct data_file *f, const struct arrow_schema *s,
    struct span run, struct batch *out)
{
	struct array *columns = arena_calloc(&arena, s->field_count, sizeof(*columns));
	struct err e;
	uint32_t i;

	assert_non_null(columns);
	for (i = 0; i < s->field_count; i++) {
		e = page_read_run(f, &s->fields[i], run, &arena, &columns[i]);
		if (err_is(e))
			return e;
	}
	*out = (struct batch){ s, run.count, columns };
	return OK;
}

static void
see_run(const struct data_file *f, struct span run)
{
	struct batch b;
	uint64_t i;
	uint32_t k;

	see_ok(read_rows(f, &with_ids, run, &b));
	for (i = 0; i < run.count; i++)
		see_row(&b, i, run.first + i);
	for (k = 0; k < with_ids.field_count; k++) {
		assert_int_equal(b.columns[k].length, run.count);
		see_counts(&b.columns[k]);
	}
}

static void
see_file(uint64_t rows, uint64_t step)
{
	const char *name = new_name(".lance");
	struct data_file *f;
	struct builder b;
	struct batch batch;
	uint64_t i;

	make(&b, rows);
	batch = builder_batch(&b);
	write_rows(name, &batch, step);
	builder_free(&b);
	see_ok(data_file_open(dir, name, NULL, &f));
	assert_int_equal(f->row_count, rows);
	see_run(f, (struct span){ 0, rows });
	for (i = 0; i < rows && i < 40; i++) {
		see_run(f, (struct span){ i, MIN(rows - i, 9) });
		see_run(f, (struct span){ rows - 1 - i, 1 });
	}
	data_file_close(f);
}

static void
test_round_trip(void **state)
{
	static const uint64_t rows[] = { 1, 2, 3, 7, 8, 9, 64, 1000 };
	uint32_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		arena_reset(&arena);
		each(state);
		see_file(rows[i], rows[i]);
		see_file(rows[i], 1);
		see_file(rows[i], 13);
	}
	see_file(9000, 4000);
}

/* Every column has a page, of no values if there are none. */
static void
test_no_rows(void **state)
{
	const char *name = new_name(".lance");
	struct data_file *f;
	struct batch b = { &schema, 0, NULL }, back;
	uint32_t i;

	(void)state;
	write_rows(name, &b, 1);
	see_ok(data_file_open(dir, name, NULL, &f));
	assert_int_equal(f->row_count, 0);
	assert_int_equal(f->column_count, page_write_column_count(&with_ids));
	for (i = 0; i < f->column_count; i++) {
		assert_int_equal(f->columns[i].page_count, 1);
		assert_int_equal(f->columns[i].count, 0);
	}
	see_ok(read_rows(f, &with_ids, (struct span){ 0, 0 }, &back));
	see_error(read_rows(f, &with_ids, (struct span){ 0, 1 }, &back), CORRUPT);
	data_file_close(f);
}

#define WIDE_ROWS	60u
#define WIDE_BYTES	(256u << 10)

/* The schema and a column so wide that seven or eight rows make a page. */
static void
make_wide(struct arrow_schema *s, struct builder *b)
{
	struct arrow_field *all = arena_calloc(&arena, schema.field_count + 1,
	    sizeof(*all));
	char *blob = malloc(2 * WIDE_BYTES);
	uint64_t i;
	uint32_t k;

	assert_non_null(all);
	memcpy(all, with_ids.fields, schema.field_count * sizeof(*all));
	all[schema.field_count] = (struct arrow_field){ .name = SLICE("blob"),
		.type = ARROW_LARGE_BINARY, .id = 100 };
	*s = (struct arrow_schema){ schema.field_count + 1, all, 0, NULL };
	see_ok(builder_init(b, s, 64u << 20));
	for (i = 0; i < WIDE_ROWS; i++) {
		for (k = 0; k < schema.field_count; k++)
			assert_true(is_null_at(k, i) ? column_null(&b->columns[k]) :
			    put_value(&b->columns[k], i));
		memset(blob, (int)i, 2 * WIDE_BYTES);
		/* Each length is another; one is more than a page. */
		assert_true(column_bytes(&b->columns[k], slice_make(blob,
		    i == 31 ? 2 * WIDE_BYTES : WIDE_BYTES + i)));
		builder_end_row(b);
	}
	free(blob);
}

static void
see_wide(const struct data_file *f, const struct arrow_schema *s, struct span run)
{
	struct slice blob;
	struct batch b;
	uint64_t i, row;

	see_ok(read_rows(f, s, run, &b));
	for (i = 0; i < run.count; i++) {
		row = run.first + i;
		see_row(&b, i, row);
		blob = array_slice(&b.columns[schema.field_count], i);
		assert_int_equal(blob.len,
		    row == 31 ? 2 * WIDE_BYTES : WIDE_BYTES + row);
		assert_int_equal((uint8_t)blob.ptr[0], row);
		assert_int_equal((uint8_t)blob.ptr[blob.len - 1], row);
	}
}

/* Runs that cross pages, in each way they can. */
static void
test_many_pages(void **state)
{
	const char *name = new_name(".lance");
	struct page_written written;
	struct page_writer *w;
	struct arrow_schema s;
	struct data_file *f;
	struct builder b;
	struct batch batch;
	struct span run;
	uint32_t i;

	(void)state;
	make_wide(&s, &b);
	batch = builder_batch(&b);
	see_ok(page_write_open(dir, name, &s, NULL, &w));
	/* Gathered, topped up, written where they lie, gathered again. */
	see_ok(page_write_run(w, &batch, (struct span){ 0, 3 }));
	see_ok(page_write_run(w, &batch, (struct span){ 3, 50 }));
	for (i = 53; i < WIDE_ROWS; i++)
		see_ok(page_write_run(w, &batch, (struct span){ i, 1 }));
	see_ok(page_write_finish(w, &written));
	builder_free(&b);

	see_ok(data_file_open(dir, name, NULL, &f));
	assert_int_equal(f->map.len, written.size_bytes);
	assert_in_range(f->columns[0].page_count, WIDE_ROWS / 8, WIDE_ROWS / 5);
	for (i = 0; i < f->column_count; i++) {
		assert_true(f->columns[i].page_count <= f->columns[0].page_count);
		/* The engine panics at a struct of more than one. */
		if (f->columns[i].pages[0].form == PAGE_STRUCT)
			assert_int_equal(f->columns[i].page_count, 1);
	}
	for (run.first = 0; run.first < WIDE_ROWS; run.first++) {
		for (run.count = 1; run.count <= WIDE_ROWS - run.first;
		    run.count += 1 + run.count / 4) {
			struct arena scratch = arena;

			arena_init(&arena, 64u << 20);
			see_wide(f, &s, run);
			arena_free(&arena);
			arena = scratch;
		}
	}
	data_file_close(f);
}

static void
test_missing_field_is_null(void **state)
{
	const char *name = new_name(".lance");
	struct arrow_schema other;
	struct data_file *f;
	struct builder b;
	struct batch batch;
	uint64_t r;
	uint32_t i;

	(void)state;
	make(&b, 10);
	batch = builder_batch(&b);
	write_rows(name, &batch, 10);
	builder_free(&b);
	see_ok(field_assign_ids(&arena, &schema, 1000, &other));
	see_ok(data_file_open(dir, name, NULL, &f));
	see_ok(read_rows(f, &other, (struct span){ 2, 7 }, &batch));
	for (i = 0; i < other.field_count; i++) {
		assert_int_equal(batch.columns[i].null_count, 7);
		see_counts(&batch.columns[i]);
		for (r = 0; r < 7; r++)
			assert_true(array_is_null(&batch.columns[i], r));
	}
	data_file_close(f);
}

static void
test_metadata(void **state)
{
	static const struct arrow_pair pairs[] = {
		{ { "batch_size", 10 }, { "8192", 4 } },
		{ { "", 0 }, { "", 0 } },
	};
	const char *name = new_name(".lance");
	struct data_file *f;
	struct batch b = { &schema, 0, NULL };
	struct slice value;

	(void)state;
	with_ids.pair_count = ARRAY_LEN(pairs);
	with_ids.pairs = pairs;
	write_rows(name, &b, 1);
	see_ok(data_file_open(dir, name, NULL, &f));
	assert_int_equal(f->pair_count, 2);
	assert_true(data_file_pair(f, SLICE("batch_size"), &value));
	assert_true(slice_eq(value, SLICE("8192")));
	assert_true(data_file_pair(f, SLICE(""), &value));
	assert_int_equal(value.len, 0);
	assert_false(data_file_pair(f, SLICE("batch"), &value));
	data_file_close(f);
}

/* What a manifest says of a file comes before the file's own schema. */
static void
test_ids_of_manifest(void **state)
{
	static const int32_t field_ids[] = { 7, -2, 9 }, columns[] = { 2, 0, 1 };
	static const int32_t outside[] = { 2, 0, 1000 }, twice[] = { 7, 9, 7 };
	struct data_file_ids ids = { 3, field_ids, columns };
	struct arrow_field field = schema.fields[I32];
	const char *name = new_name(".lance");
	struct data_file *f;
	struct array a;
	struct builder b;
	struct batch batch;

	(void)state;
	make(&b, 10);
	batch = builder_batch(&b);
	write_rows(name, &batch, 10);
	builder_free(&b);

	see_ok(data_file_open(dir, name, &ids, &f));
	assert_null(data_file_column(f, -2));
	assert_null(data_file_column(f, 0));
	assert_ptr_equal(data_file_column(f, 7), &f->columns[2]);
	field.id = 7;
	see_ok(page_read_run(f, &field, (struct span){ 4, 1 }, &arena, &a));
	see_value(&a, 0, 4);
	/* A column of another type than the schema has. */
	field.id = 9;
	see_error(page_read_run(f, &field, (struct span){ 4, 1 }, &arena, &a),
	    CORRUPT);
	data_file_close(f);

	ids.columns = outside;
	see_error(data_file_open(dir, name, &ids, &f), CORRUPT);
	ids.columns = columns;
	ids.fields = twice;
	see_error(data_file_open(dir, name, &ids, &f), CORRUPT);
}

/* Reads all that can be read, and touches every byte of it. */
static uint64_t
read_all(struct slice bytes)
{
	struct data_file *f;
	struct batch b;
	struct span run;
	uint64_t sum = 0, i, k;
	struct err e;

	e = data_file_parse(bytes, NULL, &f);
	if (err_is(e)) {
		assert_true(e.kind == ERR_CORRUPT || e.kind == ERR_UNSUPPORTED);
		return 0;
	}
	for (run.first = 0; run.first < 30; run.first += 7) {
		run.count = 30 - run.first;
		if (err_is(read_rows(f, &with_ids, run, &b)))
			continue;
		for (k = 0; k < with_ids.field_count; k++) {
			const struct array *a = &b.columns[k];

			see_counts(a);
			for (i = 0; i < a->length; i++) {
				if (a->field->type >= ARROW_UTF8 &&
				    a->field->type <= ARROW_LARGE_BINARY) {
					struct slice s = array_slice(a, i);

					while (s.len > 0)
						sum += (uint8_t)s.ptr[--s.len];
				} else if (a->field->type == ARROW_LIST) {
					sum += array_span(a, i).count;
				} else if (a->field->type == ARROW_BOOL) {
					sum += array_bool(a, i);
				} else if (a->field->type == ARROW_FIXED_LIST) {
					sum += array_float(a, 3 * i + 2) > 0;
				} else {
					sum += (uint64_t)array_int(a, i);
				}
			}
		}
	}
	data_file_close(f);
	return sum;
}

static void
test_damage(void **state)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	const char *name = new_name(".lance");
	struct arena scratch;
	struct slice file;
	struct builder b;
	struct batch batch;
	size_t at;
	char *copy;
	uint32_t m;

	(void)state;
	make(&b, 30);
	batch = builder_batch(&b);
	write_rows(name, &batch, 30);
	builder_free(&b);
	see_ok(object_get(dir, name, 1u << 20, &arena, &file));
	scratch = arena;
	/* One allocation of exactly its length: ASan sees a byte beyond. */
	for (at = 0; at < file.len; at++) {
		copy = malloc(file.len);
		memcpy(copy, file.ptr, file.len);
		for (m = 0; m < ARRAY_LEN(masks); m++) {
			copy[at] = (char)(file.ptr[at] ^ masks[m]);
			arena_init(&arena, 16u << 20);
			read_all(slice_make(copy, file.len));
			arena_free(&arena);
		}
		free(copy);
		if (at % 16 != 0)
			continue;
		copy = malloc(at + 1);
		memcpy(copy, file.ptr, at);
		arena_init(&arena, 16u << 20);
		read_all(slice_make(copy, at));
		arena_free(&arena);
		free(copy);
	}
	arena = scratch;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_round_trip, each),
		cmocka_unit_test_setup(test_no_rows, each),
		cmocka_unit_test_setup(test_many_pages, each),
		cmocka_unit_test_setup(test_missing_field_is_null, each),
		cmocka_unit_test_setup(test_metadata, each),
		cmocka_unit_test_setup(test_ids_of_manifest, each),
		cmocka_unit_test_setup(test_damage, each),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
