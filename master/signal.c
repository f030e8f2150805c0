#include "common/base.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "master/signal.h"

static int fd = -1;

int
signal_open(void)
{
	sigset_t set;

	MUST(fd < 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	/* A terminal that goes away takes nothing with it: we reload. */
	sigaddset(&set, SIGUSR2);
	/* A terminal that goes away takes nothing with it. */
	sigaddset(&set, SIGHUP);
	MUST(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
	MUST(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	/* A parent may have left it ignored: then no child could be reaped. */
	MUST(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

void
signal_read(struct signal_seen *seen)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGTERM:
		case SIGINT:
			seen->stop = true;
			break;
		case SIGCHLD:
			seen->child = true;
			break;
		case SIGHUP:
			seen->reload = true;
			break;
		case SIGUSR2:
			seen->upgrade = true;
			break;
		}
	}
}

bool
signal_pause(uint64_t real_ns)
{
	struct signal_seen seen = { .stop = false };
	struct pollfd p = { fd, POLLIN, 0 };

	poll(&p, 1, (int)(real_ns / NS_PER_MS));
	signal_read(&seen);
	return seen.stop;
}

void
signal_child(void)
{
	sigset_t set;

	close(fd);
	fd = -1;
	MUST(signal(SIGINT, SIG_IGN) != SIG_ERR);
	MUST(signal(SIGHUP, SIG_IGN) != SIG_ERR);
	MUST(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	MUST(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
}
