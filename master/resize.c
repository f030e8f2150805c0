#include "common/base.h"

#include <stdlib.h>

#include "shm/process.h"
#include "master/child.h"
#include "master/command.h"
#include "master/drain.h"
#include "master/tell.h"

/* resize N: told once, then watched until there are N. */

static bool
read_workers(struct call *call)
{
	const char *text = call->operands[0];
	unsigned long n = strtoul(text, NULL, 10);

	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 4 ||
	    n == 0 || n > shm_workers_max()) {
		call_refuse(call, "resize: 1 to %u workers; more need a start "
		    "with a larger --workers-max", shm_workers_max());
		return false;
	}
	if (drain_has_all((uint32_t)n)) {
		call_refuse(call, "resize: all workers that would be left are "
		    "drained; undrain one");
		return false;
	}
	call->workers_before = child_wanted();
	call->workers = (uint32_t)n;
	return true;
}

static enum call_step
done(struct call *call)
{
	struct report *r = &call->report;

	report_open(r);
	report_line(r, "%u workers, were %u", call->workers,
	    call->workers_before);
	if (r->json) {
		json_write_uint64(&r->w, "workers", call->workers);
		json_write_uint64(&r->w, "before", call->workers_before);
	}
	report_close(r);
	return CALL_DONE;
}

enum call_step
command_resize(struct call *call)
{
	uint32_t serving, leaving;

	if (call->workers == 0) {
		if (!read_workers(call))
			return CALL_DONE;
		command_plan()->resize(call->workers, call->now_ns);
		return CALL_WAIT;
	}
	if (child_wanted() != call->workers)
		return call_refuse(call, "resize: another one came after it, "
		    "to %u workers", child_wanted());
	child_progress(&serving, &leaving);
	if (serving == call->workers && leaving == 0 && tell_left() == 0)
		return done(call);
	call_progress(call, serving, call->workers, "workers serve, %u leave",
	    leaving);
	return CALL_WAIT;
}
