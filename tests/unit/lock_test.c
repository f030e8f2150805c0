#include "common/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "master/lock.h"
#include "master/signal.h"

static char root[64];

static int
setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/lock_test.XXXXXX");
	return mkdtemp(root) == NULL;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

/* A process, and a child of it, that hold the lock until they are killed. */
static pid_t
holder(bool with_child)
{
	int ready[2], fd;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		if (err_is(lock_take(root, "a", 0, &fd)))
			_exit(1);
		if (with_child)
			(void)!fork();
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	setpgid(pid, pid);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void
kill_group(pid_t pid)
{
	kill(-pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void
refused_while_held_free_after_sigkill(void **state)
{
	pid_t pid = holder(false);
	char want[64];
	struct err e;
	int fd;

	(void)state;
	e = lock_take(root, "a", 100 * NS_PER_MS, &fd);
	assert_int_equal(e.kind, ERR_EXISTS);
	snprintf(want, sizeof(want), "pid=%d id=a", (int)pid);
	assert_non_null(strstr(e.what, want));
	/* Another id is another lock. */
	assert_false(err_is(lock_take(root, "b", 0, &fd)));
	close(fd);
	kill_group(pid);
	assert_false(err_is(lock_take(root, "a", 0, &fd)));
	close(fd);
}

/* The lock lives as long as the last process that inherited it. */
static void
held_by_orphans(void **state)
{
	pid_t pid = holder(true);
	int fd;

	(void)state;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(lock_take(root, "a", 50 * NS_PER_MS, &fd).kind,
	    ERR_EXISTS);
	kill(-pid, SIGKILL);
	assert_false(err_is(lock_take(root, "a", 5 * NS_PER_SEC, &fd)));
	close(fd);
}

/* D.6: a number in a file says nothing about who lives. */
static void
a_strangers_pid_is_no_holder(void **state)
{
	char path[128];
	FILE *f;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/instance-a.lock", root);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "pid=1 id=a\n");
	fclose(f);
	assert_false(err_is(lock_take(root, "a", 0, &fd)));
	close(fd);
}

static void
directories(void **state)
{
	char path[128];
	struct err e;
	struct stat st;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/x/y/z", root);
	assert_false(err_is(lock_make_dir(path)));
	assert_false(err_is(lock_make_dir(path)));
	assert_int_equal(stat(path, &st), 0);
	snprintf(path, sizeof(path), "%s/file", root);
	fclose(fopen(path, "w"));
	e = lock_make_dir(path);
	assert_int_equal(e.kind, ERR_BAD_INPUT);
	assert_non_null(strstr(e.what, "no directory"));
	snprintf(path, sizeof(path), "%s/none", root);
	e = lock_take(path, "a", 0, &fd);
	assert_true(err_is(e));
	assert_non_null(strstr(e.what, "none/instance-a.lock"));
}

/* A SIGTERM during the wait ends it. */
static void
stop_ends_the_wait(void **state)
{
	pid_t pid = holder(false);
	int fd;

	(void)state;
	kill(getpid(), SIGTERM);
	assert_int_equal(lock_take(root, "a", 60 * NS_PER_SEC, &fd).kind,
	    ERR_TIMED_OUT);
	kill_group(pid);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_while_held_free_after_sigkill),
		cmocka_unit_test(held_by_orphans),
		cmocka_unit_test(a_strangers_pid_is_no_holder),
		cmocka_unit_test(directories),
		cmocka_unit_test(stop_ends_the_wait),
	};

	log_set_level(LOG_ERROR);
	signal_open();
	return cmocka_run_group_tests(tests, setup, teardown);
}
