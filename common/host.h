#ifndef MEMWALD_COMMON_HOST_H
#define MEMWALD_COMMON_HOST_H

/*
 * host - what this machine, or our share of it, is.
 *
 * A container sees all CPUs of its machine; what it may use is in its cgroup
 * and its CPU set (memory: shm/segment.h). Limits hold for a group and all groups above
 * it, so each is looked up from our group to the root and the least one taken.
 * Where the path that /proc/self/cgroup names is not visible (a container
 * without a cgroup namespace), the mount's root is ours.
 *
 * Locking:	none; reads files below root ("" but in tests).
 * Errors:	none: what cannot be read limits nothing.
 */

#include "common/base.h"
#include "common/err.h"

/* CPUs to use: affinity and quota (cgroup v2 and v1), rounded up, at least 1. */
uint32_t host_cpus(const char *root);
/* The quota alone, rounded up; UINT32_MAX: none. */
uint32_t host_cpu_quota(const char *root);

/* Of this boot of the machine: the same for all its processes and containers,
 * and another one after the next start. */
void host_boot_id(char *id, size_t id_bytes);

/*
 * Contract 5.4: what was asked for, else HOSTNAME, else the host's name, else
 * "default"; empty and "localhost" count as unset. BAD_INPUT: '#' (it parts
 * ordinals), a control character or '/', or no UTF-8. *nameless: it is the
 * default, which any other server without a name would have too.
 */
struct err host_instance_id(const char *asked, const char *env_hostname,
    char *id, size_t id_bytes, bool *nameless) MUST_CHECK;

#endif
