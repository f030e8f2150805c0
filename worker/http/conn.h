#ifndef MEMWALD_WORKER_HTTP_CONN_H
#define MEMWALD_WORKER_HTTP_CONN_H

/*
 * conn - one connection: a state machine that reads a request, has it handled,
 * and writes the reply, one request after the other. Private to http/.
 *
 * conn_run takes steps until one has to wait. Every promise to call a
 * connection back counts in inflight: receive, send, a handler that owes its
 * reply, a stream that will be ready, a step asked for (wake). It is freed at
 * 0 only, since the kernel or the handler still hold its memory before.
 *
 * Memory. An idle connection holds none but its own struct. What is received
 * comes in a buffer of the loop's pool; a request that is complete there is
 * handled where it lies. What is incomplete moves out at once, so that slow
 * peers do not hold pooled buffers: a part of a head into a buffer of its own
 * (in), and of a request with a part of its body the head into the request's
 * arena and the body into a buffer of its own (body).
 *
 * Lifetime:	from conn_start until its last promise has come home.
 * Locking:	the loop's thread.
 */

#include "common/base.h"
#include "common/buf.h"
#include "common/list.h"
#include "common/loop.h"
#include "common/timer.h"

#include <sys/uio.h>

#include "worker/http/chunk.h"
#include "worker/http/http.h"

#define REPLY_HEAD_MAX	1024
#define ACCEPTORS_MAX	260	/* a slot each, and some to spare */

/* state, step, what it waits for, its timeout in settings s (0: none) */
#define CONN_STATES(X) \
	X(IDLE, idle, "a request", s->keep_alive_timeout_ns) \
	X(READ_HEAD, read_head, "a request head", s->head_timeout_ns) \
	X(READ_BODY, body_read, "the rest of the body", \
	    s->body_idle_timeout_ns) \
	X(HANDLE, handle, "a commit or a pool job", 0) \
	X(WRITE, write_reply, "the socket, or the source", \
	    s->write_idle_timeout_ns) \
	X(LINGER, linger, "the peer to close", s->drain_timeout_ns) \
	X(DRAIN, drain, "its operations to come home", 0)

enum conn_state {
#define X(state, step, wait, timeout) CONN_##state,
	CONN_STATES(X)
#undef X
	CONN_STATE_COUNT
};

enum conn_next { CONN_AGAIN, CONN_WAIT, CONN_DONE };

/* How a body comes to its handler. */
enum body_plan {
	BODY_IN_PLACE,		/* all of it is in the input; or there is none */
	BODY_GATHER,		/* into one piece */
	BODY_PIECES
};

/* Where a receive in flight puts what comes. */
enum conn_target { INTO_POOLED, INTO_INPUT, INTO_BODY };

struct conn {
	struct http_server *server;
	struct list link;		/* server->conns */
	int fd;
	uint8_t state;			/* conn_enter alone writes it */
	uint32_t inflight;
	struct op recv_op, send_op, wake_op;
	struct timer timer;
	uint64_t deadline_ns;		/* the timer may fire earlier */

	bool running;
	bool ended;			/* the peer sends no more */
	bool broken;			/* nor can anything be sent to it */
	bool timed_out;			/* by the deadline of this state */
	bool must_close;		/* after this reply */
	bool lingers;			/* input is unread: closing would be
					 * a reset, and the reply lost */
	enum conn_target target;	/* of the receive in flight */

	/* Received, not yet used: in[in_at, in_len). Before in_at lies the
	 * head of the request, unless it was moved out. */
	char *in;
	size_t in_at, in_len, in_room;
	bool in_pooled;
	size_t scanned;			/* by parse_head, from in_at */

	/* The request, from its head until its reply is sent. */
	struct request *req;
	bool begun;			/* begin was called, finish is due */
	bool owes_reply;		/* the handler; counts in inflight */
	bool answered;			/* there is a reply to write */
	bool paused;			/* the handler wants no more yet */
	bool continue_due;		/* "100 Continue" is still to be sent */
	bool continue_sending;
	bool body_done;			/* its last byte was delivered */
	enum body_plan plan;
	struct chunk chunk;
	uint64_t body_left;		/* not yet received; not if chunked */
	uint64_t body_raw;		/* received */
	uint64_t body_seen;		/* decoded */
	uint64_t body_kept;		/* of it by a handler, in pieces */
	struct buf body;		/* decoded bytes, then raw ones */
	size_t body_decoded;		/* so many are decoded */
	uint64_t reserved_bytes;	/* of the budget of bodies */
	uint64_t large_bytes;		/* of the budget of large ones */
	uint64_t waited_ns;		/* for the peer, in this body */
	uint64_t wait_began_ns;

	/* The reply: what of iov is not yet sent. */
	struct iovec iov[4];
	uint32_t iov_at, iov_count;
	bool head_sent;			/* or some of it */
	bool stream_waits;		/* counts in inflight */
	bool stream_ended;
};

/* What http knows of a request beyond what its handler sees. */
struct request {
	struct http_request pub;	/* first: one is cast to the other */
	struct request *next_free;
	char id_text[129];
	uint16_t status;
	bool head_only;			/* HEAD */
	bool chunked_reply;
	struct stream *stream;
	uint64_t stream_sent;
	struct buf piece;		/* of the stream */
	char chunk_line[24];
	size_t reply_head_len;
	char reply_head[REPLY_HEAD_MAX];
};

struct acceptor {
	struct http_server *server;
	struct op op;
	struct timer pause;
	int fd;				/* -1: free */
	bool leaving;
	bool again;			/* start anew when it ends */
	uint64_t warned_ns;
};

struct http_server {
	struct loop *loop;
	struct http_settings set;
	struct list conns;
	uint32_t conn_count;
	uint32_t active_count;		/* with a request */
	struct acceptor acceptors[ACCEPTORS_MAX];
	bool announced, draining, cutting;

	struct request *free_requests;	/* their arenas keep a block */
	uint32_t free_request_count;
	uint64_t id_seed, id_count;
	uint64_t log_second;		/* errors logged in this second */
	uint32_t log_count, log_left_out;

	uint64_t date_second;
	char date[32];			/* "Sun, 29 Nov 2026 17:40:01 GMT" */
};

/* conn.c */
void conn_start(struct http_server *, int fd);
/* Has it run soon; no-op from inside a step, which looks again anyway. */
void conn_wake(struct conn *);
void conn_enter(struct conn *, enum conn_state);
void conn_deadline(struct conn *, uint64_t at_ns);	/* UINT64_MAX: none */
void conn_recv(struct conn *, enum conn_target, void *bytes, size_t len);
void conn_send(struct conn *);			/* what is left of iov */
void conn_event(struct conn *, enum http_event);
/* Gives the input back; what is unused of it is lost. */
void conn_drop_input(struct conn *);
/* What is unused of the input moves to memory of its own, with room for so
 * many bytes in all; false without memory. */
bool conn_own_input(struct conn *, size_t room) MUST_CHECK;
/* The server leaves: hurries it if it is idle or writes. */
void conn_drain(struct conn *);
void conn_close_idle(struct conn *);
/* Its peer is waited for no more. */
void conn_cut(struct conn *);

/* request.c */
struct request *request_take(struct http_server *);
void request_give(struct http_server *, struct request *);
/* c->req has a head: routes it and calls begin. */
void request_begin(struct conn *);
/* The reply is known: what its length leaves of large_bytes is given back. */
void request_shrink_large(struct conn *, const struct http_reply *);
/* Answers in place of the handler; the connection closes afterwards. */
void request_refuse(struct conn *, struct err);
/* The same when the handler is late: it is told, and still owes its reply. */
void request_overdue(struct conn *);
/* The body will never be whole: tells the handler, who owes nothing now. */
void request_body_broken(struct conn *);
/* After the last byte of the reply, or when none can be sent. */
void request_finish(struct conn *, bool sent);

/* body.c */
/* Before begin: decides how the body comes and makes room for it. */
struct err body_prepare(struct conn *) MUST_CHECK;
enum conn_next body_read(struct conn *);
/* Drops an unwanted body that is all there; false if more is to come. */
bool body_skip(struct conn *);
void body_free(struct conn *);

/* reply.c */
/* Formats the head and points iov to it and the body. */
void reply_prepare(struct conn *, const struct http_reply *);
/* The envelope, or a shorter one where the arena is full. */
struct slice reply_envelope(struct arena *, const char *code,
    const char *message);

/* stream.c */
/* The next piece into iov. */
enum conn_next stream_fill(struct conn *);
void stream_finish(struct request *, bool complete);

#endif
