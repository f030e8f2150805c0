#include "common/base.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/loop_backend.h"

#define ENTRIES_DEFAULT		1024u
#define BUF_BYTES_DEFAULT	(16u * 1024)
#define BUF_COUNT_DEFAULT	512u

/*
 * What runs may make more ready at once (epoll sends without waiting): a few
 * rounds save a system call each, more would keep the kernel's news waiting.
 */
#define ROUNDS_MAX		4

void
op_queue_push(struct op_queue *q, struct op *op)
{
	op->next = NULL;
	if (q->last == NULL)
		q->first = op;
	else
		q->last->next = op;
	q->last = op;
}

struct op *
op_queue_pop(struct op_queue *q)
{
	struct op *op = q->first;

	if (op != NULL) {
		q->first = op->next;
		if (q->first == NULL)
			q->last = NULL;
	}
	return op;
}

bool
op_queue_remove(struct op_queue *q, struct op *op)
{
	struct op *before = NULL;

	for (struct op *o = q->first; o != NULL; before = o, o = o->next) {
		if (o != op)
			continue;
		if (before == NULL)
			q->first = op->next;
		else
			before->next = op->next;
		if (q->last == op)
			q->last = before;
		return true;
	}
	return false;
}

void
loop_finish(struct loop *l, struct op *op, int32_t res)
{
	MUST(op->in_flight);
	op->res = res;
	op_queue_push(&l->ready, op);
}

void
loop_accepted(struct loop *l, struct op *op, int fd)
{
	if (l->accepted_count == ACCEPTED_MAX) {
		close(fd);
		return;
	}
	l->accepted[l->accepted_count++] = (struct accepted){ op, fd };
}

/* --- making --- */

static void
woken(struct op *op, int32_t res)
{
	struct loop *l = CONTAINER_OF(op, struct loop, wake_op);
	uint64_t count;

	(void)res;
	/* What was posted is taken in every turn; this only ends a wait. */
	(void)!read(l->wake_fd, &count, sizeof(count));
	loop_readable(l, &l->wake_op, l->wake_fd);
}

static struct err
choose_backend(struct loop *l, const struct loop_settings *s)
{
	struct err e;

	if (s->ring) {
		l->backend = &loop_ring_backend;
		e = l->backend->create(l, s);
		if (!err_is(e))
			return OK;
		log_err(LOG_WARN, e, "no io_uring here, using epoll: slower");
	}
	l->backend = &loop_epoll_backend;
	return l->backend->create(l, s);
}

struct err
loop_create(const struct loop_settings *given, struct loop **out)
{
	struct loop_settings s = *given;
	struct loop *l = calloc(1, sizeof(*l));
	struct err e;

	if (l == NULL)
		return FAIL(NO_MEMORY, "allocate a loop");
	if (s.entries == 0)
		s.entries = ENTRIES_DEFAULT;
	l->buf_bytes = s.recv_buf_bytes ? s.recv_buf_bytes : BUF_BYTES_DEFAULT;
	l->buf_count = s.recv_buf_count ? s.recv_buf_count : BUF_COUNT_DEFAULT;
	MUST((l->buf_count & (l->buf_count - 1)) == 0);
	l->buf_free = l->buf_count;
	timers_init(&l->timers);
	l->now_ns = clock_mono_ns();

	/* Untouched pages cost nothing. */
	l->bufs = mmap(NULL, (size_t)l->buf_bytes * l->buf_count,
	    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->bufs == MAP_FAILED) {
		e = FAIL_OS(NO_MEMORY, "map receive buffers");
		goto out_loop;
	}
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0) {
		e = FAIL_OS(UNAVAILABLE, "make the loop's eventfd");
		goto out_bufs;
	}
	e = choose_backend(l, &s);
	if (err_is(e))
		goto out_wake;
	l->wake_op.done = woken;
	loop_readable(l, &l->wake_op, l->wake_fd);
	*out = l;
	return OK;

out_wake:
	close(l->wake_fd);
out_bufs:
	munmap(l->bufs, (size_t)l->buf_bytes * l->buf_count);
out_loop:
	free(l);
	return e;
}

void
loop_destroy(struct loop *l)
{
	l->backend->destroy(l);
	close(l->wake_fd);
	munmap(l->bufs, (size_t)l->buf_bytes * l->buf_count);
	free(l);
}

void
loop_set_pool(struct loop *l, struct pool *pool)
{
	l->pool = pool;
}

enum loop_kind
loop_kind(const struct loop *l)
{
	return l->backend->kind;
}

const char *
loop_kind_name(const struct loop *l)
{
	return l->backend->name;
}

/* --- the turn --- */

static void
take_posted(struct loop *l)
{
	struct op *stack = atomic_exchange_explicit(&l->posted, NULL,
	    memory_order_acquire);
	struct op *oldest = NULL;

	while (stack != NULL) {
		struct op *next = stack->next;

		stack->next = oldest;
		oldest = stack;
		stack = next;
	}
	while (oldest != NULL) {
		struct op *next = oldest->next;

		op_queue_push(&l->ready, oldest);
		oldest = next;
	}
}

static bool
anything_ready(const struct loop *l)
{
	return l->ready.first != NULL || l->accepted_count > 0 ||
	    atomic_load_explicit(&l->posted, memory_order_relaxed) != NULL;
}

/* Those that are ready now; what they make ready is for the next round. */
static void
run_ready(struct loop *l)
{
	struct op_queue now = l->ready;
	struct op *op;

	l->ready = (struct op_queue){ 0 };
	for (uint32_t i = 0; i < l->accepted_count; i++) {
		op = l->accepted[i].op;
		op->done(op, l->accepted[i].fd);
	}
	l->accepted_count = 0;
	while ((op = op_queue_pop(&now)) != NULL) {
		op->in_flight = false;
		op->done(op, op->res);
	}
}

static uint64_t
time_to_wait(struct loop *l, uint64_t wait_max_ns)
{
	uint64_t next = timers_next(&l->timers);
	uint64_t now;

	if (anything_ready(l) || l->stopped)
		return 0;
	if (next != UINT64_MAX) {
		now = clock_mono_ns();
		wait_max_ns = MIN(wait_max_ns, next > now ? next - now : 0);
	}
	return wait_max_ns == UINT64_MAX ? UINT64_MAX :
	    clock_real_ns(wait_max_ns);
}

void
loop_turn(struct loop *l, uint64_t wait_max_ns)
{
	l->backend->wait(l, time_to_wait(l, wait_max_ns));
	l->now_ns = clock_mono_ns();
	take_posted(l);
	timers_fire(&l->timers, l->now_ns);
	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (l->ready.first == NULL && l->accepted_count == 0)
			break;
		run_ready(l);
	}
	if (l->before_wait != NULL)
		l->before_wait(l->before_wait_arg);
}

void
loop_run(struct loop *l)
{
	while (!l->stopped)
		loop_turn(l, UINT64_MAX);
	l->stopped = false;
}

void
loop_stop(struct loop *l)
{
	l->stopped = true;
}

void
loop_set_before_wait(struct loop *l, void (*hook)(void *arg), void *arg)
{
	l->before_wait = hook;
	l->before_wait_arg = arg;
}

bool
loop_idle_otherwise(struct loop *l)
{
	if (anything_ready(l))
		return false;
	l->backend->wait(l, 0);
	return !anything_ready(l);
}

uint64_t
loop_now_ns(const struct loop *l)
{
	return l->now_ns;
}

struct timers *
loop_timers(struct loop *l)
{
	return &l->timers;
}

void
loop_later(struct loop *l, struct op *op, int32_t res)
{
	loop_own_op(op);
	loop_finish(l, op, res);
}

/* --- from other threads --- */

void
loop_own_op(struct op *op)
{
	MUST(!op->in_flight);
	op->kind = OP_OTHER;
	op->in_flight = true;
}

void
loop_post_result(struct loop *l, struct op *op, int32_t res)
{
	struct op *head = atomic_load_explicit(&l->posted,
	    memory_order_relaxed);

	op->res = res;
	do {
		op->next = head;
	} while (!atomic_compare_exchange_weak_explicit(&l->posted, &head, op,
	    memory_order_release, memory_order_relaxed));
	/* Whoever found it empty wakes the loop, for the others as well. */
	if (head == NULL)
		loop_wake(l);
}

void
loop_post(struct loop *l, struct op *op, int32_t res)
{
	loop_own_op(op);
	loop_post_result(l, op, res);
}

void
loop_wake(struct loop *l)
{
	uint64_t one = 1;

	/* EAGAIN: the count is at its limit, so it is awake. */
	MUST(write(l->wake_fd, &one, sizeof(one)) == sizeof(one) ||
	    errno == EAGAIN);
}

/* --- operations --- */

static void
start(struct loop *l, struct op *op, enum op_kind kind, int fd)
{
	MUST(!op->in_flight);
	MUST(fd >= 0);
	op->kind = (uint8_t)kind;
	op->fd = fd;
	op->in_flight = true;
	op->cancelled = false;
	l->backend->start(l, op);
}

void
loop_accept(struct loop *l, struct op *op, int fd)
{
	start(l, op, OP_ACCEPT, fd);
}

void
loop_recv(struct loop *l, struct op *op, int fd, void *bytes, size_t len)
{
	MUST(len > 0);
	op->bytes = bytes;
	op->len = len;
	start(l, op, OP_RECV, fd);
}

void
loop_recv_pooled(struct loop *l, struct op *op, int fd)
{
	op->bytes = NULL;
	op->len = l->buf_bytes;
	start(l, op, OP_RECV_POOLED, fd);
}

void
loop_send(struct loop *l, struct op *op, int fd, const void *bytes, size_t len)
{
	MUST(len > 0);
	op->bytes = (void *)(uintptr_t)bytes;
	op->len = len;
	start(l, op, OP_SEND, fd);
}

void
loop_sendv(struct loop *l, struct op *op, int fd, const struct iovec *iov,
    size_t count)
{
	MUST(count > 0);
	op->bytes = (void *)(uintptr_t)iov;
	op->len = count;
	start(l, op, OP_SENDV, fd);
}

void
loop_readable(struct loop *l, struct op *op, int fd)
{
	start(l, op, OP_READABLE, fd);
}

void
loop_pwrite_dsync(struct loop *l, struct op *op, int fd, const void *bytes,
    size_t len, uint64_t offset)
{
	MUST(len > 0 && len <= INT32_MAX);
	op->bytes = (void *)(uintptr_t)bytes;
	op->len = len;
	op->offset = offset;
	op->written = 0;
	start(l, op, OP_PWRITE, fd);
}

void
loop_cancel(struct loop *l, struct op *op)
{
	if (!op->in_flight || op->cancelled || op->kind == OP_PWRITE ||
	    op->kind == OP_OTHER)
		return;
	op->cancelled = true;
	if (op_queue_remove(&l->buf_waiters, op))
		loop_finish(l, op, -ECANCELED);
	else
		l->backend->cancel(l, op);
}

void
loop_close(struct loop *l, int fd)
{
	l->backend->forget(l, fd);
	close(fd);
}

/* --- receive buffers --- */

void
loop_buf_release(struct loop *l, void *bytes)
{
	size_t at = (size_t)((char *)bytes - l->bufs);

	MUST(at % l->buf_bytes == 0);
	MUST(at / l->buf_bytes < l->buf_count);
	MUST(l->buf_free < l->buf_count);
	l->buf_free++;
	l->backend->buf_release(l, (uint32_t)(at / l->buf_bytes));
}

bool
loop_bufs_low(const struct loop *l)
{
	return l->buf_free < l->buf_count / 4 || l->buf_waiters.first != NULL;
}

uint32_t
loop_bufs_free(const struct loop *l)
{
	return l->buf_free;
}

size_t
loop_buf_bytes(const struct loop *l)
{
	return l->buf_bytes;
}
