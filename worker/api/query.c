#include "common/base.h"

#include <strings.h>

#include "worker/api/query.h"
#include "worker/http/parse.h"

/* Takes the next part off the query; false at its end. */
static bool
next_part(struct slice *query, struct slice *part)
{
	const char *amp;

	if (query->len == 0)
		return false;
	amp = memchr(query->ptr, '&', query->len);
	part->ptr = query->ptr;
	part->len = amp == NULL ? query->len : (size_t)(amp - query->ptr);
	query->ptr += MIN(part->len + 1, query->len);
	query->len -= MIN(part->len + 1, query->len);
	return true;
}

static void
split(struct slice part, struct slice *name, struct slice *value)
{
	const char *eq = part.len == 0 ? NULL : memchr(part.ptr, '=', part.len);

	*name = part;
	*value = slice_make(part.ptr + part.len, 0);
	if (eq == NULL)
		return;
	name->len = (size_t)(eq - part.ptr);
	*value = slice_make(eq + 1, part.len - name->len - 1);
}

static struct err
decode(struct arena *arena, struct slice *text, const char *name)
{
	char *copy = arena_copy(arena, *text);

	if (copy == NULL)
		return FAIL(NO_MEMORY, "query");
	if (!parse_percent(copy, &text->len, true))
		return FAIL(BAD_INPUT, arena_printf(arena,
		    "query parameter '%s' is not properly encoded: a bad "
		    "escape, no UTF-8, or U+0000", name));
	text->ptr = copy;
	return OK;
}

struct err
query_text(struct slice query, const char *name, struct arena *arena,
    struct slice *value, bool *found)
{
	struct slice part, key, raw, got = { 0 };
	bool seen = false;
	struct err e;

	*found = false;
	while (next_part(&query, &part)) {
		split(part, &key, &raw);
		e = decode(arena, &key, name);
		if (err_is(e))
			return e;
		if (!slice_eq(key, slice_of(name)))
			continue;
		if (seen)
			return FAIL(BAD_INPUT, arena_printf(arena,
			    "query parameter '%s' is given twice", name));
		e = decode(arena, &raw, name);
		if (err_is(e))
			return e;
		seen = true;
		got = raw;
	}
	*found = seen;
	if (seen)
		*value = got;
	return OK;
}

struct err
query_uint64(struct slice query, const char *name, struct arena *arena,
    uint64_t *value)
{
	struct slice text;
	uint64_t n = 0;
	bool found;
	struct err e;
	size_t i;

	e = query_text(query, name, arena, &text, &found);
	if (err_is(e) || !found)
		return e;
	for (i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9' ||
		    __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(text.ptr[i] - '0'),
		    &n))
			break;
	}
	if (text.len == 0 || i < text.len)
		return FAIL(BAD_INPUT, arena_printf(arena, "query parameter "
		    "'%s' must be a whole number of at least 0", name));
	*value = n;
	return OK;
}

struct err
query_bool(struct slice query, const char *name, struct arena *arena,
    bool *value)
{
	struct slice text;
	bool found;
	struct err e = query_text(query, name, arena, &text, &found);

	if (err_is(e) || !found)
		return e;
	*value = slice_eq(text, SLICE("true"));
	return *value || slice_eq(text, SLICE("false")) ? OK :
	    FAIL(BAD_INPUT, arena_printf(arena,
	    "query parameter '%s' must be true or false", name));
}

struct err
query_strong(struct slice query, struct arena *arena, bool *strong)
{
	struct slice text;
	bool found;
	struct err e = query_text(query, "consistency", arena, &text, &found);

	*strong = false;
	if (err_is(e) || !found)
		return e;
	*strong = slice_eq(text, SLICE("strong"));
	return *strong ? OK : FAIL(BAD_INPUT,
	    "query parameter 'consistency' must be strong");
}

struct err
query_version(struct slice query, struct arena *arena, bool *found,
    uint64_t *version)
{
	struct slice text;
	struct err e = query_text(query, "version", arena, &text, found);

	return err_is(e) || !*found ? e :
	    query_uint64(query, "version", arena, version);
}

struct err
query_served(struct slice query, enum query_of what, struct arena *arena)
{
	/* The last is served of reads. */
	static const char *const unserved[] = { "order", "after", "nonfinite",
	    "surrogates", "on_conflict", "version" };
	size_t count = ARRAY_LEN(unserved) - (what == QUERY_READ);
	struct slice value;
	bool found = false;
	struct err e = OK;
	size_t i;

	for (i = 0; !err_is(e) && i < count; i++) {
		e = query_text(query, unserved[i], arena, &value, &found);
		if (!err_is(e) && found)
			e = FAIL(UNSUPPORTED, arena_printf(arena,
			    "query parameter '%s' is not served", unserved[i]));
	}
	return e;
}

bool
query_flush(struct slice query)
{
	struct slice part;

	while (next_part(&query, &part)) {
		if (slice_eq(part, SLICE("flush")) ||
		    slice_eq(part, SLICE("flush=1")))
			return true;
		if (part.len == 10 &&
		    memcmp(part.ptr, "flush=", 6) == 0 &&
		    strncasecmp(part.ptr + 6, "true", 4) == 0)
			return true;
	}
	return false;
}
