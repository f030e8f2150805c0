#include "common/base.h"

#include "tests/unit/arrow_rows.h"
#include "worker/arrow/ipc.h"

static struct arena arena;

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

static void
write_batch(struct buf *out, const struct ipc_layout *l, const struct batch *b,
    uint64_t first, uint64_t count)
{
	size_t bytes = ipc_batch_size(l, b, first, count);

	assert_int_equal(bytes % 8, 0);
	assert_true(buf_reserve(out, bytes));
	/* What is not written would be seen by who compares two of them. */
	memset(out->ptr + out->len, 0xee, bytes);
	ipc_batch_write(l, b, first, count, out->ptr + out->len);
	out->len += bytes;
}

static struct slice
rest(const struct buf *b, size_t from)
{
	return slice_make(b->ptr + from, b->len - from);
}

static void
test_schema_round_trip(void **state)
{
	static const struct arrow_pair key[] = {
		{ { "lance-schema:unenforced-primary-key:position", 44 },
		    { "1", 1 } },
	};
	static const struct arrow_field id = { .name = { "id", 2 },
	    .type = ARROW_UTF8, .id = -1, .pair_count = 1, .pairs = key };
	struct arrow_field all[ARRAY_LEN(fields) + 1];
	struct arrow_pair meta[] = { { SLICE("writer_epoch"), SLICE("7") },
	    { SLICE(""), SLICE("") } };
	struct arrow_schema s = { ARRAY_LEN(all), all, 2, meta }, back;
	struct ipc_message m;
	struct buf out;
	struct slice value;

	(void)state;
	all[0] = id;
	memcpy(all + 1, fields, sizeof(fields));
	buf_init(&out, 1u << 20);
	assert_false(err_is(ipc_schema_write(&out, &s, meta, 1)));
	assert_int_equal(out.len % 8, 0);
	assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
	assert_int_equal(m.kind, IPC_SCHEMA);
	assert_int_equal(m.bytes, out.len);
	assert_true(ipc_message_find(&m, SLICE("writer_epoch"), &value));
	assert_true(slice_eq(value, SLICE("7")));
	assert_false(ipc_message_find(&m, SLICE("writer"), &value));
	assert_false(err_is(ipc_schema_read(&m, &arena, &back)));
	assert_true(arrow_schema_same(&s, &back));
	assert_int_equal(back.pair_count, 2);
	assert_true(slice_eq(back.pairs[0].key, SLICE("writer_epoch")));
	assert_int_equal(back.fields[0].pair_count, 1);
	assert_true(slice_eq(back.fields[0].pairs[0].key, key[0].key));
	assert_true(slice_eq(back.fields[0].pairs[0].value, SLICE("1")));
	buf_free(&out);
}

static void
test_no_columns(void **state)
{
	struct arrow_schema none = { 0 }, back;
	struct ipc_message m;
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	assert_false(err_is(ipc_schema_write(&out, &none, NULL, 0)));
	assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
	assert_false(err_is(ipc_schema_read(&m, &arena, &back)));
	assert_int_equal(back.field_count, 0);
	buf_free(&out);
}

/* Of every type, with nulls, at any number of rows: the parts in a row are what
 * is written in one piece; also after rows were taken back. */
static void
test_parts_are_the_message(void **state)
{
	struct ipc_parts parts;
	struct ipc_layout l;
	struct buf out, joined;
	struct builder b;
	struct batch batch;
	uint64_t rows;
	uint32_t i;
	char *head;

	(void)state;
	make(&b, 70);
	assert_false(err_is(ipc_layout_init(&l, &schema, NULL, 0, &arena)));
	head = arena_alloc(&arena, l.head.len);
	parts.parts = arena_calloc(&arena, ipc_parts_max(&l),
	    sizeof(*parts.parts));
	buf_init(&out, 1u << 20);
	buf_init(&joined, 1u << 20);
	for (rows = 70;; rows--) {
		builder_cut(&b, rows);
		batch = builder_batch(&b);
		out.len = joined.len = 0;
		write_batch(&out, &l, &batch, 0, rows);
		ipc_batch_parts(&l, &batch, head, &parts);
		for (i = 0; i < parts.count; i++)
			assert_true(buf_append_slice(&joined, parts.parts[i]));
		assert_int_equal(parts.bytes, out.len);
		assert_true(slice_eq(buf_slice(&joined), buf_slice(&out)));
		if (rows == 0)
			break;
	}
	buf_free(&joined);
	buf_free(&out);
	builder_free(&b);
}

/* Runs of a batch, each a message; read back, they are the rows. */
static void
test_batches_round_trip(void **state)
{
	struct builder b;
	struct batch batch, back;
	struct ipc_layout l;
	struct ipc_message m;
	struct buf out;
	uint64_t first, count, i;
	uint32_t k;

	(void)state;
	make(&b, 300);
	batch = builder_batch(&b);
	assert_false(err_is(ipc_layout_init(&l, &schema, NULL, 0, &arena)));
	buf_init(&out, 1u << 20);
	for (first = 0; first < 20; first++) {
		for (count = 0; first + count <= 300; count += 1 + count) {
			out.len = 0;
			write_batch(&out, &l, &batch, first, count);
			assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
			assert_int_equal(m.kind, IPC_BATCH);
			assert_int_equal(m.bytes, out.len);
			assert_false(err_is(ipc_batch_read(&m, &schema, &arena,
			    &back)));
			assert_int_equal(back.row_count, count);
			for (i = 0; i < count; i++)
				see_row(&back, i, first + i);
			for (k = 0; k < ARRAY_LEN(fields); k++)
				see_counts(&back.columns[k]);
		}
	}
	buf_free(&out);
	builder_free(&b);
}

/* The same rows are the same bytes, however they lie in their batch. */
static void
test_a_run_is_the_same_bytes(void **state)
{
	struct builder b, alone;
	struct batch batch, part;
	struct ipc_layout l;
	struct buf x, y;
	uint64_t i;

	(void)state;
	make(&b, 100);
	make(&alone, 0);
	for (i = 37; i < 64; i++)
		assert_true(put_row(&alone, i));
	batch = builder_batch(&b);
	part = builder_batch(&alone);
	assert_false(err_is(ipc_layout_init(&l, &schema, NULL, 0, &arena)));
	buf_init(&x, 1u << 20);
	buf_init(&y, 1u << 20);
	write_batch(&x, &l, &batch, 37, 27);
	write_batch(&y, &l, &part, 0, 27);
	assert_true(slice_eq(buf_slice(&x), buf_slice(&y)));
	buf_free(&x);
	buf_free(&y);
	builder_free(&b);
	builder_free(&alone);
}

/* lance-format.md 10: a body by hand. */
static void
test_body_of_the_format_page(void **state)
{
	static const struct arrow_field two[] = { FIELD("id", UTF8),
	    FIELD("n", INT32) };
	static const struct arrow_schema s = { 2, two, 0, NULL };
	static const char body[] = "\0\0\0\0" "\2\0\0\0" "\5\0\0\0" "\0\0\0\0"
	    "k0k10\0\0\0" "\1\0\0\0\0\0\0\0" "\7\0\0\0\0\0\0\0";
	struct builder b;
	struct batch batch;
	struct ipc_layout l;
	struct ipc_message m;
	struct buf out;

	(void)state;
	assert_false(err_is(builder_init(&b, &s, 4096)));
	assert_true(column_bytes(&b.columns[0], SLICE("k0")));
	assert_true(column_int32(&b.columns[1], 7));
	builder_end_row(&b);
	assert_true(column_bytes(&b.columns[0], SLICE("k10")));
	assert_true(column_null(&b.columns[1]));
	builder_end_row(&b);
	batch = builder_batch(&b);
	assert_false(err_is(ipc_layout_init(&l, &s, NULL, 0, &arena)));
	buf_init(&out, 4096);
	write_batch(&out, &l, &batch, 0, 2);
	assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
	assert_true(slice_eq(m.body, slice_make(body, sizeof(body) - 1)));
	buf_free(&out);
	builder_free(&b);
}

static void
test_end_of_a_stream(void **state)
{
	struct ipc_message m;
	struct buf out;
	char zeroes[64] = { 0 };

	(void)state;
	buf_init(&out, 64);
	assert_true(ipc_end_write(&out));
	assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
	assert_int_equal(m.kind, IPC_END);
	assert_false(err_is(ipc_message_read(slice_make(zeroes, 64), &m)));
	assert_int_equal(m.kind, IPC_END);
	assert_false(err_is(ipc_message_read(slice_make(zeroes, 3), &m)));
	assert_int_equal(m.kind, IPC_END);
	assert_false(err_is(ipc_message_read(SLICE(""), &m)));
	assert_int_equal(m.kind, IPC_END);
	assert_int_equal(ipc_message_read(SLICE("x"), &m).kind, ERR_CORRUPT);
	assert_int_equal(ipc_message_read(SLICE("\0\0\0\0\1\0\0\0"), &m).kind,
	    ERR_CORRUPT);
	buf_free(&out);
}

/* A stream of one schema and one batch, for spoiling. */
static size_t
spoilable(struct buf *out, struct builder *b)
{
	struct arrow_pair pair = { SLICE("k"), SLICE("0123456789abcdef") };
	struct batch batch;
	struct ipc_layout l;
	size_t at;

	make(b, 11);
	batch = builder_batch(b);
	buf_init(out, 1u << 20);
	assert_false(err_is(ipc_layout_init(&l, &schema, &pair, 1, &arena)));
	assert_false(err_is(ipc_schema_write(out, &schema, &pair, 1)));
	at = out->len;
	write_batch(out, &l, &batch, 0, 11);
	return at;
}

static void
touch(const struct array *a, uint64_t *sum)
{
	uint64_t i;
	uint32_t k;
	size_t n;
	struct slice s;

	for (i = 0; i < a->length; i++) {
		*sum += array_is_null(a, i);
		if (arrow_offset_width((enum arrow_type)a->field->type) == 0)
			continue;
		assert_true(array_offset(a, i) <= array_offset(a, i + 1));
		if (a->field->type == ARROW_LIST)
			continue;
		s = array_slice(a, i);
		for (n = 0; n < s.len; n++)
			*sum += (uint8_t)s.ptr[n];
	}
	for (k = 0; k < a->field->child_count; k++)
		touch(&a->children[k], sum);
}

/* Reads it all, in memory that ends where the bytes end. */
static void
read_spoilt(const char *bytes, size_t len)
{
	struct arena small;
	struct arrow_schema s;
	struct ipc_message m, next;
	struct slice value;
	struct batch batch;
	struct err e;
	uint64_t sum = 0;
	uint32_t i;

	arena_init(&small, 4u << 20);
	e = ipc_message_read(slice_make(bytes, len), &m);
	if (err_is(e) || m.kind != IPC_SCHEMA)
		goto out;
	(void)!ipc_message_find(&m, SLICE("k"), &value);
	e = ipc_schema_read(&m, &small, &s);
	if (err_is(e))
		goto out;
	e = ipc_message_read(slice_make(bytes + m.bytes, len - m.bytes), &next);
	if (err_is(e) || next.kind != IPC_BATCH)
		goto out;
	(void)!ipc_message_find(&next, SLICE("k"), &value);
	e = ipc_batch_read(&next, &s, &small, &batch);
	if (err_is(e))
		goto out;
	for (i = 0; i < s.field_count; i++)
		touch(&batch.columns[i], &sum);
out:
	arena_free(&small);
}

/* Each byte flipped in three ways, each length cut: never a read outside
 * (the sanitizer's word), never an endless loop. */
static void
test_spoilt_bytes(void **state)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	struct builder b;
	struct buf out;
	size_t i, k;
	char *copy;

	(void)state;
	spoilable(&out, &b);
	for (i = 0; i < out.len; i++) {
		copy = malloc(i + 1);
		assert_non_null(copy);
		memcpy(copy, out.ptr, i);
		read_spoilt(copy, i);
		free(copy);
	}
	copy = malloc(out.len);
	assert_non_null(copy);
	memcpy(copy, out.ptr, out.len);
	for (i = 0; i < out.len; i++) {
		for (k = 0; k < ARRAY_LEN(flips); k++) {
			copy[i] = (char)((uint8_t)out.ptr[i] ^ flips[k]);
			read_spoilt(copy, out.len);
		}
		copy[i] = out.ptr[i];
	}
	free(copy);
	buf_free(&out);
	builder_free(&b);
}

/* Makes a batch of one column, patches one 64 bit number, and reads it. */
struct patch {
	const struct arrow_field *field;
	bool in_buffers;	/* else in the nodes */
	uint32_t index;		/* 8 byte words from there */
	int64_t value;
	uint16_t kind;
};

static struct err
read_patched(const struct patch *p)
{
	struct arrow_schema s = { 1, p->field, 0, NULL };
	struct builder b;
	struct batch batch, back;
	struct ipc_layout l;
	struct ipc_message m;
	struct buf out;
	struct err e;
	uint64_t i;

	assert_false(err_is(builder_init(&b, &s, 1u << 20)));
	for (i = 0; i < 12; i++) {
		assert_true(i == 3 ? column_null(&b.columns[0]) :
		    put_value(&b.columns[0], i));
		builder_end_row(&b);
	}
	batch = builder_batch(&b);
	assert_false(err_is(ipc_layout_init(&l, &s, NULL, 0, &arena)));
	buf_init(&out, 1u << 20);
	write_batch(&out, &l, &batch, 0, 12);
	memcpy(out.ptr + (p->in_buffers ? l.buffers_at : l.nodes_at) +
	    p->index * 8, &p->value, 8);
	e = ipc_message_read(buf_slice(&out), &m);
	if (!err_is(e))
		e = ipc_batch_read(&m, &s, &arena, &back);
	buf_free(&out);
	builder_free(&b);
	return e;
}

static void
test_each_bound(void **state)
{
	static const struct arrow_field strict = { .name = { "n", 1 },
	    .type = ARROW_INT32, .nullable = false, .id = -1 };
	const struct patch patches[] = {
		{ &fields[I32], false, 0, 12, ERR_OK },
		{ &fields[I32], false, 0, 11, ERR_CORRUPT },	/* length */
		{ &fields[I32], false, 0, -1, ERR_CORRUPT },
		{ &fields[I32], false, 0, INT64_MAX, ERR_CORRUPT },
		{ &fields[I32], false, 1, 2, ERR_CORRUPT },	/* nulls */
		{ &fields[I32], false, 1, 13, ERR_CORRUPT },
		{ &fields[I32], false, 1, -1, ERR_CORRUPT },
		{ &strict, false, 1, 1, ERR_CORRUPT },
		{ &fields[I32], true, 0, 1 << 20, ERR_CORRUPT }, /* validity */
		{ &fields[I32], true, 1, 1, ERR_CORRUPT },
		{ &fields[I32], true, 2, -8, ERR_CORRUPT },	/* values */
		{ &fields[I32], true, 3, 47, ERR_CORRUPT },
		{ &fields[I32], true, 3, INT64_MAX, ERR_CORRUPT },
		{ &fields[S], true, 3, 51, ERR_CORRUPT },	/* offsets */
		{ &fields[S], true, 2, 16, ERR_CORRUPT },	/* of text */
		{ &fields[S], true, 5, 3, ERR_CORRUPT },	/* bytes */
		{ &fields[B], true, 3, 1, ERR_CORRUPT },
		{ &fields[VEC], false, 2, 35, ERR_CORRUPT },	/* items */
		{ &fields[VEC], true, 5, 143, ERR_CORRUPT },
		{ &fields[TAGS], false, 2, 1, ERR_CORRUPT },	/* item count */
		{ &fields[STEPS], false, 4, 1, ERR_CORRUPT },	/* a member's */
		{ &fields[TAGS], false, 2, 14, ERR_CORRUPT },	/* one fewer */
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(patches); i++) {
		struct err e = read_patched(&patches[i]);

		if (e.kind != patches[i].kind)
			fail_msg("patch %zu: %s, %s", i, err_name(e), e.what);
	}
}

/* Schemas that can be written but must not be read. */
static void
test_schemas_refused(void **state)
{
	static const struct arrow_field deep[] = {
		FIELD("item", UTF8),
		FIELD("item", LIST, .child_count = 1, .children = &deep[0]),
		FIELD("item", LIST, .child_count = 1, .children = &deep[1]),
		FIELD("l", LIST, .child_count = 1, .children = &deep[2]),
	};
	static const struct arrow_field no_dim = FIELD("v", FIXED_LIST);
	static const struct arrow_field two_items = FIELD("l", LIST,
	    .child_count = 2, .children = members);
	static const struct arrow_field no_member = FIELD("s", STRUCT);
	static struct arrow_field many[ARROW_FIELDS_MAX + 1];
	const struct {
		struct arrow_schema schema;
		uint16_t kind;
	} refused[] = {
		{ { 1, &deep[2], 0, NULL }, ERR_OK },
		{ { 1, &deep[3], 0, NULL }, ERR_UNSUPPORTED },
		{ { 1, &no_dim, 0, NULL }, ERR_UNSUPPORTED },
		{ { 1, &two_items, 0, NULL }, ERR_CORRUPT },
		{ { 1, &no_member, 0, NULL }, ERR_UNSUPPORTED },
		{ { ARROW_FIELDS_MAX, many, 0, NULL }, ERR_OK },
		{ { ARROW_FIELDS_MAX + 1, many, 0, NULL }, ERR_UNSUPPORTED },
	};
	struct arrow_schema back;
	struct ipc_message m;
	struct buf out;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(many); i++)
		many[i] = fields[I32];
	buf_init(&out, 1u << 20);
	for (i = 0; i < ARRAY_LEN(refused); i++) {
		out.len = 0;
		assert_false(err_is(ipc_schema_write(&out, &refused[i].schema,
		    NULL, 0)));
		assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
		assert_int_equal(ipc_schema_read(&m, &arena, &back).kind,
		    refused[i].kind);
	}
	buf_free(&out);
}

/* Each byte of a file's end flipped: bounds of footer and blocks. */
static void
test_spoilt_file(void **state)
{
	struct builder b;
	struct batch batch, back;
	struct ipc_file f;
	struct arena small;
	struct buf out;
	char *copy;
	size_t i, k;

	(void)state;
	make(&b, 3);
	batch = builder_batch(&b);
	buf_init(&out, 1u << 20);
	assert_false(err_is(ipc_file_write(&out, &batch)));
	copy = malloc(out.len);
	assert_non_null(copy);
	memcpy(copy, out.ptr, out.len);
	for (i = out.len / 2; i < out.len; i++) {
		for (k = 0; k < 8; k++) {
			copy[i] ^= (char)(1u << k);
			arena_init(&small, 1u << 20);
			if (!err_is(ipc_file_open(slice_make(copy, out.len),
			    &small, &f)) && f.batch_count > 0)
				(void)!err_is(ipc_file_batch(&f, 0, &small,
				    &back));
			arena_free(&small);
			copy[i] = out.ptr[i];
		}
	}
	free(copy);
	buf_free(&out);
	builder_free(&b);
}

static void
test_schema_must_fit(void **state)
{
	struct arrow_schema fewer = { ARRAY_LEN(fields) - 1, fields, 0, NULL };
	struct builder b;
	struct buf out;
	struct batch batch;
	struct ipc_message m;
	size_t at;

	(void)state;
	at = spoilable(&out, &b);
	assert_false(err_is(ipc_message_read(rest(&out, at), &m)));
	assert_int_equal(ipc_batch_read(&m, &fewer, &arena, &batch).kind,
	    ERR_CORRUPT);
	buf_free(&out);
	builder_free(&b);
}

static void
test_file_round_trip(void **state)
{
	struct builder b;
	struct batch batch, back;
	struct ipc_file f;
	struct buf out, padded;
	uint64_t i;
	size_t cut;

	(void)state;
	make(&b, 50);
	batch = builder_batch(&b);
	buf_init(&out, 1u << 20);
	assert_false(err_is(ipc_file_write(&out, &batch)));
	assert_false(err_is(ipc_file_open(buf_slice(&out), &arena, &f)));
	assert_true(arrow_schema_same(&f.schema, &schema));
	assert_int_equal(f.batch_count, 1);
	assert_false(err_is(ipc_file_batch(&f, 0, &arena, &back)));
	for (i = 0; i < 50; i++)
		see_row(&back, i, i);
	for (cut = 0; cut < out.len; cut++) {
		struct slice part = slice_make(out.ptr, cut);

		assert_int_equal(ipc_file_open(part, &arena, &f).kind,
		    ERR_CORRUPT);
	}
	buf_init(&padded, 200);
	assert_int_equal(ipc_file_write(&padded, &batch).kind, ERR_NO_MEMORY);
	buf_free(&padded);
	buf_free(&out);
	builder_free(&b);
}

static struct slice
load(const char *path)
{
	FILE *f = fopen(path, "r");
	char *bytes = arena_alloc(&arena, 1u << 16);
	size_t n;

	assert_non_null(f);
	assert_non_null(bytes);
	n = fread(bytes, 1, 1u << 16, f);
	fclose(f);
	return slice_make(bytes, n);
}

/* Written by the Lance engine: padded to 64, compressed, not sorted. The rows
 * deleted are those with n % 3 == 0. */
static void
test_deletion_file_of_the_engine(void **state)
{
	struct slice bytes = load("tests/data/lance/deleted_v20.lance/"
	    "_deletions/0-3-3221037274517024461.arrow");
	bool seen[1000] = { false };
	struct ipc_file f;
	struct batch b;
	uint64_t i;
	int64_t row;

	(void)state;
	assert_false(err_is(ipc_file_open(bytes, &arena, &f)));
	assert_int_equal(f.batch_count, 1);
	assert_true(slice_eq(f.schema.fields[0].name, SLICE("row_id")));
	assert_int_equal(f.schema.fields[0].type, ARROW_UINT32);
	assert_false(err_is(ipc_file_batch(&f, 0, &arena, &b)));
	assert_int_equal(b.row_count, 334);
	for (i = 0; i < b.row_count; i++) {
		row = array_int(&b.columns[0], i);
		assert_in_range(row, 0, 999);
		assert_int_equal(row % 3, 0);
		assert_false(seen[row]);
		seen[row] = true;
	}
}

/* A frame that is spoilt, or that asks for more than the arena gives. */
static void
test_compressed_bounds(void **state)
{
	struct slice bytes = load("tests/data/lance/deleted_v20.lance/"
	    "_deletions/0-3-3221037274517024461.arrow");
	struct arena small;
	struct ipc_file f;
	struct ipc_message m;
	struct batch b;
	int64_t length, wrong[] = { -2, 0, 1335, 1337, 1 << 24, INT64_MAX };
	char *frame;
	size_t i;

	(void)state;
	assert_false(err_is(ipc_file_open(bytes, &arena, &f)));
	assert_false(err_is(ipc_message_read(f.batches[0], &m)));
	frame = memmem(m.body.ptr, m.body.len, "\x28\xb5\x2f\xfd", 4);
	assert_non_null(frame);
	/* The first is of the validity; take that of the values. */
	frame = memmem(frame + 4, m.body.len - (size_t)(frame + 4 - m.body.ptr),
	    "\x28\xb5\x2f\xfd", 4);
	assert_non_null(frame);
	memcpy(&length, frame - 8, 8);
	assert_int_equal(length, 334 * 4);
	for (i = 0; i < ARRAY_LEN(wrong); i++) {
		memcpy(frame - 8, &wrong[i], 8);
		arena_init(&small, 1u << 20);
		assert_true(err_is(ipc_file_batch(&f, 0, &small, &b)));
		arena_free(&small);
	}
	memcpy(frame - 8, &length, 8);
	for (i = 0; i < 16; i++) {
		frame[i] ^= 0x55;
		(void)!err_is(ipc_file_batch(&f, 0, &arena, &b));
		frame[i] ^= 0x55;
	}
}

/* Other writers leave bytes under nulls; ours rely on there being none. */
static void
test_bytes_under_nulls(void **state)
{
	static const struct arrow_field text[] = { FIELD("s", UTF8) };
	static const struct arrow_schema s = { 1, text, 0, NULL };
	static const int32_t offsets[] = { 0, 2, 4, 6 };
	static const uint8_t valid[] = { 5 };
	struct array a = { .field = text, .length = 3, .null_count = 1,
	    .validity = valid, .offsets = offsets, .values = "aabbcc" };
	struct batch b = { &s, 3, &a }, back;
	struct ipc_layout l;
	struct ipc_message m;
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	assert_false(err_is(ipc_layout_init(&l, &s, NULL, 0, &arena)));
	write_batch(&out, &l, &b, 0, 3);
	assert_false(err_is(ipc_message_read(buf_slice(&out), &m)));
	assert_false(err_is(ipc_batch_read(&m, &s, &arena, &back)));
	assert_true(slice_eq(array_slice(back.columns, 0), SLICE("aa")));
	assert_true(array_is_null(back.columns, 1));
	assert_int_equal(array_slice(back.columns, 1).len, 0);
	assert_true(slice_eq(array_slice(back.columns, 2), SLICE("cc")));
	buf_free(&out);
}

/* Each cap fails in its own place; none may crash or claim success. */
static void
test_caps(void **state)
{
	struct builder b;
	struct batch batch;
	struct buf out;
	size_t cap, need;

	(void)state;
	make(&b, 3);
	batch = builder_batch(&b);
	buf_init(&out, 1u << 20);
	assert_false(err_is(ipc_schema_write(&out, &schema, NULL, 0)));
	need = out.len;
	buf_free(&out);
	for (cap = 0; cap < need; cap += 8) {
		buf_init(&out, cap);
		assert_int_equal(ipc_schema_write(&out, &schema, NULL, 0).kind,
		    ERR_NO_MEMORY);
		buf_free(&out);
	}
	for (cap = 0; cap < 8192; cap += 64) {
		buf_init(&out, cap);
		(void)!err_is(ipc_file_write(&out, &batch));
		buf_free(&out);
	}
	builder_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schema_round_trip),
		cmocka_unit_test(test_no_columns),
		cmocka_unit_test(test_batches_round_trip),
		cmocka_unit_test(test_a_run_is_the_same_bytes),
		cmocka_unit_test(test_parts_are_the_message),
		cmocka_unit_test(test_body_of_the_format_page),
		cmocka_unit_test(test_end_of_a_stream),
		cmocka_unit_test(test_spoilt_bytes),
		cmocka_unit_test(test_each_bound),
		cmocka_unit_test(test_schemas_refused),
		cmocka_unit_test(test_spoilt_file),
		cmocka_unit_test(test_schema_must_fit),
		cmocka_unit_test(test_file_round_trip),
		cmocka_unit_test(test_deletion_file_of_the_engine),
		cmocka_unit_test(test_compressed_bounds),
		cmocka_unit_test(test_bytes_under_nulls),
		cmocka_unit_test(test_caps),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
