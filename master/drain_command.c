#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "shm/instance.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/command.h"
#include "master/drain.h"

/*
 * drain and undrain: the mark is set or taken away, the rest follows by itself
 * (drain.h, member.h) and is waited for. Of another instance its own master does
 * it, when it sees the mark; if it does not live, its ordinals are given to
 * others here, and come home when it starts undrained.
 *
 * Somebody has to be left who may own what is there. That is looked at before the
 * mark is set, and again when it is: of two who drain each other at the same time
 * one at least comes into the chain behind the other, sees that, and takes its
 * mark back.
 */

#define LOOK_NS (500 * NS_PER_MS)	/* between two looks at another instance */

enum { DRAIN, WITHDRAW };		/* sections */

static const struct report_column columns[] = {
	{ "ORDINAL", "name", -32 },
	{ "OWNER", "owner", -32 },
	{ "VERSION", "version", 7 },
};

static bool
is_ours(const struct call *call)
{
	return strcmp(call->instance, shm_instance_id()) == 0;
}

/* An instance that the chain knows. */
static bool
read_instance(struct call *call)
{
	struct shm_ordinal o;
	uint32_t index;

	call->worker = DRAIN_ALL;
	if (call->operand_count > 1)
		call->instance = call->operands[1];
	if (strchr(call->instance, '#') != NULL) {
		call_refuse(call, "%s is no instance's name but that of a "
		    "worker, whom its own instance drains", call->instance);
		return false;
	}
	if (is_ours(call) || (!err_is(drain_find_home(call->instance, 0,
	    &index)) && !err_is(shm_ordinal_get(index, &o)) &&
	    o.version != 0)) {
		call->decide.index = is_ours(call) ? 0 : index;
		return true;
	}
	call_refuse(call, "no ordinal of an instance %s is in the assignment; "
	    "see memwaldctl ordinals", call->instance);
	return false;
}

/* A resize may come in between. */
static bool
is_there(const struct call *call)
{
	return call->worker == DRAIN_ALL || call->worker < child_wanted();
}

static enum call_step
refuse_number(struct call *call)
{
	return call_refuse(call, "%s: the instance, or a worker from 0 to %u",
	    call->operands[0], child_wanted() - 1);
}

/* "instance", with whose if not ours, or the number of a worker of ours. */
static bool
read_place(struct call *call)
{
	const char *text = call->operands[0];

	call->instance = shm_instance_id();
	if (strcmp(text, "instance") == 0)
		return read_instance(call);
	if (call->operand_count > 1) {
		call_refuse(call, "a worker is drained by its own instance");
		return false;
	}
	call->worker = (uint32_t)strtoul(text, NULL, 10);
	/* Ours are the first of the table. */
	call->decide.index = call->worker;
	if (strspn(text, "0123456789") == strlen(text) && strlen(text) <= 4 &&
	    is_there(call))
		return true;
	refuse_number(call);
	return false;
}

static uint32_t
mark_of(const struct call *call)
{
	return call->worker == DRAIN_ALL ? SHM_DRAINED_INSTANCE :
	    SHM_DRAINED_WORKER;
}

/* The ordinal that bears the mark is what it is decided about. */
static bool
is_marked(const struct call *call, struct shm_ordinal *o)
{
	struct err e = shm_ordinal_get(call->decide.index, o);

	MUST(!err_is(e));
	return (o->drained & mark_of(call)) != 0;
}

/* Whether that is, or was, with whom is drained. */
static bool
is_place(const struct call *call, const char *instance, uint32_t worker)
{
	return strcmp(instance, call->instance) == 0 &&
	    (call->worker == DRAIN_ALL || call->worker == worker);
}

static void
put_ordinal(struct report *r, const struct shm_ordinal *o)
{
	char owner[DECIDE_TEXT];

	report_row(r);
	report_text(r, "%s", o->name);
	report_text(r, "%s", decide_owner(&o->is, owner));
	report_uint(r, o->version);
	report_row_end(r);
}

/* What is there still, before; what has gone from there, after. */
static void
put_ordinals(const struct call *call, struct report *r, bool before)
{
	uint32_t i, count = shm_ordinal_count();
	struct shm_ordinal o;

	report_list(r, "ordinals", columns, ARRAY_LEN(columns));
	for (i = 0; i < count; i++) {
		bool is, was;

		if (err_is(shm_ordinal_get(i, &o)) || o.version == 0)
			continue;
		is = is_place(call, o.is.instance, o.is.worker);
		was = o.was[0].version != 0 &&
		    is_place(call, o.was[0].instance, o.was[0].worker);
		if (before ? is : was && !is)
			put_ordinal(r, &o);
	}
	report_list_end(r);
}

static enum call_step
say(struct call *call, const char *result, bool before)
{
	struct report *r = &call->report;

	report_open(r);
	report_line(r, "%s: %s %s", result,
	    call->worker == DRAIN_ALL ? "instance" : "worker",
	    call->worker == DRAIN_ALL ? call->instance : call->operands[0]);
	if (r->json)
		json_write_text(&r->w, "result", slice_of(result));
	put_ordinals(call, r, before);
	report_close(r);
	return CALL_DONE;
}

static bool
has_others(const struct call *call)
{
	static struct candidates c;
	uint32_t i, others = 0, ours = 0;

	candidates_find(&c, child_wanted());
	for (i = 0; i < c.count; i++) {
		others += strcmp(c.all[i].instance, call->instance) != 0;
		ours += c.all[i].ours && c.all[i].worker != call->worker;
	}
	return (call->worker == DRAIN_ALL ? others : ours) > 0;
}

static enum call_step
refuse_last(struct call *call)
{
	if (!is_there(call))
		return refuse_number(call);
	if (call->worker == DRAIN_ALL)
		return call_refuse(call, "no other instance lives whose workers "
		    "are not drained: nobody would own what is there");
	if (drain_marks(call->instance, 0) & SHM_DRAINED_INSTANCE)
		return call_refuse(call, "the instance is drained, and so all of "
		    "its workers are");
	return call_refuse(call, "it is the only worker that is not drained; "
	    "with another instance here, drain the instance");
}

static bool
lives(const struct call *call)
{
	struct shm_instance other;

	return is_ours(call) || (shm_instance_find(call->instance, &other) &&
	    shm_instance_lives(&other));
}

/* What an instance owns that does not live goes to others, by our decision: how
 * many that is. */
static uint32_t
give_away(struct call *call)
{
	static struct candidates c;
	uint32_t i, n = 0, count = shm_ordinal_count();
	struct candidate *to;
	struct shm_ordinal o;
	struct shm_want want;

	if (lives(call))
		return 0;
	candidates_find(&c, child_wanted());
	for (i = 0; i < count; i++) {
		struct err e = shm_ordinal_get(i, &o);

		MUST(!err_is(e));
		to = candidates_least(&c, NULL);
		if (o.version == 0 || o.is.state == SHM_ORDINAL_RETIRED ||
		    !is_place(call, o.is.instance, o.is.worker) || to == NULL)
			continue;
		memset(&want, 0, sizeof(want));
		want.to = candidate_take(to);
		want.from_version = o.version;
		want.reason = SHM_ORDINAL_BY_DRAIN;
		decide_place(call, i, &want);
		n++;
	}
	return n;
}

static enum call_step
withdraw(struct call *call, const struct shm_ordinal *o)
{
	struct shm_want want;

	memset(&want, 0, sizeof(want));
	want.to = o->is;
	want.undrain = (uint16_t)mark_of(call);
	want.reason = SHM_ORDINAL_BY_COMMAND;
	call->section = WITHDRAW;
	decide_want(call, call->decide.index, o, &want);
	return CALL_WAIT;
}

static enum call_step
decide_drain(struct call *call)
{
	struct shm_want want;
	struct shm_ordinal o;
	bool marked;

	if (call->instance == NULL && !read_place(call))
		return CALL_DONE;
	marked = is_marked(call, &o);
	/* A mark that was there before is nobody's to take back. */
	if (marked && call->decide.has_want &&
	    (!is_there(call) || !has_others(call)))
		return withdraw(call, &o);
	if (!marked && call->section == WITHDRAW)
		return refuse_last(call);
	if (marked) {
		if (call->given[ADMIN_OPTION_DRY_RUN])
			return say(call, "drained already", true);
		if (give_away(call) > 0)
			decide_bring(call);
		else
			call->told = true;
		return CALL_WAIT;
	}
	if (!is_there(call) || !has_others(call))
		return refuse_last(call);
	if (call->given[ADMIN_OPTION_DRY_RUN])
		return say(call, "would drain", true);
	memset(&want, 0, sizeof(want));
	want.to = o.is;
	want.drain = (uint16_t)mark_of(call);
	want.reason = SHM_ORDINAL_BY_COMMAND;
	decide_want(call, call->decide.index, &o, &want);
	return CALL_WAIT;
}

/* What another instance does is known by looking: not only as often as all do. */
static void
look_again(struct call *call)
{
	struct decide *d = &call->decide;
	struct err e;

	if (is_ours(call) || !assign_done(&d->assign, call->now_ns, &e) ||
	    call->now_ns < d->again_ns)
		return;
	assign_order(&d->assign, SHM_JOB_LOOK, call->now_ns);
	d->again_ns = call->now_ns + LOOK_NS;
}

/* Who dies before he has given all away leaves that to us. */
static bool
takes_over(struct call *call)
{
	if (call->decide.assign.ordered || give_away(call) == 0)
		return false;
	call->told = false;
	decide_bring(call);
	return true;
}

/* It has left, will by a resize, or none leaves since all are drained. */
static bool
is_out(const struct call *call)
{
	return call->worker == DRAIN_ALL || !is_there(call) ||
	    child_is_parked(call->worker) || drain_has_all(child_wanted());
}

/* The mark is there: until nothing is, but the mark. */
static enum call_step
wait_drained(struct call *call)
{
	uint32_t left = drain_left(call->instance, call->worker);
	struct shm_ordinal o;

	look_again(call);
	if (!is_marked(call, &o))
		return call_refuse(call, "undrained by another meanwhile");
	call->children = MAX(call->children, left);
	if (left == 0 && is_out(call))
		return say(call, "drained", false);
	if (takes_over(call))
		return CALL_WAIT;
	call_progress(call, call->children - left, call->children,
	    "ordinals have moved%s", is_out(call) ? "" :
	    ", the worker leaves");
	return CALL_WAIT;
}

/* All deciders of both begin alike. */
static enum call_step
step(struct call *call, enum call_step (*decide)(struct call *),
    enum call_step (*wait)(struct call *))
{
	if (call->told)
		return wait(call);
	return call_decide(call, decide, decide);
}

enum call_step
command_drain(struct call *call)
{
	return step(call, decide_drain, wait_drained);
}

/* That worker's own ordinal shall be its own, unless it is drained otherwise. */
static bool
comes_home(const struct call *call, uint32_t worker, const struct shm_ordinal *o)
{
	struct shm_ordinal first;	/* which has the instance's mark */
	uint32_t marks;
	struct err e = shm_ordinal_get(0, &first);

	MUST(!err_is(e));
	if (!is_place(call, shm_instance_id(), worker))
		return false;
	marks = (o->drained & SHM_DRAINED_WORKER) |
	    (first.drained & SHM_DRAINED_INSTANCE);
	return (marks & ~mark_of(call)) == 0;
}

/* What it shall be; false: it is. */
static bool
undrained(const struct call *call, uint32_t worker, const struct shm_ordinal *o,
    struct shm_want *want)
{
	bool bears = worker == call->decide.index;
	bool marks = bears && (o->drained & mark_of(call)) != 0;

	memset(want, 0, sizeof(*want));
	want->to = o->is;
	want->from_version = o->version;
	want->undrain = bears ? (uint16_t)mark_of(call) : 0;
	want->reason = SHM_ORDINAL_BY_COMMAND;
	if (comes_home(call, worker, o) && o->owner != SHM_WORKER(worker)) {
		want->to.state = SHM_ORDINAL_OWNED;
		want->to.worker = worker;
		memset(want->to.instance, 0, sizeof(want->to.instance));
		memset(want->to.address, 0, sizeof(want->to.address));
		snprintf(want->to.instance, sizeof(want->to.instance), "%s",
		    shm_instance_id());
		snprintf(want->to.address, sizeof(want->to.address), "%s",
		    shm_instance_address());
		return true;
	}
	return marks;
}

/* The mark of another instance; its home takes the rest back. */
static uint32_t
want_unmarked(struct call *call)
{
	struct shm_ordinal o;
	struct shm_want want;

	if (!is_marked(call, &o))
		return 0;
	memset(&want, 0, sizeof(want));
	want.to = o.is;
	want.from_version = o.version;
	want.undrain = SHM_DRAINED_INSTANCE;
	want.reason = SHM_ORDINAL_BY_COMMAND;
	if (call->given[ADMIN_OPTION_DRY_RUN])
		return 1;
	decide_place(call, call->decide.index, &want);
	return 1;
}

static uint32_t
want_undrained(struct call *call)
{
	struct shm_want want;
	struct shm_ordinal o;
	uint32_t i, n = 0;

	for (i = 0; i < child_wanted(); i++) {
		struct err e = shm_ordinal_get(i, &o);

		MUST(!err_is(e));
		if (!undrained(call, i, &o, &want))
			continue;
		n++;
		if (!call->given[ADMIN_OPTION_DRY_RUN])
			decide_place(call, i, &want);
	}
	return n;
}

/* It has no mark, or none any more, and is drained all the same. */
static bool
stays_drained(const struct call *call)
{
	return call->worker == DRAIN_ALL && is_ours(call) &&
	    drain_has_all(child_wanted());
}

static enum call_step
refuse_stays(struct call *call)
{
	return call_refuse(call, "each worker that runs is drained by itself, so "
	    "the instance stays drained: undrain WORKER");
}

static enum call_step
decide_undrain(struct call *call)
{
	struct shm_ordinal o;
	uint32_t n;

	if (!read_place(call))
		return CALL_DONE;
	if (!is_marked(call, &o) && call->workers == 0)
		return stays_drained(call) ? refuse_stays(call) :
		    say(call, "was not drained", true);
	call->workers = 1;		/* begun: it is seen to its end */
	n = is_ours(call) ? want_undrained(call) : want_unmarked(call);
	if (n > 0 && call->given[ADMIN_OPTION_DRY_RUN])
		return stays_drained(call) ? refuse_stays(call) :
		    say(call, "would undrain", true);
	if (n > 0)
		decide_bring(call);
	call->told = n == 0;
	return CALL_WAIT;
}

/* It was only this drain that keeps it away, or what came of it: its home, which
 * lives, takes it. A worker of its own it has to undrain itself. */
static enum call_step
wait_taken_back(struct call *call)
{
	struct shm_ordinal o;

	look_again(call);
	if (is_marked(call, &o))
		return call_refuse(call, "drained by another meanwhile");
	if (!lives(call) || o.drained != 0 || (o.reason != SHM_ORDINAL_BY_DRAIN &&
	    o.reason != SHM_ORDINAL_BY_RETIRE) ||
	    is_place(call, o.is.instance, o.is.worker))
		return say(call, "undrained", true);
	call_progress(call, 0, 1, "instance has its ordinals back");
	return CALL_WAIT;
}

/* The marks are gone, the ordinals are home: until the workers are. */
static enum call_step
wait_undrained(struct call *call)
{
	uint32_t serving, leaving;

	if (!is_ours(call))
		return wait_taken_back(call);
	if (stays_drained(call))
		return refuse_stays(call);
	child_progress(&serving, &leaving);
	if (serving == child_wanted() && leaving == 0 &&
	    !(call->worker == DRAIN_ALL ? shm_server_is(SHM_SERVER_DRAINED) :
	    child_is_parked(call->worker)))
		return say(call, "undrained", true);
	call_progress(call, serving, child_wanted(), "workers serve");
	return CALL_WAIT;
}

enum call_step
command_undrain(struct call *call)
{
	return step(call, decide_undrain, wait_undrained);
}
