#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <protobuf-c/protobuf-c.h>

#include "common/buf.h"
#include "worker/lance/proto.h"
#include "worker/lance/table.h"
#include "worker/lance/table.pb-c.h"

#define FIXTURES "tests/data/lance"

static struct arena errors;

static struct object_dir *
open_fixture(const char *name)
{
	struct object_dir *root, *dir;
	struct err e;

	e = object_root_open(FIXTURES, &root);
	assert_int_equal(e.kind, ERR_OK);
	e = object_dir_open(root, name, false, &dir);
	object_dir_close(root);
	assert_int_equal(e.kind, ERR_OK);
	return dir;
}

static struct table *
load(const char *name)
{
	struct object_dir *dir = open_fixture(name);
	struct table *t = NULL;
	struct err e;

	e = table_load(dir, &errors, &t);
	object_dir_close(dir);
	if (err_is(e))
		print_error("%s: %s\n", name, e.what);
	assert_int_equal(e.kind, ERR_OK);
	return t;
}

static struct err
refusal_of(const char *name)
{
	struct object_dir *dir = open_fixture(name);
	struct table *t;
	struct err e;

	e = table_load(dir, &errors, &t);
	object_dir_close(dir);
	assert_int_not_equal(e.kind, ERR_OK);
	return e;
}

static void
test_all_types(void **state)
{
	static const struct {
		const char *name;
		uint8_t type;
		bool nullable;
	} expect[] = {
		{ "id", ARROW_UTF8, false }, { "s", ARROW_UTF8, true },
		{ "ls", ARROW_LARGE_UTF8, true }, { "lb", ARROW_LARGE_BINARY, true },
		{ "i8", ARROW_INT8, true }, { "i32", ARROW_INT32, true },
		{ "i64", ARROW_INT64, true }, { "f32", ARROW_FLOAT32, true },
		{ "f64", ARROW_FLOAT64, true }, { "b", ARROW_BOOL, true },
		{ "ts", ARROW_TIMESTAMP, true }, { "tz", ARROW_TIMESTAMP_UTC, true },
		{ "fsl", ARROW_FIXED_LIST, true }, { "li32", ARROW_LIST, true },
		{ "lst", ARROW_LIST, true },
	};
	struct table *t = load("plain_v20.lance");
	const struct arrow_field *f;
	uint32_t i;
	int at;

	(void)state;
	for (i = 0; i < ARRAY_LEN(expect); i++) {
		at = arrow_schema_find(&t->schema, slice_of(expect[i].name));
		assert_true(at >= 0);
		f = &t->schema.fields[at];
		assert_int_equal(f->type, expect[i].type);
		assert_int_equal(f->nullable, expect[i].nullable);
	}
	f = &t->schema.fields[arrow_schema_find(&t->schema, SLICE("fsl"))];
	assert_int_equal(f->dim, 3);
	assert_int_equal(f->child_count, 0);
	f = &t->schema.fields[arrow_schema_find(&t->schema, SLICE("lst"))];
	assert_int_equal(f->children[0].type, ARROW_STRUCT);
	assert_int_equal(f->children[0].child_count, 3);
	assert_int_equal(f->children[0].children[2].type, ARROW_FLOAT32);
	assert_int_equal(f->children[0].id, f->id + 1);
	assert_int_equal(t->version, 1);
	assert_int_equal(t->fragment_count, 1);
	assert_int_equal(t->fragments[0].row_count, 24);
	assert_int_equal(t->key_column, -1);
	assert_int_equal(t->next_fragment_id, 1);
	assert_int_equal(t->transaction_uuid.len, UUID_TEXT_LEN);
	table_free(t);
}

static void
test_deletions(void **state)
{
	struct table *t = load("deleted_v20.lance");
	char name[TABLE_NAME_MAX];

	(void)state;
	assert_int_equal(t->version, 4);
	assert_int_equal(t->fragment_count, 3);
	assert_int_equal(t->reader_flags, TABLE_FLAG_DELETIONS);
	assert_int_equal(t->fragments[0].deletion.kind, TABLE_DELETION_ARROW);
	assert_int_equal(t->fragments[1].deletion.kind, TABLE_DELETION_BITMAP);
	assert_int_equal(t->fragments[1].deletion.row_count, 5250);
	table_deletion_name(1, &t->fragments[1].deletion, name);
	assert_string_equal(name, "_deletions/1-3-1168474921764206646.bin");
	table_deletion_name(0, &t->fragments[0].deletion, name);
	assert_string_equal(name, "_deletions/0-3-3221037274517024461.arrow");
	assert_false(err_is(table_writable(t)));
	table_free(t);
}

static void
test_key_and_index(void **state)
{
	struct table *t = load("indexed_v20.lance");

	(void)state;
	assert_int_equal(t->key_column, 0);
	assert_int_equal(t->index_count, 1);
	assert_true(slice_eq(t->indices[0].name, SLICE("id_idx")));
	assert_true(slice_eq(t->indices[0].details_type,
	    SLICE("/lance.table.BTreeIndexDetails")));
	assert_int_equal(t->indices[0].dataset_version, 2);
	assert_int_equal(t->indices[0].fields[0], 0);
	assert_int_equal(t->fragments[1].id, 1);
	assert_false(t->has_mem_wal);
	table_free(t);
}

static void
test_evolved(void **state)
{
	struct table *t = load("evolved_v20.lance");
	int32_t before = -1;
	bool dense = true;
	uint32_t i;

	(void)state;
	assert_int_equal(t->fragments[0].file_count, 3);
	for (i = 0; i < t->schema.field_count; i++) {
		dense = dense && t->schema.fields[i].id > before;
		before = t->schema.fields[i].id;
	}
	assert_false(dense);
	table_free(t);
}

static void
test_mem_wal(void **state)
{
	struct object_dir *dir = open_fixture("memwal_v20.lance");
	struct uuid other = uuid_random();
	struct table *t = load("memwal_v20.lance"), *first;
	struct err e;

	(void)state;
	assert_true(t->has_mem_wal);
	assert_int_equal(t->progress_count, 0);
	assert_int_equal(table_progress_of(t, &other), 0);
	assert_int_equal(t->version, 3);
	table_free(t);

	e = table_load_version(dir, 1, &errors, &first);
	assert_int_equal(e.kind, ERR_OK);
	assert_false(first->has_mem_wal);
	table_free(first);
	e = table_load_version(dir, 9, &errors, &first);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_false(err_is(table_version_exists(dir, 3)));
	assert_int_equal(table_version_exists(dir, 4).kind, ERR_NOT_FOUND);
	object_dir_close(dir);
}

static void
test_refused(void **state)
{
	struct table *t;
	struct err e;

	(void)state;
	e = refusal_of("plain_v21.lance");
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	assert_non_null(strstr(e.what, "2.1"));
	e = refusal_of("memwal_v21.lance");
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	/* Readable, not writable. */
	t = load("rowids_v20.lance");
	e = table_writable(t);
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	assert_non_null(strstr(e.what, "row ids"));
	table_free(t);
}

static void
test_generation(void **state)
{
	struct object_dir *dir = open_fixture("memwal_v20.lance/_mem_wal/"
	    "aa48498d-ac91-59e2-8452-69f46010ace2/c0f5d344_gen_1");
	struct table *t;
	struct err e;

	(void)state;
	e = table_load(dir, &errors, &t);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(t->reader_flags, 0);
	assert_int_equal(t->fragments[0].deletion.kind, TABLE_DELETION_BITMAP);
	assert_int_equal(t->fragments[0].deletion.read_version, 1);
	assert_int_equal(t->transaction_uuid.len, 0);
	table_free(t);
	object_dir_close(dir);
}

static void
test_names(void **state)
{
	char name[TABLE_NAME_MAX];
	uint64_t version = 7;

	(void)state;
	table_manifest_name(1, name);
	assert_string_equal(name, "_versions/18446744073709551614.manifest");
	assert_true(table_manifest_parse(SLICE("18446744073709551614.manifest"),
	    &version));
	assert_int_equal(version, 1);
	assert_false(table_manifest_parse(SLICE("18446744073709551616.manifest"),
	    &version));
	assert_false(table_manifest_parse(SLICE("1844674407370955161.manifest"),
	    &version));
	assert_false(table_manifest_parse(SLICE("1844674407370955161x.manifest"),
	    &version));
	assert_false(table_manifest_parse(SLICE("18446744073709551614.manifesto"),
	    &version));
	assert_false(table_manifest_parse(SLICE("latest_version_hint.json"),
	    &version));
}

/* Every cut and every flipped byte of a real manifest is an answer. */
static void
test_damaged(void **state)
{
	struct object_dir *dir = open_fixture("indexed_v20.lance");
	struct arena a;
	struct slice file;
	struct table *t;
	struct err e;
	char *copy;
	size_t i;
	int bit;

	(void)state;
	arena_init(&a, 1u << 20);
	e = object_get(dir, "_versions/18446744073709551610.manifest", 65536, &a,
	    &file);
	assert_int_equal(e.kind, ERR_OK);
	copy = malloc(file.len);
	assert_non_null(copy);
	for (i = 0; i < file.len; i++) {
		memcpy(copy, file.ptr, i);
		e = table_parse(slice_make(copy, i), &errors, &t);
		assert_int_not_equal(e.kind, ERR_OK);
		memcpy(copy, file.ptr, file.len);
		for (bit = 0; bit < 8; bit++) {
			copy[i] = (char)(file.ptr[i] ^ 1 << bit);
			e = table_parse(slice_make(copy, file.len), &errors, &t);
			if (!err_is(e))
				table_free(t);
		}
		arena_reset(&errors);
	}
	free(copy);
	arena_free(&a);
	object_dir_close(dir);
}

/* A fixture's manifest, changed by fn, as a file without its sections. */
static struct err
parse_changed(const char *fixture, void (*fn)(Pb__Manifest *))
{
	struct table *t = load(fixture), *changed;
	struct slice message;
	struct buf file;
	uint64_t position = 0;
	uint32_t len;
	struct err e;

	t->manifest->has_index_section = 0;
	fn(t->manifest);
	e = proto_pack(&t->arena, &t->manifest->base, &message);
	assert_int_equal(e.kind, ERR_OK);
	len = (uint32_t)message.len;
	buf_init(&file, 1u << 20);
	assert_true(buf_append(&file, &len, 4) && buf_append_slice(&file, message));
	assert_true(buf_append(&file, &position, 8));
	assert_true(buf_append(&file, "\0\0\2\0LANC", 8));
	e = table_parse(buf_slice(&file), &errors, &changed);
	if (!err_is(e))
		table_free(changed);
	buf_free(&file);
	table_free(t);
	return e;
}

static ProtobufCBinaryData some_bytes = { 1, (uint8_t *)"x" };

static void
change_nothing(Pb__Manifest *m)
{
	(void)m;
}

static void
one_id_twice(Pb__Manifest *m)
{
	m->fragments[1]->id = m->fragments[2]->id;
}

static void
unknown_flag(Pb__Manifest *m)
{
	m->reader_flags = 1 | 256;
}

static void
base_paths(Pb__Manifest *m)
{
	m->n_base_paths = 1;
	m->base_paths = &some_bytes;
}

static void
branch(Pb__Manifest *m)
{
	m->has_branch = 1;
	m->branch = some_bytes;
}

static void
overlays(Pb__Manifest *m)
{
	m->fragments[1]->n_overlays = 1;
	m->fragments[1]->overlays = &some_bytes;
}

static void
newer_file(Pb__Manifest *m)
{
	m->fragments[1]->files[0]->has_minor = 1;
	m->fragments[1]->files[0]->minor = 1;
}

static void
unknown_type(Pb__Manifest *m)
{
	m->fields[0]->logical_type = some_bytes;
}

static void
orphan_field(Pb__Manifest *m)
{
	m->fields[1]->has_parent_id = 1;
	m->fields[1]->parent_id = 77;
}

static void
one_name_twice(Pb__Manifest *m)
{
	m->fields[0]->name = m->fields[1]->name = some_bytes;
}

static void
too_many_deleted(Pb__Manifest *m)
{
	m->fragments[0]->deletion_file->row_count = 1u << 20;
}

static void
test_changed(void **state)
{
	static const struct {
		void (*fn)(Pb__Manifest *);
		enum err_kind kind;
		const char *says;
	} cases[] = {
		{ change_nothing, ERR_OK, "" },
		{ one_id_twice, ERR_CORRUPT, "two fragments" },
		{ unknown_flag, ERR_UNSUPPORTED, "0x100" },
		{ base_paths, ERR_UNSUPPORTED, "base paths" },
		{ branch, ERR_UNSUPPORTED, "branch" },
		{ overlays, ERR_UNSUPPORTED, "overlays" },
		{ newer_file, ERR_UNSUPPORTED, "2.1" },
		{ unknown_type, ERR_UNSUPPORTED, "type x" },
		{ orphan_field, ERR_CORRUPT, "depth first" },
		{ one_name_twice, ERR_CORRUPT, "one name" },
		{ too_many_deleted, ERR_CORRUPT, "out of range" },
	};
	struct err e;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		e = parse_changed("deleted_v20.lance", cases[i].fn);
		assert_int_equal(e.kind, cases[i].kind);
		assert_non_null(strstr(e.what, cases[i].says));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_deletions),
		cmocka_unit_test(test_key_and_index),
		cmocka_unit_test(test_evolved),
		cmocka_unit_test(test_mem_wal),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_generation),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_damaged),
	};
	int failed;

	arena_init(&errors, 1u << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(&errors);
	return failed;
}
