#ifndef MEMWALD_COMMON_POOL_H
#define MEMWALD_COMMON_POOL_H

/*
 * pool - a few threads for what would block the loop.
 *
 * A job is a struct op with a run function: run is called on a thread of the
 * pool, then done(op, what run returned) on the loop's thread, as for any other
 * operation. The queue is bounded; full is an answer (BUSY), not a wait.
 *
 * Lifetime:	made after fork. An op belongs to the pool from submit until
 *		done. There is no cancelling: a job that has begun ends.
 * Locking:	submit and destroy from the loop's thread. The threads block
 *		all signals.
 * Errors:	pool_submit answers false when the queue is full.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/loop.h"

struct pool;

struct err pool_create(struct loop *, uint32_t threads, uint32_t queue_max,
    struct pool **) MUST_CHECK;
/* Runs what is queued, then joins the threads. The last results are posted to
 * the loop: take a turn before it is destroyed. */
void pool_destroy(struct pool *);

bool pool_submit(struct pool *, struct op *, int32_t (*run)(struct op *))
    MUST_CHECK;
/* Before those of pool_submit and without a bound, for callers that have one
 * of their own: one commit a shard. */
void pool_submit_first(struct pool *, struct op *, int32_t (*run)(struct op *));
/* Queued or running: for metrics. */
uint32_t pool_pending(struct pool *);

#endif
