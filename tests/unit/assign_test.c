#include "master_test.h"

#include "shm/mailbox.h"
#include "shm/server_state.h"
#include "master/call.h"
#include "master/command.h"
#include "master/drain.h"
#include "master/mail.h"
#include "master/member.h"
#include "master/orphan.h"

/*
 * What the master decides about ordinals: those that come home, orphans, what is
 * drained, and commands. The test is the master, and the maintainer as well: it
 * does the jobs as the chain would, at once, or answers as told.
 */

#define TURN_NS	(300 * NS_PER_MS)

static uint64_t delay_ns;		/* of a drain */
static uint64_t now_ns;
static uint32_t looks, assigns;
static void (*on_look)(void);
static void (*on_assign)(void);	/* what comes before ours */
static struct err answer;		/* to the jobs */
static bool torn;			/* one store cannot be read */
static uint32_t shards;			/* stores that have one to fence */
static void (*on_fold)(void);		/* of such a one, which is FENCED */
static char body[2000];			/* of the last command's answer */

static int
setup(void **state)
{
	static uint32_t terms;
	struct shm_config cfg = test_config();
	uint32_t i;

	(void)state;
	log_set_level(LOG_ERROR);
	alarm(60);
	test_segment(&cfg);
	/* A term that the modules, which stay, do not know yet. */
	for (i = 0, terms++; i < terms; i++) {
		shm_lease_end(SHM_LEASE_LOST, "told so");
		shm_lease_hold(1, UINT64_MAX);
	}
	pretend_all(2);
	if (now_ns == 0)
		now_ns = shm_lock_now_ns();
	on_look = on_assign = on_fold = NULL;
	torn = false;
	delay_ns = 2 * NS_PER_SEC;
	shards = 0;
	answer = OK;
	member_init(NS_PER_SEC, now_ns);
	orphan_init(&(struct orphan_plan){ NS_PER_SEC, false });
	drain_step(now_ns, NS_PER_SEC, 0);	/* no marks any more */
	return 0;
}

static void
assign(uint32_t index, const char *instance, uint32_t worker, uint32_t reason,
    uint32_t drained)
{
	assign_as(index, instance, (struct shm_news){
	    .is = { .state = SHM_ORDINAL_OWNED, .worker = worker },
	    .reason = reason, .drained = drained });
}

static uint32_t
give(const char *ordinal, const char *instance, uint32_t worker)
{
	uint32_t index;

	must(shm_ordinal_add(slice_of(ordinal), &index));
	assign(index, instance, worker, SHM_ORDINAL_BY_HOME, 0);
	return index;
}

static void
bring_wants(void)
{
	uint32_t i;

	for (i = 0; i < shm_ordinal_count(); i++) {
		struct shm_ordinal o;
		struct shm_want w;
		bool changed, stays;

		if (!shm_ordinal_wanted(i, &w))
			continue;
		must(shm_ordinal_get(i, &o));
		stays = memcmp(&w.to, &o.is, sizeof(w.to)) == 0;
		if (w.from_version == o.version)
			must(shm_ordinal_assign(i, &(struct shm_news){
			    .is = w.to, .version = ++version,
			    .reason = stays ? o.reason : w.reason,
			    .drained = (o.drained | w.drain) &
			    ~(uint32_t)w.undrain }, &changed));
		shm_ordinal_want_end(i, &w);
	}
	shm_ordinal_version_raise(version);
}

static void
do_fold(const struct shm_command *c)
{
	if (on_fold != NULL)
		on_fold();
	shm_mailbox_reply(c, on_fold != NULL ? FAIL(FENCED, "told so") : OK, 0);
}

/* Nothing of it is left, but there are so many stores to fence. */
static void
do_left(struct shm_command *c)
{
	bool found = c->args[2] != 0 && shards > 0;

	if (torn) {
		snprintf(c->text, sizeof(c->text), "torn");
		shm_mailbox_reply(c, FAIL(CORRUPT, "told so"), STORE_DATAGEN);
		return;
	}
	shards -= found;
	shm_mailbox_reply(c, answer, found ? SHM_LEFT_FOUND : STORE_KIND_COUNT);
}

static void
do_jobs(void)
{
	struct shm_command c;

	as(SHM_MAINTAINER);
	while (shm_mailbox_receive(&c)) {
		bool look = c.args[0] == SHM_JOB_LOOK;

		if (c.kind == SHM_MAIL_FOLD_SHARD) {
			do_fold(&c);
			continue;
		}
		if (c.args[0] == SHM_JOB_LEFT) {
			do_left(&c);
			continue;
		}
		looks += look;
		assigns += c.args[0] == SHM_JOB_ASSIGN;
		if (look && on_look != NULL)
			on_look();
		if (c.args[0] == SHM_JOB_ASSIGN && on_assign != NULL)
			on_assign();
		if (!look && !err_is(answer))
			bring_wants();
		shm_mailbox_reply(&c, answer, 0);
	}
	as(SHM_MASTER);
	mail_receive();
}

static void
turns(uint32_t n)
{
	for (; n > 0; n--) {
		now_ns += TURN_NS;
		do_jobs();
		assert_int_equal(member_step(now_ns), MEMBER_IN);
		orphan_step(now_ns);
		drain_step(now_ns, NS_PER_SEC, delay_ns);
	}
}

static void
come_home(void)
{
	uint32_t workers, i;

	for (i = 0; i < 10; i++) {
		now_ns += TURN_NS;
		do_jobs();
		member_step(now_ns);
	}
	assert_true(member_is_home(&workers));
	assert_int_equal(workers, 2);
	looks = assigns = 0;
}

static struct shm_ordinal
ordinal(uint32_t index)
{
	struct shm_ordinal o;

	must(shm_ordinal_get(index, &o));
	return o;
}

static void
owner_is(uint32_t index, const char *instance)
{
	assert_string_equal(ordinal(index).is.instance, instance);
}

static uint32_t near;			/* the ordinal of that instance */

static void
near_is_silent(uint64_t ms, bool released)
{
	near = give("near", "near", 0);
	come_home();
	see("near", 1, ms, released);
}

static void
near_is_back(void)
{
	see("near", 2, 0, false);
}

/* Its lease was not yet seen again when it was found gone; then we looked. */
static void
who_has_restarted_is_not_robbed(void **state)
{
	(void)state;
	near_is_silent(1000, true);
	on_look = near_is_back;
	turns(20);
	assert_int_equal(looks, 1);
	assert_int_equal(assigns, 0);
	owner_is(near, "near");
	assert_int_equal(orphan_count(), 0);
}

static void
who_is_gone_is_given_to_others(void **state)
{
	(void)state;
	near_is_silent(1000, true);
	turns(20);
	assert_int_equal(looks, 1);
	assert_int_equal(assigns, 1);
	owner_is(near, "host");
	assert_int_equal(ordinal(near).reason, SHM_ORDINAL_BY_ORPHAN);
}

/* A decision that failed is none: nobody's job brings it when it is old. */
static void
what_failed_is_decided_anew(void **state)
{
	uint32_t before;
	struct shm_want left;

	(void)state;
	near_is_silent(1000, true);
	while (assigns == 0) {
		answer = looks > 0 ? FAIL(IO, "told so") : OK;
		turns(1);
	}
	turns(1);
	assert_false(shm_ordinal_wanted(near, &left));
	owner_is(near, "near");
	before = looks;
	turns(20);			/* a look that fails decides nothing */
	assert_true(looks > before);
	assert_int_equal(assigns, 1);
	answer = OK;
	on_look = near_is_back;
	turns(40);
	owner_is(near, "near");
}

static void
what_nobody_ordered_comes_home(void **state)
{
	(void)state;
	see("near", 1, 0, false);
	come_home();
	assign(1, "near", 0, SHM_ORDINAL_BY_ORPHAN, 0);
	turns(3);
	assert_int_equal(ordinal(1).owner, SHM_WORKER(1));
	assert_int_equal(ordinal(1).reason, SHM_ORDINAL_BY_HOME);
	/* Taken again: not more often than once in a while. */
	assign(1, "near", 0, SHM_ORDINAL_BY_ORPHAN, 0);
	turns(2);
	owner_is(1, "near");
	turns(5);
	owner_is(1, "host");
	/* An operator's word holds. */
	assign(1, "near", 0, SHM_ORDINAL_BY_COMMAND, 0);
	turns(10);
	owner_is(1, "near");
	assert_int_equal(assigns, 2);
}

static void
give_up(uint32_t index)
{
	assign_as(index, "", (struct shm_news){
	    .is = { .state = SHM_ORDINAL_RETIRED },
	    .reason = SHM_ORDINAL_BY_RETIRE });
}

/* By who took its home for gone: its home lives, so it is needed. */
static void
what_was_given_up_comes_home(void **state)
{
	(void)state;
	see("near", 1, 0, false);
	come_home();
	assign(1, "near", 0, SHM_ORDINAL_BY_RETIRE, 0);
	turns(3);
	assert_int_equal(ordinal(1).owner, SHM_WORKER(1));
	give_up(1);
	turns(10);
	assert_int_equal(ordinal(1).owner, SHM_WORKER(1));
	assert_int_equal(ordinal(1).reason, SHM_ORDINAL_BY_HOME);
	assert_int_equal(assigns, 2);
}

/* What is drained stays away until the mark is gone; and waits for the delay. */
static void
what_is_drained_comes_home_when_that_is_undone(void **state)
{
	struct shm_ordinal o;
	struct shm_want w;

	(void)state;
	give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	assign(0, "host", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_INSTANCE);
	assert_int_equal(drain_marks("host", 1), SHM_DRAINED_INSTANCE);
	assert_int_equal(drain_left("host", DRAIN_ALL), 2);
	turns(2);
	owner_is(0, "host");
	turns(20);
	owner_is(0, "near");
	owner_is(1, "near");
	assert_int_equal(ordinal(0).reason, SHM_ORDINAL_BY_DRAIN);
	assert_int_equal(drain_left("host", DRAIN_ALL), 0);
	assert_int_equal(drain_left("near", 0), 3);
	o = ordinal(0);
	memset(&w, 0, sizeof(w));
	w.to = o.is;
	w.from_version = o.version;
	w.undrain = SHM_DRAINED_INSTANCE;
	w.reason = SHM_ORDINAL_BY_DRAIN;
	must(shm_ordinal_want(0, &w));
	bring_wants();
	turns(5);
	owner_is(0, "host");
	owner_is(1, "host");
}

/* A command's decision: from a look to what became of it. */

static struct call call;

static enum decide_step
steps(enum decide_step until, uint32_t most)
{
	enum decide_step step = DECIDE_WAIT;

	for (; most > 0 && step != until; most--) {
		now_ns += TURN_NS;
		do_jobs();
		call.now_ns = now_ns;
		step = decide_step(&call);
	}
	return step;
}

static void
begin_call(void)
{
	memset(&call, 0, sizeof(call));
	call.deadline_ns = UINT64_MAX;
	looks = assigns = 0;
}

static void
want_near(uint32_t index)
{
	struct shm_want w;
	struct shm_ordinal o = ordinal(index);

	memset(&w, 0, sizeof(w));
	w.to.state = SHM_ORDINAL_OWNED;
	snprintf(w.to.instance, sizeof(w.to.instance), "near");
	w.reason = SHM_ORDINAL_BY_COMMAND;
	decide_want(&call, index, &o, &w);
}

static void
a_command_looks_then_decides(void **state)
{
	char text[DECIDE_TEXT];
	struct shm_ordinal o;
	uint32_t index;

	(void)state;
	come_home();
	begin_call();
	answer = FAIL(IO, "told so");
	assert_int_equal(steps(DECIDE_NOW, 10), DECIDE_WAIT);
	assert_true(looks > 1);
	answer = OK;
	assert_int_equal(steps(DECIDE_NOW, 10), DECIDE_NOW);
	assert_true(decide_find(&call, "host#1", &index, &o));
	assert_int_equal(index, 1);
	assert_string_equal(decide_owner(&o.is, text), "host#1");
	want_near(1);
	answer = FAIL(IO, "told so");
	assert_int_equal(steps(DECIDE_BROUGHT, 10), DECIDE_WAIT);
	assert_true(assigns > 1);
	answer = OK;
	assert_int_equal(steps(DECIDE_BROUGHT, 10), DECIDE_BROUGHT);
	owner_is(1, "near");
	assert_false(decide_find(&call, "nobody", &index, &o));
	assert_int_equal(call.exit, ADMIN_EXIT_REFUSED);
	decide_end(&call);
}

/* No later job brings it. */
static void
a_call_that_ends_takes_its_want_back(void **state)
{
	struct shm_want left;

	(void)state;
	come_home();
	begin_call();
	assert_int_equal(steps(DECIDE_NOW, 10), DECIDE_NOW);
	want_near(1);
	assert_true(shm_ordinal_wanted(1, &left));
	decide_end(&call);
	assert_false(shm_ordinal_wanted(1, &left));
	/* Without its lease a server decides nothing. */
	begin_call();
	shm_lease_end(SHM_LEASE_LOST, "told so");
	assert_int_equal(steps(DECIDE_REFUSED, 10), DECIDE_REFUSED);
	assert_int_equal(call.exit, ADMIN_EXIT_REFUSED);
	decide_end(&call);
}

static bool
is_never(void)
{
	return false;
}

/* Turns until the command has ended, or so many. */
static enum admin_exit
command(const char *line, uint32_t most)
{
	static char words[200];
	enum call_step step = CALL_WAIT;

	command_init(&(struct admin_plan){ .draining = is_never });
	snprintf(words, sizeof(words), "%s", line);
	call_begin(&call, words, now_ns);
	for (; most > 0 && step != CALL_DONE; most--) {
		turns(1);
		step = call_step(&call, now_ns);
	}
	assert_int_equal(step, CALL_DONE);
	snprintf(body, sizeof(body), "%.*s", (int)call.body.len,
	    call.body.len > 0 ? call.body.ptr : "");
	call_end(&call);
	return call.exit;
}

/* An instance's mark is its first ordinal's alone; and a worker's name is none
 * of an instance. */
static void
a_worker_is_no_instance(void **state)
{
	(void)state;
	give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	assert_int_equal(command("drain instance host#1", 30),
	    ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "a worker"));
	assert_int_equal(command("undrain instance host#1", 30),
	    ADMIN_EXIT_REFUSED);
	assign(1, "host", 1, SHM_ORDINAL_BY_HOME, SHM_DRAINED_INSTANCE);
	turns(20);
	assert_false(shm_server_is(SHM_SERVER_DRAINED));
	owner_is(1, "host");
}

static bool
is_told(const char *text)
{
	struct problems ps;
	uint32_t index = 0, i;

	while (!problems_find(&ps, &index))
		continue;
	for (i = 0; i < MIN(ps.count, PROBLEMS_MAX); i++) {
		if (strstr(ps.text[i], text) != NULL)
			return true;
	}
	return false;
}

/* None leaves where all are drained, as after a start with fewer workers: who is
 * asked for them looks elsewhere. So many are not asked for, either. */
static void
not_all_workers_leave(void **state)
{
	(void)state;
	give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	assign(0, "host", 1, SHM_ORDINAL_BY_DRAIN, SHM_DRAINED_WORKER);
	turns(1);
	assert_true(child_at(1)->parked);
	assert_false(shm_server_is(SHM_SERVER_DRAINED));
	assert_int_equal(command("resize 1", 1), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "undrain"));
	assign(1, "host", 1, SHM_ORDINAL_BY_DRAIN, SHM_DRAINED_WORKER);
	turns(1);
	assert_false(child_at(1)->parked);
	assert_false(child_at(2)->parked);
	assert_true(shm_server_is(SHM_SERVER_DRAINED));
	assert_true(is_told("every worker is drained"));
	turns(20);
	owner_is(0, "near");
	owner_is(1, "near");
	assign(1, "host", 1, SHM_ORDINAL_BY_HOME, 0);
	turns(1);
	assert_true(child_at(1)->parked);
	assert_false(shm_server_is(SHM_SERVER_DRAINED));
}

static void
near_is_drained(void)
{
	on_assign = NULL;
	assign(near, "near", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_INSTANCE);
}

static void
worker_is_drained(void)
{
	on_assign = NULL;
	assign(0, "host", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_WORKER);
}

/* Who comes behind the last but one sees it, and stays. */
static void
of_two_that_are_drained_at_once_one_stays(void **state)
{
	(void)state;
	near = give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	on_assign = near_is_drained;
	assert_int_equal(command("drain instance", 60), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "nobody would own"));
	assert_int_equal(ordinal(0).drained, 0);
	owner_is(0, "host");
	on_assign = worker_is_drained;
	assert_int_equal(command("drain 1", 60), ADMIN_EXIT_REFUSED);
	assert_int_equal(ordinal(1).drained, 0);
	turns(2);
	assert_false(child_at(2)->parked);
	assert_false(shm_server_is(SHM_SERVER_DRAINED));
}

/* Each worker by itself, as after a start with fewer; not_all_workers_leave. */
static void
all_are_drained(uint32_t more)
{
	give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	assign(0, "host", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_WORKER | more);
	assign(1, "host", 1, SHM_ORDINAL_BY_HOME, SHM_DRAINED_WORKER);
	turns(1);
}

/* For a moment it is as if the instance were, until one takes its mark back. */
static void
of_two_workers_at_once_none_goes_elsewhere(void **state)
{
	(void)state;
	delay_ns = 0;
	all_are_drained(0);
	turns(3);
	owner_is(0, "host");
	owner_is(1, "host");
	turns(10);
	owner_is(0, "near");
	owner_is(1, "near");
}

/* It was looked at, but one that was late came to stand all the same. */
static void
that_none_is_left_is_told(void **state)
{
	(void)state;
	near = give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	near_is_drained();
	assert_false(is_told("of every instance that lives"));
	assign(0, "host", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_INSTANCE);
	assert_true(is_told("of every instance that lives"));
	turns(20);
	owner_is(0, "host");
	assign(near, "near", 0, SHM_ORDINAL_BY_HOME, 0);
	assert_false(is_told("of every instance that lives"));
}

/* What is left of it then is told, not waited for. */
static void
an_instance_is_undrained_whose_workers_are_not(void **state)
{
	uint32_t i;

	(void)state;
	all_are_drained(SHM_DRAINED_INSTANCE);
	assert_int_equal(command("undrain instance --dry-run", 30),
	    ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "undrain WORKER"));
	assert_true((ordinal(0).drained & SHM_DRAINED_INSTANCE) != 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(command("undrain instance --timeout=20", 90),
		    ADMIN_EXIT_REFUSED);
		assert_non_null(strstr(call.text, "undrain WORKER"));
		assert_int_equal(ordinal(0).drained, SHM_DRAINED_WORKER);
	}
	assign(1, "near", 0, SHM_ORDINAL_BY_DRAIN, 0);
	assign(0, "near", 0, SHM_ORDINAL_BY_DRAIN, SHM_DRAINED_INSTANCE);
	assert_int_equal(command("drain 1", 30), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "the instance is drained"));
}

/* It goes on running, so that it leaves is not waited for. */
static void
a_worker_is_drained_again_where_all_are(void **state)
{
	(void)state;
	all_are_drained(0);
	assert_int_equal(command("drain 0 --timeout=20", 90), ADMIN_EXIT_OK);
	owner_is(0, "near");
	assert_false(child_at(1)->parked);
}

/* Its first worker is drained by itself, so that ordinal does not come home. */
static void
another_is_undrained_whose_worker_is_not(void **state)
{
	(void)state;
	near = give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	assign(near, "host", 0, SHM_ORDINAL_BY_DRAIN, SHM_DRAINED_ALL);
	assert_int_equal(command("undrain instance near --timeout=20", 90),
	    ADMIN_EXIT_OK);
	assert_int_equal(ordinal(near).drained, SHM_DRAINED_WORKER);
}

static void
one_worker_stays(void)
{
	on_assign = NULL;
	child_resize(1, now_ns, NS_PER_SEC);
}

/* Who is refused has left no mark for when there are more workers again. */
static void
who_is_resized_away_meanwhile_is_not_drained(void **state)
{
	(void)state;
	come_home();
	on_assign = one_worker_stays;
	assert_int_equal(command("drain 1", 60), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "from 0 to 0"));
	assert_int_equal(ordinal(1).drained, 0);
}

static void
near_dies_when_it_is_marked(void)
{
	if (ordinal(near).drained != 0)
		see("near", 2, 3000, false);
}

/* It would have given its ordinals away itself; nobody else would. */
static void
who_dies_while_it_is_drained_is_drained(void **state)
{
	(void)state;
	orphan_init(&(struct orphan_plan){ NS_PER_SEC, true });
	near = give("near", "near", 0);
	see("near", 1, 0, false);
	come_home();
	on_look = near_dies_when_it_is_marked;
	assert_int_equal(command("drain instance near --timeout=20", 90),
	    ADMIN_EXIT_OK);
	owner_is(near, "host");
	assert_int_equal(ordinal(near).reason, SHM_ORDINAL_BY_DRAIN);
}

/* Late, and why; but not how much is left, which nobody knows. */
static void
what_cannot_be_read_is_told(void **state)
{
	const char *why = "datagen store torn: stored data failed its check";

	(void)state;
	give("gone", "gone", 0);
	torn = true;
	come_home();
	assert_int_equal(command("left gone --timeout=3 --json", 30),
	    ADMIN_EXIT_LATE);
	assert_non_null(strstr(body, why));
	assert_null(strstr(body, "\"left\""));
	assert_int_equal(command("left gone --timeout=3", 30), ADMIN_EXIT_LATE);
	assert_non_null(strstr(body, why));
	assert_string_equal(call.progress_text, why);
	assert_int_equal(command("retire gone --timeout=3", 30),
	    ADMIN_EXIT_LATE);
	assert_non_null(strstr(body, why));
}

static void
an_assignment_that_cannot_be_read_is_told(void **state)
{
	(void)state;
	come_home();
	assert_false(is_told("cannot be read"));
	shm_ordinal_unread_set(7);
	assert_true(is_told("_cluster/assignment/00000000000000000007.json"));
	shm_ordinal_unread_set(0);
	assert_false(is_told("cannot be read"));
}

/* The same, but nobody else decides anything meanwhile. */
static enum admin_exit
alone(const char *line)
{
	static char words[200];
	enum call_step step = CALL_WAIT;

	command_init(&(struct admin_plan){ .draining = is_never });
	looks = assigns = 0;
	snprintf(words, sizeof(words), "%s", line);
	call_begin(&call, words, now_ns);
	while (step != CALL_DONE) {
		now_ns += TURN_NS;
		do_jobs();
		step = call_step(&call, now_ns);
	}
	call_end(&call);
	return call.exit;
}

static bool
near_is_forgotten(void)
{
	struct shm_ordinal o = ordinal(near);

	return orphan_is_forgotten(near, &o, now_ns);
}

/* The grace is the new owner's, not that of who was gone before him. */
static void
who_gets_an_old_orphan_is_not_forgotten_at_once(void **state)
{
	static const char *const unseen[] = { "far", "farther" };
	uint32_t i;

	(void)state;
	orphan_init(&(struct orphan_plan){ NS_PER_SEC, true });
	near_is_silent(1000, true);
	turns(20);
	assert_int_equal(orphan_count(), 1);
	for (i = 0; i < ARRAY_LEN(unseen); i++) {
		assign(near, unseen[i], 0, SHM_ORDINAL_BY_COMMAND, 0);
		assert_false(near_is_forgotten());
		turns(2);
		assert_false(near_is_forgotten());
		turns(18);
		assert_true(near_is_forgotten());
	}
}

static void
storage_fails(void)
{
	answer = FAIL(IO, "told so");
}

static void
late_without_a_want(const char *line)
{
	struct shm_want left;
	uint32_t i;

	answer = OK;
	assert_int_equal(alone(line), ADMIN_EXIT_LATE);
	assert_true(assigns > 0);
	for (i = 0; i < shm_ordinal_count(); i++)
		assert_false(shm_ordinal_wanted(i, &left));
}

/* Nor of one that wants several: it would be brought hours later. */
static void
a_drain_that_ends_takes_its_wants_back(void **state)
{
	(void)state;
	near_is_silent(1000, true);
	assign(0, "host", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_INSTANCE);
	assign(1, "near", 0, SHM_ORDINAL_BY_DRAIN, 0);
	on_assign = storage_fails;
	late_without_a_want("undrain instance --timeout=5");
	assign(0, "host", 0, SHM_ORDINAL_BY_HOME, 0);
	assign(near, "near", 0, SHM_ORDINAL_BY_HOME, SHM_DRAINED_INSTANCE);
	late_without_a_want("undrain instance near --timeout=5");
	late_without_a_want("drain instance near --timeout=5");
}

static void
near_is_back_when_looked_again(void)
{
	if (looks > 1)
		near_is_back();
}

/* Who was gone when the walk over the stores began, and is back behind it. */
static void
who_is_back_is_not_retired(void **state)
{
	(void)state;
	near_is_silent(1000, true);
	on_look = near_is_back_when_looked_again;
	assert_int_equal(alone("retire near"), ADMIN_EXIT_REFUSED);
	assert_int_equal(assigns, 0);
	owner_is(near, "near");
}

/* By what was seen before: it is looked at again. */
static void
of_who_is_back_no_orphan_is_taken(void **state)
{
	(void)state;
	near_is_silent(2000, false);
	assert_int_equal(alone("reassign near host --if-gone --dry-run"),
	    ADMIN_EXIT_OK);
	on_look = near_is_back;
	assert_int_equal(alone("reassign near host --if-gone"),
	    ADMIN_EXIT_LOST);
	assert_int_equal(assigns, 0);
	owner_is(near, "near");
}

/* So that its home takes it back, if it lives after all. */
static void
an_orphan_is_taken_as_such(void **state)
{
	(void)state;
	near_is_silent(2000, false);
	assert_int_equal(alone("reassign near host --if-gone"), ADMIN_EXIT_OK);
	owner_is(near, "host");
	assert_int_equal(ordinal(near).reason, SHM_ORDINAL_BY_ORPHAN);
}

static void
near_takes_it_home(void)
{
	assign(near, "near", 0, SHM_ORDINAL_BY_HOME, 0);
}

/* Then there is nothing more to fence, or to wait for. */
static void
what_moves_is_not_fenced_on(void **state)
{
	(void)state;
	near_is_silent(1000, true);
	shards = 1;
	on_fold = near_takes_it_home;
	assert_int_equal(alone("retire near"), ADMIN_EXIT_LOST);
	assert_int_equal(assigns, 1);
	owner_is(near, "near");
}

static void
who_is_gone_is_retired(void **state)
{
	(void)state;
	near_is_silent(1000, true);
	shards = 2;
	assert_int_equal(alone("retire near"), ADMIN_EXIT_OK);
	assert_int_equal(shards, 0);
	assert_int_equal(ordinal(near).is.state, SHM_ORDINAL_RETIRED);
	assert_int_equal(ordinal(near).reason, SHM_ORDINAL_BY_RETIRE);
}

/* Nor by another, from whom it was taken by a command: until it is drained. */
static void
whose_home_runs_is_not_retired(void **state)
{
	struct shm_news news = { .is = { .state = SHM_ORDINAL_OWNED },
	    .reason = SHM_ORDINAL_BY_COMMAND, .was = {
	    { .version = 2, .instance = "host", .worker = 1,
	    .reason = SHM_ORDINAL_BY_COMMAND },
	    { .version = 1, .instance = "near", .worker = 1,
	    .reason = SHM_ORDINAL_BY_HOME } } };

	(void)state;
	near = give("near", "near", 0);
	give("near#1", "near", 1);
	see("near", 1, 0, false);
	come_home();
	assign(1, "near", 0, SHM_ORDINAL_BY_COMMAND, 0);
	assert_int_equal(alone("retire host#1"), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "reassign host#1 host#1"));
	/* With the worker it is its home's, and not any worker's of it. */
	assign(0, "host", 1, SHM_ORDINAL_BY_COMMAND, 0);
	assert_int_equal(alone("retire host"), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "reassign host host#0)"));
	assign_as(near + 1, "host", news);
	assert_int_equal(alone("retire near#1"), ADMIN_EXIT_REFUSED);
	assert_non_null(strstr(call.text, "is not known"));
	assert_non_null(strstr(call.text, "reassign near#1 near#1, start near "));
	assert_int_equal(assigns, 0);
	assign(near + 1, "host", 1, SHM_ORDINAL_BY_COMMAND, SHM_DRAINED_WORKER);
	assert_int_equal(alone("retire near#1"), ADMIN_EXIT_OK);
	/* It may have been without a worker there: so after the way out. */
	assign_as(near + 1, "", (struct shm_news){
	    .is = { .state = SHM_ORDINAL_ORPHANED },
	    .reason = SHM_ORDINAL_BY_HOME, .was = {
	    { .version = 3, .instance = "near", .worker = 1,
	    .state = SHM_ORDINAL_OWNED, .reason = SHM_ORDINAL_BY_COMMAND } } });
	assert_int_equal(alone("retire near#1"), ADMIN_EXIT_OK);
	assign(near + 1, "host", 1, SHM_ORDINAL_BY_ORPHAN, 0);
	assert_int_equal(alone("retire near#1"), ADMIN_EXIT_OK);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, master_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_has_restarted_is_not_robbed),
		T(who_is_gone_is_given_to_others),
		T(what_failed_is_decided_anew),
		T(what_nobody_ordered_comes_home),
		T(what_was_given_up_comes_home),
		T(what_is_drained_comes_home_when_that_is_undone),
		T(a_command_looks_then_decides),
		T(a_call_that_ends_takes_its_want_back),
		T(a_worker_is_no_instance),
		T(not_all_workers_leave),
		T(of_two_that_are_drained_at_once_one_stays),
		T(of_two_workers_at_once_none_goes_elsewhere),
		T(that_none_is_left_is_told),
		T(an_instance_is_undrained_whose_workers_are_not),
		T(a_worker_is_drained_again_where_all_are),
		T(another_is_undrained_whose_worker_is_not),
		T(who_is_resized_away_meanwhile_is_not_drained),
		T(who_dies_while_it_is_drained_is_drained),
		T(what_cannot_be_read_is_told),
		T(an_assignment_that_cannot_be_read_is_told),
		T(who_gets_an_old_orphan_is_not_forgotten_at_once),
		T(a_drain_that_ends_takes_its_wants_back),
		T(who_is_back_is_not_retired),
		T(of_who_is_back_no_orphan_is_taken),
		T(an_orphan_is_taken_as_such),
		T(what_moves_is_not_fenced_on),
		T(who_is_gone_is_retired),
		T(whose_home_runs_is_not_retired),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
