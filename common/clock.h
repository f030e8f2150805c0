#ifndef MEMWALD_COMMON_CLOCK_H
#define MEMWALD_COMMON_CLOCK_H

/*
 * clock - the only source of time, so that tests can replace it.
 *
 * Two clocks: monotonic for deadlines and intervals, wall for time stamps and
 * sequences. A build with MEMWALD_FAULTS lets both run faster: with
 * clock_set_speed(20), or MEMWALD_CLOCK_SPEED=20 in the environment, ten
 * minutes pass in thirty seconds. Who waits in the kernel converts the span
 * with clock_real_ns first.
 */

#include "common/base.h"

#define NS_PER_US	1000ull
#define NS_PER_MS	1000000ull
#define NS_PER_SEC	1000000000ull
#define US_PER_SEC	1000000ull

uint64_t clock_mono_ns(void);
uint64_t clock_wall_us(void);

/* True time since the machine started, the time that it slept included; never
 * replaced. For spans that other machines count too. */
uint64_t clock_boot_ns(void);

/* A span of this clock as one of the kernel's. */
uint64_t clock_real_ns(uint64_t span_ns);

/* Sleeps that long, for threads that may. */
void clock_sleep_ns(uint64_t span_ns);

/* Before the first fork, and before anything remembers a time. */
void clock_set_speed(uint32_t times);

#endif
