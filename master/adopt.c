#include "common/base.h"

#include <stdio.h>

#include "shm/home.h"
#include "shm/instance.h"
#include "shm/stray.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/command.h"

/* adopt SHARD-UUID [NAME]: an ordinal for a shard that none explains. */

/* One that no worker of any instance has or gets: an instance's id has no '#'.
 * Its own name a shard may have again. */
static bool
is_free(const char *text, const struct uuid *shard)
{
	struct uuid named = uuid_named(slice_of(text));
	struct shm_ordinal o;
	struct shm_home home;

	snprintf(o.name, sizeof(o.name), "%s", text);
	home = shm_home_of(&o);
	return strchr(home.instance, '#') != NULL || uuid_eq(&named, shard);
}

/* Without one: from the shard, so that all who adopt it call it the same. */
static bool
read_name(struct call *call, const struct uuid *shard,
    char name[SHM_ORDINAL_NAME_MAX + 1])
{
	const char *text = call->operand_count > 1 ? call->operands[1] : NULL;

	if (text == NULL) {
		snprintf(name, SHM_ORDINAL_NAME_MAX + 1, "adopted#%s",
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
	if (!is_free(text, shard)) {
		call_refuse(call, "%.100s: may be an instance's own; a name for "
		    "what is adopted has a # and no number after it, as in "
		    "adopted#%.100s", text, text);
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
	struct candidate *least;

	candidates_find(&c, child_wanted());
	least = candidates_least(&c, shm_instance_id());
	if (least == NULL) {
		call_refuse(call, "no worker of this server may own it, all are "
		    "drained");
		return false;
	}
	*to = candidate_take(least);
	return true;
}

static enum call_step
want(struct call *call, const char *name, const struct uuid *shard)
{
	struct shm_newcomer n;

	memset(&n, 0, sizeof(n));
	memcpy(n.name, name, strlen(name));
	n.shard = *shard;
	n.want.reason = SHM_ORDINAL_BY_COMMAND;
	if (!own(call, &n.want.to))
		return CALL_DONE;
	decide_want_new(call, &n);
	return CALL_WAIT;
}

/* It is an ordinal: ours, whoever adopted it, or one of another name. */
static enum call_step
say_known(struct call *call, const char *name, const struct shm_ordinal *o,
    const char *result)
{
	if (call->operand_count > 1 && strcmp(name, o->name) != 0)
		return call_refuse(call, "that shard is ordinal %s", o->name);
	return say(call, o->name, o, result);
}

static bool
find(const struct uuid *shard, struct shm_ordinal *o)
{
	uint32_t index;

	return !err_is(shm_ordinal_find(shard, &index)) &&
	    !err_is(shm_ordinal_get(index, o)) && o->version != 0;
}

static bool
is_name_taken(const char *name)
{
	uint32_t i, count = shm_ordinal_count();

	for (i = 0; i < count; i++) {
		if (slice_eq(shm_ordinal_name(i), slice_of(name)))
			return true;
	}
	return false;
}

static enum call_step
decide(struct call *call)
{
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct shm_ordinal o;
	struct uuid shard;

	if (!uuid_from_text(slice_of(call->operands[0]), &shard))
		return call_refuse(call, "%.100s: not a shard's uuid",
		    call->operands[0]);
	if (!read_name(call, &shard, name))
		return CALL_DONE;
	if (find(&shard, &o))
		return say_known(call, name, &o, "unchanged");
	if (!is_stray(&shard))
		return call_refuse(call, "no store was met with such a shard; "
		    "see memwaldctl status");
	if (call->given[ADMIN_OPTION_DRY_RUN])
		return say(call, name, NULL, "would adopt");
	return want(call, name, &shard);
}

static enum call_step
look(struct call *call)
{
	const struct shm_newcomer *n = &call->decide.newcomer;
	struct shm_ordinal o;

	if (find(&n->shard, &o))
		return say_known(call, n->name, &o, "adopted");
	if (is_name_taken(n->name))
		return call_refuse(call, "another shard is ordinal %s",
		    n->name);
	if (call->told)
		return call_refuse(call, "not adopted: the table of ordinals is "
		    "full, or others adopt at the same time; see the log");
	/* Another of ours took its place before it was brought. */
	call->told = true;
	return want(call, n->name, &n->shard);
}

enum call_step
command_adopt(struct call *call)
{
	return call_decide(call, decide, look);
}
