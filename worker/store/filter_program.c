#include "common/base.h"

#include "worker/store/filter_parts.h"

struct err
filter_program_start(struct filter_program *p, const struct store_shape *shape,
    struct arena *arena)
{
	*p = (struct filter_program){ .arena = arena, .shape = shape };
	p->uses = arena_calloc(arena, shape->schema.field_count,
	    sizeof(*p->uses));
	return p->uses == NULL ? FAIL(NO_MEMORY, "filter") : OK;
}

static struct err
grow(struct filter_program *p)
{
	uint32_t room = p->room == 0 ? 16 : 2 * p->room;
	struct filter_step *steps = arena_alloc(p->arena,
	    room * sizeof(*steps));

	if (steps == NULL)
		return FAIL(NO_MEMORY, "filter");
	if (p->count > 0)
		memcpy(steps, p->steps, p->count * sizeof(*steps));
	p->steps = steps;
	p->room = room;
	return OK;
}

struct err
filter_program_add(struct filter_program *p, const struct filter_step *step)
{
	struct err e;

	if (p->count == FILTER_STEPS_MAX)
		return FAIL(BAD_INPUT, "the filter has too many conditions");
	if (p->count == p->room) {
		e = grow(p);
		if (err_is(e))
			return e;
	}
	p->steps[p->count++] = *step;
	if (step->op <= FILTER_OP_TRUTH)
		p->height++;
	else if (step->op == FILTER_OP_AND || step->op == FILTER_OP_OR)
		p->height--;
	p->depth = MAX(p->depth, p->height);
	return OK;
}

struct err
filter_program_end(struct filter_program *p, const struct filter **out)
{
	struct filter *f = arena_calloc(p->arena, 1, sizeof(*f));

	if (f == NULL)
		return FAIL(NO_MEMORY, "filter");
	MUST(p->height == 1);
	*f = (struct filter){ p->shape, p->depth, p->count, p->steps,
		p->uses };
	*out = f;
	return OK;
}

/* column = a literal of the column's own type. */
static struct err
make_equal(const struct store_shape *shape, uint32_t column,
    const struct filter_operand *literal, struct arena *arena,
    const struct filter **out)
{
	struct filter_operand *o = arena_calloc(arena, 2, sizeof(*o));
	struct filter_program p;
	struct err e = filter_program_start(&p, shape, arena);

	if (o == NULL)
		return FAIL(NO_MEMORY, "filter");
	o[0] = (struct filter_operand){ .from = FILTER_COLUMN,
		.column = (uint16_t)column, .type = literal->type };
	o[1] = *literal;
	MUST(column < shape->schema.field_count);
	MUST(filter_check_type((enum arrow_type)
	    shape->schema.fields[column].type) == literal->type);
	if (!err_is(e)) {
		p.uses[column] = true;
		e = filter_program_add(&p, &(struct filter_step){ .op = FILTER_OP_COMPARE,
		    .orders = FILTER_SAME, .a = &o[0], .b = &o[1] });
	}
	return err_is(e) ? e : filter_program_end(&p, out);
}

struct err
filter_text(const struct store_shape *shape, uint32_t column,
    struct slice text, struct arena *arena, const struct filter **out)
{
	struct filter_operand o = { .from = FILTER_LITERAL,
		.type = FILTER_TEXT };
	const char *copy = arena_copy(arena, text);

	if (copy == NULL)
		return FAIL(NO_MEMORY, "filter");
	o.text = slice_make(copy, text.len);
	return make_equal(shape, column, &o, arena, out);
}

struct err
filter_bool(const struct store_shape *shape, uint32_t column, bool value,
    struct arena *arena, const struct filter **out)
{
	struct filter_operand o = { .from = FILTER_LITERAL,
		.type = FILTER_BOOL, .whole = value };

	return make_equal(shape, column, &o, arena, out);
}

static struct err
add_all(struct filter_program *p, const struct filter *f)
{
	uint32_t first = p->count, i;
	struct err e = OK;

	for (i = 0; !err_is(e) && i < f->step_count; i++) {
		struct filter_step step = f->steps[i];

		if (step.op >= FILTER_OP_SKIP_NO)
			step.count += first;
		e = filter_program_add(p, &step);
	}
	for (i = 0; i < p->shape->schema.field_count; i++)
		p->uses[i] = p->uses[i] || f->uses[i];
	return e;
}

struct err
filter_both(const struct filter *a, const struct filter *b,
    struct arena *arena, const struct filter **out)
{
	struct filter_program p;
	struct err e;
	uint32_t skip;

	if (a == NULL || b == NULL) {
		*out = a == NULL ? b : a;
		return OK;
	}
	MUST(a->shape == b->shape);
	e = filter_program_start(&p, a->shape, arena);
	if (!err_is(e))
		e = add_all(&p, a);
	skip = p.count;
	if (!err_is(e))
		e = filter_program_add(&p, &(struct filter_step){
		    .op = FILTER_OP_SKIP_UNLESS });
	if (!err_is(e))
		e = add_all(&p, b);
	if (!err_is(e))
		e = filter_program_add(&p, &(struct filter_step){
		    .op = FILTER_OP_AND });
	if (err_is(e))
		return e;
	p.steps[skip].count = p.count;
	return filter_program_end(&p, out);
}

bool
filter_uses(const struct filter *f, uint32_t column)
{
	return f->uses[column];
}
