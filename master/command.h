#ifndef MEMWALD_MASTER_COMMAND_H
#define MEMWALD_MASTER_COMMAND_H

/*
 * command - what the rows of admin.def do: a step of a call each (call.h).
 *
 * The words of a request are checked against its row before: options that the
 * row has, at most as many operands. What they mean is the function's matter.
 */

#include "common/base.h"
#include "master/admin.h"
#include "master/call.h"

void command_init(const struct admin_plan *);
const struct admin_plan *command_plan(void);

/* Whether the server is on its way out. */
bool command_draining(void);

#define ADMIN(symbol, function, name, operands, options, when, seconds, help) \
	enum call_step command_##function(struct call *);
#include "master/admin.def"
#undef ADMIN

#endif
