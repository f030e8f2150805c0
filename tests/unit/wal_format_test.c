#include "common/base.h"

#include "common/hash.h"
#include "tests/unit/arrow_rows.h"
#include "worker/store/wal_format.h"

#define ENTRY_BYTES	(64u << 10)
#define BATCHES	5
#define ROWS	4		/* of each batch */
#define SEQUENCE(i)	(1700000000000000ull + (i))

static struct arena arena;

/* A live entry: a head, batches of four rows each, zeroes. */
struct entry {
	struct wal_head head;
	char *bytes;
	size_t len;
	uint64_t at[BATCHES + 1];	/* of each batch; then the end */
};

static int
setup(void **state)
{
	(void)state;
	arena_init(&arena, 256u << 20);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

/* In memory of exactly its size, so that a read behind it is seen. */
static void
make_entry(struct entry *e)
{
	struct wal_layout l;
	struct builder b;
	struct batch batch;
	struct buf out;
	uint32_t i;
	size_t n;

	*e = (struct entry){ .head = { .epoch = 7, .entry = uuid_random(),
	    .closes = { 4, 4096 }, .schema = schema } };
	buf_init(&out, ENTRY_BYTES);
	assert_false(err_is(wal_head_write(&out, &e->head)));
	e->head.bytes = out.len;
	make(&b, BATCHES * ROWS);
	batch = builder_batch(&b);
	assert_false(err_is(wal_layout_init(&l, &schema, &arena)));
	for (i = 0; i < BATCHES; i++) {
		n = wal_batch_size(&l, &batch, i * ROWS, ROWS);
		e->at[i] = out.len;
		assert_int_equal(out.len % 8, 0);
		assert_true(buf_reserve(&out, n));
		wal_batch_write(&l, &batch, i * ROWS, ROWS, SEQUENCE(i),
		    out.ptr + out.len);
		out.len += n;
	}
	e->at[BATCHES] = out.len;
	e->len = ENTRY_BYTES;
	e->bytes = calloc(1, e->len);
	assert_non_null(e->bytes);
	memcpy(e->bytes, out.ptr, out.len);
	buf_free(&out);
	builder_free(&b);
}

static void
begin(struct wal_scan *s, const struct entry *e)
{
	wal_scan_init(s, slice_make(e->bytes + e->head.bytes,
	    e->len - e->head.bytes), true, e->head.bytes);
}

static void
see_batch(struct wal_scan *s, const struct entry *e, uint32_t index)
{
	struct wal_batch found;
	struct batch batch;
	uint64_t i;

	assert_int_equal(wal_scan_next(s, &found), WAL_BATCH);
	assert_int_equal(found.offset, e->at[index]);
	assert_int_equal(found.offset + found.bytes, e->at[index + 1]);
	assert_int_equal(found.sequence, SEQUENCE(index));
	assert_false(err_is(ipc_batch_read(&found.message, &schema, &arena,
	    &batch)));
	assert_int_equal(batch.row_count, ROWS);
	for (i = 0; i < ROWS; i++)
		see_row(&batch, i, index * ROWS + i);
	assert_int_equal(s->whole_end, e->at[index + 1]);
}

static void
see_damage(struct wal_scan *s, enum wal_found kind, uint64_t from, uint64_t to)
{
	struct wal_batch found;

	assert_int_equal(wal_scan_next(s, &found), kind);
	assert_int_equal(found.offset, from);
	assert_int_equal(found.offset + found.bytes, to);
}

static void
see_end(struct wal_scan *s)
{
	struct wal_batch found;

	assert_int_equal(wal_scan_next(s, &found), WAL_END);
	assert_int_equal(wal_scan_next(s, &found), WAL_END);
}

static void
test_names(void **state)
{
	static const uint64_t positions[] = { 0, 1, 2, 5, 1ull << 63, UINT64_MAX };
	char name[WAL_NAME_LEN + 1];
	uint64_t back;
	size_t i;

	(void)state;
	wal_name(5, name);
	assert_string_equal(name, "10100000000000000000000000000000"
	    "00000000000000000000000000000000.arrow");
	for (i = 0; i < ARRAY_LEN(positions); i++) {
		wal_name(positions[i], name);
		assert_int_equal(strlen(name), WAL_NAME_LEN);
		assert_true(wal_name_parse(slice_of(name), &back));
		assert_int_equal(back, positions[i]);
	}
	name[3] = '2';
	assert_false(wal_name_parse(slice_of(name), &back));
	wal_name(5, name);
	name[WAL_NAME_LEN - 1] = 'x';
	assert_false(wal_name_parse(slice_of(name), &back));
	assert_false(wal_name_parse(SLICE(""), &back));
	assert_false(wal_name_parse(SLICE("101.arrow"), &back));
}

static void
test_head_round_trip(void **state)
{
	struct entry e;
	struct wal_head back;
	struct arrow_pair own = { SLICE("writer_epoch"), SLICE("6") };

	(void)state;
	make_entry(&e);
	assert_false(err_is(wal_head_read(slice_make(e.bytes, e.len), &arena,
	    &back)));
	assert_int_equal(back.epoch, 7);
	assert_false(back.sentinel);
	assert_true(back.ours);
	assert_true(uuid_eq(&back.entry, &e.head.entry));
	assert_int_equal(back.closes.position, 4);
	assert_int_equal(back.closes.end, 4096);
	assert_int_equal(back.bytes, e.head.bytes);
	assert_true(arrow_schema_same(&back.schema, &schema));
	free(e.bytes);

	/* A schema out of another entry brings that one's epoch with it. */
	struct buf out;
	buf_init(&out, 1u << 20);
	e.head.schema.pairs = &own;
	e.head.schema.pair_count = 1;
	e.head.closes.position = 0;
	assert_false(err_is(wal_head_write(&out, &e.head)));
	assert_false(err_is(wal_head_read(buf_slice(&out), &arena, &back)));
	assert_int_equal(back.epoch, 7);
	assert_int_equal(back.schema.pair_count, 1);
	assert_int_equal(back.closes.position, 0);
	assert_int_equal(back.whole_bytes, 0);

	/* Put whole: the head is as long whatever size it tells. */
	size_t bytes = out.len;
	out.len = 0;
	e.head.whole_bytes = 1;
	assert_false(err_is(wal_head_write(&out, &e.head)));
	assert_true(out.len > bytes);
	bytes = out.len;
	out.len = 0;
	e.head.whole_bytes = 1ull << 40;
	assert_false(err_is(wal_head_write(&out, &e.head)));
	assert_int_equal(out.len, bytes);
	assert_false(err_is(wal_head_read(buf_slice(&out), &arena, &back)));
	assert_int_equal(back.whole_bytes, 1ull << 40);
	assert_int_equal(back.bytes, bytes);
	buf_free(&out);
}

static void
test_sentinel(void **state)
{
	struct uuid entry = uuid_random();
	struct wal_head back;
	struct wal_scan s;
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	assert_false(err_is(wal_sentinel_write(&out, 12, &entry)));
	assert_false(err_is(wal_head_read(buf_slice(&out), &arena, &back)));
	assert_true(back.sentinel);
	assert_int_equal(back.epoch, 12);
	assert_int_equal(back.schema.field_count, 0);
	assert_true(uuid_eq(&back.entry, &entry));
	wal_scan_init(&s, slice_make(out.ptr + back.bytes, out.len - back.bytes),
	    true, back.bytes);
	see_end(&s);
	assert_int_equal(s.whole_end, back.bytes);
	buf_free(&out);
}

static void
test_bad_heads(void **state)
{
	struct arrow_schema no_epoch = { 0 };
	struct arrow_pair pairs[] = { { SLICE("writer_epoch"), SLICE("1") } };
	struct arrow_schema epoch = { 0, NULL, 1, pairs };
	static const struct arrow_pair bad[] = {
		{ SLICE("memwald:entry"), SLICE("not-a-uuid") },
		{ SLICE("memwald:closes"), SLICE("5") },
		{ SLICE("memwald:closes"), SLICE("0:8") },
		{ SLICE("memwald:closes"), SLICE("1:") },
		{ SLICE("memwald:closes"), SLICE("1:-8") },
		{ SLICE("memwald:closes"), SLICE("1:18446744073709551616") },
		{ SLICE("memwald:whole"), SLICE("") },
		{ SLICE("memwald:whole"), SLICE("8x") },
		{ SLICE("memwald:whole"), SLICE("00000000000000000008") },
		{ SLICE("memwald:whole"), SLICE("00000000000000100001") },
	};
	struct wal_head back;
	struct buf out;
	size_t i;

	(void)state;
	buf_init(&out, 4096);
	assert_false(err_is(ipc_schema_write(&out, &no_epoch, NULL, 0)));
	assert_int_equal(wal_head_read(buf_slice(&out), &arena, &back).kind,
	    ERR_CORRUPT);
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		out.len = 0;
		assert_false(err_is(ipc_schema_write(&out, &epoch, &bad[i], 1)));
		assert_int_equal(wal_head_read(buf_slice(&out), &arena,
		    &back).kind, ERR_CORRUPT);
	}
	/* Cut to nothing, or all zero: an entry whose head never came. */
	assert_int_equal(wal_head_read(SLICE(""), &arena, &back).kind,
	    ERR_CORRUPT);
	assert_int_equal(wal_head_read(SLICE("\0\0\0\0\0\0\0\0\0"), &arena,
	    &back).kind, ERR_CORRUPT);
	buf_free(&out);
}

static void
test_live_entry(void **state)
{
	struct entry e;
	struct wal_scan s, more;
	uint32_t i;

	(void)state;
	make_entry(&e);
	begin(&s, &e);
	for (i = 0; i < BATCHES; i++)
		see_batch(&s, &e, i);
	see_end(&s);

	/* Followed in steps, as the tail does: each up to a published end. */
	begin(&s, &e);
	wal_scan_set_end(&s, e.at[2]);
	see_batch(&s, &e, 0);
	see_batch(&s, &e, 1);
	see_end(&s);
	wal_scan_init(&more, slice_make(e.bytes + e.at[2], e.at[4] - e.at[2]),
	    true, s.whole_end);
	wal_scan_set_end(&more, e.at[4]);
	see_batch(&more, &e, 2);
	see_batch(&more, &e, 3);
	see_end(&more);
	free(e.bytes);
}

/* Put whole: the end of the stream is the end of the object. */
static void
test_whole_entry(void **state)
{
	struct entry e;
	struct wal_scan s;
	uint32_t i, recorded;

	(void)state;
	make_entry(&e);
	e.len = e.at[BATCHES] + IPC_END_BYTES;
	memset(e.bytes + e.at[BATCHES], 0xff, 4);
	for (recorded = 0; recorded < 2; recorded++) {
		begin(&s, &e);
		if (recorded == 1)
			wal_scan_set_end(&s, e.len);
		for (i = 0; i < BATCHES; i++)
			see_batch(&s, &e, i);
		see_end(&s);
	}
	free(e.bytes);
}

/* Whatever byte of the last batch is wrong: torn, and only without a recorded
 * end; whatever byte of one before: corrupt, the rest served. */
static void
test_any_bad_byte(void **state)
{
	struct entry e;
	struct wal_scan s;
	uint64_t at;
	uint32_t i;

	(void)state;
	make_entry(&e);
	for (at = e.at[1]; at < e.at[2]; at++) {
		e.bytes[at] ^= 0x10;
		begin(&s, &e);
		see_batch(&s, &e, 0);
		see_damage(&s, WAL_CORRUPT, e.at[1], e.at[2]);
		for (i = 2; i < BATCHES; i++)
			see_batch(&s, &e, i);
		see_end(&s);
		e.bytes[at] ^= 0x10;
	}
	for (at = e.at[4]; at < e.at[5]; at++) {
		e.bytes[at] ^= 0x10;
		begin(&s, &e);
		for (i = 0; i < 4; i++)
			see_batch(&s, &e, i);
		see_damage(&s, WAL_TORN, e.at[4], e.len);
		assert_int_equal(s.whole_end, e.at[4]);
		see_end(&s);

		begin(&s, &e);
		wal_scan_set_end(&s, e.at[5]);
		for (i = 0; i < 4; i++)
			see_batch(&s, &e, i);
		see_damage(&s, WAL_CORRUPT, e.at[4], e.at[5]);
		see_end(&s);
		e.bytes[at] ^= 0x10;
	}
	free(e.bytes);
}

/* What a loss of power leaves of the last write: any part of it. */
static void
test_torn_anywhere(void **state)
{
	struct entry e;
	struct wal_scan s;
	struct wal_batch found;
	char *whole;
	uint64_t cut;
	uint32_t i;

	(void)state;
	make_entry(&e);
	whole = malloc(e.len);
	assert_non_null(whole);
	memcpy(whole, e.bytes, e.len);
	for (cut = e.at[4]; cut < e.at[5]; cut += 8) {
		/* Its end is missing; nothing of it: just the end. */
		memcpy(e.bytes, whole, e.len);
		memset(e.bytes + cut, 0, e.at[5] - cut);
		begin(&s, &e);
		for (i = 0; i < 4; i++)
			see_batch(&s, &e, i);
		if (cut == e.at[4]) {
			see_end(&s);
			continue;
		}
		/* The last bytes may be padding, zero anyway. */
		if (memcmp(e.bytes, whole, e.len) == 0)
			continue;
		assert_int_equal(wal_scan_next(&s, &found), WAL_TORN);
		assert_false(found.zero);
		see_end(&s);

		/* Its beginning is missing. */
		memcpy(e.bytes, whole, e.len);
		memset(e.bytes + e.at[4], 0, cut - e.at[4]);
		begin(&s, &e);
		for (i = 0; i < 4; i++)
			see_batch(&s, &e, i);
		see_damage(&s, WAL_TORN, e.at[4], e.len);
		see_end(&s);
	}
	free(whole);
	free(e.bytes);
}

/* A hole of zeroes before whole batches is no end. */
static void
test_zeroed_batches(void **state)
{
	struct entry e;
	struct wal_scan s;
	struct wal_batch found;

	(void)state;
	make_entry(&e);
	memset(e.bytes + e.at[1], 0, e.at[3] - e.at[1]);
	begin(&s, &e);
	see_batch(&s, &e, 0);
	assert_int_equal(wal_scan_next(&s, &found), WAL_CORRUPT);
	assert_int_equal(found.bytes, e.at[3] - e.at[1]);
	assert_true(found.zero);
	see_batch(&s, &e, 3);
	see_batch(&s, &e, 4);
	see_end(&s);

	/* All gone, but the end is recorded. */
	memset(e.bytes + e.at[1], 0, e.len - e.at[1]);
	begin(&s, &e);
	wal_scan_set_end(&s, e.at[5]);
	see_batch(&s, &e, 0);
	see_damage(&s, WAL_CORRUPT, e.at[1], e.at[5]);
	see_end(&s);
	free(e.bytes);
}

/* An end of stream in the middle hides nothing. */
static void
test_end_marker_in_the_middle(void **state)
{
	struct entry e;
	struct wal_scan s;
	uint32_t i;

	(void)state;
	make_entry(&e);
	memset(e.bytes + e.at[1], 0xff, 4);
	memset(e.bytes + e.at[1] + 4, 0, 4);
	begin(&s, &e);
	see_batch(&s, &e, 0);
	see_damage(&s, WAL_CORRUPT, e.at[1], e.at[2]);
	for (i = 2; i < BATCHES; i++)
		see_batch(&s, &e, i);
	see_end(&s);
	free(e.bytes);
}

/* The file is shorter than its recorded end: the rows are lost, and said so. */
static void
test_cut_file(void **state)
{
	struct entry e;
	struct wal_scan s;
	char *cut;
	size_t len;

	(void)state;
	make_entry(&e);
	for (len = e.head.bytes; len <= e.at[2]; len++) {
		cut = malloc(len + 1);
		assert_non_null(cut);
		memcpy(cut, e.bytes, len);
		wal_scan_init(&s, slice_make(cut + e.head.bytes,
		    len - e.head.bytes), true, e.head.bytes);
		wal_scan_set_end(&s, e.at[2]);
		if (len >= e.at[1])
			see_batch(&s, &e, 0);
		if (len < e.at[1])
			see_damage(&s, WAL_CORRUPT, e.head.bytes, e.at[2]);
		else if (len < e.at[2])
			see_damage(&s, WAL_CORRUPT, e.at[1], e.at[2]);
		else
			see_batch(&s, &e, 1);
		see_end(&s);
		free(cut);
	}
	/* A recorded end that lies below the head: nothing is there. */
	begin(&s, &e);
	wal_scan_set_end(&s, 3);
	see_end(&s);
	free(e.bytes);
}

/* Without its head an entry still gives its batches to the store's schema. */
static void
test_head_lost(void **state)
{
	struct entry e;
	struct wal_scan s;
	struct wal_head back;
	uint32_t i;

	(void)state;
	make_entry(&e);
	memset(e.bytes, 0, 64);
	assert_int_equal(wal_head_read(slice_make(e.bytes, e.len), &arena,
	    &back).kind, ERR_CORRUPT);
	wal_scan_init(&s, slice_make(e.bytes, e.len), true, 0);
	see_damage(&s, WAL_CORRUPT, 0, e.head.bytes);
	for (i = 0; i < BATCHES; i++)
		see_batch(&s, &e, i);
	see_end(&s);
	free(e.bytes);
}

/*
 * A row holds bytes that are a whole batch. While the metadata around it can
 * be read they are not taken for one; when they cannot, only one of a later
 * sequence would be.
 */
static void
test_a_batch_inside_of_a_row(void **state)
{
	static const struct arrow_field one[] = { FIELD("x", BINARY) };
	static const struct arrow_schema s1 = { 1, one, 0, NULL };
	struct wal_layout l;
	struct builder b;
	struct batch batch;
	struct wal_scan s;
	struct wal_batch found;
	struct buf inner, outer;
	uint64_t at[4];
	size_t n, i;

	(void)state;
	buf_init(&inner, 1u << 16);
	buf_init(&outer, 1u << 16);
	assert_false(err_is(wal_layout_init(&l, &s1, &arena)));
	assert_false(err_is(builder_init(&b, &s1, 1u << 16)));
	assert_true(column_bytes(&b.columns[0], SLICE("forged")));
	builder_end_row(&b);
	batch = builder_batch(&b);
	n = wal_batch_size(&l, &batch, 0, 1);
	assert_true(buf_reserve(&inner, n));
	wal_batch_write(&l, &batch, 0, 1, 50, inner.ptr);
	inner.len = n;

	builder_clear(&b, 0);
	assert_true(column_bytes(&b.columns[0], buf_slice(&inner)));
	builder_end_row(&b);
	batch = builder_batch(&b);
	for (i = 0; i < 3; i++) {
		n = wal_batch_size(&l, &batch, 0, 1);
		at[i] = outer.len;
		assert_true(buf_reserve(&outer, n));
		wal_batch_write(&l, &batch, 0, 1, 100 + i,
		    outer.ptr + outer.len);
		outer.len += n;
	}
	at[3] = outer.len;
	outer.ptr[at[2] - 1] ^= 1;	/* padding of the body */
	wal_scan_init(&s, buf_slice(&outer), true, 0);
	assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
	see_damage(&s, WAL_CORRUPT, at[1], at[2]);
	assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
	assert_int_equal(found.offset, at[2]);
	see_end(&s);

	memset(outer.ptr + at[1], 0, 16);
	wal_scan_init(&s, buf_slice(&outer), true, 0);
	assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
	see_damage(&s, WAL_CORRUPT, at[1], at[2]);
	assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
	assert_int_equal(found.sequence, 102);
	buf_free(&inner);
	buf_free(&outer);
	builder_free(&b);
}

/* As the Lance engine writes them: no metadata of ours, an end marker. */
static void
test_entry_of_the_engine(void **state)
{
	struct arrow_pair epoch = { SLICE("writer_epoch"), SLICE("2") };
	struct arrow_schema s0 = schema;
	struct ipc_layout l;
	struct wal_head head;
	struct wal_scan s;
	struct wal_batch found;
	struct builder b;
	struct batch batch, back;
	struct buf out;
	size_t n, i;

	(void)state;
	s0.pairs = &epoch;
	s0.pair_count = 1;
	make(&b, 10);
	batch = builder_batch(&b);
	buf_init(&out, 1u << 20);
	assert_false(err_is(ipc_schema_write(&out, &s0, NULL, 0)));
	assert_false(err_is(ipc_layout_init(&l, &schema, NULL, 0, &arena)));
	for (i = 0; i < 2; i++) {
		n = ipc_batch_size(&l, &batch, i * 5, 5);
		assert_true(buf_reserve(&out, n));
		ipc_batch_write(&l, &batch, i * 5, 5, out.ptr + out.len);
		out.len += n;
	}
	assert_true(wal_end_write(&out));
	assert_false(err_is(wal_head_read(buf_slice(&out), &arena, &head)));
	assert_false(head.ours);
	assert_int_equal(head.epoch, 2);
	wal_scan_init(&s, slice_make(out.ptr + head.bytes, out.len - head.bytes),
	    head.ours, head.bytes);
	for (i = 0; i < 2; i++) {
		assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
		assert_int_equal(found.sequence, 0);
		assert_false(err_is(ipc_batch_read(&found.message, &head.schema,
		    &arena, &back)));
		see_row(&back, 2, i * 5 + 2);
	}
	see_end(&s);

	/* Its size is its end, so what is missing is lost, not torn. */
	out.len -= IPC_END_BYTES + 8;
	wal_scan_init(&s, slice_make(out.ptr + head.bytes, out.len - head.bytes),
	    head.ours, head.bytes);
	assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
	assert_int_equal(wal_scan_next(&s, &found), WAL_CORRUPT);
	see_end(&s);
	buf_free(&out);
	builder_free(&b);
}

/* Positions 1 to 5 of a shard that the engine wrote: two entries of epoch 1, a
 * claim with its sentinel, and what the next writer replayed and added. */
static void
test_shard_of_the_engine(void **state)
{
	static const struct {
		uint64_t epoch;
		bool sentinel;
		uint64_t rows;
	} want[] = { { 1, false, 3 }, { 1, false, 3 }, { 2, true, 0 },
	    { 2, false, 2 }, { 2, false, 2 } };
	char path[200], name[WAL_NAME_LEN + 1], bytes[1u << 13];
	struct wal_head head;
	struct wal_scan s;
	struct wal_batch found;
	struct batch batch;
	uint64_t i, rows;
	size_t n;
	FILE *f;

	(void)state;
	for (i = 0; i < ARRAY_LEN(want); i++) {
		wal_name(i + 1, name);
		snprintf(path, sizeof(path), "tests/data/lance/memwal_v20.lance/"
		    "_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2/wal/%s", name);
		f = fopen(path, "r");
		assert_non_null(f);
		n = fread(bytes, 1, sizeof(bytes), f);
		fclose(f);
		assert_false(err_is(wal_head_read(slice_make(bytes, n), &arena,
		    &head)));
		assert_int_equal(head.epoch, want[i].epoch);
		assert_int_equal(head.sentinel, want[i].sentinel);
		assert_false(head.ours);
		wal_scan_init(&s, slice_make(bytes + head.bytes, n - head.bytes),
		    false, head.bytes);
		for (rows = 0; wal_scan_next(&s, &found) == WAL_BATCH; ) {
			assert_false(err_is(ipc_batch_read(&found.message,
			    &head.schema, &arena, &batch)));
			rows += batch.row_count;
		}
		see_end(&s);
		assert_int_equal(rows, want[i].rows);
	}
}

/* Other tools check the hash by the header's words alone. */
static void
test_hash_as_documented(void **state)
{
	struct entry e;
	struct wal_scan s;
	struct wal_batch found;
	struct slice digits;
	char *copy, want[17];

	(void)state;
	make_entry(&e);
	begin(&s, &e);
	assert_int_equal(wal_scan_next(&s, &found), WAL_BATCH);
	assert_true(ipc_message_find(&found.message, SLICE("memwald:xxh3"),
	    &digits));
	copy = malloc(found.bytes);
	assert_non_null(copy);
	memcpy(copy, e.bytes + found.offset, found.bytes);
	memset(copy + (digits.ptr - (e.bytes + found.offset)), '0', 16);
	snprintf(want, sizeof(want), "%016llx",
	    (unsigned long long)hash_bytes(copy, found.bytes));
	assert_true(slice_eq(digits, slice_of(want)));
	free(copy);
	free(e.bytes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_head_round_trip),
		cmocka_unit_test(test_sentinel),
		cmocka_unit_test(test_bad_heads),
		cmocka_unit_test(test_live_entry),
		cmocka_unit_test(test_whole_entry),
		cmocka_unit_test(test_any_bad_byte),
		cmocka_unit_test(test_torn_anywhere),
		cmocka_unit_test(test_zeroed_batches),
		cmocka_unit_test(test_end_marker_in_the_middle),
		cmocka_unit_test(test_cut_file),
		cmocka_unit_test(test_head_lost),
		cmocka_unit_test(test_a_batch_inside_of_a_row),
		cmocka_unit_test(test_entry_of_the_engine),
		cmocka_unit_test(test_shard_of_the_engine),
		cmocka_unit_test(test_hash_as_documented),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
