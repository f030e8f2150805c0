#ifndef MEMWALD_MAINTAIN_RATE_H
#define MEMWALD_MAINTAIN_RATE_H

/*
 * rate - how much faster than --maintain-write-rate the maintainer may write.
 *
 * Looked at each second: faster while no request is for a store, since then
 * nobody waits for the disk or a CPU (beside a fold eight times as fast the p99
 * of gets was 2.5 ms, not 0.7); as fast as rows come, since each is written twice
 * and a seal that is slower than the appends meets more of them every time; and
 * faster as the backlog grows, so that folds do not fall behind for good
 * (design 2).
 *
 * What the time limit of a tick ends, since it may not write faster, would end
 * the same way again. So each such tick doubles the rate, and each one that
 * gets somewhere halves that.
 *
 * Lifetime:	one a maintainer; the pace must outlive it.
 * Locking:	the loop's thread.
 */

#include "common/config.h"
#include "common/loop.h"
#include "worker/object/pace.h"

void rate_start(const struct config *, struct loop *, struct object_pace *);
void rate_stop(void);
/* Pending generations that a tick left behind. */
void rate_backlog(uint32_t generations);
/* A tick ran out of time while it wrote; or it folded something. */
void rate_late(bool late);

#endif
