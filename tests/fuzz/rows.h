#ifndef MEMWALD_TESTS_FUZZ_ROWS_H
#define MEMWALD_TESTS_FUZZ_ROWS_H

/*
 * rows - a body of rows, whole and in pieces, against a shape. What must hold:
 *
 *	1. whole and in pieces, the body has the same rows or the same error;
 *	2. a body that is refused leaves no trace in the builder;
 *	3. rows that are taken are JSON when they are written, and read back as
 *	   themselves;
 *	4. what we take cJSON takes too (the other way it is laxer than we are).
 */

#include <stdlib.h>

#include <cjson/cJSON.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/json_scan.h"
#include "worker/api/row_read.h"
#include "worker/api/row_write.h"

#define ROOM	(8u << 20)
#define NOW_US	1793520001237000

struct rows {
	const struct store_shape *shape;
	const char *name;		/* of the list in the body */
	const bool *columns;		/* to write; NULL: all but blobs */
	const char *lossy;		/* what is written and has this text
					 * cannot be read back */
	struct arena arena;
};

static inline struct err
rows_read(struct rows *f, struct builder *b, struct slice body, size_t step)
{
	struct row_read_result result;
	struct row_read *r;
	struct err e = row_read_open(&f->arena, f->shape, f->name, NOW_US, b,
	    &r);
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

static inline bool
is_lossy(const struct rows *f, const struct buf *b)
{
	return f->lossy != NULL &&
	    memmem(b->ptr, b->len, f->lossy, strlen(f->lossy)) != NULL;
}

static inline void
rows_write(const struct rows *f, struct builder *b, struct buf *out)
{
	struct batch batch = builder_batch(b);
	uint64_t i;

	MUST(buf_printf(out, "{\"%s\":[", f->name));
	for (i = 0; i < batch.row_count; i++) {
		size_t from = out->len;

		MUST(i == 0 || buf_append(out, ",", 1));
		from = out->len;
		MUST(row_write(out, f->shape, &batch, i, f->columns));
		MUST(json_is_valid(slice_make(out->ptr + from, out->len - from)));
	}
	MUST(buf_append(out, "]}", 2));
}

/* cJSON cuts numbers at 63 characters, so longer ones are left out here. */
static inline bool
has_long_number(struct slice s)
{
	size_t i, run = 0;

	for (i = 0; i < s.len && run < 60; i++)
		run = strchr("+-.eE0123456789", s.ptr[i]) != NULL ? run + 1 : 0;
	return run >= 60;
}

static inline void
check_with_cjson(const struct rows *f, struct slice body)
{
	cJSON *tree;

	if (has_long_number(body))
		return;
	tree = cJSON_ParseWithLength(body.ptr, body.len);
	MUST(tree != NULL);
	MUST(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(tree, f->name)));
	cJSON_Delete(tree);
}

/* step: bytes of a piece. */
static inline void
rows_check(struct rows *f, struct slice body, size_t step)
{
	struct builder whole, pieces, again;
	struct buf a, b;
	struct err e, g;

	arena_init(&f->arena, ROOM);
	buf_init(&a, 4 * ROOM);
	buf_init(&b, 4 * ROOM);
	MUST(!err_is(builder_init(&whole, &f->shape->schema, ROOM)));
	MUST(!err_is(builder_init(&pieces, &f->shape->schema, ROOM)));
	MUST(!err_is(builder_init(&again, &f->shape->schema, ROOM)));

	e = rows_read(f, &whole, body, SIZE_MAX);
	g = rows_read(f, &pieces, body, step);
	MUST(e.kind == g.kind && strcmp(e.what, g.what) == 0);
	if (err_is(e)) {
		builder_cut(&whole, 0);
		MUST(builder_batch(&whole).row_count == 0);
	} else {
		check_with_cjson(f, body);
		rows_write(f, &whole, &a);
		rows_write(f, &pieces, &b);
		MUST(slice_eq(buf_slice(&a), buf_slice(&b)));
	}
	if (!err_is(e) && !is_lossy(f, &a)) {
		e = rows_read(f, &again, buf_slice(&a), SIZE_MAX);
		MUST(!err_is(e));
		b.len = 0;
		rows_write(f, &again, &b);
		MUST(slice_eq(buf_slice(&a), buf_slice(&b)));
	}
	builder_free(&whole);
	builder_free(&pieces);
	builder_free(&again);
	buf_free(&a);
	buf_free(&b);
	arena_free(&f->arena);
}

#endif
