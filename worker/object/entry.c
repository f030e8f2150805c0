#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fault.h"
#include "worker/object/temp.h"

/*
 * Zeroes are really written: a file that was only allocated has unwritten
 * extents, and turning one into a written one is a change of the journal in
 * every commit.
 */
#define ZERO_STEP 65536u

static const char zeroes[ZERO_STEP];

struct err
object_entry_create(struct object_dir *d, const char *prefix,
    uint64_t size_bytes, struct object_entry *entry)
{
	uint64_t left = size_bytes;
	struct temp t;
	struct err e;
	int dir_fd;

	e = temp_dir_open(d->fd, prefix, true, &dir_fd);
	if (err_is(e))
		return e;
	e = temp_create(dir_fd, &t);
	if (err_is(e))
		goto out;
	while (left > 0 && !err_is(e)) {
		size_t n = (size_t)MIN(left, (uint64_t)ZERO_STEP);

		e = temp_write(t.fd, zeroes, n);
		left -= n;
	}
	if (!err_is(e) && fsync(t.fd) < 0)
		e = FAIL_OS(IO, "sync new entry");
	if (err_is(e)) {
		temp_drop(dir_fd, &t);
		goto out;
	}
	entry->fd = t.fd;
	entry->size_bytes = size_bytes;
	snprintf(entry->name, sizeof(entry->name), "%s/%s", prefix, t.name);
out:
	close(dir_fd);
	return e;
}

struct err
object_entry_link(struct object_dir *d, struct object_entry *entry,
    const char *name)
{
	const char *slash = strrchr(name, '/');
	struct place p;
	struct temp t;
	struct err e;

	MUST(slash != NULL && strncmp(name, entry->name,
	    (size_t)(slash - name) + 1) == 0);
	e = temp_place_open(d, name, false, &p);
	if (err_is(e))
		return e;
	t.fd = entry->fd;
	snprintf(t.name, sizeof(t.name), "%s", entry->name + (slash - name) + 1);
	e = temp_publish(p.fd, &t, p.leaf);
	if (t.name[0] == '\0')
		entry->name[0] = '\0';
	temp_place_close(&p);
	return e;
}

void
object_entry_abandon(struct object_dir *d, struct object_entry *entry)
{
	if (entry->name[0] != '\0')
		unlinkat(d->fd, entry->name, 0);
	close(entry->fd);
}

struct err
object_write_sync(int fd, const void *bytes, size_t len, uint64_t offset)
{
	struct iovec v = { (void *)(uintptr_t)bytes, len };
	ssize_t n;

	while (v.iov_len > 0) {
		n = pwritev2(fd, &v, 1, (off_t)offset, RWF_DSYNC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return FAIL_OS(IO, "write entry");
		v.iov_base = (char *)v.iov_base + n;
		v.iov_len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return OK;
}

struct err
object_sync(int fd)
{
	if (fdatasync(fd) < 0)
		return FAIL_OS(IO, "sync entry");
	return OK;
}
