#include "common/base.h"

#include <stdlib.h>

#include "worker/api/row_event.h"
#include "worker/store/kind_datagen.h"
#include "worker/store/row.h"

/*
 * Events of one request against each other. Their numbers are sorted, once by
 * event id and once by item and position, so that what must not meet lies side
 * by side.
 */

struct check {
	struct arena *arena;
	const struct batch *batch;
	struct span rows;
	uint64_t *order;
};

static int
compare(const struct check *c, enum datagen_column column, uint64_t a,
    uint64_t b)
{
	const struct array *x = &c->batch->columns[column];

	return row_compare_value(x, a, x, b);
}

static int
by_id(const void *x, const void *y, void *ctx)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
	int order = compare(ctx, DATAGEN_event_id, a, b);

	return order != 0 ? order : a < b ? -1 : a > b;
}

static int
by_place(const void *x, const void *y, void *ctx)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
	int order = compare(ctx, DATAGEN_item_id, a, b);

	if (order == 0)
		order = compare(ctx, DATAGEN_item_seq, a, b);
	return order != 0 ? order : by_id(x, y, ctx);
}

static struct err
fail(const struct check *c, uint64_t row, enum datagen_column column,
    const char *why)
{
	return FAIL(BAD_INPUT, arena_printf(c->arena, "events[%llu].%s: %s",
	    (unsigned long long)(row - c->rows.first),
	    c->batch->schema->fields[column].name.ptr, why));
}

static const char *
about(const struct check *c, const char *format, uint64_t row)
{
	return arena_printf(c->arena, format,
	    (unsigned long long)(row - c->rows.first));
}

static struct err
check_pair_of_id(const struct check *c, uint64_t a, uint64_t b)
{
	int i;

	if (compare(c, DATAGEN_event_id, a, b) != 0)
		return OK;
	for (i = 0; i < DATAGEN__seq; i++) {
		if (compare(c, (enum datagen_column)i, a, b) != 0)
			return fail(c, MAX(a, b), DATAGEN_event_id, about(c,
			    "that of events[%llu], which has other content",
			    MIN(a, b)));
	}
	return OK;
}

static struct err
check_pair_of_place(const struct check *c, uint64_t a, uint64_t b)
{
	if (compare(c, DATAGEN_item_id, a, b) != 0 ||
	    compare(c, DATAGEN_item_seq, a, b) != 0 ||
	    compare(c, DATAGEN_event_id, a, b) == 0)
		return OK;
	return fail(c, MAX(a, b), DATAGEN_item_seq, about(c,
	    "taken by another event of this item, events[%llu]", MIN(a, b)));
}

static struct err
check_neighbours(const struct check *c,
    int (*by)(const void *, const void *, void *),
    struct err (*pair)(const struct check *, uint64_t, uint64_t))
{
	struct err e = OK;
	uint64_t i;

	for (i = 0; i < c->rows.count; i++)
		c->order[i] = c->rows.first + i;
	qsort_r(c->order, c->rows.count, sizeof(c->order[0]), by, (void *)c);
	for (i = 1; !err_is(e) && i < c->rows.count; i++)
		e = pair(c, c->order[i - 1], c->order[i]);
	return e;
}

/* ---- a checkpoint */

static struct err
check_same(const struct check *c, const enum datagen_column *columns,
    size_t count, uint64_t as, uint64_t row, const char *why)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (compare(c, columns[i], as, row) != 0)
			return fail(c, row, columns[i], why);
	}
	return OK;
}

static enum datagen_event
event_of(const struct check *c, uint64_t row)
{
	return datagen_event(array_slice(
	    &c->batch->columns[DATAGEN_event_type], row));
}

/* The one event that completes the step. */
static struct err
find_completed(const struct check *c, uint64_t *completed)
{
	uint64_t end = c->rows.first + c->rows.count, row;
	bool found = false;

	for (row = c->rows.first; row < end; row++) {
		switch (event_of(c, row)) {
		case DATAGEN_EVENT_FIELD_SET:
		case DATAGEN_EVENT_FIELD_APPEND:
			break;
		case DATAGEN_EVENT_STEP_COMPLETED:
			if (found)
				return fail(c, row, DATAGEN_event_type, "a "
				    "checkpoint has one STEP_COMPLETED");
			found = true;
			*completed = row;
			break;
		default:
			return fail(c, row, DATAGEN_event_type, "not in a "
			    "checkpoint");
		}
	}
	return found ? OK : FAIL(BAD_INPUT,
	    "events: a checkpoint has one STEP_COMPLETED, this has none");
}

static struct err
check_checkpoint(const struct check *c)
{
	static const enum datagen_column shared[] = { DATAGEN_item_id,
	    DATAGEN_checkpoint_id, DATAGEN_run_id, DATAGEN_writer_epoch,
	    DATAGEN_attempt };
	static const enum datagen_column step[] = { DATAGEN_step_name,
	    DATAGEN_step_index, DATAGEN_step_kind, DATAGEN_enclosing_step,
	    DATAGEN_selector_step };
	uint64_t end = c->rows.first + c->rows.count, row, completed;
	struct err e = find_completed(c, &completed);

	for (row = c->rows.first; !err_is(e) && row < end; row++) {
		e = check_same(c, shared, ARRAY_LEN(shared), c->rows.first,
		    row, "all events of a checkpoint share it");
		if (!err_is(e))
			e = check_same(c, step, ARRAY_LEN(step), completed,
			    row, "not that of the STEP_COMPLETED");
	}
	return e;
}

struct err
row_event_check(struct arena *arena, const struct batch *batch,
    struct span rows, bool checkpoint)
{
	struct check c = { .arena = arena, .batch = batch, .rows = rows };
	struct err e = OK;

	if (rows.count > 1) {
		c.order = malloc(rows.count * sizeof(c.order[0]));
		if (c.order == NULL)
			return FAIL(NO_MEMORY, "check events");
		e = check_neighbours(&c, by_id, check_pair_of_id);
		if (!err_is(e))
			e = check_neighbours(&c, by_place,
			    check_pair_of_place);
		free(c.order);
	}
	return err_is(e) || !checkpoint ? e : check_checkpoint(&c);
}
