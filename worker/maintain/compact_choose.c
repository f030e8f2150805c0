#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "worker/lance/deletion.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/manifest.h"
#include "worker/maintain/compact_parts.h"
#include "worker/maintain/fold_budget.h"

/*
 * Fragments are compared by weight: bytes, or rows as so many bytes that a full
 * number of rows weighs what a full number of bytes does. Of masked rows neither
 * counts.
 */

#define MASKED_SHARE		5	/* by itself, a fifth */
#define MASKED_SHARE_ASKED	10

struct candidate {
	uint32_t source;		/* number in the base */
	uint64_t weight, bytes;
	bool masked;			/* enough of it to be rewritten for that */
};

struct choice {
	struct candidate *all;		/* lightest first */
	uint32_t count;
	uint64_t weight_max;
};

/* ---- fragments that are others' */

static bool
is_foreign(const struct table *t, const struct arrow_field *key,
    const struct table_index *x)
{
	return !slice_eq(x->name, SLICE(MEM_WAL_NAME)) &&
	    !index_entry_is_segment(t, key, x);
}

static struct err
add_cover(const struct table_index *x, struct compact_cover *cover)
{
	struct deletion *ids;
	struct err e;

	cover->all |= x->fragment_bitmap.len == 0;
	if (cover->all)
		return OK;
	e = index_entry_fragments(x, &ids);
	if (err_is(e))
		return e;
	deletion_add_all(cover->ids, ids);
	deletion_free(ids);
	return OK;
}

struct err
compact_cover_of(const struct table *t, const struct arrow_field *key,
    struct compact_cover *cover)
{
	struct err e;
	uint32_t i;

	*cover = (struct compact_cover){ .all = false };
	e = deletion_new(&cover->ids);
	for (i = 0; !err_is(e) && i < t->index_count; i++) {
		if (is_foreign(t, key, &t->indices[i]))
			e = add_cover(&t->indices[i], cover);
	}
	return e;
}

bool
compact_covers(const struct compact_cover *cover, uint64_t fragment_id)
{
	return cover->all ||
	    deletion_contains(cover->ids, (uint32_t)fragment_id);
}

/* ---- weights */

static struct candidate
weigh(const struct compaction *c, uint32_t source)
{
	const struct fragment *f = c->base->sources[source]->fragment;
	uint64_t live = fragment_live_count(f), share = c->wish->all ?
	    MASKED_SHARE_ASKED : MASKED_SHARE;
	double part = f->row_count == 0 ? 0 :
	    (double)live / (double)f->row_count;
	uint64_t bytes = (uint64_t)((double)fragment_mapped_bytes(f) * part);

	return (struct candidate){ source,
	    MAX(bytes, live * (COMPACT_BYTES / c->wish->target_rows)), bytes,
	    (f->row_count - live) * share >= f->row_count };
}

static int
compare_weights(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	return x->source < y->source ? -1 : x->source > y->source;
}

/* What can be written within the time that is left, and be committed: a pass
 * that ends in a time-out was in vain. And what fits into the memory of folds,
 * since all of it will be mapped. */
static uint64_t
weight_max(const struct compaction *c)
{
	uint64_t rate = CONFIG_NOW(c->aged->env->config, maintain_write_rate);
	uint64_t now = clock_mono_ns(), room = fold_budget_room(), left_secs;
	uint64_t most = room == 0 ? COMPACT_BYTES : MIN(COMPACT_BYTES, room);

	if (rate == 0 || c->aged->deadline_ns == UINT64_MAX)
		return most;
	left_secs = (c->aged->deadline_ns - MIN(now, c->aged->deadline_ns)) /
	    NS_PER_SEC;
	return MIN(most, rate * left_secs / 2);
}

static struct err
find_candidates(struct compaction *c, struct choice *o)
{
	const struct store_shape *shape = c->aged->shape;
	const struct base *b = c->base;
	struct compact_cover cover;
	struct err e;
	uint32_t i;

	o->all = arena_calloc(&c->arena, MAX(b->source_count, 1u),
	    sizeof(*o->all));
	if (o->all == NULL)
		return FAIL(NO_MEMORY, "choose fragments");
	e = compact_cover_of(b->table, &shape->schema.fields[shape->key],
	    &cover);
	for (i = 0; !err_is(e) && i < b->source_count; i++) {
		if (!compact_covers(&cover, b->sources[i]->number))
			o->all[o->count++] = weigh(c, i);
	}
	deletion_free(cover.ids);
	qsort(o->all, o->count, sizeof(*o->all), compare_weights);
	return e;
}

/* ---- the choice */

/* How many of the lightest go together; 0: none. */
static uint32_t
lightest(const struct compaction *c, const struct choice *o)
{
	uint64_t sum = 0;
	uint32_t i, n = 0;
	bool full = false;

	for (i = 0; i < o->count; i++) {
		uint64_t weight = o->all[i].weight;

		full = weight > o->weight_max - sum;
		if (full)
			break;
		if (c->wish->all || weight * (COMPACT_GROWTH - 1) <= sum)
			n = i + 1;
		sum += weight;
	}
	return n >= (c->wish->all || full ? 2 : COMPACT_FRAGMENTS) ? n : 0;
}

static struct err
choose_one(struct compaction *c, uint32_t source)
{
	uint64_t rows = c->base->sources[source]->fragment->row_count;
	uint32_t *moved = arena_alloc(&c->arena, MAX(rows, 1u) *
	    sizeof(*moved));

	if (moved == NULL)
		return FAIL(NO_MEMORY, "choose fragments");
	memset(moved, 0xff, rows * sizeof(*moved));
	c->chosen[source] = true;
	c->moved[source] = moved;
	c->chosen_count++;
	c->chosen_bytes += fragment_mapped_bytes(
	    c->base->sources[source]->fragment);
	return OK;
}

/* Those of which much is masked: one of any number of rows, and what fits beside
 * it. */
static struct err
choose_masked(struct compaction *c, const struct choice *o)
{
	uint64_t sum = 0;
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < o->count; i++) {
		const struct candidate *one = &o->all[i];

		if (!one->masked || one->bytes > o->weight_max ||
		    (sum > 0 && one->weight > o->weight_max - sum))
			continue;
		sum = MIN(sum + MAX(one->weight, 1u), o->weight_max);
		e = choose_one(c, one->source);
	}
	return e;
}

struct err
compact_choose(struct compaction *c)
{
	uint32_t count = MAX(c->base->source_count, 1u), i, n;
	struct choice o = { .weight_max = weight_max(c) };
	struct err e;

	c->chosen = arena_calloc(&c->arena, count, sizeof(*c->chosen));
	c->moved = arena_calloc(&c->arena, count, sizeof(*c->moved));
	if (c->chosen == NULL || c->moved == NULL)
		return FAIL(NO_MEMORY, "choose fragments");
	e = find_candidates(c, &o);
	if (err_is(e))
		return e;
	n = lightest(c, &o);
	for (i = 0; !err_is(e) && i < n; i++)
		e = choose_one(c, o.all[i].source);
	if (!err_is(e) && n == 0 && c->wish->masked)
		e = choose_masked(c, &o);
	return e;
}
