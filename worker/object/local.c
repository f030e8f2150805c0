#include "common/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/uuid.h"
#include "worker/object/temp.h"

/* Takes fd. */
static struct err
dir_new(int fd, bool appends, struct object_dir **out)
{
	struct object_dir *d = malloc(sizeof(*d));
	struct err e = OK;
	struct stat st;

	if (d == NULL)
		e = FAIL(NO_MEMORY, "directory handle");
	else if (fstat(fd, &st) < 0)
		e = FAIL_OS(IO, "stat directory");
	if (err_is(e)) {
		free(d);
		close(fd);
		return e;
	}
	*d = (struct object_dir){ fd, appends, st.st_dev, st.st_ino };
	*out = d;
	return OK;
}

struct err
object_root_open(const char *path, struct object_dir **out)
{
	int base = AT_FDCWD, fd;
	struct err e = OK;

	if (strcmp(path, "") == 0)
		return FAIL(BAD_INPUT, "empty data directory");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		/* The names below "/" or the current directory, tidied: the
		 * operator's "./a//b/" is a fine path, though no safe name. */
		char tidy[OBJECT_NAME_MAX] = "";
		const char *at = path;
		size_t len = 0, n;

		for (; *at != '\0'; at += n) {
			at += strspn(at, "/");
			n = strcspn(at, "/");
			if (n == 0 || (n == 1 && at[0] == '.'))
				continue;
			if (len + n + 2 > sizeof(tidy))
				return FAIL(BAD_INPUT, "data directory name too long");
			if (len > 0)
				tidy[len++] = '/';
			memcpy(tidy + len, at, n);
			len += n;
			tidy[len] = '\0';
		}
		if (path[0] == '/')
			base = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		e = temp_dir_open(base, tidy, true, &fd);
		if (base >= 0)
			close(base);
	} else if (fd < 0) {
		e = FAIL_OS(IO, "open data directory");
	}
	if (err_is(e))
		return e;
	return dir_new(fd, true, out);
}

struct err
object_dir_open(struct object_dir *parent, const char *name, bool make,
    struct object_dir **out)
{
	struct err e;
	int fd;

	e = temp_dir_open(parent->fd, name, make, &fd);
	return err_is(e) ? e : dir_new(fd, parent->appends, out);
}

void
object_dir_close(struct object_dir *d)
{
	close(d->fd);
	free(d);
}

bool
object_can_append(const struct object_dir *d)
{
	return d->appends;
}

void
object_put_only(struct object_dir *d)
{
	d->appends = false;
}

struct err
object_dir_here(struct object_dir *parent, const char *name,
    const struct object_dir *d)
{
	struct stat st;

	if (fstatat(parent->fd, name, &st, 0) < 0)
		return FAIL_OS(IO, "look for directory");
	/* No inode gets used again while its directory is open. */
	return st.st_dev == d->dev && st.st_ino == d->ino ? OK :
	    FAIL(NOT_FOUND, "another directory of this name");
}

int
object_dir_fd(const struct object_dir *d)
{
	return d->fd;
}

static struct err
open_file(struct object_dir *d, const char *name, int *fd, struct stat *st)
{
	struct place p;
	struct err e;

	e = temp_place_open(d, name, false, &p);
	if (err_is(e))
		return e;
	*fd = openat(p.fd, p.leaf, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0)
		e = FAIL_OS(IO, "open object");
	temp_place_close(&p);
	if (err_is(e))
		return e;
	if (fstat(*fd, st) < 0)
		e = FAIL_OS(IO, "stat object");
	else if (!S_ISREG(st->st_mode))
		e = FAIL(CORRUPT, "object is not a file");
	if (err_is(e))
		close(*fd);
	return e;
}

struct err
object_read_at(int fd, void *bytes, size_t len, uint64_t offset)
{
	char *at = bytes;
	ssize_t n;

	temp_no_lock();
	while (len > 0) {
		n = pread(fd, at, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return FAIL_OS(IO, "read object");
		if (n == 0)
			return FAIL(CORRUPT, "object is shorter than it should be");
		at += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return OK;
}

struct err
object_get(struct object_dir *d, const char *name, size_t max_bytes,
    struct arena *a, struct slice *out)
{
	struct stat st;
	struct err e;
	char *bytes;
	size_t len;
	int fd;

	e = open_file(d, name, &fd, &st);
	if (err_is(e))
		return e;
	len = (size_t)st.st_size;
	if (len > max_bytes) {
		e = FAIL(CORRUPT, "object is larger than it may be");
		goto out;
	}
	bytes = arena_alloc(a, len);
	if (bytes == NULL) {
		e = FAIL(NO_MEMORY, "object");
		goto out;
	}
	e = object_read_at(fd, bytes, len, 0);
	if (!err_is(e))
		*out = slice_make(bytes, len);
out:
	close(fd);
	return e;
}

struct err
object_entry_open(struct object_dir *d, const char *name, int *fd,
    uint64_t *size_bytes)
{
	struct stat st;
	struct err e;

	e = open_file(d, name, fd, &st);
	if (!err_is(e))
		*size_bytes = (uint64_t)st.st_size;
	return e;
}

struct err
object_put_hint(struct object_dir *d, const char *name, struct slice bytes)
{
	struct place p;
	struct temp t;
	struct err e;

	e = temp_place_open(d, name, true, &p);
	if (err_is(e))
		return e;
	e = temp_create(p.fd, &t);
	if (err_is(e))
		goto out;
	e = temp_write(t.fd, bytes.ptr, bytes.len);
	if (!err_is(e)) {
		if (renameat(p.fd, t.name, p.fd, p.leaf) < 0)
			e = FAIL_OS(IO, "rename hint");
		else
			t.name[0] = '\0';
	}
	temp_drop(p.fd, &t);
out:
	temp_place_close(&p);
	return e;
}

struct err
object_confirm(struct object_dir *d, const char *name)
{
	struct place p;
	struct err e;

	e = temp_place_open(d, name, false, &p);
	if (err_is(e))
		return e;
	e = FAULT(object_link_sync);
	if (err_is(e))
		e = temp_injected(e, "sync directory of object");
	else if (fsync(p.fd) < 0)
		e = FAIL_OS(IO, "sync directory of object");
	temp_place_close(&p);
	return e;
}

struct err
object_exists(struct object_dir *d, const char *name)
{
	temp_no_lock();
	if (faccessat(d->fd, name, F_OK, 0) < 0)
		return FAIL_OS(IO, "look for object");
	return OK;
}

/* False: the object is gone meanwhile. */
static bool
look_at(DIR *dir, const struct dirent *at, struct object_info *info,
    struct err *e)
{
	struct stat st;

	if (fstatat(dirfd(dir), at->d_name, &st, 0) < 0) {
		if (errno != ENOENT)
			*e = FAIL_OS(IO, "stat object");
		return false;
	}
	info->size_bytes = (uint64_t)st.st_size;
	info->modified_us = temp_modified_us(&st);
	info->is_dir = S_ISDIR(st.st_mode);
	return true;
}

static struct err
list(struct object_dir *d, const char *prefix, bool look, object_list_fn *fn,
    void *ctx)
{
	struct object_info info = { 0 };
	struct dirent *at;
	struct err e;
	DIR *dir;

	e = temp_list_open(d, prefix, &dir);
	if (err_is(e))
		return e;
	while (!err_is(e) && (at = temp_list_next(dir, &e)) != NULL) {
		if (temp_is_name(at->d_name))
			continue;
		info.name = slice_of(at->d_name);
		info.is_dir = at->d_type == DT_DIR;
		if ((look || at->d_type == DT_UNKNOWN || at->d_type == DT_LNK) &&
		    !look_at(dir, at, &info, &e))
			continue;
		if (!fn(&info, ctx))
			break;
	}
	closedir(dir);
	return e;
}

struct err
object_list(struct object_dir *d, const char *prefix, object_list_fn *fn,
    void *ctx)
{
	return list(d, prefix, true, fn, ctx);
}

struct err
object_list_names(struct object_dir *d, const char *prefix, object_list_fn *fn,
    void *ctx)
{
	return list(d, prefix, false, fn, ctx);
}

struct err
object_rename(struct object_dir *from_dir, const char *from,
    struct object_dir *to_dir, const char *to)
{
	struct place a, b;
	struct err e;

	e = temp_place_open(from_dir, from, false, &a);
	if (err_is(e))
		return e;
	e = temp_place_open(to_dir, to, true, &b);
	if (err_is(e))
		goto out;
	if (renameat2(a.fd, a.leaf, b.fd, b.leaf, RENAME_NOREPLACE) < 0)
		e = FAIL_OS(IO, "rename object");
	else if (fsync(b.fd) < 0 || fsync(a.fd) < 0)
		e = (struct err){ ERR_UNKNOWN, errno, "sync renamed object" };
	temp_place_close(&b);
out:
	temp_place_close(&a);
	return e;
}

struct err
object_probe(struct object_dir *d)
{
	struct uuid u = uuid_random();
	char text[UUID_TEXT_LEN + 1];
	char name[OBJECT_TEMP_MAX];
	struct err first, second;

	uuid_to_text(&u, text);
	snprintf(name, sizeof(name), ".tmp-probe-%s", text);
	first = object_put_new(d, name, SLICE("first"));
	if (err_is(first))
		return first;
	second = object_put_new(d, name, SLICE("second"));
	first = object_delete(d, name);
	if (second.kind == ERR_EXISTS)
		return first;
	if (err_is(second))
		return second;
	return FAIL(UNSUPPORTED, "the store does not honour put-if-absent");
}

bool
object_on_network(const struct object_dir *d)
{
	/* NFS, SMB, SMB2, CIFS, Ceph, AFS, 9P, FUSE: statfs(2). */
	static const uint32_t magics[] = { 0x6969, 0x517b, 0xfe534d42,
	    0xff534d42, 0x00c36400, 0x5346414f, 0x01021997, 0x65735546 };
	struct statfs fs;
	size_t i;

	if (fstatfs(d->fd, &fs) < 0)
		return false;
	for (i = 0; i < ARRAY_LEN(magics); i++) {
		if ((uint32_t)fs.f_type == magics[i])
			return true;
	}
	return false;
}

struct err
object_dir_changed(struct object_dir *dir, const char *name, uint64_t *wall_ns)
{
	struct stat st;

	temp_no_lock();
	if (fstatat(dir->fd, name, &st, 0) < 0)
		return FAIL_OS(IO, "look at a directory");
	*wall_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000ull +
	    (uint64_t)st.st_mtim.tv_nsec;
	return OK;
}
