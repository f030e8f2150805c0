#include "common/base.h"

#include <stdio.h>

#include "worker/api/row_machine.h"

/* A name that nobody knows: told once. In a struct or an object it is told with
 * the field of the row that this is in. */
static ptrdiff_t
ignore_name(struct row_read *r, struct slice name)
{
	const struct frame *f = row_frame_top(r);
	char told[2 * NAME_MAX_BYTES];
	uint32_t i;
	int n;

	if (f->kind == FRAME_STRUCT || f->kind == FRAME_OBJECT) {
		f -= f->kind == FRAME_STRUCT ? 2 : 1;
		MUST(f->kind == FRAME_ROW && f->name.len < NAME_MAX_BYTES);
		n = snprintf(told, sizeof(told), "%.*s.%.*s",
		    (int)f->name.len, f->name.ptr, (int)name.len, name.ptr);
		name = slice_make(told, MIN((size_t)n, sizeof(told) - 1));
	}
	for (i = 0; i < r->ignored_count; i++) {
		if (slice_eq(r->ignored[i], name))
			return 1;
	}
	if (r->ignored_count == ROW_IGNORED_MAX)
		return 1;
	name.ptr = arena_copy(r->arena, name);
	if (name.ptr == NULL)
		return row_frame_fail_full(r);
	r->ignored[r->ignored_count++] = name;
	return 1;
}

static ptrdiff_t
unknown_name(struct row_read *r, struct slice name)
{
	row_frame_top(r)->name = name;
	r->column = NULL;
	return ignore_name(r, name);
}

/* What a column is called in rows; empty: it is no field of theirs. */
static struct slice
name_of(const struct row_read *r, uint32_t column)
{
	const struct rule *rule = &r->shape->rules[column];

	if (rule->presence == RULE_INTERNAL || rule->presence == RULE_MEMBER)
		return (struct slice){ "", 0 };
	return rule->name.len > 0 ? rule->name :
	    r->shape->schema.fields[column].name;
}

static int
find_column(const struct row_read *r, struct slice name)
{
	int i = arrow_schema_find(&r->shape->schema, name);
	uint32_t k;

	if (i >= 0 && slice_eq(name_of(r, (uint32_t)i), name))
		return i;
	for (k = 0; k < r->shape->schema.field_count; k++) {
		if (r->shape->rules[k].name.len > 0 &&
		    slice_eq(r->shape->rules[k].name, name))
			return (int)k;
	}
	return -1;
}

static ptrdiff_t
unknown_column(struct row_read *r, struct slice name)
{
	if ((r->shape->flags & SHAPE_STRICT_NAMES) == 0)
		return unknown_name(r, name);
	row_frame_top(r)->name = name;
	return row_frame_fail(r, "no such column");
}

static ptrdiff_t
known_column(struct row_read *r, uint32_t i)
{
	struct frame *f = row_frame_top(r);
	uint64_t bit = 1ull << (i % 64);

	f->name = name_of(r, i);
	if ((r->seen[i / 64] & bit) != 0)
		return row_frame_fail(r, "given twice");
	r->seen[i / 64] |= bit;
	r->next_of[r->last] = (uint16_t)i;
	r->last = (uint16_t)(i + 1);
	r->column = &r->builder->columns[i];
	r->rule = &r->shape->rules[i];
	return 1;
}

static ptrdiff_t
known_member(struct row_read *r, struct frame *f, struct slice name)
{
	uint32_t i;

	for (i = 0; i < f->column->field->child_count; i++) {
		if (slice_eq(f->column->field->children[i].name, name))
			break;
	}
	if (i == f->column->field->child_count)
		return unknown_name(r, name);
	f->name = f->column->field->children[i].name;
	if ((f->seen >> i & 1) != 0)
		return row_frame_fail(r, "given twice");
	f->seen |= 1ull << i;
	r->column = &f->column->children[i];
	r->rule = &f->rule->members[i];
	return 1;
}

static ptrdiff_t
known_object(struct row_read *r, struct frame *f)
{
	f->name = r->shape->object->name;
	if (r->seen_object)
		return row_frame_fail(r, "given twice");
	r->seen_object = r->is_object = true;
	return 1;
}

static ptrdiff_t
name_in_row(struct row_read *r, struct frame *f, struct slice name)
{
	int i;

	if (r->shape->object != NULL && slice_eq(r->shape->object->name, name))
		return known_object(r, f);
	i = find_column(r, name);
	return i < 0 ? unknown_column(r, name) : known_column(r, (uint32_t)i);
}

static ptrdiff_t
name_in_object(struct row_read *r, struct frame *f, struct slice name)
{
	const struct rule_object *object = r->shape->object;
	uint32_t i;

	for (i = 0; i < object->member_count; i++) {
		if (slice_eq(object->members[i].name, name))
			break;
	}
	if (i == object->member_count)
		return unknown_name(r, name);
	f->name = object->members[i].name;
	if ((f->seen >> i & 1) != 0)
		return row_frame_fail(r, "given twice");
	f->seen |= 1ull << i;
	r->column = &r->builder->columns[object->members[i].column];
	r->rule = &r->shape->rules[object->members[i].column];
	return 1;
}

ptrdiff_t
row_name_done(struct row_read *r)
{
	struct slice name = slice_make(r->name, r->name_len);
	struct frame *f = row_frame_top(r);

	f->named = true;
	r->state = AT_COLON;
	if (f->kind == FRAME_STRUCT)
		return known_member(r, f, name);
	if (f->kind == FRAME_OBJECT)
		return name_in_object(r, f, name);
	if (f->kind == FRAME_ROW)
		return name_in_row(r, f, name);
	r->column = NULL;
	if (!slice_eq(name, r->list_name))
		return unknown_name(r, name);
	f->name = r->list_name;
	return r->have_rows ? row_frame_fail(r, "given twice") : 1;
}

/* Rows mostly name their fields in one order: then a name costs one compare. */
ptrdiff_t
row_name_begin(struct row_read *r, const char *p, const char *end)
{
	uint16_t i = r->next_of[r->last];
	struct slice name;

	if (*p != '"')
		return row_frame_fail(r, "no name where one is due");
	if (row_frame_top(r)->kind == FRAME_ROW && i != NO_COLUMN) {
		name = name_of(r, i);
		if ((size_t)(end - p) >= name.len + 2 &&
		    memcmp(p + 1, name.ptr, name.len) == 0 &&
		    p[name.len + 1] == '"') {
			row_frame_top(r)->named = true;
			r->state = AT_COLON;
			return known_column(r, i) > 0 ?
			    (ptrdiff_t)name.len + 2 : JSON_BAD;
		}
	}
	r->name_len = 0;
	r->state = IN_NAME;
	return 1;
}
