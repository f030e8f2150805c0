#include "common/base.h"

#include "common/clock.h"
#include "shm/instance.h"
#include "shm/stray.h"
#include "master/list.h"
#include "master/member.h"

/* This server as one of several: few rows, one piece each. */

bool
list_lease(struct call *call)
{
	struct report *r = &call->report;
	struct shm_lease l;

	shm_lease_get(&l);
	report_line(r, "LEASE %s, version %llu, %llu ms left, term %u, lost "
	    "%u times%s%s", shm_lease_state_name(l.state),
	    (unsigned long long)l.version,
	    (unsigned long long)(l.left_ns / NS_PER_MS), l.terms, l.losses,
	    *l.why != '\0' ? ": " : "", l.why);
	if (!r->json)
		return true;
	json_write_open(&r->w, "lease", '{');
	json_write_text(&r->w, "state",
	    slice_of(shm_lease_state_name(l.state)));
	json_write_uint64(&r->w, "version", l.version);
	json_write_uint64(&r->w, "left_ms", l.left_ns / NS_PER_MS);
	json_write_uint64(&r->w, "term", l.terms);
	json_write_uint64(&r->w, "losses", l.losses);
	json_write_text(&r->w, "why", slice_of(l.why));
	json_write_close(&r->w, '}');
	return true;
}

static const struct report_column instance_columns[] = {
	{ "OTHER INSTANCE", "id", -32 },
	{ "LIFE", "life", -7 },
	{ "VERSION", "version", 8 },
	{ "SILENT_MS", "silent_ms", 10 },
	{ "ADDRESS", "address", -1 },
};

static const char *
life_of(const struct shm_instance *i)
{
	if (i->released)
		return "left";
	if (shm_instance_lives(i))
		return "lives";
	return member_is_gone(i) ? "gone" : "silent";
}

bool
list_instances(struct call *call)
{
	struct report *r = &call->report;
	uint32_t i;

	report_list(r, "instances", instance_columns,
	    ARRAY_LEN(instance_columns));
	for (i = 0; i < shm_instance_count(); i++) {
		struct shm_instance o;

		if (!shm_instance_get(i, &o))
			continue;
		report_row(r);
		report_text(r, "%s", o.id);
		report_text(r, "%s", life_of(&o));
		report_uint(r, o.version);
		report_uint(r, o.silent_ns / NS_PER_MS);
		report_text(r, "%s", o.address);
		report_row_end(r);
	}
	report_list_end(r);
	return true;
}

static const struct report_column stray_columns[] = {
	{ "SHARD WITHOUT ORDINAL", "shard", -36 },
	{ "KIND", "kind", -8 },
	{ "STORE", "store", -1 },
};

bool
list_strays(struct call *call)
{
	struct report *r = &call->report;
	char shard[UUID_TEXT_LEN + 1];
	struct shm_stray s;
	uint32_t index = 0;

	report_list(r, "strays", stray_columns, ARRAY_LEN(stray_columns));
	while (shm_stray_next(&index, &s)) {
		uuid_to_text(&s.shard, shard);
		report_row(r);
		report_text(r, "%s", shard);
		report_text(r, "%s", store_kind_name(s.kind));
		report_text(r, "%s", s.store);
		report_row_end(r);
	}
	report_list_end(r);
	return true;
}
