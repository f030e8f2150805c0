#include "shm_test.h"

#include "common/clock.h"
#include "shm/budget.h"
#include "shm/sequence.h"

static void
limit_is_kept(void **state)
{
	enum shm_budget b = SHM_BUDGET_REQUEST_BYTES;

	(void)state;
	assert_int_equal(shm_budget_limit(b), 1000);
	assert_true(shm_budget_take(b, 600));
	assert_false(shm_budget_take(b, 401));
	assert_true(shm_budget_take(b, 400));
	assert_false(shm_budget_take(b, 1));
	assert_int_equal(shm_budget_used(b), 1000);
	shm_budget_give(b, 600);
	assert_int_equal(shm_budget_used(b), 400);
	shm_budget_give(b, 400);
	assert_false(shm_budget_take(b, UINT64_MAX));
	assert_int_equal(shm_budget_used(b), 0);
}

static void
one_oversized_runs_alone(void **state)
{
	enum shm_budget b = SHM_BUDGET_REQUEST_BYTES;

	(void)state;
	assert_false(shm_budget_take(b, 5000));
	assert_true(shm_budget_take_alone(b, 5000));
	assert_false(shm_budget_take(b, 1));
	assert_false(shm_budget_take_alone(b, 1));
	shm_budget_give(b, 5000);
	assert_true(shm_budget_take(b, 1));
	assert_false(shm_budget_take_alone(b, 5000));
	shm_budget_give(b, 1);
}

static void
no_limit_takes_all(void **state)
{
	(void)state;
	assert_int_equal(shm_budget_limit(SHM_BUDGET_BLOB_BYTES), 0);
	assert_true(shm_budget_take(SHM_BUDGET_BLOB_BYTES, 1ull << 40));
	assert_int_equal(shm_budget_used(SHM_BUDGET_BLOB_BYTES), 1ull << 40);
	assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 0);
	shm_budget_give(SHM_BUDGET_BLOB_BYTES, 1ull << 40);
}

static int
give_too_much(void *arg)
{
	(void)arg;
	shm_budget_give(SHM_BUDGET_REQUEST_BYTES, 1);
	return 0;
}

static void
giving_too_much_is_a_bug(void **state)
{
	int status;

	(void)state;
	status = test_wait(test_fork(SHM_WORKER(0), give_too_much, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
	assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 0);
}

static int
take_and_give(void *arg)
{
	enum shm_budget b = SHM_BUDGET_REQUEST_BYTES;

	(void)arg;
	for (;;) {
		if (!shm_budget_take(b, 300))
			continue;
		/* Three fit: never a fourth. */
		if (atomic_fetch_add(&shared->counts[0], 1) >= 3)
			_exit(1);
		atomic_fetch_sub(&shared->counts[0], 1);
		shm_budget_give(b, 300);
		atomic_fetch_add(&shared->counts[shm_self()], 1);
		if (atomic_load(&shared->stop) != 0)
			return 0;
	}
}

static void
never_more_than_the_limit(void **state)
{
	pid_t pids[4];
	int i;

	(void)state;
	reset_shared();
	for (i = 0; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), take_and_give, NULL);
	for (i = 0; i < 4; i++) {
		while (atomic_load(&shared->counts[SHM_WORKER(i)]) < 1000)
			sched_yield();
	}
	atomic_store(&shared->stop, 1);
	for (i = 0; i < 4; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
	assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 0);
}

static int
take_and_wait(void *arg)
{
	(void)arg;
	if (!shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 900))
		return 1;
	await_death();
	return 1;
}

/* What another process has counts, until it is reaped. */
static void
shares_add_up(void **state)
{
	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(0), take_and_wait, NULL);
	meet(&shared->ready, 1);
	assert_int_equal(shm_budget_share(SHM_BUDGET_REQUEST_BYTES,
	    SHM_WORKER(0)), 900);
	assert_false(shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 101));
	assert_false(shm_budget_take_alone(SHM_BUDGET_REQUEST_BYTES, 2000));
	test_kill(SHM_WORKER(0));
	assert_false(shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 101));
	assert_int_equal(test_reap(SHM_WORKER(0)).budget, 900);
	assert_true(shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 1000));
	shm_budget_give(SHM_BUDGET_REQUEST_BYTES, 1000);
}

static int
take_give_for_ever(void *arg)
{
	(void)arg;
	for (;;) {
		if (shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 200))
			shm_budget_give(SHM_BUDGET_REQUEST_BYTES, 200);
		atomic_fetch_add(&shared->counts[shm_self()], 1);
	}
	return 1;
}

/* Killed at any instruction, a process leaves nothing taken. */
static void
death_gives_back(void **state)
{
	uint64_t back = 0;
	int round, i;

	(void)state;
	reset_shared();
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 3; i++)
			test_fork(SHM_WORKER(i), take_give_for_ever, NULL);
		for (i = 0; i < 3; i++) {
			while (atomic_load(&shared->counts[SHM_WORKER(i)]) <
			    (uint64_t)(round + 1) * 50)
				sched_yield();
		}
		for (i = 0; i < 3; i++) {
			test_kill(SHM_WORKER(i));
			back += test_reap(SHM_WORKER(i)).budget;
		}
		assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 0);
	}
	assert_true(back % 200 == 0);
}

#define DRAWS 50000

static int
draw(void *arg)
{
	uint64_t last = 0, next;
	int i;

	(void)arg;
	meet(&shared->go, 1);
	for (i = 0; i < DRAWS; i++) {
		next = shm_sequence_next();
		MUST(next > last);
		last = next;
	}
	return 0;
}

static void
sequences_are_unique_and_rise(void **state)
{
	uint64_t before;
	pid_t pids[4];
	int i;

	(void)state;
	reset_shared();
	/* Ahead of the wall clock, so that last + 1 is what counts: no value
	 * was drawn twice if as many were drawn as the clock went on. */
	shm_sequence_raise(shm_sequence_next() + 3600 * US_PER_SEC);
	before = shm_sequence_last();
	for (i = 0; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), draw, NULL);
	atomic_store(&shared->go, 1);
	for (i = 0; i < 4; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
	assert_true(shm_sequence_last() == before + 4 * DRAWS);
}

static void
sequence_counts_each_draw(void **state)
{
	uint64_t before = shm_sequence_last(), i;

	(void)state;
	for (i = 1; i <= 10; i++)
		assert_true(shm_sequence_next() == before + i);
	shm_sequence_raise(before);
	assert_true(shm_sequence_last() == before + 10);
	shm_sequence_raise(before + 100);
	assert_true(shm_sequence_next() == before + 101);
	assert_false(shm_sequence_plausible(before));	/* an hour ahead */
	assert_true(shm_sequence_plausible(1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limit_is_kept),
		cmocka_unit_test(one_oversized_runs_alone),
		cmocka_unit_test(no_limit_takes_all),
		cmocka_unit_test(giving_too_much_is_a_bug),
		cmocka_unit_test(never_more_than_the_limit),
		cmocka_unit_test(shares_add_up),
		cmocka_unit_test(death_gives_back),
		cmocka_unit_test(sequences_are_unique_and_rise),
		cmocka_unit_test(sequence_counts_each_draw),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
