#include "common/base.h"

#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "worker/api/request.h"
#include "worker/engine.h"
#include "worker/maintain/cluster.h"
#include "worker/maintain/pending_list.h"
#include "worker/maintain/remote.h"
#include "worker/maintain/schedule.h"
#include "worker/object/local.h"
#include "worker/object/map.h"
#include "worker/store/engine.h"

static struct engine engine;
static bool leave_orphaned;

struct err
engine_worker_start(const struct engine_env *env)
{
	struct err e;

	object_map_install();
	e = engine_init(&engine, env->start->config, env->loop, env->pool,
	    env->start->slot - SHM_WORKER(0), env->start->workers);
	if (!err_is(e))
		api_init(&engine);
	return e;
}

void
engine_worker_before_wait(void *arg)
{
	(void)arg;
	engine_before_wait(&engine);
}

void
engine_worker_mail(const struct shm_command *m)
{
	if (!engine_command(&engine, m))
		shm_mailbox_reply(m, FAIL(UNSUPPORTED, "command"), 0);
}

/* Requests ended with their connections. Entries are closed, so that the
 * maintainer, which leaves after us, can seal them. */
void
engine_worker_drain(void)
{
	engine_close_entries(&engine);
}

bool
engine_worker_idle(void)
{
	return engine_idle(&engine);
}

/* Without put-if-absent fencing protects nothing (design 8). */
static struct err
probe(struct object_dir *root)
{
	if (object_on_network(root))
		log_warn("data directory is on a network file system: it must "
		    "honour link(2) and fsync(2), or rows can be lost");
	return object_probe(root);
}

struct err
engine_maintainer_start(const struct engine_env *env)
{
	struct object_dir *root;
	struct err e;

	object_map_install();
	e = engine_root(env->start->config, &root);
	if (!err_is(e))
		e = probe(root);
	if (!err_is(e))
		cluster_start(&(struct cluster_plan){ env->loop, env->pool,
		    root, env->start->config->lease_secs * NS_PER_SEC,
		    env->start->nameless });
	if (!err_is(e)) {
		pending_list_start(env->pool, root);
		remote_start(env->pool);
	}
	if (!err_is(e))
		e = schedule_start(env->start->config, env->loop, env->pool,
		    root);
	return e;
}

void
engine_maintainer_mail(const struct shm_command *m)
{
	if (!pending_list_command(m) && !remote_command(m) &&
	    !cluster_command(m) && !schedule_command(m))
		shm_mailbox_reply(m, FAIL(UNSUPPORTED, "command"), 0);
}

void
engine_maintainer_drain(bool orphaned)
{
	leave_orphaned = orphaned;
	remote_stop();
	/* A server that goes on seals by itself, and folds anew. */
	if (shm_server_is(SHM_SERVER_UPGRADING))
		schedule_end();
	schedule_drain(!orphaned && !shm_server_is(SHM_SERVER_UPGRADING));
}

uint32_t
engine_maintainer_old(uint64_t before_ns)
{
	return schedule_older(before_ns);
}

bool
engine_maintainer_idle(void)
{
	if (!schedule_idle() || !pending_list_idle() || !remote_idle())
		return false;
	/* Last, since another server may write from then on. Without a master
	 * nobody knows whether our workers are gone. */
	cluster_leave(!leave_orphaned);
	return cluster_idle();
}
