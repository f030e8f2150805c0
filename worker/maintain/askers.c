#include "common/base.h"

#include <stdlib.h>

#include "worker/maintain/askers.h"

bool
askers_add(struct askers *a, const struct shm_command *command)
{
	if (a->count == a->room) {
		uint32_t room = MAX(a->room * 2, 8u);
		struct shm_command *more;

		if (a->room >= ASKERS_MAX)
			return false;
		more = realloc(a->commands, room * sizeof(*more));
		if (more == NULL)
			return false;
		a->commands = more;
		a->room = room;
	}
	a->commands[a->count++] = *command;
	return true;
}

bool
askers_is_fold_job(const struct shm_command *c)
{
	return c->kind == SHM_MAIL_FOLD && c->args[0] == ASKERS_FOLD_SHARD;
}

static struct err
check_deadlines(const struct shm_command *c, const struct askers_clock *t)
{
	bool begun = t->stepped_ns != 0;

	if (t->now_ns >= c->args[2])
		return FAIL(TIMED_OUT, "time limit of a fold job");
	if (!begun && t->now_ns >= c->args[1])
		return FAIL(TIMED_OUT, "turn of a fold job did not come");
	if (begun && t->now_ns - MIN(t->now_ns, t->stepped_ns) >= t->idle_ns)
		return FAIL(TIMED_OUT, "fold job makes no step");
	return OK;
}

uint32_t
askers_tell_late(struct askers *a, const struct askers_clock *t)
{
	uint32_t i, kept = 0, jobs = 0;

	for (i = 0; i < a->count; i++) {
		const struct shm_command c = a->commands[i];
		bool is_job = askers_is_fold_job(&c);
		struct err e = is_job ? check_deadlines(&c, t) : OK;

		if (err_is(e)) {
			shm_mailbox_reply(&c, e, 0);
			continue;
		}
		a->commands[kept++] = c;
		jobs += is_job;
	}
	a->count = kept;
	return jobs;
}

void
askers_reply(struct askers *a, struct err e)
{
	uint32_t i;

	for (i = 0; i < a->count; i++)
		shm_mailbox_reply(&a->commands[i], e, 0);
	a->count = 0;
}

void
askers_free(struct askers *a)
{
	free(a->commands);
	*a = (struct askers){ 0 };
}
