#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "master/admin.h"
#include "master/upgrade.h"

#define LOAD_NS	(60 * NS_PER_SEC)

static struct upgrade_plan plan;
static enum upgrade_state state;
static pid_t pid;
static int pid_fd = -1;			/* readable: it has ended */
static int loaded_fd = -1;		/* a byte: it is loaded */
static uint64_t kill_at_ns;

void
upgrade_init(const struct upgrade_plan *p)
{
	plan = *p;
}

pid_t
upgrade_pid(void)
{
	return pid;
}

static void
forget_new(void)
{
	if (pid_fd >= 0)
		close(pid_fd);
	if (loaded_fd >= 0)
		close(loaded_fd);
	pid_fd = loaded_fd = -1;
	state = UPGRADE_NONE;
	pid = 0;
}

static void
end(void)
{
	shm_server_clear(SHM_SERVER_UPGRADING);
	forget_new();
}

void
upgrade_forget(void)
{
	forget_new();
	close(plan.family_fd);
}

/* In the child. */
NORETURN static void
become(int loaded, uint32_t workers)
{
	static char text[64 + 8 * SHM_WORKERS_LIMIT];
	int fds[4 + SHM_WORKERS_LIMIT] = { loaded, plan.family_fd,
		plan.lock_fd, admin_fd() };
	uint32_t i, count = 4;
	int n = snprintf(text, sizeof(text), "%d %u", UPGRADE_VERSION,
	    workers);

	for (i = 0; i < plan.listen_count; i++)
		fds[count++] = plan.listen_fds[i];
	for (i = 0; i < count; i++) {
		MUST(fcntl(fds[i], F_SETFD, 0) == 0);
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %d", fds[i]);
		MUST((size_t)n < sizeof(text));
	}
	MUST(setenv(UPGRADE_ENV, text, 1) == 0);
	execv(plan.program, plan.argv);
	log_error("cannot execute the program, the upgrade ends here file=%s "
	    "os=\"%s\"", plan.program, strerrordesc_np(errno));
	_exit(1);
}

void
upgrade_begin(uint32_t workers, uint64_t now_ns)
{
	int ends[2];

	if (state != UPGRADE_NONE) {
		log_warn("an upgrade is under way already pid=%d", (int)pid);
		return;
	}
	if (getpid() == 1) {
		log_warn("no upgrade of the first process of a container, it "
		    "would end with it: replace the container");
		return;
	}
	MUST(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	/* Before anybody has the sockets: whoever leaves from now on leaves them
	 * as they are. */
	shm_server_set(SHM_SERVER_UPGRADING);
	pid = fork();
	if (pid == 0)
		become(ends[1], workers);
	close(ends[1]);
	loaded_fd = ends[0];
	/* Not reaped before we are: the number is still its own. */
	pid_fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	if (pid_fd < 0) {
		log_error("cannot start a new master, going on os=\"%s\"",
		    strerrordesc_np(errno));
		if (pid > 0)
			kill(pid, SIGKILL);
		end();
		return;
	}
	state = UPGRADE_LOADING;
	kill_at_ns = now_ns + LOAD_NS;
	log_info("upgrade begins, a new master loads pid=%d file=%s", (int)pid,
	    plan.program);
}

static bool
readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

enum upgrade_state
upgrade_look(uint64_t now_ns)
{
	char byte;

	if (state == UPGRADE_NONE)
		return state;
	if (readable(pid_fd)) {
		log_error("the new master ended before it took over, going on; "
		    "its reason is in the lines above pid=%d", (int)pid);
		end();
		return state;
	}
	if (state == UPGRADE_LOADED)
		return state;
	if (read(loaded_fd, &byte, 1) == 1) {
		log_info("the new master is loaded pid=%d", (int)pid);
		state = UPGRADE_LOADED;
	} else if (now_ns >= kill_at_ns) {
		log_error("the new master does not get through its start, "
		    "killing it pid=%d", (int)pid);
		(void)pidfd_send_signal(pid_fd, SIGKILL, NULL, 0);
		kill_at_ns = UINT64_MAX;
	}
	return state;
}

void
upgrade_cancel(void)
{
	if (state == UPGRADE_NONE)
		return;
	log_info("the new master is told to leave again pid=%d", (int)pid);
	(void)pidfd_send_signal(pid_fd, SIGTERM, NULL, 0);
	end();
}

void
upgrade_polls(struct pollfd *polls)
{
	/* Below 0: passed over. */
	polls[0] = (struct pollfd){ pid_fd, POLLIN, 0 };
	polls[1] = (struct pollfd){ state == UPGRADE_LOADING ? loaded_fd : -1,
		POLLIN, 0 };
}
