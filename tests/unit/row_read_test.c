#include "common/base.h"

#include "tests/unit/row_helper.h"

#include <cjson/cJSON.h>

#include "common/base64.h"
#include "common/rfc3339.h"

/* One of everything: all columns, all escapes, names that nobody knows. */
static const char rich[] =
    " {\"extra\" : [1, {\"records\": []}], \"records\":\t[\n"
    "{\"id\":\"a\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\","
    "\"rollout_id\":\"r\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\","
    "\"problem_id\":\"p\",\"dataset\":\"d\",\"sequence_order\":-7,"
    "\"role\":\"tool\",\"created_at\":\"2026-11-01T10:00:01.237999+02:00\","
    "\"content\":\"nul \\u0000 kept\",\"content_type\":\"x\","
    "\"model_input_string\":\"in\",\"model_output_string\":\"\","
    "\"rationale\":\"why\",\"problem_text\":\"t\",\"user_metadata\":\"u\","
    "\"input_tokens\":[1,22, 333 ,-4444,2147483647,-2147483648,0,-0,5,6,7,8,9,"
    "10,11,12,13,14,15,16,17,18,19,20],"
    "\"output_tokens\":[],\"num_input_tokens\":0,\"num_output_tokens\":null,"
    "\"output_logprobs\":[-3.014424,null,0,-0.0,1e-3,-1.6086380481719971,"
    "0.1,0.25,-12.5,1.17549435e-38, 2.5 ,3E+2],"
    "\"input_logprobs\":[-0.5],\"ref_logprobs\":[null,null],"
    "\"loss_mask\":[1,0,-128,127,1,1,1,1,1,1,1,1,1,1,1,1,0],"
    "\"advantage\":-0.57735,\"reward\":1,\"raw_reward\":1e2,"
    "\"grader_id\":\"g\",\"score\":0.5,\"include_in_training\":true,"
    "\"exclude_reason\":\"e\",\"policy_version\":\"ckpt-0001\","
    "\"relationships\":[{\"target_id\":\"x\",\"relation\":\"y\"}, "
    "{\"weight\":0.25,\"why\":[{}],\"relation\":\"\",\"target_id\":\"z\"},"
    "{\"target_id\":\"\",\"relation\":\"n\",\"weight\":null}],"
    "\"binary_payload\":\"Zm9\\/YmE\\u003d\",\"payload_size\":1491926160718000000,"
    "\"payload_checksum\":\"c\",\"artifact_type\":\"s\","
    "\"colour\":{\"deep\":[[[\"\\u0000\\ud83d\\ude00\"]]]},\"_seq\":9,"
    "\"metadata\": {\"a\" : [ 9007199254740993, 1.0, 1e3, -0.000 ],\n"
    "\"b\\u0000\":\"\\ud83d\\ude00 x\", \"a\":[ ] , \"t\":[true,false,null]} } ,\n"
    "{\"rollout_id\":\"r2\",\"id\":\"b\",\"metadata\":12 ,\"colour\":1}\r\n"
    "]} \n";

static const char rich_rows[] =
    "{\"id\":\"a\xc3\xa9\xf0\x9f\x98\x80/\\b\\f\\n\\r\\t\\\"\\\\\","
    "\"rollout_id\":\"r\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\","
    "\"problem_id\":\"p\",\"dataset\":\"d\",\"sequence_order\":-7,"
    "\"role\":\"tool\",\"created_at\":\"2026-11-01T08:00:01.237999Z\","
    "\"content\":\"nul \\u0000 kept\",\"content_type\":\"x\","
    "\"model_input_string\":\"in\",\"model_output_string\":\"\","
    "\"rationale\":\"why\",\"problem_text\":\"t\",\"user_metadata\":\"u\","
    "\"input_tokens\":[1,22,333,-4444,2147483647,-2147483648,0,0,5,6,7,8,9,"
    "10,11,12,13,14,15,16,17,18,19,20],"
    "\"output_tokens\":[],\"num_input_tokens\":0,"
    "\"output_logprobs\":[-3.014424,null,0,-0,0.001,-1.608638,"
    "0.1,0.25,-12.5,1.1754944e-38,2.5,300],"
    "\"input_logprobs\":[-0.5],\"ref_logprobs\":[null,null],"
    "\"loss_mask\":[1,0,-128,127,1,1,1,1,1,1,1,1,1,1,1,1,0],"
    "\"advantage\":-0.57735,\"reward\":1,\"raw_reward\":100,"
    "\"grader_id\":\"g\",\"score\":0.5,\"include_in_training\":true,"
    "\"exclude_reason\":\"e\",\"policy_version\":\"ckpt-0001\","
    "\"relationships\":[{\"target_id\":\"x\",\"relation\":\"y\"},"
    "{\"target_id\":\"z\",\"relation\":\"\",\"weight\":0.25},"
    "{\"target_id\":\"\",\"relation\":\"n\"}],"
    "\"payload_size\":1491926160718000000,"
    "\"payload_checksum\":\"c\",\"artifact_type\":\"s\","
    "\"metadata\":{\"a\":[9007199254740993,1.0,1e3,-0.000],"
    "\"b\\u0000\":\"\\ud83d\\ude00 x\",\"a\":[],\"t\":[true,false,null]}}\n"
    "{\"id\":\"b\",\"rollout_id\":\"r2\",\"problem_id\":\"r2\","
    "\"sequence_order\":0,\"role\":\"assistant\","
    "\"created_at\":\"2026-11-01T08:00:01.237Z\","
    "\"content_type\":\"text/plain\",\"metadata\":12}\n";

static void
one_of_everything(void **state)
{
	char *rows = rows_of(SLICE(rich), SIZE_MAX, 0);

	(void)state;
	assert_string_equal(rows, rich_rows);
	free(rows);
}

/* Where a window ends must make no difference. */
static void
cut_at_every_byte(void **state)
{
	size_t cut, step;
	char *rows;

	(void)state;
	for (cut = 0; cut <= sizeof(rich); cut++) {
		rows = rows_of(SLICE(rich), cut, SIZE_MAX);
		assert_string_equal(rows, rich_rows);
		free(rows);
	}
	for (step = 1; step <= 40; step++) {
		rows = rows_of(SLICE(rich), step, step);
		assert_string_equal(rows, rich_rows);
		free(rows);
	}
}

static void
result_and_hidden_columns(void **state)
{
	struct rows r;
	struct batch b;

	(void)state;
	rows_init(&r);
	/* Rows of somebody else before ours. */
	assert_int_equal(rows_read(&r, SLICE("{\"records\":[{\"id\":\"z\","
	    "\"rollout_id\":\"\"}]}"), SIZE_MAX, 0).kind, ERR_OK);
	assert_int_equal(r.result.ignored_count, 0);
	assert_int_equal(rows_read(&r, SLICE(rich), SIZE_MAX, 0).kind, ERR_OK);
	assert_int_equal(r.result.first_row, 1);
	assert_int_equal(r.result.count, 2);
	assert_int_equal(r.result.ignored_count, 4);
	assert_true(slice_eq(r.result.ignored[0], SLICE("extra")));
	assert_true(slice_eq(r.result.ignored[1], SLICE("relationships.why")));
	assert_true(slice_eq(r.result.ignored[2], SLICE("colour")));
	assert_true(slice_eq(r.result.ignored[3], SLICE("_seq")));
	assert_true(slice_eq(row_read_key(&r.builder, shape(), 2), SLICE("b")));

	b = builder_batch(&r.builder);
	assert_true(slice_eq(array_slice(&b.columns[ROLLOUT_binary_payload], 1),
	    SLICE("fo\x7f" "ba")));
	assert_true(array_is_null(&b.columns[ROLLOUT_binary_payload], 2));
	assert_int_equal(array_int(&b.columns[ROLLOUT__seq], 1), 0);
	assert_false(array_is_null(&b.columns[ROLLOUT__seq], 1));
	/* Not null: one reader takes all-null lists for empty ones. */
	assert_false(array_is_null(&b.columns[ROLLOUT_relationships], 2));
	rows_free(&r);
}

/* Also where the order of names leads to them. */
static void
internal_names_are_unknown(void **state)
{
	struct rows r;
	struct batch b;

	(void)state;
	rows_init(&r);
	assert_int_equal(rows_read(&r, SLICE("{\"records\":[{\"id\":\"z\","
	    "\"rollout_id\":\"\",\"metadata\":1,\"_seq\":5}]}"), SIZE_MAX,
	    0).kind, ERR_OK);
	assert_int_equal(r.result.ignored_count, 1);
	b = builder_batch(&r.builder);
	assert_int_equal(array_int(&b.columns[ROLLOUT__seq], 0), 0);
	assert_int_equal(array_slice(&b.columns[ROLLOUT_problem_id], 0).len, 0);
	rows_free(&r);
}

/* A bad request leaves the rows before it as they were. */
static void
bad_rows_are_cut_back(void **state)
{
	static const char bad[] = "{\"records\":[{\"id\":\"q\",\"rollout_id\":\"q\"},"
	    "{\"id\":\"x\",\"content\":\"half\",\"input_tokens\":[1,2,3,4,5,6,7,8,9],"
	    "\"ref_logprobs\":[null],\"relationships\":[{\"target_id\":\"t\"";
	struct rows r;
	struct buf out;

	(void)state;
	rows_init(&r);
	buf_init(&out, ROOM);
	assert_int_equal(rows_read(&r, SLICE(rich), SIZE_MAX, 0).kind, ERR_OK);
	assert_int_equal(rows_read(&r, SLICE(bad), SIZE_MAX, 0).kind,
	    ERR_BAD_INPUT);
	builder_cut(&r.builder, 2);
	assert_int_equal(rows_read(&r, SLICE(rich), SIZE_MAX, 0).kind, ERR_OK);
	rows_write(&r, &out);
	assert_int_equal(out.len, 2 * (sizeof(rich_rows) - 1));
	assert_memory_equal(out.ptr, rich_rows, sizeof(rich_rows) - 1);
	assert_memory_equal(out.ptr + sizeof(rich_rows) - 1, rich_rows,
	    sizeof(rich_rows) - 1);
	buf_free(&out);
	rows_free(&r);
}

#define ROW(fields) "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"},{" fields "}]}"
#define KEYS	"\"id\":\"b\",\"rollout_id\":\"r\""
#define FIELD(text) ROW(KEYS "," text)

static const struct {
	const char *body, *error;
} bad_bodies[] = {
	/* The body. */
	{ "", "body: ends early" },
	{ " ", "body: ends early" },
	{ "[1,2]", "body: not a JSON object" },
	{ "null", "body: not a JSON object" },
	{ "\"x\"", "body: not a JSON object" },
	{ "\xef\xbb\xbf{}", "body: not a JSON object" },
	{ "{}", "body: no \"records\"" },
	{ "{\"records\":null}", "records: must be an array of rows" },
	{ "{\"records\":{}}", "records: must be an array of rows" },
	{ "{\"records\":[]}", "body: \"records\" is empty" },
	{ "{\"records\":[], \"records\":[]}", "records: given twice" },
	{ "{\"records\":[3]}", "records[0]: a row is an object" },
	{ ROW(KEYS) " x", "body: bytes after its end" },
	{ ROW(KEYS) "{}", "body: bytes after its end" },
	{ "{\"records\":[{" KEYS "}", "records[0]: ends early" },
	{ "{\"records\":[{" KEYS "},]}", "records[1]: a row is an object" },
	{ "{\"records\":[{" KEYS "} {" KEYS "}]}",
	    "records[0]: no \",\" or \"]\" after a value" },
	{ "{\"records\":[{" KEYS "}]", "body: ends early" },
	{ "{\"x\":1,}", "body: no name where one is due" },
	{ "{\"x\" 1}", "x: no \":\" after a name" },
	/* Fields. */
	{ ROW("\"rollout_id\":\"r\""), "records[1].id: required, but missing or null" },
	{ ROW("\"id\":\"b\""),
	    "records[1].rollout_id: required, but missing or null" },
	{ ROW("\"id\":null"), "records[1].id: must not be null" },
	{ ROW("\"id\":5"), "records[1].id: expected a string, found a number" },
	{ ROW("\"id\":\"\""), "records[1].id: must not be empty" },
	{ ROW("\"id\":\"a\\u0000b\""), "records[1].id: a key with U+0000" },
	{ ROW("\"id\\u0000x\":\"a\""), "records[1]: a name with U+0000" },
	{ ROW("\"id\":\"a\",\"i\\u0064\":\"a\""), "records[1].id: given twice" },
	{ FIELD("\"role\":null"), "records[1].role: must not be null" },
	{ FIELD("\"content_type\":null"),
	    "records[1].content_type: must not be null" },
	{ FIELD("\"sequence_order\":null"),
	    "records[1].sequence_order: must not be null" },
	{ FIELD("\"relationships\":null"),
	    "records[1].relationships: must not be null" },
	{ FIELD("\"relationships\":[null]"),
	    "records[1].relationships[0]: must not be null" },
	{ FIELD("\"relationships\":[{\"relation\":\"x\"}]"),
	    "records[1].relationships[0].target_id: required, but missing or null" },
	{ FIELD("\"relationships\":[{\"target_id\":\"\",\"relation\":\"x\","
	    "\"weight\":1e39}]"), "records[1].relationships[0].weight: "
	    "1e39 does not fit float32" },
	{ FIELD("\"relationships\":[{\"weight\":1,\"weight\":1}]"),
	    "records[1].relationships[0].weight: given twice" },
	{ FIELD("\"relationships\":[\"x\"]"),
	    "records[1].relationships[0]: expected an object, found a string" },
	{ FIELD("\"content\":[\"x\"]"),
	    "records[1].content: expected a string, found an array" },
	{ FIELD("\"content\":\"\\ud83d\""), "records[1].content: lone surrogate" },
	{ FIELD("\"content\":\"\\ud83dx\""), "records[1].content: lone surrogate" },
	{ FIELD("\"content\":\"\\ud83d\\n\""),
	    "records[1].content: lone surrogate" },
	{ FIELD("\"content\":\"\\ud83d\\ud83d\""),
	    "records[1].content: lone surrogate" },
	{ FIELD("\"content\":\"\\ude00\""), "records[1].content: lone surrogate" },
	{ FIELD("\"content\":\"\\u12g4\""), "records[1].content: bad \\u escape" },
	{ FIELD("\"content\":\"\\x\""),
	    "records[1].content: unknown escape in a string" },
	{ FIELD("\"content\":\"\n\""),
	    "records[1].content: control character in a string" },
	{ FIELD("\"content\":\"ab\xff\""), "records[1].content: not UTF-8" },
	{ FIELD("\"content\":\"\xc0\xaf\""), "records[1].content: not UTF-8" },
	{ FIELD("\"content\":\"\xed\xa0\x80\""), "records[1].content: not UTF-8" },
	{ FIELD("\"content\":\"\xf4\x90\x80\x80\""),
	    "records[1].content: not UTF-8" },
	{ FIELD("\"content\":\"\xe2\x82\""), "records[1].content: not UTF-8" },
	{ FIELD("\"x\":\"\\ud83d\""), "records[1].x: lone surrogate" },
	{ FIELD("\"x\":[\"\\ud83d\\u0041\"]"), "records[1].x: lone surrogate" },
	{ FIELD("\"include_in_training\":1"),
	    "records[1].include_in_training: expected true or false, "
	    "found a number" },
	{ FIELD("\"include_in_training\":tru }"),
	    "records[1].include_in_training: not a JSON value" },
	{ FIELD("\"created_at\":\"yesterday\""),
	    "records[1].created_at: not a time of RFC 3339" },
	{ FIELD("\"created_at\":17"),
	    "records[1].created_at: expected a time as RFC 3339 text, "
	    "found a number" },
	{ FIELD("\"created_at\":\"2026-11-01T08:00:01.000000000000000000000000"
	    "00000000000000000000000000000000000000000000Z\""),
	    "records[1].created_at: not a time of RFC 3339" },
	/* Numbers (H.1, H.3). */
	{ FIELD("\"sequence_order\":1.0"),
	    "records[1].sequence_order: 1.0 is not an integer" },
	{ FIELD("\"sequence_order\":1e3"),
	    "records[1].sequence_order: 1e3 is not an integer" },
	{ FIELD("\"sequence_order\":2147483648"),
	    "records[1].sequence_order: 2147483648 does not fit 32 bits" },
	{ FIELD("\"payload_size\":9223372036854775808"),
	    "records[1].payload_size: 9223372036854775808 does not fit 64 bits" },
	{ FIELD("\"payload_size\":1.0"),
	    "records[1].payload_size: 1.0 is not an integer" },
	{ FIELD("\"sequence_order\":01"),
	    "records[1].sequence_order: number begins with 0" },
	{ FIELD("\"sequence_order\":+1"),
	    "records[1].sequence_order: not a JSON value" },
	{ FIELD("\"sequence_order\":- 1"),
	    "records[1].sequence_order: not a JSON value" },
	{ FIELD("\"reward\":1."),
	    "records[1].reward: no digit after the point of a number" },
	{ FIELD("\"reward\":1e"),
	    "records[1].reward: no digit in the exponent of a number" },
	{ FIELD("\"reward\":1e39"), "records[1].reward: 1e39 does not fit float32" },
	{ FIELD("\"reward\":-1e400"),
	    "records[1].reward: -1e400 does not fit float32" },
	{ FIELD("\"reward\":NaN"), "records[1].reward: NaN is no JSON number" },
	{ FIELD("\"reward\":Infinity"),
	    "records[1].reward: Infinity is no JSON number" },
	{ FIELD("\"reward\":-Infinity"),
	    "records[1].reward: Infinity is no JSON number" },
	{ FIELD("\"reward\":\"1\""),
	    "records[1].reward: expected a number, found a string" },
	{ FIELD("\"output_tokens\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"
	    "1.5,2,3,4,5,6,7,8,9,10]"),
	    "records[1].output_tokens[17]: 1.5 is not an integer" },
	{ FIELD("\"output_tokens\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"
	    "null]"), "records[1].output_tokens[17]: must not be null" },
	{ FIELD("\"output_tokens\":[11111111111,2,3,4,5,6,7,8,9,10]"),
	    "records[1].output_tokens[0]: 11111111111 does not fit 32 bits" },
	{ FIELD("\"output_tokens\":[2147483648,2,3,4,5,6,7,8,9,10]"),
	    "records[1].output_tokens[0]: 2147483648 does not fit 32 bits" },
	{ FIELD("\"output_tokens\":[00,2,3,4,5,6,7,8,9,10]"),
	    "records[1].output_tokens[0]: number begins with 0" },
	{ FIELD("\"output_tokens\":[1 2,3,4,5,6,7,8,9,10]"),
	    "records[1].output_tokens[0]: no \",\" or \"]\" after a value" },
	{ FIELD("\"output_tokens\":[1,]"),
	    "records[1].output_tokens[1]: not a JSON value" },
	{ FIELD("\"output_tokens\":[,1]"),
	    "records[1].output_tokens[0]: not a JSON value" },
	{ FIELD("\"output_tokens\":\"1\""),
	    "records[1].output_tokens: expected an array, found a string" },
	{ FIELD("\"loss_mask\":[1,1,1,128,1,1,1,1,1,1,1,1,1,1]"),
	    "records[1].loss_mask[3]: 128 does not fit 8 bits" },
	{ FIELD("\"output_logprobs\":[-1.5,-1.5,NaN,-1.5,-1.5,-1.5,-1.5]"),
	    "records[1].output_logprobs[2]: NaN is no JSON number" },
	{ FIELD("\"output_logprobs\":[-1.5,-1.5,-1e39,-1.5,-1.5,-1.5,-1.5]"),
	    "records[1].output_logprobs[2]: -1e39 does not fit float32" },
	/* base64. */
	{ FIELD("\"binary_payload\":\"Zm9vYg\""),
	    "records[1].binary_payload: not base64: it ends early" },
	{ FIELD("\"binary_payload\":\"Zm9vY===\""),
	    "records[1].binary_payload: not base64" },
	{ FIELD("\"binary_payload\":\"Zm9vYh==\""),
	    "records[1].binary_payload: not base64" },
	{ FIELD("\"binary_payload\":\"Zm 9v\""),
	    "records[1].binary_payload: not base64" },
	{ FIELD("\"binary_payload\":\"Zm9v\\n\""),
	    "records[1].binary_payload: not base64" },
	{ FIELD("\"binary_payload\":\"Zm9v\\u0141\""),
	    "records[1].binary_payload: not base64" },
	{ FIELD("\"binary_payload\":7"),
	    "records[1].binary_payload: expected base64 text, found a number" },
	/* Free values. */
	{ FIELD("\"metadata\":{\"a\":NaN}"),
	    "records[1].metadata: NaN is no JSON number" },
	{ FIELD("\"metadata\":{\"a\":[1,}"),
	    "records[1].metadata: not a JSON value" },
	{ FIELD("\"metadata\":{\"a\" 1}"),
	    "records[1].metadata: no \":\" after a name" },
	{ FIELD("\"metadata\":{\"a\":1]"),
	    "records[1].metadata: no \",\" or \"}\" after a value" },
	{ FIELD("\"metadata\":[1}"),
	    "records[1].metadata: no \",\" or \"]\" after a value" },
	{ FIELD("\"metadata\":{1:2}"),
	    "records[1].metadata: no name where one is due" },
	{ FIELD("\"metadata\":\"\\udc00\""), "records[1].metadata: lone surrogate" },
	{ FIELD("\"metadata\":nul}"), "records[1].metadata: not a JSON value" },
	{ FIELD("\"y\":[1,2"), "records[1].y: no \",\" or \"]\" after a value" },
};

static void
bad_bodies_name_row_and_field(void **state)
{
	size_t i, step;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad_bodies); i++) {
		struct slice body = slice_of(bad_bodies[i].body);

		for (step = 1; step <= body.len + 1; step = step * 2 + 1) {
			char *text = rows_of(body, step, step);

			if (strcmp(text, bad_bodies[i].error) != 0)
				fail_msg("%s\nin pieces of %zu: %s\n", body.ptr,
				    step, text);
			free(text);
		}
	}
}

/* Every way to end early is an error, and none reads past the end. */
static void
cut_bodies_are_refused(void **state)
{
	size_t n;

	(void)state;
	for (n = 0; n < sizeof(rich) - 3; n++) {	/* "} \n" is its end */
		char *text = rows_of(slice_make(rich, n), SIZE_MAX, 0);

		if (strstr(text, "ends early") == NULL)
			fail_msg("cut at %zu: %s", n, text);
		free(text);
	}
}

static char *
repeat(const char *head, const char *part, size_t times, const char *tail)
{
	size_t n = strlen(part), i;
	char *text = malloc(strlen(head) + n * times + strlen(tail) + 1), *p;

	assert_non_null(text);
	p = stpcpy(text, head);
	for (i = 0; i < times; i++, p += n)
		memcpy(p, part, n);
	strcpy(p, tail);
	return text;
}

static void
check_repeat(const char *head, const char *part, size_t times, const char *tail,
    const char *error)
{
	char *body = repeat(head, part, times, tail);
	char *text = rows_of(slice_of(body), 1000, 1000);

	if (error == NULL)
		assert_memory_equal(text, "{\"id\":", 6);
	else
		assert_string_equal(text, error);
	free(text);
	free(body);
}

#define HEAD	"{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\","

/* H.2, and everything else that has a bound. */
static void
bounds(void **state)
{
	(void)state;
	check_repeat("", "[", 100000, "", "body: not a JSON object");
	check_repeat("", "{\"a\":", 100000, "", "a: nested too deeply");
	check_repeat(HEAD "\"metadata\":", "[", 100000, "",
	    "records[0].metadata: nested too deeply");
	check_repeat(HEAD "\"x\":", "{\"a\":", 100000, "",
	    "records[0].x: nested too deeply");
	check_repeat(HEAD "\"metadata\":[", "[],", 20000, "0]}]}", NULL);
	check_repeat(HEAD "\"reward\":0.", "0", 2000, "}]}",
	    "records[0].reward: number too long");
	check_repeat(HEAD "\"reward\":0.", "0", 1000, "}]}", NULL);
	check_repeat(HEAD "\"metadata\":", "7", 2000, "}]}",
	    "records[0].metadata: number too long");
	check_repeat(HEAD "\"", "n", 1024, "\":1}]}", NULL);
	check_repeat(HEAD "\"", "n", 1025, "\":1}]}",
	    "records[0]: a name is too long");
	check_repeat("{\"records\":[{\"rollout_id\":\"r\",\"id\":\"", "k", 4096,
	    "\"}]}", NULL);
	check_repeat("{\"records\":[{\"rollout_id\":\"r\",\"id\":\"", "k", 300000,
	    "\"}]}", "records[0].id: too long for a key");
	check_repeat(HEAD "\"content\":\"", "\xe2\x82\xac\\n", 50000, "\"}]}", NULL);
}

/* The columns' cap is an answer, wherever it is met. */
static void
full_columns(void **state)
{
	static const char *const parts[][2] = {
		{ HEAD "\"content\":\"", "0123456789" },
		{ HEAD "\"content\":\"", "\\n" },
		{ HEAD "\"content\":\"", "\xc3\xa9" },
		{ HEAD "\"binary_payload\":\"", "Zm9v" },
		{ HEAD "\"input_tokens\":[", "1000000," },
		{ HEAD "\"loss_mask\":[", "1," },
		{ HEAD "\"output_logprobs\":[", "-1.25," },
		{ HEAD "\"output_logprobs\":[", "null," },
		{ HEAD "\"metadata\":[", "\"0123456789\"," },
		{ HEAD "\"relationships\":[",
		    "{\"target_id\":\"t\",\"relation\":\"r\"}," },
		{ "{\"records\":[", "{\"id\":\"a\",\"rollout_id\":\"r\"}," },
	};
	struct row_read *read;
	struct arena a;
	struct builder b;
	struct err e;
	size_t i, n;

	(void)state;
	arena_init(&a, ROOM);
	for (i = 0; i < ARRAY_LEN(parts); i++) {
		assert_false(err_is(builder_init(&b, &shape()->schema, 4000)));
		e = row_read_open(&a, shape(), "records", NOW_US, &b, &read);
		assert_false(err_is(e));
		e = row_read_feed(read, slice_of(parts[i][0]));
		for (n = 0; n < 100000 && !err_is(e); n++)
			e = row_read_feed(read, slice_of(parts[i][1]));
		assert_int_equal(e.kind, ERR_TOO_LARGE);
		builder_cut(&b, 0);
		builder_free(&b);
	}
	arena_free(&a);
}

/* Names that nobody knows cost a bounded part of the arena. */
static void
ignored_names_are_bounded(void **state)
{
	struct rows r;
	struct buf body;
	int i;

	(void)state;
	rows_init(&r);
	buf_init(&body, ROOM);
	assert_true(buf_printf(&body, HEAD "\"relationships\":["));
	for (i = 0; i < 5000; i++)
		assert_true(buf_printf(&body, "%s{\"target_id\":\"\",\"u%d\":1,"
		    "\"relation\":\"\",\"same\":2}", i == 0 ? "" : ",", i));
	assert_true(buf_printf(&body, "]}]}"));
	assert_int_equal(rows_read(&r, buf_slice(&body), SIZE_MAX, 0).kind, ERR_OK);
	assert_int_equal(r.result.ignored_count, ROW_IGNORED_MAX);
	assert_true(slice_eq(r.result.ignored[1], SLICE("relationships.same")));
	assert_true(r.arena.total_bytes < 64 * 1024);
	buf_free(&body);
	rows_free(&r);
}

/* ---- the given rows, with cJSON as the oracle */

static bool
same_value(const cJSON *sent, const cJSON *got, bool is_float)
{
	const cJSON *a, *b;

	if (cJSON_IsNumber(sent) && is_float)
		return cJSON_IsNumber(got) &&
		    (float)sent->valuedouble == (float)got->valuedouble;
	if (!cJSON_IsArray(sent))
		return cJSON_Compare(sent, got, true);
	if (!cJSON_IsArray(got) || cJSON_GetArraySize(sent) != cJSON_GetArraySize(got))
		return false;
	for (a = sent->child, b = got->child; a != NULL; a = a->next, b = b->next) {
		if (!same_value(a, b, is_float))
			return false;
	}
	return true;
}

static bool
same_time(const cJSON *sent, const cJSON *got)
{
	int64_t a, b;

	return rfc3339_parse(slice_of(sent->valuestring), &a) &&
	    rfc3339_parse(slice_of(got->valuestring), &b) && a == b;
}

static bool
same_payload(const cJSON *sent, const struct batch *b)
{
	struct slice bytes = array_slice(&b->columns[ROLLOUT_binary_payload], 0);
	char *text = malloc(BASE64_LENGTH(bytes.len) + 1);
	bool same;

	assert_non_null(text);
	base64_encode(bytes, text);
	same = slice_eq(slice_make(text, BASE64_LENGTH(bytes.len)),
	    slice_of(sent->valuestring));
	free(text);
	return same;
}

static void
check_row(const char *line, const char *row, const struct batch *b)
{
	cJSON *sent = cJSON_Parse(line), *got = cJSON_Parse(row), *s, *g;

	assert_non_null(sent);
	assert_non_null(got);
	cJSON_ArrayForEach(s, sent) {
		int i = arrow_schema_find(&shape()->schema, slice_of(s->string));
		const struct arrow_field *f = &shape()->schema.fields[i];
		bool same;

		assert_true(i >= 0);
		g = cJSON_GetObjectItemCaseSensitive(got, s->string);
		if (i == ROLLOUT_binary_payload) {
			assert_null(g);
			same = same_payload(s, b);
		} else if (i == ROLLOUT_created_at) {
			same = same_time(s, g);
		} else {
			same = same_value(s, g, f->type == ARROW_FLOAT32 ||
			    (f->child_count > 0 &&
			    f->children[0].type == ARROW_FLOAT32));
		}
		if (!same)
			fail_msg("%s of %s came back as %s", s->string, line, row);
	}
	cJSON_Delete(sent);
	cJSON_Delete(got);
}

static void
given_rows_there_and_back(void **state)
{
	FILE *file = fopen("tests/data/rollouts-arith.jsonl", "r");
	char *line = NULL;
	size_t room = 0, count = 0;
	struct rows r;
	struct buf body, row;

	(void)state;
	assert_non_null(file);
	rows_init(&r);
	buf_init(&body, ROOM);
	buf_init(&row, ROOM);
	while (getline(&line, &room, file) > 0) {
		struct batch b;

		body.len = row.len = 0;
		assert_true(buf_printf(&body, "{\"records\":[%s]}", line));
		assert_int_equal(rows_read(&r, buf_slice(&body), 1 + count % 700,
		    1 + count % 900).kind, ERR_OK);
		assert_int_equal(r.result.ignored_count, 0);
		b = builder_batch(&r.builder);
		assert_true(row_write(&row, shape(), &b, 0, NULL));
		assert_true(buf_append_zero(&row, 1));
		check_row(line, row.ptr, &b);
		builder_cut(&r.builder, 0);
		arena_reset(&r.arena);
		count++;
	}
	assert_int_equal(count, 832);
	free(line);
	fclose(file);
	buf_free(&body);
	buf_free(&row);
	rows_free(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_everything),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(result_and_hidden_columns),
		cmocka_unit_test(internal_names_are_unknown),
		cmocka_unit_test(bad_rows_are_cut_back),
		cmocka_unit_test(bad_bodies_name_row_and_field),
		cmocka_unit_test(cut_bodies_are_refused),
		cmocka_unit_test(bounds),
		cmocka_unit_test(full_columns),
		cmocka_unit_test(ignored_names_are_bounded),
		cmocka_unit_test(given_rows_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
