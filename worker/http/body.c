#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"

#include "worker/http/conn.h"

/*
 * How a body comes to its handler:
 *
 * in place	all of it lies in the input, behind the head: no copy.
 * gather	its length, or the limit for one piece if it is chunked, says
 *		how much memory that takes; it is received straight into it.
 * pieces	as they come, at most PIECE_BYTES each, through one buffer.
 *
 * A chunked body is decoded where it was received, in front of what comes next.
 */

#define PIECE_BYTES	(256u * 1024)
#define CHUNKED_STEP	(16u * 1024)

static const char continue_text[] = "HTTP/1.1 100 Continue\r\n\r\n";

/* --- memory --- */

static struct err
reserve(struct conn *c, uint64_t bytes)
{
	const struct http_settings *s = &c->server->set;

	if (s->body_reserve == NULL || bytes <= c->reserved_bytes)
		return OK;
	if (!s->body_reserve(s->arg, bytes - c->reserved_bytes))
		return FAIL(NO_MEMORY, "too many request bodies in flight");
	c->reserved_bytes = bytes;
	return OK;
}

/* Room for more bytes behind those that are there. */
static struct err
make_room(struct conn *c, size_t more)
{
	struct err e;

	if (c->body.room - c->body.len >= more)
		return OK;
	e = reserve(c, c->body.len + more);
	if (err_is(e))
		return e;
	if (!buf_reserve(&c->body, more))
		return FAIL(NO_MEMORY, "no memory for a request body");
	return reserve(c, c->body.room);
}

void
body_free(struct conn *c)
{
	const struct http_settings *s = &c->server->set;

	buf_free(&c->body);
	if (c->reserved_bytes > 0)
		s->body_release(s->arg, c->reserved_bytes);
	c->reserved_bytes = 0;
}

/* The head to the arena, the part of the body to its buffer, and the input is
 * free for others while this peer takes its time. */
static struct err
move_out(struct conn *c)
{
	struct request *r = c->req;
	size_t part = c->in_len - c->in_at;
	char *head = arena_copy(&r->pub.arena, slice_make(c->in, c->in_at));

	if (head == NULL)
		return FAIL(NO_MEMORY, "no memory for a request head");
	if (!buf_append(&c->body, c->in + c->in_at, part))
		return FAIL(NO_MEMORY, "no memory for a request body");
	parse_rebase(&r->pub.head, c->in, head);
	conn_drop_input(c);
	c->body_raw = part;
	c->body_left -= MIN(c->body_left, (uint64_t)part);
	return OK;
}

/* --- before begin --- */

static enum body_plan
choose_plan(struct conn *c)
{
	const struct http_head *head = &c->req->pub.head;
	const struct http_route *route = c->req->pub.route;

	if (!head->chunked && head->content_length <= c->in_len - c->in_at)
		return BODY_IN_PLACE;
	if (route->body == HTTP_BODY_WHOLE || head->chunked ||
	    head->content_length <= c->server->set.whole_body_bytes)
		return BODY_GATHER;
	return BODY_PIECES;
}

struct err
body_prepare(struct conn *c)
{
	const struct http_head *head = &c->req->pub.head;
	const struct http_route *route = c->req->pub.route;
	size_t part = c->in_len - c->in_at, room;
	struct err e;

	if (route->body == HTTP_BODY_NONE)
		return OK;	/* one that comes is not read */
	if (head->content_length > route->body_bytes_max)
		return FAIL(TOO_LARGE, "request body too large");
	c->plan = choose_plan(c);
	if (c->plan == BODY_IN_PLACE)
		return OK;

	c->body_left = head->content_length;
	c->continue_due = head->expect_continue && part == 0;
	chunk_init(&c->chunk);
	room = PIECE_BYTES;
	if (head->chunked)
		room = MAX(part, (size_t)CHUNKED_STEP);
	else if (c->plan == BODY_GATHER)
		room = (size_t)head->content_length;
	/* Never more than one piece, with raw bytes of the next behind. */
	buf_init(&c->body, MAX(room, (size_t)MIN(route->body_bytes_max,
	    (uint64_t)SIZE_MAX / 4)) + 2 * PIECE_BYTES);
	e = make_room(c, room);
	if (err_is(e))
		return e;
	return move_out(c);
}

bool
body_skip(struct conn *c)
{
	const struct http_head *head = &c->req->pub.head;
	size_t part = c->in_len - c->in_at;

	if (c->body_done || head->chunked)
		return c->body_done;
	if (c->plan != BODY_IN_PLACE || head->content_length > part)
		return false;
	c->in_at += (size_t)head->content_length;
	c->body_done = true;
	return true;
}

/* --- when it goes wrong --- */

static enum conn_next
cut(struct conn *c)
{
	conn_event(c, HTTP_EVENT_BODY_CUT);
	request_body_broken(c);
	conn_enter(c, CONN_DRAIN);
	return CONN_AGAIN;
}

static enum conn_next
refuse(struct conn *c, struct err e)
{
	request_body_broken(c);
	request_refuse(c, e);
	return CONN_AGAIN;
}

/* --- deliver --- */

static enum conn_next
deliver(struct conn *c, struct slice piece, bool last)
{
	struct http_request *r = &c->req->pub;
	enum http_flow flow;

	c->body_done = last;
	if (last)
		conn_enter(c, CONN_HANDLE);
	else
		conn_deadline(c, UINT64_MAX);
	flow = r->route->handler->body(r, piece, last);
	if (last || c->answered)
		return CONN_AGAIN;
	if (flow == HTTP_PAUSE) {
		c->paused = true;
		return CONN_AGAIN;
	}
	buf_consume(&c->body, c->body_decoded);
	c->body_decoded = 0;
	return CONN_AGAIN;
}

/* A handler that takes pieces keeps what it made of them: all of them count,
 * not only the one that is here. */
static struct err
charge_piece(struct conn *c)
{
	if (c->plan != BODY_PIECES)
		return OK;
	c->body_kept += c->body_decoded;
	return reserve(c, c->body.room + c->body_kept);
}

static enum conn_next
deliver_decoded(struct conn *c, bool last)
{
	struct err e = charge_piece(c);

	if (err_is(e))
		return refuse(c, e);
	return deliver(c, slice_make(c->body.ptr, c->body_decoded), last);
}

/* --- receive --- */

/* An honest slow peer gives more than that; one that sends a byte now and then
 * would else hold a connection for ever. */
static bool
too_slow(const struct conn *c)
{
	const struct http_settings *s = &c->server->set;

	return c->waited_ns > s->body_rate_grace_ns &&
	    c->body_raw < c->waited_ns / NS_PER_MS * s->body_rate_min / 1000;
}

static enum conn_next
receive(struct conn *c, size_t bytes)
{
	struct loop *l = c->server->loop;

	if (c->ended || c->broken)
		return cut(c);
	if (c->timed_out && c->server->cutting)
		return refuse(c, FAIL(UNAVAILABLE, "worker is draining"));
	if (c->timed_out || too_slow(c)) {
		conn_event(c, HTTP_EVENT_BODY_TIMEOUT);
		return refuse(c, FAIL(SLOW_PEER, ""));
	}
	if (c->continue_due) {
		c->continue_due = false;
		c->continue_sending = true;
		c->inflight++;
		loop_send(l, &c->send_op, c->fd, continue_text,
		    sizeof(continue_text) - 1);
	}
	c->wait_began_ns = loop_now_ns(l);
	conn_deadline(c, c->wait_began_ns +
	    c->server->set.body_idle_timeout_ns);
	conn_recv(c, INTO_BODY, c->body.ptr + c->body.len, bytes);
	return CONN_WAIT;
}

static enum conn_next
read_in_place(struct conn *c)
{
	size_t len = (size_t)c->req->pub.head.content_length;
	struct slice body = slice_make(c->in + c->in_at, len);

	/* First, since the reply may come, and the input go, meanwhile. */
	c->in_at += len;
	return deliver(c, body, true);
}

static enum conn_next
read_sized(struct conn *c)
{
	c->body_decoded = c->body.len;
	if (c->body_left == 0)
		return deliver_decoded(c, true);
	if (c->plan == BODY_PIECES && c->body.len > 0)
		return deliver_decoded(c, false);
	return receive(c, (size_t)MIN(c->body_left,
	    (uint64_t)(c->body.room - c->body.len)));
}

static struct err
decode(struct conn *c)
{
	char *raw = c->body.ptr + c->body_decoded;
	size_t len = c->body.len - c->body_decoded, data, used;
	struct err e = chunk_decode(&c->chunk, raw, len, &data, &used);

	if (err_is(e))
		return e;
	c->body_decoded += data;
	c->body_seen += data;
	c->body.len = c->body_decoded;
	if (c->body_seen > c->req->pub.route->body_bytes_max)
		return FAIL(TOO_LARGE, "request body too large");
	if (used == len)
		return OK;

	/* What was received behind the end is the next request's. */
	MUST(c->in == NULL);
	c->in = malloc(len - used);
	if (c->in == NULL)
		return FAIL(NO_MEMORY, "no memory for a request");
	memcpy(c->in, raw + used, len - used);
	c->in_len = c->in_room = len - used;
	return OK;
}

static enum conn_next
read_chunked(struct conn *c)
{
	struct err e = OK;

	if (c->body.len > c->body_decoded)
		e = decode(c);
	if (err_is(e))
		return refuse(c, e);
	if (c->chunk.done)
		return deliver_decoded(c, true);
	if (c->req->pub.route->body == HTTP_BODY_PIECES &&
	    c->body_decoded > c->server->set.whole_body_bytes)
		c->plan = BODY_PIECES;
	if (c->plan == BODY_PIECES && c->body_decoded > 0)
		return deliver_decoded(c, false);
	e = make_room(c, CHUNKED_STEP);
	if (err_is(e))
		return refuse(c, e);
	return receive(c, MIN(c->body.room - c->body.len,
	    (size_t)PIECE_BYTES));
}

enum conn_next
body_read(struct conn *c)
{
	if (c->answered) {
		loop_cancel(c->server->loop, &c->recv_op);
		if (c->recv_op.in_flight)
			return CONN_WAIT;
		conn_enter(c, CONN_WRITE);
		return CONN_AGAIN;
	}
	if (c->recv_op.in_flight || c->paused)
		return CONN_WAIT;
	if (c->req->pub.route->body == HTTP_BODY_NONE) {
		conn_enter(c, CONN_HANDLE);
		return CONN_AGAIN;
	}
	if (c->plan == BODY_IN_PLACE)
		return read_in_place(c);
	return c->req->pub.head.chunked ? read_chunked(c) : read_sized(c);
}
