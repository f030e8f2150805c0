#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/process.h"
#include "worker/maintain/cluster.h"
#include "worker/maintain/lease.h"
#include "worker/maintain/left.h"
#include "worker/store/assignment.h"

#define JOBS_MAX	16u
#define SOON_NS		(50 * NS_PER_MS)
#define LOOK_NS		NS_PER_SEC	/* at what is due, and ran out */

struct job {
	struct shm_command command;
	struct err err;
	uint64_t answer;
};

static struct {
	struct cluster_plan plan;
	struct lease lease;
	struct timer timer;
	struct op op;
	bool runs, asked, leaving, release, left;
	uint64_t due_ns;		/* clock_boot_ns: of the next round */
	struct job waiting[JOBS_MAX];
	uint32_t waiting_count;
	uint64_t said_ns;		/* when a failure was last logged */

	/* The op's while it runs. */
	bool round, releases;
	struct err round_err;
	struct job jobs[JOBS_MAX];
	uint32_t job_count;
} cluster;

/* On the pool. */

static struct err
run_round(void)
{
	struct err e, others, ordinals, forgotten;

	/* Others first: who has no name of his own asks who else is there. */
	others = lease_look(&cluster.lease);
	e = lease_round(&cluster.lease);
	ordinals = assignment_look(cluster.plan.root);
	if (!err_is(e))
		e = others;
	if (!err_is(e))
		e = ordinals;
	if (err_is(e) || !shm_lease_held())
		return e;
	forgotten = lease_forget(&cluster.lease, LEASE_FORGET_NS);
	if (err_is(forgotten))
		log_err(LOG_DEBUG, forgotten, "leases of the dead not removed");
	return OK;
}

static void
run_assign(struct job *j)
{
	uint32_t stand = 0, late = 0;
	struct err kept;

	if (!shm_lease_held()) {
		j->err = FAIL(UNAVAILABLE, "no lease");
		return;
	}
	j->err = assignment_bring(cluster.plan.root, &stand, &late);
	j->answer = stand;
	if (err_is(j->err))
		return;
	if (late > 0)
		j->err = FAIL(CONFLICT, "assigned by another meanwhile");
	kept = assignment_collect(cluster.plan.root);
	if (err_is(kept))
		log_err(LOG_DEBUG, kept, "old assignments not removed");
}

/* The next store, and the reply's text, is where it is then. */
static void
run_left(struct job *j)
{
	struct left_at at = { .kind = (uint32_t)j->command.args[1] };
	bool found = false;

	snprintf(at.name, sizeof(at.name), "%s", j->command.text);
	j->err = left_look(cluster.plan.root, &j->command.shard,
	    j->command.args[2] != 0 ? LEFT_SHARD : LEFT_ROWS, &at, &found);
	memset(j->command.text, 0, sizeof(j->command.text));
	snprintf(j->command.text, sizeof(j->command.text), "%s", at.name);
	j->answer = at.kind | (found ? SHM_LEFT_FOUND : 0);
}

static int32_t
run(struct op *op)
{
	uint32_t i;

	(void)op;
	cluster.round_err = cluster.round ? run_round() : OK;
	for (i = 0; i < cluster.job_count; i++) {
		if (cluster.jobs[i].command.args[0] == SHM_JOB_ASSIGN)
			run_assign(&cluster.jobs[i]);
		else if (cluster.jobs[i].command.args[0] == SHM_JOB_LEFT)
			run_left(&cluster.jobs[i]);
		else if (cluster.jobs[i].command.args[0] == SHM_JOB_LOOK)
			cluster.jobs[i].err = cluster.round ?
			    cluster.round_err :
			    FAIL(UNAVAILABLE, "the server leaves");
	}
	if (cluster.releases) {
		struct err e = lease_release(&cluster.lease);

		if (err_is(e))
			log_err(LOG_WARN, e, "lease not given up, a server "
			    "elsewhere has to wait until it ran out");
	}
	return 0;
}

/* On the loop. */

static uint64_t
soon_ns(void)
{
	return MAX(cluster.plan.lease_ns / 16, SOON_NS);
}

/* A third of the span; soon where we have none, or it could not be renewed. */
static uint64_t
next_ns(struct err e)
{
	struct shm_lease l;

	shm_lease_get(&l);
	return l.state == SHM_LEASE_HELD && !err_is(e) ?
	    cluster.plan.lease_ns / 3 : MIN(soon_ns(), LOOK_NS);
}

static void
say_failed(struct err e)
{
	uint64_t now_ns = clock_boot_ns();
	struct shm_lease l;

	if (!err_is(e)) {
		cluster.said_ns = 0;
		return;
	}
	if (cluster.said_ns != 0 && now_ns - cluster.said_ns <
	    cluster.plan.lease_ns)
		return;
	cluster.said_ns = now_ns;
	shm_lease_get(&l);
	log_err(LOG_WARN, e, "lease or assignment not brought up to date, "
	    "trying again lease=%s left_ms=%llu",
	    shm_lease_state_name(l.state),
	    (unsigned long long)(l.left_ns / NS_PER_MS));
}

static void begin(void);

static void
done(struct op *op, int32_t res)
{
	uint32_t i;

	(void)op;
	(void)res;
	cluster.runs = false;
	for (i = 0; i < cluster.job_count; i++)
		shm_mailbox_reply(&cluster.jobs[i].command,
		    cluster.jobs[i].err, cluster.jobs[i].answer);
	if (cluster.round) {
		say_failed(cluster.round_err);
		cluster.due_ns = clock_boot_ns() +
		    next_ns(cluster.round_err);
		/* The master may wait for what came of it. */
		shm_mailbox_wake(SHM_MASTER);
	}
	if (cluster.releases)
		cluster.left = true;
	begin();
}

static void
begin(void)
{
	if (cluster.runs || cluster.left)
		return;
	cluster.round = !cluster.leaving && (cluster.asked ||
	    clock_boot_ns() >= cluster.due_ns);
	cluster.releases = cluster.release;
	cluster.asked = false;
	cluster.job_count = cluster.waiting_count;
	memcpy(cluster.jobs, cluster.waiting,
	    cluster.waiting_count * sizeof(cluster.jobs[0]));
	cluster.waiting_count = 0;
	if (!cluster.round && cluster.job_count == 0 && !cluster.releases)
		return;
	cluster.runs = true;
	cluster.op.done = done;
	/* It has a thread to itself (maintainer.c), and never waits in line. */
	pool_submit_first(cluster.plan.pool, &cluster.op, run);
}

static void
on_time(struct timer *t)
{
	uint64_t speed = NS_PER_SEC / clock_real_ns(NS_PER_SEC);
	uint64_t span_ns = MIN(soon_ns(), LOOK_NS);

	lease_expire();
	begin();
	if (!cluster.leaving)
		timer_set(loop_timers(cluster.plan.loop), t,
		    loop_now_ns(cluster.plan.loop) + span_ns * speed);
}

bool
cluster_command(const struct shm_command *c)
{
	if (c->kind != SHM_MAIL_JOB || c->args[0] >= SHM_JOB_COUNT)
		return false;
	if (cluster.leaving || cluster.waiting_count == JOBS_MAX) {
		shm_mailbox_reply(c, FAIL(BUSY, "too many jobs"), 0);
		return true;
	}
	if (c->args[0] == SHM_JOB_LOOK)
		cluster.asked = true;
	cluster.waiting[cluster.waiting_count++] = (struct job){
	    .command = *c, .err = OK };
	begin();
	return true;
}

void
cluster_start(const struct cluster_plan *plan)
{
	cluster.plan = *plan;
	lease_init(&cluster.lease, plan->root, plan->lease_ns,
	    plan->nameless);
	timer_init(&cluster.timer, on_time);
	on_time(&cluster.timer);
}

void
cluster_leave(bool release)
{
	if (cluster.leaving)
		return;
	cluster.leaving = true;
	cluster.release = release;
	timer_cancel(loop_timers(cluster.plan.loop), &cluster.timer);
	begin();
}

bool
cluster_idle(void)
{
	return !cluster.runs && (cluster.left || !cluster.release);
}
