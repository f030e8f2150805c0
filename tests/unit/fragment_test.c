#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "tests/unit/lance_dir.h"
#include "tests/unit/lance_json.h"
#include "worker/lance/fragment.h"

/*
 * Tables that the real engine wrote, against the rows that it gave for them.
 */

#define FIXTURES "tests/data/lance"
#define GENERATION "memwal_v20.lance/_mem_wal/" \
	"aa48498d-ac91-59e2-8452-69f46010ace2/c0f5d344_gen_1"

static struct arena arena;

static int
setup(void **state)
{
	(void)state;
	arena_init(&arena, 64u << 20);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

static struct object_dir *
open_fixture(const char *name)
{
	struct object_dir *fixtures, *table;

	see_ok(object_root_open(FIXTURES, &fixtures));
	see_ok(object_dir_open(fixtures, name, false, &table));
	object_dir_close(fixtures);
	return table;
}

/* All rows that are left, against the JSON from row at on; whole, and then in
 * runs of some rows. */
static cJSON *
see_fragment(const struct fragment *f, const struct arrow_schema *schema,
    cJSON *want, uint64_t step)
{
	struct span run = { 0, 0 };
	struct batch b;
	uint64_t i;

	for (; run.first < f->row_count; run.first += run.count) {
		run.count = MIN(step, f->row_count - run.first);
		see_ok(fragment_read(f, schema, run, &arena, &b));
		for (i = 0; i < run.count; i++) {
			if (fragment_is_deleted(f, (uint32_t)(run.first + i)))
				continue;
			assert_non_null(want);
			json_see_row(want, &b, i);
			want = want->next;
		}
	}
	return want;
}

static void
see_table(const char *name, uint64_t step)
{
	char path[128];
	struct object_dir *d;
	struct fragment *f;
	struct table *t;
	cJSON *json, *want;
	uint64_t live = 0;
	uint32_t i;

	arena_reset(&arena);
	snprintf(path, sizeof(path), FIXTURES "/%s.json", name);
	json = json_load(path);
	want = cJSON_GetObjectItem(json, "data")->child;
	snprintf(path, sizeof(path), "%s.lance", name);
	d = open_fixture(path);
	see_ok(table_load(d, &arena, &t));
	for (i = 0; i < t->fragment_count; i++) {
		see_ok(fragment_open(d, &t->fragments[i], &f));
		want = see_fragment(f, &t->schema, want, step);
		live += fragment_live_count(f);
		fragment_close(f);
	}
	assert_null(want);
	assert_int_equal(live, cJSON_GetObjectItem(json, "rows")->valuedouble);
	table_free(t);
	object_dir_close(d);
	cJSON_Delete(json);
}

static void
test_engine_tables(void **state)
{
	static const char *const names[] = { "plain_v20", "nulls_v20",
		"empty_lists_v20", "deleted_v20", "optimized_v20", "evolved_v20",
		"indexed_v20", "rowids_v20", "memwal_v20" };
	static const uint64_t steps[] = { UINT64_MAX, 1, 5, 17 };
	uint32_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_LEN(names); i++) {
		for (k = 0; k < ARRAY_LEN(steps); k++)
			see_table(names[i], steps[k]);
	}
}

static void
test_engine_generation(void **state)
{
	cJSON *json = json_load(FIXTURES "/memwal_v20.memwal.json"), *rows;
	struct object_dir *d = open_fixture(GENERATION);
	struct fragment *f;

	(void)state;
	rows = cJSON_GetObjectItem(json, "generations")->child;
	rows = cJSON_GetObjectItem(rows, "rows_after_deletion_vector");
	see_ok(fragment_open_generation(d, &arena, &f));
	assert_null(see_fragment(f, &f->table->schema, rows->child, UINT64_MAX));
	assert_int_equal(fragment_live_count(f), cJSON_GetArraySize(rows));
	assert_true(fragment_live_count(f) < f->row_count);
	fragment_close(f);
	object_dir_close(d);
	cJSON_Delete(json);
}

static void
test_rows_outside(void **state)
{
	struct object_dir *d = open_fixture(GENERATION);
	struct fragment *f;
	struct batch b;

	(void)state;
	see_ok(fragment_open_generation(d, &arena, &f));
	see_error(fragment_read(f, &f->table->schema,
	    (struct span){ f->row_count, 1 }, &arena, &b), CORRUPT);
	see_error(fragment_read(f, &f->table->schema,
	    (struct span){ 1, UINT64_MAX }, &arena, &b), CORRUPT);
	see_ok(fragment_read(f, &f->table->schema,
	    (struct span){ f->row_count, 0 }, &arena, &b));
	fragment_close(f);
	object_dir_close(d);
}

/* What a manifest says of a file must be so. */
static void
test_manifest_lies(void **state)
{
	struct object_dir *d = open_fixture("plain_v20.lance");
	struct table_fragment lie;
	struct table_file file;
	struct fragment *f;
	struct table *t;

	(void)state;
	see_ok(table_load(d, &arena, &t));
	lie = t->fragments[0];
	file = lie.files[0];
	lie.files = &file;
	see_ok(fragment_open(d, &lie, &f));
	fragment_close(f);

	lie.row_count++;
	see_error(fragment_open(d, &lie, &f), CORRUPT);
	lie.row_count--;
	file.size_bytes++;
	see_error(fragment_open(d, &lie, &f), CORRUPT);
	file.size_bytes = 0;
	file.path = SLICE("../data/x.lance");
	see_error(fragment_open(d, &lie, &f), CORRUPT);
	file.path = SLICE("x.lance");
	see_error(fragment_open(d, &lie, &f), NOT_FOUND);
	table_free(t);
	object_dir_close(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engine_tables),
		cmocka_unit_test(test_engine_generation),
		cmocka_unit_test(test_rows_outside),
		cmocka_unit_test(test_manifest_lies),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
