#include "common/base.h"

#include <stdio.h>

#include "shm/home.h"
#include "shm/instance.h"
#include "shm/process.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/command.h"
#include "master/drain.h"

/*
 * left and retire: what is not folded in an ordinal's shards, and giving up one
 * of which nothing is.
 *
 * Nobody looks for rows of a retired ordinal any more, so none may come after:
 * a worker here is given it first, unless one has it, and claims all its shards
 * (fence.h). Who then goes on as its writer is fenced, and may not claim. If the
 * ordinal changes meanwhile, or its home starts again, it is not retired. If its
 * home comes back after all, it takes it back (member.h): so one whose home runs,
 * undrained, is not given up, whoever has it. How many workers another instance
 * runs is not known: beside the first those count whom a command took it from. If
 * such a one does not run it is orphaned once it has it back and its instance
 * starts, and not by a command any more.
 */

#define ENOUGH 4u			/* stores that a refusal names */

enum { FIND, LEFT, TAKE_OVER, FENCE, GIVE_UP };	/* sections of a retire */

static const struct report_column columns[] = {
	{ "KIND", "kind", -8 },
	{ "STORE", "store", -1 },
};

/* The walk of a call: the first step, once its ordinal is known. */
static enum left_step
walk(struct call *call)
{
	struct shm_ordinal o;
	struct err e = shm_ordinal_get(call->decide.index, &o);

	MUST(!err_is(e));
	return left_walk_step(&call->left, &o.shard, call->now_ns);
}

static void
put_store(struct call *call)
{
	struct report *r = &call->report;

	report_row(r);
	report_text(r, "%s", store_kind_name(call->left.kind));
	report_text(r, "%s", call->left.name);
	report_row_end(r);
}

/* What keeps a walk that is late. */
static void
put_trouble(struct call *call)
{
	struct report *r = &call->report;
	char text[LEFT_TROUBLE];

	if (*left_walk_trouble(&call->left, text) == '\0')
		return;
	report_line(r, "what is left is not known: %s", text);
	if (r->json)
		json_write_text(&r->w, "error", slice_of(text));
}

static enum call_step
wait_for_walk(struct call *call)
{
	char text[LEFT_TROUBLE];
	bool bad = *left_walk_trouble(&call->left, text) != '\0';

	call_progress(call, call->left.found, call->left.found, "%s",
	    bad ? text : "stores with something left so far");
	return CALL_WAIT;
}

/* Late: how much is left is not known. */
static enum call_step
end_left(struct call *call)
{
	struct report *r = &call->report;

	report_list_end(r);
	if (call_late(call))
		put_trouble(call);
	else if (r->json)
		json_write_uint64(&r->w, "left", call->left.found);
	report_close(r);
	return CALL_DONE;
}

enum call_step
command_left(struct call *call)
{
	struct report *r = &call->report;
	struct shm_ordinal o;

	if (!call->told) {
		if (!decide_find(call, call->operands[0],
		    &call->decide.index, &o))
			return CALL_DONE;
		call->told = true;
		report_open(r);
		if (r->json)
			json_write_text(&r->w, "ordinal", slice_of(o.name));
		report_list(r, "stores", columns, ARRAY_LEN(columns));
	}
	switch (walk(call)) {
	case LEFT_FOUND:
		put_store(call);
		return call_late(call) ? end_left(call) : CALL_MORE;
	case LEFT_END:
		return end_left(call);
	default:
		return call_late(call) ? end_left(call) : wait_for_walk(call);
	}
}

static enum call_step
say(struct call *call, const struct shm_ordinal *o, const char *result)
{
	struct report *r = &call->report;

	report_open(r);
	report_line(r, "%s: %s, version %llu", result, o->name,
	    (unsigned long long)o->version);
	if (r->json) {
		json_write_text(&r->w, "result", slice_of(result));
		json_write_text(&r->w, "ordinal", slice_of(o->name));
		json_write_uint64(&r->w, "version", o->version);
	}
	report_close(r);
	return CALL_DONE;
}

/* Whether somebody writes its shards, or will when he starts to. */
static bool
is_in_use(const struct shm_ordinal *o)
{
	struct shm_instance other;

	if (o->is.state != SHM_ORDINAL_OWNED || shm_home_left(o))
		return false;
	if (strcmp(o->is.instance, shm_instance_id()) == 0)
		return o->is.worker < child_wanted();
	return shm_instance_find(o->is.instance, &other) &&
	    shm_instance_lives(&other);
}

/* Its home had it, until a command moved it, and what moved it since were
 * commands. */
static bool
was_taken(const struct shm_ordinal *o, const struct shm_home *home)
{
	uint32_t i, reason = o->reason;

	for (i = 0; i < SHM_ORDINAL_PASTS &&
	    reason == SHM_ORDINAL_BY_COMMAND; i++) {
		const struct shm_past *was = &o->was[i];

		if (was->version != 0 && was->state == SHM_ORDINAL_OWNED &&
		    was->worker == home->worker &&
		    strcmp(was->instance, home->instance) == 0)
			return true;
		reason = was->reason;
	}
	return false;
}

/* Whether its home would take it back as soon as it is retired. */
static bool
comes_home(const struct call *call, const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);
	struct shm_instance other;
	uint32_t index;

	/* Not where it was adopted, of the shard of another name. */
	if (err_is(drain_find_home(home.instance, home.worker, &index)) ||
	    index != call->decide.index ||
	    drain_marks(home.instance, home.worker) != 0)
		return false;
	if (shm_home_is_ours(&home))
		return home.worker < child_wanted();
	return shm_instance_find(home.instance, &other) &&
	    shm_instance_lives(&other) &&
	    (home.worker == 0 || was_taken(o, &home));
}

static enum call_step
refuse_home(struct call *call, const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);

	/* Home, where it does not run: it is orphaned there at the next start. */
	if (home.worker != 0 && !shm_home_is_ours(&home))
		return call_refuse(call, "whether the home of %s runs is not known "
		    "here; if it does, it would take it back at once: drain that "
		    "worker, or its instance, first; if not, reassign %s %s#%u, "
		    "start %s again, then retire it", o->name, o->name,
		    home.instance, home.worker, home.instance);
	/* With the worker: without, any of that instance would do. */
	return call_refuse(call, "the home of %s runs, and would take it back at "
	    "once: drain that worker, or its instance, first, or let it go home "
	    "(reassign %s %s#%u)", o->name, o->name, home.instance, home.worker);
}

static enum call_step
refuse_in_use(struct call *call, const struct shm_ordinal *o)
{
	return call_refuse(call, "%s is its own worker's, who writes it",
	    o->name);
}

static enum call_step
lose(struct call *call, const struct shm_ordinal *o)
{
	call->exit = ADMIN_EXIT_LOST;
	return say(call, o, "lost");
}

/* Whether it is as it was when the walk over its stores began. An instance that
 * is back has the same version as before. False: the call has ended. */
static bool
stays(struct call *call)
{
	struct decide *d = &call->decide;
	struct shm_ordinal o;
	struct err e = shm_ordinal_get(d->index, &o);

	MUST(!err_is(e));
	if (o.version != d->before.version)
		lose(call, &o);
	else if (is_in_use(&o))
		refuse_in_use(call, &o);
	else if (comes_home(call, &o))
		refuse_home(call, &o);
	return call->exit == ADMIN_EXIT_OK;
}

/* That goes by the newest assignment and leases. */
static enum call_step
look_first(struct call *call, uint32_t section)
{
	decide_look(call);
	call->section = section;
	return CALL_WAIT;
}

static enum call_step
find(struct call *call)
{
	struct decide *d = &call->decide;

	if (!decide_find(call, call->operands[0], &d->index, &d->before))
		return CALL_DONE;
	if (d->before.is.state == SHM_ORDINAL_RETIRED)
		return say(call, &d->before, "unchanged");
	if (is_in_use(&d->before))
		return refuse_in_use(call, &d->before);
	if (comes_home(call, &d->before))
		return refuse_home(call, &d->before);
	call->section = LEFT;
	return CALL_WAIT;
}

static void
note_found(struct call *call)
{
	size_t len = strlen(call->text);

	if (call->left.found <= ENOUGH)
		snprintf(call->text + len, sizeof(call->text) - len,
		    "%s%s store %.60s", len > 0 ? ", " : "",
		    store_kind_name(call->left.kind), call->left.name);
}

static enum call_step
refuse_left(struct call *call)
{
	char stores[CALL_TEXT_BYTES];

	memcpy(stores, call->text, sizeof(stores));
	return call_refuse(call, "not retired, rows are not folded in %u or more "
	    "stores: %.300s", call->left.found, stores);
}

/* A worker of ours is given it. */
static enum call_step
take_over(struct call *call)
{
	static struct candidates candidates;
	struct decide *d = &call->decide;
	struct candidate *least;
	struct shm_want want;

	if (!stays(call))
		return CALL_DONE;
	candidates_find(&candidates, child_wanted());
	least = candidates_least(&candidates, shm_instance_id());
	if (least == NULL)
		return call_refuse(call, "no worker of this server may have it "
		    "until it is retired, all are drained");
	memset(&want, 0, sizeof(want));
	want.to = candidate_take(least);
	want.reason = SHM_ORDINAL_BY_RETIRE;
	decide_want(call, d->index, &d->before, &want);
	return CALL_WAIT;
}

static enum call_step
fence(struct call *call)
{
	struct decide *d = &call->decide;
	struct fence *f = &call->fence;

	/* Else its shards would be claimed for nobody, again and again. */
	if (!stays(call))
		return CALL_DONE;
	if (!fence_step(f, &d->before.shard, call->now_ns)) {
		if (f->holds && err_is(f->err))
			call_progress(call, f->count, f->count + 1, "shards "
			    "fenced so far, store %.60s: %s", f->walk.name,
			    f->err.what);
		else
			call_progress(call, f->count, f->count + 1,
			    "shards fenced so far");
		return CALL_WAIT;
	}
	return look_first(call, GIVE_UP);
}

static enum call_step
give_up(struct call *call)
{
	struct decide *d = &call->decide;
	struct shm_want want;

	if (!stays(call))
		return CALL_DONE;
	memset(&want, 0, sizeof(want));
	want.to.state = SHM_ORDINAL_RETIRED;
	want.reason = SHM_ORDINAL_BY_RETIRE;
	/* On what it was all the time: nobody had it since. */
	decide_want(call, d->index, &d->before, &want);
	return CALL_WAIT;
}

static enum call_step
look_at_left(struct call *call)
{
	struct decide *d = &call->decide;

	switch (walk(call)) {
	case LEFT_FOUND:
		note_found(call);
		if (call->left.found < ENOUGH)
			return CALL_WAIT;
		return refuse_left(call);
	case LEFT_WAIT:
		if (call_late(call)) {
			report_open(&call->report);
			put_trouble(call);
			report_close(&call->report);
		}
		return wait_for_walk(call);
	default:
		break;
	}
	if (call->left.found > 0)
		return refuse_left(call);
	if (call->given[ADMIN_OPTION_DRY_RUN])
		return say(call, &d->before, "would retire");
	if (d->before.owner == SHM_NOBODY)
		return look_first(call, TAKE_OVER);
	call->section = FENCE;
	return CALL_WAIT;
}

static enum call_step
look(struct call *call)
{
	struct decide *d = &call->decide;
	struct shm_ordinal o;
	struct err e = shm_ordinal_get(d->index, &o);

	MUST(!err_is(e));
	if (o.is.state == SHM_ORDINAL_RETIRED)
		return say(call, &o, "retired");
	if (d->want.to.state != SHM_ORDINAL_RETIRED && o.owner != SHM_NOBODY) {
		d->before = o;
		call->section = FENCE;
		return CALL_WAIT;
	}
	if (o.version == d->before.version) {
		decide_want(call, d->index, &o, &d->want);
		return CALL_WAIT;
	}
	return lose(call, &o);
}

enum call_step
command_retire(struct call *call)
{
	switch (call->section) {
	case LEFT:
		return look_at_left(call);
	case TAKE_OVER:
		return call_decide(call, take_over, look);
	case FENCE:
		return fence(call);
	case GIVE_UP:
		return call_decide(call, give_up, look);
	default:
		return call_decide(call, find, look);
	}
}
