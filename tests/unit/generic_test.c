#include "common/base.h"

#include "tests/unit/lance_dir.h"

#include "common/arena.h"
#include "common/buf.h"
#include "worker/api/row_read.h"
#include "worker/api/row_write.h"
#include "worker/lance/commit.h"
#include "worker/store/generic.h"
#include "worker/store/shape.h"

#define ID	"[\"id\",{\"type\":\"string\",\"nullable\":false}]"
#define ROOM	(16u << 20)

static struct arena arena;

static struct err
make(const char *text, struct store_shape *shape)
{
	const struct json *schema;

	see_ok(json_parse(&arena, slice_of(text), "schema", &schema));
	return generic_shape_make(&arena, schema, false, shape);
}

static void
refused(const char *text, enum err_kind kind, const char *why)
{
	struct store_shape shape;
	struct err e = make(text, &shape);

	assert_int_equal(e.kind, kind);
	assert_string_equal(e.what, why);
}

static const char rich[] = "{\"columns\":["
    "[\"e\",{\"type\":\"vector\",\"dim\":3,\"metric\":\"Dot\",\"x\":1}],"
    "[\"tags\",{\"type\":\"list\",\"item\":{\"type\":\"int64\"}}],"
    "[\"w\",{\"type\":\"vector\",\"dim\":2}]," ID ","
    "[\"b\",{\"type\":\"binary\",\"blob\":true}],"
    "[\"s\",{\"type\":\"string\",\"large\":true,\"nullable\":false}],"
    "[\"t\",{\"type\":\"timestamp\"}],"
    "[\"c\",{\"type\":\"binary\",\"nullable\":null}]]}";

static const char rich_told[] = "{\"columns\":["
    "[\"e\",{\"type\":\"vector\",\"dim\":3,\"metric\":\"Dot\","
    "\"nullable\":true}],"
    "[\"tags\",{\"type\":\"list\",\"item\":{\"type\":\"int64\"},"
    "\"nullable\":true}],"
    "[\"w\",{\"type\":\"vector\",\"dim\":2,\"metric\":null,"
    "\"nullable\":true}],"
    "[\"id\",{\"type\":\"string\",\"large\":false,\"nullable\":false}],"
    "[\"b\",{\"type\":\"binary\",\"blob\":true,\"nullable\":true}],"
    "[\"s\",{\"type\":\"string\",\"large\":true,\"nullable\":false}],"
    "[\"t\",{\"type\":\"timestamp\",\"nullable\":true}],"
    "[\"c\",{\"type\":\"binary\",\"blob\":false,\"nullable\":true}]]}";

/* The rich schema, with what was no default left alone. */
static void
make_rich(struct store_shape *shape)
{
	char text[sizeof(rich)];

	memcpy(text, rich, sizeof(rich));
	memcpy(strstr(text, "null}]]}"), "true", 4);
	see_ok(make(text, shape));
}

static void
fields_come_key_first_and_ids_depth_first(void **state)
{
	static const struct {
		const char *name;
		uint8_t type;
		bool nullable;
		int32_t id, dim;
	} want[] = {
		{ "id", ARROW_UTF8, false, 0, 0 },
		{ "e", ARROW_FIXED_LIST, true, 1, 3 },
		{ "tags", ARROW_LIST, true, 2, 0 },
		{ "w", ARROW_FIXED_LIST, true, 4, 2 },
		{ "b", ARROW_LARGE_BINARY, true, 5, 0 },
		{ "s", ARROW_LARGE_UTF8, false, 6, 0 },
		{ "t", ARROW_TIMESTAMP, true, 7, 0 },
		{ "c", ARROW_LARGE_BINARY, true, 8, 0 },
		{ "_seq", ARROW_INT64, true, 9, 0 },
	};
	struct store_shape shape;
	const struct arrow_field *f;
	uint32_t i;

	(void)state;
	make_rich(&shape);
	assert_int_equal(shape.schema.field_count, ARRAY_LEN(want));
	for (i = 0; i < ARRAY_LEN(want); i++) {
		f = &shape.schema.fields[i];
		assert_true(slice_eq(f->name, slice_of(want[i].name)));
		assert_int_equal(f->type, want[i].type);
		assert_int_equal(f->nullable, want[i].nullable);
		assert_int_equal(f->id, want[i].id);
		assert_int_equal(f->dim, want[i].dim);
	}
	f = &shape.schema.fields[2];
	assert_int_equal(f->child_count, 1);
	assert_int_equal(f->children[0].type, ARROW_INT64);
	assert_int_equal(f->children[0].id, 3);
	assert_true(f->children[0].nullable);
	assert_true(slice_eq(f->children[0].name, SLICE("item")));
	assert_int_equal(shape.key, 0);
	assert_int_equal(shape.seq, 8);
	assert_int_equal(shape.blob, -1);
	assert_int_equal(shape.created_at, -1);
	assert_int_equal(shape.payload_size, -1);
}

static struct slice
pair_of(const struct arrow_pair *pairs, uint32_t count, const char *key)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (slice_eq(pairs[i].key, slice_of(key)))
			return pairs[i].value;
	}
	fail_msg("no %s", key);
	return SLICE("");
}

static void
rules_and_metadata(void **state)
{
	struct store_shape shape;
	const struct arrow_field *f;

	(void)state;
	make_rich(&shape);
	f = shape.schema.fields;
	assert_int_equal(shape.rules[0].presence, RULE_REQUIRED);
	assert_int_equal(shape.rules[0].form, FORM_KEY);
	assert_int_equal(shape.rules[1].presence, RULE_OPTIONAL);
	assert_int_equal(shape.rules[4].form, FORM_BLOB);
	assert_int_equal(shape.rules[5].presence, RULE_REQUIRED);
	assert_int_equal(shape.rules[7].form, FORM_PLAIN);
	assert_int_equal(shape.rules[8].presence, RULE_INTERNAL);

	assert_true(slice_eq(pair_of(f[0].pairs, f[0].pair_count,
	    STORE_KEY_POSITION), SLICE("1")));
	assert_int_equal(f[4].pair_count, 1);
	assert_true(slice_eq(pair_of(f[4].pairs, 1, "lance-context:blob"),
	    SLICE("true")));
	assert_int_equal(f[7].pair_count, 0);
	assert_int_equal(shape.schema.pair_count, 0);

	assert_int_equal(shape.pair_count, 4);
	assert_true(slice_eq(shape.spec, SLICE(rich_told)));
	assert_true(slice_eq(pair_of(shape.pairs, 4,
	    "lance-context:schema_spec"), shape.spec));
	assert_true(slice_eq(pair_of(shape.pairs, 4,
	    "lance-context:seal_on_add"), SLICE("false")));
	assert_true(slice_eq(pair_of(shape.pairs, 4,
	    "lance-context:distance_metric:e"), SLICE("Dot")));
	assert_true(slice_eq(pair_of(shape.pairs, 4,
	    "lance-context:distance_metric:w"), SLICE("l2")));
	assert_int_equal(shape.flags & SHAPE_READ_STRONG, 0);
}

static void
what_is_wrong_is_said(void **state)
{
	(void)state;
	refused(rich, ERR_SHAPE,
	    "schema.columns[7] (c): nullable: must not be null");
	refused("{}", ERR_SHAPE, "columns: required, but missing or null");
	refused("{\"columns\":[]}", ERR_BAD_INPUT, "schema: 1 to 1024 columns");
	refused("{\"columns\":[" ID ",7]}", ERR_SHAPE,
	    "schema.columns[1]: expected [name, type object]");
	refused("{\"columns\":[" ID ",[\"a\",{\"type\":\"int\"}]]}",
	    ERR_BAD_INPUT, "schema.columns[1] (a): type: \"int\" is none");
	refused("{\"columns\":[" ID ",[\"a\",{\"type\":\"vector\",\"dim\":0}]]}",
	    ERR_BAD_INPUT, "schema.columns[1] (a): dim: must be 1 to 1048576");
	refused("{\"columns\":[" ID ",[\"a\",{\"type\":\"vector\","
	    "\"dim\":1048577}]]}",
	    ERR_BAD_INPUT, "schema.columns[1] (a): dim: must be 1 to 1048576");
	refused("{\"columns\":[" ID ",[\"_a\",{\"type\":\"bool\"}]]}",
	    ERR_BAD_INPUT, "schema.columns[1] (_a): names that begin with "
	    "\"_\" are reserved");
	refused("{\"columns\":[" ID ",[\"a\",{\"type\":\"bool\"}],[\"a\","
	    "{\"type\":\"bool\"}]]}", ERR_BAD_INPUT,
	    "schema: two columns \"a\"");
	refused("{\"columns\":[[\"id\",{\"type\":\"string\"}]]}", ERR_BAD_INPUT,
	    "schema: \"id\" must be a string with \"nullable\":false");
	refused("{\"columns\":[[\"a\",{\"type\":\"bool\"}]]}", ERR_BAD_INPUT,
	    "schema: no column \"id\"");
}

/* ---- through a table */

static struct object_dir *
new_table(const struct store_shape *shape)
{
	struct commit_create create = { &shape->schema, SLICE("id"),
	    shape->pair_count, shape->pairs };
	struct object_dir *table;

	see_ok(object_dir_open(dir, new_name(".lance"), true, &table));
	see_ok(commit_create_table(table, &create, &arena));
	return table;
}

static void
a_table_bears_it(void **state)
{
	const struct store_shape *got;
	struct store_shape shape;
	struct object_dir *table;
	const struct json *schema;

	(void)state;
	see_ok(json_parse(&arena, SLICE(rich_told), "schema", &schema));
	see_ok(generic_shape_make(&arena, schema, true, &shape));
	table = new_table(&shape);
	see_ok(shape_load(&kind_generic, table, &got));
	assert_true(arrow_schema_same(&got->schema, &shape.schema));
	assert_true(slice_eq(got->spec, shape.spec));
	assert_int_equal(got->flags, shape.flags);
	assert_int_not_equal(got->flags & SHAPE_READ_STRONG, 0);
	assert_int_equal(got->schema.fields[2].children[0].id, 3);
	shape_drop(&kind_generic, got);
	object_dir_close(table);

	see_ok(shape_load(&kind_rollout, NULL, &got));
	assert_ptr_equal(got, kind_rollout.shape);
	shape_drop(&kind_rollout, got);
}

/* Columns other than those the schema tells of, or no schema. */
static void
a_table_that_bears_another(void **state)
{
	const struct store_shape *got = NULL;
	struct store_shape shape, other, moved;
	struct arrow_field fields[9];
	struct object_dir *table;

	(void)state;
	make_rich(&shape);
	see_ok(make("{\"columns\":[" ID ",[\"e\",{\"type\":\"int32\"}]]}",
	    &other));
	other.pair_count = shape.pair_count;
	other.pairs = shape.pairs;
	table = new_table(&other);
	see_error(shape_load(&kind_generic, table, &got), UNSUPPORTED);
	object_dir_close(table);

	/* Its columns under other ids, by which files are read. */
	moved = shape;
	assert_int_equal(moved.schema.field_count, ARRAY_LEN(fields));
	memcpy(fields, shape.schema.fields, sizeof(fields));
	fields[7].id = 40;
	moved.schema.fields = fields;
	table = new_table(&moved);
	see_error(shape_load(&kind_generic, table, &got), UNSUPPORTED);
	object_dir_close(table);

	other.pair_count = 0;
	table = new_table(&other);
	see_error(shape_load(&kind_generic, table, &got), CORRUPT);
	object_dir_close(table);

	see_ok(object_dir_open(dir, new_name(".lance"), true, &table));
	see_error(shape_load(&kind_generic, table, &got), NOT_FOUND);
	object_dir_close(table);
	assert_null(got);
}

/* ---- rows */

static const char rows[] = " {\"x\":[1],\"rows\" : [\n"
    "{\"id\":\"a\",\"s\":\"\\u00e9\",\"e\":[ 1, -2.5 ,1e-3],"
    "\"tags\":[1,-9223372036854775808, 3],\"w\":[0.1,16777217],"
    "\"b\":[0, 255 ,1],\"t\":\"1970-01-01T00:00:01.5Z\",\"c\":\"AQI=\"},"
    "{\"s\":\"\",\"id\":\"b\",\"t\":-12,\"c\":[],\"b\":null,\"tags\":[]} ]}";

static const char rows_told[] =
    "{\"id\":\"a\",\"e\":[1,-2.5,0.0010000000474974513],"
    "\"tags\":[1,-9223372036854775808,3],"
    "\"w\":[0.10000000149011612,16777216],\"b\":\"AP8B\","
    "\"s\":\"\xc3\xa9\",\"t\":1500000,\"c\":\"AQI=\"}\n"
    "{\"id\":\"b\",\"tags\":[],\"s\":\"\",\"t\":-12,\"c\":\"\"}\n";

/* Rows of the body in a window of cut bytes, then step at a time. */
static void
read_rows(const struct store_shape *shape, size_t cut, size_t step,
    struct buf *out)
{
	static const bool all[ARROW_FIELDS_MAX] = { [0 ... 99] = true };
	size_t at = 0, n = MIN(cut, sizeof(rows) - 1);
	struct row_read_result result;
	struct builder b;
	struct row_read *r;
	struct batch batch;
	uint64_t i;

	see_ok(builder_init(&b, &shape->schema, ROOM));
	see_ok(row_read_open(&arena, shape, "rows", 0, &b, &r));
	while (at < sizeof(rows) - 1) {
		see_ok(row_read_feed(r, slice_make(rows + at, n)));
		at += n;
		n = MIN(step, sizeof(rows) - 1 - at);
	}
	see_ok(row_read_finish(r, &result));
	assert_int_equal(result.count, 2);
	batch = builder_batch(&b);
	for (i = 0; i < 2; i++) {
		assert_true(row_write(out, shape, &batch, i, all));
		assert_true(buf_append(out, "\n", 1));
	}
	builder_free(&b);
}

static void
rows_cut_at_every_byte(void **state)
{
	struct store_shape shape;
	struct buf out;
	size_t cut;

	(void)state;
	make_rich(&shape);
	buf_init(&out, ROOM);
	for (cut = 0; cut <= sizeof(rows); cut++) {
		out.len = 0;
		read_rows(&shape, cut, cut % 3 == 0 ? SIZE_MAX : cut % 7 + 1,
		    &out);
		assert_true(slice_eq(buf_slice(&out), SLICE(rows_told)));
	}
	buf_free(&out);
}

/* The longest vector, of which no run of numbers goes past its end. */
static void
long_vectors(void **state)
{
	struct row_read_result result;
	struct store_shape shape;
	struct builder b;
	struct row_read *r;
	struct buf body;
	int k, n;

	(void)state;
	see_ok(make("{\"columns\":[" ID ",[\"v\",{\"type\":\"vector\","
	    "\"dim\":1000}]]}", &shape));
	buf_init(&body, ROOM);
	for (n = 998; n <= 1002; n++) {
		struct err e;

		body.len = 0;
		assert_true(buf_printf(&body, "{\"rows\":[{\"id\":\"a\",\"v\":["));
		for (k = 0; k < n; k++)
			assert_true(buf_printf(&body, "%s%d.5", k == 0 ? "" :
			    ",", k));
		assert_true(buf_printf(&body, "]}]}"));
		see_ok(builder_init(&b, &shape.schema, ROOM));
		see_ok(row_read_open(&arena, &shape, "rows", 0, &b, &r));
		e = row_read_feed(r, buf_slice(&body));
		if (!err_is(e))
			e = row_read_finish(r, &result);
		assert_int_equal(e.kind, n == 1000 ? ERR_OK : ERR_BAD_INPUT);
		if (n < 1000)
			assert_string_equal(e.what, n == 998 ? "rows[0].v: "
			    "expected 1000 numbers, found 998" : "rows[0].v: "
			    "expected 1000 numbers, found 999");
		if (n > 1000)
			assert_string_equal(e.what, "rows[0].v[1000]: 1000.5 "
			    "is one number too many");
		builder_cut(&b, 0);
		builder_free(&b);
	}
	buf_free(&body);
}

/* Rows of a few bytes with places for long vectors: bounded in all, not only
 * buffer by buffer. */
static void
what_rows_cost_in_all_is_bounded(void **state)
{
	static const char many[] = "{\"id\":\"a\"},{\"id\":\"b\"},";
	struct store_shape shape;
	struct builder b;
	struct row_read *r;
	struct buf schema;
	struct err e;
	int k;

	(void)state;
	buf_init(&schema, ROOM);
	assert_true(buf_printf(&schema, "{\"columns\":[" ID));
	for (k = 0; k < 100; k++)
		assert_true(buf_printf(&schema, ",[\"v%d\",{\"type\":"
		    "\"vector\",\"dim\":1000}]", k));
	assert_true(buf_append(&schema, "]}", 3));
	see_ok(make(schema.ptr, &shape));
	buf_free(&schema);

	see_ok(builder_init(&b, &shape.schema, ROOM));
	see_ok(row_read_open(&arena, &shape, "rows", 0, &b, &r));
	e = row_read_feed(r, SLICE("{\"rows\":["));
	for (k = 0; k < 1000 && !err_is(e); k++)
		e = row_read_feed(r, SLICE(many));
	assert_int_equal(e.kind, ERR_TOO_LARGE);
	assert_true(builder_bytes(&b) <= 3 * ROOM);
	builder_cut(&b, 0);
	builder_free(&b);
}

static int
setup(void **state)
{
	arena_init(&arena, 256u << 20);
	return dir_setup(state);
}

static int
teardown(void **state)
{
	arena_free(&arena);
	return dir_teardown(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_come_key_first_and_ids_depth_first),
		cmocka_unit_test(rules_and_metadata),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(a_table_bears_it),
		cmocka_unit_test(a_table_that_bears_another),
		cmocka_unit_test(rows_cut_at_every_byte),
		cmocka_unit_test(long_vectors),
		cmocka_unit_test(what_rows_cost_in_all_is_bounded),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
