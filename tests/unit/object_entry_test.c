#include "object_test.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_entry),
		TEST(test_punch),
	};

	return cmocka_run_group_tests(tests, root_set_up, root_tear_down);
}
