#include "common/base.h"

#include <roaring/roaring.h>
#include <stdlib.h>

#include "worker/arrow/ipc.h"
#include "worker/lance/deletion.h"
#include "worker/lance/own.h"

/*
 * The portable format is read by hand: the library's reader checks lengths but
 * believes cardinalities and order, and a bitmap with values out of order
 * answers wrongly for ever. Values are added a container at a time.
 */

#define COOKIE_PLAIN	12346u
#define COOKIE_RUNS	12347u
#define CONTAINERS_MAX	65536u
#define ARRAY_MAX	4096u		/* values; more are a bit map */
#define BITS_BYTES	8192u
#define RUNS_OFFSETS	4u		/* containers; fewer have no offsets */
#define FILE_MAX	(64u << 20)

struct deletion {
	roaring_bitmap_t *rows;
};

struct input {
	const uint8_t *ptr;
	size_t left;
};

/* One container while it is read: its values in order. */
struct container {
	uint32_t key, cardinality;
	uint32_t count;
	uint32_t values[CONTAINERS_MAX];
};

struct err
deletion_new(struct deletion **out)
{
	struct deletion *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return FAIL(NO_MEMORY, "deleted rows");
	d->rows = roaring_bitmap_create();
	if (d->rows == NULL) {
		free(d);
		return FAIL(NO_MEMORY, "deleted rows");
	}
	*out = d;
	return OK;
}

struct err
deletion_copy(const struct deletion *from, struct deletion **out)
{
	struct deletion *d;
	struct err e = deletion_new(&d);

	if (err_is(e))
		return e;
	deletion_add_all(d, from);
	*out = d;
	return OK;
}

void
deletion_free(struct deletion *d)
{
	if (d == NULL)
		return;
	roaring_bitmap_free(d->rows);
	free(d);
}

static const uint8_t *
take(struct input *in, size_t bytes)
{
	const uint8_t *ptr = in->ptr;

	if (bytes > in->left)
		return NULL;
	in->ptr += bytes;
	in->left -= bytes;
	return ptr;
}

static uint32_t
load16(const uint8_t *ptr)
{
	return ptr[0] | (uint32_t)ptr[1] << 8;
}

static uint32_t
load32(const uint8_t *ptr)
{
	return load16(ptr) | load16(ptr + 2) << 16;
}

static bool
read_array(struct input *in, struct container *c)
{
	const uint8_t *values = take(in, 2ull * c->cardinality);
	uint32_t i;

	if (values == NULL)
		return false;
	for (i = 0; i < c->cardinality; i++) {
		c->values[i] = c->key << 16 | load16(values + 2 * i);
		if (i > 0 && c->values[i] <= c->values[i - 1])
			return false;
	}
	c->count = i;
	return true;
}

static bool
read_bits(struct input *in, struct container *c)
{
	const uint8_t *bits = take(in, BITS_BYTES);
	uint32_t i;

	if (bits == NULL)
		return false;
	c->count = 0;
	for (i = 0; i < 8 * BITS_BYTES; i++) {
		if (bits[i / 8] >> (i % 8) & 1)
			c->values[c->count++] = c->key << 16 | i;
	}
	return c->count == c->cardinality;
}

static bool
read_runs(struct input *in, struct container *c)
{
	const uint8_t *head = take(in, 2), *run;
	uint32_t left, start, last, next = 0;

	if (head == NULL)
		return false;
	c->count = 0;
	for (left = load16(head); left > 0; left--) {
		run = take(in, 4);
		if (run == NULL)
			return false;
		start = load16(run);
		last = start + load16(run + 2);
		if (start < next || last >= CONTAINERS_MAX)
			return false;
		next = last + 1;
		for (; start <= last; start++)
			c->values[c->count++] = c->key << 16 | start;
	}
	return c->count == c->cardinality;
}

/* The head of a set: how many containers, which are runs, their keys. */
struct set_head {
	uint32_t count;
	const uint8_t *runs;		/* a bit a container, or NULL */
	const uint8_t *keys;		/* u16 key, u16 cardinality-1 each */
};

static bool
read_head(struct input *in, struct set_head *h)
{
	const uint8_t *ptr = take(in, 4);
	uint32_t cookie = ptr == NULL ? 0 : load32(ptr);

	h->runs = NULL;
	if (cookie == COOKIE_PLAIN) {
		ptr = take(in, 4);
		h->count = ptr == NULL ? UINT32_MAX : load32(ptr);
	} else if ((cookie & 0xffff) == COOKIE_RUNS) {
		h->count = (cookie >> 16) + 1;
		h->runs = take(in, (h->count + 7) / 8);
		if (h->runs == NULL)
			return false;
	} else {
		return false;
	}
	if (h->count > CONTAINERS_MAX)
		return false;
	h->keys = take(in, 4ull * h->count);
	if (h->keys == NULL)
		return false;
	/* Containers follow each other; where they are need not be told. */
	return (h->runs != NULL && h->count < RUNS_OFFSETS) ||
	    take(in, 4ull * h->count) != NULL;
}

static bool
read_set(struct input *in, uint64_t row_count, struct container *c,
    struct deletion *d)
{
	struct set_head h;
	uint32_t i;
	bool ok;

	if (!read_head(in, &h))
		return false;
	for (i = 0; i < h.count; i++) {
		if (i > 0 && load16(h.keys + 4 * i) <= c->key)
			return false;
		c->key = load16(h.keys + 4 * i);
		c->cardinality = load16(h.keys + 4 * i + 2) + 1;
		if (h.runs != NULL && (h.runs[i / 8] >> (i % 8) & 1))
			ok = read_runs(in, c);
		else if (c->cardinality <= ARRAY_MAX)
			ok = read_array(in, c);
		else
			ok = read_bits(in, c);
		if (!ok || (c->count > 0 && c->values[c->count - 1] >= row_count))
			return false;
		roaring_bitmap_add_many(d->rows, c->count, c->values);
	}
	return true;
}

struct err
deletion_decode(struct slice bytes, uint64_t row_count, struct deletion **out)
{
	struct input in = { (const uint8_t *)bytes.ptr, bytes.len };
	struct container *c = malloc(sizeof(*c));
	struct deletion *d = NULL;
	struct err e = deletion_new(&d);

	if (c == NULL && !err_is(e))
		e = FAIL(NO_MEMORY, "deleted rows");
	if (!err_is(e) && !read_set(&in, row_count, c, d))
		e = FAIL(CORRUPT, "a roaring bitmap");
	free(c);
	if (err_is(e))
		deletion_free(d);
	else
		*out = d;
	return e;
}

struct err
deletion_encode(const struct deletion *d, struct arena *arena, struct slice *out)
{
	size_t bytes = roaring_bitmap_portable_size_in_bytes(d->rows);
	char *ptr = arena_alloc(arena, bytes);

	if (ptr == NULL)
		return FAIL(NO_MEMORY, "deleted rows");
	*out = slice_make(ptr, roaring_bitmap_portable_serialize(d->rows, ptr));
	return OK;
}

/* One uint32 column without nulls, in any number of batches. */
static struct err
add_arrow(struct slice bytes, uint64_t row_count, struct arena *arena,
    struct deletion *d)
{
	struct ipc_file file;
	const uint32_t *rows;
	struct batch b;
	struct err e;
	uint64_t r;
	uint32_t i;

	e = ipc_file_open(bytes, arena, &file);
	if (err_is(e))
		return e;
	if (file.schema.field_count != 1 ||
	    file.schema.fields[0].type != ARROW_UINT32)
		return FAIL(CORRUPT, "a deletion file with other columns");
	for (i = 0; i < file.batch_count; i++) {
		e = ipc_file_batch(&file, i, arena, &b);
		if (err_is(e))
			return e;
		if (b.columns[0].null_count > 0)
			return FAIL(CORRUPT, "a deletion file with nulls");
		rows = b.columns[0].values;
		for (r = 0; r < b.row_count; r++) {
			if ((uint64_t)array_int(&b.columns[0], r) >= row_count)
				return FAIL(CORRUPT, "a deleted row that is not there");
		}
		roaring_bitmap_add_many(d->rows, b.row_count, rows);
	}
	return OK;
}

static struct err
decode_arrow(struct slice bytes, uint64_t row_count, struct arena *arena,
    struct deletion **out)
{
	struct deletion *d;
	struct err e = deletion_new(&d);

	if (err_is(e))
		return e;
	e = add_arrow(bytes, row_count, arena, d);
	if (err_is(e))
		deletion_free(d);
	else
		*out = d;
	return e;
}

struct err
deletion_read(struct object_dir *table, uint64_t fragment_id,
    const struct table_deletion *name, uint64_t row_count, struct deletion **out)
{
	char path[TABLE_NAME_MAX];
	struct deletion *d = NULL;
	struct arena arena;
	struct slice bytes;
	struct err e;

	MUST(name->kind != TABLE_DELETION_NONE);
	table_deletion_name(fragment_id, name, path);
	arena_init(&arena, 4u * FILE_MAX);
	e = object_get(table, path, FILE_MAX, &arena, &bytes);
	if (!err_is(e))
		e = name->kind == TABLE_DELETION_BITMAP ?
		    deletion_decode(bytes, row_count, &d) :
		    decode_arrow(bytes, row_count, &arena, &d);
	arena_free(&arena);
	if (err_is(e))
		return e;
	if (name->row_count != 0 && name->row_count != deletion_count(d)) {
		deletion_free(d);
		return FAIL(CORRUPT, "a deletion file with another count of rows");
	}
	*out = d;
	return OK;
}

struct err
deletion_write(struct object_dir *table, uint64_t fragment_id,
    uint64_t read_version, const struct deletion *d, struct table_deletion *out)
{
	struct table_deletion name = { .kind = TABLE_DELETION_BITMAP,
		.read_version = read_version, .row_count = deletion_count(d) };
	char path[TABLE_NAME_MAX];
	struct arena arena;
	struct slice bytes;
	struct err e;

	name.id = own_id();
	table_deletion_name(fragment_id, &name, path);
	arena_init(&arena, 2ull * FILE_MAX);
	e = deletion_encode(d, &arena, &bytes);
	if (!err_is(e))
		e = object_put_new(table, path, bytes);
	arena_free(&arena);
	if (!err_is(e))
		*out = name;
	return e;
}

void
deletion_add(struct deletion *d, uint32_t row)
{
	roaring_bitmap_add(d->rows, row);
}

void
deletion_add_all(struct deletion *d, const struct deletion *more)
{
	roaring_bitmap_or_inplace(d->rows, more->rows);
}

bool
deletion_contains(const struct deletion *d, uint32_t row)
{
	return roaring_bitmap_contains(d->rows, row);
}

uint64_t
deletion_count(const struct deletion *d)
{
	return roaring_bitmap_get_cardinality(d->rows);
}

uint64_t
deletion_count_below(const struct deletion *d, uint64_t row)
{
	if (row == 0)
		return 0;
	if (row > UINT32_MAX)
		return deletion_count(d);
	return roaring_bitmap_rank(d->rows, (uint32_t)row - 1);
}

bool
deletion_next(const struct deletion *d, uint32_t *row)
{
	roaring_uint32_iterator_t it;

	roaring_init_iterator(d->rows, &it);
	if (!roaring_move_uint32_iterator_equalorlarger(&it, *row))
		return false;
	*row = it.current_value;
	return true;
}

size_t
deletion_bytes(const struct deletion *d)
{
	return sizeof(*d) + roaring_bitmap_size_in_bytes(d->rows);
}
