#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/log.h"
#include "master/takeover.h"
#include "master/upgrade.h"

/* The next number of the text, which is a descriptor that is open. */
static bool
read_fd(char **at, int *fd)
{
	char *end;
	long n;

	if (**at != ' ')
		return false;
	errno = 0;
	n = strtol(*at, &end, 10);
	if (end == *at || errno != 0 || n < 3 || n > INT32_MAX ||
	    fcntl((int)n, F_SETFD, FD_CLOEXEC) < 0)
		return false;
	*at = end;
	*fd = (int)n;
	return true;
}

static bool
read_workers(char **at, uint32_t *workers)
{
	char *end;
	unsigned long n;

	if (**at != ' ')
		return false;
	n = strtoul(*at, &end, 10);
	if (end == *at || n == 0 || n > SHM_WORKERS_LIMIT)
		return false;
	*at = end;
	*workers = (uint32_t)n;
	return true;
}

struct err
takeover_read(struct takeover *t)
{
	char *text = getenv(UPGRADE_ENV), *at;
	bool whole;

	*t = (struct takeover){ -1, -1, -1, -1, { -1 }, 0, 0 };
	if (text == NULL)
		return OK;
	whole = strtol(text, &at, 10) == UPGRADE_VERSION &&
	    read_workers(&at, &t->workers) &&
	    read_fd(&at, &t->loaded_fd) && read_fd(&at, &t->family_fd) &&
	    read_fd(&at, &t->lock_fd) && read_fd(&at, &t->admin_fd);
	while (whole && *at != '\0' && t->listen_count < SHM_WORKERS_LIMIT)
		whole = read_fd(&at, &t->listen_fds[t->listen_count++]);
	whole = whole && *at == '\0' && t->listen_count >= t->workers;
	MUST(unsetenv(UPGRADE_ENV) == 0);
	if (!whole)
		return FAIL(BAD_INPUT, "the running server is of a version that "
		    "this one cannot take over from: restart instead");
	return OK;
}

void
takeover_loaded(struct takeover *t)
{
	if (t->loaded_fd < 0)
		return;
	FAULT_HERE(takeover_loaded);
	log_info("loaded, waiting for the old server to leave");
	/* Nobody there any more: its family leaves, which is what we wait for. */
	(void)!write(t->loaded_fd, "1", 1);
	close(t->loaded_fd);
	t->loaded_fd = -1;
}

bool
takeover_is_due(const struct takeover *t)
{
	struct pollfd p = { t->family_fd, POLLIN, 0 };

	/* Never written to: readable is its end. */
	return poll(&p, 1, 0) > 0;
}

void
takeover_end(struct takeover *t)
{
	if (t->loaded_fd >= 0)
		close(t->loaded_fd);
	if (t->family_fd >= 0)
		close(t->family_fd);
	t->loaded_fd = t->family_fd = -1;
}
