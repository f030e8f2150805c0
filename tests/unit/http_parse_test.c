#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/http/chunk.h"
#include "worker/http/parse.h"

#define HEAD_MAX 4096

/* A heap copy of exact size, so that the sanitizer sees each byte too far. */
struct copy {
	char *bytes;
	size_t len;
};

static struct copy
copy_of(const char *bytes, size_t len)
{
	struct copy c = { malloc(len > 0 ? len : 1), len };

	assert_non_null(c.bytes);
	memcpy(c.bytes, bytes, len);
	return c;
}

static struct err
parse(struct copy c, struct http_head *h, size_t *head_len)
{
	size_t scanned = 0;

	return parse_head(c.bytes, c.len, HEAD_MAX, &scanned, h, head_len);
}

#define HOST "Host: x\r\n"

/* --- heads that are refused: field faults G.1, G.2, G.5 --- */

static const struct {
	const char *why;
	struct slice head;
	enum err_kind kind;
} refused[] = {
#define BAD(why, text) { why, SLICE(text), ERR_BAD_INPUT }
	BAD("length and coding", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("coding and length", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"),
	BAD("two lengths", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
	BAD("the same length twice", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
	BAD("list of lengths", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: 1, 1\r\n\r\n"),
	BAD("signed length", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: +1\r\n\r\n"),
	BAD("negative length", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: -1\r\n\r\n"),
	BAD("hexadecimal length", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: 0x10\r\n\r\n"),
	BAD("empty length", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length:\r\n\r\n"),
	BAD("length that overflows", "POST / HTTP/1.1\r\n" HOST
	    "Content-Length: 18446744073709551617\r\n\r\n"),
	BAD("identity", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: identity\r\n\r\n"),
	BAD("gzip, chunked", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	BAD("chunked, chunked", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: chunked, chunked\r\n\r\n"),
	BAD("xchunked", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: xchunked\r\n\r\n"),
	BAD("quoted chunked", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: \"chunked\"\r\n\r\n"),
	BAD("vertical tab before chunked", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: \vchunked\r\n\r\n"),
	BAD("two codings", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("two codings, one identity", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"
	    "\r\n"),
	BAD("chunked on 1.0", "POST / HTTP/1.0\r\n" HOST
	    "Transfer-Encoding: chunked\r\n\r\n"),
	BAD("blank before the colon", "POST / HTTP/1.1\r\n" HOST
	    "Transfer-Encoding : chunked\r\n\r\n"),
	BAD("folded with a blank", "GET / HTTP/1.1\r\n" HOST
	    "A: b\r\n c\r\n\r\n"),
	BAD("folded with a tab", "GET / HTTP/1.1\r\n" HOST
	    "A: b\r\n\tc\r\n\r\n"),
	BAD("folded request line", "GET / HTTP/1.1\r\n " HOST "\r\n"),
	BAD("line of blanks", "GET / HTTP/1.1\r\n" HOST "   \r\n\r\n"),
	BAD("LF alone", "GET / HTTP/1.1\n" HOST "\r\n"),
	BAD("LF alone after a field", "GET / HTTP/1.1\r\nHost: x\n\r\n"),
	BAD("LF LF at the end", "GET / HTTP/1.1\r\n" HOST "\n"),
	BAD("CR in a value", "GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n"),
	BAD("CR CR LF", "GET / HTTP/1.1\r\n" HOST "A: b\r\r\n\r\n"),
	BAD("NUL in a value", "GET / HTTP/1.1\r\n" HOST "A: b\0c\r\n\r\n"),
	BAD("DEL in a value", "GET / HTTP/1.1\r\n" HOST "A: \x7f\r\n\r\n"),
	BAD("NUL in a name", "GET / HTTP/1.1\r\n" HOST "A\0: b\r\n\r\n"),
	BAD("no name", "GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n"),
	BAD("no colon", "GET / HTTP/1.1\r\n" HOST "ab\r\n\r\n"),
	BAD("name not ASCII", "GET / HTTP/1.1\r\n" HOST "\xc3\xa9: b\r\n\r\n"),
	BAD("no Host", "GET / HTTP/1.1\r\n\r\n"),
	BAD("two Hosts", "GET / HTTP/1.1\r\n" HOST "Host: y\r\n\r\n"),
	BAD("two blanks", "GET  / HTTP/1.1\r\n" HOST "\r\n"),
	BAD("blank at the end", "GET / HTTP/1.1 \r\n" HOST "\r\n"),
	BAD("tab for a blank", "GET\t/ HTTP/1.1\r\n" HOST "\r\n"),
	BAD("HTTP/0.9", "GET /\r\n\r\n"),
	BAD("no target", "GET HTTP/1.1\r\n" HOST "\r\n"),
	BAD("lower-case version", "GET / http/1.1\r\n" HOST "\r\n"),
	BAD("version 1.10", "GET / HTTP/1.10\r\n" HOST "\r\n"),
	BAD("fragment", "GET /a#b HTTP/1.1\r\n" HOST "\r\n"),
	BAD("relative target", "GET a HTTP/1.1\r\n" HOST "\r\n"),
	BAD("authority", "CONNECT x:1 HTTP/1.1\r\n" HOST "\r\n"),
	BAD("star without OPTIONS", "GET * HTTP/1.1\r\n" HOST "\r\n"),
	BAD("two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"),
	BAD("percent alone", "GET /% HTTP/1.1\r\n" HOST "\r\n"),
	BAD("half an escape", "GET /%2 HTTP/1.1\r\n" HOST "\r\n"),
	BAD("escape across segments", "GET /%2/a HTTP/1.1\r\n" HOST "\r\n"),
	BAD("no hexadecimal", "GET /%zz HTTP/1.1\r\n" HOST "\r\n"),
	BAD("escaped NUL", "GET /a%00b HTTP/1.1\r\n" HOST "\r\n"),
	BAD("not UTF-8", "GET /%ff HTTP/1.1\r\n" HOST "\r\n"),
	BAD("overlong slash", "GET /%c0%af HTTP/1.1\r\n" HOST "\r\n"),
	BAD("surrogate", "GET /%ed%a0%80 HTTP/1.1\r\n" HOST "\r\n"),
	BAD("cut UTF-8", "GET /%e2%82 HTTP/1.1\r\n" HOST "\r\n"),
#undef BAD
	{ "unknown expectation", SLICE("GET / HTTP/1.1\r\n" HOST
	    "Expect: 200-ok\r\n\r\n"), ERR_EXPECTATION },
	{ "HTTP/2", SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	    ERR_HTTP_VERSION },
	{ "HTTP/3.0", SLICE("GET / HTTP/3.0\r\n" HOST "\r\n"),
	    ERR_HTTP_VERSION },
};

static void
test_refused(void **state)
{
	struct http_head h = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct copy c = copy_of(refused[i].head.ptr,
		    refused[i].head.len);
		size_t n = 99;
		struct err e = parse(c, &h, &n);

		if (e.kind != refused[i].kind)
			print_error("%s: %s\n", refused[i].why, err_name(e));
		assert_int_equal(e.kind, refused[i].kind);
		assert_int_equal(n, 0);
		free(c.bytes);
	}
}

/* Without waiting for the rest, which may never come. */
static void
test_some_is_refused_at_once(void **state)
{
	static const char *const parts[] = {
		"GET / HTTP/1.1\n", "GET / HTTP/1.1\r\n\t",
		"GET / HTTP/1.1\r\nA: b\r\n ", "\n", "GET / HTTP/1.1\r\nA\n",
	};
	struct http_head h;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		struct copy c = copy_of(parts[i], strlen(parts[i]));

		assert_int_equal(parse(c, &h, &n).kind, ERR_BAD_INPUT);
		free(c.bytes);
	}
}

/* --- heads that are taken --- */

static void
assert_slice(struct slice s, const char *want)
{
	if (!slice_eq(s, slice_of(want)))
		print_error("\"%.*s\", not \"%s\"\n", (int)s.len, s.ptr, want);
	assert_true(slice_eq(s, slice_of(want)));
}

static const char full[] =
    "\r\nPOST /api/v1/a%2Fb/100%25/%C3%A9/a%252Fb/../?x=%31&y HTTP/1.1\r\n"
    "hOST: example\r\n"
    "X-Empty:\r\n"
    "Content-TYPE: \t application/json; charset=utf-8 \t\r\n"
    "Expect: 100-Continue\r\n"
    "Connection: keep-alive\r\n"
    "X-Request-ID: abc def\r\n"
    "Content-Length: 0012\r\n"
    "X-High: caf\xc3\xa9\r\n"
    "\r\n";

static void
check_full(const struct http_head *h)
{
	assert_int_equal(h->method, HTTP_POST);
	assert_int_equal(h->minor, 1);
	assert_true(h->keep_alive && h->expect_continue && h->has_length);
	assert_false(h->chunked);
	assert_int_equal(h->content_length, 12);
	assert_int_equal(h->segment_count, 8);
	/* Those with an escape, and no other. */
	assert_int_equal(h->escaped, 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5);
	assert_slice(h->segments[0], "api");
	assert_slice(h->segments[1], "v1");
	assert_slice(h->segments[2], "a/b");
	assert_slice(h->segments[3], "100%");
	assert_slice(h->segments[4], "\xc3\xa9");
	assert_slice(h->segments[5], "a%2Fb");
	assert_slice(h->segments[6], "..");
	assert_slice(h->segments[7], "");
	assert_slice(h->query, "x=%31&y");
	assert_slice(h->content_type, "application/json; charset=utf-8");
	assert_slice(h->request_id, "abc def");
	assert_int_equal(h->header_count, 8);
	assert_slice(*http_head_header(h, "x-high"), "caf\xc3\xa9");
	assert_slice(*http_head_header(h, "x-empty"), "");
	assert_null(http_head_header(h, "x-none"));
}

static void
test_full_head_cut_at_every_byte(void **state)
{
	size_t len = sizeof(full) - 1;
	struct http_head h;

	(void)state;
	for (size_t cut = 0; cut <= len; cut++) {
		struct copy c = copy_of(full, len);
		size_t scanned = 0, n = 0, body_after = len;
		char *moved;

		c.len = cut;
		assert_false(err_is(parse_head(c.bytes, cut, HEAD_MAX,
		    &scanned, &h, &n)));
		assert_int_equal(n, cut == len ? len : 0);
		if (cut < len) {
			assert_false(err_is(parse_head(c.bytes, len, HEAD_MAX,
			    &scanned, &h, &n)));
			assert_int_equal(n, body_after);
		}
		check_full(&h);
		moved = malloc(len);
		memcpy(moved, c.bytes, len);
		parse_rebase(&h, c.bytes, moved);
		memset(c.bytes, 'x', len);
		check_full(&h);
		free(moved);
		free(c.bytes);
	}
}

static void
test_byte_by_byte(void **state)
{
	size_t len = sizeof(full) - 1, scanned = 0, n = 0;
	struct copy c = copy_of(full, len);
	struct http_head h;

	(void)state;
	for (size_t at = 1; at <= len; at++) {
		assert_false(err_is(parse_head(c.bytes, at, HEAD_MAX,
		    &scanned, &h, &n)));
		assert_int_equal(n, at == len ? len : 0);
	}
	check_full(&h);
	free(c.bytes);
}

static void
take(struct http_head *h, const char *text)
{
	static struct copy c;
	size_t n;

	free(c.bytes);
	c = copy_of(text, strlen(text));
	assert_false(err_is(parse(c, h, &n)));
	assert_int_equal(n, c.len);
}

static void
test_small_variants(void **state)
{
	struct http_head h;

	(void)state;
	take(&h, "GET / HTTP/1.0\r\n\r\n");
	assert_false(h.keep_alive);
	assert_int_equal(h.segment_count, 1);
	take(&h, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n"
	    "Expect: 100-continue\r\n\r\n");
	assert_false(h.keep_alive || h.expect_continue);
	take(&h, "GET / HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n");
	assert_false(h.keep_alive);
	take(&h, "GET / HTTP/1.1\r\n" HOST "Connection: closed\r\n\r\n");
	assert_true(h.keep_alive);
	take(&h, "GET http://a.b:1/x?y HTTP/1.1\r\n" HOST "\r\n");
	assert_slice(h.segments[0], "x");
	assert_slice(h.query, "y");
	take(&h, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(h.segment_count, 0);
	take(&h, "get /?a?b HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(h.method, HTTP_OTHER);
	assert_slice(h.query, "a?b");
	take(&h, "POST /x HTTP/1.1\r\n" HOST
	    "Transfer-Encoding:Chunked\r\n\r\n");
	assert_true(h.chunked);
	take(&h, "GET /x HTTP/1.1\r\n" HOST "X-Request-Id: \xc3\xa9\r\n\r\n");
	assert_int_equal(h.request_id.len, 0);
}

static void
test_limits(void **state)
{
	static char big[2 * HEAD_MAX];
	struct http_head h;
	size_t scanned = 0, n, at;

	(void)state;
	memset(big, 'a', sizeof(big));
	memcpy(big, "GET /", 5);
	assert_false(err_is(parse_head(big, HEAD_MAX - 1, HEAD_MAX, &scanned,
	    &h, &n)));
	assert_int_equal(parse_head(big, HEAD_MAX, HEAD_MAX, &scanned, &h,
	    &n).kind, ERR_HEAD_TOO_LARGE);

	at = (size_t)sprintf(big, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 0; i < HTTP_HEADERS_MAX; i++)
		at += (size_t)sprintf(big + at, "a: b\r\n");
	at += (size_t)sprintf(big + at, "\r\n");
	scanned = 0;
	assert_int_equal(parse_head(big, at, HEAD_MAX, &scanned, &h,
	    &n).kind, ERR_HEAD_TOO_LARGE);

	at = (size_t)sprintf(big, "GET ");
	for (int i = 0; i <= HTTP_SEGMENTS_MAX; i++)
		at += (size_t)sprintf(big + at, "/x");
	at += (size_t)sprintf(big + at, " HTTP/1.1\r\n" HOST "\r\n");
	scanned = 0;
	assert_int_equal(parse_head(big, at, HEAD_MAX, &scanned, &h,
	    &n).kind, ERR_OK);
	assert_int_equal(h.segment_count, 0);	/* no path that is known */
}

/* --- chunked bodies --- */

static const char chunked[] =
    "4\r\nWiki\r\n"
    "00005;a=b;c=\"d\"\r\npedia\r\n"
    "b\r\n in\r\nchunk\r\r\n"
    "0;x\r\nTrailer: t\r\nAnother:\tone\r\n\r\n"
    "GET / next";

static void
test_chunks_cut_at_every_two_bytes(void **state)
{
	size_t len = sizeof(chunked) - 1;

	(void)state;
	for (size_t a = 0; a <= len; a++) {
		for (size_t b = a; b <= len; b++) {
			const size_t cuts[] = { 0, a, b, len };
			char body[64];
			size_t got = 0, taken = 0;
			struct chunk c;

			chunk_init(&c);
			for (int i = 0; i < 3; i++) {
				struct copy p = copy_of(chunked + cuts[i],
				    cuts[i + 1] - cuts[i]);
				size_t data, used;

				assert_false(err_is(chunk_decode(&c, p.bytes,
				    p.len, &data, &used)));
				assert_true(used == p.len || c.done);
				memcpy(body + got, p.bytes, data);
				got += data;
				taken += used;
				free(p.bytes);
			}
			assert_true(c.done);
			assert_int_equal(taken, len - strlen("GET / next"));
			assert_int_equal(got, 20);
			assert_memory_equal(body, "Wikipedia in\r\nchunk\r", 20);
		}
	}
}

static void
test_bad_chunks(void **state)
{
	static const struct slice bad[] = {
		SLICE("\r\n"), SLICE("g\r\n"), SLICE(" 1\r\n"),
		SLICE("1 \r\n"), SLICE("0x1\r\n"), SLICE("+1\r\n"),
		SLICE("-1\r\n"), SLICE("1\n"), SLICE("1\r1"),
		SLICE("1\r\nab"), SLICE("1\r\na\n"), SLICE("1\r\na\rb"),
		SLICE("1111111111111111\r\n"), SLICE("1;a\0\r\n"),
		SLICE("1;a\n"), SLICE("0\r\n a: b\r\n\r\n"),
		SLICE("0\r\na\n\r\n"), SLICE("0\r\n\rx"), SLICE("0\n\n"),
		SLICE("0\r\na: \0\r\n\r\n"), SLICE("\0"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct copy p = copy_of(bad[i].ptr, bad[i].len);
		struct chunk c;
		size_t data, used;

		chunk_init(&c);
		if (!err_is(chunk_decode(&c, p.bytes, p.len, &data, &used)))
			fail_msg("taken: %zu %s", i, bad[i].ptr);
		free(p.bytes);
	}
}

static void
test_chunk_extensions_are_bounded(void **state)
{
	char line[64];
	struct chunk c;
	size_t data, used;
	struct err e = OK;
	int lines = 0;

	(void)state;
	chunk_init(&c);
	while (!err_is(e) && lines++ < 1000) {
		memcpy(line, "1;abcdefghijklmnopqrstuvwxyz\r\nx\r\n", 34);
		e = chunk_decode(&c, line, 33, &data, &used);
	}
	assert_true(lines < 300);
	assert_int_equal(e.kind, ERR_BAD_INPUT);
}

/* --- text --- */

static void
test_percent(void **state)
{
	char text[] = "a+b%20c%2B%e2%82%ac";
	size_t len = sizeof(text) - 1;
	char *again;

	(void)state;
	assert_true(parse_percent(text, &len, true));
	assert_slice(slice_make(text, len), "a b c+\xe2\x82\xac");
	again = strdup("a+%");
	len = 3;
	assert_false(parse_percent(again, &len, false));
	free(again);
}

static void
test_utf8(void **state)
{
	(void)state;
	assert_true(parse_utf8_valid(SLICE("")));
	assert_true(parse_utf8_valid(SLICE("a\xc2\x80\xe0\xa0\x80\xed\x9f\xbf"
	    "\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")));
	assert_false(parse_utf8_valid(SLICE("\x80")));
	assert_false(parse_utf8_valid(SLICE("\xc1\xbf")));
	assert_false(parse_utf8_valid(SLICE("\xc2")));
	assert_false(parse_utf8_valid(SLICE("\xe0\x9f\xbf")));
	assert_false(parse_utf8_valid(SLICE("\xed\xa0\x80")));
	assert_false(parse_utf8_valid(SLICE("\xf0\x8f\xbf\xbf")));
	assert_false(parse_utf8_valid(SLICE("\xf4\x90\x80\x80")));
	assert_false(parse_utf8_valid(SLICE("\xf5\x80\x80\x80")));
	assert_false(parse_utf8_valid(SLICE("\xe2\x82" "a")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_some_is_refused_at_once),
		cmocka_unit_test(test_full_head_cut_at_every_byte),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_small_variants),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_chunks_cut_at_every_two_bytes),
		cmocka_unit_test(test_bad_chunks),
		cmocka_unit_test(test_chunk_extensions_are_bounded),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
