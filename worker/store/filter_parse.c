#include "common/base.h"

#include <stdlib.h>

#include "common/utf8.h"
#include "worker/store/filter_parts.h"

/*
 * Precedence by a stack of what is open: parentheses, NOTs, and the ANDs and
 * ORs whose right side is being read. A predicate is never nested, so it is
 * read straight through and its steps are appended at once; an operator's when
 * its right side is complete.
 */

enum pending_kind { PENDING_OPEN, PENDING_OR, PENDING_AND, PENDING_NOT };

struct pending {
	uint8_t kind;			/* rising precedence */
	uint32_t skip;			/* AND, OR: their SKIP step */
	size_t at;
};

struct parser {
	struct filter_lex lex;
	struct filter_program program;
	const struct store_shape *shape;
	uint32_t pending_count;
	struct pending pending[FILTER_NESTING_MAX];
};

static struct err
add(struct parser *p, const struct filter_step *step)
{
	if (p->program.count == FILTER_STEPS_MAX)
		return filter_lex_fail(&p->lex, p->lex.at,
		    "the filter has too many conditions");
	return filter_program_add(&p->program, step);
}

static struct err
add_op(struct parser *p, enum filter_op op)
{
	return add(p, &(struct filter_step){ .op = (uint8_t)op });
}

/* ---- operands */

static bool
is_reserved(const struct filter_lex *l)
{
	static const char *const words[] = { "AND", "OR", "NOT", "IN",
	    "BETWEEN", "LIKE", "IS", "NULL" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		if (filter_lex_is(l, words[i]))
			return true;
	}
	return false;
}

/* Whether the token is a literal; of a timestamp its word. Takes it. */
static struct err
take_literal(struct parser *p, struct filter_operand *o, bool *found)
{
	struct filter_lex *l = &p->lex;
	struct filter_lex ahead = *l;
	struct err e = OK;

	*found = true;
	o->from = FILTER_LITERAL;
	o->at = (uint32_t)l->at;
	if (l->token == FILTER_STRING) {
		o->type = FILTER_TEXT;
		o->text = l->value;
	} else if (l->token == FILTER_DIGITS) {
		e = filter_check_number(l, o);
	} else if (filter_lex_is(l, "TRUE") || filter_lex_is(l, "FALSE")) {
		o->type = FILTER_BOOL;
		o->whole = filter_lex_is(l, "TRUE");
	} else if (filter_lex_is(l, "TIMESTAMP")) {
		/* Else it is a column of that name. */
		e = filter_lex_next(&ahead);
		*found = !err_is(e) && ahead.token == FILTER_STRING;
		if (*found) {
			*l = ahead;
			e = filter_check_time(l, o);
		}
	} else {
		*found = false;
	}
	if (err_is(e) || !*found)
		return e;
	return filter_lex_next(l);
}

static struct err
take_column(struct parser *p, struct filter_operand *o)
{
	struct filter_lex *l = &p->lex;
	struct err e;

	if ((l->token != FILTER_WORD && l->token != FILTER_QUOTED) ||
	    is_reserved(l))
		return filter_lex_expected(l, "a column or a value");
	o->at = (uint32_t)l->at;
	e = filter_check_column(l, p->shape, o);
	if (err_is(e))
		return e;
	p->program.uses[o->column] = true;
	return filter_lex_next(l);
}

/* Behind "version", at its parenthesis. */
static struct err
take_version(struct parser *p, struct filter_operand *o)
{
	struct err e = filter_lex_next(&p->lex);

	if (!err_is(e))
		e = take_column(p, o);
	if (!err_is(e))
		e = filter_check_is(&p->lex, p->shape, o, FILTER_TEXT,
		    "a text column");
	if (err_is(e))
		return e;
	if (p->lex.token != FILTER_CLOSE)
		return filter_lex_expected(&p->lex, "')'");
	o->from = FILTER_VERSION;
	o->type = FILTER_INT;
	return filter_lex_next(&p->lex);
}

static struct err
take_operand(struct parser *p, struct filter_operand **out)
{
	struct filter_operand *o = arena_calloc(p->lex.arena, 1, sizeof(*o));
	struct filter_lex ahead;
	bool found;
	struct err e;

	if (o == NULL)
		return FAIL(NO_MEMORY, "filter");
	*out = o;
	e = take_literal(p, o, &found);
	if (err_is(e) || found)
		return e;
	*o = (struct filter_operand){ 0 };
	if (filter_lex_is(&p->lex, "VERSION")) {
		ahead = p->lex;
		e = filter_lex_next(&ahead);
		if (err_is(e))
			return e;
		if (ahead.token == FILTER_OPEN) {
			p->lex = ahead;
			return take_version(p, o);
		}
	}
	return take_column(p, o);
}

/* ---- predicates */

static struct err
compare(struct parser *p, struct filter_operand *a, uint8_t orders,
    struct filter_operand *b)
{
	struct err e = filter_check_pair(&p->lex, p->shape, a, b);

	if (err_is(e))
		return e;
	return add(p, &(struct filter_step){ .op = FILTER_OP_COMPARE,
	    .orders = orders, .a = a, .b = b });
}

static struct err
take_comparison(struct parser *p, struct filter_operand *a)
{
	uint8_t orders = p->lex.orders;
	struct filter_operand *b;
	struct err e = filter_lex_next(&p->lex);

	if (!err_is(e) && filter_lex_is(&p->lex, "NULL"))
		return filter_lex_fail(&p->lex, p->lex.at, "nothing compares "
		    "with NULL, expected IS NULL or IS NOT NULL");
	if (!err_is(e))
		e = take_operand(p, &b);
	return err_is(e) ? e : compare(p, a, orders, b);
}

static int
by_value(const void *a, const void *b)
{
	return filter_value_literals(a, b);
}

/* Room for one more. */
static struct err
grow_list(struct parser *p, struct filter_operand **list, uint32_t count)
{
	struct filter_operand *more;

	if (count > 0 && (count < 8 || (count & (count - 1)) != 0))
		return OK;		/* there are 8, 16, 32, ... */
	more = arena_calloc(p->lex.arena, MAX(2 * count, 8u), sizeof(*more));
	if (more == NULL)
		return FAIL(NO_MEMORY, "filter");
	if (count > 0)
		memcpy(more, *list, count * sizeof(*more));
	*list = more;
	return OK;
}

static struct err
take_list_item(struct parser *p, struct filter_operand *a,
    struct filter_operand *o)
{
	bool found;
	struct err e = filter_lex_next(&p->lex);

	if (!err_is(e))
		e = take_literal(p, o, &found);
	if (!err_is(e) && !found)
		e = filter_lex_expected(&p->lex, "a value");
	if (!err_is(e))
		e = filter_check_pair(&p->lex, p->shape, a, o);
	return e;
}

static struct err
take_in(struct parser *p, struct filter_operand *a)
{
	struct filter_step step = { .op = FILTER_OP_IN, .a = a };
	struct filter_operand *list = NULL;
	struct err e = filter_lex_next(&p->lex);

	if (!err_is(e) && p->lex.token != FILTER_OPEN)
		e = filter_lex_expected(&p->lex, "'(' after IN");
	if (err_is(e))
		return e;
	do {
		e = grow_list(p, &list, step.count);
		if (!err_is(e))
			e = take_list_item(p, a, &list[step.count++]);
		if (err_is(e))
			return e;
	} while (p->lex.token == FILTER_COMMA);
	if (p->lex.token != FILTER_CLOSE)
		return filter_lex_expected(&p->lex, "',' or ')'");
	qsort(list, step.count, sizeof(*list), by_value);
	step.b = list;
	e = add(p, &step);
	return err_is(e) ? e : filter_lex_next(&p->lex);
}

static struct err
take_between(struct parser *p, struct filter_operand *a)
{
	struct filter_operand *twin, *low, *high;
	struct err e = filter_lex_next(&p->lex);

	if (!err_is(e))
		e = take_operand(p, &low);
	if (err_is(e))
		return e;
	if (!filter_lex_is(&p->lex, "AND"))
		return filter_lex_expected(&p->lex, "AND of a BETWEEN");
	e = filter_lex_next(&p->lex);
	if (!err_is(e))
		e = take_operand(p, &high);
	if (err_is(e))
		return e;
	/* A literal is rounded for one comparison, and not for the other. */
	twin = arena_alloc(p->lex.arena, sizeof(*twin));
	if (twin == NULL)
		return FAIL(NO_MEMORY, "filter");
	*twin = *a;
	e = compare(p, a, FILTER_SAME | FILTER_MORE, low);
	if (!err_is(e))
		e = compare(p, twin, FILTER_SAME | FILTER_LESS, high);
	return err_is(e) ? e : add_op(p, FILTER_OP_AND);
}

static struct err
take_like(struct parser *p, struct filter_operand *a)
{
	struct filter_step step = { .op = FILTER_OP_LIKE, .a = a };
	const char *why;
	struct err e;

	e = filter_check_is(&p->lex, p->shape, a, FILTER_TEXT,
	    "text before LIKE");
	if (!err_is(e))
		e = filter_lex_next(&p->lex);
	if (err_is(e))
		return e;
	if (p->lex.token != FILTER_STRING)
		return filter_lex_expected(&p->lex, "a pattern in quotes");
	e = filter_like_make(p->lex.value, p->lex.arena, &step.pattern, &why);
	if (!err_is(e) && why != NULL)
		e = filter_lex_fail(&p->lex, p->lex.at, "%s", why);
	if (!err_is(e))
		e = add(p, &step);
	return err_is(e) ? e : filter_lex_next(&p->lex);
}

static struct err
add_truth(struct parser *p, struct filter_operand *a)
{
	struct err e = filter_check_is(&p->lex, p->shape, a, FILTER_BOOL,
	    "a comparison, or a boolean column");

	if (err_is(e))
		return e;
	return add(p, &(struct filter_step){ .op = FILTER_OP_TRUTH, .a = a });
}

/* Behind IS. */
static struct err
take_is(struct parser *p, struct filter_operand *a)
{
	struct err e = filter_lex_next(&p->lex);
	bool negate = false;

	if (!err_is(e) && filter_lex_is(&p->lex, "NOT")) {
		negate = true;
		e = filter_lex_next(&p->lex);
	}
	if (err_is(e))
		return e;
	if (filter_lex_is(&p->lex, "NULL")) {
		e = add(p, &(struct filter_step){ .op = FILTER_OP_NULL,
		    .a = a });
	} else if (filter_lex_is(&p->lex, "TRUE") ||
	    filter_lex_is(&p->lex, "FALSE")) {
		e = filter_check_is(&p->lex, p->shape, a, FILTER_BOOL,
		    "a boolean before IS");
		if (!err_is(e))
			e = add_truth(p, a);
		if (!err_is(e) && filter_lex_is(&p->lex, "FALSE"))
			e = add_op(p, FILTER_OP_NOT);
		if (!err_is(e))
			e = add_op(p, FILTER_OP_IS_TRUE);
	} else {
		e = filter_lex_expected(&p->lex, "NULL, TRUE or FALSE");
	}
	if (!err_is(e) && negate)
		e = add_op(p, FILTER_OP_NOT);
	return err_is(e) ? e : filter_lex_next(&p->lex);
}

static struct err
take_predicate(struct parser *p)
{
	struct filter_operand *a;
	bool negate = false;
	struct err e = take_operand(p, &a);

	if (!err_is(e) && filter_lex_is(&p->lex, "NOT")) {
		negate = true;
		e = filter_lex_next(&p->lex);
	}
	if (err_is(e))
		return e;
	if (filter_lex_is(&p->lex, "IN"))
		e = take_in(p, a);
	else if (filter_lex_is(&p->lex, "BETWEEN"))
		e = take_between(p, a);
	else if (filter_lex_is(&p->lex, "LIKE"))
		e = take_like(p, a);
	else if (negate)
		e = filter_lex_expected(&p->lex, "IN, BETWEEN or LIKE");
	else if (filter_lex_is(&p->lex, "IS"))
		e = take_is(p, a);
	else if (p->lex.token == FILTER_COMPARE)
		e = take_comparison(p, a);
	else
		e = add_truth(p, a);
	if (!err_is(e) && negate)
		e = add_op(p, FILTER_OP_NOT);
	return e;
}

/* ---- expressions */

static struct err
push(struct parser *p, enum pending_kind kind)
{
	if (p->pending_count == FILTER_NESTING_MAX)
		return filter_lex_fail(&p->lex, p->lex.at,
		    "the filter is nested too deeply");
	p->pending[p->pending_count++] = (struct pending){
		.kind = (uint8_t)kind, .skip = p->program.count, .at = p->lex.at,
	};
	return OK;
}

/* Ends what is open and binds at least as tight. */
static struct err
reduce(struct parser *p, enum pending_kind tightest)
{
	struct err e = OK;

	while (!err_is(e) && p->pending_count > 0 &&
	    p->pending[p->pending_count - 1].kind >= tightest) {
		const struct pending *top = &p->pending[--p->pending_count];

		if (top->kind == PENDING_NOT) {
			e = add_op(p, FILTER_OP_NOT);
			continue;
		}
		e = add_op(p, top->kind == PENDING_AND ? FILTER_OP_AND :
		    FILTER_OP_OR);
		p->program.steps[top->skip].count = p->program.count;
	}
	return e;
}

static bool
is_in_not(const struct parser *p)
{
	uint32_t i;

	for (i = 0; i < p->pending_count; i++) {
		if (p->pending[i].kind == PENDING_NOT)
			return true;
	}
	return false;
}

static struct err
take_connector(struct parser *p, bool is_and)
{
	struct err e = reduce(p, is_and ? PENDING_AND : PENDING_OR);
	enum filter_op skip = !is_and ? FILTER_OP_SKIP_YES :
	    is_in_not(p) ? FILTER_OP_SKIP_NO : FILTER_OP_SKIP_UNLESS;

	if (!err_is(e))
		e = push(p, is_and ? PENDING_AND : PENDING_OR);
	if (!err_is(e))
		e = add_op(p, skip);
	return err_is(e) ? e : filter_lex_next(&p->lex);
}

/* A predicate with what opens before it. */
static struct err
take_front(struct parser *p)
{
	struct err e = OK;

	while (!err_is(e)) {
		bool is_not = filter_lex_is(&p->lex, "NOT");

		if (!is_not && p->lex.token != FILTER_OPEN)
			return take_predicate(p);
		e = push(p, is_not ? PENDING_NOT : PENDING_OPEN);
		if (!err_is(e))
			e = filter_lex_next(&p->lex);
	}
	return e;
}

/* What closes behind it. */
static struct err
take_closes(struct parser *p)
{
	struct err e = OK;

	while (!err_is(e) && p->lex.token == FILTER_CLOSE) {
		e = reduce(p, PENDING_OR);
		if (err_is(e))
			return e;
		if (p->pending_count == 0)
			return filter_lex_expected(&p->lex,
			    "AND, OR or the end");
		p->pending_count--;
		e = filter_lex_next(&p->lex);
	}
	return e;
}

static struct err
take_expression(struct parser *p)
{
	struct err e = OK;

	for (;;) {
		e = take_front(p);
		if (!err_is(e))
			e = take_closes(p);
		if (err_is(e))
			return e;
		if (filter_lex_is(&p->lex, "AND"))
			e = take_connector(p, true);
		else if (filter_lex_is(&p->lex, "OR"))
			e = take_connector(p, false);
		else
			break;
		if (err_is(e))
			return e;
	}
	e = reduce(p, PENDING_OR);
	if (err_is(e))
		return e;
	if (p->pending_count > 0 && p->lex.token == FILTER_END)
		return filter_lex_fail(&p->lex,
		    p->pending[p->pending_count - 1].at,
		    "expected a ')' for this '(', found the end");
	if (p->lex.token != FILTER_END)
		return filter_lex_expected(&p->lex, p->pending_count > 0 ?
		    "AND, OR or ')'" : "AND, OR or the end");
	return OK;
}

static bool
is_utf8(struct slice s, size_t *at)
{
	int n;

	for (*at = 0; *at < s.len; *at += (size_t)n) {
		n = utf8_length(s.ptr + *at, s.len - *at);
		if (n <= 0)
			return false;
	}
	return true;
}

struct err
filter_parse(const struct store_shape *shape, struct slice text,
    struct arena *arena, const struct filter **out)
{
	struct parser p = { .shape = shape, .lex = { .arena = arena } };
	struct err e = filter_program_start(&p.program, shape, arena);
	const char *copy = arena_copy(arena, text);
	size_t at;

	if (err_is(e))
		return e;
	if (copy == NULL || text.len > UINT32_MAX)
		return FAIL(NO_MEMORY, "filter");
	p.lex.text = slice_make(copy, text.len);
	if (!is_utf8(text, &at))
		return filter_lex_fail(&p.lex, at, "expected UTF-8");
	e = filter_lex_next(&p.lex);
	if (!err_is(e))
		e = take_expression(&p);
	return err_is(e) ? e : filter_program_end(&p.program, out);
}
