#include "common/base.h"

#include "common/fault.h"
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
		status_gap, list_ordinals,
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
	static list_section *const sections[] = { begin, list_ordinals };

	return list(call, sections, ARRAY_LEN(sections));
}

enum call_step
command_jobs(struct call *call)
{
	static list_section *const sections[] = {
		begin, list_jobs, status_gap, list_lanes
	};

	return list(call, sections, ARRAY_LEN(sections));
}

enum call_step
command_shutdown(struct call *call)
{
	plan.shutdown();
	report_open(&call->report);
	report_line(&call->report, "%s", "draining");
	report_close(&call->report);
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
