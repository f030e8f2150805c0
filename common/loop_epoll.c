#include "common/base.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/loop_backend.h"
#include "common/pool.h"

/*
 * epoll. Per descriptor there is at most one operation that reads and one that
 * writes. A socket is registered once, edge-triggered, when it first has to
 * wait; what epoll says about it is remembered, so that an operation that can
 * be done is done where it is started (its done function still waits for its
 * turn). Listening sockets and what is only watched (eventfd, signalfd) are
 * level-triggered while somebody waits for them, and taken out afterwards.
 * Files are for the pool.
 */

#define EVENTS_MAX	256
#define ACCEPTS_A_TURN	32

struct watch {
	struct op *in, *out;
	bool used;		/* by us since it was last closed */
	bool added;		/* to epoll */
	bool can_read, can_write;	/* for all we know */
	bool ended;		/* the peer's end may be waiting to be read */
};

struct epoll {
	int fd;
	struct watch *watches;	/* by descriptor */
	uint32_t watch_count;
	uint32_t *free_bufs;	/* the first loop->buf_free are free */
};

/* --- making --- */

static struct err
epoll_make(struct loop *l, const struct loop_settings *s)
{
	struct epoll *p = calloc(1, sizeof(*p));
	struct err e;

	(void)s;
	if (p == NULL)
		return FAIL(NO_MEMORY, "allocate an epoll loop");
	p->free_bufs = calloc(l->buf_count, sizeof(*p->free_bufs));
	if (p->free_bufs == NULL) {
		e = FAIL(NO_MEMORY, "allocate an epoll loop");
		goto out;
	}
	for (uint32_t i = 0; i < l->buf_count; i++)
		p->free_bufs[i] = i;
	p->fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->fd < 0) {
		e = FAIL_OS(UNAVAILABLE, "make an epoll descriptor");
		goto out;
	}
	l->state = p;
	return OK;
out:
	free(p->free_bufs);
	free(p);
	return e;
}

static void
epoll_destroy(struct loop *l)
{
	struct epoll *p = l->state;

	close(p->fd);
	free(p->watches);
	free(p->free_bufs);
	free(p);
}

/* The table grows with the highest descriptor; without it nothing can go on,
 * as with any memory of the process. */
static struct watch *
watch_of(struct epoll *p, int fd)
{
	struct watch *w;

	if ((uint32_t)fd >= p->watch_count) {
		uint32_t count = MAX((uint32_t)fd + 1, p->watch_count * 2);

		w = realloc(p->watches, count * sizeof(*w));
		MUST(w != NULL);
		memset(w + p->watch_count, 0,
		    (count - p->watch_count) * sizeof(*w));
		p->watches = w;
		p->watch_count = count;
	}
	w = &p->watches[fd];
	if (!w->used)
		*w = (struct watch){
			.used = true, .can_read = true, .can_write = true };
	return w;
}

static void
add(struct epoll *p, struct watch *w, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	if (w->added)
		return;
	MUST(epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &ev) == 0);
	w->added = true;
}

static void
add_socket(struct epoll *p, struct watch *w, int fd)
{
	add(p, w, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

static void
take_out(struct epoll *p, struct watch *w, int fd)
{
	if (w->added)
		MUST(epoll_ctl(p->fd, EPOLL_CTL_DEL, fd, NULL) == 0);
	*w = (struct watch){ 0 };
}

/* --- attempts: true if the operation has its result --- */

static bool
try_recv(struct loop *l, struct watch *w, struct op *op)
{
	struct epoll *p = l->state;
	ssize_t n;

	if (op->kind == OP_RECV_POOLED) {
		if (l->buf_free == 0) {
			w->in = NULL;
			op_queue_push(&l->buf_waiters, op);
			return false;
		}
		op->bytes = loop_buf_at(l, p->free_bufs[l->buf_free - 1]);
	}
	do {
		n = recv(op->fd, op->bytes, op->len, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		w->can_read = false;
		op->bytes = op->kind == OP_RECV_POOLED ? NULL : op->bytes;
		return false;
	}
	if (n > 0 && op->kind == OP_RECV_POOLED)
		l->buf_free--;
	/* Less than asked for: it is empty, and what comes is a new edge. But
	 * for the end of the peer there may have been one edge with the data. */
	if (n > 0 && (size_t)n < op->len && !w->ended)
		w->can_read = false;
	w->in = NULL;
	loop_finish(l, op, n < 0 ? -errno : (int32_t)n);
	return true;
}

static bool
try_send(struct loop *l, struct watch *w, struct op *op)
{
	struct msghdr m = { 0 };
	ssize_t n;

	do {
		if (op->kind == OP_SEND) {
			n = send(op->fd, op->bytes, op->len,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		} else {
			m.msg_iov = op->bytes;
			m.msg_iovlen = op->len;
			n = sendmsg(op->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		}
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		w->can_write = false;
		return false;
	}
	w->out = NULL;
	loop_finish(l, op, n < 0 ? -errno : (int32_t)n);
	return true;
}

static void
try_accept(struct loop *l, struct watch *w, struct op *op)
{
	struct epoll *p = l->state;

	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(op->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			loop_accepted(l, op, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			int32_t res = -errno;

			take_out(p, w, op->fd);
			loop_finish(l, op, res);
			return;
		}
	}
}

static int32_t
run_pwrite(struct op *op)
{
	while (op->written < op->len) {
		struct iovec iov = {
			(char *)op->bytes + op->written,
			op->len - op->written };
		ssize_t n = pwritev2(op->fd, &iov, 1,
		    (off_t)(op->offset + op->written), RWF_DSYNC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? -EIO : -errno;
		op->written += (uint32_t)n;
	}
	return (int32_t)op->written;
}

/* --- operations --- */

static void
start_in(struct loop *l, struct op *op)
{
	struct epoll *p = l->state;
	struct watch *w = watch_of(p, op->fd);

	MUST(w->in == NULL);
	w->in = op;
	if (op->kind == OP_ACCEPT || op->kind == OP_READABLE)
		add(p, w, op->fd, EPOLLIN);
	else if (!w->can_read || !try_recv(l, w, op))
		add_socket(p, w, op->fd);
}

static void
start_out(struct loop *l, struct op *op)
{
	struct epoll *p = l->state;
	struct watch *w = watch_of(p, op->fd);

	MUST(w->out == NULL);
	w->out = op;
	if (!w->can_write || !try_send(l, w, op))
		add_socket(p, w, op->fd);
}

static void
epoll_start(struct loop *l, struct op *op)
{
	switch ((enum op_kind)op->kind) {
	case OP_ACCEPT:
	case OP_READABLE:
	case OP_RECV:
	case OP_RECV_POOLED:
		start_in(l, op);
		break;
	case OP_SEND:
	case OP_SENDV:
		start_out(l, op);
		break;
	case OP_PWRITE:
		MUST(l->pool != NULL);
		op->in_flight = false;
		pool_submit_first(l->pool, op, run_pwrite);
		break;
	case OP_OTHER:
		MUST(!"an operation of this loop");
	}
}

static void
epoll_cancel(struct loop *l, struct op *op)
{
	struct epoll *p = l->state;
	struct watch *w = watch_of(p, op->fd);

	if (w->in == op) {
		w->in = NULL;
		if (op->kind == OP_ACCEPT || op->kind == OP_READABLE)
			take_out(p, w, op->fd);
	} else if (w->out == op) {
		w->out = NULL;
	} else {
		return;		/* its result waits for its turn */
	}
	loop_finish(l, op, -ECANCELED);
}

static void
epoll_forget(struct loop *l, int fd)
{
	struct watch *w = watch_of(l->state, fd);

	MUST(w->in == NULL);
	MUST(w->out == NULL);
	/* Closing takes it out of epoll. */
	*w = (struct watch){ 0 };
}

static void
epoll_buf_release(struct loop *l, uint32_t index)
{
	struct epoll *p = l->state;
	struct op *waiter;

	p->free_bufs[l->buf_free - 1] = index;
	/* One that finds nothing to receive, or the end, leaves it free. */
	while (l->buf_free > 0 &&
	    (waiter = op_queue_pop(&l->buf_waiters)) != NULL)
		start_in(l, waiter);
}

/* --- waiting --- */

static void
handle_event(struct loop *l, int fd, uint32_t events)
{
	struct epoll *p = l->state;
	struct watch *w = watch_of(p, fd);
	struct op *in = w->in;

	if (in != NULL && in->kind == OP_ACCEPT) {
		try_accept(l, w, in);
		return;
	}
	if (in != NULL && in->kind == OP_READABLE) {
		take_out(p, w, fd);
		loop_finish(l, in, 0);
		return;
	}
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		w->ended = true;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		w->can_read = true;
		if (in != NULL)
			(void)try_recv(l, w, in);
	}
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
		w->can_write = true;
		if (w->out != NULL)
			(void)try_send(l, w, w->out);
	}
}

static void
epoll_wait_turn(struct loop *l, uint64_t wait_ns)
{
	struct epoll *p = l->state;
	struct epoll_event events[EVENTS_MAX];
	int timeout_ms = -1, n;

	if (wait_ns != UINT64_MAX)
		timeout_ms = (int)MIN((wait_ns + 999999) / 1000000,
		    (uint64_t)INT32_MAX);
	n = epoll_wait(p->fd, events, EVENTS_MAX, timeout_ms);
	MUST(n >= 0 || errno == EINTR);
	for (int i = 0; i < n; i++)
		handle_event(l, events[i].data.fd, events[i].events);
}

const struct loop_backend loop_epoll_backend = {
	.name = "epoll",
	.kind = LOOP_EPOLL,
	.create = epoll_make,
	.destroy = epoll_destroy,
	.start = epoll_start,
	.cancel = epoll_cancel,
	.forget = epoll_forget,
	.buf_release = epoll_buf_release,
	.wait = epoll_wait_turn,
};
