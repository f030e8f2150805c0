#include "common/base.h"

#include <unistd.h>

#include "worker/maintain/large_row.h"

static bool
is_bytes(const struct arrow_field *f)
{
	return f->type >= ARROW_UTF8 && f->type <= ARROW_LARGE_BINARY;
}

void
large_row_find(const struct source *source, const struct batch *b,
    uint64_t at, uint32_t key, struct large_row *l)
{
	uint32_t c;

	l->source = source;
	l->count = 0;
	for (c = 0; c < b->schema->field_count; c++) {
		const struct array *a = &b->columns[c];
		struct large_value *v = &l->values[l->count];
		struct slice s;

		if (!is_bytes(a->field) || c == key ||
		    array_length(a, at) < LARGE_VALUE_MIN ||
		    l->count == LARGE_VALUES_MAX)
			continue;
		s = array_slice(a, at);
		*v = (struct large_value){ .column = c, .bytes = s.ptr,
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
large_row_has(const struct large_row *l, uint32_t column)
{
	uint32_t i;

	for (i = 0; i < l->count; i++) {
		if (l->values[i].column == column)
			return true;
	}
	return false;
}

struct err
large_row_open(struct large_row *l, large_open_fn *open, void *ctx,
    struct array *columns)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < l->count; i++) {
		struct large_value *v = &l->values[i];
		const struct data_file *file =
		    l->source->fragment->files[v->file];
		struct array *a = &columns[v->column];

		e = open(ctx, l->source, (uint32_t)v->file, &v->far.fd);
		v->far.offset = (uint64_t)(v->bytes -
		    (const char *)file->map.ptr);
		a->offsets = v->offsets;
		a->values = NULL;
		a->far = &v->far;
	}
	return e;
}

void
large_row_close(struct large_row *l)
{
	uint32_t i;

	for (i = 0; i < l->count; i++) {
		if (l->values[i].far.fd >= 0)
			close(l->values[i].far.fd);
	}
	l->count = 0;
}
