#include "common/base.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/loop.h"
#include "common/pool.h"

#define JOBS 200

struct job {
	struct op op;
	int32_t number;
	uint32_t done_count;
	int32_t res;
};

static struct loop *loop;
static struct pool *pool;
static pthread_t loop_thread;
static struct job jobs[JOBS];
static uint32_t done_count;

/* Jobs of the gate stay on their thread until it is opened. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static int32_t started[JOBS];
static uint32_t started_count;

static void
done(struct op *op, int32_t res)
{
	struct job *j = CONTAINER_OF(op, struct job, op);

	assert_true(pthread_equal(pthread_self(), loop_thread));
	j->done_count++;
	j->res = res;
	done_count++;
}

static int32_t
run_gate(struct op *op)
{
	struct job *j = CONTAINER_OF(op, struct job, op);

	pthread_mutex_lock(&gate);
	started[started_count++] = j->number;
	pthread_cond_broadcast(&gate_moved);
	while (!gate_open)
		pthread_cond_wait(&gate_moved, &gate);
	pthread_mutex_unlock(&gate);
	return j->number;
}

static void
wait_started(uint32_t count)
{
	pthread_mutex_lock(&gate);
	while (started_count < count)
		pthread_cond_wait(&gate_moved, &gate);
	pthread_mutex_unlock(&gate);
}

static void
open_gate(void)
{
	pthread_mutex_lock(&gate);
	gate_open = true;
	pthread_cond_broadcast(&gate_moved);
	pthread_mutex_unlock(&gate);
}

static int
setup(void **state)
{
	struct loop_settings s = { .ring = *(bool *)*state };

	assert_false(err_is(loop_create(&s, &loop)));
	loop_thread = pthread_self();
	memset(jobs, 0, sizeof(jobs));
	for (int i = 0; i < JOBS; i++) {
		jobs[i].op.done = done;
		jobs[i].number = i;
	}
	done_count = started_count = 0;
	gate_open = false;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	loop_destroy(loop);
	return 0;
}

static void
turn_until(uint32_t count)
{
	uint64_t deadline = clock_mono_ns() + 5 * NS_PER_SEC;

	while (done_count < count) {
		assert_true(clock_mono_ns() < deadline);
		loop_turn(loop, NS_PER_SEC);
	}
}

static void
test_every_job_comes_home_once(void **state)
{
	(void)state;
	assert_false(err_is(pool_create(loop, 3, JOBS, &pool)));
	open_gate();
	for (int i = 0; i < JOBS; i++)
		assert_true(pool_submit(pool, &jobs[i].op, run_gate));
	turn_until(JOBS);
	for (int i = 0; i < JOBS; i++) {
		assert_int_equal(jobs[i].done_count, 1);
		assert_int_equal(jobs[i].res, i);
	}
	assert_int_equal(pool_pending(pool), 0);
	pool_destroy(pool);
}

static void
test_full_is_an_answer_and_first_is_first(void **state)
{
	(void)state;
	assert_false(err_is(pool_create(loop, 1, 2, &pool)));
	assert_true(pool_submit(pool, &jobs[0].op, run_gate));
	wait_started(1);
	assert_true(pool_submit(pool, &jobs[1].op, run_gate));
	assert_true(pool_submit(pool, &jobs[2].op, run_gate));
	assert_false(pool_submit(pool, &jobs[3].op, run_gate));
	assert_false(jobs[3].op.in_flight);
	pool_submit_first(pool, &jobs[4].op, run_gate);
	pool_submit_first(pool, &jobs[5].op, run_gate);
	assert_int_equal(pool_pending(pool), 5);
	open_gate();
	turn_until(5);
	assert_int_equal(started[1], 4);
	assert_int_equal(started[2], 5);
	assert_int_equal(started[3], 1);
	assert_int_equal(started[4], 2);
	assert_true(pool_submit(pool, &jobs[3].op, run_gate));
	turn_until(6);
	pool_destroy(pool);
}

static void
test_destroy_runs_what_is_queued(void **state)
{
	(void)state;
	assert_false(err_is(pool_create(loop, 2, JOBS, &pool)));
	for (int i = 0; i < JOBS; i++)
		assert_true(pool_submit(pool, &jobs[i].op, run_gate));
	open_gate();
	pool_destroy(pool);
	turn_until(JOBS);
}

static int32_t
run_mask(struct op *op)
{
	sigset_t set;

	(void)op;
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, SIGTERM) && sigismember(&set, SIGCHLD) &&
	    sigismember(&set, SIGUSR1);
}

static void
test_threads_take_no_signals(void **state)
{
	sigset_t set;

	(void)state;
	assert_false(err_is(pool_create(loop, 1, 1, &pool)));
	assert_true(pool_submit(pool, &jobs[0].op, run_mask));
	turn_until(1);
	assert_int_equal(jobs[0].res, 1);
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	assert_false(sigismember(&set, SIGTERM));
	pool_destroy(pool);
}

int
main(void)
{
	static bool ring = true, epoll = false;
#define EACH(test) \
	{ #test " ring", test, setup, teardown, &ring }, \
	{ #test " epoll", test, setup, teardown, &epoll }
	const struct CMUnitTest tests[] = {
		EACH(test_every_job_comes_home_once),
		EACH(test_full_is_an_answer_and_first_is_first),
		EACH(test_destroy_runs_what_is_queued),
		EACH(test_threads_take_no_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
