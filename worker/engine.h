#ifndef MEMWALD_WORKER_ENGINE_H
#define MEMWALD_WORKER_ENGINE_H

/*
 * engine - what the two process mains know of stores: start, a hook in the
 * loop's turn, commands from the mailbox, drain.
 *
 * Everything runs on the loop's thread. Drain means: begin nothing new, bring
 * what is in flight to its end; idle says when that is so. A process may be
 * ended before that, as by any death.
 *
 * Errors:	of a start: the process cannot run and says why.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/loop.h"
#include "common/pool.h"
#include "shm/mailbox.h"
#include "worker/start.h"

struct engine_env {
	const struct child_start *start;
	struct loop *loop;
	struct pool *pool;
};

struct err engine_worker_start(const struct engine_env *) MUST_CHECK;
/* Before each wait of the loop: starts the commits that are due. */
void engine_worker_before_wait(void *);
void engine_worker_mail(const struct shm_command *);
void engine_worker_drain(void);
bool engine_worker_idle(void);

struct err engine_maintainer_start(const struct engine_env *) MUST_CHECK;
void engine_maintainer_mail(const struct shm_command *);
/* Seals what the workers have left in closed entries, for half of --drain-secs
 * at most; orphaned, or with a server that takes over: nothing more. */
void engine_maintainer_drain(bool orphaned);
bool engine_maintainer_idle(void);
/* Runs under way that began before that time. */
uint32_t engine_maintainer_old(uint64_t before_ns);

#endif
