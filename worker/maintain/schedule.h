#ifndef MEMWALD_MAINTAIN_SCHEDULE_H
#define MEMWALD_MAINTAIN_SCHEDULE_H

/*
 * schedule - when which store is aged: the tickers, and who asks in between.
 *
 * One ticker a kind, every FLUSH_INTERVAL; ticks that come while one of the
 * kind still runs are skipped, not caught up. Every N-th, N = max(1,
 * ceil(CLEANUP / FLUSH)), is a forced one. Stores that nothing has written to
 * since their last clean tick cost nothing.
 *
 * A seal that lifts a shard to its threshold folds at once. Requests for one
 * store that arrive while it is being aged share the next run, so that 64
 * clients that append with ?flush=true make far fewer generations than
 * requests. Seals and folds have a lane each, so that a flush does not wait for
 * a fold: at most --maintain-concurrency stores are worked on at once in each.
 *
 * At start the registry is walked once: every store with a tail or pending
 * generations gets a slot and a forced tick.
 *
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread; the work is on the pool.
 */

#include "common/config.h"
#include "common/loop.h"
#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/object/object.h"

struct err schedule_start(const struct config *, struct loop *, struct pool *,
    struct object_dir *root) MUST_CHECK;
/* A command that came by mailbox; false: not one of ours. */
bool schedule_command(const struct shm_command *);
/* Begins nothing new. With seal, what closed entries hold is sealed, for half
 * of --drain-secs at most: the rest stays in the WAL, which is enough. */
void schedule_drain(bool seal);
bool schedule_idle(void);

#endif
