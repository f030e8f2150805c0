#include "common/base.h"

#include "shm/segment.h"
#include "shm/server_state.h"
#include "master/status.h"

static const struct status_server *server;

void
status_init(const struct status_server *s)
{
	server = s;
}

bool
status_find(struct call *call)
{
	return problems_find(&call->problems, &call->cursor.index);
}

/* "": a balancer may send requests. */
static const char *
why_not_ready(void)
{
	const char *why = shm_server_not_ready();

	return why != NULL ? why : "";
}

static void
head_json(struct json_writer *w, const struct problems *ps)
{
	uint32_t i;

	json_write_bool(w, "clean", ps->count == 0);
	json_write_open(w, "problems", '[');
	for (i = 0; i < MIN(ps->count, PROBLEMS_MAX); i++)
		json_write_text(w, NULL, slice_of(ps->text[i]));
	json_write_close(w, ']');
	json_write_text(w, "instance_id", slice_of(server->instance_id));
	json_write_text(w, "host", slice_of(server->host));
	json_write_uint64(w, "port", server->port);
	json_write_text(w, "state", slice_of(server->state));
	json_write_text(w, "not_ready", slice_of(why_not_ready()));
	json_write_uint64(w, "started_us", server->started_us);
	json_write_uint64(w, "segment_bytes", shm_segment_bytes());
}

bool
status_head(struct call *call)
{
	const struct problems *ps = &call->problems;
	struct report *r = &call->report;
	uint32_t i;

	if (call->given[ADMIN_OPTION_CHECK] && ps->count > 0)
		call->exit = ADMIN_EXIT_UNHEALTHY;
	if (r->json) {
		head_json(&r->w, ps);
		return true;
	}
	report_line(r, "instance %s on %s port %u: %s, %s",
	    server->instance_id, server->host, server->port, server->state,
	    ps->count == 0 ? "clean" : "not clean");
	if (*why_not_ready() != '\0')
		report_line(r, "not ready: %s", why_not_ready());
	for (i = 0; i < MIN(ps->count, PROBLEMS_MAX); i++)
		report_line(r, "problem: %s", ps->text[i]);
	if (ps->count > PROBLEMS_MAX)
		report_line(r, "and %u more", ps->count - PROBLEMS_MAX);
	report_line(r, "segment %llu bytes",
	    (unsigned long long)shm_segment_bytes());
	return true;
}

bool
status_gap(struct call *call)
{
	report_line(&call->report, "%s", "");
	return true;
}
