#include "common/base.h"

#include <stdlib.h>

#include "worker/store/match.h"

/*
 * What was found out is kept by the address of the source or the batch, which
 * both stay as long as the list. All of it is in an arena: evaluating reads
 * mapped files and may be left at any access (object/map.h).
 */

#define BITS_MAX	(1ull << 30)	/* of 8 billion rows */
#define SCRATCH_MAX	(2048ull << 20)	/* a row may be 1 GiB */

struct part {
	const void *of;			/* source or batch; NULL: free */
	uint64_t rows;
	uint32_t shift;			/* a piece is 1 << shift rows */
	uint64_t **pieces;		/* bits; NULL: not evaluated yet */
};

struct match {
	const struct filter *filter;
	struct merge *merge;
	struct arena bits;
	struct arena scratch;
	uint64_t used, room;		/* of the table; a power of two */
	struct part *parts;
	struct part *last;
};

struct err
match_new(const struct filter *filter, struct merge *merge, struct match **out)
{
	struct match *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return FAIL(NO_MEMORY, "filter a list");
	m->filter = filter;
	m->merge = merge;
	arena_init(&m->bits, BITS_MAX);
	arena_init(&m->scratch, SCRATCH_MAX);
	*out = m;
	return OK;
}

void
match_free(struct match *m)
{
	if (m == NULL)
		return;
	arena_free(&m->bits);
	arena_free(&m->scratch);
	free(m);
}

/* ---- the table */

static struct part *
slot_of(struct part *parts, uint64_t room, const void *of)
{
	uint64_t i = ((uintptr_t)of >> 4) * 0x9e3779b97f4a7c15u >> 32;

	while (parts[i & (room - 1)].of != NULL &&
	    parts[i & (room - 1)].of != of)
		i++;
	return &parts[i & (room - 1)];
}

static struct err
grow(struct match *m)
{
	uint64_t room = MAX(2 * m->room, (uint64_t)64), i;
	struct part *parts = arena_calloc(&m->bits, room, sizeof(*parts));

	if (parts == NULL)
		return FAIL(NO_MEMORY, "filter a list");
	for (i = 0; i < m->room; i++) {
		if (m->parts[i].of != NULL)
			*slot_of(parts, room, m->parts[i].of) = m->parts[i];
	}
	m->parts = parts;
	m->room = room;
	return OK;
}

/* ---- pieces */

/* Bytes of a column's values in a file. */
static uint64_t
column_bytes_of(const struct data_column *c)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < c->page_count; i++)
		bytes += c->pages[i].bytes_len + 8 * c->pages[i].count;
	return bytes;
}

/* How many rows of the source make a piece, as a power of two: of texts of a
 * megabyte one, of numbers thousands. */
static uint32_t
shift_of(const struct match *m, const struct source *s)
{
	const struct arrow_schema *schema = &s->shape->schema;
	const struct fragment *f = s->fragment;
	uint64_t bytes = 0, each;
	uint32_t i, k, shift = 0;

	for (i = 0; i < schema->field_count; i++) {
		for (k = 0; filter_uses(m->filter, i) && k < f->file_count;
		    k++) {
			const struct data_column *c = data_file_column(
			    f->files[k], schema->fields[i].id);

			if (c != NULL)
				bytes += column_bytes_of(c);
		}
	}
	each = bytes / MAX(f->row_count, 1u) + 1;
	while (2u << shift <= MATCH_PIECE_ROWS &&
	    (2ull << shift) * each <= MATCH_PIECE_BYTES)
		shift++;
	return shift;
}

static struct err
add_part(struct match *m, const struct merge_row *row, struct part **out)
{
	const void *of = row->batch != NULL ? (const void *)row->batch :
	    row->source;
	struct part p = { .of = of };
	struct err e;

	if (2 * m->used >= m->room) {
		e = grow(m);
		if (err_is(e))
			return e;
	}
	if (row->batch != NULL) {
		p.rows = row->batch->row_count;
		p.shift = 32;		/* one piece */
	} else {
		p.rows = row->source->fragment->row_count;
		p.shift = shift_of(m, row->source);
	}
	p.pieces = arena_calloc(&m->bits, (p.rows >> p.shift) + 1,
	    sizeof(*p.pieces));
	if (p.pieces == NULL)
		return FAIL(NO_MEMORY, "filter a list");
	m->used++;
	*out = slot_of(m->parts, m->room, of);
	**out = p;
	return OK;
}

static struct err
part_of(struct match *m, const struct merge_row *row, struct part **out)
{
	const void *of = row->batch != NULL ? (const void *)row->batch :
	    row->source;

	if (m->last == NULL || m->last->of != of) {
		struct part *p = m->room == 0 ? NULL :
		    slot_of(m->parts, m->room, of);

		if (p == NULL || p->of == NULL) {
			struct err e = add_part(m, row, &p);

			if (err_is(e))
				return e;
		}
		m->last = p;
	}
	*out = m->last;
	return OK;
}

struct piece_rows {
	struct match *match;
	const struct source *source;
	struct span rows;
};

static struct err
source_column(void *ctx, uint32_t column, struct array *out)
{
	const struct piece_rows *p = ctx;

	return fragment_read_field(p->source->fragment,
	    &p->source->shape->schema.fields[column], p->rows,
	    &p->match->scratch, out);
}

static struct err
eval_source(struct match *m, const struct source *s, struct span rows,
    uint64_t *bits)
{
	struct piece_rows ctx = { m, s, rows };
	struct filter_rows run = { rows.count, source_column, &ctx };

	return filter_eval(m->filter, &run, &m->scratch, bits);
}

static struct err
eval_piece(struct match *m, const struct merge_row *row, struct part *p,
    uint64_t piece)
{
	uint64_t first = piece << p->shift;
	uint64_t count = MIN(p->rows - first, 1ull << p->shift);
	uint64_t *bits = arena_alloc(&m->bits, FILTER_WORDS(count) * 8);
	const struct batch *batch;
	struct err e;

	if (bits == NULL)
		return FAIL(NO_MEMORY, "filter a list");
	arena_reset(&m->scratch);
	if (row->batch == NULL) {
		e = eval_source(m, row->source, (struct span){ first, count },
		    bits);
	} else {
		e = merge_batch(m->merge, row->batch, &batch);
		if (!err_is(e))
			e = filter_eval_batch(m->filter, batch, &m->scratch,
			    bits);
	}
	if (!err_is(e))
		p->pieces[piece] = bits;
	return e;
}

struct err
match_row(struct match *m, const struct merge_row *row, bool *given,
    bool *looked)
{
	uint64_t piece, at;
	struct part *p;
	struct err e = part_of(m, row, &p);

	*looked = false;
	if (err_is(e))
		return e;
	MUST(row->row < p->rows);
	piece = (uint64_t)row->row >> p->shift;
	if (p->pieces[piece] == NULL) {
		*looked = true;
		e = eval_piece(m, row, p, piece);
		if (err_is(e))
			return e;
	}
	at = row->row & ((1ull << p->shift) - 1);
	*given = p->pieces[piece][at / 64] >> (at % 64) & 1;
	return OK;
}
