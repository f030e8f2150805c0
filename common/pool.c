#include "common/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "common/loop_backend.h"
#include "common/pool.h"

#define THREADS_MAX	512

struct pool {
	struct loop *loop;
	pthread_mutex_t mutex;		/* guards all below */
	pthread_cond_t more;
	struct op_queue urgent;		/* pool_submit_first */
	struct op_queue queue;		/* bounded */
	uint32_t queued;		/* in the bounded one */
	uint32_t pending;		/* queued or running */
	uint32_t queue_max;
	bool leaving;

	uint32_t thread_count;
	pthread_t threads[THREADS_MAX];
};

/* Waits for one; NULL when there is none and none will come. */
static struct op *
next_job(struct pool *p)
{
	struct op *op;

	MUST(pthread_mutex_lock(&p->mutex) == 0);
	while (p->urgent.first == NULL && p->queue.first == NULL && !p->leaving)
		MUST(pthread_cond_wait(&p->more, &p->mutex) == 0);
	op = op_queue_pop(&p->urgent);
	if (op == NULL) {
		op = op_queue_pop(&p->queue);
		if (op != NULL)
			p->queued--;
	}
	MUST(pthread_mutex_unlock(&p->mutex) == 0);
	return op;
}

static void *
work(void *arg)
{
	struct pool *p = arg;
	struct op *op;

	while ((op = next_job(p)) != NULL) {
		int32_t res = op->run(op);

		MUST(pthread_mutex_lock(&p->mutex) == 0);
		p->pending--;
		MUST(pthread_mutex_unlock(&p->mutex) == 0);
		loop_post_result(p->loop, op, res);
	}
	return NULL;
}

struct err
pool_create(struct loop *loop, uint32_t threads, uint32_t queue_max,
    struct pool **out)
{
	struct pool *p = calloc(1, sizeof(*p));
	sigset_t all, before;
	struct err e = OK;

	MUST(threads > 0 && threads <= THREADS_MAX);
	if (p == NULL)
		return FAIL(NO_MEMORY, "allocate a thread pool");
	p->loop = loop;
	p->queue_max = queue_max;
	MUST(pthread_mutex_init(&p->mutex, NULL) == 0);
	MUST(pthread_cond_init(&p->more, NULL) == 0);

	/* Threads inherit the mask: signals are for the loop's signalfd. */
	sigfillset(&all);
	MUST(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	for (uint32_t i = 0; i < threads; i++) {
		int rc = pthread_create(&p->threads[i], NULL, work, p);

		if (rc != 0) {
			e = (struct err){ ERR_UNAVAILABLE, rc,
			    "start a pool thread" };
			break;
		}
		p->thread_count++;
	}
	MUST(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (err_is(e))
		pool_destroy(p);
	else
		*out = p;
	return e;
}

void
pool_destroy(struct pool *p)
{
	MUST(pthread_mutex_lock(&p->mutex) == 0);
	p->leaving = true;
	MUST(pthread_cond_broadcast(&p->more) == 0);
	MUST(pthread_mutex_unlock(&p->mutex) == 0);
	for (uint32_t i = 0; i < p->thread_count; i++)
		MUST(pthread_join(p->threads[i], NULL) == 0);
	MUST(p->pending == 0);
	MUST(pthread_cond_destroy(&p->more) == 0);
	MUST(pthread_mutex_destroy(&p->mutex) == 0);
	free(p);
}

/* With the mutex. */
static void
enqueue(struct pool *p, struct op_queue *q, struct op *op,
    int32_t (*run)(struct op *))
{
	loop_own_op(op);
	op->run = run;
	op_queue_push(q, op);
	p->pending++;
	MUST(pthread_cond_signal(&p->more) == 0);
}

bool
pool_submit(struct pool *p, struct op *op, int32_t (*run)(struct op *))
{
	bool full;

	MUST(pthread_mutex_lock(&p->mutex) == 0);
	full = p->queued >= p->queue_max;
	if (!full) {
		p->queued++;
		enqueue(p, &p->queue, op, run);
	}
	MUST(pthread_mutex_unlock(&p->mutex) == 0);
	return !full;
}

void
pool_submit_first(struct pool *p, struct op *op, int32_t (*run)(struct op *))
{
	MUST(pthread_mutex_lock(&p->mutex) == 0);
	enqueue(p, &p->urgent, op, run);
	MUST(pthread_mutex_unlock(&p->mutex) == 0);
}

uint32_t
pool_pending(struct pool *p)
{
	uint32_t n;

	MUST(pthread_mutex_lock(&p->mutex) == 0);
	n = p->pending;
	MUST(pthread_mutex_unlock(&p->mutex) == 0);
	return n;
}
