#include "common/base.h"

#include <stdlib.h>

#include "worker/api/row_read.h"

/*
 * Any bytes as the body of an append. Fed whole and byte by byte the outcome
 * must be the same: number of rows, keys, and the text of the error.
 */

#define ARENA_BYTES	(4u << 20)
#define COLUMN_BYTES	(16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

struct outcome {
	struct arena arena;
	struct builder builder;
	struct row_read_result result;
	struct err e;
};

static void
read_rows(struct outcome *o, const uint8_t *bytes, size_t len, size_t step)
{
	struct row_read *r;
	size_t at;

	arena_init(&o->arena, ARENA_BYTES);
	MUST(!err_is(builder_init(&o->builder, &kind_rollout.shape->schema,
	    COLUMN_BYTES)));
	o->e = row_read_open(&o->arena, kind_rollout.shape, "records", 1,
	    &o->builder, &r);
	MUST(!err_is(o->e));
	for (at = 0; at < len && !err_is(o->e); at += step) {
		size_t n = MIN(step, len - at);
		char *piece = malloc(n);	/* must not be kept */

		MUST(piece != NULL);
		memcpy(piece, bytes + at, n);
		o->e = row_read_feed(r, slice_make(piece, n));
		free(piece);
	}
	if (!err_is(o->e))
		o->e = row_read_finish(r, &o->result);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct outcome whole, cut;
	uint64_t i;

	read_rows(&whole, bytes, len, len == 0 ? 1 : len);
	read_rows(&cut, bytes, len, 1);
	MUST(whole.e.kind == cut.e.kind);
	if (err_is(whole.e)) {
		MUST(strcmp(whole.e.what, cut.e.what) == 0);
	} else {
		MUST(whole.result.count > 0);
		MUST(whole.result.count == cut.result.count);
		MUST(whole.result.ignored_count == cut.result.ignored_count);
		for (i = 0; i < whole.result.count; i++)
			MUST(slice_eq(
			    row_read_key(&whole.builder, kind_rollout.shape, i),
			    row_read_key(&cut.builder, kind_rollout.shape, i)));
	}
	builder_free(&whole.builder);
	builder_free(&cut.builder);
	arena_free(&whole.arena);
	arena_free(&cut.arena);
	return 0;
}
