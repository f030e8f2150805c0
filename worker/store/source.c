#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "worker/lance/data_file.h"
#include "worker/store/opened.h"
#include "worker/store/source.h"

/* Memory that rebuilding one key index may take. */
#define INDEX_BUILD_MAX	(1ull << 30)
#define PATH_BYTES	512

static struct err
source_new(const struct store_shape *shape, struct source **out)
{
	struct source *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return FAIL(NO_MEMORY, "open a source");
	atomic_init(&s->refs, 1);
	s->shape = shape;
	*out = s;
	return OK;
}

/* One that is missing or damaged is made again from the key column, in memory. */
static struct err
open_index(struct object_dir *dir, struct source *s)
{
	const struct arrow_field *key = &s->shape->schema.fields[s->shape->key];
	struct key_index_paths paths;
	struct err e;

	key_index_paths_generation(&paths, key);
	e = key_index_open(dir, &paths, s->fragment->row_count, &s->index);
	if (e.kind != ERR_NOT_FOUND && e.kind != ERR_CORRUPT &&
	    e.kind != ERR_UNSUPPORTED)
		return e;
	if (e.kind != ERR_NOT_FOUND)
		log_err(LOG_WARN, e, "key index of a generation is damaged, "
		    "making it in memory");
	return key_index_build(s->fragment, key, INDEX_BUILD_MAX, &s->index);
}

static bool
has_key(const struct table_fragment *f, int32_t key_id)
{
	uint32_t i, k;

	for (i = 0; i < f->file_count; i++) {
		for (k = 0; k < f->files[i].field_count; k++) {
			if (f->files[i].fields[k] == key_id)
				return true;
		}
	}
	return false;
}

/* It is whole: from now on it is counted. */
static struct source *
opened(struct source *s)
{
	const struct key_index *ix = s->index;

	s->maps = s->fragment->file_count;
	s->bytes = sizeof(*s) + fragment_bytes(s->fragment);
	if (ix != NULL) {
		s->maps += (ix->file != NULL) + (ix->filter_map.len > 0);
		s->bytes += key_index_bytes(ix) + ix->filter_map.len +
		    (ix->file == NULL ? 0 : ix->file->map.len);
	}
	opened_add(OPENED_SOURCES, 1);
	opened_add(OPENED_SOURCE_BYTES, s->bytes);
	opened_add(OPENED_MAPS, s->maps);
	return s;
}

struct err
source_open_fragment(struct object_dir *dir, const struct store_shape *shape,
    const struct table_fragment *f, struct source **out)
{
	struct source *s;
	struct err e;

	if (!has_key(f, shape->schema.fields[shape->key].id))
		return FAIL(CORRUPT, "fragment without a key column");
	e = source_new(shape, &s);
	if (err_is(e))
		return e;
	s->number = f->id;
	e = fragment_open(dir, f, &s->fragment);
	if (err_is(e))
		source_drop(s);
	else
		*out = opened(s);
	return e;
}

struct err
source_open_generation(struct object_dir *dir, const struct store_shape *shape,
    const struct uuid *shard, const struct shard_generation *g,
    struct source **out)
{
	struct object_dir *gdir = NULL;
	char name[PATH_BYTES];
	struct arena errors;
	struct source *s;
	struct err e;
	size_t n;

	shard_directory_name(shard, name);
	n = strlen(name);
	if (n + 1 + g->directory.len >= sizeof(name))
		return FAIL(CORRUPT, "generation with too long a name");
	snprintf(name + n, sizeof(name) - n, "/%.*s", (int)g->directory.len,
	    g->directory.ptr);
	e = source_new(shape, &s);
	if (err_is(e))
		return e;
	arena_init(&errors, 4096);
	s->is_generation = true;
	s->number = g->number;
	e = object_dir_open(dir, name, false, &gdir);
	if (err_is(e))
		goto out;
	e = fragment_open_generation(gdir, &errors, &s->fragment);
	if (err_is(e))
		goto out;
	e = open_index(gdir, s);
out:
	if (err_is(e)) {
		log_err(LOG_DEBUG, e, "generation not opened path=%s", name);
		e.what = "open a generation";	/* text was in the arena */
		source_drop(s);
	} else {
		*out = opened(s);
	}
	arena_free(&errors);
	if (gdir != NULL)
		object_dir_close(gdir);
	return e;
}

struct source *
source_hold(struct source *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void
source_drop(struct source *s)
{
	if (s == NULL)
		return;
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (s->bytes > 0) {
		opened_sub(OPENED_SOURCES, 1);
		opened_sub(OPENED_SOURCE_BYTES, s->bytes);
		opened_sub(OPENED_MAPS, s->maps);
	}
	key_index_close(s->index);
	fragment_close(s->fragment);
	free(s);
}

struct err
source_sequence(const struct source *s, uint32_t row, struct arena *arena,
    int64_t *sequence)
{
	struct array a;
	struct err e;

	e = fragment_read_field(s->fragment,
	    &s->shape->schema.fields[s->shape->seq], (struct span){ row, 1 },
	    arena, &a);
	if (err_is(e))
		return e;
	*sequence = array_is_null(&a, 0) ? INT64_MIN : array_int(&a, 0);
	return OK;
}

struct err
source_read(const struct source *s, struct span rows, struct arena *arena,
    struct batch *batch)
{
	return fragment_read(s->fragment, &s->shape->schema, rows, arena, batch);
}

struct err
source_read_columns(const struct source *s, struct span rows,
    const bool *columns, struct arena *arena, struct batch *batch)
{
	const struct arrow_schema *schema = &s->shape->schema;
	struct array *arrays;
	struct err e = OK;
	uint32_t i;

	if (columns == NULL)
		return source_read(s, rows, arena, batch);
	arrays = arena_calloc(arena, schema->field_count, sizeof(*arrays));
	if (arrays == NULL)
		return FAIL(NO_MEMORY, "columns of a run of rows");
	for (i = 0; !err_is(e) && i < schema->field_count; i++) {
		arrays[i].field = &schema->fields[i];
		if (columns[i])
			e = fragment_read_field(s->fragment, &schema->fields[i],
			    rows, arena, &arrays[i]);
	}
	*batch = (struct batch){ schema, rows.count, arrays };
	return e;
}
