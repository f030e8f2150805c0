#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"

#include "worker/http/conn.h"

#define FREE_REQUESTS_MAX	256
#define LOG_LINES_A_SECOND	20

/* --- the objects --- */

struct request *
request_take(struct http_server *h)
{
	struct request *r = h->free_requests;

	if (r != NULL) {
		h->free_requests = r->next_free;
		h->free_request_count--;
		return r;
	}
	r = calloc(1, sizeof(*r));
	if (r != NULL)
		arena_init(&r->pub.arena, h->set.arena_bytes_max);
	return r;
}

void
request_give(struct http_server *h, struct request *r)
{
	if (h->free_request_count == FREE_REQUESTS_MAX) {
		arena_free(&r->pub.arena);
		free(r);
		return;
	}
	arena_reset(&r->pub.arena);
	r->next_free = h->free_requests;
	h->free_requests = r;
	h->free_request_count++;
}

/* The caller's, or a fresh one: 16 hex digits, different in each process. */
static void
name_request(struct http_server *h, struct request *r)
{
	static const char digits[] = "0123456789abcdef";
	struct slice given = r->pub.head.request_id;

	if (given.len == 0) {
		uint64_t words[2] = { h->id_seed, h->id_count++ };
		uint64_t n = hash_bytes(words, sizeof(words));

		for (int i = 0; i < 16; i++, n >>= 4)
			r->id_text[i] = digits[n & 15];
		given.len = 16;
	} else {
		MUST(given.len < sizeof(r->id_text));
		memcpy(r->id_text, given.ptr, given.len);
	}
	r->pub.id = slice_make(r->id_text, given.len);
}

/* Everything that one request leaves behind in the connection. */
static void
start_anew(struct conn *c)
{
	struct request *r = c->req;

	r->pub.route = NULL;
	r->pub.user = NULL;
	r->pub.body_broken = false;
	r->pub.began_ns = loop_now_ns(c->server->loop);
	r->status = 0;
	r->stream = NULL;
	r->head_only = r->pub.head.method == HTTP_HEAD;
	name_request(c->server, r);
	c->answered = c->paused = c->body_done = false;
	c->begun = c->continue_due = c->head_sent = false;
	c->plan = BODY_IN_PLACE;
	c->body_left = c->body_raw = c->body_seen = c->body_kept = 0;
	c->waited_ns = 0;
	c->body_decoded = 0;
	c->server->active_count++;
}

/* --- from head to reply --- */

static void
no_route(struct conn *c, const char *allow)
{
	struct http_header header = { SLICE("Allow"), { "", 0 } };
	struct http_reply reply = { .status = 404 };

	if (allow != NULL) {
		header.value = slice_of(allow);
		reply = (struct http_reply){ .status = 405,
			.headers = &header, .header_count = 1 };
	}
	reply_prepare(c, &reply);
	conn_enter(c, CONN_WRITE);
}

/* --- large bodies --- */

static struct err
take_large(struct conn *c)
{
	const struct http_settings *s = &c->server->set;
	const struct http_request *r = &c->req->pub;
	uint64_t length = HTTP_LENGTH_UNKNOWN, taken;

	if (s->large_take == NULL || (r->route->body != HTTP_BODY_PIECES &&
	    !r->route->handler->large_reply))
		return OK;
	if (r->route->body == HTTP_BODY_PIECES && !r->head.chunked)
		length = r->head.content_length;
	if (!s->large_take(s->arg, length, &taken))
		return FAIL(BUSY, "too many large bodies in flight");
	c->large_bytes = taken;
	return OK;
}

static void
give_large(struct conn *c, uint64_t bytes)
{
	const struct http_settings *s = &c->server->set;

	if (bytes > 0)
		s->large_give(s->arg, bytes);
	c->large_bytes -= bytes;
}

void
request_shrink_large(struct conn *c, const struct http_reply *reply)
{
	const struct http_route *route = c->req->pub.route;
	uint64_t length = reply->body.len;

	if (route == NULL || !route->handler->large_reply)
		return;
	if (reply->stream != NULL && !reply->stream->has_length)
		return;
	if (reply->stream != NULL)
		length = reply->stream->length;
	if (c->req->head_only)
		length = 0;
	give_large(c, c->large_bytes - MIN(c->large_bytes, length));
}

/* In place of the handler. */
static void
answer_err(struct conn *c, struct err e, bool close)
{
	struct http_reply reply = {
		.status = (uint16_t)err_status(e),
		.content_type = SLICE("application/json"),
		.close = close,
	};

	reply.retry_after_secs = err_retry_secs(e);
	reply.body = reply_envelope(&c->req->pub.arena, err_code(e),
	    e.what[0] == '\0' ? err_text(e) : e.what);
	reply_prepare(c, &reply);
	conn_enter(c, CONN_WRITE);
}

static struct http_match
find_route(struct conn *c)
{
	const struct http_settings *s = &c->server->set;
	struct http_head *head = &c->req->pub.head;
	struct http_match match;

	if (c->req->head_only)
		head->method = HTTP_GET;
	match = s->router(s->arg, head);
	if (c->req->head_only)
		head->method = HTTP_HEAD;
	return match;
}

void
request_begin(struct conn *c)
{
	struct http_request *r = &c->req->pub;
	struct http_match match;
	struct err e;

	start_anew(c);
	if (c->server->draining) {
		request_refuse(c, FAIL(UNAVAILABLE, "worker is draining"));
		return;
	}
	match = find_route(c);
	r->route = match.route;
	if (match.route == NULL) {
		no_route(c, match.allow);
		return;
	}
	e = take_large(c);
	if (err_is(e)) {
		answer_err(c, e, false);
		return;
	}
	e = body_prepare(c);
	if (err_is(e)) {
		request_refuse(c, e);
		return;
	}
	conn_enter(c, CONN_READ_BODY);
	c->begun = true;
	c->owes_reply = true;
	c->inflight++;
	r->route->handler->begin(r);
}

void
request_refuse(struct conn *c, struct err e)
{
	if (c->req == NULL) {
		c->req = request_take(c->server);
		if (c->req == NULL) {
			conn_enter(c, CONN_DRAIN);
			return;
		}
		c->req->pub.conn = c;
		c->req->pub.head.method = HTTP_OTHER;
		c->req->pub.head.minor = 1;
		c->req->pub.head.request_id.len = 0;
	}
	/* Of a request that was not begun there is only the head, if that. */
	if (c->state == CONN_READ_HEAD && c->req->pub.id.len == 0)
		start_anew(c);
	answer_err(c, e, true);
	c->lingers = true;
}

void
request_overdue(struct conn *c)
{
	struct http_request *r = &c->req->pub;

	request_refuse(c, FAIL(TIMED_OUT,
	    "not done within the deadline of this route"));
	c->lingers = false;	/* all that came was read */
	if (r->route->handler->gone != NULL)
		r->route->handler->gone(r);
}

static void
settle_debt(struct conn *c)
{
	MUST(c->owes_reply);
	c->owes_reply = false;
	c->inflight--;
}

void
request_body_broken(struct conn *c)
{
	struct http_request *r = &c->req->pub;

	settle_debt(c);
	r->body_broken = true;
	if (r->route->handler->gone != NULL)
		r->route->handler->gone(r);
}

void
request_finish(struct conn *c, bool sent)
{
	struct request *r = c->req;
	const struct http_settings *s = &c->server->set;
	struct http_sample sample = {
		.route = r->pub.route == NULL ? "unknown" : r->pub.route->name,
		.method = r->pub.head.method,
		.status = c->head_sent ? r->status : 0,
		.duration_ns = loop_now_ns(c->server->loop) - r->pub.began_ns,
	};

	MUST(!c->owes_reply);
	stream_finish(r, sent && c->stream_ended);
	give_large(c, c->large_bytes);
	if (s->sample != NULL)
		s->sample(s->arg, &sample);
	if (c->begun && r->pub.route->handler->finish != NULL)
		r->pub.route->handler->finish(&r->pub);
	body_free(c);
	if (c->in_at == c->in_len)
		conn_drop_input(c);
	r->pub.id.len = 0;
	c->req = NULL;
	c->server->active_count--;
	request_give(c->server, r);
}

/* --- what handlers call --- */

/* Nothing of the request is needed any more but its reply: a slow reader must
 * not hold a pooled buffer. */
static void
release_input(struct conn *c, const struct http_reply *reply)
{
	if (!c->in_pooled)
		return;
	if (c->in_at == c->in_len)
		conn_drop_input(c);
	else if (reply->stream != NULL || loop_bufs_low(c->server->loop))
		(void)!conn_own_input(c, 0);
}

void
http_reply(struct http_request *pub, const struct http_reply *reply)
{
	struct conn *c = pub->conn;

	settle_debt(c);
	if (c->answered || c->broken) {
		/* Too late: we have answered ourselves, or nobody listens. */
		if (reply->stream != NULL)
			reply->stream->close(reply->stream, false);
		c->answered = true;
	} else {
		reply_prepare(c, reply);
		release_input(c, reply);
	}
	conn_wake(c);
}

void
http_reply_json(struct http_request *r, uint16_t status, struct slice body)
{
	struct http_reply reply = { .status = status, .body = body,
		.content_type = SLICE("application/json") };

	http_reply(r, &reply);
}

/* A full disk must not fill the log as well. */
static void
log_reply(struct http_request *r, struct err e)
{
	struct http_server *h = r->conn->server;
	uint64_t second = loop_now_ns(h->loop) / NS_PER_SEC;
	enum log_level level = LOG_WARN;

	if (err_status(e) < 500 || e.kind == ERR_BUSY ||
	    e.kind == ERR_BACKLOG || e.kind == ERR_NO_MEMORY ||
	    e.kind == ERR_UNSUPPORTED)
		level = LOG_DEBUG;
	else if (e.kind == ERR_CORRUPT || e.kind == ERR_INTERNAL)
		level = LOG_ERROR;
	if (!log_wants(level))
		return;
	if (second != h->log_second) {
		if (h->log_left_out > 0)
			log_warn("more requests failed left_out=%u",
			    h->log_left_out);
		h->log_second = second;
		h->log_count = h->log_left_out = 0;
	}
	if (h->log_count++ >= LOG_LINES_A_SECOND) {
		h->log_left_out++;
		return;
	}
	log_err(level, e, "request failed route=%s status=%d id=\"%.*s\"",
	    r->route->name, err_status(e), (int)r->id.len, r->id.ptr);
}

void
http_reply_err_as(struct http_request *r, struct err e, const char *code,
    uint32_t retry_after_secs)
{
	struct http_reply reply = {
		.status = (uint16_t)err_status(e),
		.content_type = SLICE("application/json"),
		.retry_after_secs = retry_after_secs,
	};
	static const struct http_header challenge = {
	    { "WWW-Authenticate", 16 }, { "Bearer", 6 } };
	const char *message = e.what;

	MUST(err_is(e));
	log_reply(r, e);
	if (e.kind == ERR_UNAUTHORIZED) {
		reply.headers = &challenge;
		reply.header_count = 1;
	}
	/* What failed inside is for the log, with what it means before it. */
	if (message[0] == '\0')
		message = err_text(e);
	else if (reply.status >= 500 && e.kind != ERR_BUSY &&
	    e.kind != ERR_BACKLOG && e.kind != ERR_UNAVAILABLE)
		message = arena_printf(&r->arena, "%s: %s", err_text(e),
		    e.what);
	reply.body = reply_envelope(&r->arena, code == NULL ? err_code(e) :
	    code, message);
	http_reply(r, &reply);
}

void
http_reply_err(struct http_request *r, struct err e)
{
	http_reply_err_as(r, e, NULL, err_retry_secs(e));
}

void
http_hold(struct http_request *r)
{
	struct conn *c = r->conn;

	MUST(c->state == CONN_READ_BODY && !c->paused && c->body_decoded == 0);
	c->paused = true;
	conn_deadline(c, UINT64_MAX);
}

void
http_resume(struct http_request *r)
{
	struct conn *c = r->conn;

	MUST(c->paused);
	c->paused = false;
	buf_consume(&c->body, c->body_decoded);
	c->body_decoded = 0;
	conn_wake(c);
}

void
http_stream_ready(struct http_request *r)
{
	struct conn *c = r->conn;

	MUST(c->stream_waits);
	c->stream_waits = false;
	c->inflight--;
	conn_deadline(c, loop_now_ns(c->server->loop) +
	    c->server->set.write_idle_timeout_ns);
	conn_wake(c);
}
