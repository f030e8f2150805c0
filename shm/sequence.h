#ifndef MEMWALD_SHM_SEQUENCE_H
#define MEMWALD_SHM_SEQUENCE_H

/*
 * sequence - the host's hybrid clock: orders writes of one key across shards.
 *
 * Every commit takes the next value when it starts: max(wall clock in us,
 * last + 1). So values rise over all processes of the host, whatever the wall
 * clock does, and are comparable with those of other hosts as far as the
 * clocks agree. Loading a store raises the clock to what is stored there.
 *
 * Death:	one atomic word; a value taken and not used is a gap, no harm.
 * Locking:	none; any thread of any process.
 * Errors:	none. A value from elsewhere that is more than
 *		SHM_SEQUENCE_AHEAD_US ahead of the wall clock is for the caller
 *		to report, not to adopt (shm_sequence_plausible).
 */

#include "common/base.h"

#define SHM_SEQUENCE_AHEAD_US 60000000ull

uint64_t shm_sequence_next(void);
uint64_t shm_sequence_last(void);
/* Later values are greater than at_least. Never lowers. */
void shm_sequence_raise(uint64_t at_least);
/* Whether a value from storage may be adopted. */
bool shm_sequence_plausible(uint64_t sequence);

#endif
