#include "common/base.h"

#include "worker/engine.h"

struct err
engine_worker_start(const struct engine_env *env)
{
	(void)env;
	return OK;
}

void
engine_worker_before_wait(void *arg)
{
	(void)arg;
}

void
engine_worker_mail(const struct shm_command *m)
{
	shm_mailbox_reply(m, FAIL(UNSUPPORTED, "command"), 0);
}

void
engine_worker_drain(void)
{
}

bool
engine_worker_idle(void)
{
	return true;
}

struct err
engine_maintainer_start(const struct engine_env *env)
{
	(void)env;
	return OK;
}

void
engine_maintainer_mail(const struct shm_command *m)
{
	shm_mailbox_reply(m, FAIL(UNSUPPORTED, "command"), 0);
}

void
engine_maintainer_drain(void)
{
}

bool
engine_maintainer_idle(void)
{
	return true;
}
