#include "common/base.h"

#include "worker/object/local.h"
#include "worker/store/near.h"

/* The one value of an array that is far. */
static struct err
fetch(struct array *a, struct arena *arena)
{
	uint64_t from = array_offset(a, 0), bytes = array_length(a, 0);
	uint64_t *offsets = arena_calloc(arena, 2, sizeof(*offsets));
	char *values = arena_alloc(arena, bytes);
	struct err e;

	if (offsets == NULL || values == NULL)
		return FAIL(NO_MEMORY, "a long value of a row");
	e = object_read_at(a->far->fd, values, bytes, a->far->offset + from);
	if (err_is(e))
		return e;
	/* Little endian: the low half is the narrow offset. */
	memcpy((char *)offsets +
	    arrow_offset_width((enum arrow_type)a->field->type), &bytes,
	    arrow_offset_width((enum arrow_type)a->field->type));
	a->offsets = offsets;
	a->values = values;
	a->far = NULL;
	return OK;
}

struct err
near_row(const struct batch *b, uint64_t at, struct arena *arena,
    struct batch *out)
{
	struct err e = batch_row(b, at, arena, out);
	uint32_t i;

	for (i = 0; !err_is(e) && i < b->schema->field_count; i++) {
		/* Ours, made just now: the batch was given to nobody yet. */
		struct array *a = (struct array *)&out->columns[i];

		if (a->far != NULL)
			e = fetch(a, arena);
	}
	return e;
}
