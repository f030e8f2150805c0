#include "assign_test.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
