#include "common/base.h"

#include "worker/arrow/bits.h"
#include "worker/arrow/batch.h"

bool
batch_is_far(const struct batch *b)
{
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++) {
		if (b->columns[i].far != NULL)
			return true;
	}
	return false;
}

static struct array
row_of(const struct array *a, uint64_t at, uint8_t bits[2])
{
	uint32_t offset = arrow_offset_width((enum arrow_type)a->field->type);
	uint32_t value = arrow_type_width((enum arrow_type)a->field->type);
	struct array row = *a;

	row.length = 1;
	row.null_count = array_is_null(a, at);
	row.validity = NULL;
	if (row.null_count > 0) {
		bits[0] = 0;
		row.validity = &bits[0];
	}
	if (a->field->type == ARROW_FIXED_LIST)
		value = (uint32_t)a->field->dim * 4;
	if (a->field->type == ARROW_BOOL) {
		bits[1] = array_bool(a, at);
		row.values = &bits[1];
	} else if (offset != 0) {
		row.offsets = (const char *)a->offsets + at * offset;
	} else {
		row.values = (const char *)a->values + at * value;
	}
	return row;
}

struct err
batch_row(const struct batch *b, uint64_t at, struct arena *arena,
    struct batch *out)
{
	uint32_t i, count = b->schema->field_count;
	struct array *columns = arena_calloc(arena, count, sizeof(*columns));
	uint8_t *bits = arena_calloc(arena, count, 2);

	MUST(at < b->row_count);
	if (columns == NULL || bits == NULL)
		return FAIL(NO_MEMORY, "a row of a batch");
	for (i = 0; i < count; i++) {
		/* Members would have to be moved as well: no kind has them. */
		MUST(b->columns[i].field->type != ARROW_STRUCT);
		columns[i] = row_of(&b->columns[i], at, &bits[2 * i]);
	}
	*out = (struct batch){ b->schema, 1, columns };
	return OK;
}
