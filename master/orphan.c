#include "common/base.h"

#include "common/clock.h"
#include "common/log.h"
#include "shm/home.h"
#include "shm/metric.h"
#include "shm/segment.h"
#include "master/assign.h"
#include "master/backoff.h"
#include "master/candidate.h"
#include "master/member.h"
#include "master/orphan.h"

#define LOOK_NS		(200 * NS_PER_MS)	/* between two looks */
#define WAIT_NS		(20 * NS_PER_MS)	/* while a job is awaited */
#define PAUSE_MAX_NS	(2 * NS_PER_SEC)	/* where several may decide */

static const struct backoff again = { 20 * NS_PER_MS, 5 * NS_PER_SEC };

/* Where it shall go, if it is an orphan, and who decides. */
enum fate {
	SETTLED,			/* or another instance's affair */
	OURS,
	ANYBODYS,			/* its home is gone */
	FORGOTTEN			/* the same, but no lease tells of it */
};

struct ripe {
	enum fate fate;			/* as what it was seen, */
	uint64_t version;		/* and what it was */
	uint64_t at_ns;			/* when it may be decided about that */
};

static struct {
	struct orphan_plan plan;
	uint64_t looked_ns;
	bool missed;			/* a look, since the last was just before */
	uint32_t count;
	uint64_t due_ns;		/* the earliest decision; 0: none waits */
	struct assign assign;
	enum shm_job job;		/* that was ordered last */
	bool fresh;			/* a look has just ended */
	uint32_t ripe;			/* so many ordinals may be decided about */
	uint32_t failures;
	uint64_t again_ns;		/* no order before that */
	struct ripe ripes[SHM_ORDINALS_DEFAULT];
	struct candidates candidates;
} orphan;

static enum fate
fate_of_instance(const char *id)
{
	struct shm_instance i;

	if (!shm_instance_find(id, &i))
		return FORGOTTEN;
	return member_is_gone(&i) ? ANYBODYS : SETTLED;
}

/* Whether the owner is there; what a worker of ours does not own any more since
 * it does not run, the chain says (member.c). */
static enum fate
fate_of_owner(const struct shm_ordinal *o)
{
	if (o->is.state == SHM_ORDINAL_ORPHANED)
		return ANYBODYS;
	if (strcmp(o->is.instance, shm_instance_id()) == 0)
		return SETTLED;
	return fate_of_instance(o->is.instance);
}

static enum fate
fate_of(const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);
	enum fate owner, at_home;

	if (o->version == 0 || o->is.state == SHM_ORDINAL_RETIRED)
		return SETTLED;
	owner = fate_of_owner(o);
	if (owner == SETTLED)
		return SETTLED;
	if (shm_home_is_ours(&home))
		return owner == FORGOTTEN ? FORGOTTEN : OURS;
	at_home = fate_of_instance(home.instance);
	return at_home == SETTLED ? SETTLED : MAX(owner, at_home);
}

/* A pause before it is decided: others may decide as well. */
static uint64_t
ripe_after_ns(enum fate fate)
{
	switch (fate) {
	case ANYBODYS:
		return backoff_jitter_ns(PAUSE_MAX_NS);
	case FORGOTTEN:
		return orphan.plan.grace_ns + backoff_jitter_ns(PAUSE_MAX_NS);
	default:
		return 0;
	}
}

static struct candidate *
choose(const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);
	struct candidate *own = shm_home_is_ours(&home) ?
	    candidates_get(&orphan.candidates, home.instance, home.worker) :
	    NULL;

	return own != NULL ? own : candidates_least(&orphan.candidates, NULL);
}

static void
decide(uint32_t index, const struct shm_ordinal *o, bool fresh)
{
	struct candidate *to = choose(o);
	struct shm_want want;
	struct err e;

	if (to == NULL)
		return;
	orphan.ripe++;
	if (!fresh)
		return;
	memset(&want, 0, sizeof(want));
	want.from_version = o->version;
	want.to = candidate_take(to);
	want.reason = SHM_ORDINAL_BY_ORPHAN;
	e = shm_ordinal_want(index, &want);
	MUST(!err_is(e));
	log_info("orphan goes to another ordinal=%s state=%s owner=%s "
	    "instance=%s worker=%u", o->name,
	    shm_ordinal_state_name(o->is.state), o->is.instance,
	    want.to.instance, want.to.worker);
}

/* Counts it, and says whether it is time to decide. */
static bool
is_ripe(uint32_t index, const struct shm_ordinal *o, uint64_t now_ns)
{
	struct ripe *r = &orphan.ripes[index];
	enum fate fate = fate_of(o);

	/* Who is not known is not gone as long as whoever had it before. */
	if (fate != r->fate || o->version != r->version)
		*r = (struct ripe){ fate, o->version,
		    now_ns + ripe_after_ns(fate) };
	if (fate == SETTLED)
		return false;
	orphan.count++;
	if (r->at_ns <= now_ns)
		return true;
	if (orphan.due_ns == 0 || r->at_ns < orphan.due_ns)
		orphan.due_ns = r->at_ns;
	return false;
}

/* fresh: leases and assignments were looked at just before; else that is
 * ordered, if there is anything to decide. */
static void
look(uint32_t workers, uint64_t now_ns, bool fresh)
{
	uint32_t i, count = MIN(shm_ordinal_count(), SHM_ORDINALS_DEFAULT);
	bool found = false;
	struct shm_ordinal o;

	orphan.count = orphan.ripe = 0;
	orphan.due_ns = 0;
	for (i = 0; i < count; i++) {
		/* What is wanted is another decider's. */
		if (err_is(shm_ordinal_get(i, &o)) ||
		    !is_ripe(i, &o, now_ns) || orphan.plan.manual || o.wanted)
			continue;
		if (!found)
			candidates_find(&orphan.candidates, workers);
		found = true;
		decide(i, &o, fresh);
	}
	shm_metric_set(METRIC_memwald_orphans, 0, orphan.count);
	if (orphan.ripe == 0)
		return;
	orphan.job = fresh ? SHM_JOB_ASSIGN : SHM_JOB_LOOK;
	assign_order(&orphan.assign, orphan.job, now_ns);
}

/* What was decided is not brought later, by another's job: it would be old. */
static void
take_back_wants(void)
{
	uint32_t i, count = shm_ordinal_count();
	struct shm_want want;

	for (i = 0; i < count; i++) {
		if (shm_ordinal_wanted(i, &want) &&
		    want.reason == SHM_ORDINAL_BY_ORPHAN)
			shm_ordinal_want_end(i, &want);
	}
}

static bool
is_waiting(uint64_t now_ns)
{
	struct err e;

	if (!orphan.assign.ordered)
		return false;
	if (!assign_done(&orphan.assign, now_ns, &e))
		return true;
	orphan.looked_ns = 0;
	orphan.fresh = !err_is(e) && orphan.job == SHM_JOB_LOOK;
	/* If it came too late the segment knows what another has decided. */
	if (!err_is(e)) {
		if (!orphan.fresh)
			orphan.failures = 0;
		return false;
	}
	take_back_wants();
	if (orphan.failures++ == 0)
		log_err(LOG_WARN, e, "orphans not assigned yet, trying again "
		    "orphans=%u", orphan.ripe);
	orphan.again_ns = now_ns + backoff_ns(&again, orphan.failures);
	return false;
}

void
orphan_step(uint64_t now_ns)
{
	uint32_t workers;
	bool fresh;

	if (is_waiting(now_ns))
		return;
	fresh = orphan.fresh;
	orphan.fresh = false;
	if (now_ns < orphan.again_ns || !member_is_home(&workers))
		return;
	orphan.missed = now_ns < orphan.looked_ns + LOOK_NS;
	if (orphan.missed && (orphan.due_ns == 0 || now_ns < orphan.due_ns))
		return;
	orphan.looked_ns = now_ns;
	orphan.missed = false;
	look(workers, now_ns, fresh);
}

uint64_t
orphan_next_ns(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	if (orphan.assign.ordered)
		return now_ns + WAIT_NS;
	if (orphan.missed)
		next_ns = orphan.looked_ns + LOOK_NS;
	if (orphan.due_ns != 0 && !orphan.plan.manual)
		next_ns = MIN(next_ns, orphan.due_ns);
	/* Also where ordinals are not home, and it cannot be decided yet. */
	return MAX(MAX(next_ns, orphan.again_ns), now_ns + WAIT_NS);
}

uint32_t
orphan_count(void)
{
	return orphan.count;
}

bool
orphan_is_forgotten(uint32_t index, const struct shm_ordinal *o,
    uint64_t now_ns)
{
	return index < SHM_ORDINALS_DEFAULT && fate_of(o) == FORGOTTEN &&
	    orphan.ripes[index].fate == FORGOTTEN &&
	    orphan.ripes[index].version == o->version &&
	    orphan.ripes[index].at_ns <= now_ns;
}

bool
orphan_is_manual(void)
{
	return orphan.plan.manual;
}

void
orphan_init(const struct orphan_plan *plan)
{
	orphan.plan = *plan;
}
