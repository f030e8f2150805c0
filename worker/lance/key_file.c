#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"
#include "worker/lance/bloom.h"
#include "worker/lance/data_file.h"
#include "worker/lance/key_table.h"
#include "worker/lance/page_write.h"
#include "worker/object/map.h"

#define BATCH_ROWS	8192u		/* "batch_size" of the lookup file */

static const struct arrow_field data_fields[] = {
	{ .name = { "values", 6 }, .type = ARROW_UTF8, .nullable = true, .id = 0 },
	{ .name = { "ids", 3 }, .type = ARROW_UINT64, .id = 1 },
};

static const struct arrow_field lookup_fields[] = {
	{ .name = { "min", 3 }, .type = ARROW_UTF8, .nullable = true, .id = 0 },
	{ .name = { "max", 3 }, .type = ARROW_UTF8, .nullable = true, .id = 1 },
	{ .name = { "null_count", 10 }, .type = ARROW_UINT32, .id = 2 },
	{ .name = { "page_idx", 8 }, .type = ARROW_UINT32, .id = 3 },
};

static const struct arrow_pair lookup_pairs[] = {
	{ { "batch_size", 10 }, { "8192", 4 } },
	{ { "range_partitioned", 17 }, { "false", 5 } },
};

static const struct arrow_schema data_schema = {
	.field_count = ARRAY_LEN(data_fields), .fields = data_fields,
};

static const struct arrow_schema lookup_schema = {
	.field_count = ARRAY_LEN(lookup_fields), .fields = lookup_fields,
	.pair_count = ARRAY_LEN(lookup_pairs), .pairs = lookup_pairs,
};

void
key_index_paths_generation(struct key_index_paths *p)
{
	*p = (struct key_index_paths){
		.data = "_pk_index/page_data.lance",
		.lookup = "_pk_index/page_lookup.lance",
		.filter = "bloom_filter.bin",
	};
}

void
key_index_paths_fragment(struct key_index_paths *p, const char *data_file)
{
	/* A name that does not fit is no file's, and opening says so. */
	*p = (struct key_index_paths){ .lookup = "" };
	snprintf(p->data, sizeof(p->data), "_memwald/keys/%s", data_file);
	snprintf(p->filter, sizeof(p->filter), "_memwald/keys/%s.filter", data_file);
}

/* What a marked read needs. */
struct reading {
	struct key_index *ix;
	uint64_t row_count;
};

static struct err
check_columns(const struct data_file *f, uint64_t row_count)
{
	const struct data_column *values, *ids;
	uint32_t i;

	if (f->column_count != 2 || f->row_count != row_count)
		return FAIL(CORRUPT, "a key index of another source");
	values = &f->columns[0];
	ids = &f->columns[1];
	if (values->count != row_count || ids->count != row_count)
		return FAIL(CORRUPT, "a key index of another source");
	for (i = 0; i < values->page_count; i++) {
		if (values->pages[i].form != PAGE_BINARY && row_count > 0)
			return FAIL(CORRUPT, "a key index of other columns");
	}
	for (i = 0; i < ids->page_count; i++) {
		if ((ids->pages[i].form != PAGE_FIXED || ids->pages[i].bits != 64 ||
		    ids->pages[i].dim != 0 || ids->pages[i].validity != NULL) &&
		    row_count > 0)
			return FAIL(CORRUPT, "a key index of other columns");
	}
	return OK;
}

static struct err
read_rows(struct reading *r, const struct data_column *ids)
{
	const struct data_page *page;
	uint64_t row, i, at = 0;
	uint32_t p;

	for (p = 0; p < ids->page_count; p++) {
		page = &ids->pages[p];
		for (i = 0; i < page->count; i++) {
			memcpy(&row, page->values + 8 * i, 8);
			if (row >= r->row_count)
				return FAIL(CORRUPT, "a key index of other rows");
			r->ix->rows[at++] = (uint32_t)row;
		}
	}
	return OK;
}

static struct err
check_ends(const struct data_page *page)
{
	uint64_t end, before = 0, i;

	for (i = 0; i < page->count; i++) {
		memcpy(&end, page->offsets + 8 * i, 8);
		if (end < before || end > page->bytes_len || end >= page->null_at)
			return FAIL(CORRUPT, "a key index with a broken key");
		before = end;
	}
	return OK;
}

static struct err
read_index(void *ctx)
{
	struct reading *r = ctx;
	const struct data_column *values = &r->ix->file->columns[0];
	struct key_page *out = r->ix->pages;
	const struct data_page *page;
	struct err e;
	uint32_t p;

	e = read_rows(r, &r->ix->file->columns[1]);
	for (p = 0; !err_is(e) && p < values->page_count; p++) {
		page = &values->pages[p];
		if (page->count == 0)
			continue;
		e = check_ends(page);
		*out++ = (struct key_page){ page->first, page->count,
			page->offsets, (const char *)page->bytes };
	}
	if (err_is(e))
		return e;
	r->ix->page_count = (uint32_t)(out - r->ix->pages);
	return key_table_scan(r->ix);
}

/* The filter's file, or one of its own that the scan fills. */
static struct err
open_filter(struct key_index *ix, struct object_dir *dir, const char *name)
{
	struct object_map map;
	struct err e = object_map_open(dir, name, &map);

	if (!err_is(e) && bloom_suits(map.len, ix->count)) {
		ix->filter_map = map;
		ix->filter = map.ptr;
		ix->filter_bytes = map.len;
		return OK;
	}
	if (!err_is(e))
		object_map_close(&map);
	return key_table_own_filter(ix, bloom_size_bytes(ix->count));
}

struct err
key_index_open(struct object_dir *dir, const struct key_index_paths *paths,
    uint64_t row_count, struct key_index **out)
{
	struct reading r = { NULL, row_count };
	struct data_file *file;
	struct err e;

	e = data_file_open(dir, paths->data, NULL, &file);
	if (err_is(e))
		return e;
	e = check_columns(file, row_count);
	if (!err_is(e))
		e = key_table_new(row_count, file->columns[0].page_count, &r.ix);
	if (err_is(e)) {
		data_file_close(file);
		return e;
	}
	r.ix->file = file;
	e = open_filter(r.ix, dir, paths->filter);
	if (!err_is(e))
		e = object_map_guarded(read_index, &r);
	if (err_is(e))
		key_index_close(r.ix);
	else
		*out = r.ix;
	return e;
}

/* Arrays of one piece of the index: BATCH_ROWS rows at most. */
struct pieces {
	int32_t offsets[BATCH_ROWS + 1];
	uint64_t ids[BATCH_ROWS];
	struct buf bytes;
};

static struct err
write_piece(const struct key_index *ix, struct span run, struct pieces *p,
    struct page_writer *w)
{
	struct array columns[2] = {
		{ .field = &data_fields[0], .length = run.count },
		{ .field = &data_fields[1], .length = run.count },
	};
	struct batch b = { &data_schema, run.count, columns };
	struct slice key;
	uint64_t i;

	p->bytes.len = 0;
	for (i = 0; i < run.count; i++) {
		key = key_index_key(ix, run.first + i);
		if (!buf_append_slice(&p->bytes, key))
			return FAIL(NO_MEMORY, "write a key index");
		p->offsets[i + 1] = (int32_t)p->bytes.len;
		p->ids[i] = ix->rows[run.first + i];
	}
	columns[0].offsets = p->offsets;
	columns[0].values = p->bytes.ptr;
	columns[1].values = p->ids;
	return page_write_batch(w, &b);
}

static struct err
write_data(const struct key_index *ix, struct object_dir *dir, const char *name,
    struct object_pace *pace)
{
	struct pieces *p = calloc(1, sizeof(*p));
	struct page_written written;
	struct page_writer *w;
	struct span run = { 0, 0 };
	struct err e;

	if (p == NULL)
		return FAIL(NO_MEMORY, "write a key index");
	buf_init(&p->bytes, INT32_MAX);
	e = page_write_open(dir, name, &data_schema, pace, &w);
	if (err_is(e))
		goto out;
	for (; !err_is(e) && run.first < ix->count; run.first += run.count) {
		run.count = MIN(ix->count - run.first, BATCH_ROWS);
		e = write_piece(ix, run, p, w);
	}
	if (err_is(e))
		page_write_abort(w);
	else
		e = page_write_finish(w, &written);
out:
	buf_free(&p->bytes);
	free(p);
	return e;
}

static struct err
write_lookup_row(const struct key_index *ix, uint32_t page, struct page_writer *w)
{
	uint64_t first = (uint64_t)page * BATCH_ROWS;
	struct slice min = key_index_key(ix, first);
	struct slice max = key_index_key(ix,
	    MIN(first + BATCH_ROWS, ix->count) - 1);
	int32_t min_ends[2] = { 0, (int32_t)min.len };
	int32_t max_ends[2] = { 0, (int32_t)max.len };
	uint32_t none = 0;
	struct array columns[4] = {
		{ .field = &lookup_fields[0], .length = 1, .offsets = min_ends,
		    .values = min.ptr },
		{ .field = &lookup_fields[1], .length = 1, .offsets = max_ends,
		    .values = max.ptr },
		{ .field = &lookup_fields[2], .length = 1, .values = &none },
		{ .field = &lookup_fields[3], .length = 1, .values = &page },
	};
	struct batch b = { &lookup_schema, 1, columns };

	return page_write_batch(w, &b);
}

static struct err
write_lookup(const struct key_index *ix, struct object_dir *dir,
    const char *name, struct object_pace *pace)
{
	uint32_t pages = (uint32_t)((ix->count + BATCH_ROWS - 1) / BATCH_ROWS), i;
	struct page_written written;
	struct page_writer *w;
	struct err e;

	e = page_write_open(dir, name, &lookup_schema, pace, &w);
	if (err_is(e))
		return e;
	for (i = 0; !err_is(e) && i < pages; i++)
		e = write_lookup_row(ix, i, w);
	if (!err_is(e))
		return page_write_finish(w, &written);
	page_write_abort(w);
	return e;
}

static struct err
write_filter(const struct key_index *ix, struct object_dir *dir,
    const char *name, size_t bytes)
{
	uint8_t *bits = calloc(1, bytes);
	struct err e;
	uint64_t i;

	if (bits == NULL)
		return FAIL(NO_MEMORY, "write a key filter");
	for (i = 0; i < ix->count; i++)
		bloom_add(bits, bytes, bloom_hash(key_index_key(ix, i)));
	e = object_put_new(dir, name, slice_make(bits, bytes));
	free(bits);
	return e;
}

/* The filter last, and one that is there is as good: a crash between the two
 * must not keep the next try from succeeding. */
struct err
key_index_write(const struct key_index *ix, struct object_dir *dir,
    const struct key_index_paths *paths, struct object_pace *pace)
{
	bool is_generation = paths->lookup[0] != '\0';
	struct err e;

	e = write_data(ix, dir, paths->data, pace);
	if (!err_is(e) && is_generation)
		e = write_lookup(ix, dir, paths->lookup, pace);
	if (err_is(e))
		return e;
	e = write_filter(ix, dir, paths->filter,
	    is_generation ? BLOOM_LANCE_BYTES : bloom_size_bytes(ix->count));
	return e.kind == ERR_EXISTS ? OK : e;
}

struct err
key_index_delete(struct object_dir *dir, const struct key_index_paths *paths)
{
	struct err e = object_delete(dir, paths->data);

	if (!err_is(e) && paths->lookup[0] != '\0')
		e = object_delete(dir, paths->lookup);
	return err_is(e) ? e : object_delete(dir, paths->filter);
}
