#include "common/base.h"

#include "common/json_scan.h"
#include "common/number.h"
#include "worker/api/row_value.h"

/* Items gathered before they go to the column: one copy and one check a run. */
#define RUN_ITEMS	256
/* "-2147483648, " and its neighbour: nothing in it looks beyond the window. */
#define RUN_MARGIN	16

static enum row_value_outcome
put(bool there)
{
	return there ? ROW_VALUE_OK : ROW_VALUE_FULL;
}

static enum row_value_outcome
bad(const char **why, const char *text)
{
	*why = text;
	return ROW_VALUE_BAD;
}

static enum row_value_outcome
put_integer(struct column *c, struct slice number, const char **why)
{
	enum arrow_type type = (enum arrow_type)c->field->type;
	int64_t v = 0;

	switch (number_int64(number, &v)) {
	case NUMBER_OK:
		break;
	case NUMBER_OVERFLOW:
		return bad(why, "%.*s does not fit 64 bits");
	case NUMBER_NOT:
		return bad(why, "%.*s is not an integer");
	}
	if (type == ARROW_INT64 || type == ARROW_TIMESTAMP ||
	    type == ARROW_TIMESTAMP_UTC)
		return put(column_int64(c, v));
	if (type == ARROW_INT8) {
		if (v < INT8_MIN || v > INT8_MAX)
			return bad(why, "%.*s does not fit 8 bits");
		return put(column_int8(c, (int8_t)v));
	}
	MUST(type == ARROW_INT32);
	if (v < INT32_MIN || v > INT32_MAX)
		return bad(why, "%.*s does not fit 32 bits");
	return put(column_int32(c, (int32_t)v));
}

enum row_value_outcome
row_value_number(struct column *c, struct slice number, const char **why)
{
	float f;
	double d;

	switch (c->field->type) {
	case ARROW_FLOAT32:
		if (number_float(number, &f) != NUMBER_OK)
			return bad(why, "%.*s does not fit float32");
		return put(column_float(c, f));
	case ARROW_FLOAT64:
		if (number_double(number, &d) != NUMBER_OK)
			return bad(why, "%.*s does not fit float64");
		return put(column_double(c, d));
	default:
		return put_integer(c, number, why);
	}
}

static enum row_value_outcome
put_byte(struct column *c, struct slice number, const char **why)
{
	int64_t v = 0;

	if (number_int64(number, &v) != NUMBER_OK || v < 0 || v > UINT8_MAX)
		return bad(why, "%.*s is not a byte, 0 to 255");
	if (!column_reserve(c, 1))
		return ROW_VALUE_FULL;
	*column_tail(c) = (char)v;
	column_grow(c, 1);
	return ROW_VALUE_OK;
}

enum row_value_outcome
row_value_item(struct column *c, struct slice number, const char **why)
{
	float f;

	if (c->field->type != ARROW_FIXED_LIST)
		return put_byte(c, number, why);
	if (column_open_length(c) == (uint32_t)c->field->dim)
		return bad(why, "%.*s is one number too many");
	if (number_float(number, &f) != NUMBER_OK)
		return bad(why, "%.*s does not fit float32");
	return put(column_item_float(c, f));
}

/* ---- runs */

/* Digits at p, at most 10 of them read, as number and length; p[10] is still in
 * the window. Length 0: no digit, or one too many zeroes in front. */
static inline size_t
read_digits(const char *p, int64_t *out)
{
	int64_t v = 0;
	size_t n;

	for (n = 0; n < 10; n++) {
		unsigned digit = (unsigned)(p[n] - '0');

		if (digit > 9)
			break;
		v = v * 10 + digit;
	}
	*out = v;
	return n > 1 && p[0] == '0' ? 0 : n;
}

/* One item "n," with a blank behind it or not; its length, or 0. */
static inline size_t
read_item(const char *p, int64_t *out)
{
	size_t sign = *p == '-';
	size_t n = read_digits(p + sign, out);

	if (n == 0 || p[sign + n] != ',')
		return 0;
	if (sign != 0)
		*out = -*out;
	n += sign + 1;
	return n + (p[n] == ' ');
}

static const char *
run_int32(const char *p, const char *end, int32_t *items, uint32_t *count)
{
	int64_t v;
	size_t n;
	uint32_t i = 0;

	while (i < RUN_ITEMS && end - p >= RUN_MARGIN) {
		n = read_item(p, &v);
		if (n == 0 || v < INT32_MIN || v > INT32_MAX)
			break;
		items[i++] = (int32_t)v;
		p += n;
	}
	*count = i;
	return p;
}

static const char *
run_int8(const char *p, const char *end, int8_t *items, uint32_t *count)
{
	int64_t v;
	size_t n;
	uint32_t i = 0;

	while (i < RUN_ITEMS && end - p >= RUN_MARGIN) {
		n = read_item(p, &v);
		if (n == 0 || v < INT8_MIN || v > INT8_MAX)
			break;
		items[i++] = (int8_t)v;
		p += n;
	}
	*count = i;
	return p;
}

static const char *
run_float(const char *p, const char *end, float *items, uint64_t max,
    uint32_t *count)
{
	const char *why;
	uint32_t i = 0;

	while (i < max && end - p >= RUN_MARGIN) {
		int n = *p == '-' || (unsigned)(*p - '0') <= 9 ?
		    json_number(p, end, &why) : JSON_BAD;

		/* One byte behind the number is there, not always two. */
		if (n <= 0 || p[n] != ',' || end - p < n + 2 ||
		    number_float(slice_make(p, (size_t)n), &items[i]) != NUMBER_OK)
			break;
		i++;
		p += n + 1;
		p += *p == ' ';
	}
	*count = i;
	return p;
}

size_t
row_value_run(struct column *c, const char *p, const char *end, uint64_t *count,
    bool *full)
{
	union {
		int32_t i32[RUN_ITEMS];
		int8_t i8[RUN_ITEMS];
		float f32[RUN_ITEMS];
	} items;
	struct array run = { .field = c->field, .values = &items };
	const char *from = p;
	uint32_t n = 0;

	switch (c->field->type) {
	case ARROW_INT32:
		p = run_int32(p, end, items.i32, &n);
		break;
	case ARROW_INT8:
		p = run_int8(p, end, items.i8, &n);
		break;
	case ARROW_FLOAT32:
		p = run_float(p, end, items.f32, RUN_ITEMS, &n);
		break;
	case ARROW_FIXED_LIST:
		p = run_float(p, end, items.f32, MIN((uint64_t)RUN_ITEMS,
		    (uint32_t)c->field->dim - column_open_length(c)), &n);
		*count = n;
		*full = !buf_append(&c->values, items.f32, n * sizeof(float));
		return (size_t)(p - from);
	default:
		break;
	}
	run.length = n;
	*count = n;
	/* Without items the value at hand may be bytes that are half there. */
	*full = n > 0 && !column_copy_run(c, &run, 0, n);
	return (size_t)(p - from);
}

/* ---- what was not given */

static bool
fill_zero(struct column *c)
{
	switch (c->field->type) {
	case ARROW_INT32:
		return column_int32(c, 0);
	case ARROW_INT64:
		return column_int64(c, 0);
	default:
		MUST(c->field->type == ARROW_LIST);
		return column_end_value(c);
	}
}

struct slice
row_value_text(const struct column *c, uint64_t row)
{
	/* A column of empty texts has no buffer for them. */
	struct array a = { .field = c->field, .offsets = c->offsets.ptr,
	    .values = c->values.ptr == NULL ? "" : c->values.ptr };

	MUST(row < c->length);
	return array_slice(&a, row);
}

enum row_value_outcome
row_value_fill(struct builder *b, const struct store_shape *shape,
    uint32_t column, int64_t now_us)
{
	const struct rule *r = &shape->rules[column];
	struct column *c = &b->columns[column];

	switch ((enum rule_fill)r->fill) {
	case FILL_NULL:
		return put(column_null(c));
	case FILL_ZERO:
		return put(fill_zero(c));
	case FILL_TEXT:
		return put(column_bytes(c, r->fill_text));
	case FILL_COLUMN:
		return put(column_bytes(c,
		    row_value_text(&b->columns[r->fill_column],
		    b->row_count)));
	case FILL_NOW:
		return put(column_int64(c, now_us));
	}
	MUST(!"a rule without a fill");
	return ROW_VALUE_BAD;
}

const char *
row_value_expects(const struct column *c, uint32_t flags)
{
	switch (c->field->type) {
	case ARROW_BOOL:
		return "true or false";
	case ARROW_INT8:
	case ARROW_INT32:
	case ARROW_INT64:
		return "an integer";
	case ARROW_FLOAT32:
	case ARROW_FLOAT64:
		return "a number";
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		return (flags & SHAPE_RAW_TIMES) != 0 ?
		    "a time as RFC 3339 text or whole microseconds" :
		    "a time as RFC 3339 text";
	case ARROW_LIST:
	case ARROW_FIXED_LIST:
		return "an array";
	case ARROW_STRUCT:
		return "an object";
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return (flags & SHAPE_BYTE_ARRAYS) != 0 ?
		    "base64 text or an array of bytes" : "base64 text";
	default:
		return "a string";
	}
}
