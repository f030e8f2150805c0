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
