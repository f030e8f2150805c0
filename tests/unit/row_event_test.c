#include "common/base.h"

#define ROW_KIND kind_datagen
#define ROW_LIST "events"
#include "tests/unit/row_helper.h"

#include "common/base64.h"
#include "worker/api/row_event.h"
#include "worker/store/kind_datagen.h"

/* What every event must have, but for its type. */
#define BASE	"\"event_id\":\"e\",\"item_id\":\"5\",\"root_item_id\":\"5\"," \
	"\"item_seq\":2,\"checkpoint_id\":\"c\\u00000\",\"run_id\":\"r\"," \
	"\"writer_epoch\":\"w\",\"schema_version\":2," \
	"\"event_ts\":\"2026-11-01T08:00:00Z\""
#define STEP	"\"step_name\":\"solve\",\"step_kind\":\"leaf\",\"step_index\":0"
#define FIELD	"\"field_name\":\"score\",\"field_type\":\"int\"," \
	"\"codec_version\":1"
#define TYPE(t)	"\"event_type\":\"" t "\""
#define SET(v)	BASE "," TYPE("FIELD_SET") "," STEP "," FIELD ",\"value\":" v

/* The rows of one event or its error, fed byte by byte. */
static char *
event(const char *members)
{
	size_t room = strlen(members) + 64;
	char *body = malloc(room), *rows, *whole;

	assert_non_null(body);
	snprintf(body, room, "{\"events\":[{%s}]}", members);
	rows = rows_of(slice_of(body), 1, 1);
	whole = rows_of(slice_of(body), SIZE_MAX, 0);
	assert_string_equal(rows, whole);
	free(whole);
	free(body);
	return rows;
}

static void
is_refused(const char *members, const char *why)
{
	char *text = event(members);

	if (strcmp(text, why) != 0)
		fail_msg("%s\ngot:  %s\nwant: %s", members, text, why);
	free(text);
}

static void
comes_back(const char *members, const char *part)
{
	char *text = event(members);

	if (strstr(text, part) == NULL)
		fail_msg("%s\ngot:  %s\nwant: ...%s", members, text, part);
	free(text);
}

static void
every_member(void **state)
{
	(void)state;
	char *text = event("\"event_id\":\"e\",\"item_id\":\"5/x:0\","
	    "\"root_item_id\":\"5\",\"parent_item_id\":\"p\",\"item_seq\":"
	    "9223372036854775807,\"checkpoint_id\":\"c\\u00000\","
	    "\"event_type\":\"FAILED\",\"step_name\":\"s\","
	    "\"step_kind\":\"sub_pipeline\",\"step_index\":-9,"
	    "\"enclosing_step\":\"n\",\"selector_step\":\"l\","
	    "\"attempt\":2147483647,\"run_id\":\"r\",\"writer_epoch\":\"w\","
	    "\"field_name\":\"f\",\"field_type\":\"t\",\"codec_version\":-1,"
	    "\"value\":{\"kind\":\"int\",\"value\":9},"
	    "\"query_tags\":{\"a\": [1, null]},\"status\":\"failed\","
	    "\"error_type\":\"E\",\"error_dump\":\"d\\u0000\","
	    "\"traceback\":\"\",\"event_ts\":\"2026-11-01T10:00:01+02:00\","
	    "\"schema_version\":2147483647,\"novel\":[{}],"
	    "\"value_i64\":7,\"query_tags_json\":\"x\",\"_seq\":1");

	assert_string_equal(text,
	    "{\"event_id\":\"e\",\"item_id\":\"5/x:0\",\"root_item_id\":\"5\","
	    "\"parent_item_id\":\"p\",\"item_seq\":9223372036854775807,"
	    "\"checkpoint_id\":\"c\\u00000\",\"event_type\":\"FAILED\","
	    "\"step_name\":\"s\",\"step_kind\":\"sub_pipeline\","
	    "\"step_index\":-9,\"enclosing_step\":\"n\",\"selector_step\":\"l\","
	    "\"attempt\":2147483647,\"run_id\":\"r\",\"writer_epoch\":\"w\","
	    "\"field_name\":\"f\",\"field_type\":\"t\",\"codec_version\":-1,"
	    "\"value\":{\"kind\":\"int\",\"value\":9},"
	    "\"query_tags\":{\"a\":[1,null]},\"status\":\"failed\","
	    "\"error_type\":\"E\",\"error_dump\":\"d\\u0000\","
	    "\"traceback\":\"\",\"event_ts\":\"2026-11-01T08:00:01Z\","
	    "\"schema_version\":2147483647}\n");
	free(text);
}

static void
defaults(void **state)
{
	char *text = event("\"event_id\":\"e\",\"item_id\":\"5\","
	    "\"root_item_id\":\"5\",\"item_seq\":0,\"checkpoint_id\":\"c\","
	    "\"event_type\":\"ITEM_CREATED\",\"run_id\":\"r\","
	    "\"writer_epoch\":\"w\",\"schema_version\":1,\"value\":null,"
	    "\"query_tags\":null,\"status\":null,\"event_ts\":null");

	(void)state;
	assert_string_equal(text, "{\"event_id\":\"e\",\"item_id\":\"5\","
	    "\"root_item_id\":\"5\",\"item_seq\":0,\"checkpoint_id\":\"c\","
	    "\"event_type\":\"ITEM_CREATED\",\"attempt\":0,\"run_id\":\"r\","
	    "\"writer_epoch\":\"w\",\"event_ts\":\"2026-11-01T08:00:01.237Z\","
	    "\"schema_version\":1}\n");
	free(text);
}

static void
values_of_every_kind(void **state)
{
	static const char *const good[][2] = {
		{ "{\"kind\":\"int\",\"value\":-9223372036854775808}", NULL },
		{ "{\"kind\":\"int\",\"value\":9223372036854775807}", NULL },
		{ "{\"value\":-0,\"kind\":\"int\"}",
		    "{\"kind\":\"int\",\"value\":0}" },
		{ "{\"kind\":\"float\",\"value\":0.1}", NULL },
		{ "{\"kind\":\"float\",\"value\":9007199254740993}",
		    "{\"kind\":\"float\",\"value\":9007199254740992.0}" },
		{ "{\"kind\":\"float\",\"value\":3}",
		    "{\"kind\":\"float\",\"value\":3.0}" },
		{ "{\"kind\":\"float\",\"value\":-0.0}", NULL },
		{ "{\"kind\":\"float\",\"value\":5e-324}", NULL },
		{ "{\"value\":1.7976931348623157e308,\"kind\":\"float\"}",
		    "{\"kind\":\"float\",\"value\":1.7976931348623157e+308}" },
		{ "{\"kind\":\"bool\",\"value\":true}", NULL },
		{ "{\"value\":false,\"kind\":\"bool\"}",
		    "{\"kind\":\"bool\",\"value\":false}" },
		{ "{\"kind\":\"str\",\"value\":\"\"}", NULL },
		{ "{\"kind\":\"str\",\"value\":\"a\\u0000\\u00e9\\ud83d\\ude00"
		    "\xe2\x82\xac\\/\\\"\\\\\\n\"}",
		    "{\"kind\":\"str\",\"value\":\"a\\u0000\xc3\xa9"
		    "\xf0\x9f\x98\x80\xe2\x82\xac/\\\"\\\\\\n\"}" },
		{ "{\"kind\":\"json\",\"value\":null}", NULL },
		{ "{\"value\":{\"b\":[1.50,\"\\u0041\"],\"b\":{}},"
		    "\"kind\":\"json\"}",
		    "{\"kind\":\"json\",\"value\":{\"b\":[1.50,\"\\u0041\"],"
		    "\"b\":{}}}" },
		{ "{\"kind\":\"json\",\"value\":\"text\"}", NULL },
		{ "{\"kind\":\"json\",\"value\":1e300}", NULL },
		{ "{\"kind\":\"blob\",\"bytes\":\"Zm9v\"}",
		    "{\"kind\":\"blob\",\"size\":3}" },
		{ "{\"checksum\":\"\",\"size\":0,\"bytes\":\"\",\"value\":null,"
		    "\"kind\":\"blob\"}",
		    "{\"kind\":\"blob\",\"size\":0,\"checksum\":\"\"}" },
		{ "{\"kind\":\"int\",\"value\":1,\"bytes\":null,\"size\":null,"
		    "\"checksum\":null,\"why\":[]}",
		    "{\"kind\":\"int\",\"value\":1}" },
	};
	char members[1024], part[512];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++) {
		snprintf(members, sizeof(members), SET("%s"), good[i][0]);
		snprintf(part, sizeof(part), "\"value\":%s,\"event_ts\"",
		    good[i][1] == NULL ? good[i][0] : good[i][1]);
		comes_back(members, part);
	}
}

#define AT	"events[0].value."

static void
bad_values(void **state)
{
	static const char *const bad[][2] = {
		{ "7", "events[0].value: must be an object" },
		{ "[]", "events[0].value: must be an object" },
		{ "nil", "events[0].value: not a JSON value" },
		{ "{}", AT "kind: required, but missing or null" },
		{ "{\"kind\":null}", AT "kind: required, but missing or null" },
		{ "{\"kind\":7}", AT "kind: expected a string, found a number" },
		{ "{\"kind\":\"Int\"}", AT "kind: must be one of int, float, "
		    "bool, str, json, blob" },
		{ "{\"kind\":\"int\"}", AT "value: required, but missing" },
		{ "{\"kind\":\"int\",\"value\":null}",
		    AT "value: expected an integer" },
		{ "{\"kind\":\"int\",\"value\":1.0}",
		    AT "value: 1.0 is not an integer" },
		{ "{\"kind\":\"int\",\"value\":9223372036854775808}",
		    AT "value: 9223372036854775808 does not fit 64 bits" },
		{ "{\"kind\":\"int\",\"value\":\"1\"}",
		    AT "value: expected an integer" },
		{ "{\"kind\":\"int\",\"value\":[1]}",
		    AT "value: expected an integer" },
		{ "{\"kind\":\"float\",\"value\":1e400}",
		    AT "value: a number beyond the largest double" },
		{ "{\"kind\":\"json\",\"value\":{\"a\":[-1e400]}}",
		    AT "value: a number beyond the largest double" },
		{ "{\"kind\":\"float\",\"value\":true}",
		    AT "value: expected a number" },
		{ "{\"kind\":\"bool\",\"value\":1}",
		    AT "value: expected true or false" },
		{ "{\"kind\":\"bool\",\"value\":\"true\"}",
		    AT "value: expected true or false" },
		{ "{\"kind\":\"str\",\"value\":1}",
		    AT "value: expected a string" },
		{ "{\"kind\":\"str\",\"value\":\"\\ud83d\"}",
		    AT "value: lone surrogate" },
		{ "{\"kind\":\"json\"}", AT "value: required, but missing" },
		{ "{\"kind\":\"json\",\"value\":1,\"value\":1}",
		    AT "value: given twice" },
		{ "{\"kind\":\"blob\"}", AT "bytes: required, but missing or "
		    "null" },
		{ "{\"kind\":\"blob\",\"bytes\":\"Zm9\"}",
		    AT "bytes: not base64: it ends early" },
		{ "{\"kind\":\"blob\",\"bytes\":\"Zm9v\",\"size\":2}",
		    AT "size: 2, but there are 3 bytes" },
		{ "{\"kind\":\"blob\",\"bytes\":\"Zm9v\",\"value\":1}",
		    AT "value: a blob has \"bytes\" instead" },
		{ "{\"kind\":\"str\",\"value\":\"\",\"bytes\":\"\"}",
		    AT "bytes: only a value of kind blob has it" },
		{ "{\"kind\":\"str\",\"value\":\"\",\"size\":0}",
		    AT "size: only a value of kind blob has it" },
		{ "{\"kind\":\"str\",\"value\":\"\",\"checksum\":\"\"}",
		    AT "checksum: only a value of kind blob has it" },
	};
	char members[1024];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(members, sizeof(members), SET("%s"), bad[i][0]);
		is_refused(members, bad[i][1]);
	}
	is_refused(SET("{\"kind\":\"int\",\"value\":1},\"value\":null"),
	    "events[0].value: given twice");
}

/* A value is dropped with its row, and the next one has its own. */
static void
values_side_by_side(void **state)
{
	static const char body[] = "{\"events\":["
	    "{" SET("{\"value\":\"x\",\"kind\":\"str\"}") "},"
	    "{" BASE "," TYPE("ITEM_CREATED") "},"
	    "{" SET("{\"value\":\"y\",\"kind\":\"json\"}") "},"
	    "{" SET("{\"value\":3,\"kind\":\"int\"}") "},"
	    "{" SET("{\"kind\":\"blob\",\"bytes\":\"AA==\"}") "}]}";
	struct rows r;
	struct batch b;

	(void)state;
	rows_init(&r);
	assert_false(err_is(rows_read(&r, SLICE(body), 7, 7)));
	b = builder_batch(&r.builder);
	assert_int_equal(b.row_count, 5);
	assert_true(slice_eq(array_slice(&b.columns[DATAGEN_value_str], 0),
	    SLICE("x")));
	assert_true(slice_eq(array_slice(&b.columns[DATAGEN_value_json], 2),
	    SLICE("\"y\"")));
	assert_int_equal(array_int(&b.columns[DATAGEN_value_i64], 3), 3);
	assert_int_equal(array_slice(&b.columns[DATAGEN_value_blob], 4).len, 1);
	assert_int_equal(array_int(&b.columns[DATAGEN_payload_size], 4), 1);
	assert_int_equal(b.columns[DATAGEN_value_str].null_count, 4);
	assert_int_equal(b.columns[DATAGEN_value_json].null_count, 4);
	assert_int_equal(b.columns[DATAGEN_value_i64].null_count, 4);
	assert_int_equal(b.columns[DATAGEN_value_f64].null_count, 5);
	assert_int_equal(b.columns[DATAGEN_value_bool].null_count, 5);
	assert_int_equal(b.columns[DATAGEN_value_blob].null_count, 4);
	assert_int_equal(b.columns[DATAGEN_value_kind].null_count, 1);
	rows_free(&r);
}

/* Each required member taken out, made null and made empty in turn. */
static void
required_members(void **state)
{
	static const struct {
		const char *name, *text;
		bool is_text;
	} all[] = {
		{ "event_id", "\"e\"", true }, { "item_id", "\"5\"", true },
		{ "root_item_id", "\"5\"", true }, { "item_seq", "1", false },
		{ "checkpoint_id", "\"c\"", true },
		{ "event_type", "\"ITEM_CREATED\"", true },
		{ "run_id", "\"r\"", true }, { "writer_epoch", "\"w\"", true },
		{ "schema_version", "2", false },
	};
	static const char *const tried[] = { NULL, "null", "\"\"" };
	char members[1024], want[256], *text;
	size_t i, k, t, at;

	(void)state;
	for (i = 0; i < ARRAY_LEN(all); i++) {
		for (t = 0; t < ARRAY_LEN(tried); t++) {
			at = 0;
			for (k = 0; k < ARRAY_LEN(all); k++) {
				if (k == i && tried[t] == NULL)
					continue;
				at += (size_t)snprintf(members + at,
				    sizeof(members) - at, "%s\"%s\":%s",
				    at > 0 ? "," : "", all[k].name,
				    k == i ? tried[t] : all[k].text);
			}
			text = event(members);
			snprintf(want, sizeof(want), "events[0].%s: %s",
			    all[i].name, t == 0 ? "required, but missing or "
			    "null" : t == 1 ? "must not be null" :
			    !all[i].is_text ?
			    "expected an integer, found a string" :
			    strcmp(all[i].name, "event_type") == 0 ?
			    "must be one of ITEM_CREATED, STEP_STARTED, "
			    "FIELD_SET, FIELD_APPEND, STEP_COMPLETED, FAILED, "
			    "TERMINAL" : "must not be empty");
			assert_string_equal(text, want);
			free(text);
		}
	}
}

static void
bad_members(void **state)
{
	static const char *const bad[][2] = {
		{ "\"attempt\":null", "attempt: must not be null" },
		{ "\"attempt\":-1", "attempt: must not be negative" },
		{ "\"attempt\":2147483648",
		    "attempt: 2147483648 does not fit 32 bits" },
		{ "\"step_kind\":\"Leaf\"", "step_kind: must be one of root, "
		    "leaf, sequence, loop, map_reduce, branch, sub_pipeline, "
		    "conditional, router" },
		{ "\"status\":\"\"", "status: must be one of running, "
		    "completed, filtered, failed" },
		{ "\"step_index\":1.5", "step_index: 1.5 is not an integer" },
		{ "\"step_name\":1", "step_name: expected a string, found a "
		    "number" },
		{ "\"codec_version\":2147483648",
		    "codec_version: 2147483648 does not fit 32 bits" },
		{ "\"event_id\":\"again\"", "event_id: given twice" },
	};
	char members[512], want[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(members, sizeof(members), BASE ","
		    TYPE("ITEM_CREATED") ",%s", bad[i][0]);
		snprintf(want, sizeof(want), "events[0].%s", bad[i][1]);
		is_refused(members, want);
	}
}

static void
numbers_in_range(void **state)
{
	static const char rest[] = "\"event_id\":\"e\",\"item_id\":\"5\","
	    "\"root_item_id\":\"5\",\"checkpoint_id\":\"c\",\"run_id\":\"r\","
	    "\"writer_epoch\":\"w\"," TYPE("ITEM_CREATED");
	char members[512];

	(void)state;
	snprintf(members, sizeof(members),
	    "%s,\"item_seq\":-1,\"schema_version\":1", rest);
	is_refused(members, "events[0].item_seq: must not be negative");
	snprintf(members, sizeof(members),
	    "%s,\"item_seq\":0,\"schema_version\":0", rest);
	is_refused(members, "events[0].schema_version: must be above 0");
	snprintf(members, sizeof(members),
	    "%s,\"item_seq\":0,\"schema_version\":-2147483648", rest);
	is_refused(members, "events[0].schema_version: must be above 0");
	snprintf(members, sizeof(members), "%s,\"item_seq\":0,"
	    "\"schema_version\":1,\"item_id\":\"a\\u0000\"", rest);
	is_refused(members, "events[0].item_id: given twice");
	is_refused("\"item_id\":\"a\\u0000\"",
	    "events[0].item_id: a key with U+0000");
}

#define NEEDS(t)	": an event of type " t " needs it"

/* By event type: what is enough, and what is missing if it is not. */
static void
what_a_type_needs(void **state)
{
	static const char *const cases[][3] = {
		{ TYPE("ITEM_CREATED"), "", NULL },
		{ TYPE("STEP_STARTED"), "," STEP, NULL },
		{ TYPE("STEP_STARTED"), "",
		    "step_name" NEEDS("STEP_STARTED") },
		{ TYPE("STEP_STARTED"), ",\"step_name\":\"\",\"step_kind\":"
		    "\"leaf\",\"step_index\":0",
		    "step_name" NEEDS("STEP_STARTED") },
		{ TYPE("STEP_COMPLETED"), ",\"step_name\":\"s\","
		    "\"step_index\":0", "step_kind" NEEDS("STEP_COMPLETED") },
		{ TYPE("STEP_COMPLETED"), ",\"step_name\":\"s\","
		    "\"step_kind\":\"leaf\"",
		    "step_index" NEEDS("STEP_COMPLETED") },
		{ TYPE("STEP_COMPLETED"), "," STEP, NULL },
		{ TYPE("FIELD_SET"), "," STEP "," FIELD,
		    "value" NEEDS("FIELD_SET") },
		{ TYPE("FIELD_SET"), "," STEP ",\"field_type\":\"t\","
		    "\"codec_version\":1,\"value\":{\"kind\":\"int\","
		    "\"value\":1}", "field_name" NEEDS("FIELD_SET") },
		{ TYPE("FIELD_SET"), "," STEP ",\"field_name\":\"f\","
		    "\"field_type\":\"\",\"codec_version\":1,\"value\":"
		    "{\"kind\":\"int\",\"value\":1}",
		    "field_type" NEEDS("FIELD_SET") },
		{ TYPE("FIELD_APPEND"), "," STEP ",\"field_name\":\"f\","
		    "\"field_type\":\"t\",\"value\":{\"kind\":\"int\","
		    "\"value\":1}", "codec_version" NEEDS("FIELD_APPEND") },
		{ TYPE("FIELD_APPEND"), "," FIELD ",\"value\":{\"kind\":\"int\","
		    "\"value\":1}", "step_name" NEEDS("FIELD_APPEND") },
		{ TYPE("FIELD_APPEND"), "," STEP "," FIELD
		    ",\"value\":{\"kind\":\"int\",\"value\":1}", NULL },
		{ TYPE("FAILED"), "," STEP, "error_type" NEEDS("FAILED") },
		{ TYPE("FAILED"), "," STEP ",\"error_type\":\"\"",
		    "error_type" NEEDS("FAILED") },
		{ TYPE("FAILED"), ",\"error_type\":\"E\"",
		    "step_name" NEEDS("FAILED") },
		{ TYPE("FAILED"), "," STEP ",\"error_type\":\"E\"", NULL },
		{ TYPE("TERMINAL"), "", "status: must be completed or filtered "
		    "in an event of type TERMINAL" },
		{ TYPE("TERMINAL"), ",\"status\":\"running\"", "status: must "
		    "be completed or filtered in an event of type TERMINAL" },
		{ TYPE("TERMINAL"), ",\"status\":\"failed\"", "status: must be "
		    "completed or filtered in an event of type TERMINAL" },
		{ TYPE("TERMINAL"), ",\"status\":\"completed\"", NULL },
		{ TYPE("TERMINAL"), ",\"status\":\"filtered\"", NULL },
	};
	char members[1024], want[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		snprintf(members, sizeof(members), BASE ",%s%s", cases[i][0],
		    cases[i][1]);
		snprintf(want, sizeof(want), "events[0].%s",
		    cases[i][2] == NULL ? "" : cases[i][2]);
		if (cases[i][2] == NULL)
			comes_back(members, "\"event_type\":");
		else
			is_refused(members, want);
	}
}

/* ---- a request */

static void
body_add(struct buf *b, const char *id, const char *more)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s{\"event_id\":\"%s\","
	    "\"root_item_id\":\"5\",\"event_ts\":\"2026-11-01T08:00:00Z\","
	    "\"schema_version\":2,%s}", b->len > 0 ? "," : "", id, more);

	assert_true(n > 0 && (size_t)n < sizeof(text));
	assert_true(buf_append(b, text, (size_t)n));
}

/* What the rules across rows say to them, behind a row of somebody else. */
static void
checked(struct buf *list, bool checkpoint, const char *want)
{
	struct buf body;
	struct rows r;
	struct batch b;
	struct err e;

	rows_init(&r);
	assert_false(err_is(rows_read(&r, SLICE("{\"events\":[{" BASE ","
	    TYPE("ITEM_CREATED") "}]}"), SIZE_MAX, 0)));
	buf_init(&body, ROOM);
	assert_true(buf_append_slice(&body, SLICE("{\"events\":[")));
	assert_true(buf_append_slice(&body, buf_slice(list)));
	assert_true(buf_append_slice(&body, SLICE("]}")));
	if (err_is(rows_read(&r, buf_slice(&body), SIZE_MAX, 0)))
		fail_msg("%s", r.err.what);
	b = builder_batch(&r.builder);
	e = row_event_check(&r.arena, &b, (struct span){ r.result.first_row,
	    r.result.count }, checkpoint);
	if (want == NULL) {
		if (err_is(e))
			fail_msg("%s", e.what);
	} else {
		assert_int_equal(e.kind, ERR_BAD_INPUT);
		assert_string_equal(e.what, want);
	}
	buf_free(&body);
	buf_free(list);
	rows_free(&r);
	buf_init(list, ROOM);
}

#define ITEM(item, seq) \
	"\"item_id\":\"" item "\",\"item_seq\":" seq ",\"checkpoint_id\":\"c\"," \
	"\"run_id\":\"r\",\"writer_epoch\":\"w\""
#define CREATED(item, seq)	ITEM(item, seq) "," TYPE("ITEM_CREATED")
#define COMPLETED(item, seq)	ITEM(item, seq) "," TYPE("STEP_COMPLETED") "," STEP
#define FIELDS(item, seq)	ITEM(item, seq) "," TYPE("FIELD_SET") "," STEP "," \
	FIELD ",\"value\":{\"kind\":\"int\",\"value\":1}"

static void
events_of_one_request(void **state)
{
	struct buf list;

	(void)state;
	buf_init(&list, ROOM);
	body_add(&list, "a", CREATED("5", "0"));
	body_add(&list, "b", CREATED("6", "0"));
	body_add(&list, "c", CREATED("5", "1"));
	body_add(&list, "a", CREATED("5", "0"));
	checked(&list, false, NULL);

	body_add(&list, "a", CREATED("5", "0"));
	body_add(&list, "b", CREATED("6", "0"));
	body_add(&list, "a", CREATED("5", "0") ",\"query_tags\":{}");
	checked(&list, false, "events[2].event_id: that of events[0], which "
	    "has other content");

	body_add(&list, "a", CREATED("5", "7"));
	body_add(&list, "z", CREATED("5", "8"));
	body_add(&list, "b", CREATED("5", "7"));
	checked(&list, false, "events[2].item_seq: taken by another event of "
	    "this item, events[0]");
	buf_free(&list);
}

static void
checkpoints(void **state)
{
	struct buf list;

	(void)state;
	buf_init(&list, ROOM);
	body_add(&list, "a", FIELDS("5", "1"));
	body_add(&list, "b", COMPLETED("5", "2"));
	checked(&list, true, NULL);
	body_add(&list, "b", COMPLETED("5", "2"));
	checked(&list, true, NULL);

	body_add(&list, "a", FIELDS("5", "1"));
	checked(&list, true, "events: a checkpoint has one STEP_COMPLETED, "
	    "this has none");
	body_add(&list, "a", COMPLETED("5", "1"));
	body_add(&list, "b", COMPLETED("5", "2"));
	checked(&list, true, "events[1].event_type: a checkpoint has one "
	    "STEP_COMPLETED");
	body_add(&list, "a", COMPLETED("5", "1"));
	body_add(&list, "b", CREATED("5", "2"));
	checked(&list, true, "events[1].event_type: not in a checkpoint");
	body_add(&list, "a", ITEM("5", "1") "," TYPE("STEP_STARTED") "," STEP);
	body_add(&list, "b", COMPLETED("5", "2"));
	checked(&list, true, "events[0].event_type: not in a checkpoint");
	/* Without checkpoint=true all of these are fine. */
	body_add(&list, "a", COMPLETED("5", "1"));
	body_add(&list, "b", COMPLETED("5", "2"));
	body_add(&list, "c", CREATED("5", "3"));
	checked(&list, false, NULL);
	buf_free(&list);
}

/* Each of the ten members that a checkpoint shares, changed in one event. */
static void
checkpoints_share(void **state)
{
	static const struct {
		const char *name, *one, *other, *why;
	} all[] = {
		{ "item_id", "\"5\"", "\"6\"", NULL },
		{ "checkpoint_id", "\"c\"", "\"d\"", NULL },
		{ "run_id", "\"r\"", "\"s\"", NULL },
		{ "writer_epoch", "\"w\"", "\"x\"", NULL },
		{ "attempt", "0", "1", NULL },
#define OF_STEP	"not that of the STEP_COMPLETED"
		{ "step_name", "\"s\"", "\"t\"", OF_STEP },
		{ "step_index", "0", "1", OF_STEP },
		{ "step_kind", "\"leaf\"", "\"loop\"", OF_STEP },
		{ "enclosing_step", "null", "\"n\"", OF_STEP },
		{ "selector_step", "\"n\"", "null", OF_STEP },
	};
	char more[512], want[128];
	struct buf list;
	size_t i, k, e, at;

	(void)state;
	buf_init(&list, ROOM);
	for (i = 0; i < ARRAY_LEN(all); i++) {
		for (e = 0; e < 2; e++) {
			at = 0;
			for (k = 0; k < ARRAY_LEN(all); k++)
				at += (size_t)snprintf(more + at,
				    sizeof(more) - at, "\"%s\":%s,",
				    all[k].name, k == i && e == 1 ?
				    all[k].other : all[k].one);
			snprintf(more + at, sizeof(more) - at,
			    "\"item_seq\":%zu,%s", e, e == 0 ?
			    TYPE("STEP_COMPLETED") : TYPE("FIELD_APPEND") ","
			    FIELD ",\"value\":{\"kind\":\"bool\","
			    "\"value\":true}");
			body_add(&list, e == 0 ? "a" : "b", more);
		}
		snprintf(want, sizeof(want), "events[1].%s: %s", all[i].name,
		    all[i].why == NULL ? "all events of a checkpoint share it" :
		    all[i].why);
		checked(&list, true, want);
	}
	buf_free(&list);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_member),
		cmocka_unit_test(defaults),
		cmocka_unit_test(values_of_every_kind),
		cmocka_unit_test(bad_values),
		cmocka_unit_test(values_side_by_side),
		cmocka_unit_test(required_members),
		cmocka_unit_test(bad_members),
		cmocka_unit_test(numbers_in_range),
		cmocka_unit_test(what_a_type_needs),
		cmocka_unit_test(events_of_one_request),
		cmocka_unit_test(checkpoints),
		cmocka_unit_test(checkpoints_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
