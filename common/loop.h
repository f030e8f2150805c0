#ifndef MEMWALD_COMMON_LOOP_H
#define MEMWALD_COMMON_LOOP_H

/*
 * loop - one completion interface with two backends: a ring, or epoll.
 *
 * An operation is started and, once its outcome is known, the done function
 * of its struct op is called: from the loop's turn, never from the call that
 * started it. The ring (io_uring, SINGLE_ISSUER and DEFER_TASKRUN) collects
 * what is started and submits it with one system call a turn; epoll does what
 * can be done at once when it is started and the rest when the kernel says so,
 * and files on the pool. A process that is refused a ring, whatever the errno,
 * takes epoll, says so in the log, and loses only speed.
 *
 * A turn: reap completions into the ready queue; fire timers; run what is
 * ready; call the before-wait hook (the store starts its commits there);
 * submit everything at once and wait.
 *
 * Death:	nothing is shared; the kernel cleans up.
 * Lifetime:	made after fork, by the process that uses it; never in the
 *		master. From the call that starts it until done is called, a
 *		struct op and the memory it names belong to the loop: also
 *		when it is cancelled, because the kernel may still write.
 * Locking:	the loop's thread only, except loop_post and loop_wake.
 * Errors:	res is what the system call would have returned, or -errno.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/timer.h"

struct iovec;
struct loop;
struct pool;

struct op {
	/* Set by the owner before the operation is started. The op may be
	 * started again, or its memory freed, from here. */
	void (*done)(struct op *, int32_t res);

	/* The loop's, while in flight. */
	struct op *next;
	int32_t (*run)(struct op *);	/* on a thread of the pool */
	void *bytes;		/* loop_recv_pooled: its buffer, see there */
	size_t len;
	uint64_t offset;
	uint32_t written;	/* of a file write, so far */
	int32_t fd;
	int32_t res;
	uint8_t kind;		/* enum op_kind */
	bool in_flight;
	bool cancelled;
};

enum loop_kind { LOOP_RING, LOOP_EPOLL };

struct loop_settings {
	bool ring;			/* false: epoll without trying a ring */
	uint32_t entries;		/* of the ring; 0: 1024 */
	uint32_t recv_buf_bytes;	/* of a pooled buffer; 0: 16 KiB */
	uint32_t recv_buf_count;	/* a power of two; 0: 512 */
};

/* Process lifetime memory: fails only if the kernel gives neither. */
struct err loop_create(const struct loop_settings *, struct loop **) MUST_CHECK;
/* Nothing may be in flight but what is cancelled by closing. */
void loop_destroy(struct loop *);
/* For files where there is no ring; before the first loop_pwrite_dsync. The
 * pool must be drained before the loop is destroyed. */
void loop_set_pool(struct loop *, struct pool *);
enum loop_kind loop_kind(const struct loop *);
const char *loop_kind_name(const struct loop *);

/* One turn. Waits until something is ready or the next timer is due, at most
 * wait_max_ns (UINT64_MAX: no bound) of clock_mono_ns. */
void loop_turn(struct loop *, uint64_t wait_max_ns);
/* Turns until loop_stop. */
void loop_run(struct loop *);
void loop_stop(struct loop *);

/* Called in each turn after all that was ready has run and before the loop
 * submits and waits. What it starts is submitted with the rest. */
void loop_set_before_wait(struct loop *, void (*hook)(void *arg), void *arg);
/* Inside the hook: is nothing else ready or about to be sent? Then an inline
 * sync delays nobody (design 4). Submits what is staged and looks. */
bool loop_idle_otherwise(struct loop *) MUST_CHECK;

/* clock_mono_ns, read once a turn. */
uint64_t loop_now_ns(const struct loop *);
struct timers *loop_timers(struct loop *);

/*
 * Any thread. loop_post has op->done(op, res) called in a coming turn; the op
 * must not be in flight. loop_wake makes the loop take a turn.
 */
void loop_post(struct loop *, struct op *, int32_t res);
void loop_wake(struct loop *);

/* The loop's thread: done(op, res) in this turn or the next, without the cost
 * of loop_post. */
void loop_later(struct loop *, struct op *, int32_t res);

/*
 * Operations. An op carries one at a time; a socket has at most one receiving
 * and one sending operation at a time.
 */

/* done is called with a new descriptor (close-on-exec) each time a connection
 * comes, until it is called once with an error: cancelled, or -EMFILE and the
 * like, after which the owner may start it again, later. fd is non-blocking. */
void loop_accept(struct loop *, struct op *, int fd);

/* Into memory of the caller's. res 0: the peer has closed. */
void loop_recv(struct loop *, struct op *, int fd, void *bytes, size_t len);

/*
 * Into a buffer that the loop takes from its pool when there is something to
 * receive, so that an idle connection holds none. With res > 0, op->bytes is
 * the buffer; the owner gives it back with loop_buf_release, soon. Without
 * free buffers the operation waits until one is given back. loop_bufs_low says
 * that they are getting scarce: copy what must be kept, and give back.
 */
void loop_recv_pooled(struct loop *, struct op *, int fd);
void loop_buf_release(struct loop *, void *bytes);
bool loop_bufs_low(const struct loop *);
uint32_t loop_bufs_free(const struct loop *);
size_t loop_buf_bytes(const struct loop *);

/* May send less than all. Never raises SIGPIPE. The iovec array, too, must
 * stay until done. */
void loop_send(struct loop *, struct op *, int fd, const void *, size_t len);
void loop_sendv(struct loop *, struct op *, int fd, const struct iovec *,
    size_t count);

/* done(op, 0) once when fd (eventfd, signalfd, pipe) can be read; the owner
 * reads it there, non-blocking, and starts the next. */
void loop_readable(struct loop *, struct op *, int fd);

/* Written and durable (RWF_DSYNC): res is len, or an error, never less. */
void loop_pwrite_dsync(struct loop *, struct op *, int fd, const void *,
    size_t len, uint64_t offset);

/* Asks for an operation to end; done comes in any case, with -ECANCELED or
 * with what happened first. A write that has begun is not cancelled. No-op if
 * op is not in flight. */
void loop_cancel(struct loop *, struct op *);

/* Closes a socket on which nothing is in flight. */
void loop_close(struct loop *, int fd);

#endif
