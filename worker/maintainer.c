#include "common/base.h"

#include <sys/resource.h>
#include <unistd.h>

#include "common/config.h"
#include "common/fault.h"
#include "shm/store_table.h"
#include "worker/engine.h"
#include "worker/maintain/remote.h"
#include "worker/maintainer.h"
#include "worker/process.h"

#define NICE 5

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

	/* Threads inherit it. Where it is refused we cost more CPU, no more. */
	(void)setpriority(PRIO_PROCESS, 0, NICE);
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
