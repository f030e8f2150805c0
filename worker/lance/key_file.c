#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "worker/lance/bloom.h"
#include "worker/lance/data_file.h"
#include "worker/lance/key_table.h"
#include "worker/lance/key_write.h"
#include "worker/object/map.h"

#define GENERATION_BATCH	8192u
#define SEGMENT_BATCH		4096u

void
key_index_paths_generation(struct key_index_paths *p,
    const struct arrow_field *key)
{
	*p = (struct key_index_paths){
		.data = "_pk_index/page_data.lance",
		.lookup = "_pk_index/page_lookup.lance",
		.filter = "bloom_filter.bin",
		.batch_rows = GENERATION_BATCH,
		.key_type = (uint8_t)key->type,
	};
}

void
key_index_paths_segment(struct key_index_paths *p,
    const struct arrow_field *key, const struct uuid *uuid)
{
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(uuid, text);
	*p = (struct key_index_paths){ .batch_rows = SEGMENT_BATCH,
		.key_type = (uint8_t)key->type };
	snprintf(p->data, sizeof(p->data), "_indices/%s/page_data.lance", text);
	snprintf(p->lookup, sizeof(p->lookup), "_indices/%s/page_lookup.lance",
	    text);
}

void
key_hash_text(uint64_t hash, char *digits)
{
	snprintf(digits, KEY_HASH_DIGITS + 1, "%016llx",
	    (unsigned long long)hash);
}

/* What a marked read needs. */
struct reading {
	struct key_index *ix;
	/* Of a generation: how many rows it has; fragments is NULL. */
	uint64_t row_count;
	/* Of a segment: the fragments that are of interest. */
	const struct key_fragment *fragments;
	uint32_t fragment_count;
	struct slice hash;		/* in digits; empty: not known */
};

static struct err
check_columns(const struct data_file *f)
{
	const struct data_column *values, *ids;
	uint32_t i;

	if (f->column_count != 2 || f->row_count > UINT32_MAX)
		return FAIL(CORRUPT, "a key index of other columns");
	values = &f->columns[0];
	ids = &f->columns[1];
	if (values->count != f->row_count || ids->count != f->row_count)
		return FAIL(CORRUPT, "a key index of another length");
	if (f->row_count == 0)
		return OK;
	for (i = 0; i < values->page_count; i++) {
		if (values->pages[i].form != PAGE_BINARY)
			return FAIL(CORRUPT, "a key index of other columns");
	}
	for (i = 0; i < ids->page_count; i++) {
		if (ids->pages[i].form != PAGE_FIXED || ids->pages[i].bits != 64 ||
		    ids->pages[i].dim != 0 || ids->pages[i].validity != NULL)
			return FAIL(CORRUPT, "a key index of other columns");
	}
	return OK;
}

static uint32_t
find_place(const struct reading *r, uint32_t fragment)
{
	uint32_t low = 0, high = r->fragment_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (r->fragments[middle].id < fragment)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->fragment_count && r->fragments[low].id == fragment ?
	    low : KEY_NO_PLACE;
}

static struct err
take_id(struct reading *r, uint64_t at, uint64_t id)
{
	uint64_t row_count = r->row_count;
	uint32_t place;

	if (r->fragments != NULL) {
		/* Mostly it is the one of the row before. */
		place = at > 0 ? r->ix->places[at - 1] : KEY_NO_PLACE;
		if (place == KEY_NO_PLACE || r->fragments[place].id != id >> 32)
			place = find_place(r, (uint32_t)(id >> 32));
		r->ix->places[at] = place;
		row_count = place == KEY_NO_PLACE ? UINT64_MAX :
		    r->fragments[place].row_count;
		id &= UINT32_MAX;
	}
	if (id >= row_count)
		return FAIL(CORRUPT, "a key index of other rows");
	r->ix->rows[at] = (uint32_t)id;
	return OK;
}

static struct err
read_ids(struct reading *r, const struct data_column *ids)
{
	const struct data_page *page;
	uint64_t id, i, at = 0;
	struct err e = OK;
	uint32_t p;

	for (p = 0; p < ids->page_count; p++) {
		page = &ids->pages[p];
		for (i = 0; !err_is(e) && i < page->count; i++) {
			memcpy(&id, page->values + 8 * i, 8);
			e = take_id(r, at++, id);
		}
	}
	return e;
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
check_hash(const struct reading *r)
{
	const struct object_map *map = &r->ix->file->map;
	char digits[KEY_HASH_DIGITS + 1];

	if (r->hash.len == 0)
		return OK;
	key_hash_text(hash_bytes(map->ptr, map->len), digits);
	return slice_eq(r->hash, slice_of(digits)) ? OK :
	    FAIL(CORRUPT, "a key index with a wrong hash");
}

static struct err
read_index(void *ctx)
{
	struct reading *r = ctx;
	const struct data_column *values = &r->ix->file->columns[0];
	struct key_page *out = r->ix->pages;
	const struct data_page *page;
	struct err e = check_hash(r);
	uint32_t p;

	if (!err_is(e))
		e = read_ids(r, &r->ix->file->columns[1]);
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
	struct err e;

	e = name[0] == '\0' ? FAIL(NOT_FOUND, "it has none") :
	    object_map_open(dir, name, &map);
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

static struct err
scan_again(void *ctx)
{
	return key_table_scan(ctx);
}

static struct err
read_with_filter(struct reading *r, struct object_dir *dir,
    const struct key_index_paths *paths)
{
	struct err e = open_filter(r->ix, dir, paths->filter);

	if (!err_is(e))
		e = object_map_guarded(read_index, r);
	if (err_is(e) || r->ix->filter_is_whole)
		return e;
	/* A filter that lacks a key would hide its row. */
	object_map_close(&r->ix->filter_map);
	r->ix->filter_map = (struct object_map){ 0 };
	e = key_table_own_filter(r->ix, bloom_size_bytes(r->ix->count));
	return err_is(e) ? e : object_map_guarded(scan_again, r->ix);
}

/* The files and room for what is read of them. */
static struct err
open_data(struct object_dir *dir, const struct key_index_paths *paths,
    struct reading *r)
{
	struct data_file *file;
	struct err e;

	e = data_file_open(dir, paths->data, NULL, &file);
	if (err_is(e))
		return e;
	e = check_columns(file);
	if (!err_is(e) && r->fragments == NULL && file->row_count != r->row_count)
		e = FAIL(CORRUPT, "a key index of another source");
	if (!err_is(e))
		e = key_table_new(file->row_count, file->columns[0].page_count,
		    &r->ix);
	if (err_is(e)) {
		data_file_close(file);
		return e;
	}
	r->ix->file = file;
	if (r->fragments == NULL)
		return OK;
	r->ix->places = calloc(MAX(file->row_count, 1u),
	    sizeof(*r->ix->places));
	return r->ix->places == NULL ? FAIL(NO_MEMORY, "key index") : OK;
}

static struct err
open_index(struct object_dir *dir, const struct key_index_paths *paths,
    struct reading *r)
{
	struct data_file *lookup;
	struct slice value;
	struct err e;

	e = data_file_open(dir, paths->lookup, NULL, &lookup);
	if (err_is(e))
		return e;
	if (data_file_pair(lookup, SLICE("range_partitioned"), &value) &&
	    !slice_eq(value, SLICE("false"))) {
		data_file_close(lookup);
		return FAIL(UNSUPPORTED, "a key index in several parts");
	}
	if (!data_file_pair(lookup, SLICE(KEY_HASH), &r->hash))
		r->hash = SLICE("");
	e = open_data(dir, paths, r);
	if (!err_is(e))
		e = read_with_filter(r, dir, paths);
	if (err_is(e)) {
		key_index_close(r->ix);
		r->ix = NULL;
	}
	data_file_close(lookup);
	return e;
}

struct err
key_index_open(struct object_dir *dir, const struct key_index_paths *paths,
    uint64_t row_count, struct key_index **out)
{
	struct reading r = { .row_count = row_count };
	struct err e = open_index(dir, paths, &r);

	if (!err_is(e))
		*out = r.ix;
	return e;
}

struct err
key_index_open_segment(struct object_dir *dir,
    const struct key_index_paths *paths, const struct key_fragment *fragments,
    uint32_t count, struct key_index **out)
{
	struct reading r = { .fragments = fragments, .fragment_count = count };
	struct err e = open_index(dir, paths, &r);
	uint64_t i;

	MUST(count > 0);
	if (err_is(e))
		return e;
	for (i = 0; i < r.ix->count && r.ix->places[i] == 0; i++)
		;
	if (i == r.ix->count) {
		free(r.ix->places);
		r.ix->places = NULL;
	}
	*out = r.ix;
	return OK;
}

static struct err
write_filter(const struct key_index *ix, struct object_dir *dir,
    const char *name)
{
	uint8_t *bits = calloc(1, BLOOM_LANCE_BYTES);
	struct err e;
	uint64_t i;

	if (bits == NULL)
		return FAIL(NO_MEMORY, "write a key filter");
	for (i = 0; i < ix->count; i++)
		bloom_add(bits, BLOOM_LANCE_BYTES,
		    bloom_hash(key_index_key(ix, i)));
	e = object_put_new(dir, name, slice_make(bits, BLOOM_LANCE_BYTES));
	free(bits);
	return e;
}

struct err
key_index_write(const struct key_index *ix, struct object_dir *dir,
    const struct key_index_paths *paths, struct object_pace *pace)
{
	static const uint32_t none = 0;	/* an id is the row */
	struct key_input input = { ix, 1, &none };
	struct key_written written;
	struct err e;

	e = key_merge(&input, 1, dir, paths, pace, &written);
	return err_is(e) ? e : write_filter(ix, dir, paths->filter);
}
