#include "common/base.h"

#include <stdio.h>

#include "common/fault.h"
#include "worker/maintain/fold_parts.h"
#include "worker/object/local.h"

/* A data file of a generation, by its name. */
static struct err
open_file(void *ctx, const struct source *s, uint32_t file, int *fd)
{
	const struct fold *f = ctx;
	const struct table_fragment *of = &s->fragment->table->fragments[0];
	const struct shard_generation *g = NULL;
	char name[OBJECT_NAME_MAX];
	uint64_t size;
	uint32_t i;
	size_t n;

	for (i = 0; i < f->manifest.generation_count; i++) {
		if (f->manifest.generations[i].number == s->number)
			g = &f->manifest.generations[i];
	}
	MUST(g != NULL);
	shard_directory_name(&f->uuid, name);
	n = strlen(name);
	/* It was opened by this name: it fits. */
	MUST((size_t)snprintf(name + n, sizeof(name) - n, "/%.*s/data/%.*s",
	    (int)g->directory.len, g->directory.ptr,
	    (int)of->files[file].path.len, of->files[file].path.ptr) <
	    sizeof(name) - n);
	return object_entry_open(f->aged->dir, name, fd, &size);
}

static struct err
step(void *ctx)
{
	const struct fold *f = ctx;
	struct err e = FAULT(fold_prepare);

	return err_is(e) ? e : aged_check(f->aged);
}

struct err
fold_prepare(struct fold *f)
{
	const struct store_shape *shape = f->aged->shape;
	struct merged_input in = { .aged = f->aged, .schema = &shape->schema,
	    .key = (uint32_t)shape->key, .open = open_file, .step = step,
	    .ctx = f };
	struct err e;
	uint32_t i;

	e = merge_new(shape, f->source_count, &in.merge);
	if (err_is(e))
		return e;
	for (i = 0; i < f->source_count; i++)
		merge_add_source(in.merge, f->sources[i]);
	e = FAULT(fold_write);
	if (!err_is(e))
		e = merged_file_write(&in, &f->arena, &f->file);
	merge_free(in.merge);
	if (err_is(e) || f->file.fragment.row_count == 0)
		return e;
	return source_open_fragment(f->aged->dir, shape, &f->file.fragment,
	    &f->added);
}
