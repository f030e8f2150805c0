#include "common/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/fault.h"
#include "shm/order.h"
#include "worker/object/local.h"
#include "worker/object/map.h"
#include "worker/object/pace.h"

static char root_path[] = "/tmp/memwald-object-XXXXXX";
static struct object_dir *root, *dir;
static struct arena arena;
static int number;

/* What the module asks of the kernel, in order: M a directory is made, F a file
 * is synced, L a name is linked, D a directory is synced. */
static char trace[256];
static size_t trace_len;

static void
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

/* How short a file was made last. */
static off_t cut_to;

int
ftruncate(int fd, off_t size)
{
	cut_to = size;
	return (int)syscall(SYS_ftruncate, fd, size);
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

static int
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

static int
tear_down(void **state)
{
	(void)state;
	object_dir_close(dir);
	return 0;
}

static void
set_fault(const char *spec)
{
	assert_int_equal(fault_set(spec).kind, ERR_OK);
}

static void
put(const char *name, const char *text)
{
	struct err e = object_put_new(dir, name, slice_of(text));

	assert_int_equal(e.kind, ERR_OK);
}

static void
assert_holds(const char *name, const char *text)
{
	struct slice got;
	struct err e = object_get(dir, name, 1u << 20, &arena, &got);

	assert_int_equal(e.kind, ERR_OK);
	assert_true(slice_eq(got, slice_of(text)));
}

static bool
count_one(const struct object_info *info, void *ctx)
{
	(void)info;
	(*(int *)ctx)++;
	return true;
}

static int
listed(const char *prefix)
{
	struct err e;
	int n = 0;

	e = object_list(dir, prefix, count_one, &n);
	assert_int_equal(e.kind, ERR_OK);
	return n;
}

/* Really there, temporary names included. */
static int
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

static bool
count_dirs(const struct object_info *info, void *ctx)
{
	assert_true(info->is_dir == slice_eq(info->name, SLICE("x")));
	*(int *)ctx += info->is_dir;
	return true;
}

static bool
check_info(const struct object_info *info, void *ctx)
{
	assert_true(info->modified_us > 0);
	if (slice_eq(info->name, SLICE("a")))
		assert_int_equal(info->size_bytes, 3);
	return count_dirs(info, ctx);
}

static void
test_put_and_get(void **state)
{
	struct slice got;
	struct err e;
	int dirs = 0;

	(void)state;
	e = object_get(dir, "a", 10, &arena, &got);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(object_exists(dir, "a").kind, ERR_NOT_FOUND);
	put("a", "one");
	e = object_put_new(dir, "a", SLICE("two"));
	assert_int_equal(e.kind, ERR_EXISTS);
	assert_holds("a", "one");
	assert_int_equal(object_exists(dir, "a").kind, ERR_OK);
	e = object_get(dir, "a", 2, &arena, &got);
	assert_int_equal(e.kind, ERR_CORRUPT);
	put("empty", "");
	assert_holds("empty", "");
	put("x/y/z", "deep");
	assert_holds("x/y/z", "deep");
	assert_int_equal(listed(""), 3);
	e = object_list(dir, "", check_info, &dirs);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(dirs, 1);
	e = object_list_names(dir, "", count_dirs, &dirs);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(dirs, 2);
	assert_int_equal(listed("x"), 1);
	e = object_list(dir, "nothing", count_one, &(int){ 0 });
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(object_delete(dir, "a").kind, ERR_OK);
	assert_int_equal(object_delete(dir, "a").kind, ERR_OK);
	assert_int_equal(object_delete(dir, "no/such/place").kind, ERR_OK);
	assert_int_equal(object_exists(dir, "a").kind, ERR_NOT_FOUND);
	assert_int_equal(names_in(dir), 2);
}

/* Field fault A.8. */
static void
test_order_of_syncs(void **state)
{
	(void)state;
	put("a", "one");
	assert_string_equal(trace, "FLD");
	trace_len = 0;
	put("x/y/z", "deep");
	assert_string_equal(trace, "MDMDFLD");
	trace_len = 0;
	put("x/y/w", "deep");
	assert_string_equal(trace, "FLD");
}

static void
test_unsafe_names(void **state)
{
	static const char *const names[] = { "", "/etc/passwd", "..", "../a",
		"a/../../b", "a//b", "a/", "./a", "a/./b" };
	struct slice got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(object_get(dir, names[i], 10, &arena,
		    &got).kind, ERR_CORRUPT);
		assert_int_equal(object_put_new(dir, names[i], SLICE("x")).kind,
		    ERR_CORRUPT);
	}
}

static void
test_hint(void **state)
{
	struct err e;

	(void)state;
	e = object_put_hint(dir, "h/hint.json", SLICE("1"));
	assert_int_equal(e.kind, ERR_OK);
	e = object_put_hint(dir, "h/hint.json", SLICE("22"));
	assert_int_equal(e.kind, ERR_OK);
	assert_holds("h/hint.json", "22");
	assert_int_equal(listed("h"), 1);
}

/* Every failing step leaves nothing, and the next put succeeds. */
static void
test_full_disk(void **state)
{
	static const char *const points[] = { "object_put", "object_write",
		"object_sync", "object_link" };
	char spec[64];
	struct err e;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(points); i++) {
		snprintf(spec, sizeof(spec), "%s=fail:28:1", points[i]);
		set_fault(spec);
		e = object_put_new(dir, "a", SLICE("one"));
		assert_int_equal(e.kind, ERR_FULL);
		assert_int_equal(e.os, ENOSPC);
		assert_int_equal(names_in(dir), 0);
		snprintf(spec, sizeof(spec), "%s=off", points[i]);
		set_fault(spec);
	}
	put("a", "one");
	assert_holds("a", "one");
}

/* A write that the kernel cuts short, and then refuses. */
static void
test_short_write(void **state)
{
	struct rlimit before, limit;
	static char bytes[8192];
	struct err e;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 5000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	e = object_put_new(dir, "a", slice_make(bytes, sizeof(bytes)));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(e.kind, ERR_IO);
	assert_int_equal(e.os, EFBIG);
	assert_int_equal(names_in(dir), 0);
}

static void
test_unknown(void **state)
{
	struct err e;

	(void)state;
	set_fault("object_link_sync=fail:5:1");
	e = object_put_new(dir, "a", SLICE("one"));
	set_fault("object_link_sync=off");
	assert_int_equal(e.kind, ERR_UNKNOWN);
	assert_holds("a", "one");
	assert_int_equal(names_in(dir), 1);
	set_fault("object_link_sync=fail:5:1");
	e = object_confirm(dir, "a");
	assert_int_equal(e.kind, ERR_IO);
	e = object_confirm(dir, "a");
	assert_int_equal(e.kind, ERR_OK);
}

/* One of four wins, and the object is all his. */
static void
test_race(void **state)
{
	char name[16], text[16];
	pid_t pids[4];
	int status, won, i, round;
	struct err e;

	(void)state;
	for (round = 0; round < 50; round++) {
		snprintf(name, sizeof(name), "r/%d", round);
		for (i = 0; i < 4; i++) {
			pids[i] = fork();
			if (pids[i] != 0)
				continue;
			snprintf(text, sizeof(text), "%d", i);
			e = object_put_new(dir, name, slice_of(text));
			_exit(e.kind == ERR_OK ? 0 : e.kind == ERR_EXISTS ? 1 : 2);
		}
		won = -1;
		for (i = 0; i < 4; i++) {
			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
			if (WEXITSTATUS(status) == 0) {
				assert_int_equal(won, -1);
				won = i;
			}
		}
		assert_true(won >= 0);
		snprintf(text, sizeof(text), "%d", won);
		assert_holds(name, text);
	}
	assert_int_equal(listed("r"), 50);
}

static void
age_all(struct object_dir *d)
{
	const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
	DIR *at = fdopendir(openat(object_dir_fd(d), ".", O_RDONLY | O_DIRECTORY));
	struct dirent *n;

	assert_non_null(at);
	while ((n = readdir(at)) != NULL) {
		if (strncmp(n->d_name, ".tmp-", 5) == 0)
			assert_int_equal(utimensat(dirfd(at), n->d_name, old, 0), 0);
	}
	closedir(at);
}

/* Killed anywhere: the name is there with all its bytes, or not at all; what
 * stays behind is cleaned, what somebody still writes is not. */
static void
test_killed(void **state)
{
	static const struct {
		const char *fault;
		bool there;
		int left;
	} cases[] = {
		{ "object_put=die", false, 0 }, { "object_write=die", false, 1 },
		{ "object_sync=die", false, 1 }, { "object_link=die", false, 1 },
		{ "object_linked=die", true, 1 },
		{ "object_link_sync=die", true, 0 },
	};
	struct object_writer *live;
	uint32_t removed;
	struct err e;
	pid_t pid;
	size_t i;
	int status;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		pid = fork();
		if (pid == 0) {
			e = fault_set(cases[i].fault);
			if (!err_is(e))
				e = object_put_new(dir, "a", SLICE("one"));
			_exit(1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(listed(""), cases[i].there);
		if (cases[i].there)
			assert_holds("a", "one");
		assert_int_equal(names_in(dir), cases[i].there + cases[i].left);

		/* Young: it may be one that is just being made. */
		e = object_clean_temp(dir, "", &removed);
		assert_int_equal(e.kind, ERR_OK);
		assert_int_equal(removed, 0);
		e = object_writer_open(dir, "live", NULL, &live);
		assert_int_equal(e.kind, ERR_OK);
		age_all(dir);
		e = object_clean_temp(dir, "", &removed);
		assert_int_equal(e.kind, ERR_OK);
		assert_int_equal(removed, cases[i].left);
		e = object_writer_finish(live);
		assert_int_equal(e.kind, ERR_OK);
		assert_int_equal(object_delete(dir, "live").kind, ERR_OK);
		assert_int_equal(object_delete(dir, "a").kind, ERR_OK);
		assert_int_equal(names_in(dir), 0);
	}
}

static void
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

static void
test_writer(void **state)
{
	struct object_writer *w;
	struct object_pace pace;
	struct object_map m;
	struct slice got;
	struct err e;
	size_t i;

	(void)state;
	object_pace_init(&pace, 1ull << 40);
	write_big("w/big", &pace, 200001);
	e = object_map_open(dir, "w/big", &m);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(m.len, 200001);
	for (i = 0; i < m.len; i++)
		assert_int_equal(m.ptr[i], 'x');
	object_map_close(&m);

	e = object_writer_open(dir, "w/big", NULL, &w);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_write(w, "abc", 3);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_pad(w, 64);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_pad(w, 64);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(object_writer_at(w), 64);
	e = object_writer_finish(w);
	assert_int_equal(e.kind, ERR_EXISTS);

	e = object_writer_open(dir, "w/other", NULL, &w);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_write(w, "abc", 3);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_pad(w, 8);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_finish(w);
	assert_int_equal(e.kind, ERR_OK);
	e = object_get(dir, "w/other", 100, &arena, &got);
	assert_int_equal(e.kind, ERR_OK);
	assert_true(slice_eq(got, slice_make("abc\0\0\0\0", 8)));

	e = object_writer_open(dir, "w/never", NULL, &w);
	assert_int_equal(e.kind, ERR_OK);
	object_writer_abort(w);
	set_fault("object_write=fail:28:1");
	e = object_writer_open(dir, "w/never", &pace, &w);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_write(w, "abc", 3);
	assert_int_equal(e.kind, ERR_OK);
	e = object_writer_finish(w);
	set_fault("object_write=off");
	assert_int_equal(e.kind, ERR_FULL);
	assert_int_equal(listed("w"), 2);
}

static void
see_ok(struct err e)
{
	if (err_is(e))
		fail_msg("%s: %s", err_name(e), e.what);
}

/* Counted is what went; a step of a large file takes its turn. */
static void
test_delete_paced(void **state)
{
	static char bytes[6u << 20];
	struct object_gone gone = { 0 };
	struct object_pace pace;
	uint64_t began;

	(void)state;
	object_pace_init(&pace, 2u << 20);	/* 32 steps a second */
	memset(bytes, 'x', sizeof(bytes));
	see_ok(object_put_new(dir, "t/large", slice_make(bytes,
	    sizeof(bytes))));
	put("t/u/small", "1");
	began = clock_mono_ns();
	see_ok(object_delete_paced(dir, "t", &pace, &gone));
	assert_true(clock_mono_ns() - began >= 100 * NS_PER_MS);
	assert_int_equal(gone.objects, 2);
	assert_true(gone.bytes >= sizeof(bytes));
	assert_int_equal(object_exists(dir, "t").kind, ERR_NOT_FOUND);
	see_ok(object_delete_paced(dir, "t", NULL, &gone));
	assert_int_equal(gone.objects, 2);
}

/* Who has mapped it reads on, though it is gone. */
static void
test_delete_what_is_read(void **state)
{
	static char bytes[6u << 20];
	struct object_gone gone = { 0 };
	struct object_map map;

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	see_ok(object_put_new(dir, "t/large", slice_make(bytes,
	    sizeof(bytes))));
	see_ok(object_map_open(dir, "t/large", &map));
	cut_to = sizeof(bytes);
	see_ok(object_delete_paced(dir, "t", NULL, &gone));
	assert_int_equal(object_exists(dir, "t").kind, ERR_NOT_FOUND);
	assert_int_equal(cut_to, sizeof(bytes));
	assert_memory_equal(map.ptr, bytes, sizeof(bytes));
	object_map_close(&map);
}

/* Its first bytes, its name and its size stay. */
static void
test_punch(void **state)
{
	static char bytes[64u << 10], got[sizeof(bytes)];
	struct object_entry entry;
	uint64_t size, freed = 0, again = 0;
	int fd;

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	see_ok(object_entry_create(dir, "wal", sizeof(bytes), &entry));
	see_ok(object_write_sync(entry.fd, bytes, sizeof(bytes), 0));
	see_ok(object_entry_link(dir, &entry, "wal/1"));
	close(entry.fd);
	see_ok(object_entry_punch(dir, "wal/1", 5000, &freed));
	see_ok(object_entry_punch(dir, "wal/1", 5000, &again));
	assert_int_equal(again, 0);
	see_ok(object_entry_open(dir, "wal/1", &fd, &size));
	assert_int_equal(size, sizeof(bytes));
	see_ok(object_read_at(fd, got, sizeof(got), 0));
	close(fd);
	assert_memory_equal(got, bytes, 8192);
	/* Unless the file system cannot. */
	if (freed > 0) {
		assert_int_equal(freed, sizeof(bytes) - 8192);
		memset(bytes, 0, sizeof(bytes));
		assert_memory_equal(got + 8192, bytes, sizeof(bytes) - 8192);
	}
	assert_int_equal(object_entry_punch(dir, "wal/2", 0, &freed).kind,
	    ERR_NOT_FOUND);
}

/* A large file is cut down before it goes, but not the bytes of another name. */
static void
test_delete_large(void **state)
{
	struct stat st;

	(void)state;
	write_big("a", NULL, 9u << 20);
	cut_to = 9u << 20;
	assert_int_equal(object_delete(dir, "a").kind, ERR_OK);
	assert_true(cut_to <= 1 << 20);
	write_big("a", NULL, 9u << 20);
	assert_int_equal(linkat(object_dir_fd(dir), "a", object_dir_fd(dir), "b",
	    0), 0);
	assert_int_equal(object_delete(dir, "a").kind, ERR_OK);
	assert_int_equal(fstatat(object_dir_fd(dir), "b", &st, 0), 0);
	assert_int_equal(st.st_size, 9u << 20);
	assert_int_equal(names_in(dir), 1);
}

static void
test_rename(void **state)
{
	struct object_dir *other;
	struct err e;

	(void)state;
	put("s/a", "one");
	put("s/t/b", "two");
	put("d", "taken");
	e = object_rename(dir, "s", dir, "d");
	assert_int_equal(e.kind, ERR_EXISTS);
	e = object_dir_open(dir, "s", false, &other);
	assert_int_equal(e.kind, ERR_OK);
	trace_len = 0;
	e = object_rename(dir, "s", dir, "away/s-1");
	assert_int_equal(e.kind, ERR_OK);
	assert_string_equal(trace, "MDDD");
	assert_holds("away/s-1/t/b", "two");
	assert_int_equal(object_exists(dir, "s").kind, ERR_NOT_FOUND);
	/* Late work hits the dead tree. */
	e = object_put_new(other, "late", SLICE("x"));
	assert_int_equal(e.kind, ERR_OK);
	object_dir_close(other);
	assert_holds("away/s-1/late", "x");
	e = object_rename(dir, "s", dir, "t");
	assert_int_equal(e.kind, ERR_NOT_FOUND);
}

static void
test_delete_tree(void **state)
{
	struct err e;

	(void)state;
	put("keep/a", "kept");
	put("tree/a", "1");
	put("tree/b/c/d/e/f", "2");
	put("tree/b/g", "3");
	assert_int_equal(symlinkat("../keep", object_dir_fd(dir), "tree/link"), 0);
	e = object_delete_tree(dir, "tree");
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(object_exists(dir, "tree").kind, ERR_NOT_FOUND);
	assert_holds("keep/a", "kept");
	e = object_delete_tree(dir, "tree");
	assert_int_equal(e.kind, ERR_OK);
	put("t/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", "deep");
	e = object_delete_tree(dir, "t");
	assert_int_equal(e.kind, ERR_CORRUPT);
	e = object_delete_tree(dir, "t/1/2/3");
	assert_int_equal(e.kind, ERR_OK);
	e = object_delete_tree(dir, "t");
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(names_in(dir), 1);
}

static void
test_entry(void **state)
{
	struct object_entry entry, second;
	char bytes[65536], zeroes[65536] = { 0 };
	uint64_t size;
	struct err e;
	int fd;

	(void)state;
	e = object_entry_create(dir, "wal", sizeof(bytes), &entry);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(listed("wal"), 0);
	e = object_write_sync(entry.fd, "head", 4, 0);
	assert_int_equal(e.kind, ERR_OK);
	trace_len = 0;
	e = object_entry_link(dir, &entry, "wal/1.arrow");
	assert_int_equal(e.kind, ERR_OK);
	assert_string_equal(trace, "FLD");
	assert_int_equal(listed("wal"), 1);
	e = object_write_sync(entry.fd, "tail", 4, 1000);
	assert_int_equal(e.kind, ERR_OK);
	close(entry.fd);

	e = object_entry_open(dir, "wal/1.arrow", &fd, &size);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(size, sizeof(bytes));
	e = object_read_at(fd, bytes, sizeof(bytes), 0);
	assert_int_equal(e.kind, ERR_OK);
	memcpy(zeroes, "head", 4);
	memcpy(zeroes + 1000, "tail", 4);
	assert_memory_equal(bytes, zeroes, sizeof(bytes));
	e = object_read_at(fd, bytes, 2, size - 1);
	assert_int_equal(e.kind, ERR_CORRUPT);
	assert_int_equal(object_sync(fd).kind, ERR_OK);
	close(fd);

	e = object_entry_create(dir, "wal", 100, &second);
	assert_int_equal(e.kind, ERR_OK);
	e = object_entry_link(dir, &second, "wal/1.arrow");
	assert_int_equal(e.kind, ERR_EXISTS);
	e = object_entry_link(dir, &second, "wal/2.arrow");
	assert_int_equal(e.kind, ERR_OK);
	close(second.fd);
	e = object_entry_create(dir, "wal", 100, &second);
	assert_int_equal(e.kind, ERR_OK);
	object_entry_abandon(dir, &second);
	set_fault("object_write=fail:28:1");
	e = object_entry_create(dir, "wal", 100, &second);
	set_fault("object_write=off");
	assert_int_equal(e.kind, ERR_FULL);
	assert_int_equal(listed("wal"), 2);
}

/* marked reads */

struct cut {
	const struct object_map *map;
	uint64_t sum;
};

static struct err
sum_all(void *ctx)
{
	struct cut *c = ctx;
	size_t i;

	for (i = 0; i < c->map->len; i++)
		c->sum += c->map->ptr[i];
	return OK;
}

static struct err
sum_nested(void *ctx)
{
	struct err e = object_map_guarded(sum_all, ctx);

	if (e.kind != ERR_CORRUPT)
		return e;
	/* The outer mark holds again. */
	return sum_all(ctx);
}

static void *
sum_in_thread(void *ctx)
{
	struct cut c = { ctx, 0 };
	int i;

	for (i = 0; i < 100; i++) {
		if (object_map_guarded(sum_nested, &c).kind != ERR_CORRUPT)
			return ctx;
	}
	return NULL;
}

static void
test_cut_map(void **state)
{
	struct object_map m;
	struct cut c = { &m, 0 };
	pthread_t threads[4];
	void *failed;
	struct err e;
	pid_t pid;
	int status, i;

	(void)state;
	object_map_install();		/* cmocka has one of its own */
	write_big("m", NULL, 100000);
	e = object_map_open(dir, "m", &m);
	assert_int_equal(e.kind, ERR_OK);
	e = object_map_guarded(sum_all, &c);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(c.sum, 100000 * 'x');
	i = openat(object_dir_fd(dir), "m", O_WRONLY);
	assert_int_equal(ftruncate(i, 4096), 0);
	close(i);
	for (i = 0; i < 3; i++) {
		e = object_map_guarded(sum_all, &c);
		assert_int_equal(e.kind, ERR_CORRUPT);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, sum_in_thread,
		    &m), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}

	/* Outside of a marked read it kills. */
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		e = sum_all(&c);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	object_map_close(&m);

	put("none", "");
	e = object_map_open(dir, "none", &m);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(m.len, 0);
	object_map_close(&m);
}

/* Four processes count under it, one dies with it. */
static void
test_lock(void **state)
{
	char *count;
	pid_t pids[4], pid;
	int i, k, lock, status;
	struct err e;

	(void)state;
	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(count != MAP_FAILED);
	for (i = 0; i < 4; i++) {
		pids[i] = fork();
		for (k = 0; pids[i] == 0 && k < 5; k++) {
			char seen;

			e = object_lock(dir, "l/one", 60 * NS_PER_SEC, &lock);
			if (err_is(e))
				_exit(1);
			seen = *(volatile char *)count;
			usleep(1000);
			*(volatile char *)count = (char)(seen + 1);
			object_unlock(lock);
		}
		if (pids[i] == 0)
			_exit(0);
	}
	for (i = 0; i < 4; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	assert_int_equal(*count, 20);

	pid = fork();
	if (pid == 0) {
		e = object_lock(dir, "l/one", 0, &lock);
		*count = err_is(e) ? 2 : 1;
		pause();
	}
	while (*(volatile char *)count == 20)
		usleep(1000);
	assert_int_equal(*count, 1);
	e = object_lock(dir, "l/one", 0, &lock);
	assert_int_equal(e.kind, ERR_BUSY);
	e = object_lock(dir, "l/another", 0, &lock);
	assert_int_equal(e.kind, ERR_OK);
	object_unlock(lock);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	e = object_lock(dir, "l/one", 0, &lock);
	assert_int_equal(e.kind, ERR_OK);
	object_unlock(lock);
	munmap(count, 4096);
}

static bool
count_none(const struct object_info *info, void *ctx)
{
	(void)info;
	(void)ctx;
	return true;
}

/* What asks the disk, by number; false: there is no such number. */
static bool
ask_disk(int call, int fd)
{
	struct object_writer *w;
	struct object_dir *below;
	struct slice got;
	char byte = 0;
	struct err e = OK;

	switch (call) {
	case 0:	e = object_put_new(dir, "c", SLICE("one")); break;
	case 1:	e = object_get(dir, "a", 8, &arena, &got); break;
	case 2:	e = object_exists(dir, "a"); break;
	case 3:	e = object_dir_open(dir, "b", true, &below); break;
	case 4:	e = object_delete(dir, "a"); break;
	case 5:	e = object_writer_open(dir, "w", NULL, &w); break;
	case 6:	e = object_read_at(fd, &byte, 1, 0); break;
	case 7:	e = object_write_sync(fd, "x", 1, 0); break;
	case 8:	e = object_sync(fd); break;
	case 9:	e = object_list_names(dir, "", count_none, NULL); break;
	default: return false;
	}
	(void)e;	/* it should not have come back */
	return true;
}

/* Design 3: who holds a lock of the segment does not wait for a disk. */
static void
test_no_lock_is_held(void **state)
{
	bool more = true;
	int call, status;
	uint64_t size;
	struct err e;
	pid_t pid;
	int fd;

	(void)state;
	put("a", "one");
	e = object_entry_open(dir, "a", &fd, &size);
	assert_int_equal(e.kind, ERR_OK);
	for (call = 0; more; call++) {
		pid = fork();
		if (pid == 0) {
			setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
			signal(SIGABRT, SIG_DFL);
			shm_order_acquire(SHM_LOCK_store_slot);
			_exit(ask_disk(call, fd) ? 1 : 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		more = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
		assert_true(more || (WIFEXITED(status) &&
		    WEXITSTATUS(status) == 0));
	}
	assert_int_equal(call, 11);
	close(fd);
}

static void
test_probe(void **state)
{
	struct object_dir *made;
	char path[128];
	struct err e;

	(void)state;
	e = object_probe(dir);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(names_in(dir), 0);
	assert_false(object_on_network(dir));
	snprintf(path, sizeof(path), "%s//new/./root/", root_path);
	e = object_root_open(path, &made);
	assert_int_equal(e.kind, ERR_OK);
	object_dir_close(made);
	assert_int_equal(object_exists(root, "new/root").kind, ERR_OK);
}

/* ---- cleaning while files are made, by a clock that leaps */

static _Atomic bool cleaning;

static void *
clean_on(void *arg)
{
	uint32_t removed;

	while (atomic_load(&cleaning)) {
		struct err e = object_clean_temp(arg, "", &removed);

		MUST(!err_is(e));
	}
	return NULL;
}

static void
test_made_while_cleaned(void **state)
{
	pthread_t cleaner;
	char name[16];
	uint32_t i;

	(void)state;
	clock_set_speed(1u << 30);
	atomic_store(&cleaning, true);
	assert_int_equal(pthread_create(&cleaner, NULL, clean_on, dir), 0);
	for (i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "n%u", i % 8);
		assert_int_equal(object_put_new(dir, name, SLICE("x")).kind,
		    ERR_OK);
		assert_int_equal(object_delete(dir, name).kind, ERR_OK);
	}
	atomic_store(&cleaning, false);
	assert_int_equal(pthread_join(cleaner, NULL), 0);
	clock_set_speed(1);
	assert_int_equal(names_in(dir), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_put_and_get),
		TEST(test_order_of_syncs),
		TEST(test_unsafe_names),
		TEST(test_hint),
		TEST(test_full_disk),
		TEST(test_short_write),
		TEST(test_unknown),
		TEST(test_race),
		TEST(test_killed),
		TEST(test_made_while_cleaned),
		TEST(test_writer),
		TEST(test_delete_paced),
		TEST(test_delete_what_is_read),
		TEST(test_punch),
		TEST(test_delete_large),
		TEST(test_rename),
		TEST(test_delete_tree),
		TEST(test_entry),
		TEST(test_cut_map),
		TEST(test_lock),
		TEST(test_no_lock_is_held),
		TEST(test_probe),
	};
	struct err e;
	int failed;

	MUST(mkdtemp(root_path) != NULL);
	e = object_root_open(root_path, &root);
	MUST(!err_is(e));
	arena_init(&arena, 16u << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(&arena);
	object_dir_close(root);
	e = object_root_open("/tmp", &root);
	MUST(!err_is(e));
	e = object_delete_tree(root, root_path + sizeof("/tmp/") - 1);
	MUST(!err_is(e));
	object_dir_close(root);
	return failed;
}
