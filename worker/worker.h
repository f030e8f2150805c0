#ifndef MEMWALD_WORKER_WORKER_H
#define MEMWALD_WORKER_WORKER_H

/*
 * worker - the process main of a request worker: attach, run, drain, leave.
 *
 * Death:	at any instruction; the master reaps and starts another. Exit 0
 *		after a drain, 1 if it cannot run (the reason is in the log).
 */

#include "common/base.h"
#include "worker/start.h"

NORETURN void worker_main(const struct child_start *);

#endif
