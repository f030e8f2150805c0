#include "common/base.h"

#include <stdlib.h>
#include <strings.h>

#include "common/number.h"
#include "worker/store/generic.h"
#include "worker/store/generic_parts.h"

/* As types are called in a schema, and what they are in a table. */
static const struct {
	const char *name;
	uint8_t type;			/* enum arrow_type */
} types[] = {
	{ "string", ARROW_UTF8 },
	{ "int32", ARROW_INT32 },
	{ "int64", ARROW_INT64 },
	{ "float32", ARROW_FLOAT32 },
	{ "float64", ARROW_FLOAT64 },
	{ "bool", ARROW_BOOL },
	{ "timestamp", ARROW_TIMESTAMP },
	{ "binary", ARROW_LARGE_BINARY },
	{ "vector", ARROW_FIXED_LIST },
	{ "list", ARROW_LIST },
};

static const char *const metrics[] = { "l2", "euclidean", "cosine", "dot",
    "dot_product" };

struct parser {
	struct arena *arena;
	uint32_t at;			/* column */
	struct slice name;		/* of it, once it is known */
};

/* ---- errors: "schema.columns[3] (emb): dim: must be at least 1" */

static struct err
fail(const struct parser *p, enum err_kind kind, const char *why)
{
	struct err e = { .kind = (uint16_t)kind };

	e.what = arena_printf(p->arena, "schema.columns[%u]%s%.*s%s: %s",
	    p->at, p->name.len == 0 ? "" : " (", (int)MIN(p->name.len,
	    GENERIC_NAME_MAX), p->name.len == 0 ? "" : p->name.ptr,
	    p->name.len == 0 ? "" : ")", why);
	return e;
}

static struct err
fail_shape(const struct parser *p, const char *why)
{
	return fail(p, ERR_SHAPE, why);
}

static struct err
fail_rule(const struct parser *p, const char *why)
{
	return fail(p, ERR_BAD_INPUT, why);
}

/* Of a getter: with the column in front. */
static struct err
told(const struct parser *p, struct err e)
{
	return err_is(e) ? fail(p, (enum err_kind)e.kind, e.what) : e;
}

/* ---- types */

static struct err
get_flag(const struct parser *p, const struct json *spec, const char *name,
    bool *out)
{
	return told(p, json_get_bool(p->arena, spec, name, JSON_DEFAULT, out));
}

static struct err
get_type(const struct parser *p, const struct json *spec, uint8_t *type)
{
	struct slice name;
	struct err e;
	size_t i;

	e = told(p, json_get_text(p->arena, spec, "type", JSON_REQUIRED,
	    &name));
	if (err_is(e))
		return e;
	for (i = 0; i < ARRAY_LEN(types); i++) {
		if (slice_eq(name, slice_of(types[i].name))) {
			*type = types[i].type;
			return OK;
		}
	}
	return fail_rule(p, arena_printf(p->arena, "type: \"%.*s\" is none",
	    (int)MIN(name.len, 64), name.ptr));
}

/* Any integer is one; which of them are good is a rule. */
static struct err
get_dim(const struct parser *p, const struct json *spec, int32_t *dim)
{
	const struct json *v;
	int64_t n = 0;
	struct err e;

	e = told(p, json_get(p->arena, spec, "dim", JSON_REQUIRED, &v));
	if (err_is(e))
		return e;
	if (v->type != JSON_NUMBER || number_int64(v->text, &n) == NUMBER_NOT)
		return fail_shape(p, "dim: expected an integer");
	if (n < 1 || n > GENERIC_DIM_MAX)
		return fail_rule(p, "dim: must be 1 to 1048576");
	*dim = (int32_t)n;
	return OK;
}

static struct err
get_vector(const struct parser *p, const struct json *spec,
    struct generic_column *c)
{
	struct err e = get_dim(p, spec, &c->dim);
	size_t i;

	if (!err_is(e))
		e = told(p, json_get_text(p->arena, spec, "metric",
		    JSON_OPTIONAL, &c->metric));
	if (err_is(e))
		return e;
	if (c->metric.ptr == NULL)
		return OK;
	for (i = 0; i < ARRAY_LEN(metrics); i++) {
		if (c->metric.len == strlen(metrics[i]) &&
		    strncasecmp(c->metric.ptr, metrics[i], c->metric.len) == 0)
			return OK;
	}
	return fail_rule(p, "metric: must be l2, euclidean, cosine, dot or "
	    "dot_product");
}

/* What a column and a list's item have in common. */
static struct err
get_scalar(const struct parser *p, const struct json *spec, uint8_t *type,
    bool *blob)
{
	bool large = false;
	struct err e = get_type(p, spec, type);

	if (err_is(e))
		return e;
	if (*type == ARROW_UTF8) {
		e = get_flag(p, spec, "large", &large);
		if (large)
			*type = ARROW_LARGE_UTF8;
	} else if (*type == ARROW_LARGE_BINARY) {
		e = get_flag(p, spec, "blob", blob);
	}
	return e;
}

static struct err
get_item(const struct parser *p, const struct json *spec,
    struct generic_column *c)
{
	const struct json *item;
	bool blob = false;
	struct err e;

	e = told(p, json_get_object(p->arena, spec, "item", JSON_REQUIRED,
	    &item));
	if (!err_is(e))
		e = get_scalar(p, item, &c->item, &blob);
	if (err_is(e))
		return e;
	if (c->item == ARROW_LIST || c->item == ARROW_FIXED_LIST)
		return fail_rule(p, "item: a list of lists or vectors is not "
		    "supported");
	return blob ? fail_rule(p, "item: a blob is a column of its own") : OK;
}

/* ---- columns */

static struct err
check_name(const struct parser *p)
{
	if (p->name.len == 0)
		return fail_rule(p, "its name is empty");
	if (p->name.len > GENERIC_NAME_MAX)
		return fail_rule(p, "its name is longer than 256 bytes");
	if (p->name.ptr[0] == '_')
		return fail_rule(p, "names that begin with \"_\" are reserved");
	/* To the Lance engine "." leads into a struct, and a column with a
	 * backtick cannot be selected. */
	if (memchr(p->name.ptr, '.', p->name.len) != NULL ||
	    memchr(p->name.ptr, '`', p->name.len) != NULL)
		return fail_rule(p, "a name must not have a \".\" or a \"`\"");
	return OK;
}

static struct err
get_column(struct parser *p, const struct json *pair, struct generic_column *c)
{
	const struct json *name, *spec;
	struct err e;

	p->name = (struct slice){ 0 };
	if (pair->type != JSON_ARRAY || pair->count != 2)
		return fail_shape(p, "expected [name, type object]");
	name = pair->first;
	spec = name->next;
	if (name->type != JSON_TEXT)
		return fail_shape(p, "expected a string as name");
	p->name = c->name = name->text;
	if (spec->type != JSON_OBJECT)
		return fail_shape(p, "expected an object as type");
	e = get_scalar(p, spec, &c->type, &c->blob);
	if (!err_is(e) && c->type == ARROW_FIXED_LIST)
		e = get_vector(p, spec, c);
	if (!err_is(e) && c->type == ARROW_LIST)
		e = get_item(p, spec, c);
	c->nullable = true;
	if (!err_is(e))
		e = get_flag(p, spec, "nullable", &c->nullable);
	return err_is(e) ? e : check_name(p);
}

static int
by_name(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	return slice_cmp(*x, *y);
}

static struct err
check_twice(struct arena *a, const struct generic_columns *all)
{
	struct slice *names = arena_calloc(a, all->count, sizeof(*names));
	uint32_t i;

	if (names == NULL)
		return FAIL(NO_MEMORY, "schema");
	for (i = 0; i < all->count; i++)
		names[i] = all->columns[i].name;
	qsort(names, all->count, sizeof(*names), by_name);
	for (i = 1; i < all->count; i++) {
		if (slice_eq(names[i - 1], names[i]))
			return FAIL(BAD_INPUT, arena_printf(a, "schema: two "
			    "columns \"%.*s\"", (int)names[i].len,
			    names[i].ptr));
	}
	return OK;
}

static struct err
check_id(const struct generic_columns *all)
{
	uint32_t i;

	for (i = 0; i < all->count; i++) {
		if (slice_eq(all->columns[i].name, SLICE("id")))
			break;
	}
	if (i == all->count)
		return FAIL(BAD_INPUT, "schema: no column \"id\"");
	if ((all->columns[i].type != ARROW_UTF8 &&
	    all->columns[i].type != ARROW_LARGE_UTF8) ||
	    all->columns[i].nullable)
		return FAIL(BAD_INPUT, "schema: \"id\" must be a string with "
		    "\"nullable\":false");
	return OK;
}

struct err
generic_columns_read(struct arena *a, const struct json *schema,
    struct generic_columns *out)
{
	struct generic_columns all = { 0 };
	struct parser p = { .arena = a };
	const struct json *list, *pair;
	struct err e;

	e = json_get_array(a, schema, "columns", JSON_REQUIRED, &list);
	if (err_is(e))
		return e;
	if (list->count < 1 || list->count > GENERIC_COLUMNS_MAX)
		return FAIL(BAD_INPUT, "schema: 1 to 1024 columns");
	all.columns = arena_calloc(a, list->count, sizeof(*all.columns));
	if (all.columns == NULL)
		return FAIL(NO_MEMORY, "schema");
	JSON_FOREACH(pair, list) {
		p.at = all.count;
		e = get_column(&p, pair, &all.columns[all.count++]);
		if (err_is(e))
			return e;
	}
	e = check_twice(a, &all);
	if (!err_is(e))
		e = check_id(&all);
	if (!err_is(e))
		*out = all;
	return e;
}

/* ---- as text, defaults written out */

static void
write_type(struct json_writer *w, const struct generic_column *c, uint8_t type)
{
	bool large = type == ARROW_LARGE_UTF8;
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++) {
		if (types[i].type == (large ? ARROW_UTF8 : type))
			json_write_text(w, "type", slice_of(types[i].name));
	}
	if (large || type == ARROW_UTF8)
		json_write_bool(w, "large", large);
	if (type == ARROW_LARGE_BINARY)
		json_write_bool(w, "blob", c->blob);
	if (type != ARROW_FIXED_LIST)
		return;
	json_write_int64(w, "dim", c->dim);
	if (c->metric.ptr != NULL)
		json_write_text(w, "metric", c->metric);
	else
		json_write_null(w, "metric");
}

bool
generic_columns_write(const struct generic_columns *all, struct buf *out)
{
	struct json_writer w;
	uint32_t i;

	json_write_init(&w, out);
	json_write_open(&w, NULL, '{');
	json_write_open(&w, "columns", '[');
	for (i = 0; i < all->count; i++) {
		const struct generic_column *c = &all->columns[i];

		json_write_open(&w, NULL, '[');
		json_write_text(&w, NULL, c->name);
		json_write_open(&w, NULL, '{');
		write_type(&w, c, c->type);
		if (c->type == ARROW_LIST) {
			json_write_open(&w, "item", '{');
			write_type(&w, c, c->item);
			json_write_close(&w, '}');
		}
		json_write_bool(&w, "nullable", c->nullable);
		json_write_close(&w, '}');
		json_write_close(&w, ']');
	}
	json_write_close(&w, ']');
	json_write_close(&w, '}');
	return json_write_done(&w);
}
