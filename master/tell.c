#include "common/base.h"

#include "common/config.h"
#include "shm/mailbox.h"
#include "shm/process.h"
#include "master/child.h"
#include "master/tell.h"

/* By process slot: the change that its life last heard of, or was born with. */
static struct {
	pid_t pid;
	uint32_t change;
} told[SHM_WORKERS_LIMIT + 2];
static uint32_t change;

void
tell_all(void)
{
	change++;
}

static bool
send_all(const struct child *c)
{
	struct shm_command option = { .kind = SHM_MAIL_OPTION };
	struct shm_command workers = { .kind = SHM_MAIL_WORKERS,
	    .args = { child_wanted() } };
	uint32_t i;

	for (i = 0; i < config_count(); i++) {
		option.args[0] = i;
		if (config_live_get(i, &option.args[1]) &&
		    err_is(shm_mailbox_send(c->slot, &option)))
			return false;
	}
	return !err_is(shm_mailbox_send(c->slot, &workers));
}

/* Whether it knows all that there is to know. */
static bool
knows(const struct child *c)
{
	if (c->pid == 0)
		return true;
	/* A new life: forked before or after the change, so it is told. */
	if (told[c->slot].pid != c->pid) {
		told[c->slot].pid = c->pid;
		told[c->slot].change = 0;
	}
	return told[c->slot].change == change;
}

void
tell_look(void)
{
	uint32_t i;

	for (i = 0; i < child_count(); i++) {
		const struct child *c = child_at(i);

		if (!knows(c) && send_all(c))
			told[c->slot].change = change;
	}
}

uint32_t
tell_left(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < child_count(); i++)
		n += !knows(child_at(i));
	return n;
}
