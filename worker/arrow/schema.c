#include "common/base.h"

#include "worker/arrow/schema.h"

static const struct {
	uint32_t width;
	const char *logical;
} types[] = {
#define X(type, bytes, logical) { bytes, logical },
	ARROW_TYPES(X)
#undef X
};

uint32_t
arrow_type_width(enum arrow_type t)
{
	MUST(t < ARROW_TYPE_COUNT);
	return types[t].width;
}

const char *
arrow_type_name(enum arrow_type t)
{
	MUST(t < ARROW_TYPE_COUNT);
	return types[t].logical;
}

uint32_t
arrow_offset_width(enum arrow_type t)
{
	switch (t) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LIST:
		return 4;
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
		return 8;
	default:
		return 0;
	}
}

int
arrow_schema_find(const struct arrow_schema *s, struct slice name)
{
	uint32_t i;

	for (i = 0; i < s->field_count; i++) {
		if (slice_eq(s->fields[i].name, name))
			return (int)i;
	}
	return -1;
}

static bool
fields_same(const struct arrow_field *a, const struct arrow_field *b,
    uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (!arrow_field_same(&a[i], &b[i]))
			return false;
	}
	return true;
}

/* Depth is bounded by ARROW_DEPTH_MAX, which every maker of fields keeps. */
bool
arrow_field_same(const struct arrow_field *a, const struct arrow_field *b)
{
	return a->type == b->type && a->nullable == b->nullable &&
	    a->dim == b->dim && slice_eq(a->name, b->name) &&
	    a->child_count == b->child_count &&
	    fields_same(a->children, b->children, a->child_count);
}

bool
arrow_schema_same(const struct arrow_schema *a, const struct arrow_schema *b)
{
	return a->field_count == b->field_count &&
	    fields_same(a->fields, b->fields, a->field_count);
}
