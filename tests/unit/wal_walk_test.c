#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/arrow/column.h"
#include "worker/object/local.h"
#include "worker/store/near.h"
#include "worker/store/wal_walk.h"

/*
 * An entry with small and large batches, as bytes and as a file. Whatever is
 * done to it, the walk over the file finds what the scan of the bytes finds,
 * with no more memory than a window's while nothing is wrong. A window holds
 * one of the batches of 600 KiB and a part of the next.
 */

#define KIB	(1u << 10)
#define MIB	(1u << 20)
#define BATCHES	12
#define PAD	4096u
#define FOUND_MAX 16

static const struct arrow_field fields[] = {
	{ .name = { "id", 2 }, .type = ARROW_UTF8 },
	{ .name = { "blob", 4 }, .type = ARROW_LARGE_BINARY, .nullable = true },
	{ .name = { "n", 1 }, .type = ARROW_INT64, .nullable = true },
	{ .name = { "flag", 4 }, .type = ARROW_BOOL, .nullable = true },
};
static const struct arrow_schema schema = { ARRAY_LEN(fields), fields, 0, NULL };
static const bool far_columns[] = { false, true, true, true };

/* KiB of blob in each of the two rows of a batch. */
static const uint32_t sizes[BATCHES][2] = {
	{ 0, 0 }, { 5 * KIB, 12 * KIB }, { 0, 0 }, { KIB, 0 }, { 0, 0 },
	{ 300, 300 }, { 300, 300 }, { 0, 0 }, { 300, 300 }, { 500, 100 },
	{ 300, 300 }, { 0, 0 },
};

static struct buf entry;		/* it begins with its first batch */
static int fd;				/* the same as a file */
static uint64_t begins[BATCHES + 1];
static struct arena arena;

/* Bytes that tell where they are. */
static void
fill(char *to, size_t len, uint32_t seed)
{
	uint64_t i, word = seed;

	for (i = 0; i < len / 8; i++) {
		word = word * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(to + i * 8, &word, 8);
	}
}

static void
add_row(struct builder *b, uint32_t batch, uint32_t row)
{
	size_t len = (size_t)sizes[batch][row] * KIB + 8 * row;
	char id[16];

	snprintf(id, sizeof(id), "b%u-%u", batch, row);
	assert_true(column_bytes(&b->columns[0], slice_of(id)));
	assert_true(column_reserve(&b->columns[1], len));
	fill(column_tail(&b->columns[1]), len, batch * 2 + row);
	column_grow(&b->columns[1], len);
	assert_true(column_end_value(&b->columns[1]));
	assert_true(row == 0 ? column_null(&b->columns[2]) :
	    column_int64(&b->columns[2], batch));
	assert_true(column_bool(&b->columns[3], row == 1));
	builder_end_row(b);
}

static int
make_entry(void **state)
{
	struct wal_layout l;
	struct batch batch;
	struct builder b;
	struct slice all;
	uint32_t i;
	size_t n;

	(void)state;
	arena_init(&arena, 512u * MIB);
	buf_init(&entry, 128u * MIB);
	assert_false(err_is(wal_layout_init(&l, &schema, &arena)));
	for (i = 0; i < BATCHES; i++) {
		assert_false(err_is(builder_init(&b, &schema, 64u * MIB)));
		add_row(&b, i, 0);
		add_row(&b, i, 1);
		batch = builder_batch(&b);
		n = wal_batch_size(&l, &batch, 0, 2);
		begins[i] = entry.len;
		assert_true(buf_reserve(&entry, n));
		wal_batch_write(&l, &batch, 0, 2, 100 + i, entry.ptr + entry.len);
		entry.len += n;
		builder_free(&b);
	}
	begins[BATCHES] = entry.len;
	assert_true(buf_append_zero(&entry, PAD));
	fd = memfd_create("entry", MFD_CLOEXEC);
	assert_true(fd >= 0);
	all = buf_slice(&entry);
	assert_false(err_is(object_write_parts(fd, &all, 1, 0)));
	return 0;
}

static int
drop_entry(void **state)
{
	(void)state;
	close(fd);
	buf_free(&entry);
	arena_free(&arena);
	return 0;
}

struct found {
	enum wal_found what;
	uint64_t offset, bytes, sequence;
	bool zero;
};

static void
note(struct found *f, enum wal_found what, const struct wal_batch *b)
{
	*f = (struct found){ .what = what };
	if (what == WAL_END)
		return;
	f->offset = b->offset;
	f->bytes = b->bytes;
	f->sequence = what == WAL_BATCH ? b->sequence : 0;
	f->zero = what != WAL_BATCH && b->zero;
}

/* len bytes of the entry, whose end is recorded there, or not (0). */
static void
see_the_same(size_t len, uint64_t end)
{
	struct found scanned[FOUND_MAX], walked[FOUND_MAX];
	struct wal_batch batch;
	enum wal_found what;
	struct wal_walk w;
	struct wal_scan s;
	uint32_t i = 0, k;

	wal_scan_init(&s, slice_make(entry.ptr, len), true, 0);
	wal_walk_init(&w, fd, true, 0, len);
	if (end != 0) {
		wal_scan_set_end(&s, end);
		wal_walk_set_end(&w, end);
	}
	do {
		assert_true(i < FOUND_MAX);
		note(&scanned[i], wal_scan_next(&s, &batch), &batch);
	} while (scanned[i++].what != WAL_END);
	for (k = 0; k < i; k++) {
		assert_false(err_is(wal_walk_next(&w, &what, &batch)));
		note(&walked[k], what, &batch);
		assert_memory_equal(&walked[k], &scanned[k], sizeof(walked[k]));
	}
	assert_int_equal(w.whole_end, s.whole_end);
	assert_int_equal(w.sequence, s.sequence);
	wal_walk_free(&w);
}

static void
see_the_same_ends(void)
{
	see_the_same(entry.len, 0);
	see_the_same(entry.len, begins[BATCHES]);
	see_the_same(begins[4], begins[BATCHES]);
	see_the_same(begins[9], begins[BATCHES]);
}

static void
whole(void **state)
{
	uint32_t i;

	(void)state;
	see_the_same_ends();
	for (i = 1; i < BATCHES; i++)
		see_the_same(entry.len, begins[i]);
}

static void
cut(void **state)
{
	(void)state;
	see_the_same(begins[2] - 8, 0);
	see_the_same(begins[2] - 8, begins[BATCHES]);
	see_the_same(begins[3] + 64, 0);
	see_the_same(begins[1] + 4, begins[BATCHES]);
	see_the_same(begins[7] - 8, 0);
	see_the_same(begins[6] + 64, begins[BATCHES]);
}

static void
flip(uint64_t at)
{
	entry.ptr[at] ^= 1;
	assert_int_equal(pwrite(fd, entry.ptr + at, 1, (off_t)at), 1);
}

static void
spoilt(void **state)
{
	const uint64_t at[] = { begins[1], begins[1] + 40, begins[1] + 8 * MIB,
	    begins[0] + 5, begins[3] + 4096, begins[5] + 4096, begins[6] + 40,
	    begins[8] + 500 * KIB, begins[10] + 4096 };
	uint32_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(at); i++) {
		flip(at[i]);
		see_the_same(entry.len, 0);
		see_the_same(entry.len, begins[BATCHES]);
		flip(at[i]);
	}
}

/* The large one. */
static void
see_far(const struct batch *b)
{
	const struct array *blob = &b->columns[1];
	size_t len = (size_t)sizes[1][1] * KIB + 8;
	struct arena rows;
	struct batch row;
	char *want = malloc(len);

	assert_int_equal(b->row_count, 2);
	assert_true(slice_eq(array_slice(&b->columns[0], 0),
	    SLICE("b1-0")));
	assert_non_null(blob->far);
	assert_int_equal(blob->far->fd, fd);
	assert_int_equal(array_length(blob, 1), len);
	assert_null(b->columns[2].far);
	assert_true(array_is_null(&b->columns[2], 0));
	assert_int_equal(array_int(&b->columns[2], 1), 1);

	arena_init(&rows, 64u * MIB);
	assert_false(err_is(near_row(b, 1, &rows, &row)));
	assert_int_equal(row.row_count, 1);
	assert_false(batch_is_far(&row));
	assert_true(batch_is_far(b));
	assert_false(array_is_null(&row.columns[2], 0));
	assert_int_equal(array_int(&row.columns[2], 0), 1);
	assert_true(array_bool(&row.columns[3], 0));
	fill(want, len, 3);
	assert_true(slice_eq(array_slice(&row.columns[1], 0),
	    slice_make(want, len)));
	assert_false(err_is(batch_row(b, 0, &rows, &row)));
	assert_true(array_is_null(&row.columns[2], 0));
	assert_false(array_bool(&row.columns[3], 0));
	assert_int_equal(array_length(&row.columns[1], 0),
	    (uint64_t)sizes[1][0] * KIB);
	arena_free(&rows);
	free(want);
}

static void
blobs_stay_in_the_file(void **state)
{
	struct wal_batch found;
	enum wal_found what;
	struct batch batch;
	struct wal_walk w;
	struct arena few;
	uint32_t i;

	(void)state;
	arena_init(&few, MIB);		/* no blob fits */
	wal_walk_init(&w, fd, true, 0, entry.len);
	for (i = 0; i < BATCHES; i++) {
		arena_reset(&few);
		assert_false(err_is(wal_walk_next(&w, &what, &found)));
		assert_int_equal(what, WAL_BATCH);
		if (i != 1)
			continue;
		assert_false(err_is(wal_batch_read(fd, found.offset,
		    found.bytes, &schema, far_columns, &few, &batch)));
		see_far(&batch);
		assert_false(err_is(wal_walk_read(&w, &found, &schema,
		    far_columns, &few, &batch)));
		see_far(&batch);
	}
	wal_walk_free(&w);
	arena_free(&few);
}

static void
see_near(const struct batch *b, uint32_t batch)
{
	char id[16], *want = malloc(MIB);
	uint32_t row;

	assert_int_equal(b->row_count, 2);
	assert_false(batch_is_far(b));
	for (row = 0; row < 2; row++) {
		size_t len = (size_t)sizes[batch][row] * KIB + 8 * row;

		snprintf(id, sizeof(id), "b%u-%u", batch, row);
		assert_true(slice_eq(array_slice(&b->columns[0], row),
		    slice_of(id)));
		fill(want, len, batch * 2 + row);
		assert_true(slice_eq(array_slice(&b->columns[1], row),
		    slice_make(want, len)));
	}
	free(want);
}

static void
memory_is_that_of_a_window(void **state)
{
	struct wal_batch found;
	enum wal_found what;
	struct batch batch;
	struct arena rows;
	struct wal_walk w;
	uint32_t i;

	(void)state;
	arena_init(&rows, 2 * MIB);
	wal_walk_init(&w, fd, true, 0, entry.len);
	wal_walk_set_end(&w, begins[BATCHES]);
	for (i = 0; i < BATCHES; i++) {
		assert_false(err_is(wal_walk_next(&w, &what, &found)));
		assert_int_equal(what, WAL_BATCH);
		assert_int_equal(w.whole_end, begins[i + 1]);
		assert_in_range(w.room, 1, MIB);
		/* The one before was read with it: one window for both. */
		if (i == 7)
			assert_int_equal(w.scan.base, begins[6]);
		if (i == 1)
			continue;
		arena_reset(&rows);
		assert_false(err_is(wal_walk_read(&w, &found, &schema,
		    far_columns, &rows, &batch)));
		see_near(&batch, i);
		/* It is in the window: nothing of it is read again. */
		if (i != 3)
			assert_in_range(rows.total_bytes, 1, 64 * KIB);
	}
	assert_false(err_is(wal_walk_next(&w, &what, &found)));
	assert_int_equal(what, WAL_END);
	assert_in_range(w.room, 1, MIB);
	wal_walk_free(&w);
	arena_free(&rows);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole),
		cmocka_unit_test(cut),
		cmocka_unit_test(spoilt),
		cmocka_unit_test(blobs_stay_in_the_file),
		cmocka_unit_test(memory_is_that_of_a_window),
	};

	return cmocka_run_group_tests(tests, make_entry, drop_entry);
}
