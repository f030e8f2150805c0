#include "common/base.h"

#include <math.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/number.h"
#include "common/rfc3339.h"
#include "worker/api/row_write.h"

/*
 * Room for a whole run of numbers is reserved at once and then written without
 * a look at the end: that, and no format strings, is where the speed comes
 * from. Every function leaves a comma behind what it wrote; who closes a
 * bracket takes the last one back.
 */

#define RUN_ITEMS	256u

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
print_float(char *p, float v)
{
	if (isfinite(v))
		return p + number_print_float(p, v);
	memcpy(p, "null", 4);
	return p + 4;
}

static char *
print_double(char *p, double v)
{
	if (isfinite(v))
		return p + number_print_double(p, v);
	memcpy(p, "null", 4);
	return p + 4;
}

/* One value of a fixed width, not null. */
static char *
print_scalar(char *p, const struct array *a, uint64_t i)
{
	switch (a->field->type) {
	case ARROW_INT8:
	case ARROW_INT32:
		return print_int32(p, (int32_t)array_int(a, i));
	case ARROW_FLOAT32:
		return print_float(p, array_float(a, i));
	case ARROW_FLOAT64:
		return print_double(p, array_double(a, i));
	case ARROW_BOOL:
		memcpy(p, array_bool(a, i) ? "true" : "false", 5);
		return p + (array_bool(a, i) ? 4 : 5);
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		*p++ = '"';
		p += rfc3339_print(p, array_int(a, i));
		*p++ = '"';
		return p;
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

static bool
is_text(const struct arrow_field *f)
{
	return f->type == ARROW_UTF8 || f->type == ARROW_LARGE_UTF8;
}

static bool
write_scalar(struct buf *b, const struct array *a, uint64_t i)
{
	if (!buf_reserve(b, SCALAR_TEXT_MAX))
		return false;
	b->len = (size_t)(print_scalar(b->ptr + b->len, a, i) - b->ptr);
	return true;
}

static bool
write_text(struct buf *b, struct slice s, const struct rule *rule)
{
	/* A foreign engine may have stored anything under that name. */
	if (rule != NULL && rule->form == FORM_JSON && json_is_valid(s))
		return buf_append_slice(b, s);
	return json_put_text(b, s);
}

/* Items of fixed width; RUN_ITEMS of them for one look at the room. */
static bool
write_items(struct buf *b, const struct array *a, struct span span)
{
	uint64_t i = span.first, end = span.first + span.count, stop;
	char *p;

	while (i < end) {
		stop = MIN(end, i + RUN_ITEMS);
		if (!buf_reserve(b, (size_t)(stop - i) * (SCALAR_TEXT_MAX + 1)))
			return false;
		p = b->ptr + b->len;
		for (; i < stop; i++) {
			if (array_is_null(a, i)) {
				memcpy(p, "null", 4);
				p += 4;
			} else {
				p = print_scalar(p, a, i);
			}
			*p++ = ',';
		}
		b->len = (size_t)(p - b->ptr);
	}
	return true;
}

static bool
write_struct(struct buf *b, const struct array *a, uint64_t i)
{
	uint32_t m;

	if (array_is_null(a, i))
		return buf_append(b, "null", 4);
	if (!put_char(b, '{'))
		return false;
	for (m = 0; m < a->field->child_count; m++) {
		const struct array *c = &a->children[m];

		if (array_is_null(c, i))
			continue;
		if (!json_put_text(b, c->field->name) || !put_char(b, ':'))
			return false;
		if (is_text(c->field) ?
		    !json_put_text(b, array_slice(c, i)) : !write_scalar(b, c, i))
			return false;
		if (!put_char(b, ','))
			return false;
	}
	return close_bracket(b, '}');
}

static bool
write_list(struct buf *b, const struct array *a, uint64_t row)
{
	const struct array *items = &a->children[0];
	struct span span = array_span(a, row);
	uint64_t i;

	if (!put_char(b, '['))
		return false;
	if (items->field->type != ARROW_STRUCT) {
		if (!write_items(b, items, span))
			return false;
	} else {
		for (i = span.first; i < span.first + span.count; i++) {
			if (!write_struct(b, items, i) || !put_char(b, ','))
				return false;
		}
	}
	return close_bracket(b, ']');
}

static bool
write_column(struct buf *b, const struct array *a, uint64_t row,
    const struct rule *rule)
{
	if (!json_put_text(b, a->field->name) || !put_char(b, ':'))
		return false;
	if (a->field->type == ARROW_LIST) {
		if (!write_list(b, a, row))
			return false;
	} else if (is_text(a->field)) {
		if (!write_text(b, array_slice(a, row), rule))
			return false;
	} else if (!write_scalar(b, a, row)) {
		return false;
	}
	return put_char(b, ',');
}

/* What is no field of the answer: see row_write.h. */
static bool
is_left_out(const struct array *a, const struct rule *rule, uint64_t row)
{
	return rule->presence == RULE_INTERNAL || rule->form == FORM_BLOB ||
	    array_is_null(a, row) ||
	    (rule->members != NULL && array_span(a, row).count == 0);
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
		const struct array *a = &batch->columns[i];

		if ((columns != NULL && !columns[i]) ||
		    is_left_out(a, &shape->rules[i], row))
			continue;
		if (!write_column(b, a, row, &shape->rules[i]))
			goto full;
	}
	if (close_bracket(b, '}'))
		return true;
full:
	b->len = mark;
	return false;
}
