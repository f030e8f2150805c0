#include "common/base.h"

#include <stdlib.h>

#include "worker/lance/data_file.h"
#include "worker/lance/file.pb-c.h"
#include "worker/lance/page_encoding.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"
#include "worker/object/map.h"

/*
 * Messages are unpacked one column at a time into a scratch arena, and what a
 * reader needs of them goes into the file's own, compact. Both are capped, and
 * the sizes of all column metadata together may not exceed the file: tables
 * that name one region over and over must not cost more than honest ones.
 */

#define FOOTER_BYTES	40u
#define COLUMNS_MAX	65536u

struct parse {
	struct data_file *file;
	struct slice bytes;
	const struct data_file_ids *ids;
	struct arena scratch;
	uint64_t columns_at, globals_at;	/* the two tables */
	uint32_t global_count;
};

static uint64_t
load(struct parse *p, uint64_t at, uint32_t bytes)
{
	uint64_t v = 0;

	MUST(at <= p->bytes.len && bytes <= p->bytes.len - at);
	memcpy(&v, p->bytes.ptr + at, bytes);
	return v;
}

static bool
is_inside(const struct parse *p, uint64_t at, uint64_t len)
{
	return at <= p->bytes.len && len <= p->bytes.len - at;
}

static struct err
read_footer(struct parse *p)
{
	uint64_t end, major, minor;

	if (p->bytes.len < FOOTER_BYTES)
		return FAIL(CORRUPT, "data file shorter than its footer");
	end = p->bytes.len - FOOTER_BYTES;
	if (memcmp(p->bytes.ptr + end + 36, "LANC", 4) != 0)
		return FAIL(CORRUPT, "data file without its magic");
	major = load(p, end + 32, 2);
	minor = load(p, end + 34, 2);
	if (major == 2 && minor == 1)
		return FAIL(UNSUPPORTED, "data file of format 2.1, not 2.0");
	if (!(major == 0 && minor == 3) && !(major == 2 && minor == 0))
		return FAIL(UNSUPPORTED, "data file of another format than 2.0");

	p->columns_at = load(p, end + 8, 8);
	p->globals_at = load(p, end + 16, 8);
	p->global_count = (uint32_t)load(p, end + 24, 4);
	p->file->column_count = (uint32_t)load(p, end + 28, 4);
	if (p->global_count == 0 || p->file->column_count > COLUMNS_MAX)
		return FAIL(CORRUPT, "data file with impossible counts");
	if (!is_inside(p, p->columns_at, 16ull * p->file->column_count) ||
	    !is_inside(p, p->globals_at, 16ull * p->global_count))
		return FAIL(CORRUPT, "data file's tables are outside of it");
	return OK;
}

/* The bytes that entry i of a table names. */
static struct err
table_entry(struct parse *p, uint64_t table_at, uint32_t i, struct slice *out)
{
	uint64_t at = load(p, table_at + 16ull * i, 8);
	uint64_t len = load(p, table_at + 16ull * i + 8, 8);

	if (!is_inside(p, at, len))
		return FAIL(CORRUPT, "data file's metadata is outside of it");
	*out = slice_make(p->bytes.ptr + at, len);
	return OK;
}

static int
compare_ids(const void *a, const void *b)
{
	int32_t x = ((const struct data_file_id *)a)->field_id;
	int32_t y = ((const struct data_file_id *)b)->field_id;

	return x < y ? -1 : x > y;
}

static struct err
index_ids(struct parse *p, const struct data_file_ids *ids)
{
	struct data_file *f = p->file;
	struct data_file_id *out = arena_calloc(&f->arena, ids->count + 1ull,
	    sizeof(*out));
	uint32_t i, n = 0;

	if (out == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	for (i = 0; i < ids->count; i++) {
		if (ids->fields[i] < 0)
			continue;
		if (ids->columns[i] < 0 ||
		    (uint32_t)ids->columns[i] >= f->column_count)
			return FAIL(CORRUPT, "a field's column is not in its file");
		out[n].field_id = ids->fields[i];
		out[n++].column = (uint32_t)ids->columns[i];
	}
	qsort(out, n, sizeof(*out), compare_ids);
	for (i = 1; i < n; i++) {
		if (out[i].field_id == out[i - 1].field_id)
			return FAIL(CORRUPT, "a data file has a field twice");
	}
	f->ids = out;
	f->id_count = n;
	return OK;
}

/* Every field has one column, in the order of the fields. */
static struct err
index_own_ids(struct parse *p, Pb__FileSchema *schema)
{
	struct data_file_ids ids = { .count = 0 };
	int32_t *fields, *columns;
	uint32_t i;

	if (schema == NULL || schema->n_fields != p->file->column_count)
		return FAIL(CORRUPT, "data file's schema has other columns");
	ids.count = p->file->column_count;
	fields = arena_calloc(&p->scratch, ids.count + 1ull, sizeof(*fields));
	columns = arena_calloc(&p->scratch, ids.count + 1ull, sizeof(*columns));
	if (fields == NULL || columns == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	for (i = 0; i < ids.count; i++) {
		fields[i] = schema->fields[i]->has_id ? schema->fields[i]->id : 0;
		columns[i] = (int32_t)i;
	}
	ids.fields = fields;
	ids.columns = columns;
	return index_ids(p, &ids);
}

static bool
keep(struct arena *arena, ProtobufCBinaryData from, struct slice *to)
{
	*to = slice_make(arena_copy(arena, proto_slice(from)),
	    from.len);
	return to->ptr != NULL;
}

/* Copied: the message goes when the first column is read. */
static struct err
read_pairs(struct parse *p, Pb__FileSchema *schema)
{
	struct arena *arena = &p->file->arena;
	struct arrow_pair *pairs;
	size_t i;

	pairs = arena_calloc(arena, schema->n_metadata + 1, sizeof(*pairs));
	if (pairs == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	for (i = 0; i < schema->n_metadata; i++) {
		if (!keep(arena, schema->metadata[i]->key, &pairs[i].key) ||
		    !keep(arena, schema->metadata[i]->value, &pairs[i].value))
			return FAIL(NO_MEMORY, "metadata of a data file");
	}
	p->file->pairs = pairs;
	p->file->pair_count = (uint32_t)schema->n_metadata;
	return OK;
}

static struct err
read_descriptor(struct parse *p)
{
	struct data_file *f = p->file;
	Pb__FileDescriptor *d;
	struct slice bytes;
	struct err e;
	void *out;

	e = table_entry(p, p->globals_at, 0, &bytes);
	if (err_is(e))
		return e;
	e = proto_unpack(&p->scratch, &pb__file_descriptor__descriptor, bytes,
	    "descriptor of a data file", &out);
	if (err_is(e))
		return e;
	d = out;
	f->row_count = d->has_row_count ? d->row_count : 0;
	if (f->row_count >= DATA_FILE_VALUES_MAX)
		return FAIL(CORRUPT, "data file with impossibly many rows");
	if (d->schema != NULL) {
		e = read_pairs(p, d->schema);
		if (err_is(e))
			return e;
	}
	return p->ids != NULL ? index_ids(p, p->ids) : index_own_ids(p, d->schema);
}

static struct err
read_column(struct parse *p, struct slice bytes, struct data_column *column)
{
	Pb__ColumnMetadata *m;
	struct data_page *pages;
	uint64_t items = 0;
	struct err e;
	void *out;
	size_t i;

	arena_reset(&p->scratch);
	e = proto_unpack(&p->scratch, &pb__column_metadata__descriptor, bytes,
	    "column metadata", &out);
	if (err_is(e))
		return e;
	m = out;
	pages = arena_calloc(&p->file->arena, MAX(m->n_pages, (size_t)1),
	    sizeof(*pages));
	if (pages == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	column->all_null = true;
	for (i = 0; i < m->n_pages; i++) {
		e = page_encoding_read(&p->scratch, p->bytes, m->pages[i],
		    &pages[i]);
		if (err_is(e))
			return e;
		pages[i].first = column->count;
		pages[i].item_first = items;
		column->all_null &= pages[i].form == PAGE_ALL_NULL;
		column->count += pages[i].count;
		items += pages[i].item_count;
		if (MAX(column->count, items) >= DATA_FILE_VALUES_MAX)
			return FAIL(CORRUPT, "column with impossibly many values");
	}
	column->pages = pages;
	column->page_count = (uint32_t)m->n_pages;
	return OK;
}

static struct err
read_columns(struct parse *p)
{
	struct data_file *f = p->file;
	struct data_column *columns;
	uint64_t total = 0;
	struct slice bytes;
	struct err e;
	uint32_t i;

	columns = arena_calloc(&f->arena, f->column_count + 1ull, sizeof(*columns));
	if (columns == NULL)
		return FAIL(NO_MEMORY, "metadata of a data file");
	for (i = 0; i < f->column_count; i++) {
		e = table_entry(p, p->columns_at, i, &bytes);
		if (err_is(e))
			return e;
		total += bytes.len;
		if (total > p->bytes.len)
			return FAIL(CORRUPT, "column metadata larger than its file");
		e = read_column(p, bytes, &columns[i]);
		if (err_is(e))
			return e;
	}
	f->columns = columns;
	return OK;
}

/* A marked read: it may be left at any access to the mapping. */
static struct err
parse_file(void *ctx)
{
	struct parse *p = ctx;
	struct err e;

	e = read_footer(p);
	if (!err_is(e))
		e = read_descriptor(p);
	if (!err_is(e))
		e = read_columns(p);
	return e;
}

struct err
data_file_parse(struct slice bytes, const struct data_file_ids *ids,
    struct data_file **out)
{
	struct parse p = { .bytes = bytes, .ids = ids };
	struct err e;

	p.file = calloc(1, sizeof(*p.file));
	if (p.file == NULL)
		return FAIL(NO_MEMORY, "open data file");
	arena_init(&p.file->arena, DATA_FILE_META_MAX);
	arena_init(&p.scratch, DATA_FILE_META_MAX);
	e = object_map_guarded(parse_file, &p);
	arena_free(&p.scratch);
	if (err_is(e)) {
		data_file_close(p.file);
		return e;
	}
	*out = p.file;
	return OK;
}

struct err
data_file_open(struct object_dir *dir, const char *name,
    const struct data_file_ids *ids, struct data_file **out)
{
	struct object_map map;
	struct data_file *f;
	struct err e;

	e = object_map_open(dir, name, &map);
	if (err_is(e))
		return e;
	object_map_sparse(&map, true);
	e = data_file_parse(slice_make(map.ptr, map.len), ids, &f);
	object_map_sparse(&map, false);
	if (err_is(e)) {
		object_map_close(&map);
		return e;
	}
	f->map = map;
	*out = f;
	return OK;
}

void
data_file_close(struct data_file *f)
{
	if (f == NULL)
		return;
	if (f->map.ptr != NULL)
		object_map_close(&f->map);
	arena_free(&f->arena);
	free(f);
}

const struct data_column *
data_file_column(const struct data_file *f, int32_t field_id)
{
	uint32_t low = 0, high = f->id_count, middle;

	/* Mostly nothing was ever dropped, and ids count from 0. */
	if (field_id >= 0 && (uint32_t)field_id < high &&
	    f->ids[field_id].field_id == field_id)
		return &f->columns[f->ids[field_id].column];
	while (low < high) {
		middle = low + (high - low) / 2;
		if (f->ids[middle].field_id < field_id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == f->id_count || f->ids[low].field_id != field_id)
		return NULL;
	return &f->columns[f->ids[low].column];
}

bool
data_file_pair(const struct data_file *f, struct slice key, struct slice *value)
{
	uint32_t i;

	for (i = 0; i < f->pair_count; i++) {
		if (slice_eq(f->pairs[i].key, key)) {
			*value = f->pairs[i].value;
			return true;
		}
	}
	return false;
}

size_t
data_file_bytes(const struct data_file *f)
{
	return sizeof(*f) + f->arena.total_bytes;
}
