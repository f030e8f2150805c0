#include "common/base.h"

#include "tests/fuzz/rows.h"
#include "worker/store/generic.h"

/*
 * The first byte says in what pieces a body comes; then a schema of a generic
 * store, a newline, and a body of rows for it. A schema that is taken is taken
 * again as it is told, and told alike.
 */

#define ARENA_BYTES	(16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static struct err
parse(struct arena *a, struct slice text, struct store_shape *shape)
{
	const struct json *schema;
	struct err e = json_parse(a, text, "schema", &schema);

	return err_is(e) ? e : generic_shape_make(a, schema, false, shape);
}

static void
check(struct arena *a, struct slice text, struct slice body, size_t step)
{
	struct store_shape shape, again;
	struct rows rows = { .shape = &shape, .name = "rows" };
	bool columns[ARROW_FIELDS_MAX];

	if (err_is(parse(a, text, &shape)))
		return;
	MUST(!err_is(parse(a, shape.spec, &again)));
	MUST(slice_eq(shape.spec, again.spec));
	MUST(arrow_schema_same(&shape.schema, &again.schema));
	memset(columns, true, sizeof(columns));
	rows.columns = columns;
	rows_check(&rows, body, step);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *newline;
	struct arena arena;
	struct slice text;

	newline = size < 2 ? NULL : memchr(data + 1, '\n', size - 1);
	if (newline == NULL)
		return 0;
	text = slice_make(data + 1, (size_t)(newline - (const char *)data) - 1);
	arena_init(&arena, ARENA_BYTES);
	check(&arena, text, slice_make(newline + 1, size - text.len - 2),
	    1 + data[0] % 37u);
	arena_free(&arena);
	return 0;
}
