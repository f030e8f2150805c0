#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/multipart_naive.h"

#define TYPE	SLICE("multipart/form-data; boundary=Q")
#define HEAD(name) \
	"Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FORM(text)	"--Q\r\n" text "\r\n--Q--\r\n"

/* The body is taken, in every cut, and is told as that text. */
static void
takes_as(struct slice type, struct slice body, struct slice want)
{
	struct told t;

	for (size_t step = 1; step <= 65; step++) {
		struct err e = told_read(&t, type, body,
		    step == 65 ? SIZE_MAX : step);

		if (err_is(e))
			fail_msg("step %zu: %s: %.*s", step, e.what,
			    (int)body.len, body.ptr);
		assert_int_equal(t.text.len, want.len);
		assert_memory_equal(t.text.ptr, want.ptr, want.len);
		buf_free(&t.text);
	}
}

static void
takes(const char *body, const char *want)
{
	takes_as(TYPE, slice_of(body), slice_of(want));
}

static void
refuses_as(struct slice type, const char *body, const char *why)
{
	struct told t;

	for (size_t step = 1; step <= 65; step++) {
		struct err e = told_read(&t, type, slice_of(body),
		    step == 65 ? SIZE_MAX : step);

		assert_int_equal(e.kind, ERR_BAD_INPUT);
		if (strstr(e.what, why) == NULL)
			fail_msg("step %zu: \"%s\" is not \"%s\": %s", step,
			    e.what, why, body);
		buf_free(&t.text);
	}
}

static void
refuses(const char *body, const char *why)
{
	refuses_as(TYPE, body, why);
}

static void
test_forms(void **state)
{
	(void)state;
	takes(FORM(HEAD("metadata") "{}"), "<metadata>{};");
	takes("--Q\r\n" HEAD("a") "1\r\n--Q\r\n" HEAD("0") "\r\n--Q--",
	    "<a>1;<0>;");
	/* Preamble and epilogue say nothing; no part is none. */
	takes("read me\r\n" FORM(HEAD("a") "x") "more\r\n--Q\r\n", "<a>x;");
	takes("\r\n" FORM(HEAD("a") "x"), "<a>x;");
	takes("--\r\n--Q--", "");
	takes("x--Q\r\n--Q--", "");
	takes("--Q--", "");
	/* Blanks may pad a boundary line. */
	takes("--Q \t\r\n" HEAD("a") "x\r\n--Q  \r\n" HEAD("b") "y\r\n--Q-- ",
	    "<a>x;<b>y;");
	takes(FORM("content-DISPOSITION:FORM-DATA ;NAME=a;filename=\"x;y=\\\"\";"
	    " \r\nContent-Type: image/png\r\nX-Y: \t z\t\r\n"
	    "Content-Transfer-Encoding: BINARY\r\n\r\nx"), "<a>x;");
	takes(FORM("Content-Disposition: form-data; filename*=UTF-8''a; "
	    "filename=\"\xc3\xa9\"; name=\"q\\\"\\\\r\"\r\n\r\nx"), "<q\"\\r>x;");
}

/* Field fault G.9, and every other way to look like a delimiter. */
static void
test_bytes(void **state)
{
	static const char *const blobs[] = {
		"", "\r", "\r\n", "\r\r", "\r\n--", "\r\n--\r\n", "\n--Q",
		"a--Q", "a\r\r\n", "\r\n-", "\r\n--q", "\r--Q\r\n", "--",
		"-", "--P", "\r\n\r\n", "\r\n\r\n--", "x\r\n--\r\n--\r\n-",
		"\n\n--Q--", "a --Q--\r\n", "\r\n --Q", "\r\n--\r--Q\r\n",
	};
	char body[512], want[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(blobs); i++) {
		snprintf(body, sizeof(body), "--Q\r\n" HEAD("0")
		    "%s\r\n--Q\r\n" HEAD("1") "end\r\n--Q--\r\n", blobs[i]);
		snprintf(want, sizeof(want), "<0>%s;<1>end;", blobs[i]);
		takes(body, want);
	}
	takes_as(TYPE, SLICE("--Q\r\n" HEAD("0") "a\0\r\n\0--Q\r\n--Q--"),
	    SLICE("<0>a\0\r\n\0--Q;"));
}

static void
test_boundaries(void **state)
{
	char type[200], body[400];
	char longest[71] = "0123456789'()+_,-./:=? abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTU";
	static const char *const bad[] = {
		"multipart/form-data", "multipart/form-data;",
		"multipart/form-data; boundary",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"\"",
		"multipart/form-data; boundary=\"Q",
		"multipart/form-data; boundary=\"Q \"",
		"multipart/form-data; boundary=\"Q\\\"\"",
		"multipart/form-data; boundary=Q; boundary=Q",
		"multipart/form-data; boundary=Q R",
		"multipart/form-data; charset=utf-8",
		"multipart/form-data; boundary=\"\xc3\xa9\"",
	};

	(void)state;
	takes_as(SLICE("Multipart/Form-Data;charset=utf-8; BOUNDARY=\"Q\";"),
	    slice_of(FORM(HEAD("a") "x")), SLICE("<a>x;"));
	snprintf(type, sizeof(type), "multipart/form-data; boundary=\"%s\"",
	    longest);
	snprintf(body, sizeof(body), "--%s\r\n" HEAD("a") "x\r\n--%.69s\r\n"
	    "--%s--", longest, longest, longest);
	{
		char want[200];

		snprintf(want, sizeof(want), "<a>x\r\n--%.69s;", longest);
		takes_as(slice_of(type), slice_of(body), slice_of(want));
	}
	snprintf(type, sizeof(type), "multipart/form-data; boundary=\"%s0\"",
	    longest);
	refuses_as(slice_of(type), body, "boundary");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refuses_as(slice_of(bad[i]), FORM(HEAD("a") "x"),
		    "Content-Type");
}

static void
test_refused(void **state)
{
	char body[MULTIPART_HEADERS_MAX + 4096], filler[1000];

	(void)state;
	refuses("", "without the last boundary");
	refuses("--Q", "without the last boundary");
	refuses("--Q-", "without the last boundary");
	refuses("no form at all", "without the last boundary");
	refuses("--Q\r\n" HEAD("a") "x", "without the last boundary");
	refuses("--Q\r\n" HEAD("a") "x\r\n--Q\r\n", "without the last boundary");
	refuses("--Q\r\n" HEAD("a") "x\r\n--Q", "without the last boundary");
	refuses("--Q\r\n" HEAD("a") "x\n--Q--", "without the last boundary");
	refuses("--Q\r\nContent-Disposition: form-data; na",
	    "without the last boundary");
	refuses("--Qx\r\n", "goes on otherwise");
	refuses("--Q\n", "goes on otherwise");
	refuses("--Q \rx\n", "goes on otherwise");
	refuses("--Q -", "goes on otherwise");
	refuses("--Q-x", "goes on otherwise");
	refuses("--Q\r\n" HEAD("a") "x\r\n--Q2\r\n--Q--", "goes on otherwise");
	refuses(FORM(HEAD("a") "--Q\r\n"), "right behind the headers");
	refuses("--Q\r\n" HEAD("a") "--Q--\r\n", "right behind the headers");
	refuses(FORM("--Q: y\r\n" HEAD("a") "x"), "within the headers");
	refuses(FORM("--Q"), "within the headers");
	refuses(FORM("\r\nx"), "without Content-Disposition");
	refuses(FORM("Content-Type: a/b\r\n\r\nx"),
	    "without Content-Disposition");
	refuses(FORM("Content-Disposition: form-data\r\n\r\nx"), "without a name");
	refuses(FORM("Content-Disposition: form-data; name*=a\r\n\r\nx"),
	    "without a name");
	refuses(FORM("Content-Disposition: attachment; name=a\r\n\r\nx"),
	    "not form-data");
	refuses(FORM("Content-Disposition: form-data; name=a; name=b\r\n\r\nx"),
	    "malformed Content-Disposition");
	refuses(FORM("Content-Disposition: form-data; name=\"a\r\n\r\nx"),
	    "malformed Content-Disposition");
	refuses(FORM("Content-Disposition: form-data; name=a b\r\n\r\nx"),
	    "malformed Content-Disposition");
	refuses(FORM("Content-Disposition: form-data name=a\r\n\r\nx"),
	    "malformed Content-Disposition");
	refuses(FORM("Content-Disposition: form-data; name=a\r\n" HEAD("b") "x"),
	    "two Content-Disposition");
	refuses(FORM("Content-Disposition: form-data;\r\n name=a\r\n\r\nx"),
	    "without a name");
	refuses(FORM("Content-Type: a\r\n b\r\n" HEAD("a") "x"),
	    "malformed header");
	refuses(FORM("Content-Type : a\r\n" HEAD("a") "x"), "malformed header");
	refuses(FORM("no colon\r\n" HEAD("a") "x"), "malformed header");
	refuses(FORM("X: a\001\r\n" HEAD("a") "x"), "control character");
	refuses(FORM("X: a\rb\r\n" HEAD("a") "x"), "control character");
	refuses(FORM("X: a\n" HEAD("a") "x"), "bare LF");
	refuses(FORM("\n" HEAD("a") "x"), "bare LF");
	refuses(FORM("Content-Transfer-Encoding: base64\r\n" HEAD("0") "eA=="),
	    "Content-Transfer-Encoding");

	memset(filler, 'x', sizeof(filler));
	snprintf(body, sizeof(body), "--Q\r\nX: %.1000s%.1000s%.1000s\r\n"
	    HEAD("a") "x\r\n--Q--", filler, filler, filler);
	refuses(body, "too long");
	snprintf(body, sizeof(body), "--Q\r\n");
	for (int i = 0; i < 10; i++)
		snprintf(body + strlen(body), sizeof(body) - strlen(body),
		    "X: %.990s\r\n", filler);
	refuses(body, "too long");
}

/* After an error nothing else is told, and what a call answers goes up. */
static struct err
refuse_data(void *arg, struct slice bytes)
{
	(void)bytes;
	++*(int *)arg;
	return FAIL(TOO_LARGE, "no more");
}

static struct err
take_begin(void *arg, struct slice name)
{
	(void)arg;
	(void)name;
	return OK;
}

static void
test_errors_stay(void **state)
{
	static const struct multipart_calls calls = { .begin = take_begin,
	    .data = refuse_data };
	static struct multipart m;
	int calls_made = 0;
	struct err e = multipart_init(&m, TYPE, &calls, &calls_made);

	(void)state;
	assert_false(err_is(e));
	e = multipart_feed(&m, slice_of("--Q\r\n" HEAD("a") "x"));
	assert_int_equal(e.kind, ERR_TOO_LARGE);
	e = multipart_feed(&m, SLICE("more\r\n--Q--"));
	assert_int_equal(e.kind, ERR_TOO_LARGE);
	assert_int_equal(multipart_finish(&m).kind, ERR_TOO_LARGE);
	assert_int_equal(calls_made, 1);
}

/* Bodies put together at random from what is dangerous: as the naive way. */
static void
test_as_the_naive_way(void **state)
{
	static const char *const bits[] = { "\r", "\n", "\r\n", "-", "--", "Q",
	    "\r\n--", "x", "\r\n--R", "--Q", "abc" };
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct buf body, naive, told_text;
		struct told whole, cut;
		uint32_t parts;
		struct err e;
		int count = 1 + rand_r(&seed) % 4;

		buf_init(&body, 1 << 20);
		buf_init(&naive, 1 << 20);
		buf_init(&told_text, 1 << 20);
		for (int p = 0; p < count; p++) {
			MUST(buf_printf(&body, "--Q\r\n" HEAD("n")));
			for (int n = rand_r(&seed) % 9; n > 0; n--)
				MUST(buf_printf(&body, "%s",
				    bits[rand_r(&seed) % ARRAY_LEN(bits)]));
			MUST(buf_printf(&body, "\r\n"));
		}
		MUST(buf_printf(&body, "--Q--"));
		e = told_read(&whole, TYPE, buf_slice(&body), SIZE_MAX);
		assert_int_equal(told_read(&cut, TYPE, buf_slice(&body),
		    1 + (size_t)round % 64).kind, e.kind);
		assert_true(slice_eq(buf_slice(&whole.text),
		    buf_slice(&cut.text)));
		if (!err_is(e)) {
			naive_parts(buf_slice(&body), "Q", &naive, &parts);
			assert_int_equal(parts, whole.parts);
			/* The same without the names. */
			for (size_t i = 0; i < whole.text.len; i++) {
				if (i + 3 <= whole.text.len && memcmp(
				    whole.text.ptr + i, "<n>", 3) == 0)
					i += 2;
				else
					MUST(buf_append(&told_text,
					    whole.text.ptr + i, 1));
			}
			assert_true(slice_eq(buf_slice(&told_text),
			    buf_slice(&naive)));
		}
		buf_free(&body);
		buf_free(&naive);
		buf_free(&told_text);
		buf_free(&whole.text);
		buf_free(&cut.text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_boundaries),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_errors_stay),
		cmocka_unit_test(test_as_the_naive_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
