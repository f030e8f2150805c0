#include "common/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/json.h"
#include "common/json_scan.h"

#define ROOM (16u << 20)

static struct arena arena;

static int
set_up(void **state)
{
	(void)state;
	arena_init(&arena, ROOM);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

static const struct json *
parse(const char *text)
{
	const struct json *j = NULL;
	struct err e = json_parse(&arena, slice_of(text), "body", &j);

	if (err_is(e))
		fail_msg("%s: %s", text, e.what);
	return j;
}

static void
error_is(struct err e, enum err_kind kind, const char *text)
{
	assert_int_equal(e.kind, kind);
	assert_string_equal(e.what, text);
}

static void
getters(void **state)
{
	const struct json *j = parse(" {\"t\":\"\\u00e9\\\"\", \"b\":true,"
	    "\"i\":-9223372036854775808,\"u\":18446744073709551615,"
	    "\"s\":[\"-1\\\\\\\"2\", 1.0,1e3,9007199254740993,{\"x\":[[]]}],"
	    "\"o\":{\"k\":\"v\"},\"n\":null,\"d\":1,\"d\":2} ");
	const struct json *v = NULL;
	struct slice t = SLICE("as before");
	bool b = false;
	int64_t i = 5;
	uint64_t u = 5;

	(void)state;
	assert_int_equal(j->type, JSON_OBJECT);
	assert_int_equal(j->count, 9);
	assert_false(err_is(json_get_text(&arena, j, "none", JSON_OPTIONAL, &t)));
	assert_false(err_is(json_get_text(&arena, j, "n", JSON_OPTIONAL, &t)));
	assert_false(err_is(json_get_text(&arena, j, "none", JSON_DEFAULT, &t)));
	assert_true(slice_eq(t, SLICE("as before")));
	error_is(json_get_text(&arena, j, "n", JSON_DEFAULT, &t), ERR_SHAPE,
	    "n: must not be null");
	assert_false(err_is(json_get_text(&arena, j, "t", JSON_REQUIRED, &t)));
	assert_true(slice_eq(t, SLICE("\xc3\xa9\"")));
	assert_false(err_is(json_get_bool(&arena, j, "b", JSON_REQUIRED, &b)));
	assert_true(b);
	assert_false(err_is(json_get_int64(&arena, j, "i", JSON_REQUIRED, &i)));
	assert_true(i == INT64_MIN);
	assert_false(err_is(json_get_uint64(&arena, j, "u", JSON_REQUIRED, &u)));
	assert_true(u == UINT64_MAX);
	assert_false(err_is(json_get_object(&arena, j, "o", JSON_REQUIRED, &v)));
	assert_true(slice_eq(v->first->name, SLICE("k")));
	assert_true(slice_eq(v->first->text, SLICE("v")));

	/* Numbers keep their digits, whatever stands between them (H.1). */
	assert_false(err_is(json_get_array(&arena, j, "s", JSON_REQUIRED, &v)));
	assert_int_equal(v->count, 5);
	assert_true(slice_eq(v->first->text, SLICE("-1\\\"2")));
	assert_true(slice_eq(v->first->next->text, SLICE("1.0")));
	assert_true(slice_eq(v->first->next->next->text, SLICE("1e3")));
	assert_true(slice_eq(v->first->next->next->next->text,
	    SLICE("9007199254740993")));

	error_is(json_get(&arena, j, "n", JSON_REQUIRED, &v), ERR_SHAPE,
	    "n: required, but missing or null");
	error_is(json_get(&arena, j, "d", JSON_OPTIONAL, &v), ERR_SHAPE,
	    "d: given twice");
	error_is(json_get_text(&arena, j, "b", JSON_OPTIONAL, &t), ERR_SHAPE,
	    "b: expected a string");
	error_is(json_get_bool(&arena, j, "t", JSON_OPTIONAL, &b), ERR_SHAPE,
	    "t: expected true or false");
	error_is(json_get_array(&arena, j, "o", JSON_OPTIONAL, &v), ERR_SHAPE,
	    "o: expected an array");
	error_is(json_get_object(&arena, j, "s", JSON_OPTIONAL, &v), ERR_SHAPE,
	    "s: expected an object");
	error_is(json_get_uint64(&arena, j, "i", JSON_OPTIONAL, &u), ERR_SHAPE,
	    "i: expected an integer of 0 to 2^64 - 1");
	error_is(json_get_int64(&arena, j, "u", JSON_OPTIONAL, &i), ERR_SHAPE,
	    "u: expected an integer of 64 bits");
	error_is(json_get(&arena, parse("[1,2]"), "u", JSON_OPTIONAL, &v),
	    ERR_SHAPE, "expected a JSON object");
	error_is(json_get_uint64(&arena, parse("{\"v\":1.0}"), "v", JSON_OPTIONAL,
	    &u), ERR_SHAPE, "v: expected an integer of 0 to 2^64 - 1");
}

static void
values_at_the_top(void **state)
{
	(void)state;
	assert_int_equal(parse("null")->type, JSON_NULL);
	assert_int_equal(parse(" \"x\" ")->type, JSON_TEXT);
	assert_int_equal(parse("false")->type, JSON_BOOL);
	assert_int_equal(parse("[]")->count, 0);
	assert_true(slice_eq(parse("-12")->text, SLICE("-12")));
	assert_true(slice_eq(parse("12 ")->text, SLICE("12")));
}

static const char *const bad_texts[] = {
	"", " ", "{", "[", "[1", "[1,", "[1,]", "[,1]", "{\"a\"", "{\"a\":",
	"{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{1:1}",
	"{\"a\":1 \"b\":2}", "[1 2]", "[1}", "{\"a\":1]", "]", "}", "{} x",
	"{}{}", "1 2", "nul", "nulll", "True", "NaN", "[NaN]", "Infinity",
	"[-Infinity]", "+1", "01", "-01", "-", "1.", ".5", "1e", "1e+", "1.e5",
	"0x10", "\"", "\"\\\"", "\"\\", "\"\\u12", "\"\\u12g4\"", "\"\\x\"",
	"\"\\ud83d\"", "\"\\ud83d\\u0041\"", "\"\\udc00\"", "\"\t\"", "\"\n\"",
	"'a'", "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"",
	"\"\xf4\x90\x80\x80\"", "\xef\xbb\xbf{}", "// x\n1", "[1,//\n2]",
};

static void
bad_texts_are_refused(void **state)
{
	const struct json *j;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad_texts); i++) {
		/* From memory that ends with it. */
		size_t n = strlen(bad_texts[i]);
		char *copy = malloc(MAX(n, (size_t)1));
		struct err e;

		assert_non_null(copy);
		memcpy(copy, bad_texts[i], n);
		e = json_parse(&arena, slice_make(copy, n), "body", &j);
		if (e.kind != ERR_BAD_INPUT || strncmp(e.what, "body: ", 6) != 0)
			fail_msg("%s: %s", bad_texts[i], e.what);
		assert_false(json_is_valid(slice_make(copy, n)));
		free(copy);
	}
}

static void
bounds(void **state)
{
	const struct json *j;
	char *text = malloc(2 * 100000 + 1);
	size_t i;

	(void)state;
	assert_non_null(text);
	memset(text, '[', 100000);
	error_is(json_parse(&arena, slice_make(text, 100000), "body", &j),
	    ERR_BAD_INPUT, "body: nested too deeply");
	for (i = 0; i < JSON_DEPTH_MAX; i++)
		text[JSON_DEPTH_MAX + i] = ']';
	assert_false(err_is(json_parse(&arena,
	    slice_make(text, 2 * JSON_DEPTH_MAX), "body", &j)));
	memset(text, '1', 100000);
	assert_true(json_is_valid(slice_make(text, JSON_PIECE_MAX)));
	assert_false(json_is_valid(slice_make(text, JSON_PIECE_MAX + 1)));
	free(text);
	/* H.4: a name or a text that a C string would cut. */
	error_is(json_parse(&arena, SLICE("{\"a\\u0000b\":1}"), "body", &j),
	    ERR_BAD_INPUT, "body: U+0000 is not accepted");
	error_is(json_parse(&arena, SLICE("[\"\\u0000\"]"), "body", &j),
	    ERR_BAD_INPUT, "body: U+0000 is not accepted");
	error_is(json_parse(&arena, SLICE("[\"\0\"]"), "body", &j),
	    ERR_BAD_INPUT, "body: control character in a string");
}

static void
full_arena(void **state)
{
	struct arena small;
	const struct json *j;
	size_t cap;
	struct err e = OK;

	(void)state;
	for (cap = 16; cap < 2000; cap += 16) {
		arena_init(&small, cap);
		e = json_parse(&small, SLICE("{\"a\":[1,\"x\",{\"b\":null}]}"),
		    "body", &j);
		if (err_is(e))
			assert_int_equal(e.kind, ERR_NO_MEMORY);
		arena_free(&small);
	}
	assert_false(err_is(e));
}

/* Pieces of any size say the same, and keep the same bytes. */
static void
scan_in_pieces(void **state)
{
	static const char text[] = " { \"a\\u00e9\" : [ 1 , -2.5e+3,true , false,"
	    "null, \"\\ud83d\\ude00 \xe2\x82\xac\" ] , \"\" : { } } ";
	static const char kept[] = "{\"a\\u00e9\":[1,-2.5e+3,true,false,"
	    "null,\"\\ud83d\\ude00 \xe2\x82\xac\"],\"\":{}}";
	size_t step, from, to;

	(void)state;
	for (step = 1; step < sizeof(text); step++) {
		struct json_scan s = { 0 };
		enum json_scan_outcome o = JSON_SCAN_MORE;
		struct buf keep;
		const char *p, *why = "";

		buf_init(&keep, 1000);
		/* What is cut is brought again, with more behind it. */
		for (from = 0, to = 0; o == JSON_SCAN_MORE; from = (size_t)(p - text)) {
			assert_true(to < sizeof(text) - 1);
			to = MIN(to + step, sizeof(text) - 1);
			p = text + from;
			o = json_scan(&s, &p, text + to, &keep, &why);
		}
		assert_int_equal(o, JSON_SCAN_DONE);
		assert_int_equal(from, sizeof(text) - 2);
		assert_true(slice_eq(buf_slice(&keep), SLICE(kept)));
		buf_free(&keep);
	}
}

static void
write_all(struct json_writer *w)
{
	json_write_open(w, NULL, '{');
	json_write_text(w, "t", SLICE("a\0\x1f\"\\\n\xff\xc3\xa9"));
	json_write_uint64(w, "u", UINT64_MAX);
	json_write_open(w, "list", '[');
	json_write_int64(w, NULL, INT64_MIN);
	json_write_double(w, NULL, 0.1);
	json_write_double(w, NULL, NAN);
	json_write_open(w, NULL, '{');
	json_write_close(w, '}');
	json_write_open(w, NULL, '[');
	json_write_close(w, ']');
	json_write_close(w, ']');
	json_write_bool(w, "b", false);
	json_write_null(w, "n");
	json_write_raw(w, "r", SLICE("[1]"));
	json_write_close(w, '}');
}

static void
writer(void **state)
{
	static const char want[] = "{\"t\":\"a\\u0000\\u001f\\\"\\\\\\n\xef\xbf\xbd"
	    "\xc3\xa9\",\"u\":18446744073709551615,\"list\":"
	    "[-9223372036854775808,0.1,null,{},[]],"
	    "\"b\":false,\"n\":null,\"r\":[1]}";
	struct json_writer w;
	struct buf b;
	size_t cap;

	(void)state;
	buf_init(&b, 1000);
	json_write_init(&w, &b);
	write_all(&w);
	assert_true(json_write_done(&w));
	assert_true(slice_eq(buf_slice(&b), SLICE(want)));
	buf_free(&b);
	for (cap = 0; cap < sizeof(want) - 1; cap++) {
		buf_init(&b, cap);
		json_write_init(&w, &b);
		write_all(&w);
		assert_false(json_write_done(&w));
		buf_free(&b);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(getters, set_up, tear_down),
		cmocka_unit_test_setup_teardown(values_at_the_top, set_up,
		    tear_down),
		cmocka_unit_test_setup_teardown(bad_texts_are_refused, set_up,
		    tear_down),
		cmocka_unit_test_setup_teardown(bounds, set_up, tear_down),
		cmocka_unit_test(full_arena),
		cmocka_unit_test(scan_in_pieces),
		cmocka_unit_test(writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
