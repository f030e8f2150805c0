#include "common/base.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"

#include "worker/http/conn.h"

/*
 * Admission. Over connections_max a connection is told so and closed, which a
 * balancer understands better than a queue that does not move. Out of
 * descriptors nothing can be told: accepting pauses, since the listening
 * socket stays ready and the loop would spin.
 */

static const char full_text[] =
    "HTTP/1.1 503 Service Unavailable\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 70\r\n"
    "Retry-After: 1\r\n"
    "Connection: close\r\n"
    "\r\n"
    "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"too many connections "
    "here\"}}";

static void
event(struct http_server *h, enum http_event which)
{
	if (h->set.event != NULL)
		h->set.event(h->set.arg, which);
}

static void
pause_accepting(struct acceptor *a, int32_t os)
{
	struct http_server *h = a->server;
	uint64_t now = loop_now_ns(h->loop);

	event(h, HTTP_EVENT_ACCEPT_PAUSED);
	if (a->warned_ns == 0 || now - a->warned_ns > 10 * NS_PER_SEC) {
		struct err e = { ERR_BUSY, os, "accept" };

		log_err(LOG_WARN, e, "cannot accept connections, pausing "
		    "connections=%u", h->conn_count);
		a->warned_ns = now;
	}
	timer_set(loop_timers(h->loop), &a->pause, now +
	    h->set.accept_pause_ns);
}

static void
accept_done(struct op *op, int32_t res)
{
	struct acceptor *a = CONTAINER_OF(op, struct acceptor, op);
	struct http_server *h = a->server;

	if (res < 0 && a->leaving) {
		a->fd = -1;
		a->leaving = false;
	} else if (res < 0 && a->again) {
		a->again = false;
		loop_accept(h->loop, op, a->fd);
	} else if (res < 0) {
		pause_accepting(a, -res);
	} else if (h->conn_count >= h->set.connections_max) {
		event(h, HTTP_EVENT_REFUSED_FULL);
		(void)send(res, full_text, sizeof(full_text) - 1,
		    MSG_DONTWAIT | MSG_NOSIGNAL);
		loop_close(h->loop, res);
	} else {
		conn_start(h, res);
	}
}

static void
pause_over(struct timer *t)
{
	struct acceptor *a = CONTAINER_OF(t, struct acceptor, pause);

	loop_accept(a->server->loop, &a->op, a->fd);
}

static struct acceptor *
find(struct http_server *h, int fd)
{
	for (size_t i = 0; i < ACCEPTORS_MAX; i++) {
		struct acceptor *a = &h->acceptors[i];

		if (a->server != NULL && a->fd == fd && !a->leaving)
			return a;
	}
	return NULL;
}

void
http_listen(struct http_server *h, int fd)
{
	struct acceptor *a = NULL;
	int one = 1;

	MUST(fd >= 0);
	if (h->draining || find(h, fd) != NULL)
		return;
	for (size_t i = 0; i < ACCEPTORS_MAX && a == NULL; i++) {
		if (h->acceptors[i].server == NULL || h->acceptors[i].fd < 0)
			a = &h->acceptors[i];
	}
	MUST(a != NULL);
	*a = (struct acceptor){ .server = h, .fd = fd,
		.op.done = accept_done };
	timer_init(&a->pause, pause_over);
	/* What is accepted inherits it: replies in pieces must not wait. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	loop_accept(h->loop, &a->op, fd);
}

void
http_unlisten(struct http_server *h, int fd)
{
	struct acceptor *a = find(h, fd);

	if (a == NULL)
		return;
	if (a->pause.armed) {
		timer_cancel(loop_timers(h->loop), &a->pause);
		a->fd = -1;
	} else {
		a->leaving = true;
		loop_cancel(h->loop, &a->op);
	}
}

void
http_nudge(struct http_server *h, int fd)
{
	struct acceptor *a = find(h, fd);

	/* A pause has its reason, and its own end. */
	if (a == NULL || a->pause.armed || a->again)
		return;
	a->again = true;
	loop_cancel(h->loop, &a->op);
}
