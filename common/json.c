#include "common/base.h"

#include <cjson/cJSON.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/number.h"

/*
 * cJSON keeps a number as a double only. The digits are found again by walking
 * the text beside the tree: both have the numbers in the same order.
 */

struct reading {
	struct arena *arena;
	const char *at, *end;		/* behind the last number found */
};

static struct slice
next_number(struct reading *r)
{
	const char *p = r->at, *why;
	int n;

	while (*p != '-' && (unsigned)(*p - '0') > 9) {
		if (*p++ != '"')
			continue;
		while (*p != '"')
			p += *p == '\\' ? 2 : 1;
		p++;
	}
	n = json_number(p, r->end, &why);
	/* A number may be the last byte of the text. */
	if (n == JSON_MORE)
		n = (int)(r->end - p);
	MUST(n > 0);
	r->at = p + n;
	return slice_make(p, (size_t)n);
}

static bool
copy_text(struct arena *a, const char *text, struct slice *out)
{
	char *p = arena_copy(a, slice_of(text));

	*out = slice_make(p, strlen(text));
	return p != NULL;
}

static bool
copy_value(struct reading *r, const cJSON *from, struct json *to)
{
	*to = (struct json){ .type = JSON_NULL };
	if (from->string != NULL && !copy_text(r->arena, from->string, &to->name))
		return false;
	if (cJSON_IsBool(from)) {
		to->type = JSON_BOOL;
		to->truth = cJSON_IsTrue(from);
	} else if (cJSON_IsNumber(from)) {
		struct slice digits = next_number(r);
		char *p = arena_copy(r->arena, digits);

		to->type = JSON_NUMBER;
		to->text = slice_make(p, digits.len);
		return p != NULL;
	} else if (cJSON_IsString(from)) {
		to->type = JSON_TEXT;
		return copy_text(r->arena, from->valuestring, &to->text);
	} else if (cJSON_IsArray(from)) {
		to->type = JSON_ARRAY;
	} else if (cJSON_IsObject(from)) {
		to->type = JSON_OBJECT;
	}
	return true;
}

/* The parents of the value that is being copied: no recursion on input. */
struct level {
	const cJSON *next;		/* child to copy next */
	struct json *parent;
	struct json **link;		/* where its node goes */
};

static bool
copy_tree(struct reading *r, const cJSON *root, const struct json **out)
{
	struct level levels[JSON_DEPTH_MAX + 1];
	size_t depth = 1;
	struct json *top = NULL;

	levels[0] = (struct level){ root, NULL, &top };
	while (depth > 0) {
		struct level *l = &levels[depth - 1];
		const cJSON *from = l->next;
		struct json *to;

		if (from == NULL) {
			depth--;
			continue;
		}
		to = arena_alloc(r->arena, sizeof(*to));
		if (to == NULL || !copy_value(r, from, to))
			return false;
		*l->link = to;
		l->link = &to->next;
		l->next = from->next;
		if (l->parent != NULL)
			l->parent->count++;
		if (from->child != NULL) {
			MUST(depth < ARRAY_LEN(levels));
			levels[depth++] = (struct level){ from->child, to, &to->first };
		}
	}
	*out = top;
	return true;
}

/* What cJSON would let pass, or would cut. */
static const char *
check_text(struct slice text)
{
	struct json_scan s = { 0 };
	const char *p = text.ptr, *end = text.ptr + text.len, *why = "";

	if (json_is_valid(text)) {
		/* Valid, and so this can only say DONE, or MORE at a number
		 * that is all of the text. */
		if (json_scan(&s, &p, end, NULL, &why) == JSON_SCAN_DONE &&
		    s.saw_nul)
			return "U+0000 is not accepted";
		return NULL;
	}
	switch (json_scan(&s, &p, end, NULL, &why)) {
	case JSON_SCAN_BAD:
		return why;
	case JSON_SCAN_DONE:
		return "bytes after the end of the JSON value";
	default:
		return "the JSON value ends early";
	}
}

struct err
json_parse(struct arena *a, struct slice text, const char *what,
    const struct json **out)
{
	struct reading r = { a, text.ptr, text.ptr + text.len };
	const char *why = check_text(text);
	cJSON *tree;
	bool copied;

	if (why != NULL)
		return FAIL(BAD_INPUT, arena_printf(a, "%s: %s", what, why));
	tree = cJSON_ParseWithLength(text.ptr, text.len);
	if (tree == NULL)		/* a very long number, or no memory */
		return FAIL(BAD_INPUT, arena_printf(a, "%s: cannot be read", what));
	copied = copy_tree(&r, tree, out);
	cJSON_Delete(tree);
	return copied ? OK : FAIL(NO_MEMORY, "parse JSON");
}

/* ---- getters */

static struct err
wrong(struct arena *a, const char *name, const char *why)
{
	return FAIL(SHAPE, arena_printf(a, "%s: %s", name, why));
}

/* *out is NULL where an optional field is absent or null. */
static struct err
find(struct arena *a, const struct json *object, const char *name,
    enum json_need need, const struct json **out)
{
	const struct json *child, *found = NULL;

	if (object->type != JSON_OBJECT)
		return FAIL(SHAPE, "expected a JSON object");
	JSON_FOREACH(child, object) {
		if (!slice_eq(child->name, slice_of(name)))
			continue;
		if (found != NULL)
			return wrong(a, name, "given twice");
		found = child;
	}
	if (found != NULL && found->type == JSON_NULL) {
		if (need == JSON_DEFAULT)
			return wrong(a, name, "must not be null");
		found = NULL;
	}
	if (found == NULL && need == JSON_REQUIRED)
		return wrong(a, name, "required, but missing or null");
	*out = found;
	return OK;
}

static struct err
find_type(struct arena *a, const struct json *object, const char *name,
    enum json_need need, enum json_type type, const char *expected,
    const struct json **out)
{
	struct err e = find(a, object, name, need, out);

	if (!err_is(e) && *out != NULL && (*out)->type != type)
		return wrong(a, name, expected);
	return e;
}

struct err
json_get(struct arena *a, const struct json *object, const char *name,
    enum json_need need, const struct json **out)
{
	const struct json *v;
	struct err e = find(a, object, name, need, &v);

	if (!err_is(e) && v != NULL)
		*out = v;
	return e;
}

struct err
json_get_text(struct arena *a, const struct json *object, const char *name,
    enum json_need need, struct slice *out)
{
	const struct json *v;
	struct err e = find_type(a, object, name, need, JSON_TEXT,
	    "expected a string", &v);

	if (!err_is(e) && v != NULL)
		*out = v->text;
	return e;
}

struct err
json_get_bool(struct arena *a, const struct json *object, const char *name,
    enum json_need need, bool *out)
{
	const struct json *v;
	struct err e = find_type(a, object, name, need, JSON_BOOL,
	    "expected true or false", &v);

	if (!err_is(e) && v != NULL)
		*out = v->truth;
	return e;
}

struct err
json_get_uint64(struct arena *a, const struct json *object, const char *name,
    enum json_need need, uint64_t *out)
{
	const struct json *v;
	struct err e = find_type(a, object, name, need, JSON_NUMBER,
	    "expected an integer", &v);

	if (err_is(e) || v == NULL)
		return e;
	if (number_uint64(v->text, out) != NUMBER_OK)
		return wrong(a, name, "expected an integer of 0 to 2^64 - 1");
	return OK;
}

struct err
json_get_int64(struct arena *a, const struct json *object, const char *name,
    enum json_need need, int64_t *out)
{
	const struct json *v;
	struct err e = find_type(a, object, name, need, JSON_NUMBER,
	    "expected an integer", &v);

	if (err_is(e) || v == NULL)
		return e;
	if (number_int64(v->text, out) != NUMBER_OK)
		return wrong(a, name, "expected an integer of 64 bits");
	return OK;
}

struct err
json_get_array(struct arena *a, const struct json *object, const char *name,
    enum json_need need, const struct json **out)
{
	const struct json *v;
	struct err e = find_type(a, object, name, need, JSON_ARRAY,
	    "expected an array", &v);

	if (!err_is(e) && v != NULL)
		*out = v;
	return e;
}

struct err
json_get_object(struct arena *a, const struct json *object, const char *name,
    enum json_need need, const struct json **out)
{
	const struct json *v;
	struct err e = find_type(a, object, name, need, JSON_OBJECT,
	    "expected an object", &v);

	if (!err_is(e) && v != NULL)
		*out = v;
	return e;
}
