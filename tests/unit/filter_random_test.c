#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/buf.h"
#include "worker/arrow/column.h"
#include "worker/store/filter.h"

/*
 * Random expressions over random rows, against an oracle that walks a tree row
 * by row: numbers as long double (64 bits of mantissa: every int64 and every
 * double exactly), truth as true, false or unknown. The text of the tree is
 * what the filter is parsed from, so that precedence is tested, too.
 */

#define ROWS_MAX	200
#define NODES_MAX	64

#define TEST_COLUMNS(X) \
	X(i32, INT32) X(i64, INT64) X(f, FLOAT32) X(d, FLOAT64) X(t, TIMESTAMP) \
	X(b, BOOL) X(c, BOOL) X(s, UTF8) X(ls, LARGE_UTF8) X(_seq, INT64)

enum {
#define X(name, type) C_##name,
	TEST_COLUMNS(X)
#undef X
	C_COUNT
};

static const struct arrow_field fields[] = {
#define X(name_, type_) { .name = { #name_, sizeof(#name_) - 1 }, \
	.type = ARROW_##type_, .nullable = true },
	TEST_COLUMNS(X)
#undef X
};

static const struct store_shape shape = {
	.schema = { .field_count = C_COUNT, .fields = fields },
	.seq = C__seq,
};

struct value {
	bool null;
	long double number;
	const char *text;
};

static struct value rows[ROWS_MAX][C_COUNT];
static uint32_t row_count;

static const char *const words[] = { "", "a", "ab", "b", "it's", "\xc3\xa9",
	"50%", "v12", "v7" };
/* Whole and not, small and beyond 2^53; each a text for the filter. */
static const char *const numbers[] = { "0", "1", "-1", "2", "0.5", "-0.5",
	"1.5", "0.1", "16777217", "9007199254740993", "9007199254740992.5",
	"9007199254740992", "9223372036854775807", "-9223372036854775808",
	"1e19", "-1e19" };
static const int64_t longs[] = { 0, 1, -1, 2, 9007199254740993,
	9007199254740992, INT64_MAX, INT64_MIN, 16777217 };
static const double doubles[] = { 0, 1, -1, 0.5, -0.5, 1.5, 0.1, 16777216,
	9007199254740992.0, 9223372036854775808.0, -1e19 };

static uint32_t
pick(uint32_t n)
{
	return (uint32_t)rand() % n;
}

static struct value
random_value(int column)
{
	struct value v = { .null = pick(4) == 0 };

	switch (column) {
	case C_i32:
		v.number = (long double)pick(4) - 1;
		break;
	case C_i64:
		v.number = longs[pick(ARRAY_LEN(longs))];
		break;
	case C_t:
		v.number = (long double)pick(3) * 1000000;
		break;
	case C_f:
		v.number = (float)doubles[pick(8)];
		break;
	case C_d:
		v.number = doubles[pick(ARRAY_LEN(doubles))];
		break;
	case C_b:
	case C_c:
		v.number = pick(2);
		break;
	default:
		v.text = words[pick(ARRAY_LEN(words))];
	}
	return v;
}

static bool
put_value(struct column *c, const struct value *v)
{
	if (v->null)
		return column_null(c);
	switch (c->field->type) {
	case ARROW_BOOL:
		return column_bool(c, v->number != 0);
	case ARROW_INT32:
		return column_int32(c, (int32_t)v->number);
	case ARROW_FLOAT32:
		return column_float(c, (float)v->number);
	case ARROW_FLOAT64:
		return column_double(c, (double)v->number);
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
		return column_bytes(c, slice_of(v->text));
	default:
		return column_int64(c, (int64_t)v->number);
	}
}

static void
random_rows(struct builder *b)
{
	uint32_t i;
	int k;

	row_count = 1 + pick(ROWS_MAX);
	builder_clear(b, 1u << 20);
	for (i = 0; i < row_count; i++) {
		for (k = 0; k < C_COUNT; k++) {
			rows[i][k] = k == C__seq ? (struct value){ true, 0, "" } :
			    random_value(k);
			assert_true(put_value(&b->columns[k], &rows[i][k]));
		}
		builder_end_row(b);
	}
}

/* ---- trees */

enum node_kind { COMPARE, IN, BETWEEN, LIKE, IS_NULL, IS_BOOL, TRUTH, AND, OR,
	NOT };

struct operand {
	int column;			/* -1: a literal */
	const char *text;		/* of the literal */
	long double number;
};

struct node {
	enum node_kind kind;
	bool negate;			/* NOT IN, IS NOT NULL, ... */
	int order;			/* index in orders */
	struct operand a, b, c;
	int left, right;
};

static struct node nodes[NODES_MAX];
static int node_count;

static const struct {
	const char *text;
	bool less, same, more;
} orders[] = {
	{ "=", false, true, false }, { "==", false, true, false },
	{ "!=", true, false, true }, { "<>", true, false, true },
	{ "<", true, false, false }, { "<=", true, true, false },
	{ ">", false, false, true }, { ">=", false, true, true },
};

static bool
is_text(int column)
{
	return column == C_s || column == C_ls;
}

static struct operand
column_operand(int column)
{
	return (struct operand){ .column = column };
}

/* A literal beside a float column is rounded to it. */
static struct operand
number_operand(int beside)
{
	struct operand o = { .column = -1,
		.text = numbers[pick(ARRAY_LEN(numbers))] };

	o.number = strtold(o.text, NULL);
	if (beside == C_f)
		o.number = strtof(o.text, NULL);
	else if (beside == C_d)
		o.number = strtod(o.text, NULL);
	return o;
}

static struct operand
other_operand(int beside)
{
	static const int number_columns[] = { C_i32, C_i64, C_f, C_d };

	if (is_text(beside)) {
		if (pick(3) == 0)
			return column_operand(C_s + (int)pick(2));
		return (struct operand){ .column = -1,
			.text = words[pick(ARRAY_LEN(words))] };
	}
	if (beside == C_b || beside == C_c)
		return pick(2) == 0 ? column_operand(C_b + (int)pick(2)) :
		    (struct operand){ .column = -1, .text = "TRUE",
		    .number = 1 };
	if (beside == C_t)
		return (struct operand){ .column = -1,
			.text = "timestamp '1970-01-01T00:00:01Z'",
			.number = 1000000 };
	return pick(3) == 0 ? column_operand(number_columns[pick(4)]) :
	    number_operand(beside);
}

static int
predicate(void)
{
	struct node *n = &nodes[node_count];
	int column = (int)pick(C__seq);

	*n = (struct node){ .kind = (enum node_kind)pick(TRUTH + 1),
		.negate = pick(2) == 0, .order = (int)pick(ARRAY_LEN(orders)) };
	if (n->kind == LIKE)
		column = C_s + (int)pick(2);
	if (n->kind == IS_BOOL || n->kind == TRUTH)
		column = C_b + (int)pick(2);
	n->a = column_operand(column);
	do {
		n->b = other_operand(column);
	} while (n->kind == IN && n->b.column >= 0);
	do {
		n->c = other_operand(column);
	} while (n->kind == IN && n->c.column >= 0);
	if (n->kind == LIKE)
		n->b = (struct operand){ .column = -1,
			.text = pick(2) == 0 ? "%a%" : "_%" };
	return node_count++;
}

/* From the leaves up: joins what there is until one is left. */
static int
random_tree(void)
{
	int parts[16], count = 1 + (int)pick(10), i, k;

	node_count = 0;
	for (i = 0; i < count; i++)
		parts[i] = predicate();
	while (count > 1 || pick(3) == 0) {
		struct node *n = &nodes[node_count];

		if (node_count == NODES_MAX)
			break;
		i = (int)pick((uint32_t)count);
		k = (int)pick((uint32_t)count);
		*n = (struct node){ .kind = i == k ? NOT :
			pick(2) == 0 ? AND : OR, .left = parts[i],
			.right = parts[k] };
		parts[i] = node_count++;
		if (i != k)
			parts[k] = parts[--count];
	}
	return count == 1 ? parts[0] : -1;
}

/* ---- as text */

static void
print_operand(struct buf *out, const struct operand *o, bool text)
{
	const char *p;

	if (o->column >= 0) {
		assert_true(buf_append_slice(out, fields[o->column].name));
	} else if (!text) {
		assert_true(buf_append_slice(out, slice_of(o->text)));
	} else {
		assert_true(buf_append(out, "'", 1));
		for (p = o->text; *p != '\0'; p++)
			assert_true(buf_append(out, "''", *p == '\'' ? 2 : 0) &&
			    (*p == '\'' || buf_append(out, p, 1)));
		assert_true(buf_append(out, "'", 1));
	}
}

static void
print_predicate(struct buf *out, const struct node *n)
{
	bool text = is_text(n->a.column);
	const char *not = n->negate ? "NOT " : "";

	print_operand(out, &n->a, text);
	switch (n->kind) {
	case COMPARE:
		assert_true(buf_printf(out, " %s ", orders[n->order].text));
		print_operand(out, &n->b, text);
		break;
	case IN:
		assert_true(buf_printf(out, " %sIN (", not));
		print_operand(out, &n->b, text);
		assert_true(buf_printf(out, ","));
		print_operand(out, &n->c, text);
		assert_true(buf_printf(out, ")"));
		break;
	case BETWEEN:
		assert_true(buf_printf(out, " %sBETWEEN ", not));
		print_operand(out, &n->b, text);
		assert_true(buf_printf(out, " AND "));
		print_operand(out, &n->c, text);
		break;
	case LIKE:
		assert_true(buf_printf(out, " %sLIKE ", not));
		print_operand(out, &n->b, true);
		break;
	case IS_NULL:
		assert_true(buf_printf(out, " IS %sNULL", not));
		break;
	case IS_BOOL:
		assert_true(buf_printf(out, " IS %s%s", not,
		    n->order % 2 == 0 ? "TRUE" : "FALSE"));
		break;
	default:
		break;
	}
}

/* With no more parentheses than precedence asks for. */
static void
print_node(struct buf *out, int at, int above)
{
	const struct node *n = &nodes[at];
	int level = n->kind == OR ? 1 : n->kind == AND ? 2 : 3;

	if (n->kind < AND) {
		print_predicate(out, n);
		return;
	}
	if (level < above)
		assert_true(buf_printf(out, "("));
	if (n->kind == NOT) {
		assert_true(buf_printf(out, "NOT "));
		print_node(out, n->left, 4);
	} else {
		print_node(out, n->left, level);
		assert_true(buf_printf(out, n->kind == AND ? " AND " : " OR "));
		print_node(out, n->right, level + 1);
	}
	if (level < above)
		assert_true(buf_printf(out, ")"));
}

/* ---- the oracle: 1 true, 0 false, -1 unknown */

static struct value
value_of(const struct operand *o, uint32_t row)
{
	if (o->column >= 0)
		return rows[row][o->column];
	return (struct value){ .number = o->number, .text = o->text };
}

static int
order_of(const struct value *a, const struct value *b, bool text)
{
	if (text)
		return strcmp(a->text, b->text);
	return (a->number > b->number) - (a->number < b->number);
}

static int
compare(const struct operand *a, int order, const struct operand *b,
    uint32_t row)
{
	struct value x = value_of(a, row), y = value_of(b, row);
	int c;

	if (x.null || y.null)
		return -1;
	c = order_of(&x, &y, is_text(a->column));
	return c < 0 ? orders[order].less : c > 0 ? orders[order].more :
	    orders[order].same;
}

static int
both(int a, int b)
{
	return a == 0 || b == 0 ? 0 : a < 0 || b < 0 ? -1 : 1;
}

static int
not(int a)
{
	return a < 0 ? a : !a;
}

static bool
is_like(const char *text, const char *pattern)
{
	return pattern[0] == '_' ? text[0] != '\0' : strchr(text, 'a') != NULL;
}

static int
predicate_truth(const struct node *n, uint32_t row)
{
	const struct value *v = &rows[row][n->a.column];
	int truth;

	switch (n->kind) {
	case COMPARE:
		return compare(&n->a, n->order, &n->b, row);
	case IN:
		truth = not(both(not(compare(&n->a, 0, &n->b, row)),
		    not(compare(&n->a, 0, &n->c, row))));
		break;
	case BETWEEN:
		truth = both(compare(&n->a, 7, &n->b, row),
		    compare(&n->a, 5, &n->c, row));
		break;
	case LIKE:
		truth = v->null ? -1 : is_like(v->text, n->b.text);
		break;
	case IS_NULL:
		truth = v->null;
		break;
	case IS_BOOL:
		truth = !v->null && v->number == (n->order % 2 == 0);
		break;
	default:
		return v->null ? -1 : v->number != 0;
	}
	return n->negate ? not(truth) : truth;
}

static int
truth_of(int at, uint32_t row)
{
	const struct node *n = &nodes[at];

	switch (n->kind) {
	case AND:
		return both(truth_of(n->left, row), truth_of(n->right, row));
	case OR:
		return not(both(not(truth_of(n->left, row)),
		    not(truth_of(n->right, row))));
	case NOT:
		return not(truth_of(n->left, row));
	default:
		return predicate_truth(n, row);
	}
}

static void
see_tree(const struct batch *b, int root)
{
	uint64_t match[FILTER_WORDS(ROWS_MAX)];
	const struct filter *f;
	struct arena arena;
	struct buf text;
	struct err e;
	uint32_t i;

	arena_init(&arena, 1u << 20);
	buf_init(&text, 1u << 20);
	print_node(&text, root, 0);
	assert_true(buf_append_zero(&text, 1));
	e = filter_parse(&shape, slice_of(text.ptr), &arena, &f);
	if (err_is(e))
		fail_msg("%s: %s", text.ptr, e.what);
	assert_false(err_is(filter_eval_batch(f, b, &arena, match)));
	for (i = 0; i < row_count; i++) {
		if ((match[i / 64] >> (i % 64) & 1) !=
		    (truth_of(root, i) == 1))
			fail_msg("row %u: %s", i, text.ptr);
	}
	if (row_count % 64 != 0)
		assert_int_equal(match[row_count / 64] >> (row_count % 64), 0);
	buf_free(&text);
	arena_free(&arena);
}

static void
test_random(void **state)
{
	struct builder b;
	struct batch batch;
	uint32_t i;
	int root;

	(void)state;
	assert_false(err_is(builder_init(&b, &shape.schema, 1u << 20)));
	for (i = 0; i < 6000; i++) {
		srand(i);
		if (i % 20 == 0)
			random_rows(&b);
		batch = builder_batch(&b);
		root = random_tree();
		if (root >= 0)
			see_tree(&batch, root);
	}
	builder_free(&b);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
