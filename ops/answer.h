#ifndef MEMWALD_OPS_ANSWER_H
#define MEMWALD_OPS_ANSWER_H

/*
 * answer - what the master says to a request (master/admin.h), as it comes: the
 * body to standard output, progress as a bar where standard error is a
 * terminal, as plain lines otherwise.
 *
 * Errors:	the exit status (ADMIN_EXIT of admin.def); why is said on
 *		standard error.
 */

#include "common/base.h"

struct answer_plan {
	const char *socket_path;
	const char *line;		/* with its LF */
	bool json;			/* then progress is not shown */
};

int answer_ask(const struct answer_plan *);

#endif
