#ifndef MEMWALD_TESTS_UNIT_OBJECT_TEST_H
#define MEMWALD_TESTS_UNIT_OBJECT_TEST_H

/*
 * object_test - a directory for each test of worker/object/, and what that
 * module asks of the kernel, in order.
 */

#include "common/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fault.h"
#include "worker/object/local.h"
#include "worker/object/pace.h"

static char root_path[] = "/tmp/memwald-object-XXXXXX";
static struct object_dir *root, *dir;
static struct arena arena;
static int number;

/* M a directory is made, F a file is synced, L a name is linked, D a directory
 * is synced. */
static char trace[256];
static size_t trace_len;

static inline void
note(char c)
{
	if (trace_len + 1 < sizeof(trace))
		trace[trace_len++] = c;
	trace[trace_len] = '\0';
}

int
fsync(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	note(S_ISDIR(st.st_mode) ? 'D' : 'F');
	return (int)syscall(SYS_fsync, fd);
}

int
linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	note('L');
	return (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
}

int
mkdirat(int fd, const char *name, mode_t mode)
{
	note('M');
	return (int)syscall(SYS_mkdirat, fd, name, mode);
}

static inline int
set_up(void **state)
{
	char name[16];
	struct err e;

	(void)state;
	arena_reset(&arena);
	snprintf(name, sizeof(name), "d%d", number++);
	e = object_dir_open(root, name, true, &dir);
	assert_int_equal(e.kind, ERR_OK);
	trace_len = 0;
	trace[0] = '\0';
	return 0;
}

static inline int
tear_down(void **state)
{
	(void)state;
	object_dir_close(dir);
	return 0;
}

static inline void
set_fault(const char *spec)
{
	assert_int_equal(fault_set(spec).kind, ERR_OK);
}

static inline void
put(const char *name, const char *text)
{
	struct err e = object_put_new(dir, name, slice_of(text));

	assert_int_equal(e.kind, ERR_OK);
}

static inline void
assert_holds(const char *name, const char *text)
{
	struct slice got;
	struct err e = object_get(dir, name, 1u << 20, &arena, &got);

	assert_int_equal(e.kind, ERR_OK);
	assert_true(slice_eq(got, slice_of(text)));
}

static inline bool
count_one(const struct object_info *info, void *ctx)
{
	(void)info;
	(*(int *)ctx)++;
	return true;
}

static inline int
listed(const char *prefix)
{
	struct err e;
	int n = 0;

	e = object_list(dir, prefix, count_one, &n);
	assert_int_equal(e.kind, ERR_OK);
	return n;
}

/* Really there, temporary names included. */
static inline int
names_in(struct object_dir *d)
{
	DIR *at = fdopendir(openat(object_dir_fd(d), ".", O_RDONLY | O_DIRECTORY));
	int n = 0;

	assert_non_null(at);
	while (readdir(at) != NULL)
		n++;
	closedir(at);
	return n - 2;
}

static inline void
write_big(const char *name, struct object_pace *pace, size_t bytes)
{
	struct object_writer *w;
	static char piece[10007];
	size_t n, left;
	struct err e;

	memset(piece, 'x', sizeof(piece));
	e = object_writer_open(dir, name, pace, &w);
	assert_int_equal(e.kind, ERR_OK);
	for (left = bytes; left > 0; left -= n) {
		n = MIN(left, sizeof(piece));
		e = object_writer_write(w, piece, n);
		assert_int_equal(e.kind, ERR_OK);
	}
	assert_int_equal(object_writer_at(w), bytes);
	assert_int_equal(object_exists(dir, name).kind, ERR_NOT_FOUND);
	e = object_writer_finish(w);
	assert_int_equal(e.kind, ERR_OK);
}

static inline void
see_ok(struct err e)
{
	if (err_is(e))
		fail_msg("%s: %s", err_name(e), e.what);
}

static inline int
root_set_up(void **state)
{
	(void)state;
	MUST(mkdtemp(root_path) != NULL);
	see_ok(object_root_open(root_path, &root));
	arena_init(&arena, 16u << 20);
	return 0;
}

static inline int
root_tear_down(void **state)
{
	(void)state;
	arena_free(&arena);
	object_dir_close(root);
	see_ok(object_root_open("/tmp", &root));
	see_ok(object_delete_tree(root, root_path + sizeof("/tmp/") - 1));
	object_dir_close(root);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
