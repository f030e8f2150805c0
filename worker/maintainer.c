#include "common/base.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/fault.h"
#include "shm/store_table.h"
#include "worker/engine.h"
#include "worker/maintain/remote.h"
#include "worker/maintainer.h"
#include "worker/process.h"

#define NICE 5
#define SLICE_NS (100 * NS_PER_MS)	/* the longest that there is */

/* What sched_setattr(2) takes, for a C library that does not declare it. */
struct priority {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t static_priority;
	uint64_t runtime, deadline, period;	/* ns */
};

static_assert(sizeof(struct priority) == 48, "as the first version of it");

/*
 * Threads inherit it. Nice alone decides shares over time, not who runs now: a
 * kernel since 6.6 lets whoever runs have its slice or waits for the next tick,
 * 4 ms of a commit. Whoever asks for a longer slice is preempted at once by all
 * with a shorter one (since 6.12; before, the kernel ignores the wish). Where it
 * is refused we cost more, no more.
 */
static void
give_way(void)
{
	struct priority low = { .size = sizeof(low), .policy = SCHED_BATCH,
	    .nice = NICE, .runtime = SLICE_NS };

	if (syscall(SYS_sched_setattr, 0, &low, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, NICE);
}

void
maintainer_main(const struct child_start *s)
{
	struct process_plan plan = {
		.start = s,
		/* Two lanes a kind (runs.h); the walk at start; trash;
		 * stores that are asked for by name, or with a shard to be
		 * folded; rounds of the cluster; what is pending in shards of
		 * moved ordinals; other instances. */
		.pool_threads = STORE_KIND_COUNT * 2 *
		    s->config->maintain_concurrency + 6 + REMOTE_AT_ONCE,
		.mail = engine_maintainer_mail,
		.drain = engine_maintainer_drain,
		.idle = engine_maintainer_idle,
		.old = engine_maintainer_old,
	};
	struct engine_env env;
	struct err e;
	uint32_t i;

	give_way();
	process_start(&plan);
	/* It never accepts: a stopped server's port must not stay with it. */
	for (i = 0; i < s->listen_count; i++)
		close(s->listen_fds[i]);
	e = FAULT(maintainer_start);
	if (err_is(e))
		process_fail(e, "told so by a test");
	env = (struct engine_env){ s, process_loop(), process_pool() };
	e = engine_maintainer_start(&env);
	if (err_is(e))
		process_fail(e, "no stores");
	process_run();
}
