#include "common/base.h"

#include <stdlib.h>

#include "common/fault.h"
#include "shm/metric.h"
#include "worker/lance/deletion.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/key_write.h"
#include "worker/lance/own.h"
#include "worker/maintain/key_segment.h"

/* What goes into the new segment. */
struct plan {
	const struct base *base;
	struct arena *arena;
	const struct commit_edit *edit;
	uint64_t rows;			/* of all inputs, deleted ones too */
	uint32_t count;
	struct key_input *inputs;	/* the new keys first */
	struct deletion *fragments;	/* the new segment's */
	uint32_t dropped_count;
	struct uuid *dropped;
};

struct candidate {			/* a segment that may be merged */
	uint32_t keys;			/* its number in the base */
	uint64_t rows;
};

/* The source that is found through this place and stays, or NULL. */
static const struct source *
source_at(const struct plan *p, const struct base_keys *k, uint32_t place)
{
	const struct source *s;

	if (k->sources[place] == BASE_NO_SOURCE)
		return NULL;
	s = p->base->sources[k->sources[place]];
	return commit_edit_removes(p->edit, s->number) ? NULL : s;
}

static uint64_t
rows_of(const struct plan *p, const struct base_keys *k)
{
	const struct source *s;
	uint64_t rows = 0;
	uint32_t place;

	for (place = 0; place < k->place_count; place++) {
		s = source_at(p, k, place);
		rows += s == NULL ? 0 : s->fragment->row_count;
	}
	return rows;
}

static struct err
add_keys(struct plan *p, const struct base_keys *k, uint64_t rows)
{
	uint32_t *ids = arena_calloc(p->arena, MAX(k->place_count, 1u),
	    sizeof(*ids));
	const struct source *s;
	uint32_t place;

	if (ids == NULL)
		return FAIL(NO_MEMORY, "plan a key index");
	for (place = 0; place < k->place_count; place++) {
		s = source_at(p, k, place);
		ids[place] = s == NULL ? KEY_NO_FRAGMENT : (uint32_t)s->number;
		if (s != NULL)
			deletion_add(p->fragments, (uint32_t)s->number);
	}
	p->inputs[p->count++] = (struct key_input){ k->index, k->place_count,
	    ids };
	p->rows += rows;
	if (k->is_segment)
		p->dropped[p->dropped_count++] = k->uuid;
	return OK;
}

static int
compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->rows < y->rows ? -1 : x->rows > y->rows;
}

/* Fragments without a segment, while there is room; then the segments that the
 * rule of the header names. */
static struct err
choose(struct plan *p)
{
	const struct base *b = p->base;
	struct candidate *all = arena_calloc(p->arena, MAX(b->keys_count, 1u),
	    sizeof(*all));
	uint32_t i, n = 0;
	struct err e = OK;

	if (all == NULL)
		return FAIL(NO_MEMORY, "plan a key index");
	for (i = 0; !err_is(e) && i < b->keys_count; i++) {
		const struct base_keys *k = &b->keys[i];
		uint64_t rows = rows_of(p, k);

		if (k->is_segment && rows == 0)
			p->dropped[p->dropped_count++] = k->uuid;
		else if (k->is_segment)
			all[n++] = (struct candidate){ i, rows };
		else if (rows > 0 && p->rows + rows <= KEY_SEGMENT_ROWS)
			e = add_keys(p, k, rows);
	}
	qsort(all, n, sizeof(*all), compare_candidates);
	for (i = 0; !err_is(e) && i < n && all[i].rows <= p->rows &&
	    p->rows + all[i].rows <= KEY_SEGMENT_ROWS; i++)
		e = add_keys(p, &b->keys[all[i].keys], all[i].rows);
	for (i = 0; i < b->useless_count; i++)
		p->dropped[p->dropped_count++] = b->useless[i];
	return e;
}

static struct err
write_segment(struct aged_store *a, struct plan *p,
    struct commit_segment *segment)
{
	const struct store_shape *shape = a->shape;
	const struct arrow_field *key = &shape->schema.fields[shape->key];
	struct key_index_paths paths;
	struct key_written written;
	struct err e;

	segment->uuid = own_uuid();
	segment->field = key->id;
	key_index_paths_segment(&paths, key, &segment->uuid);
	e = index_entry_name(p->base->table, key, p->arena, &segment->name);
	if (!err_is(e))
		e = deletion_encode(p->fragments, p->arena,
		    &segment->fragments);
	if (!err_is(e))
		e = FAULT(fold_index);
	if (!err_is(e))
		e = key_merge(p->inputs, p->count, a->dir, &paths,
		    &a->env->pace, &written);
	if (err_is(e))
		return e;
	segment->data_bytes = written.data_bytes;
	segment->lookup_bytes = written.lookup_bytes;
	shm_metric_add(METRIC_memwald_maintain_written_bytes_total, 0,
	    written.data_bytes + written.lookup_bytes);
	return OK;
}

static struct err
plan_and_write(struct aged_store *a, const struct key_index *added,
    struct plan *p, struct commit_segment *segment)
{
	const struct base *b = p->base;
	uint32_t *id = arena_alloc(p->arena, sizeof(*id));
	struct err e;

	p->inputs = arena_calloc(p->arena, b->keys_count + 1u,
	    sizeof(*p->inputs));
	p->dropped = arena_calloc(p->arena, b->keys_count + b->useless_count +
	    1u, sizeof(*p->dropped));
	if (id == NULL || p->inputs == NULL || p->dropped == NULL)
		return FAIL(NO_MEMORY, "plan a key index");
	*id = (uint32_t)b->table->next_fragment_id;
	deletion_add(p->fragments, *id);
	p->inputs[p->count++] = (struct key_input){ added, 1, id };
	p->rows = key_index_count(added);
	e = choose(p);
	return err_is(e) ? e : write_segment(a, p, segment);
}

struct err
key_segment_add(struct aged_store *a, const struct base *base,
    const struct key_index *added, struct arena *arena,
    struct commit_edit *edit)
{
	struct plan p = { .base = base, .arena = arena, .edit = edit };
	struct commit_segment *segment = arena_calloc(arena, 1,
	    sizeof(*segment));
	struct err e;

	MUST(edit->added_count == 1);
	if (segment == NULL)
		return FAIL(NO_MEMORY, "plan a key index");
	e = deletion_new(&p.fragments);
	if (err_is(e))
		return e;
	e = plan_and_write(a, added, &p, segment);
	deletion_free(p.fragments);
	if (err_is(e))
		return e;
	edit->segments = segment;
	edit->segment_count = 1;
	edit->dropped = p.dropped;
	edit->dropped_count = p.dropped_count;
	return OK;
}
