#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fault.h"
#include "worker/object/pace.h"
#include "worker/object/temp.h"

/*
 * Zeroes are really written: a file that was only allocated has unwritten
 * extents, and turning one into a written one is a change of the journal in
 * every commit.
 */
#define ZERO_STEP OBJECT_PACE_STEP

/* A large entry is made ahead of need, beside commits that must not wait for
 * all of it: each step is on the disk before the next one (pace.h). A small
 * one has a commit waiting for it, and one sync at the end is faster. */
#define STEPPED_MIN_BYTES (1u << 20)

static const char zeroes[ZERO_STEP];

/* In one piece, where the file system can. */
static struct err
make_room(int fd, uint64_t size_bytes)
{
	if (fallocate(fd, 0, 0, (off_t)size_bytes) == 0)
		return OK;
	if (errno == ENOSPC || ftruncate(fd, (off_t)size_bytes) < 0)
		return FAIL_OS(IO, "make room for a new entry");
	return OK;
}

static struct err
write_zeroes(int fd, uint64_t size_bytes)
{
	struct err e = make_room(fd, size_bytes);
	uint64_t at = 0;

	while (at < size_bytes && !err_is(e)) {
		size_t n = (size_t)MIN(size_bytes - at, (uint64_t)ZERO_STEP);

		e = temp_write(fd, zeroes, n);
		if (!err_is(e) && size_bytes >= STEPPED_MIN_BYTES)
			e = temp_sync_step(fd, at, n);
		at += n;
	}
	return e;
}

static struct err
create(struct object_dir *d, const char *prefix, uint64_t size_bytes,
    bool zeroed, struct object_entry *entry)
{
	struct temp t;
	struct err e;
	int dir_fd;

	e = temp_dir_open(d->fd, prefix, true, &dir_fd);
	if (err_is(e))
		return e;
	e = temp_create(dir_fd, &t);
	if (err_is(e))
		goto out;
	e = zeroed ? write_zeroes(t.fd, size_bytes) :
	    make_room(t.fd, size_bytes);
	if (!err_is(e) && zeroed && fsync(t.fd) < 0)
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
object_entry_create(struct object_dir *d, const char *prefix,
    uint64_t size_bytes, struct object_entry *entry)
{
	return create(d, prefix, size_bytes, true, entry);
}

struct err
object_entry_reserve(struct object_dir *d, const char *prefix,
    uint64_t size_bytes, struct object_entry *entry)
{
	return create(d, prefix, size_bytes, false, entry);
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
object_entry_punch(struct object_dir *d, const char *name, uint64_t keep_bytes,
    uint64_t *bytes)
{
	int fd = openat(d->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	uint64_t keep = ROUND_UP(keep_bytes, 4096);
	struct stat before, after;
	struct err e = OK;

	if (fd < 0)
		return FAIL_OS(IO, "open wal entry");
	if (fstat(fd, &before) < 0)
		e = FAIL_OS(IO, "look at wal entry");
	else if ((uint64_t)before.st_size > keep &&
	    (uint64_t)before.st_blocks * 512 > keep &&
	    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	    (off_t)keep, before.st_size - (off_t)keep) < 0 &&
	    errno != EOPNOTSUPP && errno != ENOSYS)
		e = FAIL_OS(IO, "punch a hole into a wal entry");
	if (!err_is(e) && fstat(fd, &after) == 0 &&
	    after.st_blocks < before.st_blocks)
		*bytes += (uint64_t)(before.st_blocks - after.st_blocks) * 512;
	close(fd);
	return e;
}

struct err
object_write_sync(int fd, const void *bytes, size_t len, uint64_t offset)
{
	struct iovec v = { (void *)(uintptr_t)bytes, len };
	ssize_t n;

	temp_no_lock();
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

/* A client waits for a large request, so its steps are longer than those of
 * background work: commits of others wait for one of them at most. */
#define LARGE_STEP (8u * OBJECT_PACE_STEP)

/* What is gathered for one step; its pieces may be a few bytes each. */
struct step {
	uint64_t offset;
	size_t bytes;
	uint32_t count;
	struct iovec v[64];
};

static struct err
write_step(int fd, struct step *s)
{
	struct iovec *v = s->v;
	struct err e = FAULT(object_write);
	uint64_t at = s->offset;
	ssize_t n;

	temp_no_lock();
	if (err_is(e))
		return temp_injected(e, "write entry");
	while (s->count > 0) {
		n = pwritev(fd, v, (int)s->count, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return FAIL_OS(IO, "write entry");
		at += (uint64_t)n;
		for (; s->count > 0 && (size_t)n >= v->iov_len; v++, s->count--)
			n -= (ssize_t)v->iov_len;
		if (s->count > 0) {
			v->iov_base = (char *)v->iov_base + n;
			v->iov_len -= (size_t)n;
		}
	}
	e = temp_sync_step(fd, s->offset, s->bytes);
	s->offset += s->bytes;
	s->bytes = 0;
	return e;
}

struct err
object_write_parts(int fd, const struct slice *parts, uint32_t count,
    uint64_t offset)
{
	struct step s = { .offset = offset };
	struct err e = OK;
	uint32_t i;
	size_t at, n;

	for (i = 0; i < count; i++) {
		for (at = 0; !err_is(e) && at < parts[i].len; at += n) {
			n = MIN(parts[i].len - at, LARGE_STEP - s.bytes);
			s.v[s.count++] = (struct iovec){
			    (char *)(uintptr_t)parts[i].ptr + at, n };
			s.bytes += n;
			if (s.bytes == LARGE_STEP ||
			    s.count == ARRAY_LEN(s.v))
				e = write_step(fd, &s);
		}
	}
	return err_is(e) || s.count == 0 ? e : write_step(fd, &s);
}

struct err
object_sync(int fd)
{
	temp_no_lock();
	if (fdatasync(fd) < 0)
		return FAIL_OS(IO, "sync entry");
	return OK;
}

struct err
object_entry_modified(int fd, uint64_t *modified_us)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return FAIL_OS(IO, "ask for the time of an entry");
	*modified_us = temp_modified_us(&st);
	return OK;
}
