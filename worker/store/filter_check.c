#include "common/base.h"

#include "common/number.h"
#include "common/rfc3339.h"
#include "worker/store/filter_parts.h"

/* An exponent beyond this makes zero or more than any type has, whatever it
 * stands behind. */
#define EXPONENT_MAX	100000

struct digits {			/* 0.DIGITS * 10^point, without zeroes in front */
	const char *text;
	size_t len;
	int64_t point;
};

/* The digits of a number without its point; text has room for them. */
static struct digits
digits_of(struct slice number, char *text)
{
	struct digits d = { .text = text };
	int64_t exponent = 0;
	bool after = false, down;
	size_t i;

	for (i = 0; i < number.len; i++) {
		char c = number.ptr[i];

		if (c == 'e' || c == 'E')
			break;
		if (c == '.')
			after = true;
		if (c < '0' || c > '9')
			continue;
		d.point += !after;
		if (d.len == 0 && c == '0')
			d.point--;	/* a zero in front */
		else
			text[d.len++] = c;
	}
	down = i + 1 < number.len && number.ptr[i + 1] == '-';
	for (; i < number.len; i++) {
		if (number.ptr[i] >= '0' && number.ptr[i] <= '9')
			exponent = MIN(exponent * 10 + number.ptr[i] - '0',
			    EXPONENT_MAX);
	}
	d.point += down ? -exponent : exponent;
	return d;
}

/* Rounded down to an integer, exactly: by way of a double 2^53 + 1 and its
 * neighbours would be the same. */
static void
round_down(struct digits d, bool negative, struct filter_operand *o)
{
	uint64_t most = (uint64_t)INT64_MAX + negative, whole = 0;
	int64_t i;

	while (d.len > 0 && d.text[d.len - 1] == '0')
		d.len--;
	o->fraction = d.len > 0 && d.point < (int64_t)d.len;
	for (i = 0; d.len > 0 && i < d.point && o->beyond == 0; i++) {
		unsigned digit = i < (int64_t)d.len ?
		    (unsigned)(d.text[i] - '0') : 0;

		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, digit, &whole) ||
		    whole > most)
			o->beyond = negative ? -1 : 1;
	}
	if (o->beyond == 0 && negative && o->fraction && whole++ == most)
		o->beyond = -1;
	o->whole = negative ? (int64_t)(0 - whole) : (int64_t)whole;
}

struct err
filter_check_number(const struct filter_lex *l, struct filter_operand *o)
{
	struct slice s = l->value;
	bool negative = s.ptr[0] == '-';
	char *text = arena_alloc(l->arena, s.len + 2);
	size_t n = 0;

	if (text == NULL)
		return FAIL(NO_MEMORY, "filter");
	o->from = FILTER_LITERAL;
	o->type = FILTER_NUMBER;
	round_down(digits_of(s, text), negative, o);
	/* As JSON has it: no plus, and a digit before the point. */
	if (negative || s.ptr[0] == '+')
		s = slice_make(s.ptr + 1, s.len - 1);
	if (negative)
		text[n++] = '-';
	if (s.ptr[0] == '.')
		text[n++] = '0';
	memcpy(text + n, s.ptr, s.len);
	o->text = slice_make(text, n + s.len);
	if (number_double(o->text, &o->real) != NUMBER_OK)
		return filter_lex_fail(l, l->at, "the number is too large");
	return OK;
}

struct err
filter_check_time(const struct filter_lex *l, struct filter_operand *o)
{
	/* In full, without a zone, without a time of day. */
	static const char *const ends[] = { "", "Z", "T00:00:00Z" };
	char text[RFC3339_READ_MAX + 16];
	size_t i;

	o->from = FILTER_LITERAL;
	o->type = FILTER_TIME;
	for (i = 0; i < ARRAY_LEN(ends) &&
	    l->value.len <= RFC3339_READ_MAX; i++) {
		size_t n = strlen(ends[i]);

		memcpy(text, l->value.ptr, l->value.len);
		memcpy(text + l->value.len, ends[i], n);
		if (rfc3339_parse(slice_make(text, l->value.len + n),
		    &o->whole))
			return OK;
	}
	return filter_lex_fail(l, l->at, "expected a time such as "
	    "'2026-11-01T08:00:01Z', '2026-11-01 08:00:01' or '2026-11-01'");
}

uint8_t
filter_check_type(enum arrow_type type)
{
	switch (type) {
	case ARROW_BOOL:
		return FILTER_BOOL;
	case ARROW_INT8:
	case ARROW_INT32:
	case ARROW_INT64:
	case ARROW_UINT32:
		return FILTER_INT;
	case ARROW_FLOAT32:
		return FILTER_FLOAT;
	case ARROW_FLOAT64:
		return FILTER_DOUBLE;
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		return FILTER_TIME;
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
		return FILTER_TEXT;
	default:
		return FILTER_OTHER;
	}
}

struct err
filter_check_column(const struct filter_lex *l,
    const struct store_shape *shape, struct filter_operand *o)
{
	int column = arrow_schema_find(&shape->schema, l->value);

	if (column < 0 || l->value.ptr[0] == '_')
		return filter_lex_fail(l, l->at, "there is no column '%.*s'",
		    (int)MIN(l->value.len, (size_t)100), l->value.ptr);
	o->from = FILTER_COLUMN;
	o->type = filter_check_type(
	    (enum arrow_type)shape->schema.fields[column].type);
	o->column = (uint16_t)column;
	return OK;
}

/* What numbers, texts, ... have in common: a class that compares. */
static uint8_t
class_of(uint8_t type)
{
	return type == FILTER_INT || type == FILTER_FLOAT ||
	    type == FILTER_DOUBLE ? FILTER_NUMBER : type;
}

/* With its name, as the subject of an error. */
static const char *
describe(const struct filter_lex *l, const struct store_shape *shape,
    const struct filter_operand *o)
{
	static const char *const names[] = {
		[FILTER_NUMBER] = "a number", [FILTER_TEXT] = "text",
		[FILTER_BOOL] = "a boolean", [FILTER_TIME] = "a timestamp",
		[FILTER_OTHER] = "a list, vector or binary",
	};
	const char *name = names[class_of(o->type)];

	if (o->from != FILTER_COLUMN)
		return name;
	return arena_printf(l->arena, "%s (column '%.*s')", name,
	    (int)MIN(shape->schema.fields[o->column].name.len, (size_t)100),
	    shape->schema.fields[o->column].name.ptr);
}

struct err
filter_check_is(const struct filter_lex *l, const struct store_shape *shape,
    const struct filter_operand *o, enum filter_type type, const char *what)
{
	if (o->type == type)
		return OK;
	return filter_lex_fail(l, o->at, "expected %s, found %s", what,
	    describe(l, shape, o));
}

/* A float column holds 0.1 rounded, and is to find it by that name. What is
 * beyond float32 stays where it is. */
static void
round_literal(const struct filter_operand *column, struct filter_operand *o)
{
	float narrow;

	if (column->type == FILTER_FLOAT && o->from == FILTER_LITERAL &&
	    number_float(o->text, &narrow) == NUMBER_OK)
		o->real = narrow;
}

struct err
filter_check_pair(const struct filter_lex *l, const struct store_shape *shape,
    struct filter_operand *a, struct filter_operand *b)
{
	if (a->type == FILTER_OTHER || b->type == FILTER_OTHER)
		return filter_lex_fail(l, a->type == FILTER_OTHER ? a->at :
		    b->at, "expected something that compares, found %s: only "
		    "IS NULL can be asked of it", describe(l, shape,
		    a->type == FILTER_OTHER ? a : b));
	if (class_of(a->type) != class_of(b->type))
		return filter_lex_fail(l, b->at, "expected %s to compare with, "
		    "found %s", describe(l, shape, a), describe(l, shape, b));
	round_literal(a, b);
	round_literal(b, a);
	return OK;
}
