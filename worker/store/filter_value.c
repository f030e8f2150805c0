#include "common/base.h"

#include <math.h>

#include "common/number.h"
#include "worker/store/filter_parts.h"

#define COMPARE(x, y)	(((x) > (y)) - ((x) < (y)))

#define INT64_ABOVE	9223372036854775808.0	/* 2^63 */

int
filter_value_int(int64_t v, const struct filter_operand *l)
{
	if (l->beyond != 0)
		return -l->beyond;
	if (v != l->whole)
		return COMPARE(v, l->whole);
	return l->fraction ? -1 : 0;
}

/* NaN is equal to itself and above all else, -0 is 0. */
int
filter_value_double(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return COMPARE(a, b);
}

/* Exactly: above 2^53 a double has no place for each integer. */
static int
compare_int_double(int64_t v, double d)
{
	int64_t whole;

	if (isnan(d) || d >= INT64_ABOVE)
		return -1;
	if (d < -INT64_ABOVE)
		return 1;
	whole = (int64_t)d;
	if (v != whole)
		return COMPARE(v, whole);
	return COMPARE((double)whole, d);
}

static bool
is_real(uint8_t type)
{
	return type == FILTER_FLOAT || type == FILTER_DOUBLE;
}

int
filter_value_pair(const struct filter_value *a, const struct filter_value *b)
{
	if (a->type == FILTER_TEXT)
		return slice_cmp(a->text, b->text);
	if (is_real(a->type) && is_real(b->type))
		return filter_value_double(a->real, b->real);
	if (is_real(b->type))
		return compare_int_double(a->whole, b->real);
	if (is_real(a->type))
		return -compare_int_double(b->whole, a->real);
	return COMPARE(a->whole, b->whole);
}

int
filter_value_literal(const struct filter_value *v,
    const struct filter_operand *l)
{
	if (v->type == FILTER_TEXT)
		return slice_cmp(v->text, l->text);
	if (is_real(v->type))
		return filter_value_double(v->real, l->real);
	return filter_value_int(v->whole, l);
}

int
filter_value_literals(const struct filter_operand *a,
    const struct filter_operand *b)
{
	if (a->type == FILTER_TEXT)
		return slice_cmp(a->text, b->text);
	if (a->type != FILTER_NUMBER)
		return COMPARE(a->whole, b->whole);
	if (a->beyond != b->beyond)
		return COMPARE(a->beyond, b->beyond);
	if (a->beyond == 0 && a->whole != b->whole)
		return COMPARE(a->whole, b->whole);
	/* Of one integer part, or both beyond: the nearest doubles decide. */
	if (a->real != b->real)
		return COMPARE(a->real, b->real);
	return COMPARE(a->fraction, b->fraction);
}

bool
filter_value_version(struct slice text, int64_t *out)
{
	size_t from = text.len;

	while (from > 0 && text.ptr[from - 1] >= '0' &&
	    text.ptr[from - 1] <= '9')
		from--;
	if (from == text.len)
		return false;
	/* Zeroes in front are no digits of a number's length. */
	while (from + 1 < text.len && text.ptr[from] == '0')
		from++;
	return number_int64(slice_make(text.ptr + from, text.len - from),
	    out) == NUMBER_OK;
}
