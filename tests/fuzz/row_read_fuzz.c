#include "common/base.h"

#include <stdlib.h>

#include <cjson/cJSON.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/json_scan.h"
#include "worker/api/row_read.h"
#include "worker/api/row_write.h"

/*
 * The first byte says in what pieces the rest, the body, comes. What must hold:
 *
 *	1. whole and in pieces, the body has the same rows or the same error;
 *	2. a body that is refused leaves no trace in the builder;
 *	3. rows that are taken are JSON when they are written, and read back as
 *	   themselves;
 *	4. what we take cJSON takes too (the other way it is laxer than we are).
 */

#define ROOM	(8u << 20)
#define NOW_US	1793520001237000

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static struct err
read_body(struct arena *a, struct builder *b, struct slice body, size_t step)
{
	struct row_read_result result;
	struct row_read *r;
	struct err e = row_read_open(a, kind_rollout.shape, "records", NOW_US,
	    b, &r);
	size_t at, n;
	char *piece;

	MUST(!err_is(e));
	for (at = 0; at < body.len && !err_is(e); at += n) {
		n = MIN(step, body.len - at);
		piece = malloc(n);	/* ends where the piece does */
		MUST(piece != NULL);
		memcpy(piece, body.ptr + at, n);
		e = row_read_feed(r, slice_make(piece, n));
		free(piece);
	}
	return err_is(e) ? e : row_read_finish(r, &result);
}

static void
write_rows(struct builder *b, struct buf *out)
{
	struct batch batch = builder_batch(b);
	uint64_t i;

	MUST(buf_append(out, "{\"records\":[", 12));
	for (i = 0; i < batch.row_count; i++) {
		size_t from = out->len;

		MUST(row_write(out, kind_rollout.shape, &batch, i, NULL));
		MUST(json_is_valid(slice_make(out->ptr + from, out->len - from)));
		MUST(buf_append(out, i + 1 < batch.row_count ? "," : "]}",
		    i + 1 < batch.row_count ? 1 : 2));
	}
}

/* cJSON cuts numbers at 63 characters, so longer ones are left out here. */
static bool
has_long_number(struct slice s)
{
	size_t i, run = 0;

	for (i = 0; i < s.len && run < 60; i++)
		run = strchr("+-.eE0123456789", s.ptr[i]) != NULL ? run + 1 : 0;
	return run >= 60;
}

static void
check_with_cjson(struct slice body)
{
	cJSON *tree;

	if (has_long_number(body))
		return;
	tree = cJSON_ParseWithLength(body.ptr, body.len);
	MUST(tree != NULL);
	MUST(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(tree,
	    "records")) > 0);
	cJSON_Delete(tree);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice body;
	struct arena arena;
	struct builder whole, pieces, again;
	struct buf a, b;
	struct err e, f;

	if (size < 2)
		return 0;
	body = slice_make(data + 1, size - 1);
	arena_init(&arena, ROOM);
	buf_init(&a, 4 * ROOM);
	buf_init(&b, 4 * ROOM);
	MUST(!err_is(builder_init(&whole, &kind_rollout.shape->schema, ROOM)));
	MUST(!err_is(builder_init(&pieces, &kind_rollout.shape->schema, ROOM)));
	MUST(!err_is(builder_init(&again, &kind_rollout.shape->schema, ROOM)));

	e = read_body(&arena, &whole, body, SIZE_MAX);
	f = read_body(&arena, &pieces, body, 1 + data[0] % 37u);
	MUST(e.kind == f.kind && strcmp(e.what, f.what) == 0);
	if (err_is(e)) {
		builder_cut(&whole, 0);
		MUST(builder_batch(&whole).row_count == 0);
	} else {
		check_with_cjson(body);
		write_rows(&whole, &a);
		write_rows(&pieces, &b);
		MUST(slice_eq(buf_slice(&a), buf_slice(&b)));
		e = read_body(&arena, &again, buf_slice(&a), SIZE_MAX);
		MUST(!err_is(e));
		b.len = 0;
		write_rows(&again, &b);
		MUST(slice_eq(buf_slice(&a), buf_slice(&b)));
	}
	builder_free(&whole);
	builder_free(&pieces);
	builder_free(&again);
	buf_free(&a);
	buf_free(&b);
	arena_free(&arena);
	return 0;
}
