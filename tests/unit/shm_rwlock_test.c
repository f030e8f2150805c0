#include "shm_test.h"

#include "common/fault.h"
#include "shm/rwlock.h"

static struct shm_rwlock *lock;

static int
setup(void **state)
{
	if (segment_setup(state) < 0)
		return -1;
	lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (lock == MAP_FAILED)
		return -1;
	shm_rwlock_init(lock, shm_process_count());
	return 0;
}

static int
teardown(void **state)
{
	munmap(lock, 4096);
	return segment_teardown(state);
}

static void
spoil(void *arg)
{
	/* Nobody may be let in before this. */
	MUST(lock->writer != 0);
	(*(int *)arg)++;
}

/* The master's part on a death, for this lock. */
static struct shm_rwlock_reaped
reap(uint16_t slot, int *spoiled)
{
	test_reap(slot);
	return shm_rwlock_reap(lock, slot, spoil, spoiled);
}

static int
mixed(void *arg)
{
	int rounds = *(int *)arg, i;

	meet(&shared->go, 1);
	for (i = 0; i < rounds; i++) {
		if (i % 4 == 0) {
			shm_rwlock_write(lock);
			shared->plain[0]++;
			shared->plain[1]++;
			shm_rwlock_write_done(lock);
			continue;
		}
		shm_rwlock_read(lock);
		if (shared->plain[0] != shared->plain[1])
			return 1;
		shm_rwlock_read_done(lock);
	}
	return 0;
}

static void
writers_are_alone(void **state)
{
	int rounds = 20000, i;
	pid_t pids[4];

	(void)state;
	reset_shared();
	for (i = 0; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), mixed, &rounds);
	atomic_store(&shared->go, 1);
	for (i = 0; i < 4; i++)
		assert_left_well(pids[i]);
	for (i = 0; i < 4; i++)
		test_reap(SHM_WORKER(i));
	assert_int_equal(shared->plain[0], 4 * rounds / 4);
}

static int
read_and_wait(void *arg)
{
	(void)arg;
	shm_rwlock_read(lock);
	await_death();
	return 1;
}

static int
write_and_wait(void *arg)
{
	(void)arg;
	shm_rwlock_write(lock);
	await_death();
	return 1;
}

static int
write_then_leave(void *arg)
{
	(void)arg;
	shm_rwlock_write(lock);
	atomic_fetch_add(&shared->ready, 1);
	meet(&shared->go, 1);
	shm_rwlock_write_done(lock);
	return 0;
}

static int
write_once(void *arg)
{
	(void)arg;
	atomic_fetch_add(&shared->ready, 1);
	shm_rwlock_write(lock);
	shm_rwlock_write_done(lock);
	return 0;
}

static int
read_once(void *arg)
{
	(void)arg;
	atomic_fetch_add(&shared->ready, 1);
	shm_rwlock_read(lock);
	shm_rwlock_read_done(lock);
	return 0;
}

static void
readers_share(void **state)
{
	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(0), read_and_wait, NULL);
	meet(&shared->ready, 1);
	assert_left_well(test_fork(SHM_WORKER(1), read_once, NULL));
	test_kill(SHM_WORKER(0));
	reap(SHM_WORKER(0), NULL);
	reap(SHM_WORKER(1), NULL);
}

static void
dead_reader_is_subtracted(void **state)
{
	struct shm_rwlock_reaped r;
	int round, spoiled = 0;
	pid_t writer;

	(void)state;
	for (round = 0; round < 10; round++) {
		reset_shared();
		test_fork(SHM_WORKER(0), read_and_wait, NULL);
		meet(&shared->ready, 1);
		writer = test_fork(SHM_WORKER(1), write_once, NULL);
		meet(&shared->ready, 2);
		test_kill(SHM_WORKER(0));
		r = reap(SHM_WORKER(0), &spoiled);
		assert_int_equal(r.readers, 1);
		assert_false(r.wrote);
		assert_left_well(writer);
		test_reap(SHM_WORKER(1));
	}
	assert_int_equal(spoiled, 0);
}

static void
dead_writer_is_told(void **state)
{
	struct shm_rwlock_reaped r;
	int round, spoiled = 0;
	pid_t reader;

	(void)state;
	for (round = 0; round < 10; round++) {
		reset_shared();
		test_fork(SHM_WORKER(0), write_and_wait, NULL);
		meet(&shared->ready, 1);
		reader = test_fork(SHM_WORKER(1), read_once, NULL);
		meet(&shared->ready, 2);
		test_kill(SHM_WORKER(0));
		r = reap(SHM_WORKER(0), &spoiled);
		assert_true(r.wrote);
		assert_int_equal(r.readers, 0);
		assert_left_well(reader);
		test_reap(SHM_WORKER(1));
	}
	assert_int_equal(spoiled, round);
}

static void
await_waiting_writer(uint16_t slot)
{
	uint64_t start_ns = shm_lock_now_ns();
	bool waits = false;

	while (!waits) {
		shm_mutex_lock(&lock->state);
		waits = lock->shares[slot].writers_waiting == 1;
		shm_mutex_unlock(&lock->state);
		MUST(shm_lock_now_ns() - start_ns < MEET_NS);
		sched_yield();
	}
}

/* A writer that dies waiting no longer keeps readers out. */
static void
dead_waiting_writer_is_subtracted(void **state)
{
	struct shm_rwlock_reaped r;
	int spoiled = 0;

	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(0), read_and_wait, NULL);
	meet(&shared->ready, 1);
	test_fork(SHM_WORKER(1), write_once, NULL);
	await_waiting_writer(SHM_WORKER(1));
	test_kill(SHM_WORKER(1));
	r = reap(SHM_WORKER(1), &spoiled);
	assert_int_equal(r.writers_waiting, 1);
	assert_false(r.wrote);
	/* The first reader is still inside: another gets in beside it. */
	assert_left_well(test_fork(SHM_WORKER(1), read_once, NULL));
	test_reap(SHM_WORKER(1));
	test_kill(SHM_WORKER(0));
	assert_int_equal(reap(SHM_WORKER(0), &spoiled).readers, 1);
	assert_int_equal(spoiled, 0);
}

static int
read_until_stopped(void *arg)
{
	(void)arg;
	atomic_fetch_add(&shared->ready, 1);
	while (atomic_load(&shared->stop) == 0) {
		shm_rwlock_read(lock);
		shm_rwlock_read_done(lock);
	}
	return 0;
}

static int
read_then_leave(void *arg)
{
	(void)arg;
	shm_rwlock_read(lock);
	atomic_fetch_add(&shared->ready, 1);
	meet(&shared->go, 1);
	shm_rwlock_read_done(lock);
	return 0;
}

static int
read_and_tell(void *arg)
{
	(void)arg;
	shm_rwlock_read(lock);
	atomic_fetch_add(&shared->counts[0], 1);
	shm_rwlock_read_done(lock);
	return 0;
}

/* A reader that comes after a waiting writer waits behind it. */
static void
new_reader_waits_behind_a_writer(void **state)
{
	pid_t holder, writer, reader;
	uint16_t waiting = 0;

	(void)state;
	reset_shared();
	holder = test_fork(SHM_WORKER(0), read_then_leave, NULL);
	meet(&shared->ready, 1);
	writer = test_fork(SHM_WORKER(1), write_once, NULL);
	await_waiting_writer(SHM_WORKER(1));
	reader = test_fork(SHM_WORKER(2), read_and_tell, NULL);
	while (waiting == 0) {
		assert_int_equal(atomic_load(&shared->counts[0]), 0);
		shm_mutex_lock(&lock->state);
		waiting = lock->shares[SHM_WORKER(2)].readers_waiting;
		shm_mutex_unlock(&lock->state);
		sched_yield();
	}
	atomic_store(&shared->go, 1);
	assert_left_well(holder);
	assert_left_well(writer);
	assert_left_well(reader);
	for (int i = 0; i < 3; i++)
		test_reap(SHM_WORKER(i));
}

/* Readers that come and go without a gap do not starve a writer. */
static void
waiting_writer_keeps_readers_out(void **state)
{
	pid_t pids[3];
	int i;

	(void)state;
	reset_shared();
	for (i = 0; i < 3; i++)
		pids[i] = test_fork(SHM_WORKER(i), read_until_stopped, NULL);
	meet(&shared->ready, 3);
	for (i = 0; i < 100; i++) {
		shm_rwlock_write(lock);
		shm_rwlock_write_done(lock);
	}
	atomic_store(&shared->stop, 1);
	for (i = 0; i < 3; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
}

/* The reader that leaves dies before it wakes the writer; false: the writer,
 * which looks by itself from time to time, came first, and died where it
 * leaves. */
static bool
wake_is_lost(void)
{
	int status, spoiled = 0;
	pid_t leaver, writer;
	bool lost;

	reset_shared();
	leaver = test_fork(SHM_WORKER(0), read_then_leave, NULL);
	meet(&shared->ready, 1);
	writer = test_fork(SHM_WORKER(1), write_once, NULL);
	await_waiting_writer(SHM_WORKER(1));
	assert_false(err_is(fault_set("shm_waking=die:1")));
	atomic_store(&shared->go, 1);
	status = test_wait(leaver);
	lost = WIFSIGNALED(status);
	status = test_wait(writer);
	assert_int_equal(WIFSIGNALED(status), !lost);
	assert_int_equal(reap(SHM_WORKER(0), &spoiled).readers, 0);
	reap(SHM_WORKER(1), &spoiled);
	assert_int_equal(spoiled, 0);
	return lost;
}

/* Dead between giving up and waking: the sleeper looks again by itself. */
static void
lost_wake_is_survived(void **state)
{
	int tries = 0;

	(void)state;
	while (!wake_is_lost())
		assert_true(++tries < 100);
}

static int
storm(void *arg)
{
	uint64_t n = 0;

	(void)arg;
	for (;;) {
		if (n % 3 == 0) {
			shm_rwlock_write(lock);
			shared->plain[0]++;
			shared->plain[1] = shared->plain[0];
			shm_rwlock_write_done(lock);
		} else {
			shm_rwlock_read(lock);
			/* A writer's death between the two is repaired by the
			 * master, as a stale slot would be. */
			if (shared->plain[0] != shared->plain[1])
				_exit(1);
			shm_rwlock_read_done(lock);
		}
		n++;
		atomic_fetch_add(&shared->counts[shm_self()], 1);
	}
}

static void
mend(void *arg)
{
	(void)arg;
	shared->plain[1] = shared->plain[0];
}

static void
lock_survives_random_deaths(void **state)
{
	int rounds = getenv("LONG") != NULL ? 2000 : 25, i, round;
	uint64_t seen;
	uint16_t slot;
	int status;

	(void)state;
	reset_shared();
	srand(2);
	for (i = 0; i < 4; i++)
		test_fork(SHM_WORKER(i), storm, NULL);
	for (round = 0; round < rounds; round++) {
		slot = (uint16_t)SHM_WORKER(rand() % 4);
		seen = atomic_load(&shared->counts[slot]);
		while (atomic_load(&shared->counts[slot]) < seen + 10)
			sched_yield();
		kill(atomic_load(&shm_process_get(slot)->pid), SIGKILL);
		status = test_wait(atomic_load(&shm_process_get(slot)->pid));
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		test_reap(slot);
		shm_rwlock_reap(lock, slot, mend, NULL);
		test_fork(slot, storm, NULL);
	}
	for (i = 0; i < 4; i++) {
		test_kill(SHM_WORKER(i));
		test_reap(SHM_WORKER(i));
		shm_rwlock_reap(lock, SHM_WORKER(i), mend, NULL);
	}
	shm_rwlock_write(lock);
	shm_rwlock_write_done(lock);
}

/* A holder that does not come back within the deadline: who waits panics. */
static void
endless_wait_is_a_panic(void **state)
{
	int status, spoiled = 0;

	(void)state;
	reset_shared();
	shm_lock_deadline(50 * 1000000);
	test_fork(SHM_WORKER(0), write_and_wait, NULL);
	meet(&shared->ready, 1);
	status = test_wait(test_fork(SHM_WORKER(1), read_once, NULL));
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(shm_process_get(SHM_WORKER(1))->panic_text,
	    "writer slot 2"));
	reap(SHM_WORKER(1), &spoiled);
	test_kill(SHM_WORKER(0));
	reap(SHM_WORKER(0), &spoiled);
	shm_lock_deadline(1000000000);
}

/* Not while it looks, under the mutex that the writer needs to leave. */
static void
stop_asleep(pid_t pid)
{
	int status;

	for (;;) {
		kill(pid, SIGSTOP);
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
		if (pthread_mutex_trylock(&lock->state.mutex) == 0)
			break;
		kill(pid, SIGCONT);
	}
	assert_int_equal(pthread_mutex_unlock(&lock->state.mutex), 0);
}

/* It stands still, as on a machine that does, while the lock becomes free. */
static void
gets_in_after(uint32_t before_ms, uint32_t stopped_ms)
{
	pid_t writer, reader;

	reset_shared();
	writer = test_fork(SHM_WORKER(0), write_then_leave, NULL);
	meet(&shared->ready, 1);
	reader = test_fork(SHM_WORKER(1), read_once, NULL);
	await_sleep(reader);
	usleep(before_ms * 1000);
	stop_asleep(reader);
	usleep(stopped_ms * 1000);
	atomic_store(&shared->go, 1);
	assert_left_well(writer);
	kill(reader, SIGCONT);
	assert_left_well(reader);
	test_reap(SHM_WORKER(0));
	test_reap(SHM_WORKER(1));
}

/* It looks again before it says that nobody came, whether it stood still for
 * more than its deadline or for the end of it. */
static void
stopped_waiter_gets_in(void **state)
{
	(void)state;
	gets_in_after(0, 1100);
	gets_in_after(700, 600);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writers_are_alone),
		cmocka_unit_test(readers_share),
		cmocka_unit_test(dead_reader_is_subtracted),
		cmocka_unit_test(dead_writer_is_told),
		cmocka_unit_test(dead_waiting_writer_is_subtracted),
		cmocka_unit_test(new_reader_waits_behind_a_writer),
		cmocka_unit_test(waiting_writer_keeps_readers_out),
		cmocka_unit_test(lost_wake_is_survived),
		cmocka_unit_test(lock_survives_random_deaths),
		cmocka_unit_test(endless_wait_is_a_panic),
		cmocka_unit_test(stopped_waiter_gets_in),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
