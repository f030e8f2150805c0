#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "worker/object/pace.h"
#include "worker/object/temp.h"

/* A file larger than this is cut down in steps before it is unlinked: giving
 * back many blocks at once holds up the syncs of others. */
#define CUT_ABOVE	(4u << 20)
#define CUT_STEP	(1u << 20)

#define TREE_DEPTH_MAX	16

/* Who cleans leaves young temporary files alone: between its creation and its
 * lock a file looks like a dead one. */
#define TEMP_AGE_US	(60 * US_PER_SEC)

struct deleting {
	struct object_pace *pace;	/* NULL: at once */
	struct object_gone gone;
};

/* A step of it costs the disk about what a step of a write does: both are one
 * change of the file system's journal. */
static void
take_step(struct deleting *d)
{
	if (d->pace != NULL)
		object_pace_take(d->pace, OBJECT_PACE_STEP);
}

/*
 * Whether another process of this machine has it open, or mapped: a list of
 * another instance, or of an old version, that is slower than the grace. To it
 * an unlink means nothing, while bytes that are cut away are damage. A lease for
 * writing is granted to who has a file for himself; it is given back at once,
 * and should somebody ask in between, its signal is one that nobody minds.
 */
static bool
somebody_reads(int fd)
{
	if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return errno == EAGAIN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/*
 * Under a temporary name, so that nobody opens half a file; and not while it
 * has another name, whose bytes these are as well.
 */
static void
cut_down(struct deleting *d, int dir_fd, const char *leaf,
    const struct stat *st)
{
	struct temp t;
	off_t size;

	if (!S_ISREG(st->st_mode) || st->st_nlink != 1 ||
	    st->st_size <= CUT_ABOVE)
		return;
	if (err_is(temp_create(dir_fd, &t)))
		return;
	if (renameat(dir_fd, leaf, dir_fd, t.name) == 0) {
		int fd = openat(dir_fd, t.name, O_WRONLY | O_CLOEXEC);

		if (fd >= 0 && somebody_reads(fd)) {
			close(fd);
			fd = -1;
		}
		for (size = st->st_size; fd >= 0 && size > CUT_STEP; ) {
			take_step(d);
			size -= CUT_STEP;
			if (ftruncate(fd, size) < 0)
				break;
		}
		if (fd >= 0)
			close(fd);
	}
	temp_drop(dir_fd, &t);
}

static struct err
delete_file(struct deleting *d, int dir_fd, const char *leaf)
{
	struct stat st;

	if (fstatat(dir_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? OK : FAIL_OS(IO, "look at object");
	take_step(d);
	cut_down(d, dir_fd, leaf, &st);
	if (unlinkat(dir_fd, leaf, 0) < 0 && errno != ENOENT)
		return FAIL_OS(IO, "delete object");
	d->gone.objects++;
	if (st.st_nlink == 1)
		d->gone.bytes += (uint64_t)st.st_blocks * 512;
	return OK;
}

struct err
object_delete(struct object_dir *d, const char *name)
{
	struct deleting now = { .pace = NULL };
	struct place p;
	struct err e;

	e = temp_place_open(d, name, false, &p);
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	if (err_is(e))
		return e;
	e = delete_file(&now, p.fd, p.leaf);
	temp_place_close(&p);
	return e;
}

/* Opens the directory for the walk; an ordinary file is deleted at once. */
static struct err
tree_enter(struct deleting *d, int dir_fd, const char *leaf, DIR **out)
{
	int fd = openat(dir_fd, leaf,
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	*out = NULL;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return delete_file(d, dir_fd, leaf);
	if (fd < 0)
		return errno == ENOENT ? OK : FAIL_OS(IO, "open tree");
	*out = fdopendir(fd);
	if (*out == NULL) {
		struct err e = FAIL_OS(IO, "list tree");

		close(fd);
		return e;
	}
	return OK;
}

static struct err
delete_all(struct object_dir *d, const char *name, struct deleting *how)
{
	DIR *stack[TREE_DEPTH_MAX];
	char names[TREE_DEPTH_MAX][NAME_MAX + 1];
	struct dirent *at;
	struct place p;
	struct err e;
	int depth = 0;

	e = temp_place_open(d, name, false, &p);
	if (err_is(e))
		return e.kind == ERR_NOT_FOUND ? OK : e;
	e = tree_enter(how, p.fd, p.leaf, &stack[0]);
	if (!err_is(e) && stack[0] != NULL)
		depth = 1;
	while (depth > 0 && !err_is(e)) {
		at = temp_list_next(stack[depth - 1], &e);
		if (at != NULL && depth == TREE_DEPTH_MAX) {
			e = FAIL(CORRUPT, "tree is too deep to delete");
		} else if (at != NULL) {
			strcpy(names[depth], at->d_name);
			e = tree_enter(how, dirfd(stack[depth - 1]),
			    at->d_name, &stack[depth]);
			if (!err_is(e) && stack[depth] != NULL)
				depth++;
		} else if (!err_is(e)) {
			closedir(stack[--depth]);
			if (unlinkat(depth == 0 ? p.fd : dirfd(stack[depth - 1]),
			    depth == 0 ? p.leaf : names[depth], AT_REMOVEDIR) < 0 &&
			    errno != ENOENT)
				e = FAIL_OS(IO, "delete directory");
		}
	}
	while (depth > 0)
		closedir(stack[--depth]);
	temp_place_close(&p);
	return e;
}

struct err
object_delete_tree(struct object_dir *d, const char *name)
{
	struct deleting now = { .pace = NULL };

	return delete_all(d, name, &now);
}

struct err
object_delete_paced(struct object_dir *d, const char *name,
    struct object_pace *pace, struct object_gone *gone)
{
	struct deleting slowly = { .pace = pace };
	struct err e = delete_all(d, name, &slowly);

	gone->objects += slowly.gone.objects;
	gone->bytes += slowly.gone.bytes;
	return e;
}

struct err
object_clean_temp(struct object_dir *d, const char *prefix, uint32_t *removed)
{
	uint64_t now_us = clock_wall_us();
	struct dirent *at;
	struct stat st;
	struct err e;
	DIR *dir;
	int fd;

	*removed = 0;
	e = temp_list_open(d, prefix, &dir);
	if (err_is(e))
		return e;
	while ((at = temp_list_next(dir, &e)) != NULL) {
		if (!temp_is_name(at->d_name))
			continue;
		fd = openat(dirfd(dir), at->d_name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (fstat(fd, &st) == 0 &&
		    temp_modified_us(&st) + TEMP_AGE_US < now_us &&
		    flock(fd, LOCK_EX | LOCK_NB) == 0 &&
		    unlinkat(dirfd(dir), at->d_name, 0) == 0)
			(*removed)++;
		close(fd);
	}
	closedir(dir);
	return e;
}
