#ifndef MEMWALD_SHM_PART_H
#define MEMWALD_SHM_PART_H

/*
 * part - what segment.c needs of each module that keeps memory in the segment.
 *
 * A module x gives two functions: shm_x_bytes says how much it needs with a
 * configuration, shm_x_carve makes its part in zeroed memory and remembers
 * where it is, in a static pointer that every child inherits with the mapping.
 */

#include "common/base.h"
#include "shm/segment.h"

#define SHM_PARTS(X) \
	X(process) \
	X(server_state) \
	X(sequence) \
	X(budget) \
	X(mailbox) \
	X(instance) \
	X(ordinal_table) \
	X(stray) \
	X(store_table) \
	X(metric) \
	X(fault)

#define X(part) \
	uint64_t shm_##part##_bytes(const struct shm_config *); \
	void shm_##part##_carve(void *, const struct shm_config *);
SHM_PARTS(X)
#undef X

#endif
