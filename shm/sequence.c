#include "common/base.h"

#include "common/clock.h"
#include "shm/part.h"
#include "shm/sequence.h"

static struct {
	alignas(CACHELINE)
	_Atomic uint64_t last;
} *host;

uint64_t
shm_sequence_bytes(const struct shm_config *cfg)
{
	(void)cfg;
	return sizeof(*host);
}

void
shm_sequence_carve(void *at, const struct shm_config *cfg)
{
	(void)cfg;
	host = at;
}

uint64_t
shm_sequence_next(void)
{
	uint64_t last = atomic_load_explicit(&host->last, memory_order_relaxed);
	uint64_t wall_us = clock_wall_us(), next;

	/* Release and acquire: who takes a later value sees what the taker of
	 * an earlier one did before it. */
	do {
		next = MAX(wall_us, last + 1);
	} while (!atomic_compare_exchange_weak_explicit(&host->last, &last,
	    next, memory_order_acq_rel, memory_order_relaxed));
	return next;
}

uint64_t
shm_sequence_last(void)
{
	return atomic_load_explicit(&host->last, memory_order_acquire);
}

void
shm_sequence_raise(uint64_t at_least)
{
	uint64_t last = atomic_load_explicit(&host->last, memory_order_relaxed);

	while (last < at_least &&
	    !atomic_compare_exchange_weak_explicit(&host->last, &last,
	    at_least, memory_order_acq_rel, memory_order_relaxed))
		;
}

bool
shm_sequence_plausible(uint64_t sequence)
{
	return sequence <= clock_wall_us() + SHM_SEQUENCE_AHEAD_US;
}
