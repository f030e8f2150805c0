#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/filter_rows.h"

/*
 * Any bytes as a filter, on the rows of the unit test. What must hold:
 *
 *	1. a refusal says where: "filter, position N: ...", or has no memory;
 *	2. a row alone is given as it is among the others;
 *	3. (F) AND (F) gives what F gives, NOT (F) none of it, and who is given
 *	   by neither is unknown in both: (F) OR NOT (F) gives the two together.
 */

#define ROOM	(32u << 20)
#define ROWS	6

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

/* The rows that a filter gives, as bits; false: it is refused. */
static bool
given(const struct rows *r, const char *text, size_t len, uint64_t *match)
{
	const struct filter *f;
	struct arena arena;
	struct err e;

	arena_init(&arena, ROOM);
	e = filter_parse(&r->shape, slice_make(text, len), &arena, &f);
	MUST(e.kind == ERR_OK || e.kind == ERR_NO_MEMORY ||
	    (e.kind == ERR_BAD_INPUT &&
	    strncmp(e.what, "filter, position ", 17) == 0));
	if (!err_is(e))
		MUST(!err_is(filter_eval_batch(f, &r->batch, &arena, match)));
	arena_free(&arena);
	return !err_is(e);
}

static bool
given_wrapped(const struct rows *r, const char *form, const char *text,
    uint64_t *match)
{
	char *wrapped = NULL;
	bool ok;

	/* A text with a NUL in it ends there, and is another one. */
	MUST(asprintf(&wrapped, form, text, text) >= 0);
	ok = given(r, wrapped, strlen(wrapped), match);
	free(wrapped);
	return ok;
}

static struct err
one_column(void *ctx, uint32_t column, struct array *out)
{
	*out = ((const struct batch *)ctx)->columns[column];
	return OK;
}

static void
see_alone(const struct rows *r, const char *text, size_t len, uint64_t all)
{
	struct builder b;
	struct arena arena;
	const struct filter *f;
	uint64_t match;
	int i, k;

	arena_init(&arena, ROOM);
	MUST(!err_is(filter_parse(&r->shape, slice_make(text, len), &arena,
	    &f)));
	for (i = 0; i < ROWS; i++) {
		struct filter_rows rows = { 1, one_column, NULL };
		struct batch batch;

		MUST(!err_is(builder_init(&b, &r->shape.schema, 1u << 20)));
		for (k = 0; k < C_COUNT; k++)
			MUST(column_copy(&b.columns[k], &r->batch.columns[k],
			    (uint64_t)i));
		builder_end_row(&b);
		batch = builder_batch(&b);
		rows.ctx = &batch;
		MUST(!err_is(filter_eval(f, &rows, &arena, &match)));
		MUST(match == (all >> i & 1));
		builder_free(&b);
	}
	arena_free(&arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t match, other, both;
	struct rows r;
	char *text;

	if (size > 16384)
		return 0;
	rows_make(&r);
	text = malloc(size + 1);
	MUST(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	if (given(&r, text, size, &match)) {
		MUST(match >> ROWS == 0);
		see_alone(&r, text, size, match);
		if (memchr(text, '\0', size) == NULL) {
			if (given_wrapped(&r, "(%s) AND (%s)", text, &other))
				MUST(other == match);
			if (given_wrapped(&r, "NOT (%s)", text, &other)) {
				MUST((other & match) == 0);
				if (given_wrapped(&r, "(%s) OR NOT (%s)", text,
				    &both))
					MUST(both == (match | other));
			}
		}
	}
	free(text);
	rows_free(&r);
	return 0;
}
