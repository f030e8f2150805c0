#ifndef MEMWALD_MASTER_BACKOFF_H
#define MEMWALD_MASTER_BACKOFF_H

/*
 * backoff - how long to wait before the next try: doubled with each failure up
 * to a limit, and never the same for two who failed together.
 *
 * Lifetime, locking, errors: none. The master's random numbers are nobody's secret.
 */

#include "common/base.h"

struct backoff {
	uint64_t first_ns, max_ns;
};

/* From half of what is due to all of it; failures from 1. */
uint64_t backoff_ns(const struct backoff *, uint32_t failures);
/* 0 to that, evenly. */
uint64_t backoff_jitter_ns(uint64_t most_ns);

#endif
