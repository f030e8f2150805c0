#ifndef MEMWALD_MAINTAIN_SCHEDULE_H
#define MEMWALD_MAINTAIN_SCHEDULE_H

/*
 * schedule - all work of the maintainer: the tickers, commands, the walk at
 * start, what is left of deleted stores.
 *
 * When which store is due is ticker.h's matter, which is worked on next, and
 * who shares a run, that of runs.h.
 *
 * At start the registry is walked once: every store with a tail or pending
 * generations gets a slot and a forced tick, once the ordinals are home (a tail
 * is closed by its worker, and none runs before that).
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
/* Begins nothing new. With seal_too, what closed entries hold is sealed, for half
 * of --drain-secs at most: the rest stays in the WAL, which is enough. */
void schedule_drain(bool seal_too);
/* What is under way ends at its next step, and fails. */
void schedule_end(void);
bool schedule_idle(void);
/* Runs under way that began before that time. */
uint32_t schedule_older(uint64_t before_ns);

#endif
