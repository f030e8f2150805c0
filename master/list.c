#include "common/base.h"

#include <stdio.h>
#include <time.h>

#include "shm/budget.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "master/admin.h"
#include "master/child.h"
#include "master/facts.h"
#include "master/list.h"

static const struct report_column process_columns[] = {
	{ "SLOT", "slot", 4 },
	{ "ROLE", "role", -10 },
	{ "PID", "pid", 7 },
	{ "STATE", "state", -9 },
	{ "UPTIME_MS", "uptime_ms", 10 },
	{ "RESTARTS", "restarts", 8 },
	{ "LOOP", "loop", -5 },
	{ "BEAT_MS", "heartbeat_age_ms", 8 },
	{ "LAST DEATH", "last_death", -1 },
};

/* At most 258 rows: one piece. */
bool
list_processes(struct call *call)
{
	struct report *r = &call->report;
	uint32_t i;

	report_list(r, "processes", process_columns,
	    ARRAY_LEN(process_columns));
	for (i = 0; i < facts_slots(); i++) {
		struct process_facts f = facts_process((uint16_t)i);

		report_row(r);
		report_uint(r, f.slot);
		report_text(r, "%s", f.role);
		report_uint(r, (uint64_t)f.pid);
		report_text(r, "%s", f.state);
		report_uint(r, f.uptime_ms);
		report_uint(r, f.restarts);
		report_text(r, "%s", f.loop);
		report_uint(r, f.beat_age_ms);
		report_text(r, "%s", f.last_death);
		report_row_end(r);
	}
	report_list_end(r);
	return true;
}

static const struct report_column ordinal_columns[] = {
	{ "ORDINAL", "name", -32 },
	{ "STATE", "state", -9 },
	{ "SLOT", "owner", 5 },
	{ "HERE", "owner_lives", -5 },
	{ "INSTANCE", "instance", -16 },
	{ "WORKER", "worker", 6 },
	{ "VERSION", "version", 7 },
	{ "WHY", "why", -7 },
	{ "CHANGED", NULL, -20 },
	{ NULL, "changed_ms", 0 },
	{ "BEFORE", "owner_before", -16 },
	{ NULL, "version_before", 0 },
	{ NULL, "changed_before_ms", 0 },
	{ "DRAINED", "drained", -8 },
	{ "SHARD", "shard", -36 },
	{ "ADDRESS", "address", -1 },
};

/* "2026-11-30T08:41:02Z"; "-" for never. */
static void
put_time(struct report *r, uint64_t at_ms)
{
	time_t at = (time_t)(at_ms / 1000);
	char text[40] = "-";
	struct tm tm;

	if (at_ms != 0 && gmtime_r(&at, &tm) != NULL)
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	report_text(r, "%s", text);
}

static const char *
owner_then(const struct shm_past *was, char text[DECIDE_TEXT])
{
	struct shm_assignment is = { .state = was->state,
	    .worker = was->worker };

	snprintf(is.instance, sizeof(is.instance), "%s", was->instance);
	return decide_owner(&is, text);
}

/* The owner before. */
static void
put_before(struct report *r, const struct shm_ordinal *o)
{
	const struct shm_past *was = &o->was[0];
	char text[DECIDE_TEXT];

	put_time(r, o->at_ms);
	report_uint(r, o->at_ms);
	report_text(r, "%s", was->version != 0 ? owner_then(was, text) : "");
	report_uint(r, was->version);
	report_uint(r, was->at_ms);
}

static const char *
drained_text(uint32_t drained)
{
	if ((drained & SHM_DRAINED_INSTANCE) != 0)
		return "instance";
	return drained != 0 ? "worker" : "";
}

static void
put_ordinal(struct report *r, const struct shm_ordinal *o)
{
	char shard[UUID_TEXT_LEN + 1];

	uuid_to_text(&o->shard, shard);
	report_row(r);
	report_text(r, "%s", o->name);
	report_text(r, "%s", shm_ordinal_state_name(o->is.state));
	report_int(r, o->owner == SHM_NOBODY ? -1 : o->owner);
	report_bool(r, o->owner != SHM_NOBODY && facts_lives(o->owner));
	report_text(r, "%s", o->is.instance);
	report_uint(r, o->is.worker);
	report_uint(r, o->version);
	report_text(r, "%s", shm_ordinal_reason_name(o->reason));
	put_before(r, o);
	report_text(r, "%s", drained_text(o->drained));
	report_text(r, "%s", shard);
	report_text(r, "%s", o->is.address);
	report_row_end(r);
}

/* A status leaves out those that no worker has and nobody decided about. */
static bool
is_idle(uint32_t index, const struct shm_ordinal *o)
{
	return index >= child_count() - 1 && index < shm_workers_max() &&
	    o->version == 0;
}

bool
list_ordinals(struct call *call)
{
	struct report *r = &call->report;
	struct cursor *at = &call->cursor;
	struct shm_ordinal o;

	if (!at->begun)
		report_list(r, "ordinals", ordinal_columns,
		    ARRAY_LEN(ordinal_columns));
	at->begun = true;
	while (call->body.len < CALL_PIECE_BYTES) {
		if (err_is(shm_ordinal_get(at->index, &o))) {
			report_list_end(r);
			return true;
		}
		if (call->command != ADMIN_STATUS || !is_idle(at->index, &o))
			put_ordinal(r, &o);
		at->index++;
	}
	return false;
}

static const struct report_column history_columns[] = {
	{ "HISTORY OF", "name", -32 },
	{ "VERSION", "version", 7 },
	{ "CHANGED", NULL, -20 },
	{ NULL, "changed_ms", 0 },
	{ "STATE", "state", -9 },
	{ "WHY", "why", -7 },
	{ "OWNER", "owner", -1 },
};

static void
put_change(struct report *r, const char *name, const struct shm_past *was)
{
	char text[DECIDE_TEXT];

	report_row(r);
	report_text(r, "%s", name);
	report_uint(r, was->version);
	put_time(r, was->at_ms);
	report_uint(r, was->at_ms);
	report_text(r, "%s", shm_ordinal_state_name(was->state));
	report_text(r, "%s", shm_ordinal_reason_name(was->reason));
	report_text(r, "%s", owner_then(was, text));
	report_row_end(r);
}

/* What it is, then what it was, newest first, as the chain has it. */
static void
put_changes(struct report *r, const struct shm_ordinal *o)
{
	struct shm_past now = { .state = o->is.state, .worker = o->is.worker,
	    .version = o->version, .at_ms = o->at_ms, .reason = o->reason };
	uint32_t i;

	snprintf(now.instance, sizeof(now.instance), "%s", o->is.instance);
	put_change(r, o->name, &now);
	for (i = 0; i < SHM_ORDINAL_PASTS && o->was[i].version != 0; i++)
		put_change(r, o->name, &o->was[i]);
}

bool
list_history(struct call *call)
{
	struct report *r = &call->report;
	struct cursor *at = &call->cursor;
	struct shm_ordinal o;

	if (!at->begun)
		report_list(r, "history", history_columns,
		    ARRAY_LEN(history_columns));
	at->begun = true;
	while (call->body.len < CALL_PIECE_BYTES) {
		if (err_is(shm_ordinal_get(at->index, &o))) {
			report_list_end(r);
			return true;
		}
		if (o.version != 0)
			put_changes(r, &o);
		at->index++;
	}
	return false;
}

bool
list_budgets(struct call *call)
{
	struct report *r = &call->report;
	uint32_t i;

	report_line(r, "%s", "BUDGET");
	if (r->json)
		json_write_open(&r->w, "budgets", '{');
	for (i = 0; i < SHM_BUDGET_COUNT; i++) {
		const char *name = shm_budget_name((enum shm_budget)i);
		uint64_t used = shm_budget_used((enum shm_budget)i);
		uint64_t limit = shm_budget_limit((enum shm_budget)i);

		report_line(r, "%-24s %llu of %llu", name,
		    (unsigned long long)used, (unsigned long long)limit);
		if (!r->json)
			continue;
		json_write_open(&r->w, name, '{');
		json_write_uint64(&r->w, "used", used);
		json_write_uint64(&r->w, "limit", limit);
		json_write_close(&r->w, '}');
	}
	if (r->json)
		json_write_close(&r->w, '}');
	return true;
}
