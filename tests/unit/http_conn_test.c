#include "common/base.h"

#include "tests/unit/http_peer.h"

#define HOST "Host: x\r\n"

static int
setup(void **state)
{
	serve(*(bool *)*state);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	close_server();
	return 0;
}

static struct peer p;

static uint64_t
sum_of(const char *bytes, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + (uint8_t)bytes[i];
	return sum;
}

/* --- routing and replies --- */

static void
test_get(void **state)
{
	(void)state;
	settings.worker_name = "3";
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "X-Request-Id: me 1\r\n\r\n");
	PEER_UNTIL(&p, "\r\n\r\nok");
	assert_int_equal(strncmp(p.got, "HTTP/1.1 200 OK\r\nDate: ", 23), 0);
	assert_non_null(strstr(p.got, "\r\nContent-Type: application/json\r\n"
	    "Content-Length: 2\r\nX-Request-Id: me 1\r\n"
	    "X-Memwald-Worker: 3\r\n\r\nok"));
	TURN_UNTIL(samples == 1);
	assert_string_equal(last_sample.route, "ok");
	assert_int_equal(last_sample.method, HTTP_GET);
	assert_int_equal(last_sample.status, 200);

	/* HEAD is GET without a body; ids of our own differ. */
	peer_say(&p, "HEAD /ok HTTP/1.1\r\n" HOST "\r\n"
	    "HEAD /list?9 HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(peer_has(&p, "\r\n\r\n", 3));
	assert_int_equal(count_of(p.got, "Content-Length: 2"), 2);
	assert_int_equal(count_of(p.got, "Transfer-Encoding: chunked"), 1);
	assert_int_equal(count_of(p.got, "ok"), 1);
	assert_null(strstr(p.got, "00000)"));
	peer_close(&p);
}

static void
test_unknown_path_and_method(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /none HTTP/1.1\r\n" HOST "\r\n"
	    "DELETE /ok HTTP/1.1\r\n" HOST "\r\n"
	    "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	assert_non_null(strstr(p.got, "HTTP/1.1 404 Not Found\r\n"));
	assert_non_null(strstr(p.got, "HTTP/1.1 405 Method Not Allowed\r\n"));
	assert_non_null(strstr(p.got, "\r\nAllow: GET, HEAD\r\n\r\nHTTP/1.1"));
	assert_int_equal(count_of(p.got, "Content-Length: 0\r\n"), 2);
	peer_close(&p);
}

static void
test_segments(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /seg/a%2Fb/a%252Fb/100%25/%C3%A9/..?x=%2F HTTP/1.1\r\n"
	    HOST "\r\n");
	PEER_UNTIL(&p, "[a/b][a%2Fb][100%][\xc3\xa9][..]?x=%2F");
	peer_close(&p);
}

static void
test_error_envelope(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "POST /refuse HTTP/1.1\r\n" HOST
	    "Content-Length: 4\r\n\r\nbodyGET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "\r\n\r\nok");
	assert_non_null(strstr(p.got, "\r\n\r\n{\"error\":{\"code\":"
	    "\"NOT_FOUND\",\"message\":\"no such \\\"store\\\"\"}}HTTP/1.1 "));
	peer_close(&p);
}

static void
test_http_1_0_closes(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /list?2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	TURN_UNTIL(peer_ended(&p));
	assert_false(p.reset);
	assert_null(strstr(p.got, "chunked"));
	assert_non_null(strstr(p.got, "\r\nConnection: close\r\n\r\n"
	    "(00000)(00001)"));
	peer_close(&p);
}

/* --- refused: answered, closed, and what follows is never run --- */

static void
test_smuggling(void **state)
{
	static const char *const heads[] = {
		"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
		"Content-Length: 44\r\nContent-Length: 0\r\n",
		"Transfer-Encoding: identity\r\n",
		"Transfer-Encoding: gzip, chunked\r\n",
		"Transfer-Encoding: xchunked\r\n",
		"Transfer-Encoding : chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
		"A: b\r\n\tc\r\n", "   \r\n", "A: b\n", "A: b\rc\r\n",
	};
	char text[512];

	(void)state;
	open_server();
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		peer_open(&p);
		snprintf(text, sizeof(text), "POST /pieces HTTP/1.1\r\n" HOST
		    "%s\r\n0\r\n\r\nGET /ok HTTP/1.1\r\n" HOST "\r\n",
		    heads[i]);
		peer_say(&p, text);
		PEER_UNTIL(&p, "}}");
		assert_non_null(strstr(p.got, "HTTP/1.1 400 "));
		assert_non_null(strstr(p.got, "\"INVALID_REQUEST\""));
		assert_non_null(strstr(p.got, "Connection: close"));
		TURN_UNTIL(peer_ended(&p));
		assert_false(p.reset);
		assert_int_equal(count_of(p.got, "HTTP/1.1"), 1);
		peer_close(&p);
	}
	assert_int_equal(begun, 0);
}

static void
test_other_refusals(void **state)
{
	static const struct {
		const char *text, *answer;
	} cases[] = {
		{ "GET /seg/%zz HTTP/1.1\r\n" HOST "\r\n", "400 Bad" },
		{ "GET /ok HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", "417 " },
		{ "GET /ok HTTP/2.0\r\n" HOST "\r\n", "505 " },
		{ "POST /pieces HTTP/1.1\r\n" HOST
		  "Content-Length: 4194305\r\n\r\n", "413 " },
		{ "POST /whole HTTP/1.1\r\n" HOST
		  "Content-Length: 1048577\r\n\r\n", "413 " },
		{ "POST /whole HTTP/1.1\r\n" HOST
		  "Transfer-Encoding: chunked\r\n\r\n4\r\nabcdX", "400 " },
	};
	static char big[20000];

	(void)state;
	open_server();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		peer_open(&p);
		peer_say(&p, cases[i].text);
		PEER_UNTIL(&p, "}}");
		assert_non_null(strstr(p.got, cases[i].answer));
		peer_close(&p);
	}
	memset(big, 'x', sizeof(big));
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\nA: ");
	peer_write(&p, big, sizeof(big));
	PEER_UNTIL(&p, "HTTP/1.1 431 ");
	peer_close(&p);
}

static void
test_chunked_body_over_the_limit(void **state)
{
	static char piece[65536];

	(void)state;
	open_server();
	peer_open(&p);
	memset(piece, 'x', sizeof(piece));
	peer_say(&p, "POST /pieces HTTP/1.1\r\n" HOST
	    "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 70 && !peer_ended(&p); i++) {
		peer_say(&p, "10000\r\n");
		peer_write(&p, piece, sizeof(piece));
		peer_say(&p, "\r\n");
		loop_turn(loop, 0);
	}
	PEER_UNTIL(&p, "\"PAYLOAD_TOO_LARGE\"");
	assert_int_equal(gone, 1);
	peer_close(&p);
}

/* --- bodies --- */

static char bytes[3 << 20];

static void
fill_bytes(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 >> 4);
}

static void
say_post(const char *path, size_t len, bool chunked)
{
	char head[200];

	if (chunked)
		snprintf(head, sizeof(head), "POST /%s HTTP/1.1\r\n" HOST
		    "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", path, len);
	else
		snprintf(head, sizeof(head), "POST /%s HTTP/1.1\r\n" HOST
		    "Content-Length: %zu\r\n\r\n", path, len);
	peer_say(&p, head);
	peer_write(&p, bytes, len);
	if (chunked)
		peer_say(&p, len > 0 ? "\r\n0\r\n\r\n" : "\r\n");
}

static void
test_bodies_of_many_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 16000, 16384, 70000, 262144,
		262145, 1 << 20, (3 << 20) - 5 };
	static const char *const paths[] = { "pieces", "paused", "whole" };

	(void)state;
	open_server();
	fill_bytes();
	peer_open(&p);
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
		for (int k = 0; k < 6; k++) {
			const char *path = paths[k % 3];
			char want[64];

			if (k % 3 == 2 && sizes[s] > 1 << 20)
				continue;
			p.len = 0;
			say_post(path, sizes[s], k >= 3);
			snprintf(want, sizeof(want), "\r\n\r\n%zu %llx ",
			    sizes[s], (unsigned long long)sum_of(bytes,
			    sizes[s]));
			PEER_UNTIL(&p, want);
			/* Whole, or not: that is promised. */
			if (k % 3 == 2 || sizes[s] <= 262144)
				assert_string_equal(strrchr(p.got, ' '), " 1");
			else if (k < 3)
				assert_string_not_equal(
				    strrchr(p.got, ' '), " 1");
		}
	}
	/* Of pieces all that was handed over counts, and one more. */
	assert_true(reserved_most >= (3 << 20) - 5);
	assert_true(reserved_most <= (3 << 20) + (1 << 19));
	peer_close(&p);
}

static void
test_no_memory_for_bodies(void **state)
{
	(void)state;
	open_server();
	reserve_limit = 100000;
	peer_open(&p);
	peer_say(&p, "POST /whole HTTP/1.1\r\n" HOST
	    "Content-Length: 200000\r\n\r\n");
	PEER_UNTIL(&p, "HTTP/1.1 503 ");
	assert_non_null(strstr(p.got, "Retry-After: 1\r\n"));
	assert_int_equal(begun, 0);
	peer_close(&p);
}

static uint64_t large_limit;

/* Of an unknown length all of it; one alone may always go on. */
static bool
take_large(void *arg, uint64_t length, uint64_t *taken)
{
	(void)arg;
	*taken = MIN(length, large_limit);
	if (large_held > 0 && large_held + *taken > large_limit)
		return false;
	large_held += *taken;
	return true;
}

static void
give_large(void *arg, uint64_t amount)
{
	(void)arg;
	assert_true(large_held >= amount);
	large_held -= amount;
}

static void
test_large_bodies_share_a_budget(void **state)
{
	static struct peer other;

	(void)state;
	settings.large_take = take_large;
	settings.large_give = give_large;
	large_limit = 10 << 20;
	open_server();
	fill_bytes();
	peer_open(&p);
	peer_say(&p, "POST /pieces HTTP/1.1\r\n" HOST
	    "Content-Length: 4000000\r\n\r\n");
	TURN_UNTIL(large_held == 4000000);	/* before any of it came */
	peer_open(&other);
	peer_say(&other, "POST /pieces HTTP/1.1\r\n" HOST
	    "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
	PEER_UNTIL(&other, "}}");
	assert_int_equal(strncmp(other.got, "HTTP/1.1 503 ", 13), 0);
	assert_non_null(strstr(other.got, "\"OVERLOADED\""));
	assert_non_null(strstr(other.got, "Retry-After: 1\r\n"));
	peer_close(&other);
	assert_int_equal(begun, 1);
	peer_close(&p);
	TURN_UNTIL(large_held == 0);

	/* A reply: all of it, then its length, until it is with the socket. */
	peer_open(&p);
	peer_say(&p, "GET /large HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(large_held == LARGE_BYTES);
	peer_open(&other);
	peer_say(&other, "GET /large HTTP/1.1\r\n" HOST "\r\n"
	    "POST /pieces HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
	    "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&other, "\r\n\r\nok");	/* none of them closed it */
	assert_int_equal(count_of(other.got, "HTTP/1.1 503 "), 1);
	assert_int_equal(count_of(other.got, "HTTP/1.1 201 "), 1);
	TURN_UNTIL((p.len = 0, peer_look(&p), large_held == 0));
	peer_close(&p);

	/* What has no body to send needs nothing. */
	other.len = 0;
	peer_say(&other, "HEAD /large HTTP/1.1\r\n" HOST "\r\n"
	    "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&other, "\r\n\r\nok");
	peer_close(&other);
}

/* Field fault G.4. */
static void
test_expect_continue(void **state)
{
	(void)state;
	open_server();
	fill_bytes();
	peer_open(&p);
	peer_say(&p, "POST /pieces HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
	    "Content-Length: 100000\r\n\r\n");
	PEER_UNTIL(&p, "HTTP/1.1 100 Continue\r\n\r\n");
	assert_int_equal(p.len, 25);
	peer_write(&p, bytes, 100000);
	PEER_UNTIL(&p, "HTTP/1.1 201 ");
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "\r\n\r\nok");

	/* With the body already there nothing is invited. */
	p.len = 0;
	peer_say(&p, "POST /pieces HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
	    "Content-Length: 3\r\n\r\nabc");
	PEER_UNTIL(&p, "HTTP/1.1 201 ");
	assert_null(strstr(p.got, "100 Continue"));
	peer_close(&p);

	peer_open(&p);
	peer_say(&p, "POST /refuse HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
	    "Content-Length: 1000000\r\n\r\n");
	PEER_UNTIL(&p, "}}");
	assert_int_equal(strncmp(p.got, "HTTP/1.1 404 ", 13), 0);
	assert_non_null(strstr(p.got, "Connection: close"));
	TURN_UNTIL(peer_ended(&p));
	peer_close(&p);

	peer_open(&p);
	peer_say(&p, "POST /whole HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
	    "Content-Length: 10000000\r\n\r\n");
	PEER_UNTIL(&p, "}}");
	assert_int_equal(strncmp(p.got, "HTTP/1.1 413 ", 13), 0);
	peer_close(&p);
}

/* A client that sends all before it reads must not be reset. */
static void
test_refusal_reaches_who_is_still_sending(void **state)
{
	(void)state;
	open_server();
	fill_bytes();
	peer_open(&p);
	peer_say(&p, "POST /refuse HTTP/1.1\r\n" HOST
	    "Content-Length: 3000000\r\n\r\n");
	peer_write(&p, bytes, 3000000);
	PEER_UNTIL(&p, "HTTP/1.1 404 ");
	TURN_UNTIL(peer_ended(&p));
	assert_false(p.reset);
	peer_close(&p);
}

/* --- order and cuts --- */

static const char pipeline[] =
    "GET /list?4 HTTP/1.1\r\n" HOST "\r\n"
    "POST /pieces HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
    "GET /ok HTTP/1.1\r\n" HOST "\r\n"
    "POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
    "3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: u\r\n\r\n"
    "\r\nGET /seg/a%2Fb HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";

static void
check_pipeline(void)
{
	const char *at = p.got;
	static const char *const want[] = {
		"\r\n\r\n7\r\n(00000)\r\n", "\r\n0\r\n\r\nHTTP/1.1 201",
		"\r\n\r\n5 5e918d2 1HTTP/1.1 200", "\r\n\r\nokHTTP/1.1 201",
		"\r\n\r\n5 584f463 1HTTP/1.1 200", "\r\n\r\n[a/b]?",
	};

	assert_int_equal(count_of(p.got, "HTTP/1.1 "), 5);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		at = strstr(at, want[i]);
		if (at == NULL)
			print_error("missing %s in %s\n", want[i], p.got);
		assert_non_null(at);
	}
	assert_false(p.reset);
}

/* Field fault G.3: as many answers as requests, in order, whatever the cuts. */
static void
test_pipeline_cut_at_every_byte(void **state)
{
	size_t len = sizeof(pipeline) - 1;

	(void)state;
	open_server();
	for (size_t cut = 0; cut < len; cut++) {
		peer_open(&p);
		peer_write(&p, pipeline, cut);
		for (int i = 0; i < 4; i++)
			loop_turn(loop, clock_real_ns(NS_PER_US));
		peer_write(&p, pipeline + cut, len - cut);
		TURN_UNTIL(peer_ended(&p));
		check_pipeline();
		peer_close(&p);
	}
}

static void
test_pipeline_byte_by_byte(void **state)
{
	size_t len = sizeof(pipeline) - 1;

	(void)state;
	open_server();
	peer_open(&p);
	for (size_t at = 0; at < len; at++) {
		peer_write(&p, pipeline + at, 1);
		loop_turn(loop, clock_real_ns(NS_PER_US));
		loop_turn(loop, 0);
	}
	TURN_UNTIL(peer_ended(&p));
	check_pipeline();
	peer_close(&p);
}

static void
test_answers_wait_for_their_turn(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "POST /later HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx"
	    "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(later != NULL);
	for (int i = 0; i < 5; i++)
		loop_turn(loop, 0);
	peer_look(&p);
	assert_int_equal(p.len, 0);
	later_reply();
	PEER_UNTIL(&p, "\r\n\r\nok");
	assert_true(strstr(p.got, "1 78 1") < strstr(p.got, "\r\n\r\nok"));
	peer_close(&p);
}

/* --- streams --- */

static void
test_streams(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /list?0 HTTP/1.1\r\n" HOST "\r\n"
	    "GET /list?1000 HTTP/1.1\r\n" HOST "\r\n"
	    "GET /sized?50 HTTP/1.1\r\n" HOST "\r\n"
	    "GET /fails?0 HTTP/1.1\r\n" HOST "\r\n"
	    "GET /fails?5 HTTP/1.1\r\n" HOST "\r\n"
	    "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(peer_ended(&p));
	assert_non_null(strstr(p.got, "\r\n\r\n0\r\n\r\nHTTP/1.1 200"));
	assert_non_null(strstr(p.got, "7\r\n(00999)\r\n0\r\n\r\nHTTP/1.1"));
	assert_non_null(strstr(p.got, "Content-Length: 350\r\n"));
	assert_non_null(strstr(p.got, "(00049)HTTP/1.1 503 Service"));
	assert_non_null(strstr(p.got, "(00004)\r\n"));
	assert_null(strstr(p.got, "(00004)\r\n0"));	/* no last chunk */
	assert_int_equal(count_of(p.got, "HTTP/1.1"), 5);
	assert_int_equal(streams_closed, 5);
	peer_close(&p);
}

static void
test_large_reply(void **state)
{
	size_t got = 0;

	(void)state;
	open_server();
	memset(large, 'L', sizeof(large));
	peer_open(&p);
	peer_say(&p, "GET /large HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	while (!p.ended) {
		loop_turn(loop, clock_real_ns(NS_PER_MS));
		p.len = 0;
		peer_look(&p);
		got += p.len;
	}
	assert_true(got > LARGE_BYTES && got < LARGE_BYTES + 300);
	peer_close(&p);
}

int
main(void)
{
	static bool ring = true, epoll = false;
#define EACH(test) \
	{ #test " ring", test, setup, teardown, &ring }, \
	{ #test " epoll", test, setup, teardown, &epoll }
	const struct CMUnitTest tests[] = {
		EACH(test_get),
		EACH(test_unknown_path_and_method),
		EACH(test_segments),
		EACH(test_error_envelope),
		EACH(test_http_1_0_closes),
		EACH(test_smuggling),
		EACH(test_other_refusals),
		EACH(test_chunked_body_over_the_limit),
		EACH(test_bodies_of_many_sizes),
		EACH(test_no_memory_for_bodies),
		EACH(test_large_bodies_share_a_budget),
		EACH(test_expect_continue),
		EACH(test_refusal_reaches_who_is_still_sending),
		EACH(test_pipeline_cut_at_every_byte),
		EACH(test_pipeline_byte_by_byte),
		EACH(test_answers_wait_for_their_turn),
		EACH(test_streams),
		EACH(test_large_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
