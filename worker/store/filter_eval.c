#include "common/base.h"

#include "worker/store/filter_parts.h"

/*
 * A truth column is two bitmaps: the rows where it is true, and those where it
 * is false; the others are unknown. So AND, OR and NOT are a few operations on
 * words, and a predicate needs no branch for nulls: it is evaluated whatever
 * stands under them, and then masked with what is there.
 */

struct truth {
	uint64_t *yes, *no;
};

struct run {
	const struct filter *filter;
	const struct filter_rows *rows;
	struct arena *arena;
	uint64_t words;
	bool *have;			/* columns that were asked for */
	struct array *columns;
	uint64_t *there;		/* rows without a null, of a predicate */
	struct truth *stack;
	uint32_t height;
};

static const struct err no_memory = { ERR_NO_MEMORY, 0, "evaluate a filter" };

/* Sets word by word what expr says of row i_. */
#define PACK(run_, to_, expr_) do { \
	uint64_t n_ = (run_)->rows->count, w_, k_, i_ = 0; \
	for (w_ = 0; w_ < (run_)->words; w_++) { \
		uint64_t bits_ = 0, end_ = MIN(n_ - i_, (uint64_t)64); \
		for (k_ = 0; k_ < end_; k_++, i_++) \
			bits_ |= (uint64_t)(expr_) << k_; \
		(to_)[w_] = bits_; \
	} \
} while (0)

/* Whether an order (<0, 0, >0) is in a set of enum filter_order. */
static inline bool
in_set(uint8_t orders, int order)
{
	return orders >> ((order > 0) - (order < 0) + 1) & 1;
}

static struct err
column_of(struct run *r, uint16_t column, const struct array **out)
{
	struct err e = OK;

	if (!r->have[column])
		e = r->rows->column(r->rows->ctx, column,
		    &r->columns[column]);
	if (err_is(e))
		return e;
	r->have[column] = true;
	MUST(r->columns[column].length >= r->rows->count);
	*out = &r->columns[column];
	return OK;
}

/* Takes the nulls of an array out of r->there. */
static void
mask_nulls(struct run *r, const struct array *a)
{
	uint64_t i, bytes = (r->rows->count + 7) / 8;

	if (a->validity == NULL)
		return;
	for (i = 0; i < r->words; i++) {
		uint64_t word = 0;

		memcpy(&word, a->validity + 8 * i, MIN(bytes - 8 * i, 8u));
		r->there[i] &= word;
	}
}

/* ---- operands */

struct source {			/* an operand on the rows of the run */
	const struct filter_operand *operand;
	const struct array *array;	/* NULL: a literal */
};

static struct err
open_source(struct run *r, const struct filter_operand *o, struct source *s)
{
	struct err e;
	uint64_t i;
	int64_t v;

	*s = (struct source){ .operand = o };
	if (o->from == FILTER_LITERAL)
		return OK;
	e = column_of(r, o->column, &s->array);
	if (err_is(e))
		return e;
	mask_nulls(r, s->array);
	for (i = 0; o->from == FILTER_VERSION && i < r->rows->count; i++) {
		if ((r->there[i / 64] >> (i % 64) & 1) != 0 &&
		    !filter_value_version(array_slice(s->array, i), &v))
			r->there[i / 64] &= ~(1ull << (i % 64));
	}
	return OK;
}

static struct filter_value
value_at(const struct source *s, uint64_t i)
{
	struct filter_value v = { .type = s->operand->type };

	if (s->operand->from == FILTER_VERSION) {
		/* Without one the row is masked. */
		if (!filter_value_version(array_slice(s->array, i), &v.whole))
			v.whole = 0;
		return v;
	}
	switch (v.type) {
	case FILTER_TEXT:
		v.text = array_slice(s->array, i);
		break;
	case FILTER_BOOL:
		v.whole = array_bool(s->array, i);
		break;
	case FILTER_FLOAT:
		v.real = (double)array_float(s->array, i);
		break;
	case FILTER_DOUBLE:
		v.real = array_double(s->array, i);
		break;
	default:
		v.whole = array_int(s->array, i);
	}
	return v;
}

static int
order_at(const struct source *a, const struct source *b, uint64_t i)
{
	struct filter_value v, w;

	if (a->array == NULL && b->array == NULL)
		return filter_value_literals(a->operand, b->operand);
	if (a->array == NULL)
		return -order_at(b, a, i);
	v = value_at(a, i);
	if (b->array == NULL)
		return filter_value_literal(&v, b->operand);
	w = value_at(b, i);
	return filter_value_pair(&v, &w);
}

/* ---- predicates */

static bool
same_text(const struct array *a, uint64_t i, struct slice text)
{
	uint64_t from = array_offset(a, i), end = array_offset(a, i + 1);

	return end - from == text.len && (text.len == 0 ||
	    memcmp((const char *)a->values + from, text.ptr, text.len) == 0);
}

/* The comparisons that lists are made of, without a switch a row; false: it is
 * none of them. */
static bool
compare_fast(struct run *r, const struct source *a, uint8_t orders,
    const struct source *b, uint64_t *to)
{
	const struct filter_operand *l = b->operand;
	const struct array *c = a->array;

	if (c == NULL || b->array != NULL ||
	    a->operand->from != FILTER_COLUMN)
		return false;
	if (c->field->type == ARROW_UTF8 || c->field->type == ARROW_LARGE_UTF8) {
		if ((orders & FILTER_LESS) != 0 || (orders & FILTER_MORE) != 0)
			return false;
		PACK(r, to, same_text(c, i_, l->text));
		return true;
	}
	if (c->field->type == ARROW_FLOAT32) {
		PACK(r, to, in_set(orders, filter_value_double(
		    (double)array_float(c, i_), l->real)));
		return true;
	}
	if (c->field->type == ARROW_BOOL || c->field->type == ARROW_FLOAT64 ||
	    l->beyond != 0 || l->fraction)
		return false;
	PACK(r, to, in_set(orders, (array_int(c, i_) > l->whole) -
	    (array_int(c, i_) < l->whole)));
	return true;
}

static struct err
run_compare(struct run *r, const struct filter_step *s, uint64_t *to)
{
	struct source a, b;
	struct err e = open_source(r, s->a, &a);

	if (!err_is(e))
		e = open_source(r, s->b, &b);
	if (err_is(e))
		return e;
	if (!compare_fast(r, &a, s->orders, &b, to))
		PACK(r, to, in_set(s->orders, order_at(&a, &b, i_)));
	return OK;
}

static bool
is_in(const struct source *a, const struct filter_step *s, uint64_t i)
{
	uint32_t low = 0, high = s->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		struct source item = { .operand = &s->b[middle] };
		int order = order_at(a, &item, i);

		if (order == 0)
			return true;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

static struct err
run_in(struct run *r, const struct filter_step *s, uint64_t *to)
{
	struct source a;
	struct err e = open_source(r, s->a, &a);

	if (!err_is(e))
		PACK(r, to, is_in(&a, s, i_));
	return e;
}

static struct err
run_like(struct run *r, const struct filter_step *s, uint64_t *to)
{
	struct source a;
	struct err e = open_source(r, s->a, &a);

	if (err_is(e))
		return e;
	PACK(r, to, filter_like_match(s->pattern, a.array == NULL ?
	    s->a->text : array_slice(a.array, i_)));
	return OK;
}

static struct err
run_truth(struct run *r, const struct filter_step *s, uint64_t *to)
{
	struct source a;
	struct err e = open_source(r, s->a, &a);

	if (err_is(e))
		return e;
	PACK(r, to, a.array == NULL ? s->a->whole :
	    array_bool(a.array, i_));
	return OK;
}

/* ---- the program */

static uint64_t
last_mask(const struct run *r)
{
	uint64_t rest = r->rows->count % 64;

	return rest == 0 ? UINT64_MAX : (1ull << rest) - 1;
}

static void
fill(const struct run *r, uint64_t *to)
{
	memset(to, 0xff, r->words * sizeof(*to));
	to[r->words - 1] = last_mask(r);
}

/* Whether all rows are in it. */
static bool
is_full(const struct run *r, const uint64_t *bits)
{
	uint64_t i;

	for (i = 0; i + 1 < r->words; i++) {
		if (bits[i] != UINT64_MAX)
			return false;
	}
	return bits[r->words - 1] == last_mask(r);
}

static bool
is_empty(const struct run *r, const uint64_t *bits)
{
	uint64_t i;

	for (i = 0; i < r->words; i++) {
		if (bits[i] != 0)
			return false;
	}
	return true;
}

static struct err
run_predicate(struct run *r, const struct filter_step *s)
{
	struct truth *t = &r->stack[r->height++];
	struct source a;
	struct err e;
	uint64_t i;

	fill(r, r->there);
	switch (s->op) {
	case FILTER_OP_COMPARE:
		e = run_compare(r, s, t->yes);
		break;
	case FILTER_OP_IN:
		e = run_in(r, s, t->yes);
		break;
	case FILTER_OP_LIKE:
		e = run_like(r, s, t->yes);
		break;
	case FILTER_OP_TRUTH:
		e = run_truth(r, s, t->yes);
		break;
	default:
		MUST(s->op == FILTER_OP_NULL);
		e = open_source(r, s->a, &a);
		fill(r, t->yes);
		for (i = 0; i < r->words; i++) {
			t->no[i] = r->there[i];
			t->yes[i] &= ~r->there[i];
		}
		return e;
	}
	for (i = 0; !err_is(e) && i < r->words; i++) {
		t->no[i] = ~t->yes[i] & r->there[i];
		t->yes[i] &= r->there[i];
	}
	return e;
}

static void
join(struct run *r, bool is_and)
{
	struct truth *b = &r->stack[--r->height], *a = b - 1;
	uint64_t i;

	for (i = 0; i < r->words; i++) {
		if (is_and) {
			a->yes[i] &= b->yes[i];
			a->no[i] |= b->no[i];
		} else {
			a->yes[i] |= b->yes[i];
			a->no[i] &= b->no[i];
		}
	}
}

static void
is_true(const struct run *r, struct truth *t)
{
	uint64_t i;

	fill(r, t->no);
	for (i = 0; i < r->words; i++)
		t->no[i] &= ~t->yes[i];
}

/* Answers the number of the next step. */
static uint32_t
run_operator(struct run *r, const struct filter_step *s, uint32_t at)
{
	struct truth *top = &r->stack[r->height - 1], was = *top;

	switch (s->op) {
	case FILTER_OP_IS_TRUE:
		is_true(r, top);
		break;
	case FILTER_OP_NOT:
		*top = (struct truth){ was.no, was.yes };
		break;
	case FILTER_OP_AND:
	case FILTER_OP_OR:
		join(r, s->op == FILTER_OP_AND);
		break;
	case FILTER_OP_SKIP_UNLESS:
		return is_empty(r, top->yes) ? s->count : at + 1;
	case FILTER_OP_SKIP_NO:
		return is_full(r, top->no) ? s->count : at + 1;
	default:
		MUST(s->op == FILTER_OP_SKIP_YES);
		return is_full(r, top->yes) ? s->count : at + 1;
	}
	return at + 1;
}

static struct err
start(struct run *r)
{
	uint32_t fields = r->filter->shape->schema.field_count, i;
	uint64_t *bits;

	r->have = arena_calloc(r->arena, fields, sizeof(*r->have));
	r->columns = arena_calloc(r->arena, fields, sizeof(*r->columns));
	r->stack = arena_calloc(r->arena, r->filter->depth,
	    sizeof(*r->stack));
	bits = arena_calloc(r->arena, (2ull * r->filter->depth + 1),
	    r->words * sizeof(*bits));
	if (r->have == NULL || r->columns == NULL || r->stack == NULL ||
	    bits == NULL)
		return no_memory;
	for (i = 0; i < r->filter->depth; i++) {
		r->stack[i].yes = bits + 2 * i * r->words;
		r->stack[i].no = r->stack[i].yes + r->words;
	}
	r->there = bits + 2ull * r->filter->depth * r->words;
	return OK;
}

struct err
filter_eval(const struct filter *f, const struct filter_rows *rows,
    struct arena *arena, uint64_t *match)
{
	struct run r = { .filter = f, .rows = rows, .arena = arena,
		.words = FILTER_WORDS(rows->count) };
	uint32_t at = 0;
	struct err e;

	if (rows->count == 0)
		return OK;
	e = start(&r);
	while (!err_is(e) && at < f->step_count) {
		const struct filter_step *s = &f->steps[at];

		if (s->op <= FILTER_OP_TRUTH) {
			e = run_predicate(&r, s);
			at++;
		} else {
			at = run_operator(&r, s, at);
		}
	}
	if (err_is(e))
		return e;
	MUST(r.height == 1);
	memcpy(match, r.stack[0].yes, r.words * sizeof(*match));
	return OK;
}

static struct err
batch_column(void *ctx, uint32_t column, struct array *out)
{
	const struct batch *b = ctx;

	*out = b->columns[column];
	return OK;
}

struct err
filter_eval_batch(const struct filter *f, const struct batch *b,
    struct arena *arena, uint64_t *match)
{
	struct filter_rows rows = { b->row_count, batch_column,
		(void *)(uintptr_t)b };

	MUST(b->schema->field_count == f->shape->schema.field_count);
	return filter_eval(f, &rows, arena, match);
}
