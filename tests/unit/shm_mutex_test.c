#include "shm_test.h"

#include <linux/futex.h>

#include "common/fault.h"
#include "shm/metric.h"
#include "shm/rwlock.h"

/* The one inside an rwlock of its own: its repair has little to do. */
static struct shm_rwlock *rwlock;
static struct shm_mutex *mutex;

static int
setup(void **state)
{
	if (segment_setup(state) < 0)
		return -1;
	rwlock = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rwlock == MAP_FAILED)
		return -1;
	shm_rwlock_init(rwlock, shm_process_count());
	mutex = &rwlock->state;
	return 0;
}

static int
teardown(void **state)
{
	munmap(rwlock, 4096);
	return segment_teardown(state);
}

static int
count_under_mutex(void *arg)
{
	int rounds = *(int *)arg, i;

	meet(&shared->go, 1);
	for (i = 0; i < rounds; i++) {
		shm_mutex_lock(mutex);
		shared->plain[0]++;
		shm_mutex_unlock(mutex);
	}
	return 0;
}

static void
four_processes_never_hold_it_together(void **state)
{
	int rounds = 50000, i;
	pid_t pids[4];

	(void)state;
	reset_shared();
	for (i = 0; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), count_under_mutex, &rounds);
	atomic_store(&shared->go, 1);
	for (i = 0; i < 4; i++)
		assert_left_well(pids[i]);
	for (i = 0; i < 4; i++)
		test_reap(SHM_WORKER(i));
	assert_int_equal(shared->plain[0], 4 * rounds);
}

static int
lock_and_wait(void *arg)
{
	(void)arg;
	shm_mutex_lock(mutex);
	await_death();
	return 1;
}

/* Over and over: a mutex once left inconsistent would be lost for ever. */
static void
mutex_survives_its_holder(void **state)
{
	uint64_t repairs = shm_metric_sum(METRIC_memwald_lock_repairs_total,
	    SHM_LOCK_rwlock_state);
	int round;

	(void)state;
	for (round = 0; round < 20; round++) {
		reset_shared();
		test_fork(SHM_WORKER(0), lock_and_wait, NULL);
		meet(&shared->ready, 1);
		assert_int_equal(mutex->holder, SHM_WORKER(0) + 1);
		test_kill(SHM_WORKER(0));
		shm_mutex_lock(mutex);
		assert_int_equal(mutex->holder, SHM_MASTER + 1);
		shm_mutex_unlock(mutex);
		assert_int_equal(mutex->holder, 0);
		shm_mutex_lock(mutex);
		shm_mutex_unlock(mutex);
		test_reap(SHM_WORKER(0));
	}
	assert_int_equal(shm_metric_sum(METRIC_memwald_lock_repairs_total,
	    SHM_LOCK_rwlock_state), repairs + 20);
}

static int
lock_once(void *arg)
{
	(void)arg;
	shm_mutex_lock(mutex);
	shm_mutex_unlock(mutex);
	return 0;
}

static int
lock_then_leave(void *arg)
{
	(void)arg;
	shm_mutex_lock(mutex);
	atomic_fetch_add(&shared->ready, 1);
	meet(&shared->go, 1);
	shm_mutex_unlock(mutex);
	return 0;
}

/* Takes away glibc's mark of sleepers, as who takes a mutex between another's
 * release and its wake finds it: then nobody is woken. */
static int
leave_without_wake(void *arg)
{
	(void)arg;
	shm_mutex_lock(mutex);
	atomic_fetch_add(&shared->ready, 1);
	meet(&shared->go, 1);
	mutex->mutex.__data.__lock &= (int)~FUTEX_WAITERS;
	shm_mutex_unlock(mutex);
	return 0;
}

static void
waiter_is_let_in(int (*hold)(void *))
{
	pid_t holder, waiter;

	reset_shared();
	holder = test_fork(SHM_WORKER(0), hold, NULL);
	meet(&shared->ready, 1);
	waiter = test_fork(SHM_WORKER(1), lock_once, NULL);
	await_sleep(waiter);
	atomic_store(&shared->go, 1);
	assert_left_well(holder);
	assert_left_well(waiter);
	test_reap(SHM_WORKER(0));
	test_reap(SHM_WORKER(1));
}

/* A waiter of another process is woken, well before its deadline panics. */
static void
release_wakes_another_process(void **state)
{
	(void)state;
	waiter_is_let_in(lock_then_leave);
}

/* E.1: a releaser dies before its wake, and a third hides that anybody sleeps:
 * the sleeper looks again, and does not panic beside a free mutex. */
static void
lost_wake_is_survived(void **state)
{
	(void)state;
	waiter_is_let_in(leave_without_wake);
}

/* Whoever repairs may die as well; the next one repairs again. */
static void
mutex_survives_its_repairer(void **state)
{
	int status;

	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(0), lock_and_wait, NULL);
	meet(&shared->ready, 1);
	test_kill(SHM_WORKER(0));
	test_reap(SHM_WORKER(0));
	assert_false(err_is(fault_set("shm_repair=die:1")));
	status = test_wait(test_fork(SHM_WORKER(1), lock_once, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(1));
	shm_mutex_lock(mutex);
	shm_mutex_unlock(mutex);
	assert_left_well(test_fork(SHM_WORKER(1), lock_once, NULL));
	test_reap(SHM_WORKER(1));
}

static int
storm(void *arg)
{
	(void)arg;
	for (;;) {
		shm_mutex_lock(mutex);
		/* Undone by nobody, so only torn by two holders at once. */
		shared->plain[0]++;
		shared->plain[1] = shared->plain[0];
		if (shared->plain[1] != shared->plain[0])
			return 1;
		shm_mutex_unlock(mutex);
		atomic_fetch_add(&shared->counts[shm_self()], 1);
	}
}

/* Holders and waiters are killed at any instruction; the others go on. */
static void
mutex_survives_random_deaths(void **state)
{
	int rounds = getenv("LONG") != NULL ? 2000 : 40, i, round;
	uint64_t seen;
	uint16_t slot;

	(void)state;
	reset_shared();
	srand(1);
	for (i = 0; i < 4; i++)
		test_fork(SHM_WORKER(i), storm, NULL);
	for (round = 0; round < rounds; round++) {
		slot = (uint16_t)SHM_WORKER(rand() % 4);
		seen = atomic_load(&shared->counts[slot]);
		while (atomic_load(&shared->counts[slot]) < seen + 10)
			sched_yield();
		test_kill(slot);
		test_reap(slot);
		shm_mutex_lock(mutex);
		shm_mutex_unlock(mutex);
		test_fork(slot, storm, NULL);
	}
	for (i = 0; i < 4; i++) {
		test_kill(SHM_WORKER(i));
		test_reap(SHM_WORKER(i));
	}
	shm_mutex_lock(mutex);
	shm_mutex_unlock(mutex);
}

static uint16_t killed;

static void
kill_holder(uint16_t slot)
{
	killed = slot;
	kill(atomic_load(&shm_process_get(slot)->pid), SIGKILL);
}

/* A stopped holder: a child panics, the master has it killed and goes on. */
static void
stopped_holder_stops_nobody(void **state)
{
	pid_t holder, child;
	int status;

	(void)state;
	reset_shared();
	log_set_level(LOG_ERROR);
	shm_lock_deadline(50 * 1000000);
	holder = test_fork(SHM_WORKER(0), lock_and_wait, NULL);
	meet(&shared->ready, 1);
	kill(holder, SIGSTOP);

	/* As the master of a server, which sets it before it forks. */
	shm_mutex_on_stuck(kill_holder);
	child = test_fork(SHM_WORKER(1), lock_once, NULL);
	status = test_wait(child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(shm_process_get(SHM_WORKER(1))->panic_text,
	    "held by slot 2"));
	test_reap(SHM_WORKER(1));
	assert_int_equal(waitpid(holder, &status, WNOHANG), 0);	/* it lives */

	shm_mutex_lock(mutex);
	shm_mutex_unlock(mutex);
	shm_mutex_on_stuck(NULL);
	assert_int_equal(killed, SHM_WORKER(0));
	test_wait(holder);
	test_reap(SHM_WORKER(0));
	shm_lock_deadline(1000000000);
}

/* E.2: the build that ships sees the death; nothing is #ifdefed away. */
static void
attributes_are_set(void **state)
{
	pthread_mutexattr_t attr;
	int robust;

	(void)state;
	assert_int_equal(pthread_mutexattr_init(&attr), 0);
	assert_int_equal(pthread_mutexattr_setrobust(&attr,
	    PTHREAD_MUTEX_ROBUST), 0);
	assert_int_equal(pthread_mutexattr_getrobust(&attr, &robust), 0);
	assert_int_equal(robust, PTHREAD_MUTEX_ROBUST);
	assert_int_equal(pthread_mutexattr_destroy(&attr), 0);
	assert_int_equal(system("! grep -rnE '#[[:space:]]*if.*PTHREAD_' "
	    "common shm worker master 2>/dev/null"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes_are_set),
		cmocka_unit_test(four_processes_never_hold_it_together),
		cmocka_unit_test(mutex_survives_its_holder),
		cmocka_unit_test(release_wakes_another_process),
		cmocka_unit_test(lost_wake_is_survived),
		cmocka_unit_test(mutex_survives_its_repairer),
		cmocka_unit_test(mutex_survives_random_deaths),
		cmocka_unit_test(stopped_holder_stops_nobody),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
