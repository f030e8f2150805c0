#include "shm_test.h"

#include "shm/guard.h"

static struct shm_guard *guard;

static int
setup(void **state)
{
	if (segment_setup(state) < 0)
		return -1;
	guard = mmap(NULL, sizeof(*guard), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guard == MAP_FAILED)
		return -1;
	shm_guard_init(guard);
	return 0;
}

static int
teardown(void **state)
{
	munmap(guard, sizeof(*guard));
	return segment_teardown(state);
}

static void
try_is_refused_while_held(void **state)
{
	struct shm_who me = { 3, 7 }, who;
	uint64_t token;

	(void)state;
	assert_false(shm_guard_holder(guard, &who));
	token = shm_guard_try(guard, me, 99);
	assert_true(token != 0);
	assert_true(shm_guard_holder(guard, &who));
	assert_int_equal(who.slot, 3);
	assert_int_equal(who.thread, 7);
	assert_int_equal(guard->deadline_ns, 99);
	assert_true(guard->since_ns != 0);
	shm_guard_phase(guard, TICK_DRAIN);
	assert_int_equal(guard->phase, TICK_DRAIN);

	assert_int_equal(shm_guard_try(guard, me, 1), 0);
	assert_int_equal(shm_guard_try(guard, (struct shm_who){ 4, 0 }, 1), 0);
	assert_int_equal(guard->deadline_ns, 99);

	shm_guard_release(guard, token);
	assert_false(shm_guard_holder(guard, &who));
	token = shm_guard_try(guard, (struct shm_who){ 4, 0 }, 1);
	assert_true(token != 0);
	assert_int_equal(guard->phase, TICK_NONE);
	shm_guard_release(guard, token);
}

/* Slot 0 is a holder like any other, not "free". */
static void
the_master_can_hold_it(void **state)
{
	struct shm_who who;
	uint64_t token;

	(void)state;
	token = shm_guard_try(guard, (struct shm_who){ 0, 0 }, 0);
	assert_true(token != 0);
	assert_true(shm_guard_holder(guard, &who));
	assert_int_equal(shm_guard_try(guard, (struct shm_who){ 0, 0 }, 0), 0);
	assert_true(shm_guard_break(guard, 0));
	assert_false(shm_guard_holder(guard, &who));
}

static int
release_old(void *arg)
{
	shm_guard_release(guard, *(uint64_t *)arg);
	return 0;
}

/* A token is good once: a second release, or one after a break, is a bug that
 * must not free the hold of somebody else. */
static void
old_token_frees_nobody(void **state)
{
	struct shm_who a = { 2, 0 }, who;
	uint64_t old, token;
	int status;

	(void)state;
	old = shm_guard_try(guard, a, 0);
	shm_guard_release(guard, old);
	token = shm_guard_try(guard, a, 0);
	assert_true(token != old);
	status = test_wait(test_fork(SHM_WORKER(0), release_old, &old));
	test_reap(SHM_WORKER(0));
	assert_true(WIFSIGNALED(status));
	assert_true(shm_guard_holder(guard, &who));
	shm_guard_release(guard, token);
}

static void
break_frees_only_the_dead_ones(void **state)
{
	struct shm_who a = { 2, 0 }, who;
	uint64_t token;

	(void)state;
	assert_false(shm_guard_break(guard, 2));
	token = shm_guard_try(guard, a, 0);
	assert_false(shm_guard_break(guard, 3));
	assert_false(shm_guard_break(guard, 1));
	assert_true(shm_guard_holder(guard, &who));
	assert_true(shm_guard_break(guard, 2));
	assert_false(shm_guard_holder(guard, &who));
	assert_true(shm_guard_try(guard, a, 0) != token);
	assert_true(shm_guard_break(guard, 2));
}

static int
count_under_guard(void *arg)
{
	int rounds = *(int *)arg, done = 0;
	struct shm_who me = { shm_self(), 0 };
	uint64_t token, seen;

	meet(&shared->go, 1);
	while (done < rounds) {
		token = shm_guard_try(guard, me, 0);
		if (token == 0)
			continue;
		/* Not atomic: two holders at once would lose one. */
		seen = shared->plain[0];
		shared->plain[1] = token;
		if (shared->plain[1] != token)
			return 1;
		shared->plain[0] = seen + 1;
		shm_guard_release(guard, token);
		done++;
	}
	return 0;
}

static void
four_processes_never_hold_it_together(void **state)
{
	/* Many: on few cores they must run long enough to meet. */
	int rounds = 300000, i;
	pid_t pids[4];

	(void)state;
	reset_shared();
	for (i = 0; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), count_under_guard, &rounds);
	atomic_store(&shared->go, 1);
	for (i = 0; i < 4; i++)
		assert_left_well(pids[i]);
	for (i = 0; i < 4; i++)
		test_reap(SHM_WORKER(i));
	assert_int_equal(shared->plain[0], 4 * rounds);
}

static int
hold_and_wait(void *arg)
{
	(void)arg;
	if (shm_guard_try(guard, shm_who(), 0) == 0)
		return 1;
	await_death();
	return 1;
}

static void
guard_survives_its_holder(void **state)
{
	uint64_t token;
	int round;

	(void)state;
	for (round = 0; round < 20; round++) {
		reset_shared();
		test_fork(SHM_WORKER(0), hold_and_wait, NULL);
		meet(&shared->ready, 1);
		assert_int_equal(shm_guard_try(guard, shm_who(), 0), 0);
		test_kill(SHM_WORKER(0));
		assert_int_equal(shm_guard_try(guard, shm_who(), 0), 0);
		assert_true(shm_guard_break(guard, SHM_WORKER(0)));
		test_reap(SHM_WORKER(0));
		token = shm_guard_try(guard, shm_who(), 0);
		assert_true(token != 0);
		shm_guard_release(guard, token);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(try_is_refused_while_held),
		cmocka_unit_test(the_master_can_hold_it),
		cmocka_unit_test(old_token_frees_nobody),
		cmocka_unit_test(break_frees_only_the_dead_ones),
		cmocka_unit_test(four_processes_never_hold_it_together),
		cmocka_unit_test(guard_survives_its_holder),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
