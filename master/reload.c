#include "common/base.h"

#include "common/config.h"
#include "common/log.h"
#include "master/child.h"
#include "master/command.h"
#include "master/reload.h"
#include "master/tell.h"

static const struct report_column columns[] = {
	{ "OPTION", "option", -40 },
	{ "FROM", "from", -12 },
	{ "TO", "to", -12 },
	{ "STATE", "state", -1 },
};

/* arg: the report of a call, or NULL. */
static void
changed(void *arg, const struct config_change *c)
{
	struct report *r = arg;

	if (c->live)
		log_info("option changed option=%s from=%s to=%s", c->flag,
		    c->from, c->to);
	else
		log_warn("option changed, it needs a start option=%s from=%s "
		    "to=%s", c->flag, c->from, c->to);
	if (r == NULL)
		return;
	report_row(r);
	report_text(r, "%s", c->flag);
	report_text(r, "%s", c->from);
	report_text(r, "%s", c->to);
	report_text(r, "%s", c->live ? "changed" : "needs a start");
	report_row_end(r);
}

/* Everybody is told, also of what he knows. */
static void
apply(void)
{
	uint64_t level;

	MUST(config_live_get(config_find("log-level"), &level));
	log_set_level((enum log_level)level);
	command_plan()->reloaded();
	tell_all();
	tell_look();
}

void
reload_by_signal(void)
{
	struct err e = config_reread(changed, NULL);

	if (err_is(e)) {
		log_err(LOG_ERROR, e, "configuration not read again, all stays "
		    "as it was");
		return;
	}
	apply();
	log_info("configuration read again");
}

static enum call_step
wait_told(struct call *call)
{
	uint32_t left = tell_left();

	call_progress(call, child_count() - MIN(left, child_count()),
	    child_count(), "processes were told");
	return left == 0 ? CALL_DONE : CALL_WAIT;
}

enum call_step
command_reload(struct call *call)
{
	struct report *r = &call->report;
	struct err e;

	if (call->told)
		return wait_told(call);
	report_open(r);
	report_list(r, "options", columns, ARRAY_LEN(columns));
	e = config_reread(changed, r);
	if (err_is(e)) {
		log_err(LOG_ERROR, e, "configuration not read again, all stays "
		    "as it was");
		call->body.len = 0;
		return call_refuse(call, "reload: %s", e.what);
	}
	report_list_end(r);
	report_close(r);
	apply();
	call->told = true;
	return wait_told(call);
}

enum call_step
command_log_level(struct call *call)
{
	const char *name = call->operands[0];
	enum log_level level;

	if (call->told)
		return wait_told(call);
	if (!log_level_parse(name, &level))
		return call_refuse(call, "log-level: error, warn, info or "
		    "debug");
	log_info("log level changed level=%s", name);
	config_live_set(config_find("log-level"), level);
	apply();
	report_open(&call->report);
	if (call->report.json)
		json_write_text(&call->report.w, "level", slice_of(name));
	report_close(&call->report);
	call->told = true;
	return wait_told(call);
}
