#include "common/base.h"

#include "worker/store/row.h"

#define COMPARE(x, y)	(((x) > (y)) - ((x) < (y)))

static int
compare_items(const struct array *a, struct span s, const struct array *b,
    struct span t)
{
	uint64_t i;
	int c;

	for (i = 0; i < MIN(s.count, t.count); i++) {
		c = row_compare_value(a, s.first + i, b, t.first + i);
		if (c != 0)
			return c;
	}
	return COMPARE(s.count, t.count);
}

/* The bits of a float as a number that rises with it: negative ones turned
 * over, positive ones above them. A total order that has NaN in it. */
static uint64_t
float_rank(uint64_t bits, uint64_t sign)
{
	return (bits & sign) != 0 ? ~bits & (sign * 2 - 1) : bits | sign;
}

static int
compare_float(const struct array *a, uint64_t i, const struct array *b,
    uint64_t k)
{
	uint32_t x, y;

	memcpy(&x, (const char *)a->values + i * 4, 4);
	memcpy(&y, (const char *)b->values + k * 4, 4);
	return COMPARE(float_rank(x, 1u << 31), float_rank(y, 1u << 31));
}

static int
compare_double(const struct array *a, uint64_t i, const struct array *b,
    uint64_t k)
{
	return COMPARE(float_rank(array_uint64(a, i), 1ull << 63),
	    float_rank(array_uint64(b, k), 1ull << 63));
}

static int
compare_members(const struct array *a, uint64_t i, const struct array *b,
    uint64_t k)
{
	uint32_t m;
	int c;

	for (m = 0; m < a->field->child_count; m++) {
		c = row_compare_value(&a->children[m], i, &b->children[m], k);
		if (c != 0)
			return c;
	}
	return 0;
}

static int
compare_fixed_list(const struct array *a, uint64_t i, const struct array *b,
    uint64_t k)
{
	uint64_t dim = (uint64_t)a->field->dim, d;
	int c;

	for (d = 0; d < dim; d++) {
		c = compare_float(a, i * dim + d, b, k * dim + d);
		if (c != 0)
			return c;
	}
	return 0;
}

int
row_compare_value(const struct array *a, uint64_t i, const struct array *b,
    uint64_t k)
{
	bool null_a = array_is_null(a, i), null_b = array_is_null(b, k);

	if (null_a || null_b)
		return null_b - null_a;
	switch ((enum arrow_type)a->field->type) {
	case ARROW_BOOL:
		return array_bool(a, i) - array_bool(b, k);
	case ARROW_FLOAT32:
		return compare_float(a, i, b, k);
	case ARROW_FLOAT64:
		return compare_double(a, i, b, k);
	case ARROW_UINT64:
		return COMPARE(array_uint64(a, i), array_uint64(b, k));
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return slice_cmp(array_slice(a, i), array_slice(b, k));
	case ARROW_FIXED_LIST:
		return compare_fixed_list(a, i, b, k);
	case ARROW_LIST:
		return compare_items(&a->children[0], array_span(a, i),
		    &b->children[0], array_span(b, k));
	case ARROW_STRUCT:
		return compare_members(a, i, b, k);
	default:
		return COMPARE(array_int(a, i), array_int(b, k));
	}
}

int
row_compare(const struct batch *a, uint64_t i, const struct batch *b,
    uint64_t k, int first_column)
{
	uint32_t column;
	int c = 0;

	if (first_column >= 0)
		c = row_compare_value(&a->columns[first_column], i,
		    &b->columns[first_column], k);
	for (column = 0; c == 0 && column < a->schema->field_count; column++)
		c = row_compare_value(&a->columns[column], i,
		    &b->columns[column], k);
	return c;
}
