#ifndef MEMWALD_WORKER_PROCESS_H
#define MEMWALD_WORKER_PROCESS_H

/*
 * process - what worker and maintainer have in common: loop, pool, heartbeat,
 * mailbox, and the steps in which they leave.
 *
 * The heartbeat is a timer of the loop: it stops when the loop does, and not
 * when a request takes long. With it the process says how much is under way for
 * longer than PROCESS_OLD_NS, which an upgrade waits for while all goes on.
 *
 * Lifetime:	one a process, made after fork.
 * Errors:	of a start end the process with status 1 and a line that says
 *		why.
 */

#include "common/base.h"
#include "common/clock.h"
#include "common/loop.h"
#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/start.h"

#define PROCESS_OLD_NS (250 * NS_PER_MS)

struct process_plan {
	const struct child_start *start;
	uint32_t pool_threads;
	/* A command that is not the process's own. */
	void (*mail)(const struct shm_command *);
	/* Begin to leave; called once. Orphaned: the master is dead, finish
	 * what is in flight and no more. */
	void (*drain)(bool orphaned);
	/* Asked now and then while draining. */
	bool (*idle)(void);
	/* What began before that time of clock_mono_ns and is under way. */
	uint32_t (*old)(uint64_t before_ns);
};

void process_start(const struct process_plan *);
struct loop *process_loop(void);
struct pool *process_pool(void);
/* While draining: the rest of the server stays. */
bool process_leaves_alone(void);
NORETURN void process_fail(struct err, const char *what);
/* Turns the loop until it is time to leave; ends the process with status 0. */
NORETURN void process_run(void);

#endif
