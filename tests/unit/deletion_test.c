#include "common/base.h"

#include "tests/unit/lance_dir.h"
#include "worker/lance/deletion.h"

static struct arena arena;

static int
setup(void **state)
{
	arena_init(&arena, 64u << 20);
	return dir_setup(state);
}

static int
teardown(void **state)
{
	arena_free(&arena);
	return dir_teardown(state);
}

static struct deletion *
decode_ok(const char *bytes, size_t len, uint64_t row_count)
{
	struct deletion *d = NULL;

	see_ok(deletion_decode(slice_make(bytes, len), row_count, &d));
	return d;
}

static void
see_refused(const char *bytes, size_t len, uint64_t row_count)
{
	struct deletion *d;

	see_error(deletion_decode(slice_make(bytes, len), row_count, &d), CORRUPT);
}

/* The example of lance-format.md 6.2. */
static const char three[] = "\x3a\x30\0\0\2\0\0\0\0\0\1\0\1\0\0\0\x18\0\0\0\x1c\0\0\0"
    "\1\0\3\0\x70\x11";

static void
test_known_bytes(void **state)
{
	struct deletion *d = decode_ok(three, 30, 70001);
	struct slice out;
	uint32_t row = 0;

	(void)state;
	assert_int_equal(deletion_count(d), 3);
	assert_true(deletion_contains(d, 1));
	assert_false(deletion_contains(d, 2));
	assert_true(deletion_contains(d, 70000));
	assert_int_equal(deletion_count_below(d, 0), 0);
	assert_int_equal(deletion_count_below(d, 3), 1);
	assert_int_equal(deletion_count_below(d, 4), 2);
	assert_int_equal(deletion_count_below(d, 1ull << 40), 3);
	assert_true(deletion_next(d, &row));
	assert_int_equal(row, 1);
	row = 4;
	assert_true(deletion_next(d, &row));
	assert_int_equal(row, 70000);
	row++;
	assert_false(deletion_next(d, &row));
	see_ok(deletion_encode(d, &arena, &out));
	assert_true(slice_eq(out, slice_make(three, 30)));
	deletion_free(d);

	d = decode_ok("\x3a\x30\0\0\0\0\0\0", 8, 0);
	assert_int_equal(deletion_count(d), 0);
	see_ok(deletion_encode(d, &arena, &out));
	assert_true(slice_eq(out, slice_make("\x3a\x30\0\0\0\0\0\0", 8)));
	deletion_free(d);
}

/* Runs: 2 containers, the first of runs {5..7}, {9}, the second an array. */
static const char runs[] = "\x3b\x30\1\0\1\0\0\3\0\2\0\0\0"
    "\2\0\5\0\2\0\x09\0\0\0" "\7\0";

static void
test_runs(void **state)
{
	struct deletion *d = decode_ok(runs, 25, 200000);
	char bad[25];

	(void)state;
	assert_int_equal(deletion_count(d), 5);
	assert_true(deletion_contains(d, 5) && deletion_contains(d, 7) &&
	    deletion_contains(d, 9) && deletion_contains(d, (2u << 16) + 7));
	assert_false(deletion_contains(d, 8));
	deletion_free(d);

	memcpy(bad, runs, 25);
	bad[7] = 4;			/* a false cardinality */
	see_refused(bad, 25, 200000);
	memcpy(bad, runs, 25);
	bad[19] = 7;			/* a run that begins in the one before */
	see_refused(bad, 25, 200000);
}

static void
test_refused(void **state)
{
	char bad[30];
	size_t len;

	(void)state;
	for (len = 0; len < 30; len++)
		see_refused(three, len, 70001);
	see_refused(three, 30, 70000);	/* a row that is not there */
	memcpy(bad, three, 30);
	bad[24] = 3;			/* a value twice */
	see_refused(bad, 30, 70001);
	memcpy(bad, three, 30);
	bad[12] = 0;			/* a key twice */
	see_refused(bad, 30, 70001);
	memcpy(bad, three, 30);
	bad[0] = 0x39;
	see_refused(bad, 30, 70001);
	memcpy(bad, three, 30);
	bad[6] = 2;			/* too many containers */
	see_refused(bad, 30, 70001);
}

static void
test_files(void **state)
{
	struct table_deletion name, lie;
	struct deletion *d, *back, *copy;
	uint32_t i, row;

	(void)state;
	see_ok(deletion_new(&d));
	for (i = 0; i < 200000; i++) {
		if (i % 3 != 0 || i > 150000)
			deletion_add(d, i);
	}
	see_ok(deletion_write(dir, 7, 3, d, &name));
	assert_int_equal(name.kind, TABLE_DELETION_BITMAP);
	assert_int_equal(name.read_version, 3);
	assert_int_equal(name.row_count, deletion_count(d));
	see_ok(deletion_read(dir, 7, &name, 200000, &back));
	for (i = 0, row = 0; i < 200000; i++) {
		assert_int_equal(deletion_contains(back, i), i % 3 != 0 || i > 150000);
		if (!deletion_contains(d, i))
			continue;
		assert_true(deletion_next(back, &row));
		assert_int_equal(row++, i);
	}
	deletion_free(back);
	see_error(deletion_read(dir, 7, &name, 199999, &back), CORRUPT);
	see_error(deletion_read(dir, 8, &name, 200000, &back), NOT_FOUND);
	lie = name;
	lie.row_count--;
	see_error(deletion_read(dir, 7, &lie, 200000, &back), CORRUPT);

	see_ok(deletion_copy(d, &copy));
	see_ok(deletion_new(&back));
	deletion_add(back, 0);
	deletion_add(back, 1);
	deletion_add_all(copy, back);
	assert_int_equal(deletion_count(copy), deletion_count(d) + 1);
	assert_true(deletion_contains(copy, 0));
	assert_false(deletion_contains(d, 0));
	deletion_free(copy);
	deletion_free(back);
	deletion_free(d);
}

/* Those of the real engine: zstd, raw, and roaring. */
static void
test_engine_files(void **state)
{
	static const struct {
		uint64_t fragment;
		struct table_deletion name;
		uint64_t count;
	} files[] = {
		{ 0, { TABLE_DELETION_ARROW, 3, 3221037274517024461u, 0 }, 334 },
		{ 1, { TABLE_DELETION_BITMAP, 3, 1168474921764206646u, 0 }, 5250 },
		{ 2, { TABLE_DELETION_ARROW, 3, 3173252549513181377u, 0 }, 3 },
	};
	struct object_dir *fixtures, *table;
	struct deletion *d;
	uint32_t i;

	(void)state;
	see_ok(object_root_open("tests/data/lance", &fixtures));
	see_ok(object_dir_open(fixtures, "deleted_v20.lance", false, &table));
	for (i = 0; i < ARRAY_LEN(files); i++) {
		see_ok(deletion_read(table, files[i].fragment, &files[i].name,
		    100000, &d));
		assert_int_equal(deletion_count(d), files[i].count);
		deletion_free(d);
		see_error(deletion_read(table, files[i].fragment, &files[i].name,
		    1, &d), CORRUPT);
	}
	object_dir_close(table);
	object_dir_close(fixtures);
}

static void
test_damage(void **state)
{
	static char copy[25];
	struct deletion *d;
	uint32_t at, bit;

	(void)state;
	for (at = 0; at < 25; at++) {
		for (bit = 0; bit < 8; bit++) {
			memcpy(copy, runs, 25);
			copy[at] ^= (char)(1 << bit);
			if (!err_is(deletion_decode(slice_make(copy, 25), 200000, &d)))
				deletion_free(d);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_bytes),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_engine_files),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
