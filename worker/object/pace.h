#ifndef MEMWALD_OBJECT_PACE_H
#define MEMWALD_OBJECT_PACE_H

/*
 * pace - how fast background work may write: so many bytes a second, shared by
 * all threads of a process.
 *
 * A commit's sync waits behind whatever else the disk was given: beside an
 * unpaced write of 64 MiB its p99 rose from 0.3 to 25 ms, beside steps of
 * OBJECT_PACE_STEP, each synced before the next, to 0.5 ms (design 2). Each
 * step reserves its time on one line and waits until that begins, so that
 * threads share the rate by arrival.
 *
 * How much more than the rate is allowed (nobody asks for anything, the backlog
 * grows) is the policy of whoever runs the work: object_pace_set_times.
 *
 * Lifetime:	its owner's; must outlive the writers that use it.
 * Locking:	one atomic; any thread.
 */

#include "common/base.h"

#define OBJECT_PACE_STEP 65536u

struct object_pace {
	_Atomic uint64_t bytes_per_sec;
	_Atomic uint32_t times;		/* a stale value: a step at the old rate */
	_Atomic uint64_t next_ns;	/* monotonic: when the line is free */
};

/* bytes_per_sec 0: no limit. */
void object_pace_init(struct object_pace *, uint64_t bytes_per_sec);
/* Another rate from now on. */
void object_pace_set_rate(struct object_pace *, uint64_t bytes_per_sec);
/* From now on times the rate; 1 is the rate itself, 0 no limit. */
void object_pace_set_times(struct object_pace *, uint32_t times);
/* Waits until that many bytes may be written. */
void object_pace_take(struct object_pace *, uint64_t bytes);

#endif
