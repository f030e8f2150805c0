#include "common/base.h"

#include <stdlib.h>

#include "worker/arrow/bits.h"
#include "worker/arrow/column.h"

/*
 * What a column holds follows from its length alone: the bytes of its buffers
 * are a function of how many values were ended. So taking rows back, or what is
 * left of a value that hit a limit, is one thing: set the length, then make
 * every buffer as long as that length says (column_cut).
 *
 * Validity bits exist only while there is a null: most columns never pay for
 * them. Bits behind the length are 0.
 */

/* Stands for buffers without bytes, so that no array has a NULL where a reader
 * adds an offset. One entry of offsets: 0. */
static const uint64_t nothing[1];

static bool
is_bytes(const struct column *c)
{
	return c->field->type >= ARROW_UTF8 && c->field->type <= ARROW_LARGE_BINARY;
}

static uint32_t
width_of(const struct column *c)
{
	return arrow_type_width((enum arrow_type)c->field->type);
}

/* The common case without a call. */
static inline bool
has_room(struct buf *b, size_t more)
{
	return more <= b->room - b->len || buf_reserve(b, more);
}

/* Offset entry i; i may be the length: where the next value begins. */
static uint64_t
offset_at(const struct column *c, uint64_t i)
{
	int32_t narrow;
	int64_t wide;

	if (arrow_offset_width((enum arrow_type)c->field->type) == 4) {
		memcpy(&narrow, c->offsets.ptr + i * 4, 4);
		return (uint64_t)narrow;
	}
	memcpy(&wide, c->offsets.ptr + i * 8, 8);
	return (uint64_t)wide;
}

static bool
push_offset(struct column *c, uint64_t at)
{
	uint32_t width = arrow_offset_width((enum arrow_type)c->field->type);
	int32_t narrow;

	if (width == 4 && at > INT32_MAX)
		return false;
	if (!has_room(&c->offsets, width))
		return false;
	narrow = (int32_t)at;
	if (width == 4)
		memcpy(c->offsets.ptr + c->offsets.len, &narrow, 4);
	else
		memcpy(c->offsets.ptr + c->offsets.len, &at, 8);
	c->offsets.len += width;
	return true;
}

/* Room for the bits of count more values, all of them 0. */
static bool
grow_bits(struct buf *bits, uint64_t length, uint64_t count)
{
	size_t need = (size_t)((length + count + 7) / 8);

	return need <= bits->len || buf_append_zero(bits, need - bits->len);
}

/* The first null is about to come: what was there so far is valid. */
static bool
make_validity(struct column *c)
{
	if (c->validity.len > 0)
		return true;
	if (!grow_bits(&c->validity, c->length, 1))
		return false;
	bits_set((uint8_t *)c->validity.ptr, 0, c->length);
	return true;
}

/* Ends count values that are there. */
static inline bool
end_valid(struct column *c, uint64_t count)
{
	if (c->validity.len > 0) {
		if (!grow_bits(&c->validity, c->length, count))
			return false;
		bits_set((uint8_t *)c->validity.ptr, c->length, count);
	}
	c->length += count;
	return true;
}

static bool
end_null(struct column *c)
{
	if (!make_validity(c) || !grow_bits(&c->validity, c->length, 1))
		return false;
	c->length++;
	c->null_count++;
	return true;
}

/* ---- making and giving back */

static void
column_free(struct column *c)
{
	uint32_t i;

	buf_free(&c->validity);
	buf_free(&c->offsets);
	buf_free(&c->values);
	for (i = 0; c->children != NULL && i < c->field->child_count; i++)
		column_free(&c->children[i]);
	free(c->children);
	free(c->child_arrays);
}

/* Depth is bounded by ARROW_DEPTH_MAX, here and below. */
static bool
column_make(struct column *c, const struct arrow_field *f, size_t cap_bytes)
{
	uint32_t i;

	*c = (struct column){ .field = f };
	buf_init(&c->validity, cap_bytes);
	buf_init(&c->offsets, cap_bytes);
	buf_init(&c->values, cap_bytes);
	if (arrow_offset_width((enum arrow_type)f->type) != 0 && !push_offset(c, 0))
		return false;
	if (f->child_count == 0)
		return true;
	c->children = calloc(f->child_count, sizeof(*c->children));
	c->child_arrays = calloc(f->child_count, sizeof(*c->child_arrays));
	if (c->children == NULL || c->child_arrays == NULL)
		return false;
	for (i = 0; i < f->child_count; i++)
		c->children[i].field = &f->children[i];
	for (i = 0; i < f->child_count; i++) {
		if (!column_make(&c->children[i], &f->children[i], cap_bytes))
			return false;
	}
	return true;
}

struct err
builder_init(struct builder *b, const struct arrow_schema *s, size_t cap_bytes)
{
	uint32_t i, count = MAX(s->field_count, 1u);

	MUST(cap_bytes >= sizeof(uint64_t));
	*b = (struct builder){ .schema = s, .cap_bytes = cap_bytes };
	b->columns = calloc(count, sizeof(*b->columns));
	b->arrays = calloc(count, sizeof(*b->arrays));
	if (b->columns == NULL || b->arrays == NULL)
		goto out;
	for (i = 0; i < s->field_count; i++)
		b->columns[i].field = &s->fields[i];
	for (i = 0; i < s->field_count; i++) {
		if (!column_make(&b->columns[i], &s->fields[i], cap_bytes))
			goto out;
	}
	return OK;
out:
	builder_free(b);
	return FAIL(NO_MEMORY, "make columns");
}

void
builder_free(struct builder *b)
{
	uint32_t i;

	for (i = 0; b->columns != NULL && i < b->schema->field_count; i++)
		column_free(&b->columns[i]);
	free(b->columns);
	free(b->arrays);
	*b = (struct builder){ .schema = b->schema };
}

struct sizes {
	size_t used, room;
};

static void
add_sizes(const struct column *c, struct sizes *s)
{
	uint32_t i;

	s->used += c->validity.len + c->offsets.len + c->values.len;
	s->room += c->validity.room + c->offsets.room + c->values.room;
	for (i = 0; i < c->field->child_count; i++)
		add_sizes(&c->children[i], s);
}

static struct sizes
builder_sizes(const struct builder *b)
{
	struct sizes s = { 0, 0 };
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++)
		add_sizes(&b->columns[i], &s);
	return s;
}

size_t
builder_bytes(const struct builder *b)
{
	return builder_sizes(b).used;
}

/* All but the first entry of the offsets. */
static void
give_back(struct column *c)
{
	uint32_t i;
	char *p;

	buf_free(&c->validity);
	buf_free(&c->values);
	if (c->offsets.len > 0) {
		/* Shrinking: when it fails, the old room is as good. */
		p = realloc(c->offsets.ptr, sizeof(uint64_t));
		if (p != NULL) {
			c->offsets.ptr = p;
			c->offsets.room = sizeof(uint64_t);
		}
	}
	for (i = 0; i < c->field->child_count; i++)
		give_back(&c->children[i]);
}

void
builder_clear(struct builder *b, size_t keep_bytes)
{
	bool large;
	uint32_t i;

	if (b->columns == NULL)
		return;
	large = builder_sizes(b).room > keep_bytes;
	builder_cut(b, 0);
	for (i = 0; large && i < b->schema->field_count; i++)
		give_back(&b->columns[i]);
}

/* ---- rows */

void
builder_end_rows(struct builder *b, uint64_t count)
{
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++)
		MUST(b->columns[i].length == b->row_count + count);
	b->row_count += count;
}

void
builder_end_row(struct builder *b)
{
	builder_end_rows(b, 1);
}

void
builder_cut(struct builder *b, uint64_t row_count)
{
	uint32_t i;

	MUST(row_count <= b->row_count);
	for (i = 0; i < b->schema->field_count; i++)
		column_cut(&b->columns[i], row_count);
	b->row_count = row_count;
}

static void
cut_validity(struct column *c, uint64_t length)
{
	if (c->validity.len == 0)
		return;
	/* A null that hit a limit may have left bits, but was not counted. */
	c->null_count -= c->length - length -
	    bits_count((const uint8_t *)c->validity.ptr, length,
	    c->length - length);
	if (c->null_count == 0) {
		c->validity.len = 0;
		return;
	}
	c->validity.len = (size_t)((length + 7) / 8);
	if (length % 8 != 0)
		c->validity.ptr[length / 8] &= (char)((1u << (length % 8)) - 1);
}

void
column_cut(struct column *c, uint64_t length)
{
	uint32_t i, width = arrow_offset_width((enum arrow_type)c->field->type);

	MUST(length <= c->length);
	cut_validity(c, length);
	c->length = length;
	if (width != 0)
		c->offsets.len = (size_t)(length + 1) * width;
	if (is_bytes(c))
		c->values.len = (size_t)offset_at(c, length);
	else if (c->field->type == ARROW_LIST)
		column_cut(&c->children[0], offset_at(c, length));
	else if (c->field->type == ARROW_STRUCT)
		for (i = 0; i < c->field->child_count; i++)
			column_cut(&c->children[i], length);
	else if (c->field->type == ARROW_FIXED_LIST)
		c->values.len = (size_t)length * (uint32_t)c->field->dim * 4;
	else if (c->field->type == ARROW_BOOL) {
		c->values.len = (size_t)((length + 7) / 8);
		if (length % 8 != 0)
			c->values.ptr[length / 8] &=
			    (char)((1u << (length % 8)) - 1);
	} else
		c->values.len = (size_t)length * width_of(c);
}

void
column_drop_open(struct column *c)
{
	column_cut(c, c->length);
}

static void
view(const struct column *c, struct array *a)
{
	uint32_t i;

	*a = (struct array){
		.field = c->field,
		.length = c->length,
		.null_count = c->null_count,
		.validity = c->null_count == 0 ? NULL :
		    (const uint8_t *)c->validity.ptr,
		.offsets = c->offsets.len == 0 ? (const void *)nothing :
		    c->offsets.ptr,
		.values = c->values.len == 0 ? (const void *)nothing :
		    c->values.ptr,
		.children = c->child_arrays,
	};
	for (i = 0; i < c->field->child_count; i++)
		view(&c->children[i], &c->child_arrays[i]);
}

struct batch
builder_batch(struct builder *b)
{
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++) {
		MUST(b->columns[i].length == b->row_count);
		view(&b->columns[i], &b->arrays[i]);
	}
	return (struct batch){ b->schema, b->row_count, b->arrays };
}

/* ---- values */

static inline bool
push_fixed(struct column *c, const void *value, size_t width)
{
	if (!has_room(&c->values, width) || !end_valid(c, 1))
		return false;
	memcpy(c->values.ptr + c->values.len, value, width);
	c->values.len += width;
	return true;
}

bool
column_bool(struct column *c, bool v)
{
	uint64_t i = c->length;

	MUST(c->field->type == ARROW_BOOL);
	if (!grow_bits(&c->values, i, 1) || !end_valid(c, 1))
		return false;
	if (v)
		bits_set((uint8_t *)c->values.ptr, i, 1);
	return true;
}

bool
column_int8(struct column *c, int8_t v)
{
	MUST(c->field->type == ARROW_INT8);
	return push_fixed(c, &v, sizeof(v));
}

bool
column_int32(struct column *c, int32_t v)
{
	MUST(c->field->type == ARROW_INT32 || c->field->type == ARROW_UINT32);
	return push_fixed(c, &v, sizeof(v));
}

bool
column_int64(struct column *c, int64_t v)
{
	MUST(c->field->type == ARROW_INT64 || c->field->type == ARROW_UINT64 ||
	    c->field->type == ARROW_TIMESTAMP ||
	    c->field->type == ARROW_TIMESTAMP_UTC);
	return push_fixed(c, &v, sizeof(v));
}

bool
column_float(struct column *c, float v)
{
	MUST(c->field->type == ARROW_FLOAT32);
	return push_fixed(c, &v, sizeof(v));
}

bool
column_double(struct column *c, double v)
{
	MUST(c->field->type == ARROW_FLOAT64);
	return push_fixed(c, &v, sizeof(v));
}

bool
column_item_float(struct column *c, float v)
{
	MUST(c->field->type == ARROW_FIXED_LIST);
	return buf_append(&c->values, &v, sizeof(v));
}

bool
column_reserve(struct column *c, size_t bytes)
{
	MUST(is_bytes(c));
	return has_room(&c->values, bytes);
}

bool
column_bytes(struct column *c, struct slice s)
{
	MUST(column_open_length(c) == 0);
	if (!column_reserve(c, s.len))
		return false;
	if (s.len > 0)
		memcpy(column_tail(c), s.ptr, s.len);
	column_grow(c, s.len);
	return column_end_value(c);
}

bool
column_end_value(struct column *c)
{
	uint32_t i;

	switch (c->field->type) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
		return push_offset(c, c->values.len) && end_valid(c, 1);
	case ARROW_LIST:
		return push_offset(c, c->children[0].length) && end_valid(c, 1);
	case ARROW_FIXED_LIST:
		MUST(column_open_length(c) == (uint32_t)c->field->dim);
		return end_valid(c, 1);
	default:
		MUST(c->field->type == ARROW_STRUCT);
		for (i = 0; i < c->field->child_count; i++)
			MUST(c->children[i].length == c->length + 1);
		return end_valid(c, 1);
	}
}

uint64_t
column_open_length(const struct column *c)
{
	if (is_bytes(c))
		return c->values.len - offset_at(c, c->length);
	if (c->field->type == ARROW_LIST)
		return c->children[0].length - offset_at(c, c->length);
	if (c->field->type == ARROW_FIXED_LIST)
		return c->values.len / 4 - c->length * (uint32_t)c->field->dim;
	return 0;
}

static bool
null_members(struct column *c)
{
	uint32_t i;

	for (i = 0; i < c->field->child_count; i++) {
		if (!column_null(&c->children[i]))
			return false;
	}
	return true;
}

bool
column_null(struct column *c)
{
	MUST(column_open_length(c) == 0);
	switch (c->field->type) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
	case ARROW_LIST:
		return push_offset(c, offset_at(c, c->length)) && end_null(c);
	case ARROW_STRUCT:
		/* Members have a value each, whatever stands over it. */
		return null_members(c) && end_null(c);
	case ARROW_FIXED_LIST:
		return buf_append_zero(&c->values,
		    (uint32_t)c->field->dim * sizeof(float)) && end_null(c);
	case ARROW_BOOL:
		return grow_bits(&c->values, c->length, 1) && end_null(c);
	default:
		return buf_append_zero(&c->values, width_of(c)) && end_null(c);
	}
}

/* ---- copies: whole runs with one memcpy a buffer */

static bool
copy_validity(struct column *c, const struct array *a, uint64_t first,
    uint64_t count)
{
	uint64_t valid = count;

	if (a->validity != NULL)
		valid = bits_count(a->validity, first, count);
	if (valid == count)
		return end_valid(c, count);
	if (!make_validity(c) || !grow_bits(&c->validity, c->length, count))
		return false;
	bits_copy((uint8_t *)c->validity.ptr, c->length, a->validity, first,
	    count);
	c->length += count;
	c->null_count += count - valid;
	return true;
}

/* Offsets of the run, moved so that its first value begins at base. */
static bool
copy_offsets(struct column *c, const struct array *a, uint64_t first,
    uint64_t count, uint64_t base)
{
	uint32_t width = arrow_offset_width((enum arrow_type)c->field->type);
	uint64_t i, from = array_offset(a, first);
	uint64_t end = base + (array_offset(a, first + count) - from);
	int32_t narrow;
	uint64_t wide;
	char *p;

	if (width == 4 && end > INT32_MAX)
		return false;
	if (count > c->offsets.cap_bytes / width ||
	    !has_room(&c->offsets, (size_t)count * width))
		return false;
	p = c->offsets.ptr + c->offsets.len;
	if (width == 4) {
		for (i = 1; i <= count; i++, p += 4) {
			memcpy(&narrow, (const char *)a->offsets + (first + i) * 4, 4);
			narrow = (int32_t)((uint64_t)narrow - from + base);
			memcpy(p, &narrow, 4);
		}
	} else {
		for (i = 1; i <= count; i++, p += 8) {
			memcpy(&wide, (const char *)a->offsets + (first + i) * 8, 8);
			wide = wide - from + base;
			memcpy(p, &wide, 8);
		}
	}
	c->offsets.len += (size_t)count * width;
	return true;
}

static bool
copy_spans(struct column *c, const struct array *a, uint64_t first,
    uint64_t count)
{
	uint64_t from = array_offset(a, first);
	uint64_t items = array_offset(a, first + count) - from;

	if (is_bytes(c)) {
		return copy_offsets(c, a, first, count, c->values.len) &&
		    buf_append(&c->values, (const char *)a->values + from,
		    (size_t)items);
	}
	return copy_offsets(c, a, first, count, c->children[0].length) &&
	    column_copy_run(&c->children[0], &a->children[0], from, items);
}

static bool
copy_fixed(struct column *c, const struct array *a, uint64_t first,
    uint64_t count, size_t width)
{
	if (count > c->values.cap_bytes / width)
		return false;
	return buf_append(&c->values, (const char *)a->values + first * width,
	    (size_t)count * width);
}

static bool
copy_bools(struct column *c, const struct array *a, uint64_t first,
    uint64_t count)
{
	if (!grow_bits(&c->values, c->length, count))
		return false;
	bits_copy((uint8_t *)c->values.ptr, c->length, a->values, first, count);
	return true;
}

bool
column_copy_run(struct column *c, const struct array *a, uint64_t first,
    uint64_t count)
{
	uint32_t i;
	bool ok = true;

	MUST(c->field->type == a->field->type);
	MUST(first <= a->length && count <= a->length - first);
	MUST(column_open_length(c) == 0);
	if (count == 0)
		return true;

	switch (c->field->type) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
	case ARROW_LIST:
		ok = copy_spans(c, a, first, count);
		break;
	case ARROW_STRUCT:
		MUST(c->field->child_count == a->field->child_count);
		for (i = 0; ok && i < c->field->child_count; i++)
			ok = column_copy_run(&c->children[i], &a->children[i],
			    first, count);
		break;
	case ARROW_FIXED_LIST:
		MUST(c->field->dim == a->field->dim);
		ok = copy_fixed(c, a, first, count,
		    (uint32_t)c->field->dim * sizeof(float));
		break;
	case ARROW_BOOL:
		ok = copy_bools(c, a, first, count);
		break;
	default:
		ok = copy_fixed(c, a, first, count, width_of(c));
		break;
	}
	return ok && copy_validity(c, a, first, count);
}

bool
column_copy(struct column *c, const struct array *a, uint64_t i)
{
	return column_copy_run(c, a, i, 1);
}
