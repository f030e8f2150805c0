#include "common/base.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/log.h"
#include "common/loop_backend.h"

/*
 * The ring. user_data is the address of the op, or 0 for cancellations, whose
 * own results say nothing. What is started becomes an entry at once and is
 * submitted when the loop waits. Pooled receives take their buffer from a
 * buffer ring shared with the kernel; one that finds it empty (ENOBUFS) waits
 * in the loop until a buffer is given back.
 *
 * The completion queue is several times the submission queue: a receive a
 * connection may complete in one turn. Should it overflow, the kernel keeps
 * the rest (NODROP) and hands it over at the next look.
 */

#define CQ_FACTOR	8u
#define BUF_GROUP	0
#define REAP_BATCH	64u

struct ring {
	struct io_uring uring;
	struct io_uring_buf_ring *buf_ring;
	size_t buf_ring_bytes;
	/* One a submission entry: the kernel reads it until it is submitted. */
	struct msghdr *messages;
};

/* --- making --- */

static struct err
fail(int rc, const char *what)
{
	return (struct err){ ERR_UNAVAILABLE, -rc, what };
}

static struct err
share_bufs(struct loop *l, struct ring *r)
{
	struct io_uring_buf_reg reg = { 0 };
	int mask = io_uring_buf_ring_mask(l->buf_count);
	int rc;

	r->buf_ring_bytes = l->buf_count * sizeof(struct io_uring_buf);
	r->buf_ring = mmap(NULL, r->buf_ring_bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->buf_ring == MAP_FAILED)
		return fail(-errno, "map the buffer ring");
	io_uring_buf_ring_init(r->buf_ring);
	reg.ring_addr = (uintptr_t)r->buf_ring;
	reg.ring_entries = l->buf_count;
	reg.bgid = BUF_GROUP;
	rc = io_uring_register_buf_ring(&r->uring, &reg, 0);
	if (rc < 0) {
		munmap(r->buf_ring, r->buf_ring_bytes);
		return fail(rc, "register the buffer ring");
	}
	for (uint32_t i = 0; i < l->buf_count; i++)
		io_uring_buf_ring_add(r->buf_ring, loop_buf_at(l, i),
		    l->buf_bytes, (unsigned short)i, mask, (int)i);
	io_uring_buf_ring_advance(r->buf_ring, (int)l->buf_count);
	return OK;
}

static struct err
ring_create(struct loop *l, const struct loop_settings *s)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER |
		    IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
		    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
		    IORING_SETUP_CLAMP,
		.cq_entries = s->entries * CQ_FACTOR,
	};
	struct ring *r = calloc(1, sizeof(*r));
	struct err e;
	int rc;

	if (r == NULL)
		return FAIL(NO_MEMORY, "allocate a ring");
	rc = io_uring_queue_init_params(s->entries, &r->uring, &params);
	if (rc < 0) {
		e = fail(rc, "set up io_uring");
		goto out_free;
	}
	r->messages = calloc(params.sq_entries, sizeof(*r->messages));
	if (r->messages == NULL) {
		e = FAIL(NO_MEMORY, "allocate ring messages");
		goto out_exit;
	}
	e = share_bufs(l, r);
	if (err_is(e))
		goto out_exit;
	l->state = r;
	return OK;

out_exit:
	free(r->messages);
	io_uring_queue_exit(&r->uring);
out_free:
	free(r);
	return e;
}

static void
ring_destroy(struct loop *l)
{
	struct ring *r = l->state;

	io_uring_queue_exit(&r->uring);
	munmap(r->buf_ring, r->buf_ring_bytes);
	free(r->messages);
	free(r);
}

/* --- completions --- */

static void
complete_recv_pooled(struct loop *l, struct op *op, int32_t res, uint32_t flags)
{
	if (flags & IORING_CQE_F_BUFFER) {
		l->buf_free--;
		op->bytes = loop_buf_at(l, flags >> IORING_CQE_BUFFER_SHIFT);
	}
	if (res <= 0 && op->bytes != NULL) {
		loop_buf_release(l, op->bytes);
		op->bytes = NULL;
	}
	if (res == -ENOBUFS && !op->cancelled)
		op_queue_push(&l->buf_waiters, op);
	else
		loop_finish(l, op, res == -ENOBUFS ? -ECANCELED : res);
}

static void
complete_pwrite(struct loop *l, struct op *op, int32_t res)
{
	if (res <= 0) {
		loop_finish(l, op, res == 0 ? -EIO : res);
		return;
	}
	/* A short write says nothing; the next one says why. */
	op->written += (uint32_t)res;
	if (op->written < op->len)
		l->backend->start(l, op);
	else
		loop_finish(l, op, (int32_t)op->written);
}

static void
complete_accept(struct loop *l, struct op *op, int32_t res, uint32_t flags)
{
	if (res >= 0)
		loop_accepted(l, op, res);
	if (flags & IORING_CQE_F_MORE)
		return;
	if (res < 0)
		loop_finish(l, op, res);
	else if (op->cancelled)
		loop_finish(l, op, -ECANCELED);
	else
		l->backend->start(l, op);
}

static void
complete(struct loop *l, struct op *op, int32_t res, uint32_t flags)
{
	if ((res == -EINTR || res == -EAGAIN) && !op->cancelled &&
	    op->kind != OP_ACCEPT) {
		l->backend->start(l, op);
		return;
	}
	switch (op->kind) {
	case OP_ACCEPT:
		complete_accept(l, op, res, flags);
		break;
	case OP_RECV_POOLED:
		complete_recv_pooled(l, op, res, flags);
		break;
	case OP_PWRITE:
		complete_pwrite(l, op, res);
		break;
	case OP_READABLE:
		loop_finish(l, op, MIN(res, 0));
		break;
	default:
		loop_finish(l, op, res);
	}
}

static void
reap(struct loop *l)
{
	struct ring *r = l->state;
	struct io_uring_cqe *cqes[REAP_BATCH];
	unsigned n;

	while ((n = io_uring_peek_batch_cqe(&r->uring, cqes, REAP_BATCH)) > 0) {
		for (unsigned i = 0; i < n; i++) {
			struct op *op = io_uring_cqe_get_data(cqes[i]);

			if (op != NULL)
				complete(l, op, cqes[i]->res, cqes[i]->flags);
		}
		io_uring_cq_advance(&r->uring, n);
	}
	/* The kernel had handed out more than we had seen: now we know. */
	for (uint32_t left = l->buf_free; left > 0; left--) {
		struct op *op = op_queue_pop(&l->buf_waiters);

		if (op == NULL)
			break;
		l->backend->start(l, op);
	}
}

/* --- submissions --- */

/* Never NULL: a full queue is submitted, which empties it. A kernel that is
 * short of memory for a moment is asked again. */
static struct io_uring_sqe *
get_entry(struct ring *r)
{
	struct io_uring_sqe *sqe;

	while ((sqe = io_uring_get_sqe(&r->uring)) == NULL) {
		int rc = io_uring_submit(&r->uring);

		MUST(rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
	}
	return sqe;
}

static void
ring_start(struct loop *l, struct op *op)
{
	struct ring *r = l->state;
	struct io_uring_sqe *sqe = get_entry(r);
	struct msghdr *m;

	switch ((enum op_kind)op->kind) {
	case OP_ACCEPT:
		io_uring_prep_multishot_accept(sqe, op->fd, NULL, NULL,
		    SOCK_CLOEXEC);
		break;
	case OP_RECV:
		io_uring_prep_recv(sqe, op->fd, op->bytes, op->len, 0);
		break;
	case OP_RECV_POOLED:
		/* Mostly for the next request, which is not there yet: asking
		 * the socket first would be in vain. */
		io_uring_prep_recv(sqe, op->fd, NULL, op->len, 0);
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = BUF_GROUP;
		break;
	case OP_SEND:
		io_uring_prep_send(sqe, op->fd, op->bytes, op->len,
		    MSG_NOSIGNAL);
		break;
	case OP_SENDV:
		m = &r->messages[sqe - r->uring.sq.sqes];
		*m = (struct msghdr){
			.msg_iov = op->bytes, .msg_iovlen = op->len };
		io_uring_prep_sendmsg(sqe, op->fd, m, MSG_NOSIGNAL);
		break;
	case OP_READABLE:
		io_uring_prep_poll_add(sqe, op->fd, POLLIN);
		break;
	case OP_PWRITE:
		io_uring_prep_write(sqe, op->fd, (char *)op->bytes +
		    op->written, (unsigned)(op->len - op->written),
		    op->offset + op->written);
		sqe->rw_flags = RWF_DSYNC;
		break;
	case OP_OTHER:
		MUST(!"an operation of the ring");
	}
	io_uring_sqe_set_data(sqe, op);
}

static void
ring_cancel(struct loop *l, struct op *op)
{
	struct io_uring_sqe *sqe = get_entry(l->state);

	/* Entries are taken up in order: should op end meanwhile and be
	 * started again, this one cannot meet the later operation. */
	io_uring_prep_cancel(sqe, op, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

static void
ring_forget(struct loop *l, int fd)
{
	(void)l;
	(void)fd;
}

static void
ring_buf_release(struct loop *l, uint32_t index)
{
	struct ring *r = l->state;
	struct op *waiter = op_queue_pop(&l->buf_waiters);

	io_uring_buf_ring_add(r->buf_ring, loop_buf_at(l, index), l->buf_bytes,
	    (unsigned short)index, io_uring_buf_ring_mask(l->buf_count), 0);
	io_uring_buf_ring_advance(r->buf_ring, 1);
	if (waiter != NULL)
		ring_start(l, waiter);
}

/* Nothing to submit, nothing done, and no work of the kernel's that waits for
 * us to come by: a look needs no system call. */
static bool
nothing_new(struct ring *r)
{
	return io_uring_sq_ready(&r->uring) == 0 &&
	    io_uring_cq_ready(&r->uring) == 0 &&
	    (IO_URING_READ_ONCE(*r->uring.sq.kflags) &
	    (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) == 0;
}

static void
ring_wait(struct loop *l, uint64_t wait_ns)
{
	struct ring *r = l->state;
	struct io_uring_cqe *cqe;
	struct __kernel_timespec ts;
	int rc;

	if (wait_ns == 0 && nothing_new(r))
		return;
	if (wait_ns == 0) {
		rc = io_uring_submit_and_get_events(&r->uring);
	} else {
		ts.tv_sec = (int64_t)(wait_ns / 1000000000);
		ts.tv_nsec = (int64_t)(wait_ns % 1000000000);
		rc = io_uring_submit_and_wait_timeout(&r->uring, &cqe, 1,
		    wait_ns == UINT64_MAX ? NULL : &ts, NULL);
	}
	MUST(rc >= 0 || rc == -ETIME || rc == -EINTR || rc == -EAGAIN ||
	    rc == -EBUSY);
	reap(l);
}

const struct loop_backend loop_ring_backend = {
	.name = "io_uring",
	.kind = LOOP_RING,
	.create = ring_create,
	.destroy = ring_destroy,
	.start = ring_start,
	.cancel = ring_cancel,
	.forget = ring_forget,
	.buf_release = ring_buf_release,
	.wait = ring_wait,
};
