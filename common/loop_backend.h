#ifndef MEMWALD_COMMON_LOOP_BACKEND_H
#define MEMWALD_COMMON_LOOP_BACKEND_H

/*
 * loop_backend - what loop.c shares with its two backends and with the pool;
 * nobody else includes this.
 *
 * loop.c owns the turn, the ready queue, the pooled receive buffers and what
 * other threads post. A backend starts operations, moves completions into the
 * ready queue, and waits.
 */

#include "common/base.h"
#include "common/loop.h"

enum op_kind {
	OP_ACCEPT = 1, OP_RECV, OP_RECV_POOLED, OP_SEND, OP_SENDV, OP_READABLE,
	OP_PWRITE,
	OP_OTHER		/* posted, or on the pool: not a backend's */
};

struct op_queue {
	struct op *first, *last;
};

/* Accepting gives many results for one op: they wait here for their turn. */
#define ACCEPTED_MAX	256

struct accepted {
	struct op *op;
	int fd;
};

struct loop_backend {
	const char *name;
	enum loop_kind kind;
	/* Sets loop->state. */
	struct err (*create)(struct loop *, const struct loop_settings *);
	void (*destroy)(struct loop *);
	/* Starts, or goes on with, what the fields of op describe. */
	void (*start)(struct loop *, struct op *);
	void (*cancel)(struct loop *, struct op *);
	/* Before fd is closed. */
	void (*forget)(struct loop *, int fd);
	/* Takes one buffer back (buf_free counts it already) and starts who
	 * waited for it. */
	void (*buf_release)(struct loop *, uint32_t index);
	/* Submits what is staged, waits up to wait_ns (true time; 0: not at
	 * all, UINT64_MAX: no bound) and moves completions to the queues. */
	void (*wait)(struct loop *, uint64_t wait_ns);
};

struct loop {
	const struct loop_backend *backend;
	void *state;			/* the backend's */
	struct pool *pool;

	struct op_queue ready;
	struct accepted accepted[ACCEPTED_MAX];
	uint32_t accepted_count;

	struct timers timers;
	uint64_t now_ns;
	void (*before_wait)(void *arg);
	void *before_wait_arg;
	bool stopped;

	/* Pooled receive buffers, and those who wait for one. */
	char *bufs;
	uint32_t buf_bytes;
	uint32_t buf_count;
	uint32_t buf_free;
	struct op_queue buf_waiters;

	/* What other threads post: a stack, newest first. */
	_Atomic(struct op *) posted;
	int wake_fd;
	struct op wake_op;
};

extern const struct loop_backend loop_ring_backend;
extern const struct loop_backend loop_epoll_backend;

void op_queue_push(struct op_queue *, struct op *);
struct op *op_queue_pop(struct op_queue *);
/* False if it is not there. */
bool op_queue_remove(struct op_queue *, struct op *);

/* The outcome is known: done is called when its turn comes. */
void loop_finish(struct loop *, struct op *, int32_t res);
/* The same for one more connection; closes it if too many wait already. */
void loop_accepted(struct loop *, struct op *, int fd);

/* An op that goes to a thread belongs to the loop from the first call on; its
 * result comes back by the second, from any thread. */
void loop_own_op(struct op *);
void loop_post_result(struct loop *, struct op *, int32_t res);

static inline char *
loop_buf_at(struct loop *l, uint32_t index)
{
	MUST(index < l->buf_count);
	return l->bufs + (size_t)index * l->buf_bytes;
}

#endif
