#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "worker/object/retry.h"
#include "worker/object/temp.h"

static struct err
open_lock(struct object_dir *d, const char *name, int *fd)
{
	struct place p;
	struct err e;

	e = temp_place_open(d, name, true, &p);
	if (err_is(e))
		return e;
	*fd = openat(p.fd, p.leaf, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (*fd < 0)
		e = FAIL_OS(IO, "open a lock");
	temp_place_close(&p);
	return e;
}

struct err
object_lock(struct object_dir *d, const char *name, uint64_t span_ns,
    int *lock)
{
	struct object_retry r;
	struct err e;
	int fd;

	e = open_lock(d, name, &fd);
	if (err_is(e))
		return e;
	object_retry_begin(&r, span_ns);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			e = FAIL_OS(IO, "lock a name");
		else if (!object_retry_wait(&r))
			e = FAIL(BUSY, "another holds the lock of this name");
		if (err_is(e)) {
			close(fd);
			return e;
		}
	}
	*lock = fd;
	return OK;
}

void
object_unlock(int lock)
{
	close(lock);
}
