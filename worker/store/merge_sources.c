#include "common/base.h"

#include <stdlib.h>

#include "common/arena.h"
#include "common/buf.h"
#include "worker/store/merge_sources.h"
#include "worker/store/near.h"
#include "worker/store/row.h"
#include "worker/store/tail_cache.h"

/*
 * A cursor stands on its next key. The heap orders cursors by key; all that
 * stand on the smallest are taken off together, compared, moved on and put
 * back.
 */

#define SCRATCH_MAX	(2048ull << 20)	/* two rows; a row may be 1 GiB */

struct cursor {
	struct slice key;
	const struct tail_run *tail;	/* of it, rows behind after; or: */
	uint64_t after;
	const struct key_index *index;
	const struct base *base;	/* NULL: a generation */
	const struct base_keys *keys;
	const bool *some;		/* sources of the base; NULL: all */
	uint64_t at, count;		/* position in the keys */
	const struct source *source;	/* where the row at it is */
	uint32_t row;
};

struct merge {
	const struct store_shape *shape;
	uint32_t cursor_count, cursor_max;
	struct cursor *cursors;
	uint32_t heap_count;
	uint32_t *heap;			/* cursor numbers */
	uint32_t same_count;
	uint32_t *same;			/* those on one key */
	bool started;
	bool keep_all;
	struct buf lost;		/* struct merge_row; behind them: */
	size_t lost_at;			/* bytes of it that were given out */
	struct merge_row last;		/* the one that counts, */
	bool has_last;			/* if it is still to come */
	struct arena scratch;		/* sequences and comparisons */
	struct arena row_arena;		/* what merge_read handed out */
	struct batch row_batch;
	struct tail_cache *tails;
};

struct err
merge_new(const struct store_shape *shape, uint32_t sources_max,
    struct merge **out)
{
	struct merge *m = calloc(1, sizeof(*m));
	uint32_t n = MAX(sources_max, 1u);
	struct err e;

	if (m == NULL)
		return FAIL(NO_MEMORY, "merge sources");
	m->shape = shape;
	m->cursor_max = n;
	m->cursors = calloc(n, sizeof(*m->cursors));
	m->heap = calloc(n, sizeof(*m->heap));
	m->same = calloc(n, sizeof(*m->same));
	arena_init(&m->scratch, SCRATCH_MAX);
	arena_init(&m->row_arena, SCRATCH_MAX);
	buf_init(&m->lost, SCRATCH_MAX);
	e = m->cursors == NULL || m->heap == NULL || m->same == NULL ?
	    FAIL(NO_MEMORY, "merge sources") : tail_cache_new(&m->tails);
	if (err_is(e))
		merge_free(m);
	else
		*out = m;
	return e;
}

void
merge_free(struct merge *m)
{
	if (m == NULL)
		return;
	tail_cache_free(m->tails);
	arena_free(&m->scratch);
	arena_free(&m->row_arena);
	buf_free(&m->lost);
	free(m->same);
	free(m->heap);
	free(m->cursors);
	free(m);
}

void
merge_add_source(struct merge *m, const struct source *s)
{
	MUST(!m->started && m->cursor_count < m->cursor_max);
	m->cursors[m->cursor_count++] = (struct cursor){
		.source = s, .index = s->index,
		.count = key_index_count(s->index),
	};
}

void
merge_add_base(struct merge *m, const struct base *b)
{
	merge_add_base_some(m, b, NULL);
}

void
merge_keep_all(struct merge *m)
{
	MUST(!m->started);
	m->keep_all = true;
}

void
merge_add_base_some(struct merge *m, const struct base *b, const bool *some)
{
	uint32_t i;

	MUST(!m->started && b->keys_count <= m->cursor_max - m->cursor_count);
	for (i = 0; i < b->keys_count; i++)
		m->cursors[m->cursor_count++] = (struct cursor){
			.base = b, .keys = &b->keys[i], .some = some,
			.index = b->keys[i].index,
			.count = key_index_count(b->keys[i].index),
		};
}

void
merge_add_tail(struct merge *m, const struct tail_sorted *t)
{
	uint32_t i;

	MUST(!m->started && t->run_count <= m->cursor_max - m->cursor_count);
	for (i = 0; i < t->run_count; i++)
		m->cursors[m->cursor_count++] = (struct cursor){
			.tail = t->runs[i], .after = t->after,
			.count = t->runs[i]->count,
		};
}

static bool
find_row(struct cursor *c)
{
	uint32_t source;

	if (c->base == NULL) {
		c->row = key_index_row(c->index, c->at);
		return !fragment_is_deleted(c->source->fragment, c->row);
	}
	if (!base_row(c->base, c->keys, c->at, &source, &c->row) ||
	    (c->some != NULL && !c->some[source]))
		return false;
	c->source = c->base->sources[source];
	return true;
}

/* To the next row that counts; false at the end. */
static bool
settle(struct cursor *c)
{
	for (; c->at < c->count; c->at++) {
		if (c->tail != NULL) {
			const struct tail_row *r = &c->tail->rows[c->at];

			if (r->batch->position <= c->after)
				continue;
			c->key = r->key;
			return true;
		}
		if (find_row(c)) {
			c->key = key_index_key(c->index, c->at);
			return true;
		}
	}
	return false;
}

static bool
before(const struct merge *m, uint32_t a, uint32_t b)
{
	return slice_cmp(m->cursors[a].key, m->cursors[b].key) < 0;
}

static void
heap_push(struct merge *m, uint32_t cursor)
{
	uint32_t i = m->heap_count++;

	while (i > 0 && before(m, cursor, m->heap[(i - 1) / 2])) {
		m->heap[i] = m->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	m->heap[i] = cursor;
}

static uint32_t
heap_pop(struct merge *m)
{
	uint32_t top = m->heap[0], last = m->heap[--m->heap_count], i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= m->heap_count)
			break;
		if (child + 1 < m->heap_count &&
		    before(m, m->heap[child + 1], m->heap[child]))
			child++;
		if (!before(m, m->heap[child], last))
			break;
		m->heap[i] = m->heap[child];
		i = child;
	}
	m->heap[i] = last;
	return top;
}

static struct merge_row
row_of(const struct cursor *c)
{
	struct merge_row r = { .key = c->key };

	if (c->tail != NULL) {
		r.batch = c->tail->rows[c->at].batch;
		r.row = c->tail->rows[c->at].row;
	} else {
		r.source = c->source;
		r.row = c->row;
	}
	return r;
}

static struct err
sequence_of(const struct merge_row *r, struct arena *arena, int64_t *sequence)
{
	if (r->batch != NULL) {
		*sequence = r->batch->sequence;
		return OK;
	}
	return source_sequence(r->source, r->row, arena, sequence);
}

static struct err
read_row(const struct store_shape *shape, const struct merge_row *r,
    struct arena *arena, struct batch *batch, uint64_t *at)
{
	struct batch tail;
	struct err e;

	*at = 0;
	if (r->batch == NULL)
		return source_read(r->source, (struct span){ r->row, 1 },
		    arena, batch);
	e = tail_read(r->batch, shape, arena, &tail);
	if (err_is(e))
		return e;
	return near_row(&tail, r->row, arena, batch);
}

static bool
same_source(const struct merge_row *a, const struct merge_row *b)
{
	if (a->batch != NULL && b->batch != NULL)
		return a->batch->entry == b->batch->entry;
	return a->source != NULL && a->source == b->source;
}

/* A commit may be several batches. */
static bool
is_later(const struct merge_row *a, const struct merge_row *b)
{
	if (a->batch != b->batch)
		return tail_batch_before(b->batch, a->batch);
	return a->row > b->row;
}

struct err
merge_compare(const struct store_shape *shape, const struct merge_row *a,
    const struct merge_row *b, struct arena *arena, int *order)
{
	struct batch rows_a, rows_b;
	int64_t seq_a, seq_b;
	uint64_t at_a, at_b;
	struct err e;

	e = sequence_of(a, arena, &seq_a);
	if (!err_is(e))
		e = sequence_of(b, arena, &seq_b);
	if (err_is(e))
		return e;
	*order = (seq_a > seq_b) - (seq_a < seq_b);
	if (*order == 0 && same_source(a, b))
		*order = is_later(a, b) ? 1 : -1;
	if (*order != 0)
		return OK;
	e = read_row(shape, a, arena, &rows_a, &at_a);
	if (!err_is(e))
		e = read_row(shape, b, arena, &rows_b, &at_b);
	if (!err_is(e))
		*order = row_compare(&rows_a, at_a, &rows_b, at_b,
		    shape->created_at);
	return e;
}

/* The better of two rows of one key, into *best; the other one has lost. */
static struct err
take_better(struct merge *m, const struct merge_row *r, struct merge_row *best)
{
	const struct merge_row *loser = r;
	struct merge_row had = *best;
	struct err e;
	int order;

	arena_reset(&m->scratch);
	e = merge_compare(m->shape, r, best, &m->scratch, &order);
	if (err_is(e))
		return e;
	if (order > 0) {
		*best = *r;
		loser = &had;
	}
	if (m->keep_all && !buf_append(&m->lost, loser, sizeof(*loser)))
		return FAIL(NO_MEMORY, "rows of one key");
	return OK;
}

/* The row of this key that counts in the cursor's source, and past all of
 * them: another engine may have put rows of ours and its own into one. */
static struct err
take_best(struct merge *m, struct cursor *c, struct merge_row *best)
{
	*best = row_of(c);
	c->at++;
	while (settle(c) && slice_eq(c->key, best->key)) {
		struct merge_row r = row_of(c);
		struct err e = take_better(m, &r, best);

		if (err_is(e))
			return e;
		c->at++;
	}
	return OK;
}

static void
take_same(struct merge *m)
{
	struct slice key;

	m->same_count = 0;
	m->same[m->same_count++] = heap_pop(m);
	key = m->cursors[m->same[0]].key;
	while (m->heap_count > 0 &&
	    slice_eq(m->cursors[m->heap[0]].key, key))
		m->same[m->same_count++] = heap_pop(m);
}

static void
start(struct merge *m)
{
	uint32_t i;

	m->started = true;
	for (i = 0; i < m->cursor_count; i++) {
		if (settle(&m->cursors[i]))
			heap_push(m, i);
	}
}

static struct err
next_key(struct merge *m, struct merge_row *winner, bool *found)
{
	uint32_t i;

	if (!m->started)
		start(m);
	*found = m->heap_count > 0;
	if (!*found)
		return OK;
	take_same(m);
	for (i = 0; i < m->same_count; i++) {
		struct cursor *c = &m->cursors[m->same[i]];
		struct merge_row r;
		struct err e;

		e = take_best(m, c, &r);
		if (!err_is(e) && i > 0)
			e = take_better(m, &r, winner);
		else if (!err_is(e))
			*winner = r;
		if (err_is(e))
			return e;
		if (c->at < c->count)
			heap_push(m, m->same[i]);
	}
	return OK;
}

struct err
merge_next(struct merge *m, struct merge_row *row, bool *found)
{
	struct err e;

	if (!m->keep_all)
		return next_key(m, row, found);
	if (!m->has_last) {
		buf_consume(&m->lost, m->lost.len);
		m->lost_at = 0;
		e = next_key(m, &m->last, &m->has_last);
		if (err_is(e))
			return e;
	}
	*found = m->has_last;
	if (m->lost_at < m->lost.len) {
		memcpy(row, m->lost.ptr + m->lost_at, sizeof(*row));
		m->lost_at += sizeof(*row);
	} else if (m->has_last) {
		*row = m->last;
		m->has_last = false;
	}
	return OK;
}

struct err
merge_batch(struct merge *m, const struct tail_batch *b,
    const struct batch **batch)
{
	return tail_cache_read(m->tails, b, m->shape, batch);
}

struct err
merge_read(struct merge *m, const struct merge_row *r,
    const struct batch **batch, uint64_t *at)
{
	return merge_read_columns(m, r, NULL, batch, at);
}

struct err
merge_read_columns(struct merge *m, const struct merge_row *r,
    const bool *columns, const struct batch **batch, uint64_t *at)
{
	struct err e;

	if (r->batch != NULL) {
		*at = r->row;
		return merge_batch(m, r->batch, batch);
	}
	arena_reset(&m->row_arena);
	e = source_read_columns(r->source, (struct span){ r->row, 1 }, columns,
	    &m->row_arena, &m->row_batch);
	*batch = &m->row_batch;
	*at = 0;
	return e;
}
