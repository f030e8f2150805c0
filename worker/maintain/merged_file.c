#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "shm/metric.h"
#include "worker/arrow/column.h"
#include "worker/lance/page_write.h"
#include "worker/maintain/collect.h"
#include "worker/maintain/merged_file.h"
#include "worker/object/map.h"

/*
 * Rows that are gathered before they are given to the page writer, and how that
 * is spread over time: gathering takes a CPU from the workers, 0.4 ms of it a
 * chunk. Of 8 MiB at once they would wait for 100 ms.
 */
#define CHUNK_BYTES	(32u << 10)
#define CHUNK_ROWS	1024u
#define CHUNK_KEPT	(4u << 20)	/* of the memory of a large row */
#define GATHER_SHARE	4u		/* of the time that the bytes' write takes */
#define KEYS_MAX	(2048ull << 20)
#define ROW_BYTES_MAX	(2048ull << 20)

struct writing {
	const struct merged_input *in;
	struct builder rows;
	struct arena row;		/* of one row that was read */
	struct merge_row held;		/* a large row, which goes alone */
	bool holding;
	struct large_row large;
	bool ended;
};

/* A large row's long values are left out here: they go from file to file. */
static bool
copy_row(struct writing *w, const struct batch *from)
{
	uint32_t c;

	for (c = 0; c < from->schema->field_count; c++) {
		struct column *to = &w->rows.columns[c];

		if (large_row_has(&w->large, c) ?
		    !column_bytes(to, slice_make(NULL, 0)) :
		    !column_copy(to, &from->columns[c], 0))
			return false;
	}
	builder_end_row(&w->rows);
	return true;
}

/* The next row, or the one that was held back; w->ended: there is none. */
static struct err
next_row(struct writing *w, struct merge_row *row, struct batch *batch)
{
	bool found = w->holding;
	struct err e = OK;

	if (w->holding)
		*row = w->held;
	else
		e = merge_next(w->in->merge, row, &found);
	w->holding = false;
	if (err_is(e) || !found) {
		w->ended = !err_is(e);
		return e;
	}
	arena_reset(&w->row);
	return fragment_read(row->source->fragment, w->in->schema,
	    (struct span){ row->row, 1 }, &w->row, batch);
}

/* A marked read: only mapped files, arenas and the builder's buffers. */
static struct err
gather_guarded(void *ctx)
{
	struct writing *w = ctx;

	while (w->rows.row_count < CHUNK_ROWS && w->large.count == 0 &&
	    builder_bytes(&w->rows) < CHUNK_BYTES) {
		struct merge_row row;
		struct batch batch;
		struct err e;

		e = next_row(w, &row, &batch);
		if (err_is(e) || w->ended)
			return e;
		large_row_find(row.source, &batch, 0, w->in->key, &w->large);
		if (w->large.count > 0 && w->rows.row_count > 0) {
			w->held = row;
			w->holding = true;
			w->large.count = 0;
			return OK;
		}
		if (!copy_row(w, &batch))
			return FAIL(NO_MEMORY, "gather rows of a new fragment");
		if (w->in->took != NULL)
			w->in->took(w->in->ctx, &row);
	}
	return OK;
}

/* What was gathered; of a large row, what was not as well. */
static struct err
write_gathered(struct writing *w, struct page_writer *writer,
    struct key_build *keys)
{
	struct batch batch = builder_batch(&w->rows);
	struct err e;

	object_pace_take(&w->in->aged->env->pace,
	    builder_bytes(&w->rows) / GATHER_SHARE);
	e = large_row_open(&w->large, w->in->open, w->in->ctx,
	    w->rows.arrays);
	if (!err_is(e) && batch.row_count > 0)
		e = page_write_batch(writer, &batch);
	if (!err_is(e) && batch.row_count > 0)
		e = key_build_add(keys, &batch.columns[w->in->key]);
	large_row_close(&w->large);
	builder_clear(&w->rows, CHUNK_KEPT);
	return e;
}

static struct err
write_rows(struct writing *w, struct page_writer *writer,
    struct key_build *keys)
{
	struct err e = OK;

	while (!err_is(e) && !w->ended) {
		e = object_map_guarded(gather_guarded, w);
		if (!err_is(e))
			e = write_gathered(w, writer, keys);
		if (!err_is(e))
			e = w->in->step(w->in->ctx);
	}
	return e;
}

static struct err
describe(const struct writing *w, const struct page_written *written,
    struct arena *arena, struct merged_file *out)
{
	struct err e;

	e = page_write_describe(w->in->schema, slice_of(out->name), written,
	    arena, &out->data);
	if (err_is(e))
		return e;
	out->fragment = (struct table_fragment){
		.row_count = written->row_count,
		.file_count = 1, .files = &out->data,
	};
	out->size_bytes = written->size_bytes;
	out->finished_ns = clock_mono_ns();
	shm_metric_add(METRIC_memwald_maintain_written_bytes_total, 0,
	    written->size_bytes);
	return OK;
}

static struct err
write_file(struct writing *w, struct arena *arena, struct merged_file *out)
{
	char path[sizeof(out->name) + 8], text[UUID_TEXT_LEN + 1];
	const struct maintain_env *env = w->in->aged->env;
	struct uuid random = uuid_random();
	struct page_writer *writer = NULL;
	struct key_build *keys = NULL;
	struct page_written written;
	struct err e;

	uuid_to_text(&random, text);
	snprintf(out->name, sizeof(out->name), "%s-%s.lance", env->tag, text);
	snprintf(path, sizeof(path), "data/%s", out->name);
	e = page_write_open(w->in->aged->dir, path, w->in->schema,
	    &w->in->aged->env->pace, &writer);
	if (!err_is(e))
		e = key_build_start(KEYS_MAX, &keys);
	if (!err_is(e))
		e = write_rows(w, writer, keys);
	if (err_is(e) || page_write_rows(writer) == 0) {
		page_write_abort(writer);
		key_build_abort(keys);
		return e;		/* or nothing but masked rows */
	}
	e = page_write_finish(writer, &written);
	if (err_is(e))
		key_build_abort(keys);
	else
		e = key_build_end(keys, &out->keys);
	return err_is(e) ? e : describe(w, &written, arena, out);
}

struct err
merged_file_write(const struct merged_input *in, struct arena *arena,
    struct merged_file *out)
{
	struct writing w = { .in = in };
	struct err e;

	*out = (struct merged_file){ .keys = NULL };
	e = builder_init(&w.rows, in->schema, SIZE_MAX);
	if (err_is(e))
		return e;
	arena_init(&w.row, ROW_BYTES_MAX);
	e = aged_keep(in->aged, write_file(&w, arena, out));
	arena_free(&w.row);
	builder_free(&w.rows);
	return e;
}

void
merged_file_remove(struct aged_store *a, const struct merged_file *f,
    struct err why)
{
	char path[sizeof(f->name) + sizeof("data/")];

	if (f->name[0] == '\0')
		return;
	snprintf(path, sizeof(path), "data/%s", f->name);
	aged_remove(a, path, why);
}

struct err
merged_file_check(const struct aged_store *a, const struct merged_file *f)
{
	if (f->fragment.row_count > 0 && clock_mono_ns() - f->finished_ns >
	    collect_uncommitted_ns(a->env->config))
		return FAIL(CONFLICT, "the new data file waited too long for "
		    "its commit, the next tick starts again");
	return OK;
}
