#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/home.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "master/backoff.h"
#include "master/fanout.h"
#include "master/member.h"

/* All of clock_mono_ns, which tests let run faster. */
#define LOST_NS		(30 * NS_PER_SEC)	/* a reply, behind its deadline */
#define THERE_NS	(60 * NS_PER_SEC)	/* the other's answer */
#define ASK_NS		(60 * NS_PER_SEC)	/* the next place of a sweep */
#define MORE_NS		(5 * NS_PER_MS)		/* between two of those */
#define SWEEP_MIN_NS	(2 * NS_PER_SEC)
#define SWEEP_MAX_NS	(60 * NS_PER_SEC)
#define GIVE_UP_NS	(120 * NS_PER_SEC)
#define WAIT_NS		(20 * NS_PER_MS)

#define HERE_AT_ONCE	4u
#define THERE_AT_ONCE	4u		/* as the maintainer's remote.h */
#define INSTANCE_AT_ONCE 2u		/* of these */
#define INSTANCE_JOBS	(FANOUT_JOBS / 2)

static const struct backoff again = { 500 * NS_PER_MS, 30 * NS_PER_SEC };

static const char *const state_names[] = {
#define X(state, text) text,
	FANOUT_STATES(X)
#undef X
};

static struct {
	struct fanout_plan plan;
	struct fanout_job jobs[FANOUT_JOBS];

	/* The sweep. */
	bool begun;
	uint32_t kind;			/* its place */
	char store[SHM_MAIL_TEXT];
	uint64_t ordinal;
	bool asked;
	struct mail_question question;
	uint64_t until_ns;		/* an answer is waited for until then */
	bool holds;			/* one was found that has no place yet */
	uint32_t found;
	uint64_t version;		/* of the assignment, when it began */
	uint32_t in_row;		/* sweeps that found something */
	uint32_t failures;
	uint64_t due_ns;		/* the next one, or the next question */
} fan;

/* --- jobs --- */

static void
count_states(void)
{
	uint64_t counts[FANOUT_STATE_COUNT] = { 0 };
	uint32_t i;

	for (i = 0; i < FANOUT_JOBS; i++)
		counts[fan.jobs[i].state]++;
	for (i = FANOUT_FREE + 1; i < FANOUT_STATE_COUNT; i++)
		shm_metric_set(METRIC_memwald_fanout_jobs, i - 1, counts[i]);
}

static void
count_end(enum metric_fanout_end how)
{
	shm_metric_add(METRIC_memwald_fanout_ends_total, how, 1);
}

static void
free_job(struct fanout_job *j)
{
	mail_drop(&j->question);
	j->state = FANOUT_FREE;
}

/* How many run: here, or there; of those, for one instance. */
static uint32_t
running(bool there, const char *instance)
{
	uint32_t i, n = 0;

	for (i = 0; i < FANOUT_JOBS; i++) {
		const struct fanout_job *j = &fan.jobs[i];

		n += j->state == FANOUT_RUNNING && j->there == there &&
		    (instance == NULL || strcmp(j->instance, instance) == 0);
	}
	return n;
}

static bool
has_turn(bool there, const char *instance)
{
	return there ? running(true, NULL) < THERE_AT_ONCE &&
	    running(true, instance) < INSTANCE_AT_ONCE :
	    running(false, NULL) < HERE_AT_ONCE;
}

static void
ask(struct fanout_job *j, const struct shm_ordinal *o, uint64_t mono_ns)
{
	struct shm_command c = { .kind = SHM_MAIL_FOLD_SHARD,
	    .shard = o->shard, .args = { j->kind, mono_ns + fan.plan.queue_ns,
	    mono_ns + fan.plan.queue_ns + fan.plan.work_ns } };

	j->until_ns = c.args[2] + LOST_NS;
	if (j->there) {
		c = (struct shm_command){ .kind = SHM_MAIL_JOB,
		    .args = { SHM_JOB_FOLD_THERE, j->kind, j->ordinal,
		    mono_ns + THERE_NS } };
		j->until_ns = mono_ns + THERE_NS + ASK_NS;
	}
	snprintf(c.text, sizeof(c.text), "%s", j->store);
	mail_ask(&j->question, &c);
	j->began_ns = mono_ns;
	j->state = FANOUT_RUNNING;
}

static void
begin(struct fanout_job *j, uint64_t mono_ns)
{
	struct shm_ordinal o;
	struct err e = shm_ordinal_get(j->ordinal, &o);
	enum shm_errand errand = err_is(e) ? SHM_ERRAND_NONE :
	    shm_home_errand(&o);

	/* It came home, or went to somebody who folds it by himself. */
	if (errand == SHM_ERRAND_NONE) {
		free_job(j);
		return;
	}
	j->there = errand == SHM_ERRAND_THERE;
	snprintf(j->instance, sizeof(j->instance), "%s", o.is.instance);
	if (has_turn(j->there, o.is.instance))
		ask(j, &o, mono_ns);
}

static void
done(struct fanout_job *j, uint64_t mono_ns)
{
	bool gone = j->err.kind == ERR_NOT_FOUND;

	log_info("fold job ended result=%s store=%s kind=%s ordinal=%s "
	    "instance=%s generations=%llu tries=%u ms=%llu",
	    gone ? "gone" : "folded", j->store, store_kind_name(j->kind),
	    shm_ordinal_name(j->ordinal).ptr, j->instance,
	    gone ? 0ull : (unsigned long long)j->question.reply.args[0],
	    j->failures + 1,
	    (unsigned long long)((mono_ns - j->began_ns) / NS_PER_MS));
	count_end(gone ? METRIC_FANOUT_END_GONE : METRIC_FANOUT_END_FOLDED);
	free_job(j);
}

static void
failed(struct fanout_job *j, uint64_t mono_ns)
{
	bool give_up = ++j->failures >= FANOUT_TRIES;

	/* Tried again once it was given up: told of when it works. */
	log_err(j->failures > FANOUT_TRIES ? LOG_DEBUG : LOG_WARN, j->err,
	    "fold job failed, %s store=%s kind=%s ordinal=%s instance=%s "
	    "tries=%u", give_up ? "given up for some minutes" : "trying again",
	    j->store, store_kind_name(j->kind),
	    shm_ordinal_name(j->ordinal).ptr, j->instance,
	    j->failures);
	count_end(j->failures == FANOUT_TRIES ? METRIC_FANOUT_END_GIVEN_UP :
	    METRIC_FANOUT_END_FAILED);
	j->state = give_up ? FANOUT_GIVEN_UP : FANOUT_WAITING;
	j->due_ns = mono_ns + (give_up ? GIVE_UP_NS / 2 +
	    backoff_jitter_ns(GIVE_UP_NS / 2) :
	    backoff_ns(&again, j->failures));
}

static void
look_for_answer(struct fanout_job *j, uint64_t mono_ns)
{
	if (!mail_over(&j->question, mono_ns, j->until_ns))
		return;
	j->err = j->question.err;
	if (err_is(j->err) && j->err.kind != ERR_NOT_FOUND)
		failed(j, mono_ns);
	else
		done(j, mono_ns);
}

static void
step_job(struct fanout_job *j, uint64_t mono_ns)
{
	if ((j->state == FANOUT_WAITING || j->state == FANOUT_GIVEN_UP) &&
	    mono_ns >= j->due_ns)
		begin(j, mono_ns);
	/* One that could not be sent is answered at once. */
	if (j->state == FANOUT_RUNNING)
		look_for_answer(j, mono_ns);
}

/* --- the sweep: what becomes a job --- */

static struct fanout_job *
find_job(uint32_t kind, const char *store, uint32_t ordinal)
{
	uint32_t i;

	for (i = 0; i < FANOUT_JOBS; i++) {
		struct fanout_job *j = &fan.jobs[i];

		if (j->state != FANOUT_FREE && j->kind == kind &&
		    j->ordinal == ordinal && strcmp(j->store, store) == 0)
			return j;
	}
	return NULL;
}

/* A free one, or that of the job that was given up for the longest time. */
static struct fanout_job *
find_place(void)
{
	struct fanout_job *oldest = NULL;
	uint32_t i;

	for (i = 0; i < FANOUT_JOBS; i++) {
		struct fanout_job *j = &fan.jobs[i];

		if (j->state == FANOUT_FREE)
			return j;
		if (j->state == FANOUT_GIVEN_UP &&
		    (oldest == NULL || j->began_ns < oldest->began_ns))
			oldest = j;
	}
	return oldest;
}

/* Whether another instance has as many places as it may. */
static bool
is_crowded(const struct shm_ordinal *o)
{
	uint32_t i, n = 0;

	if (o->owner != SHM_NOBODY)
		return false;
	for (i = 0; i < FANOUT_JOBS; i++) {
		const struct fanout_job *j = &fan.jobs[i];

		n += j->state != FANOUT_FREE &&
		    strcmp(j->instance, o->is.instance) == 0;
	}
	return n >= INSTANCE_JOBS;
}

/* What was found gets a place, unless it has one; false: it must wait for it.
 * What is passed over the next sweep finds again. */
static bool
add_job(uint64_t mono_ns)
{
	struct shm_ordinal o;
	struct fanout_job *j;

	if (err_is(shm_ordinal_get((uint32_t)fan.ordinal, &o)) ||
	    find_job(fan.kind, fan.store, (uint32_t)fan.ordinal) != NULL ||
	    is_crowded(&o))
		return true;
	j = find_place();
	if (j == NULL)
		return false;
	*j = (struct fanout_job){ .state = FANOUT_WAITING, .kind = fan.kind,
	    .ordinal = (uint32_t)fan.ordinal, .due_ns = mono_ns, .err = OK };
	snprintf(j->store, sizeof(j->store), "%s", fan.store);
	step_job(j, mono_ns);
	return true;
}

static void
go_on_behind(uint64_t mono_ns)
{
	fan.ordinal++;
	fan.due_ns = mono_ns;
}

static void
end_sweep(uint64_t mono_ns)
{
	fan.begun = false;
	fan.in_row = fan.found > 0 ? fan.in_row + 1 : 0;
	fan.due_ns = mono_ns + (fan.found == 0 ? SWEEP_MAX_NS :
	    backoff_ns(&(struct backoff){ SWEEP_MIN_NS, SWEEP_MAX_NS },
	    fan.in_row));
	shm_metric_add(METRIC_memwald_fanout_sweeps_total, 0, 1);
}

static void
take_place(const struct shm_command *r, uint64_t mono_ns)
{
	fan.failures = 0;
	if (r->args[0] == SHM_PENDING_END) {
		end_sweep(mono_ns);
		return;
	}
	fan.kind = (uint32_t)r->args[1];
	fan.ordinal = r->args[2];
	snprintf(fan.store, sizeof(fan.store), "%s", r->text);
	if (r->args[0] == SHM_PENDING_ONE) {
		fan.found++;
		fan.holds = true;
	} else {
		go_on_behind(mono_ns + MORE_NS);
	}
}

/* The question is answered; or not, or with an error: it is asked again. */
static void
look_for_place(uint64_t mono_ns)
{
	struct mail_question *q = &fan.question;

	if (!mail_over(q, mono_ns, fan.until_ns))
		return;
	fan.asked = false;
	if (!err_is(q->err)) {
		take_place(&q->reply, mono_ns);
		return;
	}
	if (fan.failures++ == 0)
		log_err(LOG_WARN, q->err, "what is pending in shards of moved "
		    "ordinals is not known yet, trying again");
	fan.due_ns = mono_ns + backoff_ns(&again, fan.failures);
}

static void
ask_for_place(uint64_t mono_ns)
{
	struct shm_command c = { .kind = SHM_MAIL_JOB,
	    .args = { SHM_JOB_PENDING, fan.kind, fan.ordinal } };

	snprintf(c.text, sizeof(c.text), "%s", fan.store);
	mail_ask(&fan.question, &c);
	fan.asked = true;
	fan.until_ns = mono_ns + ASK_NS;
}

static bool
has_errands(void)
{
	uint32_t i, count = shm_ordinal_count();
	struct shm_ordinal o;

	for (i = 0; i < count; i++) {
		if (!err_is(shm_ordinal_get(i, &o)) &&
		    shm_home_errand(&o) != SHM_ERRAND_NONE)
			return true;
	}
	return false;
}

/* Whether there is one to go on with. */
static bool
begin_sweep(uint64_t mono_ns)
{
	uint64_t version = shm_ordinal_version();

	if (fan.begun)
		return true;
	if (version == fan.version && mono_ns < fan.due_ns)
		return false;
	if (version != fan.version)
		fan.in_row = 0;
	fan.version = version;
	fan.due_ns = mono_ns + SWEEP_MAX_NS;
	if (!has_errands())
		return false;
	fan.begun = true;
	fan.kind = 0;
	fan.store[0] = '\0';
	fan.ordinal = 0;
	fan.found = 0;
	fan.due_ns = mono_ns;
	return true;
}

static void
step_sweep(uint64_t mono_ns)
{
	if (fan.asked)
		look_for_place(mono_ns);
	if (fan.holds && add_job(mono_ns)) {
		fan.holds = false;
		go_on_behind(mono_ns);
	}
	if (fan.asked || fan.holds || !begin_sweep(mono_ns) ||
	    mono_ns < fan.due_ns)
		return;
	ask_for_place(mono_ns);
	/* One that could not be sent is answered at once. */
	look_for_place(mono_ns);
}

/* --- the face --- */

void
fanout_init(const struct fanout_plan *plan)
{
	fan.plan = *plan;
}

void
fanout_step(uint64_t now_ns)
{
	uint64_t mono_ns = clock_mono_ns();
	uint32_t i, workers;

	(void)now_ns;
	if (!member_is_home(&workers))
		return;
	for (i = 0; i < FANOUT_JOBS; i++)
		step_job(&fan.jobs[i], mono_ns);
	step_sweep(mono_ns);
	count_states();
}

/* A job that waits for its turn, and a sweep for a place, are woken by replies. */
uint64_t
fanout_next_ns(uint64_t now_ns)
{
	uint64_t mono_ns = clock_mono_ns(), next_ns = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < FANOUT_JOBS; i++) {
		const struct fanout_job *j = &fan.jobs[i];

		if (j->state == FANOUT_RUNNING)
			next_ns = MIN(next_ns, j->until_ns);
		else if (j->state != FANOUT_FREE && j->due_ns > mono_ns)
			next_ns = MIN(next_ns, j->due_ns);
	}
	if (fan.asked)
		next_ns = MIN(next_ns, fan.until_ns);
	else if (!fan.holds)
		next_ns = MIN(next_ns, fan.due_ns);
	if (next_ns == UINT64_MAX)
		return next_ns;
	return now_ns + (next_ns > mono_ns ? clock_real_ns(next_ns - mono_ns) :
	    WAIT_NS);
}

const char *
fanout_state_name(enum fanout_state state)
{
	return state_names[state];
}

const struct fanout_job *
fanout_job(uint32_t i)
{
	MUST(i < FANOUT_JOBS);
	return &fan.jobs[i];
}

uint32_t
fanout_given_up(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < FANOUT_JOBS; i++)
		n += fan.jobs[i].state == FANOUT_GIVEN_UP;
	return n;
}
