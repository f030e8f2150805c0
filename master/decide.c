#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "shm/instance.h"
#include "shm/segment.h"
#include "master/call.h"
#include "master/decide.h"

#define AGAIN_NS (200 * NS_PER_MS)

enum { LOOK, LOOKING, DECIDING, BRING, BRINGING };

struct placed {
	uint32_t index;
	struct shm_want want;
};

static enum decide_step
order(struct call *call, enum shm_job job)
{
	struct decide *d = &call->decide;

	if (!shm_lease_held()) {
		call_refuse(call, "this server does not hold its lease, so it "
		    "decides nothing");
		return DECIDE_REFUSED;
	}
	if (call->now_ns >= d->again_ns) {
		assign_order(&d->assign, job, call->now_ns);
		d->stage++;
	}
	return DECIDE_WAIT;
}

/* A job ended: what it was for is known, or it is ordered again. */
static enum decide_step
ended(struct call *call, enum decide_step next)
{
	struct decide *d = &call->decide;
	struct err e;

	if (!assign_done(&d->assign, call->now_ns, &e))
		return DECIDE_WAIT;
	if (err_is(e)) {
		call_progress(call, 0, 1, "decided: %s, trying again", e.what);
		d->again_ns = call->now_ns + AGAIN_NS;
		d->stage--;
		return DECIDE_WAIT;
	}
	d->stage = DECIDING;
	return next;
}

enum decide_step
decide_step(struct call *call)
{
	switch (call->decide.stage) {
	case LOOK:
		return order(call, SHM_JOB_LOOK);
	case LOOKING:
		return ended(call, DECIDE_NOW);
	case BRING:
		return order(call, SHM_JOB_ASSIGN);
	case BRINGING:
		return ended(call, DECIDE_BROUGHT);
	default:
		return DECIDE_NOW;
	}
}

void
decide_look(struct call *call)
{
	call->decide.stage = LOOK;
}

/* The one of that ordinal, or a new one. */
static struct placed *
placed_at(struct buf *b, uint32_t index)
{
	struct placed *p = (struct placed *)(void *)b->ptr;
	size_t i, n = b->len / sizeof(*p);

	for (i = 0; i < n; i++) {
		if (p[i].index == index)
			return &p[i];
	}
	b->cap_bytes = SHM_ORDINALS_DEFAULT * sizeof(*p);
	MUST(buf_append_zero(b, sizeof(*p)));
	p = (struct placed *)(void *)b->ptr;
	p[n].index = index;
	return &p[n];
}

void
decide_place(struct call *call, uint32_t index, const struct shm_want *want)
{
	struct err e = shm_ordinal_want(index, want);

	MUST(!err_is(e));
	placed_at(&call->decide.placed, index)->want = *want;
}

void
decide_bring(struct call *call)
{
	call->decide.stage = BRING;
}

void
decide_want(struct call *call, uint32_t index, const struct shm_ordinal *o,
    const struct shm_want *want)
{
	struct decide *d = &call->decide;

	d->has_want = true;
	d->index = index;
	d->before = *o;
	d->want = *want;
	d->want.from_version = o->version;
	decide_place(call, index, &d->want);
	decide_bring(call);
}

void
decide_want_new(struct call *call, const struct shm_newcomer *newcomer)
{
	struct decide *d = &call->decide;

	d->has_newcomer = true;
	d->newcomer = *newcomer;
	shm_ordinal_want_new(newcomer);
	decide_bring(call);
}

void
decide_end(struct call *call)
{
	struct decide *d = &call->decide;
	const struct placed *p = (const struct placed *)(void *)d->placed.ptr;
	size_t i;

	if (d->has_newcomer)
		shm_ordinal_want_new_end(&d->newcomer);
	for (i = 0; i < d->placed.len / sizeof(*p); i++)
		shm_ordinal_want_end(p[i].index, &p[i].want);
	buf_free(&d->placed);
	assign_drop(&d->assign);
}

bool
decide_find(struct call *call, const char *name, uint32_t *index,
    struct shm_ordinal *o)
{
	uint32_t i, count = shm_ordinal_count();

	for (i = 0; i < count; i++) {
		if (slice_eq(shm_ordinal_name(i), slice_of(name)) &&
		    !err_is(shm_ordinal_get(i, o)) && o->version != 0) {
			*index = i;
			return true;
		}
	}
	call_refuse(call, "no ordinal %s in the assignment; see memwaldctl "
	    "ordinals", name);
	return false;
}

const char *
decide_owner(const struct shm_assignment *is, char text[DECIDE_TEXT])
{
	if (*is->instance == '\0')
		snprintf(text, DECIDE_TEXT, "nobody");
	else
		snprintf(text, DECIDE_TEXT, is->worker == 0 ? "%s" : "%s#%u",
		    is->instance, is->worker);
	return text;
}
