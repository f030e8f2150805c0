#include "shm_test.h"

#include "common/fault.h"
#include "shm/ordinal_table.h"

static void
assert_err(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

static void
own_ordinals_are_there(void **state)
{
	struct shm_ordinal o;
	struct uuid u;
	uint32_t index;

	(void)state;
	assert_int_equal(shm_ordinal_count(), 4);
	assert_err(shm_ordinal_get(0, &o), ERR_OK);
	assert_string_equal(o.name, "host");
	assert_int_equal(o.owner, SHM_WORKER(0));
	assert_int_equal(o.state, SHM_ORDINAL_OWNED);
	assert_int_equal(o.version, 0);
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_string_equal(o.name, "host#3");
	assert_int_equal(o.owner, SHM_WORKER(3));
	u = uuid_named(SLICE("host#3"));
	assert_true(uuid_eq(&o.shard, &u));
	assert_err(shm_ordinal_find(&u, &index), ERR_OK);
	assert_int_equal(index, 3);
	u = shm_ordinal_shard(3);
	assert_true(uuid_eq(&o.shard, &u));
	assert_true(slice_eq(shm_ordinal_name(3), SLICE("host#3")));
	assert_err(shm_ordinal_get(4, &o), ERR_NOT_FOUND);
}

/* The contract's examples: the shard of an instance id (5.4). */
static void
shard_ids_are_the_contracts(void **state)
{
	char text[UUID_TEXT_LEN + 1];
	struct uuid u = uuid_named(SLICE("rollout-0"));

	(void)state;
	uuid_to_text(&u, text);
	assert_string_equal(text, "c4118b9c-7f79-523d-9bad-381e42232c1d");
}

static void
others_are_added_once(void **state)
{
	struct shm_ordinal o;
	uint32_t index, again;
	char name[32];
	int i;

	(void)state;
	assert_err(shm_ordinal_add(SLICE("peer#7"), &index), ERR_OK);
	assert_int_equal(index, 4);
	assert_err(shm_ordinal_add(SLICE("peer#7"), &again), ERR_OK);
	assert_int_equal(again, index);
	assert_err(shm_ordinal_get(index, &o), ERR_OK);
	assert_string_equal(o.name, "peer#7");
	assert_int_equal(o.owner, SHM_NOBODY);
	assert_int_equal(o.state, SHM_ORDINAL_ORPHANED);
	assert_err(shm_ordinal_add(SLICE(""), &again), ERR_BAD_INPUT);
	for (i = 0; i < 11; i++) {
		snprintf(name, sizeof(name), "peer %d", i);
		assert_err(shm_ordinal_add(slice_of(name), &index), ERR_OK);
	}
	assert_err(shm_ordinal_add(SLICE("one more"), &index), ERR_NO_MEMORY);
}

static void
newest_assignment_wins(void **state)
{
	struct shm_ordinal o;
	bool changed;

	(void)state;
	assert_err(shm_ordinal_assign(1, SHM_NOBODY, SHM_ORDINAL_ORPHANED, 5,
	    &changed), ERR_OK);
	assert_true(changed);
	assert_err(shm_ordinal_assign(1, SHM_WORKER(2), SHM_ORDINAL_OWNED, 5,
	    &changed), ERR_OK);
	assert_false(changed);
	assert_err(shm_ordinal_get(1, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_NOBODY);
	assert_int_equal(o.version, 5);
	assert_err(shm_ordinal_assign(1, SHM_WORKER(2), SHM_ORDINAL_MOVING, 6,
	    &changed), ERR_OK);
	assert_true(changed);
	assert_err(shm_ordinal_get(1, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_WORKER(2));
	assert_int_equal(o.state, SHM_ORDINAL_MOVING);
}

static int
assign(void *arg)
{
	bool changed;

	return shm_ordinal_assign(2, SHM_WORKER(0), SHM_ORDINAL_RETIRED,
	    *(uint64_t *)arg, &changed).kind;
}

static void
half_a_change_is_undone(void **state)
{
	struct shm_ordinal before = { 0 }, after = { 0 };
	uint64_t version = 9;
	int status, round;

	(void)state;
	for (round = 0; round < 3; round++) {
		assert_err(shm_ordinal_get(2, &before), ERR_OK);
		assert_err(fault_set("shm_assign=die:1"), ERR_OK);
		status = test_wait(test_fork(SHM_WORKER(0), assign, &version));
		assert_true(WIFSIGNALED(status));
		test_reap(SHM_WORKER(0));
		assert_err(shm_ordinal_get(2, &after), ERR_OK);
		assert_memory_equal(&before, &after, sizeof(before));
	}
	assert_left_well(test_fork(SHM_WORKER(0), assign, &version));
	test_reap(SHM_WORKER(0));
	assert_err(shm_ordinal_get(2, &after), ERR_OK);
	assert_int_equal(after.state, SHM_ORDINAL_RETIRED);
	assert_int_equal(after.version, 9);
}

static int
add(void *arg)
{
	uint32_t index;

	(void)arg;
	return shm_ordinal_add(SLICE("half"), &index).kind;
}

/* A death with the mutex, but outside of any change, undoes none; and a half
 * added ordinal is not there. */
static void
whole_changes_are_not_undone(void **state)
{
	struct uuid u = uuid_named(SLICE("half"));
	struct shm_ordinal o;
	uint32_t index;
	bool changed;
	int status;

	(void)state;
	assert_err(shm_ordinal_assign(0, SHM_WORKER(3), SHM_ORDINAL_MOVING, 50,
	    &changed), ERR_OK);
	assert_err(fault_set("shm_insert=die:1"), ERR_OK);
	status = test_wait(test_fork(SHM_WORKER(0), add, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
	assert_err(shm_ordinal_get(0, &o), ERR_OK);
	assert_int_equal(o.version, 50);
	assert_int_equal(o.owner, SHM_WORKER(3));
	assert_err(shm_ordinal_find(&u, &index), ERR_NOT_FOUND);
}

/* A later whole change is not undone by the note of an earlier one. */
static int
assign_many(void *arg)
{
	uint64_t version = *(uint64_t *)arg, i;
	bool changed;

	for (i = 0; i < 20000; i++) {
		/* Owner and version agree: readers check. */
		MUST(!err_is(shm_ordinal_assign(3,
		    (uint16_t)((version + i) % 1000), SHM_ORDINAL_OWNED,
		    version + i, &changed)));
	}
	return 0;
}

static void
changes_are_whole(void **state)
{
	uint64_t version = 100;
	struct shm_ordinal o;
	pid_t pids[3];
	int i, round;

	(void)state;
	for (i = 0; i < 3; i++)
		pids[i] = test_fork(SHM_WORKER(i), assign_many, &version);
	for (round = 0; round < 20000; round++) {
		assert_err(shm_ordinal_get(3, &o), ERR_OK);
		if (o.version != 0)
			assert_int_equal(o.owner, o.version % 1000);
	}
	for (i = 0; i < 3; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_int_equal(o.version, 20099);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_ordinals_are_there),
		cmocka_unit_test(shard_ids_are_the_contracts),
		cmocka_unit_test(whole_changes_are_not_undone),
		cmocka_unit_test(others_are_added_once),
		cmocka_unit_test(newest_assignment_wins),
		cmocka_unit_test(half_a_change_is_undone),
		cmocka_unit_test(changes_are_whole),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
