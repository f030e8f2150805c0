#include "object_test.h"

#include "common/clock.h"
#include "worker/object/map.h"

/* How short a file was made last. */
static off_t cut_to;

int
ftruncate(int fd, off_t size)
{
	cut_to = size;
	return (int)syscall(SYS_ftruncate, fd, size);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_delete_paced),
		TEST(test_delete_what_is_read),
		TEST(test_delete_large),
		TEST(test_rename),
		TEST(test_delete_tree),
	};

	return cmocka_run_group_tests(tests, root_set_up, root_tear_down);
}
