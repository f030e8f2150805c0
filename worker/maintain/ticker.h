#ifndef MEMWALD_MAINTAIN_TICKER_H
#define MEMWALD_MAINTAIN_TICKER_H

/*
 * ticker - when stores are aged that nobody asks for (design 6).
 *
 * One ticker a kind, every FLUSH_INTERVAL, the kinds side by side. Every N-th
 * tick, N = max(1, ceil(CLEANUP_INTERVAL / FLUSH_INTERVAL)), is a forced one:
 * what is pending is folded, whatever the count trigger says. FLUSH_INTERVAL 0:
 * no ticker, and so no forced ticks. CLEANUP_INTERVAL 0: never forced. Ticks
 * that come late are skipped, not caught up.
 *
 * A tick wants the stores that were appended to since their last clean tick
 * (shm_slot.dirty), and a forced one those with anything left in a shard of
 * this host. All others cost two loads a tick: no lock, no I/O, no other
 * thread.
 *
 * Lifetime:	one a maintainer.
 * Locking:	the loop's thread.
 */

#include "common/config.h"
#include "common/loop.h"
#include "shm/store_table.h"

struct ticker_plan {
	const struct config *config;
	struct loop *loop;
	/* A store is due: enum tick_want, or-ed. */
	void (*due)(struct shm_ref, uint32_t want);
	/* A forced tick of that kind went round. */
	void (*forced)(uint32_t kind);
};

/* The time limit of a store's tick: max(5 x interval, 30 s). */
uint64_t ticker_span_ns(const struct config *);

void ticker_start(const struct ticker_plan *);
/* Options changed (OPTION_LIVE). */
void ticker_reload(void);
void ticker_stop(void);
/* The store's first tick from that time of clock_mono_ns on is forced, and
 * comes even if nobody writes to it. */
void ticker_again(struct shm_ref, uint64_t at_ns);
/* The same of a collection, which is no forced tick. */
void ticker_collect(struct shm_ref, uint64_t at_ns);

#endif
