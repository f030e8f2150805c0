#include "common/base.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/log.h"

#include "worker/http/conn.h"

typedef enum conn_next step_fn(struct conn *);

static step_fn idle, read_head, handle, write_reply, linger, drain;

static step_fn *const conn_steps[] = {
#define X(state, step, wait, timeout) step,
	CONN_STATES(X)
#undef X
};

static const char *const state_names[] = {
#define X(state, step, wait, timeout) #state,
	CONN_STATES(X)
#undef X
};

static uint64_t
timeout_of(const struct http_settings *s, enum conn_state state)
{
	const uint64_t timeouts[] = {
#define X(state, step, wait, timeout) timeout,
		CONN_STATES(X)
#undef X
	};

	return timeouts[state];
}

/* --- states and deadlines --- */

void
conn_event(struct conn *c, enum http_event event)
{
	const struct http_settings *s = &c->server->set;

	if (s->event != NULL)
		s->event(s->arg, event);
}

/* Deadlines move with every request, mostly to later: then the timer stays
 * where it is and looks again when it fires. */
void
conn_deadline(struct conn *c, uint64_t at_ns)
{
	c->deadline_ns = at_ns;
	if (at_ns != UINT64_MAX &&
	    (!c->timer.armed || at_ns < c->timer.deadline_ns))
		timer_set(loop_timers(c->server->loop), &c->timer, at_ns);
}

void
conn_enter(struct conn *c, enum conn_state state)
{
	uint64_t timeout = timeout_of(&c->server->set, state);

	MUST(state < CONN_STATE_COUNT);
	log_debug("connection fd=%d from=%s to=%s", c->fd,
	    state_names[c->state], state_names[state]);
	c->state = (uint8_t)state;
	c->timed_out = false;
	if (state == CONN_HANDLE && c->req->pub.route != NULL)
		timeout = c->req->pub.route->deadline_ns;
	if (state == CONN_WRITE && c->server->draining)
		timeout = c->server->set.shutdown_response_idle_ns;
	if (state == CONN_IDLE && (c->server->draining || c->server->announced))
		timeout = c->server->set.drain_idle_ns;
	conn_deadline(c, timeout == 0 ? UINT64_MAX :
	    loop_now_ns(c->server->loop) + timeout);
	if (state == CONN_LINGER)
		(void)shutdown(c->fd, SHUT_WR);
}

static void
free_conn(struct conn *c)
{
	struct http_server *h = c->server;

	MUST(c->req == NULL);
	timer_cancel(loop_timers(h->loop), &c->timer);
	conn_drop_input(c);
	loop_close(h->loop, c->fd);
	list_remove(&c->link);
	h->conn_count--;
	conn_event(c, HTTP_EVENT_CLOSED);
	free(c);
}

static void
run(struct conn *c)
{
	enum conn_next next;

	MUST(!c->running);
	c->running = true;
	do {
		MUST(c->state < CONN_STATE_COUNT);
		next = conn_steps[c->state](c);
	} while (next == CONN_AGAIN);
	c->running = false;

	if (next == CONN_WAIT) {
		MUST(c->inflight > 0);	/* else nothing would ever wake it */
	} else {
		MUST(c->inflight == 0);	/* the kernel may still write to it */
		free_conn(c);
	}
}

/* --- promises that come home --- */

static void
wake_done(struct op *op, int32_t res)
{
	struct conn *c = CONTAINER_OF(op, struct conn, wake_op);

	(void)res;
	c->inflight--;
	run(c);
}

void
conn_wake(struct conn *c)
{
	if (c->running || c->wake_op.in_flight)
		return;
	c->inflight++;
	loop_later(c->server->loop, &c->wake_op, 0);
}

static void
received(struct conn *c, size_t n)
{
	switch (c->target) {
	case INTO_POOLED:
		c->in = c->recv_op.bytes;
		c->in_at = 0;
		c->in_len = n;
		c->in_room = loop_buf_bytes(c->server->loop);
		c->in_pooled = true;
		c->scanned = 0;
		/* Few are left: those who have data come first, not those who
		 * are being served. Without memory it stays as it is. */
		if (loop_bufs_low(c->server->loop))
			(void)!conn_own_input(c, n);
		break;
	case INTO_INPUT:
		c->in_len += n;
		break;
	case INTO_BODY:
		c->body.len += n;
		c->body_raw += n;
		c->body_left -= MIN(c->body_left, (uint64_t)n);
		c->waited_ns += loop_now_ns(c->server->loop) -
		    c->wait_began_ns;
		break;
	}
}

static void
recv_done(struct op *op, int32_t res)
{
	struct conn *c = CONTAINER_OF(op, struct conn, recv_op);

	c->inflight--;
	if (res > 0)
		received(c, (size_t)res);
	else if (res == 0)
		c->ended = true;
	else if (res != -ECANCELED)
		c->ended = c->broken = true;
	run(c);
}

static void
send_done(struct op *op, int32_t res)
{
	struct conn *c = CONTAINER_OF(op, struct conn, send_op);
	size_t n = res < 0 ? 0 : (size_t)res;

	c->inflight--;
	if (res < 0)
		c->broken = true;
	if (c->continue_sending) {
		c->continue_sending = false;
		c->broken |= n < c->send_op.len;
		n = 0;
	}
	while (n > 0) {
		struct iovec *v = &c->iov[c->iov_at];
		size_t part = MIN(n, v->iov_len);

		v->iov_base = (char *)v->iov_base + part;
		v->iov_len -= part;
		n -= part;
		if (v->iov_len == 0)
			c->iov_at++;
	}
	if (c->state == CONN_WRITE && !c->timed_out)
		conn_deadline(c, loop_now_ns(c->server->loop) +
		    (c->server->draining ?
		    c->server->set.shutdown_response_idle_ns :
		    c->server->set.write_idle_timeout_ns));
	run(c);
}

static void
deadline_passed(struct timer *t)
{
	struct conn *c = CONTAINER_OF(t, struct conn, timer);
	struct loop *l = c->server->loop;

	if (c->deadline_ns == UINT64_MAX)
		return;
	if (loop_now_ns(l) < c->deadline_ns) {
		timer_set(loop_timers(l), &c->timer, c->deadline_ns);
		return;
	}
	c->timed_out = true;
	c->deadline_ns = UINT64_MAX;
	loop_cancel(l, &c->recv_op);
	loop_cancel(l, &c->send_op);
	conn_wake(c);
}

/* --- what steps start --- */

void
conn_recv(struct conn *c, enum conn_target target, void *bytes, size_t len)
{
	c->target = target;
	c->inflight++;
	if (target == INTO_POOLED)
		loop_recv_pooled(c->server->loop, &c->recv_op, c->fd);
	else
		loop_recv(c->server->loop, &c->recv_op, c->fd, bytes, len);
}

void
conn_send(struct conn *c)
{
	struct iovec *v = &c->iov[c->iov_at];

	MUST(c->iov_at < c->iov_count);
	c->inflight++;
	if (c->iov_count - c->iov_at == 1)
		loop_send(c->server->loop, &c->send_op, c->fd, v->iov_base,
		    v->iov_len);
	else
		loop_sendv(c->server->loop, &c->send_op, c->fd, v,
		    c->iov_count - c->iov_at);
}

void
conn_drop_input(struct conn *c)
{
	if (c->in_pooled)
		loop_buf_release(c->server->loop, c->in);
	else
		free(c->in);
	c->in = NULL;
	c->in_at = c->in_len = c->in_room = c->scanned = 0;
	c->in_pooled = false;
}

bool
conn_own_input(struct conn *c, size_t room)
{
	size_t unused = c->in_len - c->in_at;
	size_t scanned = c->scanned;
	char *p;

	room = MAX(room, unused);
	p = malloc(room);
	if (p == NULL)
		return false;
	if (unused > 0)
		memcpy(p, c->in + c->in_at, unused);
	conn_drop_input(c);
	c->in = p;
	c->in_len = unused;
	c->in_room = room;
	c->scanned = scanned;
	return true;
}

/* --- steps --- */

static enum conn_next
idle(struct conn *c)
{
	if (c->in_at < c->in_len) {
		conn_enter(c, CONN_READ_HEAD);
		return CONN_AGAIN;
	}
	if (c->recv_op.in_flight)
		return CONN_WAIT;
	if (c->ended || c->timed_out) {
		conn_enter(c, CONN_DRAIN);
		return CONN_AGAIN;
	}
	conn_drop_input(c);
	conn_recv(c, INTO_POOLED, NULL, 0);
	return CONN_WAIT;
}

/* A part of a head is there. */
static enum conn_next
read_more_head(struct conn *c)
{
	size_t room = c->server->set.head_bytes_max + 2;

	if (c->ended) {
		conn_enter(c, CONN_DRAIN);
		return CONN_AGAIN;
	}
	if (c->timed_out) {
		conn_event(c, HTTP_EVENT_HEAD_TIMEOUT);
		request_refuse(c, FAIL(SLOW_PEER, "request head timeout"));
		return CONN_AGAIN;
	}
	if ((c->in_pooled || c->in_at > 0 || c->in_room < room) &&
	    !conn_own_input(c, room)) {
		conn_enter(c, CONN_DRAIN);
		return CONN_AGAIN;
	}
	conn_recv(c, INTO_INPUT, c->in + c->in_len, c->in_room - c->in_len);
	return CONN_WAIT;
}

static enum conn_next
read_head(struct conn *c)
{
	struct request *r;
	struct err e;
	size_t head_len;

	if (c->recv_op.in_flight)
		return CONN_WAIT;
	r = request_take(c->server);
	if (r == NULL) {
		conn_enter(c, CONN_DRAIN);
		return CONN_AGAIN;
	}
	e = parse_head(c->in + c->in_at, c->in_len - c->in_at,
	    c->server->set.head_bytes_max, &c->scanned, &r->pub.head,
	    &head_len);
	if (!err_is(e) && head_len == 0) {
		request_give(c->server, r);
		return read_more_head(c);
	}
	c->scanned = 0;
	c->req = r;
	r->pub.conn = c;
	if (err_is(e)) {
		r->pub.head.method = HTTP_OTHER;
		r->pub.head.request_id.len = 0;
		conn_event(c, HTTP_EVENT_BAD_HEAD);
		request_refuse(c, e);
		return CONN_AGAIN;
	}
	c->in_at += head_len;
	request_begin(c);
	return CONN_AGAIN;
}

static enum conn_next
handle(struct conn *c)
{
	if (c->answered) {
		conn_enter(c, CONN_WRITE);
		return CONN_AGAIN;
	}
	if (!c->timed_out)
		return CONN_WAIT;
	request_overdue(c);
	return CONN_AGAIN;
}

static enum conn_next
written(struct conn *c)
{
	/* Past its deadline the handler still has to give its reply. */
	if (!c->owes_reply)
		request_finish(c, true);
	if (c->must_close)
		conn_enter(c, c->lingers ? CONN_LINGER : CONN_DRAIN);
	else
		conn_enter(c, CONN_IDLE);
	return CONN_AGAIN;
}

static enum conn_next
write_reply(struct conn *c)
{
	struct request *r = c->req;

	if (c->send_op.in_flight || c->stream_waits)
		return CONN_WAIT;
	if (c->timed_out) {
		conn_event(c, c->server->draining ?
		    HTTP_EVENT_SHUTDOWN_IDLE_RESPONSE :
		    HTTP_EVENT_WRITE_TIMEOUT);
		c->broken = true;
	}
	if (c->broken) {
		conn_enter(c, CONN_DRAIN);
		return CONN_AGAIN;
	}
	/* The first piece goes with the head. */
	if (r->stream != NULL && !c->stream_ended &&
	    (!c->head_sent || c->iov_at == c->iov_count)) {
		enum conn_next next = stream_fill(c);

		if (next == CONN_WAIT || c->broken)
			return next;
	}
	if (c->iov_at == c->iov_count)
		return written(c);
	c->head_sent = true;
	conn_send(c);
	return CONN_WAIT;
}

static enum conn_next
linger(struct conn *c)
{
	if (c->recv_op.in_flight)
		return CONN_WAIT;
	conn_drop_input(c);
	if (c->ended || c->timed_out) {
		conn_enter(c, CONN_DRAIN);
		return CONN_AGAIN;
	}
	conn_recv(c, INTO_POOLED, NULL, 0);
	return CONN_WAIT;
}

static enum conn_next
drain(struct conn *c)
{
	loop_cancel(c->server->loop, &c->recv_op);
	loop_cancel(c->server->loop, &c->send_op);
	if (c->inflight > 0)
		return CONN_WAIT;
	if (c->req != NULL)
		request_finish(c, false);
	return CONN_DONE;
}

/* --- from outside --- */

void
conn_start(struct http_server *h, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		loop_close(h->loop, fd);
		return;
	}
	c->server = h;
	c->fd = fd;
	c->recv_op.done = recv_done;
	c->send_op.done = send_done;
	c->wake_op.done = wake_done;
	timer_init(&c->timer, deadline_passed);
	list_append(&h->conns, &c->link);
	h->conn_count++;
	conn_event(c, HTTP_EVENT_ACCEPTED);
	conn_enter(c, CONN_IDLE);
	run(c);
}

void
conn_close_idle(struct conn *c)
{
	uint64_t now = loop_now_ns(c->server->loop);

	if (c->state == CONN_IDLE)
		conn_deadline(c, now);
	else if (c->state == CONN_READ_HEAD)
		conn_deadline(c, now + c->server->set.drain_idle_ns);
}

void
conn_cut(struct conn *c)
{
	if (c->state != CONN_HANDLE && c->state != CONN_DRAIN)
		conn_deadline(c, loop_now_ns(c->server->loop));
}

void
conn_drain(struct conn *c)
{
	const struct http_settings *s = &c->server->set;
	uint64_t now = loop_now_ns(c->server->loop);

	/* A request may be on its way: for a moment it still gets its 503. */
	if (c->state == CONN_IDLE)
		conn_deadline(c, now + s->drain_idle_ns);
	else if (c->state == CONN_WRITE && !c->stream_waits)
		conn_deadline(c, now + s->shutdown_response_idle_ns);
}
