#include "common/base.h"

#include <stdio.h>

#include "shm/instance.h"
#include "shm/stray.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/command.h"

/* adopt SHARD-UUID [NAME]: an ordinal for a shard that none explains. */

/* Without one: from the shard, so that all who adopt it call it the same. */
static bool
read_name(struct call *call, char name[SHM_ORDINAL_NAME_MAX + 1])
{
	const char *text = call->operand_count > 1 ? call->operands[1] : NULL;

	if (text == NULL) {
		snprintf(name, SHM_ORDINAL_NAME_MAX + 1, "adopted-%s",
		    call->operands[0]);
		return true;
	}
	if (strlen(text) > SHM_ORDINAL_NAME_MAX || strspn(text,
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	    "._-#") != strlen(text)) {
		call_refuse(call, "%.100s: a name has letters, digits and ._-#, "
		    "at most %u", text, SHM_ORDINAL_NAME_MAX);
		return false;
	}
	snprintf(name, SHM_ORDINAL_NAME_MAX + 1, "%s", text);
	return true;
}

static bool
is_stray(const struct uuid *shard)
{
	struct shm_stray s;
	uint32_t index = 0;

	while (shm_stray_next(&index, &s)) {
		if (uuid_eq(&s.shard, shard))
			return true;
	}
	return false;
}

static enum call_step
say(struct call *call, const char *name, const struct shm_ordinal *o,
    const char *result)
{
	struct report *r = &call->report;
	char owner[DECIDE_TEXT] = "nobody";

	if (o != NULL)
		decide_owner(&o->is, owner);
	report_open(r);
	report_line(r, "%s: shard %s is ordinal %s, owner %s", result,
	    call->operands[0], name, owner);
	if (r->json) {
		json_write_text(&r->w, "result", slice_of(result));
		json_write_text(&r->w, "shard", slice_of(call->operands[0]));
		json_write_text(&r->w, "ordinal", slice_of(name));
		json_write_text(&r->w, "owner", slice_of(owner));
	}
	report_close(r);
	return CALL_DONE;
}

/* To the least loaded worker of ours. */
static bool
own(struct call *call, struct shm_assignment *to)
{
	static struct candidates c;
	struct candidate *least = NULL;
	uint32_t i;

	candidates_find(&c, child_wanted());
	for (i = 0; i < c.count; i++) {
		if (c.all[i].ours &&
		    (least == NULL || c.all[i].load < least->load))
			least = &c.all[i];
	}
	if (least == NULL) {
		call_refuse(call, "no worker of this server may own it, all are "
		    "drained");
		return false;
	}
	*to = candidate_take(least);
	return true;
}

static enum call_step
want(struct call *call, uint32_t index, const struct shm_ordinal *o)
{
	struct shm_want w;

	memset(&w, 0, sizeof(w));
	w.reason = SHM_ORDINAL_BY_COMMAND;
	if (!own(call, &w.to))
		return CALL_DONE;
	decide_want(call, index, o, &w);
	return CALL_WAIT;
}

static enum call_step
decide(struct call *call)
{
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct shm_ordinal o;
	struct uuid shard;
	uint32_t index;
	struct err e;

	if (!uuid_from_text(slice_of(call->operands[0]), &shard))
		return call_refuse(call, "%.100s: not a shard's uuid",
		    call->operands[0]);
	if (!read_name(call, name))
		return CALL_DONE;
	if (!err_is(shm_ordinal_find(&shard, &index)) &&
	    !err_is(shm_ordinal_get(index, &o)) && o.version != 0)
		return call->operand_count > 1 && strcmp(name, o.name) != 0 ?
		    call_refuse(call, "that shard is ordinal %s", o.name) :
		    say(call, o.name, &o, "unchanged");
	if (!is_stray(&shard))
		return call_refuse(call, "no store was met with such a shard; "
		    "see memwaldctl status");
	if (call->given[ADMIN_OPTION_DRY_RUN])
		return say(call, name, NULL, "would adopt");
	e = shm_ordinal_adopt(slice_of(name), &shard, &index);
	if (!err_is(e))
		e = shm_ordinal_get(index, &o);
	if (err_is(e))
		return call_refuse(call, "%s", e.what);
	return want(call, index, &o);
}

static enum call_step
look(struct call *call)
{
	struct decide *d = &call->decide;
	struct shm_ordinal o;
	struct err e = shm_ordinal_get(d->index, &o);

	MUST(!err_is(e));
	if (o.version != 0)
		return say(call, o.name, &o, "adopted");
	return want(call, d->index, &o);
}

enum call_step
command_adopt(struct call *call)
{
	return call_decide(call, decide, look);
}
