#ifndef MEMWALD_WORKER_MAINTAINER_H
#define MEMWALD_WORKER_MAINTAINER_H

/*
 * maintainer - the process main of the one process that ages data.
 *
 * Runs at lower CPU priority: nice, not SCHED_IDLE, since a holder of a lock
 * must never be starved.
 *
 * Death:	as a worker's.
 */

#include "common/base.h"
#include "worker/start.h"

NORETURN void maintainer_main(const struct child_start *);

#endif
