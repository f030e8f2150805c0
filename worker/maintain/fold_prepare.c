#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "worker/arrow/column.h"
#include "worker/lance/key_index.h"
#include "worker/lance/page_write.h"
#include "worker/maintain/fold_large.h"
#include "worker/object/map.h"
#include "worker/store/merge_sources.h"

/* Rows that are gathered before they are written: enough for whole pages. */
#define CHUNK_BYTES	(8u << 20)
#define CHUNK_ROWS	8192u
#define KEYS_MAX	(2048ull << 20)

struct preparing {
	struct fold *fold;
	struct merge *merge;
	struct builder rows;
	struct merge_row held;		/* a large row, which goes alone */
	bool holding;
	struct fold_large large;
	bool ended;
};

/* A large row's long values are left out here: they go from file to file. */
static bool
copy_row(struct preparing *p, const struct batch *from, uint64_t at)
{
	uint32_t c;

	for (c = 0; c < from->schema->field_count; c++) {
		struct column *to = &p->rows.columns[c];

		if (fold_large_has(&p->large, c) ?
		    !column_bytes(to, slice_make(NULL, 0)) :
		    !column_copy(to, &from->columns[c], at))
			return false;
	}
	builder_end_row(&p->rows);
	return true;
}

/* The next row, or the one that was held back; p->ended: there is none. */
static struct err
next_row(struct preparing *p, struct merge_row *row,
    const struct batch **batch, uint64_t *at)
{
	bool found = p->holding;
	struct err e = OK;

	if (p->holding)
		*row = p->held;
	else
		e = merge_next(p->merge, row, &found);
	p->holding = false;
	if (err_is(e) || !found) {
		p->ended = !err_is(e);
		return e;
	}
	return merge_read(p->merge, row, batch, at);
}

/* A marked read: only mapped files, arenas and the builder's buffers. */
static struct err
gather_guarded(void *ctx)
{
	struct preparing *p = ctx;

	while (p->rows.row_count < CHUNK_ROWS && p->large.count == 0 &&
	    builder_bytes(&p->rows) < CHUNK_BYTES) {
		const struct batch *batch;
		struct merge_row row;
		uint64_t at;
		struct err e;

		e = next_row(p, &row, &batch, &at);
		if (err_is(e) || p->ended)
			return e;
		fold_large_find(row.source, batch, at, &p->large);
		if (p->large.count > 0 && p->rows.row_count > 0) {
			p->held = row;
			p->holding = true;
			p->large.count = 0;
			return OK;
		}
		if (!copy_row(p, batch, at))
			return FAIL(NO_MEMORY, "gather rows of a fold");
	}
	return OK;
}

/* What was gathered; of a large row, what was not as well. */
static struct err
write_gathered(struct preparing *p, struct page_writer *writer,
    struct key_build *keys)
{
	struct batch batch = builder_batch(&p->rows);
	struct err e;

	e = fold_large_open(p->fold, &p->large, p->rows.arrays);
	if (!err_is(e) && batch.row_count > 0)
		e = page_write_batch(writer, &batch);
	if (!err_is(e) && batch.row_count > 0)
		e = key_build_add(keys,
		    &batch.columns[p->fold->aged->shape->key]);
	fold_large_close(&p->large);
	builder_clear(&p->rows, 2 * CHUNK_BYTES);
	return e;
}

static struct err
write_rows(struct preparing *p, struct page_writer *writer,
    struct key_build *keys)
{
	struct fold *f = p->fold;
	struct err e = OK;

	while (!err_is(e) && !p->ended) {
		e = object_map_guarded(gather_guarded, p);
		if (!err_is(e))
			e = write_gathered(p, writer, keys);
		if (!err_is(e))
			e = FAULT(fold_prepare);
		if (!err_is(e))
			e = aged_check(f->aged);
	}
	return e;
}

static struct err
describe(struct fold *f, const struct page_written *written)
{
	const struct arrow_schema *schema = &f->aged->shape->schema;
	struct err e;

	e = page_write_describe(schema, slice_of(f->file), written, &f->arena,
	    &f->data);
	if (err_is(e))
		return e;
	f->fragment = (struct table_fragment){
		.row_count = written->row_count,
		.file_count = 1, .files = &f->data,
	};
	shm_metric_add(METRIC_memwald_maintain_written_bytes_total, 0,
	    written->size_bytes);
	return source_open_fragment(f->aged->dir, f->aged->shape,
	    &f->fragment, &f->added);
}

static struct err
write_fragment(struct fold *f, struct preparing *p)
{
	char path[sizeof(f->file) + 8], text[UUID_TEXT_LEN + 1];
	struct uuid random = uuid_random();
	struct page_writer *writer = NULL;
	struct key_build *keys = NULL;
	struct page_written written;
	struct err e;

	uuid_to_text(&random, text);
	snprintf(f->file, sizeof(f->file), "%s-%s.lance", f->aged->env->tag,
	    text);
	snprintf(path, sizeof(path), "data/%s", f->file);
	e = FAULT(fold_write);
	if (!err_is(e))
		e = page_write_open(f->aged->dir, path,
		    &f->aged->shape->schema, &f->aged->env->pace, &writer);
	if (!err_is(e))
		e = key_build_start(KEYS_MAX, &keys);
	if (!err_is(e))
		e = write_rows(p, writer, keys);
	if (err_is(e) || page_write_rows(writer) == 0) {
		page_write_abort(writer);
		key_build_abort(keys);
		return e;		/* or nothing but masked rows */
	}
	e = page_write_finish(writer, &written);
	if (err_is(e))
		key_build_abort(keys);
	else
		e = key_build_end(keys, &f->keys);
	return err_is(e) ? e : describe(f, &written);
}

struct err
fold_prepare(struct fold *f)
{
	struct preparing p = { .fold = f };
	struct err e;
	uint32_t i;

	e = merge_new(f->aged->shape, f->source_count, &p.merge);
	if (err_is(e))
		return e;
	for (i = 0; i < f->source_count; i++)
		merge_add_source(p.merge, f->sources[i]);
	e = builder_init(&p.rows, &f->aged->shape->schema, SIZE_MAX);
	if (!err_is(e)) {
		e = write_fragment(f, &p);
		builder_free(&p.rows);
	}
	e = aged_keep(f->aged, e);	/* its text may be the merge's */
	merge_free(p.merge);
	return e;
}
