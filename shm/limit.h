#ifndef MEMWALD_SHM_LIMIT_H
#define MEMWALD_SHM_LIMIT_H

/*
 * limit - how much memory this container may use.
 *
 * The smallest of the machine's memory and the limits of the cgroup that we
 * are in and of all above it: version 2 (memory.max) and version 1
 * (memory.limit_in_bytes). What cannot be read limits nothing.
 *
 * Locking:	none; reads files, so before the loop starts.
 * Errors:	none.
 */

#include "common/base.h"

uint64_t shm_memory_limit(void);

/* For tests: the same with the two trees given. */
uint64_t shm_memory_limit_under(const char *proc_cgroup, const char *cgroup_fs);

#endif
