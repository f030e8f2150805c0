#ifndef MEMWALD_TESTS_UNIT_ROW_HELPER_H
#define MEMWALD_TESTS_UNIT_ROW_HELPER_H

/*
 * row_helper - what the tests of row_read and row_write share: bodies in, rows
 * out.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/arena.h"
#include "common/buf.h"
#include "worker/api/row_read.h"
#include "worker/api/row_write.h"
#include "worker/store/kind.h"

#define NOW_US	1793520001237000	/* 2026-11-01T08:00:01.237Z */
#define ROOM	(64u << 20)

/* Of which kind the rows are: a test may say it before it includes this. */
#ifndef ROW_KIND
#define ROW_KIND kind_rollout
#define ROW_LIST "records"
#endif

struct rows {
	struct arena arena;
	struct builder builder;
	struct row_read_result result;
	struct err err;
};

static inline const struct store_shape *
shape(void)
{
	return ROW_KIND.shape;
}

static inline void
rows_init(struct rows *r)
{
	arena_init(&r->arena, ROOM);
	assert_false(err_is(builder_init(&r->builder, &shape()->schema, ROOM)));
}

static inline void
rows_free(struct rows *r)
{
	builder_free(&r->builder);
	arena_free(&r->arena);
}

/* Feeds [0, cut) and then pieces of step bytes; each from memory that ends with
 * it, so that a sanitizer sees a read too far. */
static inline struct err
rows_read(struct rows *r, struct slice body, size_t cut, size_t step)
{
	struct row_read *read;
	size_t at = 0, n = MIN(cut, body.len);

	r->err = row_read_open(&r->arena, shape(), ROW_LIST, NOW_US, &r->builder,
	    &read);
	assert_false(err_is(r->err));
	while (at < body.len && !err_is(r->err)) {
		char *piece = malloc(MAX(n, (size_t)1));

		assert_non_null(piece);
		memcpy(piece, body.ptr + at, n);
		r->err = row_read_feed(read, slice_make(piece, n));
		free(piece);
		at += n;
		n = MIN(step, body.len - at);
	}
	if (!err_is(r->err))
		r->err = row_read_finish(read, &r->result);
	return r->err;
}

/* All rows as JSON, one a line; good until the buffer is freed. */
static inline void
rows_write(struct rows *r, struct buf *out)
{
	struct batch b = builder_batch(&r->builder);
	uint64_t i;

	for (i = 0; i < b.row_count; i++) {
		assert_true(row_write(out, shape(), &b, i, NULL));
		assert_true(buf_append(out, "\n", 1));
	}
}

/* The rows of a body as JSON, or the text of its error. */
static inline char *
rows_of(struct slice body, size_t cut, size_t step)
{
	struct rows r;
	struct buf out;
	char *text;

	rows_init(&r);
	buf_init(&out, ROOM);
	if (err_is(rows_read(&r, body, cut, step))) {
		assert_true(buf_append_slice(&out, slice_of(r.err.what)));
		/* Whatever was half written goes away without a trace. */
		builder_cut(&r.builder, 0);
		assert_int_equal(builder_batch(&r.builder).row_count, 0);
	} else {
		rows_write(&r, &out);
	}
	assert_true(buf_append_zero(&out, 1));
	text = strdup(out.ptr);
	assert_non_null(text);
	buf_free(&out);
	rows_free(&r);
	return text;
}

#endif
