#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "shm/instance.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/command.h"
#include "master/drain.h"
#include "master/member.h"
#include "master/orphan.h"

/* reassign ORDINAL INSTANCE[#WORKER]: one decision, won, lost, or not needed. */

#define NO_WORKER UINT32_MAX

static struct candidates candidates;

/* "INSTANCE#WORKER", or without a worker: NO_WORKER. */
static bool
read_target(struct call *call, struct shm_assignment *to)
{
	const char *text = call->operands[1], *mark = strrchr(text, '#');
	size_t len = mark != NULL ? (size_t)(mark - text) : strlen(text);

	memset(to, 0, sizeof(*to));
	to->worker = NO_WORKER;
	if (mark != NULL) {
		to->worker = (uint32_t)strtoul(mark + 1, NULL, 10);
		if (strspn(mark + 1, "0123456789") != strlen(mark + 1) ||
		    mark[1] == '\0' || strlen(mark + 1) > 4)
			len = 0;
	}
	if (len == 0 || len >= sizeof(to->instance)) {
		call_refuse(call, "%s: an owner is INSTANCE, or "
		    "INSTANCE#WORKER", text);
		return false;
	}
	memcpy(to->instance, text, len);
	return true;
}

/* Where others reach it; NULL: it does not live. */
static bool
find_address(struct shm_assignment *to)
{
	struct shm_instance other;

	if (strcmp(to->instance, shm_instance_id()) == 0) {
		snprintf(to->address, sizeof(to->address), "%s",
		    shm_instance_address());
		return true;
	}
	if (!shm_instance_find(to->instance, &other))
		return false;
	snprintf(to->address, sizeof(to->address), "%s", other.address);
	return shm_instance_lives(&other);
}

static bool
is_owned_so(const struct shm_ordinal *o, const struct shm_assignment *to)
{
	return o->is.state == SHM_ORDINAL_OWNED &&
	    o->is.worker == to->worker &&
	    strcmp(o->is.instance, to->instance) == 0;
}

/* Whether that worker runs. Of another instance only its assignment tells: of
 * one that does not run the ordinal is orphaned. */
static bool
worker_runs(const struct shm_assignment *to)
{
	struct shm_ordinal home;
	uint32_t index;

	if (strcmp(to->instance, shm_instance_id()) == 0)
		return to->worker < child_wanted();
	return !err_is(drain_find_home(to->instance, to->worker, &index)) &&
	    !err_is(shm_ordinal_get(index, &home)) && home.version != 0 &&
	    home.is.state != SHM_ORDINAL_ORPHANED &&
	    home.is.state != SHM_ORDINAL_RETIRED;
}

/* Who has it already, else the least loaded of that instance. */
static void
choose_worker(struct shm_assignment *to, const struct shm_ordinal *o)
{
	const struct candidate *least;

	to->worker = o->is.worker;
	if (is_owned_so(o, to))
		return;
	candidates_find(&candidates, child_wanted());
	least = candidates_least(&candidates, to->instance);
	to->worker = least != NULL ? least->worker : 0;
}

static bool
choose(struct call *call, const struct shm_ordinal *o,
    struct shm_assignment *to)
{
	char text[DECIDE_TEXT];

	if (!find_address(to)) {
		call_refuse(call, "no instance %s lives; see memwaldctl "
		    "status", to->instance);
		return false;
	}
	if (to->worker == NO_WORKER)
		choose_worker(to, o);
	if (!worker_runs(to)) {
		call_refuse(call, "no worker runs as %s",
		    decide_owner(to, text));
		return false;
	}
	if (drain_marks(to->instance, to->worker) != 0) {
		call_refuse(call, "%s is drained; undrain it there first",
		    decide_owner(to, text));
		return false;
	}
	to->state = SHM_ORDINAL_OWNED;
	return true;
}

static enum call_step
say(struct call *call, const struct shm_ordinal *o,
    const struct shm_assignment *to, const char *result)
{
	struct report *r = &call->report;
	char is[DECIDE_TEXT], wanted[DECIDE_TEXT];

	decide_owner(&o->is, is);
	decide_owner(to, wanted);
	report_open(r);
	report_line(r, "%s: %s, owner %s, version %llu%s%s", result, o->name,
	    is, (unsigned long long)o->version,
	    strcmp(is, wanted) != 0 ? ", not " : "",
	    strcmp(is, wanted) != 0 ? wanted : "");
	if (r->json) {
		json_write_text(&r->w, "result", slice_of(result));
		json_write_text(&r->w, "ordinal", slice_of(o->name));
		json_write_text(&r->w, "owner", slice_of(is));
		json_write_text(&r->w, "wanted", slice_of(wanted));
		json_write_uint64(&r->w, "version", o->version);
	}
	report_close(r);
	return CALL_DONE;
}

/* Another decided about it since we, or whoever asks, looked. */
static enum call_step
lose(struct call *call, const struct shm_ordinal *o,
    const struct shm_assignment *to)
{
	call->exit = ADMIN_EXIT_LOST;
	return say(call, o, to, "lost");
}

/* --if-version: what whoever asks has decided on. */
static bool
read_version(struct call *call, uint64_t *version)
{
	const char *text = call->values[ADMIN_OPTION_IF_VERSION];

	if (text == NULL)
		return true;
	*version = strtoull(text, NULL, 10);
	if (*text != '\0' && strspn(text, "0123456789") == strlen(text) &&
	    strlen(text) < 20)
		return true;
	call_refuse(call, "--if-version is a number");
	return false;
}

/* Whether nobody would miss it, by a look of just now. */
static bool
is_gone(const struct call *call, uint32_t index, const struct shm_ordinal *o)
{
	struct shm_instance owner;

	if (o->is.state == SHM_ORDINAL_ORPHANED)
		return true;
	return shm_instance_find(o->is.instance, &owner) ?
	    member_is_gone(&owner) :
	    orphan_is_forgotten(index, o, call->now_ns);
}

static enum call_step
decide(struct call *call)
{
	bool if_gone = call->given[ADMIN_OPTION_IF_GONE];
	struct shm_want want;
	struct shm_ordinal o;
	uint64_t version;
	uint32_t index;

	memset(&want, 0, sizeof(want));
	/* An orphan its home takes back (member.h). */
	want.reason = if_gone ? SHM_ORDINAL_BY_ORPHAN :
	    SHM_ORDINAL_BY_COMMAND;
	if (!read_target(call, &want.to) ||
	    !decide_find(call, call->operands[0], &index, &o) ||
	    !choose(call, &o, &want.to))
		return CALL_DONE;
	version = o.version;
	if (!read_version(call, &version))
		return CALL_DONE;
	if (is_owned_so(&o, &want.to))
		return say(call, &o, &want.to, "unchanged");
	if (version != o.version || (if_gone && !is_gone(call, index, &o)))
		return lose(call, &o, &want.to);
	if (call->given[ADMIN_OPTION_DRY_RUN])
		return say(call, &o, &want.to, "would move");
	decide_want(call, index, &o, &want);
	return CALL_WAIT;
}

static enum call_step
look(struct call *call)
{
	struct decide *d = &call->decide;
	struct shm_ordinal o;
	struct err e = shm_ordinal_get(d->index, &o);

	MUST(!err_is(e));
	if (is_owned_so(&o, &d->want.to))
		return say(call, &o, &d->want.to, "moved");
	if (o.version != d->before.version)
		return lose(call, &o, &d->want.to);
	/* Another want of ours took its place before it was brought. */
	decide_want(call, d->index, &o, &d->want);
	return CALL_WAIT;
}

enum call_step
command_reassign(struct call *call)
{
	if (call->operand_count < 2)
		return call_refuse(call, "reassign: needs ORDINAL and "
		    "INSTANCE[#WORKER]");
	return call_decide(call, decide, look);
}
