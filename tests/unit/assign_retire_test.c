#include "assign_test.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_gets_an_old_orphan_is_not_forgotten_at_once),
		T(who_is_back_is_not_retired),
		T(of_who_is_back_no_orphan_is_taken),
		T(an_orphan_is_taken_as_such),
		T(what_moves_is_not_fenced_on),
		T(who_is_gone_is_retired),
		T(whose_home_runs_is_not_retired),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
