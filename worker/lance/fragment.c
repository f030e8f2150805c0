#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/lance/fragment.h"
#include "worker/lance/page_read.h"

static struct err
open_file(struct object_dir *dir, const struct table_file *description,
    struct data_file **out)
{
	struct data_file_ids ids = { description->field_count,
		description->fields, description->columns };
	char name[OBJECT_NAME_MAX];
	struct data_file *file;
	struct err e;
	int len;

	/* A path is one name in data/: nothing leads elsewhere. */
	if (memchr(description->path.ptr, '/', description->path.len) != NULL ||
	    memchr(description->path.ptr, 0, description->path.len) != NULL)
		return FAIL(CORRUPT, "a data file's name leads elsewhere");
	len = snprintf(name, sizeof(name), "data/%.*s",
	    (int)MIN(description->path.len, sizeof(name)), description->path.ptr);
	if (len < 0 || (size_t)len >= sizeof(name))
		return FAIL(CORRUPT, "a data file's name is too long");
	e = data_file_open(dir, name, &ids, &file);
	if (err_is(e))
		return e;
	if (description->size_bytes != 0 &&
	    description->size_bytes != file->map.len) {
		data_file_close(file);
		return FAIL(CORRUPT, "a data file has another size");
	}
	*out = file;
	return OK;
}

static struct err
open_parts(struct object_dir *dir, const struct table_fragment *description,
    struct fragment *f)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < description->file_count; i++) {
		e = open_file(dir, &description->files[i], &f->files[i]);
		if (err_is(e))
			return e;
		f->file_count++;
		if (f->files[i]->row_count != f->row_count)
			return FAIL(CORRUPT, "a data file has other rows");
	}
	if (description->deletion.kind == TABLE_DELETION_NONE)
		return OK;
	return deletion_read(dir, f->id, &description->deletion, f->row_count,
	    &f->deletion);
}

struct err
fragment_open(struct object_dir *dir, const struct table_fragment *description,
    struct fragment **out)
{
	struct fragment *f;
	struct err e;

	if (description->file_count > FRAGMENT_FILES_MAX ||
	    description->row_count > UINT32_MAX)
		return FAIL(UNSUPPORTED, "a fragment of too many files or rows");
	f = calloc(1, sizeof(*f) + description->file_count * sizeof(f->files[0]));
	if (f == NULL)
		return FAIL(NO_MEMORY, "open a fragment");
	f->id = description->id;
	f->row_count = description->row_count;
	e = open_parts(dir, description, f);
	if (err_is(e)) {
		fragment_close(f);
		return e;
	}
	*out = f;
	return OK;
}

struct err
fragment_open_generation(struct object_dir *dir, struct arena *errors,
    struct fragment **out)
{
	struct fragment *f = NULL;
	struct table *table;
	struct err e;

	e = table_load(dir, errors, &table);
	if (err_is(e))
		return e;
	if (table->fragment_count != 1)
		e = FAIL(CORRUPT, "a generation without its one fragment");
	else
		e = fragment_open(dir, &table->fragments[0], &f);
	if (err_is(e)) {
		table_free(table);
		return e;
	}
	f->table = table;
	*out = f;
	return OK;
}

void
fragment_sparse(const struct fragment *f, bool sparse)
{
	uint32_t i;

	for (i = 0; i < f->file_count; i++)
		object_map_sparse(&f->files[i]->map, sparse);
}

void
fragment_close(struct fragment *f)
{
	uint32_t i;

	if (f == NULL)
		return;
	for (i = 0; i < f->file_count; i++)
		data_file_close(f->files[i]);
	deletion_free(f->deletion);
	if (f->table != NULL)
		table_free(f->table);
	free(f);
}

struct err
fragment_read_field(const struct fragment *f, const struct arrow_field *field,
    struct span rows, struct arena *arena, struct array *out)
{
	uint32_t i;

	if (rows.first > f->row_count || rows.count > f->row_count - rows.first)
		return FAIL(CORRUPT, "a row that its fragment does not have");
	for (i = 0; i < f->file_count; i++) {
		if (data_file_column(f->files[i], field->id) != NULL)
			return page_read_run(f->files[i], field, rows, arena, out);
	}
	return page_read_nulls(field, rows.count, arena, out);
}

struct err
fragment_read(const struct fragment *f, const struct arrow_schema *projection,
    struct span rows, struct arena *arena, struct batch *out)
{
	struct array *columns = arena_calloc(arena, projection->field_count + 1ull,
	    sizeof(*columns));
	struct err e;
	uint32_t i;

	if (columns == NULL)
		return FAIL(NO_MEMORY, "columns of a run of rows");
	for (i = 0; rows.count == 1 && i < f->file_count; i++)
		page_read_prefetch(f->files[i], rows.first);
	for (i = 0; i < projection->field_count; i++) {
		e = fragment_read_field(f, &projection->fields[i], rows, arena,
		    &columns[i]);
		if (err_is(e))
			return e;
	}
	*out = (struct batch){ projection, rows.count, columns };
	return OK;
}

int32_t
fragment_file_of(const struct fragment *f, const void *value)
{
	uintptr_t at = (uintptr_t)value;
	uint32_t i;

	for (i = 0; i < f->file_count; i++) {
		const struct object_map *map = &f->files[i]->map;

		if (at >= (uintptr_t)map->ptr &&
		    at - (uintptr_t)map->ptr < map->len)
			return (int32_t)i;
	}
	return -1;
}

uint64_t
fragment_live_count(const struct fragment *f)
{
	if (f->deletion == NULL)
		return f->row_count;
	return f->row_count - deletion_count(f->deletion);
}

uint64_t
fragment_mapped_bytes(const struct fragment *f)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < f->file_count; i++)
		bytes += f->files[i]->map.len;
	return bytes;
}

size_t
fragment_bytes(const struct fragment *f)
{
	size_t bytes = sizeof(*f) + f->file_count * sizeof(f->files[0]);
	uint32_t i;

	for (i = 0; i < f->file_count; i++)
		bytes += data_file_bytes(f->files[i]);
	if (f->deletion != NULL)
		bytes += deletion_bytes(f->deletion);
	if (f->table != NULL)
		bytes += f->table->arena.total_bytes;
	return bytes;
}
