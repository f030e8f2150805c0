#include "common/base.h"

#include "common/fault.h"
#include "shm/process.h"
#include "master/child.h"
#include "master/command.h"
#include "master/list.h"
#include "master/status.h"

static struct admin_plan plan;

void
command_init(const struct admin_plan *p)
{
	plan = *p;
	status_init(p->server);
}

const struct admin_plan *
command_plan(void)
{
	return &plan;
}

bool
command_draining(void)
{
	return plan.draining();
}

/* A section of its own, since what a status looks for comes before it. */
static bool
begin(struct call *call)
{
	report_open(&call->report);
	return true;
}

/* Section after section, a piece a step. */
static enum call_step
list(struct call *call, list_section *const *sections, uint32_t count)
{
	while (call->section < count) {
		if (!sections[call->section](call))
			return CALL_MORE;
		call->section++;
		call->cursor = (struct cursor){ 0 };
		if (call->body.len >= CALL_PIECE_BYTES &&
		    call->section < count)
			return CALL_MORE;
	}
	report_close(&call->report);
	return CALL_DONE;
}

enum call_step
command_status(struct call *call)
{
	static list_section *const sections[] = {
		status_find, begin, status_head,
		status_gap, list_processes,
		status_gap, list_stores, list_locks,
		status_gap, list_lease,
		status_gap, list_instances,
		status_gap, list_ordinals,
		status_gap, list_strays,
		status_gap, list_fanout,
		status_gap, list_budgets,
	};

	return list(call, sections, ARRAY_LEN(sections));
}

enum call_step
command_workers(struct call *call)
{
	static list_section *const sections[] = { begin, list_processes };

	return list(call, sections, ARRAY_LEN(sections));
}

enum call_step
command_stores(struct call *call)
{
	static list_section *const sections[] = { begin, list_stores };

	return list(call, sections, ARRAY_LEN(sections));
}

enum call_step
command_shards(struct call *call)
{
	static list_section *const sections[] = { begin, list_shards };

	return list(call, sections, ARRAY_LEN(sections));
}

enum call_step
command_ordinals(struct call *call)
{
	static list_section *const sections[] = { begin, list_ordinals,
	    status_gap, list_history };

	return list(call, sections, call->given[ADMIN_OPTION_HISTORY] ?
	    ARRAY_LEN(sections) : 2);
}

enum call_step
command_jobs(struct call *call)
{
	static list_section *const sections[] = {
		begin, list_jobs, status_gap, list_lanes, status_gap,
		list_fanout
	};

	return list(call, sections, ARRAY_LEN(sections));
}

static enum call_step
say_state(struct call *call, const char *state)
{
	struct report *r = &call->report;

	report_open(r);
	report_line(r, "%s", state);
	if (r->json)
		json_write_text(&r->w, "state", slice_of(state));
	report_close(r);
	return CALL_DONE;
}

/* The last step is that of admin_farewell: the server has ended but for us. */
enum call_step
command_shutdown(struct call *call)
{
	uint32_t left = child_alive(SHM_ROLE_WORKER) +
	    child_alive(SHM_ROLE_MAINTAINER);

	if (!call->told) {
		plan.shutdown();
		call->told = true;
		call->children = left;
		return call->given[ADMIN_OPTION_NO_WAIT] ?
		    say_state(call, "draining") : CALL_WAIT;
	}
	if (!plan.stopped()) {
		call_progress(call, call->children - MIN(left, call->children),
		    call->children, "processes are gone, %s",
		    plan.server->state);
		return CALL_WAIT;
	}
	say_state(call, "stopped");
	if (child_killed_late() > 0)
		return call_refuse(call, "stopped, but %u processes did not "
		    "leave by the deadline and were killed",
		    child_killed_late());
	return CALL_DONE;
}

#ifdef MEMWALD_FAULTS
enum call_step
command_fault(struct call *call)
{
	struct report *r = &call->report;
	struct err e = OK;
	uint32_t i;

	for (i = 0; i < call->operand_count && !err_is(e); i++)
		e = fault_set(call->operands[i]);
	if (err_is(e))
		return call_refuse(call, "%s", e.what);
	report_open(r);
	for (i = 0; i < FAULT_COUNT; i++) {
		report_line(r, "%s=%u", fault_name(i), fault_hits(i));
		if (r->json)
			json_write_uint64(&r->w, fault_name(i), fault_hits(i));
	}
	report_close(r);
	return CALL_DONE;
}
#endif
