#ifndef MEMWALD_MAINTAIN_RUNS_H
#define MEMWALD_MAINTAIN_RUNS_H

/*
 * runs - which store is aged next, and who shares which run.
 *
 * Each kind has two lanes, one of seals and one of all that needs the store's
 * guard (fold, compact, collect, delete), so that a flush waits for no fold. In
 * a lane at most --maintain-concurrency stores are worked on at once and the
 * rest queue, the oldest request first: a slow store delays only itself. What
 * somebody waits for and what is urgent has a queue of its own, and the two
 * take turns, so that ten thousand stores of a tick do not hold up one request,
 * nor requests a tick.
 *
 * A store is in a lane at most once. Requests that arrive while it is worked on
 * there share its next run, so that 64 clients that append with ?flush=true
 * make far fewer generations than requests. What wants a seal and more is
 * sealed first and handed on to the other lane.
 *
 * Ticks are skipped, not queued: a seal while that of the tick before is not
 * done, a fold while any is (the guard is busy). What a seal lifts to its
 * threshold is folded at once.
 *
 * Who waits for a fold job is told when one of its deadlines passes, whatever
 * holds it up (--merge-queue-timeout-secs and the others). A run that was begun
 * looks at the time between its steps, and ends then unless others want it, too.
 *
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread; the work is on the pool.
 * Errors:	who asks is answered: BUSY (too many ask, or the guard was not
 *		free until he gave up), UNAVAILABLE (draining), TIMED_OUT, or
 *		what the run came to.
 */

#include "common/loop.h"
#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/maintain/tick.h"

struct runs_plan {
	struct loop *loop;
	struct pool *pool;
	struct maintain_env *env;
	/* A run ended. */
	void (*ended)(struct shm_ref, const struct tick_result *);
	/* What a tick wanted (enum tick_want) is not done this time. */
	void (*skipped)(struct shm_ref, uint32_t want);
};

void runs_start(const struct runs_plan *);
/* A run that begins from now on: enum tick_want, or-ed. */
void runs_request(struct shm_ref, uint32_t want);
/* The same for a command, which is answered; false: not one of ours. */
bool runs_command(const struct shm_command *);
/* What is queued is given up. What is requested between this and runs_close is
 * done, if its turn comes before until_ns of clock_mono_ns. */
void runs_drain(uint64_t until_ns);
void runs_close(void);
bool runs_idle(void);
/* How many are worked on since before that time of clock_mono_ns. */
uint32_t runs_older(uint64_t before_ns);

#endif
