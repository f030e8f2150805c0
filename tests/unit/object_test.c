#include "object_test.h"

#include <pthread.h>
#include <sys/mman.h>

#include "shm/order.h"
#include "worker/object/map.h"

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
		TEST(test_lock),
		TEST(test_no_lock_is_held),
		TEST(test_probe),
	};

	return cmocka_run_group_tests(tests, root_set_up, root_tear_down);
}
