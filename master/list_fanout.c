#include "common/base.h"

#include "common/clock.h"
#include "shm/ordinal_table.h"
#include "master/fanout.h"
#include "master/list.h"

static const struct report_column columns[] = {
	{ "FOLD JOB", "state", -9 },
	{ "KIND", "kind", -8 },
	{ "STORE", "store", -24 },
	{ "ORDINAL", "ordinal", -24 },
	{ "INSTANCE", "instance", -16 },
	{ "TRIES", "failures", 5 },		/* that failed */
	{ "NEXT_MS", "next_ms", 8 },
	{ "LAST ERROR", "error", -1 },
};

static void
put_job(struct report *r, const struct fanout_job *j, uint64_t now_ns)
{
	bool waits = j->state != FANOUT_RUNNING && j->due_ns > now_ns;

	report_row(r);
	report_text(r, "%s", fanout_state_name(j->state));
	report_text(r, "%s", store_kind_name(j->kind));
	report_text(r, "%s", j->store);
	report_text(r, "%s", shm_ordinal_name(j->ordinal).ptr);
	report_text(r, "%s", j->instance);
	report_uint(r, j->failures);
	report_uint(r, waits ? (j->due_ns - now_ns) / NS_PER_MS : 0);
	report_text(r, "%s", err_is(j->err) ? j->err.what : "");
	report_row_end(r);
}

/* Few rows, one piece. */
bool
list_fanout(struct call *call)
{
	uint64_t now_ns = clock_mono_ns();
	struct report *r = &call->report;
	uint32_t i;

	report_list(r, "fold_jobs", columns, ARRAY_LEN(columns));
	for (i = 0; i < FANOUT_JOBS; i++) {
		if (fanout_job(i)->state != FANOUT_FREE)
			put_job(r, fanout_job(i), now_ns);
	}
	report_list_end(r);
	return true;
}
