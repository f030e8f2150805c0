#include "common/base.h"

#include <stdlib.h>

#include "worker/lance/page_read.h"

/*
 * Any bytes as a data file. Each of its columns is read as every type, by runs
 * that begin and end anywhere; what is accepted must keep the rules of batch.h,
 * and each byte of it is looked at. Lists and structs take the columns behind
 * theirs for what is in them, as depth first order has it.
 */

#define ARENA_BYTES	(8u << 20)
#define ROWS_MAX	4096u
#define RUNS		3u

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static uint64_t sum;		/* so that reading is not left out */

static void
see_bytes(const void *bytes, uint64_t len)
{
	const uint8_t *at = bytes;

	while (len > 0)
		sum += at[--len];
}

static void
see_offsets(const struct array *a)
{
	uint64_t i;

	for (i = 0; i < a->length; i++) {
		MUST(array_offset(a, i) <= array_offset(a, i + 1));
		if (array_is_null(a, i))
			MUST(array_offset(a, i) == array_offset(a, i + 1));
	}
}

/* Recurses over our own types only. */
static void
see_array(const struct array *a)
{
	uint64_t i, nulls = 0;
	uint32_t k;

	for (i = 0; i < a->length; i++)
		nulls += array_is_null(a, i);
	MUST(nulls == a->null_count);
	switch (a->field->type) {
	case ARROW_LIST:
		see_offsets(a);
		MUST(array_offset(a, a->length) <= a->children[0].length);
		break;
	case ARROW_STRUCT:
		for (k = 0; k < a->field->child_count; k++)
			MUST(a->children[k].length == a->length);
		break;
	case ARROW_BOOL:
		see_bytes(a->values, (a->length + 7) / 8);
		break;
	case ARROW_FIXED_LIST:
		see_bytes(a->values, a->length * 4 * (uint64_t)a->field->dim);
		break;
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		see_offsets(a);
		see_bytes((const char *)a->values + array_offset(a, 0),
		    array_offset(a, a->length) - array_offset(a, 0));
		break;
	default:
		see_bytes(a->values, a->length *
		    arrow_type_width((enum arrow_type)a->field->type));
	}
	for (k = 0; k < a->field->child_count; k++)
		see_array(&a->children[k]);
}

/* Field id of type, and of what is below it; kind 0 is the plain type, the
 * others are lists of strings and of structs. */
struct shape {
	struct arrow_field field, item, members[2];
};

static void
make_shape(struct shape *s, int32_t id, uint32_t kind)
{
	*s = (struct shape){ .field = { .name = SLICE("x"), .id = id,
		.nullable = true, .type = (uint8_t)kind, .dim = 3 } };
	if (kind < ARROW_LIST)
		return;
	s->item = (struct arrow_field){ .name = SLICE("item"), .id = id + 1,
		.nullable = true, .type = ARROW_UTF8 };
	s->field.type = ARROW_LIST;
	s->field.child_count = 1;
	s->field.children = &s->item;
	if (kind == ARROW_LIST)
		return;
	s->members[0] = (struct arrow_field){ .name = SLICE("k"), .id = id + 2,
		.nullable = true, .type = ARROW_UTF8 };
	s->members[1] = (struct arrow_field){ .name = SLICE("v"), .id = id + 3,
		.nullable = true, .type = ARROW_FLOAT32 };
	s->item.type = ARROW_STRUCT;
	s->item.child_count = 2;
	s->item.children = s->members;
}

static void
read_column(const struct data_file *f, int32_t id, uint32_t kind,
    struct arena *arena)
{
	const struct data_column *column = data_file_column(f, id);
	struct span runs[RUNS] = {
		{ 0, MIN(column->count, ROWS_MAX) },
		{ column->count / 3, 1 },
		{ column->count / 2, MIN(column->count, ROWS_MAX) / 2 },
	};
	struct shape shape;
	struct array a;
	struct err e;
	uint32_t i;

	make_shape(&shape, id, kind);
	for (i = 0; i < RUNS; i++) {
		arena_reset(arena);
		e = page_read_run(f, &shape.field, runs[i], arena, &a);
		if (!err_is(e))
			see_array(&a);
		else
			MUST(e.kind == ERR_CORRUPT || e.kind == ERR_NO_MEMORY ||
			    e.kind == ERR_TOO_LARGE || e.kind == ERR_UNSUPPORTED);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct data_file *f;
	struct arena arena;
	struct slice value;
	uint32_t i, kind;

	if (err_is(data_file_parse(slice_make(bytes, len), NULL, &f)))
		return 0;
	arena_init(&arena, ARENA_BYTES);
	for (i = 0; i < f->id_count; i++) {
		for (kind = 0; kind < ARROW_TYPE_COUNT; kind++)
			read_column(f, f->ids[i].field_id, kind, &arena);
	}
	if (data_file_pair(f, SLICE("batch_size"), &value))
		see_bytes(value.ptr, value.len);
	arena_free(&arena);
	data_file_close(f);
	return 0;
}
