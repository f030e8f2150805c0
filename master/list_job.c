#include "common/base.h"

#include "common/clock.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/store_table.h"
#include "master/facts.h"
#include "master/list.h"

#define SLOTS_A_STEP 512

static const struct report_column job_columns[] = {
	{ "KIND", "kind", -8 },
	{ "STORE", "store", -24 },
	{ "HOLDS", "holds", -5 },		/* guard, or seal */
	{ "SHARD", "shard", 5 },		/* of a seal; else -1 */
	{ "PHASE", "phase", -11 },
	{ "SLOT", "slot", 4 },
	{ "THREAD", "thread", 6 },
	{ "HELD_MS", "held_ms", 9 },
	{ "LEFT_MS", "left_ms", 9 },		/* below 0: late */
};

struct job_facts {
	const char *holds;
	int shard;
	uint32_t phase;
	struct shm_who who;
	uint64_t since_ns, deadline_ns;
};

/* Signed: times of others may lie a little ahead. */
static int64_t
ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return ((int64_t)to_ns - (int64_t)from_ns) / (int64_t)NS_PER_MS;
}

static void
put_job(struct report *r, const struct shm_store_info *s,
    const struct job_facts *j)
{
	uint64_t now_ns = clock_mono_ns();

	report_row(r);
	report_text(r, "%s", store_kind_name(s->kind));
	report_text(r, "%s", s->name);
	report_text(r, "%s", j->holds);
	report_int(r, j->shard);
	report_text(r, "%s", tick_phase_name(j->phase));
	report_uint(r, j->who.slot);
	report_uint(r, j->who.thread);
	report_int(r, MAX(ms_between(j->since_ns, now_ns), 0));
	report_int(r, ms_between(now_ns, j->deadline_ns));
	report_row_end(r);
}

static void
put_jobs(struct report *r, const struct shm_store_info *s)
{
	struct shm_slot *slot = shm_store_slot(s->ref);
	struct job_facts j = { "guard", -1, s->guard_phase, s->guard_holder,
	    s->guard_since_ns, s->guard_deadline_ns };
	uint32_t i;

	if (s->guarded)
		put_job(r, s, &j);
	for (i = 0; slot != NULL && i < shm_workers_max(); i++) {
		const struct shm_guard *g =
		    &shm_slot_local(slot, i)->seal_guard;

		if (!shm_guard_holder(g, &j.who))
			continue;
		j.holds = "seal";
		j.shard = (int)i;
		j.phase = TICK_SEAL;
		j.since_ns = PEEK(g->since_ns);
		j.deadline_ns = PEEK(g->deadline_ns);
		put_job(r, s, &j);
	}
}

bool
list_jobs(struct call *call)
{
	struct report *r = &call->report;
	struct cursor *at = &call->cursor;
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t n;

	if (!at->begun)
		report_list(r, "jobs", job_columns, ARRAY_LEN(job_columns));
	at->begun = true;
	for (n = 0; n < SLOTS_A_STEP && call->body.len < CALL_PIECE_BYTES;
	    n++) {
		if (!shm_store_next(&at->index, &ref)) {
			report_list_end(r);
			return true;
		}
		if (shm_store_peek(ref, &s))
			put_jobs(r, &s);
	}
	return false;
}

static const struct report_column lane_columns[] = {
	{ "LANE", "lane", -8 },
	{ "KIND", "kind", -8 },
	{ "RUNNING", "running", 7 },
	{ "QUEUED", "queued", 7 },
};

/* What the maintainer says of its lanes (runs.h). */
bool
list_lanes(struct call *call)
{
	static const char *const lanes[] = {
#define X(lane, text) text,
		METRIC_LANE(X)
#undef X
	};
	struct report *r = &call->report;
	uint32_t lane, kind;

	report_list(r, "lanes", lane_columns, ARRAY_LEN(lane_columns));
	for (lane = 0; lane < METRIC_LANE_COUNT; lane++) {
		for (kind = 0; kind < STORE_KIND_COUNT; kind++) {
			uint32_t label = SHM_LABEL2(KIND, lane, kind);

			report_row(r);
			report_text(r, "%s", lanes[lane]);
			report_text(r, "%s", store_kind_name(kind));
			report_uint(r, shm_metric_sum(
			    METRIC_memwald_runs_running, label));
			report_uint(r, shm_metric_sum(
			    METRIC_memwald_runs_queued, label));
			report_row_end(r);
		}
	}
	report_list_end(r);
	return true;
}
