#ifndef MEMWALD_TESTS_UNIT_SHM_TEST_H
#define MEMWALD_TESTS_UNIT_SHM_TEST_H

/*
 * shm_test - a segment and real processes for the tests of shm/.
 *
 * The test program is the master. Children are forked into their slots, run
 * one function and leave by _exit, so that cmocka runs in the parent alone. A
 * child that fails says so by its exit status. Nothing sleeps to be in step:
 * processes meet at words of a shared page, with a deadline.
 */

#include "common/base.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fault.h"
#include "common/log.h"
#include "shm/instance.h"
#include "shm/mutex.h"
#include "shm/process.h"
#include "shm/reap.h"
#include "shm/segment.h"

#define MEET_NS (20ull * 1000000000)

/* Words that parent and children share, beside the segment. */
struct shared {
	_Atomic uint32_t go;
	_Atomic uint32_t ready;
	_Atomic uint32_t stop;
	_Atomic uint64_t counts[16];
	uint64_t plain[16];		/* for what a lock must protect */
};

static struct shared *shared __attribute__((unused));

static inline struct shm_config
test_config(void)
{
	return (struct shm_config){
		.workers = 2,
		.workers_max = 4,
		.slots = 8,
		.shard_records = 16,
		.ordinals = 16,
		.instance_id = SLICE("host"),
		.budget_limits = { [SHM_BUDGET_REQUEST_BYTES] = 1000 },
	};
}

static inline void
test_segment(const struct shm_config *cfg)
{
	struct err e = shm_segment_create(cfg);

	if (err_is(e))
		fail_msg("%s", e.what);
	shm_process_refill(SHM_MASTER);
	shm_process_attach(SHM_MASTER);
	shm_lease_hold(1, UINT64_MAX);
}

static inline int
segment_setup(void **state)
{
	struct shm_config cfg = test_config();

	(void)state;
	log_set_level(LOG_ERROR);
	alarm(getenv("LONG") != NULL ? 600 : 60);	/* a hang is a failure */
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -1;
	test_segment(&cfg);
	return 0;
}

static inline int
segment_teardown(void **state)
{
	(void)state;
	shm_segment_destroy();
	return munmap(shared, sizeof(*shared));
}

/* A child in that slot, which must be empty. */
static inline pid_t
test_fork(uint16_t slot, int (*run)(void *), void *arg)
{
	pid_t pid;

	shm_process_refill(slot);
	pid = fork();
	if (pid == 0) {
		/* A failed test leaves none behind. */
		MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		shm_process_attach(slot);
		shm_process_enter(SHM_PROCESS_RUNNING);
		_exit(run(arg));
	}
	assert_true(pid > 0);
	shm_process_forked(slot, pid);
	return pid;
}

/* What the master does on a death. */
static inline int
test_wait(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline struct shm_reaped
test_reap(uint16_t slot)
{
	struct shm_reaped r;

	shm_reap(slot, &r);
	shm_process_clear(slot);
	return r;
}

static inline void
test_kill(uint16_t slot)
{
	pid_t pid = atomic_load(&shm_process_get(slot)->pid);

	assert_int_equal(kill(pid, SIGKILL), 0);
	test_wait(pid);
	shm_process_died(slot);
}

static inline void
assert_left_well(pid_t pid)
{
	int status = test_wait(pid);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A child that a fault point, as fault_set takes it, has stopped. */
static inline pid_t
test_fork_stopped(uint16_t slot, int (*run)(void *), void *arg,
    const char *fault)
{
	struct err e = fault_set(fault);
	pid_t pid;
	int status;

	if (err_is(e))
		fail_msg("%s: %s", fault, e.what);
	pid = test_fork(slot, run, arg);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	if (!WIFSTOPPED(status))
		fail_msg("%s was not met", fault);
	return pid;
}

/* It goes on to its end: its exit status. */
static inline int
test_go_on(uint16_t slot, pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGCONT), 0);
	status = test_wait(pid);
	test_reap(slot);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Waits until the word is at least that; the deadline is a failure. */
static inline void
meet(_Atomic uint32_t *word, uint32_t at_least)
{
	uint64_t start_ns = shm_lock_now_ns();

	while (atomic_load(word) < at_least) {
		MUST(shm_lock_now_ns() - start_ns < MEET_NS);
		sched_yield();
	}
}

/* Waits until that process sleeps in the kernel. */
static inline void
await_sleep(pid_t pid)
{
	uint64_t start_ns = shm_lock_now_ns();
	char path[64], text[256], *at, state = '?';
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'S') {
		f = fopen(path, "r");
		MUST(f != NULL);
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		text[n] = '\0';
		at = strrchr(text, ')');
		MUST(at != NULL);
		state = at[2];
		MUST(shm_lock_now_ns() - start_ns < MEET_NS);
		sched_yield();
	}
}

/* Says it is there, then waits to be killed. */
static inline void
await_death(void)
{
	atomic_fetch_add(&shared->ready, 1);
	for (;;)
		pause();
}

static inline void
reset_shared(void)
{
	memset(shared, 0, sizeof(*shared));
}

#endif
