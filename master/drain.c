#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/home.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "master/assign.h"
#include "master/backoff.h"
#include "master/candidate.h"
#include "master/child.h"
#include "master/drain.h"

#define LOOK_NS (50 * NS_PER_MS)	/* while something has to move */
/* Of two workers that are drained at once the last one takes its mark back. */
#define ALL_NS (2 * NS_PER_SEC)

static const struct backoff again = { 50 * NS_PER_MS, 5 * NS_PER_SEC };

static struct {
	uint64_t version;		/* of the chain, and */
	uint32_t resizes;		/* before marks were read */
	bool any;			/* mark of ours */
	bool instance;
	bool all;			/* workers, by themselves */
	uint64_t since_ns;		/* that one was seen */
	struct assign assign;
	uint32_t failures;
	uint64_t due_ns;
	struct candidates candidates;
} drain = { .version = UINT64_MAX };

struct err
drain_find_home(const char *instance, uint32_t worker, uint32_t *index)
{
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid shard;

	snprintf(name, sizeof(name), worker == 0 ? "%s" : "%s#%u", instance,
	    worker);
	shard = uuid_named(slice_of(name));
	return shm_ordinal_find(&shard, index);
}

static uint32_t
marks_of(const char *instance, uint32_t worker)
{
	struct shm_ordinal o;
	uint32_t index;

	if (err_is(drain_find_home(instance, worker, &index)) ||
	    err_is(shm_ordinal_get(index, &o)))
		return 0;
	return o.drained;
}

uint32_t
drain_marks(const char *instance, uint32_t worker)
{
	return (marks_of(instance, worker) & SHM_DRAINED_WORKER) |
	    (marks_of(instance, 0) & SHM_DRAINED_INSTANCE);
}

/* Ours are the first entries of the table. */
bool
drain_has_all(uint32_t workers)
{
	struct shm_ordinal o;
	uint32_t i;

	for (i = 0; i < workers; i++) {
		if (err_is(shm_ordinal_get(i, &o)) ||
		    (o.drained & SHM_DRAINED_WORKER) == 0)
			return false;
	}
	return true;
}

static void
say_drained(bool all)
{
	if (all)
		log_warn("every worker is drained, and so the instance is: its "
		    "ordinals go to others, until memwaldctl undrain WORKER");
	else
		log_info(drain.instance ? "instance is drained, its ordinals go "
		    "to others until it is undrained" :
		    "instance is not drained any more");
}

static void
read_marks(uint64_t now_ns, uint64_t span_ns)
{
	uint64_t version = shm_ordinal_version();
	bool before = drain.instance, all;
	struct shm_ordinal o;
	uint32_t i;

	if (version == drain.version && drain.resizes == child_resizes())
		return;
	all = drain_has_all(child_wanted());
	drain.version = version;
	drain.due_ns = MIN(drain.due_ns, now_ns);
	drain.resizes = child_resizes();
	drain.any = false;
	drain.instance = drain.all = all;
	for (i = 0; i < child_wanted(); i++) {
		if (err_is(shm_ordinal_get(i, &o)))
			continue;
		drain.any |= o.drained != 0;
		drain.instance |= i == 0 &&
		    (o.drained & SHM_DRAINED_INSTANCE) != 0;
		child_park(i, !all && (o.drained & SHM_DRAINED_WORKER) != 0,
		    now_ns, span_ns);
	}
	if (drain.instance == before)
		return;
	drain.since_ns = now_ns;
	if (drain.instance)
		shm_server_set(SHM_SERVER_DRAINED);
	else
		shm_server_clear(SHM_SERVER_DRAINED);
	say_drained(all);
}

static bool
is_drained(const struct shm_ordinal *o)
{
	return o->owner != SHM_NOBODY &&
	    drain_marks(o->is.instance, o->is.worker) != 0;
}

/* A worker answers under its ordinals until it has left. */
static bool
may_go(const struct shm_ordinal *o, uint64_t now_ns, uint64_t delay_ns)
{
	if (drain.all)
		delay_ns = MAX(delay_ns, ALL_NS);
	return drain.instance ? now_ns >= drain.since_ns + delay_ns :
	    child_is_parked(o->is.worker);
}

/* The least loaded, of ours if there are any: those of a worker. */
static struct candidate *
choose(void)
{
	struct candidate *least = candidates_least(&drain.candidates,
	    shm_instance_id());

	return least != NULL ? least : candidates_least(&drain.candidates,
	    NULL);
}

static bool
decide(uint32_t index, const struct shm_ordinal *o)
{
	struct candidate *to = choose();
	struct shm_want want;
	struct err e;

	if (to == NULL)
		return false;
	memset(&want, 0, sizeof(want));
	want.from_version = o->version;
	want.to = candidate_take(to);
	want.reason = SHM_ORDINAL_BY_DRAIN;
	e = shm_ordinal_want(index, &want);
	MUST(!err_is(e));
	return true;
}

/* How many were decided about; *left: there are others that have to go. */
static uint32_t
decide_all(uint64_t now_ns, uint64_t delay_ns, bool *left)
{
	uint32_t i, n = 0, count = shm_ordinal_count();
	struct shm_ordinal o;

	*left = false;
	candidates_find(&drain.candidates, child_wanted());
	for (i = 0; i < count; i++) {
		if (err_is(shm_ordinal_get(i, &o)) || o.version == 0 ||
		    !is_drained(&o))
			continue;
		if (may_go(&o, now_ns, delay_ns) && decide(i, &o))
			n++;
		else
			*left = true;
	}
	return n;
}

static void
failed(struct err e, uint64_t now_ns)
{
	if (drain.failures++ == 0)
		log_err(LOG_WARN, e, "ordinals of what is drained not moved "
		    "yet, trying again");
	drain.due_ns = now_ns + backoff_ns(&again, drain.failures);
}

void
drain_step(uint64_t now_ns, uint64_t span_ns, uint64_t delay_ns)
{
	struct err e;
	bool left;

	read_marks(now_ns, span_ns);
	if (!assign_done(&drain.assign, now_ns, &e))
		return;
	if (err_is(e))
		failed(e, now_ns);
	if (!drain.any || now_ns < drain.due_ns || !shm_lease_held())
		return;
	if (!err_is(e))
		drain.failures = 0;
	if (decide_all(now_ns, delay_ns, &left) > 0) {
		assign_order(&drain.assign, SHM_JOB_ASSIGN, now_ns);
		drain.due_ns = now_ns;
	} else {
		/* The marks alone: until the assignment changes. */
		drain.due_ns = left ? now_ns + LOOK_NS : UINT64_MAX;
	}
}

uint64_t
drain_next_ns(uint64_t now_ns)
{
	if (drain.assign.ordered)
		return now_ns + LOOK_NS;
	return drain.any ? drain.due_ns : UINT64_MAX;
}

uint32_t
drain_left(const char *instance, uint32_t worker)
{
	uint32_t i, n = 0, count = shm_ordinal_count();
	struct shm_ordinal o;

	for (i = 0; i < count; i++)
		n += !err_is(shm_ordinal_get(i, &o)) && o.version != 0 &&
		    o.is.state != SHM_ORDINAL_ORPHANED &&
		    o.is.state != SHM_ORDINAL_RETIRED &&
		    strcmp(o.is.instance, instance) == 0 &&
		    (worker == DRAIN_ALL || o.is.worker == worker);
	return n;
}
