#include "common/base.h"

#include "common/json.h"
#include "worker/api/filters.h"
#include "worker/api/query.h"

/* The keys of "filters": all text but the last. */
static const uint16_t filter_columns[] = {
	ROLLOUT_rollout_id, ROLLOUT_problem_id, ROLLOUT_dataset,
	ROLLOUT_policy_version, ROLLOUT_role, ROLLOUT_content_type,
	ROLLOUT_artifact_type, ROLLOUT_include_in_training,
};

static struct err
one_key(const struct json *value, const struct store_shape *shape,
    struct arena *arena, const struct filter **out)
{
	const struct arrow_field *f = NULL;
	uint16_t column = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(filter_columns) && f == NULL; i++) {
		column = filter_columns[i];
		if (slice_eq(shape->schema.fields[column].name, value->name))
			f = &shape->schema.fields[column];
	}
	if (f == NULL)
		return FAIL(BAD_INPUT, arena_printf(arena, "filters: '%.*s' is "
		    "no key of it", (int)MIN(value->name.len, (size_t)100),
		    value->name.ptr));
	*out = NULL;
	/* null is as good as absent, and so is the empty text. */
	if (value->type == JSON_NULL)
		return OK;
	if (f->type == ARROW_BOOL && value->type == JSON_BOOL)
		return filter_bool(shape, column, value->truth, arena, out);
	if (f->type != ARROW_BOOL && value->type == JSON_TEXT)
		return value->text.len == 0 ? OK :
		    filter_text(shape, column, value->text, arena, out);
	return FAIL(BAD_INPUT, arena_printf(arena, "filters: '%.*s' must be %s",
	    (int)f->name.len, f->name.ptr,
	    f->type == ARROW_BOOL ? "a boolean" : "a string"));
}

static struct err
see_once(const struct json *object, const struct json *value,
    struct arena *arena)
{
	const struct json *other;

	JSON_FOREACH(other, object) {
		if (other == value)
			break;
		if (slice_eq(other->name, value->name))
			return FAIL(BAD_INPUT, arena_printf(arena,
			    "filters: '%.*s' is given twice",
			    (int)value->name.len, value->name.ptr));
	}
	return OK;
}

static struct err
from_object(struct slice text, const struct store_shape *shape,
    struct arena *arena, const struct filter **out)
{
	const struct json *object, *value;
	const struct filter *one;
	struct err e = json_parse(arena, text, "filters", &object);

	if (err_is(e))
		return e;
	if (object->type != JSON_OBJECT)
		return FAIL(BAD_INPUT, "filters: must be a JSON object");
	JSON_FOREACH(value, object) {
		e = one_key(value, shape, arena, &one);
		if (!err_is(e))
			e = see_once(object, value, arena);
		if (!err_is(e))
			e = filter_both(*out, one, arena, out);
		if (err_is(e))
			return e;
	}
	return OK;
}

struct err
filters_of_query(struct slice query, const struct kind *kind,
    const struct store_shape *shape, struct arena *arena,
    const struct filter **out)
{
	const struct filter *parsed = NULL;
	struct slice text;
	bool found;
	struct err e;

	*out = NULL;
	e = query_text(query, "filters", arena, &text, &found);
	if (!err_is(e) && found && kind != &kind_rollout)
		e = FAIL(BAD_INPUT, "filters: only rollout stores have it, use "
		    "filter");
	if (!err_is(e) && found)
		e = from_object(text, shape, arena, out);
	if (!err_is(e))
		e = query_text(query, "filter", arena, &text, &found);
	if (err_is(e) || !found)
		return e;
	e = filter_parse(shape, text, arena, &parsed);
	return err_is(e) ? e : filter_both(*out, parsed, arena, out);
}
