#include "common/base.h"

#include <stdlib.h>

#include "common/json.h"

/* Any bytes as JSON of the control plane; what was understood is printed and
 * must be understood alike. */

#define ARENA_BYTES (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
print(struct json_writer *w, const struct json *j, const char *name)
{
	const struct json *child;
	bool object = j->type == JSON_OBJECT;

	switch (j->type) {
	case JSON_NULL:
		json_write_null(w, name);
		return;
	case JSON_BOOL:
		json_write_bool(w, name, j->truth);
		return;
	case JSON_NUMBER:
		json_write_raw(w, name, j->text);
		return;
	case JSON_TEXT:
		json_write_text(w, name, j->text);
		return;
	}
	json_write_open(w, name, object ? '{' : '[');
	JSON_FOREACH(child, j) {
		char *key = NULL;

		if (object) {
			key = malloc(child->name.len + 1);
			MUST(key != NULL);
			memcpy(key, child->name.ptr, child->name.len);
			key[child->name.len] = '\0';
		}
		print(w, child, key);
		free(key);
	}
	json_write_close(w, object ? '}' : ']');
}

static void
same(const struct json *a, const struct json *b)
{
	const struct json *x, *y = b->first;

	MUST(a->type == b->type && a->truth == b->truth);
	MUST(a->count == b->count);
	MUST(slice_eq(a->text, b->text) && slice_eq(a->name, b->name));
	JSON_FOREACH(x, a) {
		MUST(y != NULL);
		same(x, y);
		y = y->next;
	}
	MUST(y == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	const struct json *j, *again;
	struct json_writer w;
	struct arena arena;
	struct buf out;

	arena_init(&arena, ARENA_BYTES);
	buf_init(&out, ARENA_BYTES);
	if (err_is(json_parse(&arena, slice_make((const char *)bytes, len),
	    "input", &j)))
		goto out;
	json_write_init(&w, &out);
	print(&w, j, NULL);
	if (!json_write_done(&w))
		goto out;
	MUST(!err_is(json_parse(&arena, buf_slice(&out), "output", &again)));
	same(j, again);
out:
	buf_free(&out);
	arena_free(&arena);
	return 0;
}
