#ifndef MEMWALD_TESTS_UNIT_HTTP_PEER_H
#define MEMWALD_TESTS_UNIT_HTTP_PEER_H

/*
 * http_peer - a server with small handlers, and the peers that talk to it, for
 * the tests of http/. Both sides run in one thread: a peer writes, the loop
 * takes turns, the peer looks at what has come.
 *
 *	GET  /ok		"ok"
 *	GET  /seg/...		the decoded segments, and the query
 *	POST /pieces		"length checksum how-many-pieces"
 *	POST /whole		the same; one piece, 1 MiB at most
 *	POST /paused		the same; pauses after each piece
 *	POST /later		the same; replies when later_reply is called
 *	POST /refuse		404 at begin
 *	GET  /list?N		N pieces of a stream, every third of them waits
 *	GET  /sized?N		the same with a length
 *	GET  /fails?N		a stream that fails after N pieces
 *	GET  /large		a body of 8 MiB
 */

#include "common/base.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/loop.h"
#include "worker/http/http.h"

#define LARGE_BYTES	(8u << 20)
#define BUFS		16

static struct loop *loop;
static struct http_server *server;
static struct http_settings settings;
static int listen_fd;
static struct sockaddr_in address;

static uint32_t events[HTTP_EVENT_COUNT];
static uint32_t samples, finished, gone, begun, streams_closed;
static struct http_sample last_sample;
static uint64_t reserved, reserved_most, reserve_limit;
static uint64_t large_held;

/* --- handlers --- */

struct tally {
	struct http_request *r;
	uint64_t len, sum;
	uint32_t pieces;
	struct op resume;
	struct tally *next;
};

static struct tally *later;		/* oldest first */

static void
tally_begin(struct http_request *r)
{
	struct tally *t = arena_calloc(&r->arena, 1, sizeof(*t));

	assert_non_null(t);
	t->r = r;
	r->user = t;
	begun++;
}

static void
tally_add(struct tally *t, struct slice piece)
{
	for (size_t i = 0; i < piece.len; i++)
		t->sum = t->sum * 31 + (uint8_t)piece.ptr[i];
	t->len += piece.len;
	t->pieces++;
}

static void
tally_reply(struct tally *t)
{
	const char *text = arena_printf(&t->r->arena, "%llu %llx %u",
	    (unsigned long long)t->len, (unsigned long long)t->sum, t->pieces);

	http_reply_json(t->r, 201, slice_of(text));
}

static enum http_flow
tally_body(struct http_request *r, struct slice piece, bool last)
{
	assert_true(piece.len > 0 || last);
	tally_add(r->user, piece);
	if (last)
		tally_reply(r->user);
	return HTTP_CONTINUE;
}

static void
resume(struct op *op, int32_t res)
{
	(void)res;
	http_resume(CONTAINER_OF(op, struct tally, resume)->r);
}

static enum http_flow
paused_body(struct http_request *r, struct slice piece, bool last)
{
	struct tally *t = r->user;

	tally_add(t, piece);
	if (last) {
		tally_reply(t);
		return HTTP_CONTINUE;
	}
	t->resume.done = resume;
	loop_later(loop, &t->resume, 0);
	return HTTP_PAUSE;
}

static enum http_flow
later_body(struct http_request *r, struct slice piece, bool last)
{
	struct tally *t = r->user, **at = &later;

	tally_add(t, piece);
	if (last) {
		while (*at != NULL)
			at = &(*at)->next;
		*at = t;
	}
	return HTTP_CONTINUE;
}

static void
later_reply(void)
{
	struct tally *t = later;

	assert_non_null(t);
	later = t->next;
	tally_reply(t);
}

static void
count_gone(struct http_request *r)
{
	(void)r;
	gone++;
}

static void
count_finish(struct http_request *r)
{
	(void)r;
	finished++;
}

static void
ok_begin(struct http_request *r)
{
	begun++;
	http_reply_json(r, 200, SLICE("ok"));
}

static void
refuse_begin(struct http_request *r)
{
	begun++;
	http_reply_err(r, FAIL(NOT_FOUND, "no such \"store\""));
}

static void
seg_begin(struct http_request *r)
{
	char *text = arena_alloc(&r->arena, 4096);
	int at = 0;

	begun++;
	for (uint32_t i = 1; i < r->head.segment_count; i++)
		at += sprintf(text + at, "[%.*s]", (int)r->head.segments[i].len,
		    r->head.segments[i].ptr);
	at += sprintf(text + at, "?%.*s", (int)r->head.query.len,
	    r->head.query.ptr);
	http_reply_json(r, 200, slice_make(text, (size_t)at));
}

struct pieces {
	struct stream stream;
	struct http_request *r;
	uint32_t left, number;
	bool fails, waited;
	struct op ready;
};

static void
pieces_ready(struct op *op, int32_t res)
{
	(void)res;
	http_stream_ready(CONTAINER_OF(op, struct pieces, ready)->r);
}

static enum stream_state
pieces_pull(struct stream *s, struct buf *out, struct err *e)
{
	struct pieces *p = CONTAINER_OF(s, struct pieces, stream);

	assert_int_equal(out->len, 0);
	if (p->number % 3 == 1 && !p->waited) {
		p->waited = true;
		p->ready.done = pieces_ready;
		loop_later(loop, &p->ready, 0);
		return STREAM_WAIT;
	}
	p->waited = false;
	if (p->left == 0 && p->fails) {
		*e = FAIL(IO, "read a piece");
		return STREAM_FAILED;
	}
	if (p->left == 0)
		return STREAM_END;
	p->left--;
	assert_true(buf_printf(out, "(%05u)", p->number++));
	return STREAM_MORE;
}

static void
pieces_close(struct stream *s, bool complete)
{
	(void)s;
	(void)complete;
	streams_closed++;
}

static void
reply_pieces(struct http_request *r, bool sized, bool fails)
{
	struct pieces *p = arena_calloc(&r->arena, 1, sizeof(*p));
	struct http_reply reply = { .status = 200, .stream = &p->stream,
		.content_type = SLICE("application/json") };

	assert_non_null(p);
	begun++;
	p->stream.pull = pieces_pull;
	p->stream.close = pieces_close;
	p->r = r;
	p->left = (uint32_t)atoi(r->head.query.ptr);
	p->fails = fails;
	p->stream.has_length = sized;
	p->stream.length = p->left * 7;
	http_reply(r, &reply);
}

static void
list_begin(struct http_request *r)
{
	reply_pieces(r, false, false);
}

static void
sized_begin(struct http_request *r)
{
	reply_pieces(r, true, false);
}

static void
fails_begin(struct http_request *r)
{
	reply_pieces(r, false, true);
}

static char large[LARGE_BYTES];

static void
large_begin(struct http_request *r)
{
	begun++;
	http_reply_json(r, 200, slice_make(large, sizeof(large)));
}

#define HANDLER_OF(begin, body, ...) \
	{ begin, body, count_gone, count_finish, __VA_ARGS__ }
#define HANDLER(name, body) static const struct http_handler name##_handler = \
	HANDLER_OF(name##_begin, body, false)
HANDLER(ok, NULL);
HANDLER(seg, NULL);
HANDLER(refuse, tally_body);
HANDLER(list, NULL);
HANDLER(sized, NULL);
HANDLER(fails, NULL);
HANDLER(tally, tally_body);
static const struct http_handler paused_handler =
	HANDLER_OF(tally_begin, paused_body, false);
static const struct http_handler later_handler =
	HANDLER_OF(tally_begin, later_body, false);
static const struct http_handler large_handler =
	HANDLER_OF(large_begin, NULL, true);

static struct http_route routes[] = {
	{ "ok", &ok_handler, HTTP_BODY_NONE, 0, 0 },
	{ "seg", &seg_handler, HTTP_BODY_NONE, 0, 0 },
	{ "list", &list_handler, HTTP_BODY_NONE, 0, 0 },
	{ "sized", &sized_handler, HTTP_BODY_NONE, 0, 0 },
	{ "fails", &fails_handler, HTTP_BODY_NONE, 0, 0 },
	{ "large", &large_handler, HTTP_BODY_NONE, 0, 0 },
	{ "pieces", &tally_handler, HTTP_BODY_PIECES, 4 << 20, 0 },
	{ "whole", &tally_handler, HTTP_BODY_WHOLE, 1 << 20, 0 },
	{ "paused", &paused_handler, HTTP_BODY_PIECES, 4 << 20, 0 },
	{ "later", &later_handler, HTTP_BODY_PIECES, 4 << 20, 5 * NS_PER_SEC },
	{ "refuse", &refuse_handler, HTTP_BODY_PIECES, 4 << 20, 0 },
};
#define FIRST_POST 6

static struct http_match
router(void *arg, const struct http_head *h)
{
	struct http_match none = { NULL, NULL };

	(void)arg;
	if (h->segment_count == 0)
		return none;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		struct http_route *r = &routes[i];
		bool get = i < FIRST_POST;

		if (!slice_eq(h->segments[0], slice_of(r->name)))
			continue;
		if (h->method != (get ? HTTP_GET : HTTP_POST))
			return (struct http_match){ NULL,
				get ? "GET, HEAD" : "POST" };
		return (struct http_match){ r, NULL };
	}
	return none;
}

/* --- the server --- */

static void
note_sample(void *arg, const struct http_sample *s)
{
	(void)arg;
	samples++;
	last_sample = *s;
}

static void
note_event(void *arg, enum http_event e)
{
	(void)arg;
	events[e]++;
}

static bool
take_reserve(void *arg, uint64_t bytes)
{
	(void)arg;
	if (reserved + bytes > reserve_limit)
		return false;
	reserved += bytes;
	reserved_most = MAX(reserved_most, reserved);
	return true;
}

static void
give_reserve(void *arg, uint64_t bytes)
{
	(void)arg;
	assert_true(reserved >= bytes);
	reserved -= bytes;
}

static void
serve(bool ring)
{
	struct loop_settings s = { .ring = ring, .recv_buf_count = BUFS,
		.entries = 256 };
	socklen_t len = sizeof(address);

	assert_false(err_is(loop_create(&s, &loop)));
	http_settings_default(&settings);
	settings.router = router;
	settings.sample = note_sample;
	settings.event = note_event;
	settings.body_reserve = take_reserve;
	settings.body_release = give_reserve;
	reserve_limit = 64 << 20;
	large_held = 0;
	reserved = reserved_most = 0;
	memset(events, 0, sizeof(events));
	samples = finished = gone = begun = streams_closed = 0;
	later = NULL;
	listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	address = (struct sockaddr_in){ .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(listen_fd, 1024), 0);
	assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address,
	    &len), 0);
}

/* After settings were changed, if they were. */
static void
open_server(void)
{
	assert_false(err_is(http_create(loop, &settings, &server)));
	http_listen(server, listen_fd);
}

#define TURN_UNTIL(condition) \
	do { \
		uint64_t turn_deadline_ = time_real() + 5000; \
		while (!(condition)) { \
			if (time_real() > turn_deadline_) \
				fail_msg("never: %s", #condition); \
			loop_turn(loop, clock_real_ns(NS_PER_MS)); \
		} \
	} while (0)

/* Of the kernel's clock, in ms: the other may run faster. */
static uint64_t
time_real(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Everything must have come home. */
static void
close_server(void)
{
	if (!settings.router)
		return;
	http_drain(server);
	TURN_UNTIL(http_connections(server) == 0);
	assert_int_equal(http_requests_active(server), 0);
	assert_int_equal(finished, begun);
	assert_int_equal(reserved, 0);
	assert_int_equal(large_held, 0);
	assert_int_equal(loop_bufs_free(loop), BUFS);
	assert_int_equal(events[HTTP_EVENT_ACCEPTED],
	    events[HTTP_EVENT_CLOSED]);
	loop_turn(loop, 0);
	http_destroy(server);
	loop_destroy(loop);
	close(listen_fd);
}

/* --- peers --- */

struct peer {
	int fd;
	bool ended, reset;
	size_t len;
	char got[1 << 16];
};

static void
peer_open(struct peer *p)
{
	*p = (struct peer){ .fd = socket(AF_INET, SOCK_STREAM, 0) };
	assert_true(p->fd >= 0);
	assert_int_equal(connect(p->fd, (struct sockaddr *)&address,
	    sizeof(address)), 0);
}

static void
peer_look(struct peer *p)
{
	ssize_t n;

	while (!p->ended && p->len < sizeof(p->got) - 1) {
		n = recv(p->fd, p->got + p->len, sizeof(p->got) - 1 - p->len,
		    MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		p->ended = n <= 0;
		p->reset = n < 0;
		p->len += n > 0 ? (size_t)n : 0;
	}
	p->got[p->len] = '\0';
}

static void
peer_write(struct peer *p, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = send(p->fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			loop_turn(loop, clock_real_ns(NS_PER_MS));
			continue;
		}
		if (n < 0)
			return;		/* it was closed: what came is what counts */
		at += n;
		len -= (size_t)n;
	}
}

static void
peer_say(struct peer *p, const char *text)
{
	peer_write(p, text, strlen(text));
}

static uint32_t
count_of(const char *text, const char *what)
{
	uint32_t n = 0;

	while ((text = strstr(text, what)) != NULL) {
		n++;
		text++;
	}
	return n;
}

static bool
peer_has(struct peer *p, const char *what, uint32_t times)
{
	peer_look(p);
	return count_of(p->got, what) >= times;
}

static bool
peer_ended(struct peer *p)
{
	peer_look(p);
	return p->ended;
}

#define PEER_UNTIL(p, what)	TURN_UNTIL(peer_has(p, what, 1))

static void
peer_close(struct peer *p)
{
	close(p->fd);
}

#endif
