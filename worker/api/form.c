#include "common/base.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/api/form.h"
#include "worker/http/multipart.h"

#define NAME_TOLD_MAX	40		/* bytes of a part's name in errors */
#define NO_VALUE	UINT64_MAX
#define COPIED_AT_ONCE	(1u << 20)	/* bytes; more are for the pool */

struct part {
	uint64_t row;
	size_t at, len;			/* in bytes */
};

struct form {
	struct multipart parser;
	struct arena *arena;
	const struct store_shape *shape;
	struct builder *builder;
	struct row_read *reader;	/* NULL: the metadata is complete */
	bool begun;			/* the metadata */
	struct row_read_result rows;
	struct batch batch;		/* of rows, until the payloads go in */
	struct buf bytes;		/* of all parts, as they came */
	struct buf parts;		/* struct part */
	struct buf seen;		/* rows that have one, bits */
	struct part part;		/* at hand */
	bool in_order;			/* the bytes are what the column holds */
};

/* ---- parts as they come */

static struct err
bad_part(const struct form *f, struct slice name, const char *why)
{
	return FAIL(BAD_INPUT, arena_printf(f->arena, "part \"%.*s\": %s",
	    (int)MIN(name.len, (size_t)NAME_TOLD_MAX), name.ptr, why));
}

static bool
read_index(struct slice name, uint64_t *index)
{
	uint64_t n = 0;

	for (size_t i = 0; i < name.len; i++) {
		if (name.ptr[i] < '0' || name.ptr[i] > '9' ||
		    __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(name.ptr[i] - '0'),
		    &n))
			return false;
	}
	*index = n;
	return name.len > 0;
}

/* Answers false if the row had a part already. */
static bool
mark_seen(struct form *f, uint64_t row)
{
	uint8_t *byte = (uint8_t *)f->seen.ptr + row / 8;
	uint8_t bit = (uint8_t)(1u << row % 8);

	if ((*byte & bit) != 0)
		return false;
	*byte |= bit;
	return true;
}

static bool
has_part(const struct form *f, uint64_t row)
{
	return f->seen.len > 0 &&
	    ((uint8_t)f->seen.ptr[row / 8] >> row % 8 & 1) != 0;
}

static struct err
begin_payload(struct form *f, struct slice name)
{
	uint64_t row;

	if (!read_index(name, &row))
		return bad_part(f, name, "its name is not the index of a "
		    "record");
	if (row >= f->rows.count)
		return bad_part(f, name, "there is no such record");
	if (f->seen.len == 0 &&
	    !buf_append_zero(&f->seen, (size_t)(f->rows.count / 8 + 1)))
		return FAIL(NO_MEMORY, "payloads of a request");
	if (!mark_seen(f, row))
		return bad_part(f, name, "comes twice");
	f->part = (struct part){ row, f->bytes.len, 0 };
	return OK;
}

static struct err
part_begins(void *arg, struct slice name)
{
	struct form *f = arg;
	bool is_metadata = slice_eq(name, SLICE("metadata"));

	if (f->begun)
		return begin_payload(f, name);
	f->begun = true;
	return is_metadata ? OK :
	    bad_part(f, name, "the first part must be \"metadata\"");
}

static struct err
part_goes_on(void *arg, struct slice bytes)
{
	struct form *f = arg;

	if (f->reader != NULL)
		return row_read_feed(f->reader, bytes);
	if (!buf_append_slice(&f->bytes, bytes))
		return FAIL(TOO_LARGE, "the payloads of one request are too "
		    "large");
	return OK;
}

static struct err
metadata_ends(struct form *f)
{
	struct err e = row_read_finish(f->reader, &f->rows);

	if (err_is(e))
		return e;
	MUST(f->rows.first_row == 0);
	f->reader = NULL;
	f->batch = builder_batch(f->builder);
	return OK;
}

static struct err
check_size(const struct form *f)
{
	const struct array *size = &f->batch.columns[f->shape->payload_size];
	uint64_t row = f->part.row;

	if (array_is_null(size, row) ||
	    array_int(size, row) == (int64_t)f->part.len)
		return OK;
	return FAIL(BAD_INPUT, arena_printf(f->arena, "part \"%llu\": "
	    "payload_size of the record is %lld, but %zu bytes came",
	    (unsigned long long)row, (long long)array_int(size, row),
	    f->part.len));
}

static struct err
part_ends(void *arg)
{
	struct form *f = arg;
	struct err e;

	if (f->reader != NULL)
		return metadata_ends(f);
	f->part.len = f->bytes.len - f->part.at;
	e = check_size(f);
	if (!err_is(e) && !buf_append(&f->parts, &f->part, sizeof(f->part)))
		e = FAIL(NO_MEMORY, "payloads of a request");
	return e;
}

static const struct multipart_calls calls = {
	.begin = part_begins,
	.data = part_goes_on,
	.end = part_ends,
};

/* ---- payloads into their column */

static struct part *
parts_of(const struct form *f, size_t *count)
{
	*count = f->parts.len / sizeof(struct part);
	return (struct part *)(void *)f->parts.ptr;
}

static int
by_row(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->row < y->row ? -1 : x->row > y->row;
}

/* Sorts the parts by row; answers whether they came like that. */
static bool
sort_parts(struct form *f)
{
	size_t count, i;
	struct part *parts = parts_of(f, &count);

	for (i = 1; i < count && parts[i - 1].row < parts[i].row; i++)
		continue;
	if (i >= count)
		return true;
	qsort(parts, count, sizeof(*parts), by_row);
	return false;
}

/* Rule 5. *inline_kept: there is a payload that no part replaces. */
static struct err
check_rows(const struct form *f, bool *inline_kept)
{
	const struct array *blob = &f->batch.columns[f->shape->blob];
	const struct array *size = &f->batch.columns[f->shape->payload_size];

	*inline_kept = false;
	for (uint64_t i = 0; i < f->rows.count; i++) {
		if (has_part(f, i))
			continue;
		if (!array_is_null(blob, i))
			*inline_kept = true;
		else if (!array_is_null(size, i))
			return FAIL(BAD_INPUT, arena_printf(f->arena,
			    "records[%llu].payload_size: there is neither a "
			    "part nor a binary_payload",
			    (unsigned long long)i));
	}
	return OK;
}

/* The bytes were copied: whole pages of them go back to the system now. */
static void
forget(const char *bytes, size_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ROUND_UP((uintptr_t)bytes, page);
	uintptr_t end = ((uintptr_t)bytes + len) & ~(page - 1);

	if (end > from)
		(void)madvise((void *)from, end - from, MADV_DONTNEED);
}

/* One length a row; NO_VALUE: null. */
static bool
measure(const struct form *f, struct buf *lengths)
{
	const struct array *blob = &f->batch.columns[f->shape->blob];
	size_t count, at = 0;
	const struct part *parts = parts_of(f, &count);

	for (uint64_t i = 0; i < f->rows.count; i++) {
		uint64_t len = NO_VALUE;

		if (at < count && parts[at].row == i)
			len = parts[at++].len;
		else if (!array_is_null(blob, i))
			len = array_slice(blob, i).len;
		if (!buf_append(lengths, &len, sizeof(len)))
			return false;
	}
	return true;
}

/* Parts and inline payloads, in the order of the rows, in place of bytes. */
static bool
reorder(struct form *f)
{
	const struct array *blob = &f->batch.columns[f->shape->blob];
	size_t count, at = 0;
	const struct part *parts = parts_of(f, &count);
	struct buf out;
	bool ok = true;

	buf_init(&out, f->bytes.cap_bytes);
	for (uint64_t i = 0; ok && i < f->rows.count; i++) {
		if (at < count && parts[at].row == i) {
			const struct part *p = &parts[at++];

			ok = buf_append(&out, f->bytes.ptr + p->at, p->len);
			forget(f->bytes.ptr + p->at, p->len);
		} else if (!array_is_null(blob, i)) {
			ok = buf_append_slice(&out, array_slice(blob, i));
		}
	}
	buf_free(&f->bytes);
	f->bytes = out;
	return ok;
}

/* The column anew, its bytes being there already. Takes bytes. */
static bool
replace_column(struct form *f, const struct buf *lengths)
{
	struct column *c = &f->builder->columns[f->shape->blob];
	bool ok = true;

	column_cut(c, 0);
	buf_free(&c->values);
	c->values = f->bytes;
	c->values.len = 0;
	buf_init(&f->bytes, 0);
	for (uint64_t i = 0; ok && i < f->rows.count; i++) {
		uint64_t len;

		memcpy(&len, lengths->ptr + i * sizeof(len), sizeof(len));
		if (len == NO_VALUE) {
			ok = column_null(c);
		} else {
			column_grow(c, (size_t)len);
			ok = column_end_value(c);
		}
	}
	return ok;
}

static struct err
put_payloads(struct form *f)
{
	struct buf lengths;
	bool ok;

	buf_init(&lengths, SIZE_MAX);
	ok = measure(f, &lengths) && (f->in_order || reorder(f)) &&
	    replace_column(f, &lengths);
	buf_free(&lengths);
	return ok ? OK : FAIL(TOO_LARGE, "the rows of one request are too "
	    "large");
}

/* ---- the face */

struct err
form_new(struct arena *a, struct slice content_type, struct form **out)
{
	struct form *f = arena_alloc(a, sizeof(*f));
	struct err e;

	if (f == NULL)
		return FAIL(NO_MEMORY, "request state");
	e = multipart_init(&f->parser, content_type, &calls, f);
	if (err_is(e))
		return e;
	memset((char *)f + sizeof(f->parser), 0,
	    sizeof(*f) - sizeof(f->parser));
	f->arena = a;
	*out = f;
	return OK;
}

struct err
form_open(struct form *f, const struct store_shape *shape,
    const char *list_name, int64_t now_us, struct builder *b)
{
	MUST(shape->blob >= 0 && shape->payload_size >= 0);
	MUST(b->row_count == 0);
	f->shape = shape;
	f->builder = b;
	buf_init(&f->bytes, b->cap_bytes);
	buf_init(&f->parts, b->cap_bytes);
	buf_init(&f->seen, b->cap_bytes);
	return row_read_open(f->arena, shape, list_name, now_us, b,
	    &f->reader);
}

struct err
form_feed(struct form *f, struct slice piece)
{
	return multipart_feed(&f->parser, piece);
}

struct err
form_finish(struct form *f, struct row_read_result *rows, bool *later)
{
	struct err e = multipart_finish(&f->parser);
	bool inline_kept;

	*later = false;
	if (!err_is(e) && !f->begun)
		e = FAIL(BAD_INPUT, "multipart: no part \"metadata\"");
	if (!err_is(e))
		e = check_rows(f, &inline_kept);
	if (err_is(e))
		return e;
	*rows = f->rows;
	if (f->parts.len == 0)
		return OK;
	f->in_order = sort_parts(f) && !inline_kept;
	*later = !f->in_order && f->bytes.len > COPIED_AT_ONCE;
	return *later ? OK : put_payloads(f);
}

struct err
form_reorder(struct form *f)
{
	return put_payloads(f);
}

void
form_free(struct form *f)
{
	if (f == NULL)
		return;
	buf_free(&f->bytes);
	buf_free(&f->parts);
	buf_free(&f->seen);
}
