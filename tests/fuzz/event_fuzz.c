#include "common/base.h"

#include "tests/fuzz/rows.h"
#include "worker/api/row_event.h"

/*
 * The first byte says in what pieces the rest, the body of an append of events,
 * comes, and whether they are a checkpoint. Blobs are written without their
 * bytes, so these are not read back. The rules across rows have one answer,
 * wherever the rows stand in their batch.
 */

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check_together(struct rows *f, struct slice body, bool checkpoint)
{
	struct builder b;
	struct batch batch;
	uint64_t count;
	struct err e, g;

	arena_init(&f->arena, ROOM);
	MUST(!err_is(builder_init(&b, &f->shape->schema, ROOM)));
	e = rows_read(f, &b, body, SIZE_MAX);
	count = b.row_count;
	if (!err_is(e))
		e = rows_read(f, &b, body, SIZE_MAX);
	if (!err_is(e)) {
		batch = builder_batch(&b);
		e = row_event_check(&f->arena, &batch,
		    (struct span){ 0, count }, checkpoint);
		g = row_event_check(&f->arena, &batch,
		    (struct span){ count, count }, checkpoint);
		MUST(e.kind == g.kind && strcmp(e.what, g.what) == 0);
		/* The same events twice break no rule but a checkpoint's. */
		g = row_event_check(&f->arena, &batch,
		    (struct span){ 0, 2 * count }, false);
		MUST(err_is(e) || !err_is(g));
	}
	builder_free(&b);
	arena_free(&f->arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rows rows = { .shape = kind_datagen.shape, .name = "events",
	    .lossy = "\"kind\":\"blob\"" };
	struct slice body;

	if (size < 2)
		return 0;
	body = slice_make(data + 1, size - 1);
	rows_check(&rows, body, 1 + data[0] % 37u);
	check_together(&rows, body, data[0] >= 0x80);
	return 0;
}
