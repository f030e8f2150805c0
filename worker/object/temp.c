#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/uuid.h"
#include "worker/object/temp.h"

#define PREFIX ".tmp-"
#define CREATE_TRIES 16

bool
temp_is_name(const char *leaf)
{
	return strncmp(leaf, PREFIX, sizeof(PREFIX) - 1) == 0;
}

struct err
temp_injected(struct err e, const char *what)
{
	if (e.os == 0)
		return e;
	errno = e.os;
	return FAIL_OS(IO, what);
}

/* Relative, and no empty, "." or ".." component. */
static bool
name_is_safe(const char *name)
{
	const char *at = name;

	if (strlen(name) >= OBJECT_NAME_MAX)
		return false;
	for (;;) {
		size_t n = strcspn(at, "/");

		if (n == 0 || (n == 1 && at[0] == '.') ||
		    (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		if (at[n] == '\0')
			return true;
		at += n + 1;
	}
}

static struct err
sync_dir_of(int fd, const char *parent)
{
	int dir = openat(fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = OK;

	if (dir < 0)
		return FAIL_OS(IO, "open parent directory");
	if (fsync(dir) < 0)
		e = FAIL_OS(IO, "sync parent directory");
	close(dir);
	return e;
}

/*
 * Each component in turn. The parent is synced also when somebody else made
 * the component meanwhile: he may not have come to that yet.
 */
static struct err
make_dirs(int fd, const char *name)
{
	char path[OBJECT_NAME_MAX];
	char parent[OBJECT_NAME_MAX] = ".";
	size_t at = 0, n;
	struct err e;

	for (;;) {
		n = strcspn(name + at, "/");
		memcpy(path, name, at + n);
		path[at + n] = '\0';
		if (mkdirat(fd, path, 0777) < 0 && errno != EEXIST)
			return FAIL_OS(IO, "make directory");
		e = sync_dir_of(fd, parent);
		if (err_is(e))
			return e;
		if (name[at + n] == '\0')
			return OK;
		memcpy(parent, path, at + n + 1);
		at += n + 1;
	}
}

struct err
temp_dir_open(int fd, const char *name, bool make, int *out)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	struct err e;
	int dir;

	temp_no_lock();
	if (!name_is_safe(name))
		return FAIL(CORRUPT, "object name leaves its directory");
	dir = openat(fd, name, flags);
	if (dir < 0 && errno == ENOENT && make) {
		e = make_dirs(fd, name);
		if (err_is(e))
			return e;
		dir = openat(fd, name, flags);
	}
	if (dir < 0)
		return FAIL_OS(IO, "open directory");
	*out = dir;
	return OK;
}

struct err
temp_place_open(struct object_dir *d, const char *name, bool make,
    struct place *p)
{
	const char *slash = strrchr(name, '/');
	char parent[OBJECT_NAME_MAX];
	struct err e;

	temp_no_lock();
	if (!name_is_safe(name))
		return FAIL(CORRUPT, "object name leaves its directory");
	if (slash == NULL) {
		*p = (struct place){ d->fd, false, name };
		return OK;
	}
	memcpy(parent, name, (size_t)(slash - name));
	parent[slash - name] = '\0';
	e = temp_dir_open(d->fd, parent, make, &p->fd);
	if (err_is(e))
		return e;
	p->owned = true;
	p->leaf = slash + 1;
	return OK;
}

void
temp_place_close(struct place *p)
{
	if (p->owned)
		close(p->fd);
}

/* False: whoever cleans had it first; he leaves young files alone, but between
 * making and locking one clocks may leap, and we may have slept. */
static bool
lock(int fd)
{
	struct stat st;

	/* Where there are no locks he gets none either. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return false;
	return fstat(fd, &st) < 0 || st.st_nlink > 0;
}

static struct err
create(int dir_fd, struct temp *t)
{
	struct uuid u = uuid_random();
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(&u, text);
	snprintf(t->name, sizeof(t->name), PREFIX "%d-%s", (int)getpid(), text);
	t->fd = openat(dir_fd, t->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
	    0666);
	return t->fd < 0 ? FAIL_OS(IO, "create temporary file") : OK;
}

struct err
temp_create(int dir_fd, struct temp *t)
{
	struct err e;
	int tries;

	for (tries = 0; tries < CREATE_TRIES; tries++) {
		e = create(dir_fd, t);
		if (err_is(e) || lock(t->fd))
			return e;
		close(t->fd);
		unlinkat(dir_fd, t->name, 0);
	}
	return FAIL(BUSY, "temporary files are removed as fast as they are "
	    "made");
}

struct err
temp_write(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;
	struct err e = FAULT(object_write);
	ssize_t n;

	temp_no_lock();
	if (err_is(e))
		return temp_injected(e, "write object");
	while (len > 0) {
		n = write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return FAIL_OS(IO, "write object");
		at += n;
		len -= (size_t)n;
	}
	return OK;
}

struct err
temp_sync_step(int fd, uint64_t at, size_t len)
{
	temp_no_lock();
	if (sync_file_range(fd, (off_t)at, (off_t)len,
	    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
	    SYNC_FILE_RANGE_WAIT_AFTER) < 0 &&
	    errno != ENOSYS && errno != EPERM && errno != EINVAL)
		return FAIL_OS(IO, "sync step of object");
	return OK;
}

/* Anything else may be an answer that was lost on its way: a network's. */
static bool
is_refusal(int os)
{
	switch (os) {
	case EEXIST: case ENOENT: case ENOSPC: case EDQUOT: case EACCES:
	case EPERM: case EROFS: case EMLINK: case ENAMETOOLONG: case ENOMEM:
		return true;
	default:
		return false;
	}
}

struct err
temp_publish(int dir_fd, struct temp *t, const char *leaf)
{
	struct err e = FAULT(object_sync);

	temp_no_lock();
	if (err_is(e))
		return temp_injected(e, "sync object");
	if (fsync(t->fd) < 0)
		return FAIL_OS(IO, "sync object");
	e = FAULT(object_link);
	if (err_is(e))
		return temp_injected(e, "link object");
	if (linkat(dir_fd, t->name, dir_fd, leaf, 0) < 0)
		return is_refusal(errno) ? FAIL_OS(IO, "link object") :
		    (struct err){ ERR_UNKNOWN, errno, "link object" };
	FAULT_HERE(object_linked);
	unlinkat(dir_fd, t->name, 0);
	t->name[0] = '\0';
	e = FAULT(object_link_sync);
	if (err_is(e) || fsync(dir_fd) < 0) {
		return (struct err){ ERR_UNKNOWN, err_is(e) ? e.os : errno,
		    "sync directory of object" };
	}
	return OK;
}

void
temp_drop(int dir_fd, struct temp *t)
{
	if (t->name[0] != '\0')
		unlinkat(dir_fd, t->name, 0);
	close(t->fd);
}

struct err
temp_list_open(struct object_dir *d, const char *prefix, DIR **out)
{
	struct err e = OK;
	int fd;

	temp_no_lock();
	/* A descriptor of its own: the position is shared by all that dup. */
	if (*prefix == '\0') {
		fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			e = FAIL_OS(IO, "open directory");
	} else {
		e = temp_dir_open(d->fd, prefix, false, &fd);
	}
	if (err_is(e))
		return e;
	*out = fdopendir(fd);
	if (*out == NULL) {
		e = FAIL_OS(IO, "list directory");
		close(fd);
	}
	return e;
}

/* The next name but "." and ".."; NULL at the end, or with an error. */
struct dirent *
temp_list_next(DIR *dir, struct err *e)
{
	struct dirent *at;

	do {
		errno = 0;
		at = readdir(dir);
	} while (at != NULL && (strcmp(at->d_name, ".") == 0 ||
	    strcmp(at->d_name, "..") == 0));
	if (at == NULL && errno != 0)
		*e = FAIL_OS(IO, "list directory");
	return at;
}

static uint64_t
us_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * US_PER_SEC + (uint64_t)t->tv_nsec /
	    NS_PER_US;
}

uint64_t
temp_modified_us(const struct stat *st)
{
	return us_of(&st->st_mtim);
}

uint64_t
temp_changed_us(const struct stat *st)
{
	return us_of(&st->st_ctim);
}
