#include "common/base.h"

#include <math.h>

#include "common/base64.h"
#include "common/json.h"
#include "common/json_scan.h"
#include "common/number.h"
#include "common/rfc3339.h"
#include "worker/api/row_event.h"
#include "worker/api/row_write.h"
#include "worker/object/local.h"

/*
 * Room for a whole run of numbers is reserved at once and then written without
 * a look at the end: that, and no format strings, is where the speed comes
 * from. Every function leaves a comma behind what it wrote; who closes a
 * bracket takes the last one back.
 */

#define RUN_ITEMS	256u
#define FAR_PIECE	49152u	/* a multiple of 3: pieces are groups of base64 */

static bool
put_char(struct buf *b, char c)
{
	if (!buf_reserve(b, 1))
		return false;
	b->ptr[b->len++] = c;
	return true;
}

static bool
close_bracket(struct buf *b, char bracket)
{
	if (b->ptr[b->len - 1] == ',') {
		b->ptr[b->len - 1] = bracket;
		return true;
	}
	return put_char(b, bracket);
}

/* Two digits at a time; v as the decimal that ends before end. */
static char *
print_backwards(char *end, uint32_t v)
{
	static const char pairs[] =
	    "00010203040506070809101112131415161718192021222324"
	    "25262728293031323334353637383940414243444546474849"
	    "50515253545556575859606162636465666768697071727374"
	    "75767778798081828384858687888990919293949596979899";

	while (v >= 100) {
		end -= 2;
		memcpy(end, pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10) {
		end -= 2;
		memcpy(end, pairs + v * 2, 2);
		return end;
	}
	*--end = (char)('0' + v);
	return end;
}

static char *
print_int32(char *p, int32_t v)
{
	char digits[16], *from;
	uint32_t u = (uint32_t)v;

	if (u <= 9) {
		*p++ = (char)('0' + u);
		return p;
	}
	if (v < 0) {
		*p++ = '-';
		u = 0 - u;
	}
	from = print_backwards(digits + sizeof(digits), u);
	memcpy(p, from, (size_t)(digits + sizeof(digits) - from));
	return p + (digits + sizeof(digits) - from);
}

static char *
print_double(char *p, double v)
{
	if (isfinite(v))
		return p + number_print_double(p, v);
	memcpy(p, "null", 4);
	return p + 4;
}

static char *
print_float(char *p, float v, uint32_t flags)
{
	if ((flags & SHAPE_WIDE_FLOATS) != 0 || !isfinite(v))
		return print_double(p, v);
	return p + number_print_float(p, v);
}

static char *
print_time(char *p, int64_t us, uint32_t flags)
{
	if ((flags & SHAPE_RAW_TIMES) != 0)
		return p + number_print_int64(p, us);
	*p++ = '"';
	p += rfc3339_print(p, us);
	*p++ = '"';
	return p;
}

/* One value of a fixed width, not null. flags: of the shape. */
static char *
print_scalar(char *p, const struct array *a, uint64_t i, uint32_t flags)
{
	switch (a->field->type) {
	case ARROW_INT8:
	case ARROW_INT32:
		return print_int32(p, (int32_t)array_int(a, i));
	case ARROW_FLOAT32:
		return print_float(p, array_float(a, i), flags);
	case ARROW_FLOAT64:
		return print_double(p, array_double(a, i));
	case ARROW_BOOL:
		memcpy(p, array_bool(a, i) ? "true" : "false", 5);
		return p + (array_bool(a, i) ? 4 : 5);
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		return print_time(p, array_int(a, i), flags);
	case ARROW_UINT64:
		return p + number_print_uint64(p, array_uint64(a, i));
	default:
		MUST(a->field->type == ARROW_INT64 ||
		    a->field->type == ARROW_UINT32);
		return p + number_print_int64(p, array_int(a, i));
	}
}

#define SCALAR_TEXT_MAX	(RFC3339_TEXT_MAX + 2)

static_assert(SCALAR_TEXT_MAX >= NUMBER_TEXT_MAX, "any scalar");

/* An array's value, with what says how it is written. */
struct value {
	const struct array *array;
	const struct rule *rule;
	uint32_t flags;			/* of the shape */
};

static bool
write_scalar(struct buf *b, const struct value *v, uint64_t i)
{
	if (!buf_reserve(b, SCALAR_TEXT_MAX))
		return false;
	b->len = (size_t)(print_scalar(b->ptr + b->len, v->array, i, v->flags) -
	    b->ptr);
	return true;
}

static bool
write_bytes(struct buf *b, struct slice s)
{
	size_t len = BASE64_LENGTH(s.len);

	if (!buf_reserve(b, len + 2))
		return false;
	b->ptr[b->len] = '"';
	base64_encode(s, b->ptr + b->len + 1);
	b->ptr[b->len + len + 1] = '"';
	b->len += len + 2;
	return true;
}

/* The same of a value that is in a file, a piece at a time. */
static bool
write_far_bytes(struct buf *b, const struct array *a, uint64_t row)
{
	uint64_t at = a->far->offset + array_offset(a, row);
	uint64_t left = array_length(a, row);
	char piece[FAR_PIECE];
	size_t n;

	if (!put_char(b, '"') || left > b->cap_bytes ||
	    !buf_reserve(b, BASE64_LENGTH((size_t)left) + 1))
		return false;
	for (; left > 0; at += n, left -= n) {
		n = (size_t)MIN(left, (uint64_t)FAR_PIECE);
		if (err_is(object_read_at(a->far->fd, piece, n, at)))
			return false;
		base64_encode(slice_make(piece, n), b->ptr + b->len);
		b->len += BASE64_LENGTH(n);
	}
	return put_char(b, '"');
}

static bool
write_text(struct buf *b, struct slice s, const struct rule *rule)
{
	/* A foreign engine may have stored anything under that name. */
	if (rule != NULL && rule->form == FORM_JSON && json_is_valid(s))
		return buf_append_slice(b, s);
	return json_put_text(b, s);
}

/* A run of fixed width; RUN_ITEMS of them for one look at the room. */
static bool
write_run(struct buf *b, const struct value *v, struct span span)
{
	uint64_t i = span.first, end = span.first + span.count, stop;
	char *p;

	while (i < end) {
		stop = MIN(end, i + RUN_ITEMS);
		if (!buf_reserve(b, (size_t)(stop - i) * (SCALAR_TEXT_MAX + 1)))
			return false;
		p = b->ptr + b->len;
		for (; i < stop; i++) {
			if (array_is_null(v->array, i)) {
				memcpy(p, "null", 4);
				p += 4;
			} else {
				p = print_scalar(p, v->array, i, v->flags);
			}
			*p++ = ',';
		}
		b->len = (size_t)(p - b->ptr);
	}
	return true;
}

static bool write_value(struct buf *, const struct value *, uint64_t i);

static bool
write_struct(struct buf *b, const struct value *v, uint64_t i)
{
	uint32_t m;

	if (!put_char(b, '{'))
		return false;
	for (m = 0; m < v->array->field->child_count; m++) {
		struct value member = { .array = &v->array->children[m],
		    .flags = v->flags };

		if (array_is_null(member.array, i))
			continue;
		if (!json_put_text(b, member.array->field->name) ||
		    !put_char(b, ':') || !write_value(b, &member, i) ||
		    !put_char(b, ','))
			return false;
	}
	return close_bracket(b, '}');
}

static bool
is_wide(const struct arrow_field *f)
{
	return arrow_type_width((enum arrow_type)f->type) == 0 &&
	    f->type != ARROW_BOOL;
}

static bool
write_list(struct buf *b, const struct value *v, uint64_t row)
{
	struct value items = { .array = &v->array->children[0],
	    .flags = v->flags };
	struct span span = array_span(v->array, row);
	uint64_t i;

	if (!put_char(b, '['))
		return false;
	if (!is_wide(items.array->field)) {
		if (!write_run(b, &items, span))
			return false;
	} else {
		for (i = span.first; i < span.first + span.count; i++) {
			if (!write_value(b, &items, i) || !put_char(b, ','))
				return false;
		}
	}
	return close_bracket(b, ']');
}

static bool
write_vector(struct buf *b, const struct value *v, uint64_t row)
{
	static const struct arrow_field number = { .type = ARROW_FLOAT32 };
	uint64_t dim = (uint32_t)v->array->field->dim;
	struct array flat = { .field = &number, .length = v->array->length * dim,
	    .values = v->array->values };
	struct value numbers = { .array = &flat, .flags = v->flags };

	return put_char(b, '[') &&
	    write_run(b, &numbers, (struct span){ row * dim, dim }) &&
	    close_bracket(b, ']');
}

/* Depth is bounded by ARROW_DEPTH_MAX. */
static bool
write_value(struct buf *b, const struct value *v, uint64_t i)
{
	if (array_is_null(v->array, i))
		return buf_append(b, "null", 4);
	switch (v->array->field->type) {
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
		return write_text(b, array_slice(v->array, i), v->rule);
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return v->array->far != NULL ?
		    write_far_bytes(b, v->array, i) :
		    write_bytes(b, array_slice(v->array, i));
	case ARROW_LIST:
		return write_list(b, v, i);
	case ARROW_FIXED_LIST:
		return write_vector(b, v, i);
	case ARROW_STRUCT:
		return write_struct(b, v, i);
	default:
		return write_scalar(b, v, i);
	}
}

static bool
write_column(struct buf *b, const struct value *v, uint64_t row)
{
	return json_put_text(b, v->rule->name.len > 0 ? v->rule->name :
	    v->array->field->name) && put_char(b, ':') &&
	    write_value(b, v, row) && put_char(b, ',');
}

/* What is no field of the answer: see row_write.h. */
static bool
is_left_out(const struct value *v, uint64_t row, bool asked)
{
	return v->rule->presence == RULE_INTERNAL ||
	    (v->rule->form == FORM_BLOB && !asked) ||
	    array_is_null(v->array, row) ||
	    (v->rule->members != NULL && array_span(v->array, row).count == 0);
}

bool
row_write(struct buf *b, const struct store_shape *shape,
    const struct batch *batch, uint64_t row, const bool *columns)
{
	size_t mark = b->len;
	uint32_t i;

	MUST(batch->schema->field_count == shape->schema.field_count);
	MUST(row < batch->row_count);
	if (!put_char(b, '{'))
		return false;
	for (i = 0; i < shape->schema.field_count; i++) {
		struct value v = { &batch->columns[i], &shape->rules[i],
		    shape->flags };

		if ((columns != NULL && !columns[i]) ||
		    is_left_out(&v, row, columns != NULL))
			continue;
		if (shape->rules[i].presence == RULE_MEMBER) {
			/* All of them at once, in the place of the first. */
			if (i != shape->object->members[0].column)
				continue;
			if (!row_event_write_value(b, batch, row) ||
			    !put_char(b, ','))
				goto full;
			continue;
		}
		if (!write_column(b, &v, row))
			goto full;
	}
	if (close_bracket(b, '}'))
		return true;
full:
	b->len = mark;
	return false;
}
