#include "common/base.h"

#include <stdio.h>

#include "common/log.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "master/assign.h"
#include "master/child.h"
#include "master/drain.h"
#include "master/member.h"

#define AGAIN_NS	(20 * NS_PER_MS)	/* doubled up to */
#define AGAIN_MAX_NS	(5 * NS_PER_SEC)
#define LOOK_NS		(20 * NS_PER_MS)	/* while something is awaited */
/* Between two times that something is taken back: who does not see our lease
 * may take it again and again. */
#define TAKE_BACK_NS	NS_PER_SEC

static struct {
	uint64_t orphan_grace_ns;
	uint64_t patient_until_ns;
	enum member_state state;
	uint32_t term;			/* in which ordinals are home, */
	uint32_t workers;		/* of so many workers */
	uint32_t resizes;		/* before that */
	uint64_t looked;		/* nothing was taken, of this version */
	struct assign assign;
	uint32_t failures;
	uint64_t due_ns;		/* no order before that */
} member;

static bool
is_ours(const struct shm_assignment *is)
{
	return strcmp(is->instance, shm_instance_id()) == 0;
}

static struct shm_assignment
home_of(uint32_t worker)
{
	struct shm_assignment to = { .state = SHM_ORDINAL_OWNED,
	    .worker = worker };

	snprintf(to.instance, sizeof(to.instance), "%s", shm_instance_id());
	snprintf(to.address, sizeof(to.address), "%s",
	    shm_instance_address());
	return to;
}

/* Those who leave finish what they have under their ordinals. */
static uint32_t
workers_now(void)
{
	uint32_t serving, leaving;

	child_progress(&serving, &leaving);
	return leaving > 0 ? MAX(child_wanted(), member.workers) :
	    child_wanted();
}

/* What an ordinal shall be with so many workers; false: it is. */
static bool
wanted(uint32_t index, uint32_t workers, const struct shm_ordinal *o,
    struct shm_assignment *to)
{
	/* What is drained neither comes home nor is taken from here. */
	bool home = index < workers &&
	    drain_marks(shm_instance_id(), index) == 0;

	if (home) {
		*to = home_of(index);
	} else if (is_ours(&o->is) && o->version != 0 &&
	    o->is.state != SHM_ORDINAL_RETIRED) {
		*to = o->is;
		if (o->is.worker < workers)
			snprintf(to->address, sizeof(to->address), "%s",
			    shm_instance_address());
		else
			*to = (struct shm_assignment){
			    .state = SHM_ORDINAL_ORPHANED };
	} else {
		return false;
	}
	/* One that nobody has registered is not known to others. */
	return o->version == 0 || memcmp(to, &o->is, sizeof(*to)) != 0;
}

static void
want(uint32_t index, const struct shm_ordinal *o,
    const struct shm_assignment *to)
{
	struct shm_want w;
	struct err e;

	memset(&w, 0, sizeof(w));
	w.to = *to;
	w.from_version = o->version;
	w.reason = SHM_ORDINAL_BY_HOME;
	e = shm_ordinal_want(index, &w);
	MUST(!err_is(e));
}

/* Decided on for another number of workers, and not brought: it would be by the
 * next order, whoever's that is. */
static void
take_back_want(uint32_t index)
{
	struct shm_want w;

	if (shm_ordinal_wanted(index, &w) && w.reason == SHM_ORDINAL_BY_HOME)
		shm_ordinal_want_end(index, &w);
}

/* How many ordinals are not yet as they shall be. */
static uint32_t
bring_home(uint32_t workers)
{
	uint32_t i, n = 0, count = shm_ordinal_count();
	struct shm_assignment to;
	struct shm_ordinal o;

	for (i = 0; i < count; i++) {
		memset(&to, 0, sizeof(to));
		if (err_is(shm_ordinal_get(i, &o)))
			continue;
		if (!wanted(i, workers, &o, &to)) {
			take_back_want(i);
			continue;
		}
		want(i, &o, &to);
		n++;
	}
	return n;
}

/* Without a word of an operator, or not by one that still holds: it is drained
 * no more, or was given up while its worker did not run. By its home: for another
 * number of workers, and so late that another one has been decided on since. */
static bool
is_taken(uint32_t worker, const struct shm_ordinal *o)
{
	bool given_up = o->reason == SHM_ORDINAL_BY_HOME &&
	    o->is.state == SHM_ORDINAL_ORPHANED;

	return (given_up || o->reason == SHM_ORDINAL_BY_ORPHAN ||
	    o->reason == SHM_ORDINAL_BY_DRAIN ||
	    o->reason == SHM_ORDINAL_BY_RETIRE) &&
	    o->owner != SHM_WORKER(worker) &&
	    drain_marks(shm_instance_id(), worker) == 0;
}

/* How many of those that are home were taken since. */
static uint32_t
take_back(void)
{
	uint64_t version = shm_ordinal_version();
	struct shm_assignment to;
	struct shm_ordinal o;
	uint32_t i, n = 0;

	if (version == member.looked)
		return 0;
	for (i = 0; i < member.workers; i++) {
		if (err_is(shm_ordinal_get(i, &o)) || !is_taken(i, &o))
			continue;
		log_info("ordinal went to another while its worker runs here, "
		    "taken back ordinal=%s owner=%s why=%s", o.name,
		    o.is.instance, shm_ordinal_reason_name(o.reason));
		to = home_of(i);
		want(i, &o, &to);
		n++;
	}
	if (n == 0)
		member.looked = version;
	return n;
}

static void
failed(struct err e, uint64_t now_ns)
{
	uint64_t wait_ns = MIN(AGAIN_NS << MIN(member.failures, 16u),
	    AGAIN_MAX_NS);

	if (member.failures++ == 0)
		log_err(LOG_WARN, e, "ordinals not brought home yet, trying "
		    "again");
	member.due_ns = now_ns + wait_ns;
}

/* Whether a job that was ordered is still under way. If it came too late, the
 * segment knows by now what another decided about the same ordinals: so we
 * decide anew at once. */
static bool
is_waiting(uint64_t now_ns)
{
	bool ordered = member.assign.ordered;
	struct err e;

	if (!assign_done(&member.assign, now_ns, &e))
		return true;
	if (err_is(e))
		failed(e, now_ns);
	else if (ordered)
		member.failures = 0;
	return false;
}

static bool
is_home(const struct shm_lease *l)
{
	return l->state != SHM_LEASE_HELD ||
	    (l->terms == member.term && workers_now() == member.workers &&
	    child_resizes() == member.resizes);
}

static void
follow_lease(const struct shm_lease *l, uint64_t now_ns)
{
	uint32_t workers = workers_now();

	if (is_waiting(now_ns) || l->state != SHM_LEASE_HELD ||
	    now_ns < member.due_ns)
		return;
	if (is_home(l)) {
		if (take_back() == 0)
			return;
		assign_order(&member.assign, SHM_JOB_ASSIGN, now_ns);
		member.due_ns = now_ns + TAKE_BACK_NS;
		return;
	}
	if (bring_home(workers) == 0) {
		log_info("ordinals are home term=%u ordinals=%u", l->terms,
		    workers);
		member.term = l->terms;
		member.workers = workers;
		member.resizes = child_resizes();
		member.state = MEMBER_IN;
		return;
	}
	assign_order(&member.assign, SHM_JOB_ASSIGN, now_ns);
}

enum member_state
member_step(uint64_t now_ns)
{
	struct shm_lease l;

	if (member.state == MEMBER_REFUSED)
		return member.state;
	shm_lease_get(&l);
	if (l.state == SHM_LEASE_REFUSED) {
		log_error("refused: %s", l.why);
		member.state = MEMBER_REFUSED;
		return member.state;
	}
	follow_lease(&l, now_ns);
	if (member.state == MEMBER_JOINING && l.state != SHM_LEASE_WATCHED &&
	    now_ns >= member.patient_until_ns) {
		log_warn("no lease, or ordinals not home: the storage does not "
		    "answer; serving reads meanwhile lease=%s",
		    shm_lease_state_name(l.state));
		member.state = MEMBER_IN;
	}
	return member.state;
}

uint64_t
member_next_ns(uint64_t now_ns)
{
	struct shm_lease l;

	shm_lease_get(&l);
	if (member.state == MEMBER_JOINING || member.assign.ordered)
		return now_ns + LOOK_NS;
	return is_home(&l) && (l.state != SHM_LEASE_HELD ||
	    shm_ordinal_version() == member.looked) ? UINT64_MAX :
	    MAX(member.due_ns, now_ns + LOOK_NS);
}

bool
member_is_home(uint32_t *workers)
{
	struct shm_lease l;

	shm_lease_get(&l);
	*workers = member.workers;
	return l.state == SHM_LEASE_HELD && !member.assign.ordered && is_home(&l);
}

void
member_init(uint64_t orphan_grace_ns, uint64_t now_ns)
{
	member.orphan_grace_ns = orphan_grace_ns;
	member.patient_until_ns = now_ns + MEMBER_PATIENCE_NS;
	member.state = MEMBER_JOINING;
}

bool
member_is_gone(const struct shm_instance *i)
{
	/* Who left in order may be back at once, before we look again. */
	return i->silent_ns >= i->span_ns +
	    (i->released ? 0 : member.orphan_grace_ns);
}
