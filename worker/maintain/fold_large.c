#include "common/base.h"

#include <stdio.h>
#include <unistd.h>

#include "worker/maintain/fold_large.h"
#include "worker/object/local.h"

static bool
is_bytes(const struct arrow_field *f)
{
	return f->type >= ARROW_UTF8 && f->type <= ARROW_LARGE_BINARY;
}

void
fold_large_find(const struct source *source, const struct batch *b,
    uint64_t at, struct fold_large *l)
{
	uint32_t c;

	l->source = source;
	l->count = 0;
	for (c = 0; c < b->schema->field_count; c++) {
		const struct array *a = &b->columns[c];
		struct fold_value *v = &l->values[l->count];
		struct slice s;

		if (!is_bytes(a->field) || c == (uint32_t)source->shape->key ||
		    array_length(a, at) < FOLD_LARGE_MIN ||
		    l->count == FOLD_LARGE_MAX)
			continue;
		s = array_slice(a, at);
		*v = (struct fold_value){ .column = c, .bytes = s.ptr,
		    .file = fragment_file_of(source->fragment, s.ptr),
		    .far.fd = -1 };
		/* Little endian: the low half is the narrow one. */
		memcpy((char *)v->offsets + arrow_offset_width(
		    (enum arrow_type)a->field->type), &s.len,
		    arrow_offset_width((enum arrow_type)a->field->type));
		if (v->file >= 0)
			l->count++;
	}
}

bool
fold_large_has(const struct fold_large *l, uint32_t column)
{
	uint32_t i;

	for (i = 0; i < l->count; i++) {
		if (l->values[i].column == column)
			return true;
	}
	return false;
}

/* A data file of a generation, by its name: a source keeps mappings alone. */
static struct err
open_file(const struct fold *f, const struct source *s, int32_t file, int *fd)
{
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

struct err
fold_large_open(const struct fold *f, struct fold_large *l,
    struct array *columns)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < l->count; i++) {
		struct fold_value *v = &l->values[i];
		const struct data_file *file =
		    l->source->fragment->files[v->file];
		struct array *a = &columns[v->column];

		e = open_file(f, l->source, v->file, &v->far.fd);
		v->far.offset = (uint64_t)(v->bytes -
		    (const char *)file->map.ptr);
		a->offsets = v->offsets;
		a->values = NULL;
		a->far = &v->far;
	}
	return e;
}

void
fold_large_close(struct fold_large *l)
{
	uint32_t i;

	for (i = 0; i < l->count; i++) {
		if (l->values[i].far.fd >= 0)
			close(l->values[i].far.fd);
	}
	l->count = 0;
}
