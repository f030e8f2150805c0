#include "assign_test.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
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
		T(a_drain_that_ends_takes_its_wants_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
