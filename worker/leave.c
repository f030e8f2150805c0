#include "common/base.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/leave.h"

static struct loop *loop;
static leave_fn *leave;
static int master_fd, signal_fd;
static struct op master_op, signal_op;

/* The pipe is never written to: readable is its end. */
static bool
master_is_gone(int wait_ms)
{
	struct pollfd p = { master_fd, POLLIN, 0 };

	return poll(&p, 1, wait_ms) > 0;
}

static void *
last_resort(void *arg)
{
	struct timespec span = { 0, 0 };

	(void)arg;
	while (!master_is_gone(-1))
		continue;
	/* True time: the next server waits in true time, too. */
	span.tv_sec = (time_t)(ORPHAN_NS / NS_PER_SEC);
	span.tv_nsec = (long)(ORPHAN_NS % NS_PER_SEC);
	nanosleep(&span, NULL);
	log_warn("the master is gone and time is up, leaving at once");
	_exit(0);
}

static void
on_master(struct op *op, int32_t res)
{
	(void)op;
	(void)res;
	log_warn("the master is gone, leaving");
	leave(true);
}

static void
on_signal(struct op *op, int32_t res)
{
	struct signalfd_siginfo info;

	(void)res;
	while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		continue;
	/* Sent by the kernel for the master's death: the pipe says it. */
	if (!master_is_gone(0))
		leave(false);
	loop_readable(loop, op, signal_fd);
}

void
leave_watch(struct loop *l, int fd, leave_fn *fn)
{
	pthread_t thread;
	pthread_attr_t attr;
	sigset_t set;

	loop = l;
	leave = fn;
	master_fd = fd;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	MUST(signal_fd >= 0);
	MUST(pthread_attr_init(&attr) == 0);
	MUST(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
	MUST(pthread_create(&thread, &attr, last_resort, NULL) == 0);
	pthread_attr_destroy(&attr);
	master_op.done = on_master;
	signal_op.done = on_signal;
	loop_readable(loop, &master_op, master_fd);
	loop_readable(loop, &signal_op, signal_fd);
}
