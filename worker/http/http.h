#ifndef MEMWALD_WORKER_HTTP_HTTP_H
#define MEMWALD_WORKER_HTTP_HTTP_H

/*
 * http - the server as its users see it: sockets go in, requests come out,
 * replies go back. Knows nothing of stores.
 *
 * For each request the router maps the parsed head to a route; the route's
 * handler is called:
 *
 *	begin(r)		the head is there, the body is not; before
 *				"100 Continue", so that a refusal is seen first
 *	body(r, piece, last)	the body, in order; not with HTTP_BODY_NONE
 *
 * and answers, now or in a later turn, with exactly one http_reply or
 * http_reply_err: from begin (the rest of the body is then not read), from
 * body, or afterwards. Then:
 *
 *	finish(r)		the last call, whatever happened: give back
 *				what r->user holds. Always comes after the
 *				reply was given and its stream closed.
 *
 * A handler is never cancelled. Past the route's deadline the client gets a
 * 503, gone(r) says so, and the handler still gives its reply, which goes
 * nowhere. A body that is cut off, too slow, too long or malformed never comes
 * to its last piece: gone(r) comes instead, with r->body_broken, then
 * finish(r), and no reply must be given. That a client has left during the
 * handling is noticed when the reply cannot be sent.
 *
 * Bodies. With HTTP_BODY_WHOLE the body comes as one piece with last, up to
 * the route's limit. With HTTP_BODY_PIECES it comes as one piece with last if
 * it is at most whole_body_bytes (256 KiB), without copying where it was
 * complete in the receive buffer; a longer one comes in pieces, and the first
 * without last tells the handler (a chunked one that ends little above that
 * may still come as one). Length over the limit: 413 before anything
 * is read. Pieces are never empty, except one last.
 *
 * Large bodies. A body that may come in pieces and the reply of a handler with
 * large_reply take their length from a budget before the body is read or the
 * handler begins; what does not fit is answered 503 at once. Where the length
 * is not known yet (chunked, a reply) large_take says what that takes; a reply
 * gives back what it does not need as soon as it is given, and the rest when
 * its last byte is with the socket.
 *
 * Lifetime:	head and a whole body are good until the reply is given; other
 *		pieces until body returns, or, when it returns HTTP_PAUSE, until
 *		http_resume. A reply's body, headers and stream must live until
 *		finish: in r->arena, or static. The arena is reset after finish;
 *		it is capped (arena_bytes_max), full is 413.
 * Locking:	all calls and callbacks on the loop's thread.
 * Errors:	what the peer does wrong is answered here; http_reply_err makes
 *		the envelope of the contract (1.3) from a struct err.
 */

#include "common/arena.h"
#include "common/base.h"
#include "common/err.h"
#include "common/loop.h"
#include "common/slice.h"

#include "worker/http/parse.h"
#include "worker/http/stream.h"

struct http_server;
struct http_request;

enum http_flow {
	HTTP_CONTINUE,		/* next piece when it is there */
	HTTP_PAUSE		/* no more before http_resume; keeps the piece */
};

struct http_handler {
	void (*begin)(struct http_request *);
	enum http_flow (*body)(struct http_request *, struct slice piece,
	    bool last);
	void (*gone)(struct http_request *);	/* may be NULL */
	void (*finish)(struct http_request *);	/* may be NULL */
	bool large_reply;		/* see "Large bodies" */
};

enum http_body { HTTP_BODY_NONE, HTTP_BODY_WHOLE, HTTP_BODY_PIECES };

struct http_route {
	const char *name;		/* template, for metrics and the log */
	const struct http_handler *handler;
	enum http_body body;
	uint64_t body_bytes_max;
	uint64_t deadline_ns;		/* from the last byte of the request
					 * to the reply; 0: none. Passed: 503,
					 * and the late reply goes nowhere */
};

/* What a router finds. */
struct http_match {
	const struct http_route *route;	/* NULL with allow NULL: 404 */
	const char *allow;		/* route NULL: 405 with this Allow */
};

struct http_request {
	struct http_head head;
	const struct http_route *route;
	struct arena arena;		/* reset after finish */
	void *user;			/* the handler's; NULL at begin */
	struct slice id;		/* X-Request-Id, sent back; for the log */
	bool body_broken;		/* see above: owe no reply */
	uint64_t began_ns;		/* when the head was complete */

	struct conn *conn;		/* http's own */
};

struct http_reply {
	uint16_t status;
	uint32_t retry_after_secs;	/* 0: no Retry-After */
	struct slice content_type;	/* empty with an empty body */
	struct slice body;
	struct stream *stream;		/* instead of body, or NULL */
	const struct http_header *headers;	/* more of them, or NULL */
	uint32_t header_count;
	bool close;			/* the connection, afterwards */
};

void http_reply(struct http_request *, const struct http_reply *);
/* 200, 201...: application/json; body in r->arena or static. */
void http_reply_json(struct http_request *, uint16_t status, struct slice body);
/* The envelope. Retry-After 1 with 503, 5 with 507. Logs it once: 5xx as a
 * warning with request id and route, others at debug. */
void http_reply_err(struct http_request *, struct err);
/* The same with a Retry-After and, unless NULL, a code of the handler's. */
void http_reply_err_as(struct http_request *, struct err, const char *code,
    uint32_t retry_after_secs);

/* Whether who asks is on this machine, and speaks for himself: what a proxy has
 * forwarded is not local. */
bool http_peer_is_local(const struct http_request *);
/* From begin: the body is not asked for ("100 Continue" is not sent) nor read
 * before http_resume or a reply, since whether it is wanted takes a while. */
void http_hold(struct http_request *);
/* After HTTP_PAUSE, once body has returned, or http_hold: next piece, please. */
void http_resume(struct http_request *);
/* After STREAM_WAIT, once pull has returned: pull again. */
void http_stream_ready(struct http_request *);

#define HTTP_LENGTH_UNKNOWN UINT64_MAX	/* large_take */

struct http_sample {
	const char *route;		/* template or "unknown" */
	enum http_method method;
	uint16_t status;		/* 0: the client left before a reply */
	uint64_t duration_ns;		/* last byte of the head to last byte
					 * of the reply */
};

#define HTTP_EVENTS(X) \
	X(ACCEPTED) X(CLOSED) X(REFUSED_FULL) X(ACCEPT_PAUSED) \
	X(HEAD_TIMEOUT) X(BODY_TIMEOUT) X(WRITE_TIMEOUT) \
	X(SHUTDOWN_IDLE_RESPONSE) X(BAD_HEAD) X(BODY_CUT)

enum http_event {
#define X(name) HTTP_EVENT_##name,
	HTTP_EVENTS(X)
#undef X
	HTTP_EVENT_COUNT
};

/* Filled by the caller; http_settings_default first. */
struct http_settings {
	/* HEAD is asked for as GET. Called before the body is there. */
	struct http_match (*router)(void *arg, const struct http_head *);
	void (*sample)(void *arg, const struct http_sample *);	/* or NULL */
	void (*event)(void *arg, enum http_event);		/* or NULL */
	/* Memory of bodies in flight, beyond receive buffers; NULL: no bound.
	 * Of a body in pieces also what its handler has got so far. reserve
	 * answers false: 503 and close. */
	bool (*body_reserve)(void *arg, uint64_t bytes);
	void (*body_release)(void *arg, uint64_t bytes);
	/* Large bodies, both ways; NULL: no bound. If true, *taken is what. */
	bool (*large_take)(void *arg, uint64_t length, uint64_t *taken);
	void (*large_give)(void *arg, uint64_t bytes);
	/* Asked with each reply: does it end its connection? NULL: no. */
	bool (*reply_closes)(void *arg);
	void *arg;

	const char *worker_name;	/* X-Memwald-Worker, or NULL */
	uint32_t connections_max;
	size_t head_bytes_max;
	size_t whole_body_bytes;
	size_t arena_bytes_max;
	uint64_t head_timeout_ns;	/* first byte to last of a head */
	uint64_t keep_alive_timeout_ns;	/* idle; longer than balancers' 60 s */
	uint64_t body_idle_timeout_ns;
	uint64_t body_rate_min;		/* bytes a second, averaged, after */
	uint64_t body_rate_grace_ns;	/* this much time waited for the peer */
	uint64_t write_idle_timeout_ns;
	uint64_t drain_timeout_ns;	/* lingering close */
	uint64_t drain_idle_ns;		/* idle ones, after http_drain */
	uint64_t shutdown_response_idle_ns;	/* contract 6.9 */
	uint64_t accept_pause_ns;	/* after EMFILE */
};

void http_settings_default(struct http_settings *);

/* Made after fork. Settings are copied. */
struct err http_create(struct loop *, const struct http_settings *,
    struct http_server **) MUST_CHECK;
/* After http_drain has come to 0 connections. */
void http_destroy(struct http_server *);

/* Accepts from a listening socket (non-blocking, inherited; not closed here);
 * several may be added: another slot's, while that slot is empty. */
void http_listen(struct http_server *, int fd);
/* Stops. No-op if it does not listen there. */
void http_unlisten(struct http_server *, int fd);
/* Accepts what waits there, though nobody woke us; see door.c. */
void http_nudge(struct http_server *, int fd);

/*
 * Leaving has two steps. http_announce: go on, but say "Connection: close" in
 * every reply, and close after it. http_drain: stop accepting, answer what
 * still comes with 503, close idle connections after drain_idle_ns, let
 * admitted handlers finish, and close who does not take his reply within
 * shutdown_response_idle_ns. All are gone when http_connections is 0.
 */
void http_announce(struct http_server *);
/* Whether an accept is still in flight, a cancelled one, too. */
bool http_listening(const struct http_server *);
/* Closes who has sent nothing since his last request; who is in the middle of a
 * head gets drain_idle_ns. Others are left alone. */
void http_close_idle(struct http_server *);
/* Waits for no peer any more: bodies that are still to come are answered 503,
 * replies that are not taken are cut off. Handlers finish. */
void http_cut(struct http_server *);
void http_drain(struct http_server *);

uint32_t http_connections(const struct http_server *);
uint32_t http_requests_active(const struct http_server *);
/* Requests whose head was complete before that time of clock_mono_ns. */
uint32_t http_requests_older(const struct http_server *, uint64_t before_ns);

#endif
