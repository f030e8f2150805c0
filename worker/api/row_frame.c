#include "common/base.h"

#include "worker/api/row_event.h"
#include "worker/api/row_machine.h"
#include "worker/api/row_value.h"

/* ---- errors */

static const char *
position(const struct row_read *r)
{
	const char *at = "";
	uint8_t i;

	for (i = 0; i < r->depth; i++) {
		const struct frame *f = &r->frames[i];

		if (f->kind != FRAME_BODY && !row_frame_is_object(f))
			at = arena_printf(r->arena, "%s[%llu]", at,
			    (unsigned long long)f->index);
		else if (f->named)
			at = arena_printf(r->arena, "%s%s%.*s", at,
			    *at == '\0' ? "" : ".", (int)f->name.len, f->name.ptr);
	}
	return *at == '\0' ? "body" : at;
}

ptrdiff_t
row_frame_fail(struct row_read *r, const char *why)
{
	r->err = FAIL(BAD_INPUT, arena_printf(r->arena, "%s: %s", position(r), why));
	return JSON_BAD;
}

ptrdiff_t
row_frame_fail_shape(struct row_read *r, const char *why)
{
	row_frame_fail(r, why);
	if ((r->shape->flags & SHAPE_TYPED_BODY) != 0)
		r->err.kind = ERR_SHAPE;
	return JSON_BAD;
}

ptrdiff_t
row_frame_fail_at(struct row_read *r, struct slice name, const char *why)
{
	row_frame_top(r)->named = true;
	row_frame_top(r)->name = name;
	return row_frame_fail(r, why);
}

ptrdiff_t
row_frame_fail_full(struct row_read *r)
{
	r->err = FAIL(TOO_LARGE, "the rows of one request are too large");
	return JSON_BAD;
}

/* ---- frames */

void
row_frame_push(struct row_read *r, enum frame_kind kind, enum state next)
{
	MUST(r->depth < FRAMES_MAX);
	r->frames[r->depth++] = (struct frame){ .kind = (uint8_t)kind };
	r->state = (uint8_t)next;
}

static ptrdiff_t
missing(struct row_read *r, struct slice name)
{
	return row_frame_fail_at(r, name, "required, but missing or null");
}

/*
 * What rows cost in all. Each buffer has its cap, but a row of few bytes may
 * have a thousand columns and long vectors that it leaves out, and each of them
 * takes its place.
 */
static bool
is_bounded(struct row_read *r)
{
	if (++r->unlooked < r->look_every)
		return true;
	r->unlooked = 0;
	return builder_bytes(r->builder) / 2 <= r->builder->cap_bytes;
}

static ptrdiff_t
end_row(struct row_read *r)
{
	struct builder *b = r->builder;
	uint32_t i;

	for (i = 0; i < r->shape->schema.field_count; i++) {
		struct column *c = &b->columns[i];

		if (c->length > b->row_count)
			continue;
		if (r->shape->rules[i].presence == RULE_REQUIRED)
			return missing(r, c->field->name);
		if (row_value_fill(b, r->shape, i, r->now_us) != ROW_VALUE_OK)
			return row_frame_fail_full(r);
	}
	if ((r->shape->flags & SHAPE_EVENTS) != 0 && row_event_end(r) < 0)
		return JSON_BAD;
	builder_end_row(b);
	return is_bounded(r) ? 1 : row_frame_fail_full(r);
}

static ptrdiff_t
end_struct(struct row_read *r, struct frame *f)
{
	struct column *c = f->column;
	uint32_t i;

	for (i = 0; i < c->field->child_count; i++) {
		struct column *m = &c->children[i];

		if (m->length > c->length)
			continue;
		if (f->rule->members[i].presence == RULE_REQUIRED)
			return missing(r, m->field->name);
		if (!column_null(m))
			return row_frame_fail_full(r);
	}
	return column_end_value(c) ? 1 : row_frame_fail_full(r);
}

static ptrdiff_t
end_vector(struct row_read *r, struct column *c)
{
	uint64_t count = column_open_length(c);

	if (count < (uint32_t)c->field->dim) {
		r->depth--;		/* the error is the vector's */
		return row_frame_fail(r, arena_printf(r->arena,
		    "expected %d numbers, found %llu", c->field->dim,
		    (unsigned long long)count));
	}
	return column_end_value(c) ? 1 : row_frame_fail_full(r);
}

/* A closing bracket. */
ptrdiff_t
row_frame_pop(struct row_read *r)
{
	struct frame *f = row_frame_top(r);
	ptrdiff_t n = 1;

	switch ((enum frame_kind)f->kind) {
	case FRAME_BODY:
		r->depth--;
		r->state = AT_END;
		return 1;
	case FRAME_ROWS:
		break;
	case FRAME_ROW:
		n = end_row(r);
		break;
	case FRAME_VECTOR:
		n = end_vector(r, f->column);
		break;
	case FRAME_OBJECT:
		n = row_event_end_value(r);
		break;
	case FRAME_LIST:
	case FRAME_BYTES:
		n = column_end_value(f->column) ? 1 : row_frame_fail_full(r);
		break;
	case FRAME_STRUCT:
		n = end_struct(r, f);
		break;
	}
	if (n > 0) {
		r->depth--;
		row_frame_value_done(r);
	}
	return n;
}
