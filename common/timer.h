#ifndef MEMWALD_COMMON_TIMER_H
#define MEMWALD_COMMON_TIMER_H

/*
 * timer - deadlines: set, moved, cancelled, fired.
 *
 * A timer is embedded in its owner and its heap is linked through the timers
 * themselves (a pairing heap), so that setting one never allocates. Setting
 * and looking at the first are O(1), cancelling and firing O(log n).
 *
 * Whoever moves a deadline with every byte (a connection) should leave the
 * timer where it is when the new deadline is later, and look again when it
 * fires: that is cheaper than moving it.
 *
 * Times are of clock_mono_ns, whose speed tests may change; who sleeps in the
 * kernel until the next one converts the span with clock_real_ns.
 *
 * Lifetime:	a timer must be cancelled, or have fired, before its memory
 *		goes.
 * Locking:	none; the loop's thread only.
 */

#include "common/base.h"

struct timer {
	void (*fire)(struct timer *);	/* set by the owner */

	/* The heap's. */
	uint64_t deadline_ns;
	struct timer *child;		/* leftmost */
	struct timer *sibling;		/* to the right */
	struct timer *prev;		/* to the left, or the parent */
	bool armed;
};

struct timers {
	struct timer *first;		/* earliest deadline, or NULL */
	uint64_t firing_ns;		/* inside timers_fire: its now */
	bool firing;
};

void timers_init(struct timers *);
void timer_init(struct timer *, void (*fire)(struct timer *));

/* Sets it, or moves it if it is set. */
void timer_set(struct timers *, struct timer *, uint64_t deadline_ns);
/* No-op if it is not set. */
void timer_cancel(struct timers *, struct timer *);

/* Fires what is due, in the order of deadlines; a timer set meanwhile waits
 * for the next call, also if it is due. */
void timers_fire(struct timers *, uint64_t now_ns);
/* The earliest deadline, or UINT64_MAX. */
uint64_t timers_next(const struct timers *);

#endif
