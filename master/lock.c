#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "master/lock.h"
#include "master/signal.h"

#define RETRY_NS (50 * NS_PER_MS)

static char text[4600];

struct err
lock_make_dir(const char *path)
{
	char name[4096], *p;
	struct stat st;

	if ((size_t)snprintf(name, sizeof(name), "%s", path) >= sizeof(name))
		return FAIL(BAD_INPUT, "the data directory's path is too long");
	for (p = name + 1; ; p++) {
		char was = *p;

		if (was != '/' && was != '\0')
			continue;
		*p = '\0';
		/* What cannot be made may be there: stat decides at the end. */
		if (mkdir(name, 0777) < 0 && was == '\0' && errno != EEXIST) {
			snprintf(text, sizeof(text),
			    "cannot make the data directory %s", path);
			return FAIL_OS(IO, text);
		}
		*p = was;
		if (was == '\0')
			break;
	}
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		snprintf(text, sizeof(text), "%s is no directory", path);
		return FAIL(BAD_INPUT, text);
	}
	return OK;
}

/* What the holder wrote, for the message. */
static void
read_holder(int fd, char *holder, size_t bytes)
{
	ssize_t n = pread(fd, holder, bytes - 1, 0);

	if (n < 0)
		n = 0;
	holder[n] = '\0';
	holder[strcspn(holder, "\n")] = '\0';
}

struct err
lock_sign(const char *instance_id, int fd)
{
	char line[200];
	int n = snprintf(line, sizeof(line), "pid=%d id=%s\n", (int)getpid(),
	    instance_id);

	if (ftruncate(fd, 0) < 0 || pwrite(fd, line, (size_t)n, 0) != n)
		return FAIL_OS(IO, "cannot write the lock file");
	return OK;
}

static void
lock_path(const char *dir, const char *instance_id, char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/instance-%s.lock", dir, instance_id);
}

struct err
lock_take(const char *dir, const char *instance_id, uint64_t wait_ns, int *fd)
{
	uint64_t tried_ns = 0;
	char path[4400], holder[200];
	int f;

	lock_path(dir, instance_id, path, sizeof(path));
	f = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (f < 0) {
		snprintf(text, sizeof(text), "cannot open the lock file %s",
		    path);
		return FAIL_OS(IO, text);
	}
	while (flock(f, LOCK_EX | LOCK_NB) < 0) {
		read_holder(f, holder, sizeof(holder));
		if (tried_ns == 0)
			log_warn("instance id is in use, waiting for its "
			    "processes to leave lock=%s holder=\"%s\"", path,
			    holder);
		if (tried_ns >= wait_ns) {
			close(f);
			snprintf(text, sizeof(text), "instance id '%s' is in use "
			    "by a running server (%s) on %s: stop that one, or "
			    "give this one another --instance-id", instance_id,
			    holder, dir);
			return FAIL(EXISTS, text);
		}
		if (signal_pause(RETRY_NS)) {
			close(f);
			return FAIL(TIMED_OUT, "asked to stop");
		}
		tried_ns += RETRY_NS;
	}
	*fd = f;
	return lock_sign(instance_id, f);
}

struct err
lock_adopt(const char *dir, const char *instance_id, int fd)
{
	char path[4400];
	struct stat named, passed;

	lock_path(dir, instance_id, path, sizeof(path));
	if (stat(path, &named) < 0 || fstat(fd, &passed) < 0 ||
	    named.st_dev != passed.st_dev || named.st_ino != passed.st_ino)
		return FAIL(BAD_INPUT, "an upgrade keeps --data-dir and "
		    "--instance-id: restart to change them");
	return OK;
}
