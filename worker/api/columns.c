#include "common/base.h"

#include "worker/api/columns.h"
#include "worker/api/query.h"

static struct err
begin(const struct store_shape *shape, struct arena *arena, bool **out)
{
	bool *columns = arena_calloc(arena, shape->schema.field_count,
	    sizeof(*columns));

	if (columns == NULL)
		return FAIL(NO_MEMORY, "columns");
	columns[shape->key] = true;
	*out = columns;
	return OK;
}

static struct err
add(const struct store_shape *shape, struct arena *arena, struct slice name,
    bool *columns)
{
	int i = arrow_schema_find(&shape->schema, name);

	if (i < 0 || shape->rules[i].presence == RULE_INTERNAL)
		return FAIL(BAD_INPUT, arena_printf(arena, "columns: the store "
		    "has no column \"%.*s\"", (int)MIN(name.len, (size_t)256),
		    name.ptr));
	columns[i] = true;
	return OK;
}

static struct slice
trim(struct slice s)
{
	while (s.len > 0 && (*s.ptr == ' ' || *s.ptr == '\t')) {
		s.ptr++;
		s.len--;
	}
	while (s.len > 0 && (s.ptr[s.len - 1] == ' ' ||
	    s.ptr[s.len - 1] == '\t'))
		s.len--;
	return s;
}

struct err
columns_of_query(struct slice query, const struct store_shape *shape,
    struct arena *arena, const bool **out)
{
	struct slice text, name;
	const char *comma;
	bool found, *columns = NULL;
	struct err e;

	*out = NULL;
	e = query_text(query, "columns", arena, &text, &found);
	if (err_is(e) || !found)
		return e;
	e = begin(shape, arena, &columns);
	while (!err_is(e) && text.len > 0) {
		comma = memchr(text.ptr, ',', text.len);
		name = slice_make(text.ptr, comma == NULL ? text.len :
		    (size_t)(comma - text.ptr));
		text.ptr += MIN(name.len + 1, text.len);
		text.len -= MIN(name.len + 1, text.len);
		name = trim(name);
		if (name.len > 0)
			e = add(shape, arena, name, columns);
	}
	*out = err_is(e) ? NULL : columns;
	return e;
}

struct err
columns_of_list(const struct json *list, const struct store_shape *shape,
    struct arena *arena, const bool **out)
{
	const struct json *name;
	bool *columns;
	struct err e;

	*out = NULL;
	if (list == NULL)
		return OK;
	e = begin(shape, arena, &columns);
	if (err_is(e))
		return e;
	JSON_FOREACH(name, list) {
		if (name->type != JSON_TEXT)
			return FAIL(SHAPE, "columns: expected strings");
		e = add(shape, arena, name->text, columns);
		if (err_is(e))
			return e;
	}
	*out = columns;
	return OK;
}
