#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "worker/arrow/column.h"
#include "worker/lance/key_table.h"
#include "worker/lance/key_write.h"
#include "worker/lance/page_write.h"
#include "worker/object/map.h"

#define LOOKUP_BYTES_MAX	(1u << 30)
#define BATCH_BYTES_MAX		INT32_MAX	/* offsets have 32 bits */

/* The type of the key is filled in. */
static const struct arrow_field data_fields[] = {
	{ .name = { "values", 6 }, .nullable = true, .id = 0 },
	{ .name = { "ids", 3 }, .type = ARROW_UINT64, .id = 1 },
};

static const struct arrow_field lookup_fields[] = {
	{ .name = { "min", 3 }, .nullable = true, .id = 0 },
	{ .name = { "max", 3 }, .nullable = true, .id = 1 },
	{ .name = { "null_count", 10 }, .type = ARROW_UINT32, .id = 2 },
	{ .name = { "page_idx", 8 }, .type = ARROW_UINT32, .id = 3 },
};

struct key_writer {
	struct arrow_field data_fields[ARRAY_LEN(data_fields)];
	struct arrow_field lookup_fields[ARRAY_LEN(lookup_fields)];
	struct arrow_schema data_schema, lookup_schema;
	struct object_dir *dir;
	struct key_index_paths paths;
	struct object_pace *pace;
	struct page_writer *data;
	struct builder batch;		/* keys and ids that wait */
	struct builder lookup;		/* a row a batch */
};

static void
fill_in_schemas(struct key_writer *w)
{
	memcpy(w->data_fields, data_fields, sizeof(data_fields));
	memcpy(w->lookup_fields, lookup_fields, sizeof(lookup_fields));
	w->data_fields[0].type = w->paths.key_type;
	w->lookup_fields[0].type = w->lookup_fields[1].type =
	    w->paths.key_type;
	w->data_schema = (struct arrow_schema){
		.field_count = ARRAY_LEN(data_fields), .fields = w->data_fields };
	w->lookup_schema = (struct arrow_schema){
		.field_count = ARRAY_LEN(lookup_fields),
		.fields = w->lookup_fields };
}

struct err
key_write_open(struct object_dir *dir, const struct key_index_paths *paths,
    struct object_pace *pace, struct key_writer **out)
{
	struct key_writer *w = calloc(1, sizeof(*w));
	struct err e;

	if (w == NULL)
		return FAIL(NO_MEMORY, "write a key index");
	w->dir = dir;
	w->paths = *paths;
	w->pace = pace;
	fill_in_schemas(w);
	e = builder_init(&w->batch, &w->data_schema, BATCH_BYTES_MAX);
	if (err_is(e)) {
		free(w);
		return e;
	}
	e = builder_init(&w->lookup, &w->lookup_schema, LOOKUP_BYTES_MAX);
	if (err_is(e)) {
		builder_free(&w->batch);
		free(w);
		return e;
	}
	e = page_write_open(dir, paths->data, &w->data_schema, pace, &w->data);
	if (err_is(e))
		key_write_abort(w);
	else
		*out = w;
	return e;
}

void
key_write_abort(struct key_writer *w)
{
	if (w == NULL)
		return;
	page_write_abort(w->data);
	builder_free(&w->batch);
	builder_free(&w->lookup);
	free(w);
}

bool
key_write_has_room(const struct key_writer *w)
{
	return w->batch.row_count < w->paths.batch_rows;
}

struct err
key_write_add(struct key_writer *w, struct slice key, uint64_t id)
{
	MUST(key_write_has_room(w));
	if (!column_bytes(&w->batch.columns[0], key) ||
	    !column_int64(&w->batch.columns[1], (int64_t)id))
		return FAIL(NO_MEMORY, "write a key index");
	builder_end_row(&w->batch);
	return OK;
}

static struct err
add_lookup(struct key_writer *w, const struct array *keys)
{
	struct column *columns = w->lookup.columns;

	if (!column_bytes(&columns[0], array_slice(keys, 0)) ||
	    !column_bytes(&columns[1], array_slice(keys, keys->length - 1)) ||
	    !column_int32(&columns[2], 0) ||
	    !column_int32(&columns[3], (int32_t)w->lookup.row_count))
		return FAIL(NO_MEMORY, "write a key index");
	builder_end_row(&w->lookup);
	return OK;
}

struct err
key_write_batch(struct key_writer *w)
{
	struct batch b = builder_batch(&w->batch);
	struct err e;

	if (b.row_count == 0)
		return OK;
	e = add_lookup(w, &b.columns[0]);
	if (!err_is(e))
		e = page_write_batch(w->data, &b);
	builder_clear(&w->batch, SIZE_MAX);
	return e;
}

struct hashing {
	struct object_map map;
	uint64_t hash;
};

static struct err
hash_guarded(void *ctx)
{
	struct hashing *h = ctx;

	h->hash = hash_bytes(h->map.ptr, h->map.len);
	return OK;
}

/* Of what is in the file now, and so in memory anyway. */
static struct err
hash_file(struct object_dir *dir, const char *name, uint64_t *hash)
{
	struct hashing h = { .hash = 0 };
	struct err e = object_map_open(dir, name, &h.map);

	if (err_is(e))
		return e;
	e = object_map_guarded(hash_guarded, &h);
	object_map_close(&h.map);
	*hash = h.hash;
	return e;
}

static struct err
write_lookup(struct key_writer *w, uint64_t hash, struct page_written *written)
{
	char size[12], digits[KEY_HASH_DIGITS + 1];
	struct arrow_pair pairs[] = {
		{ SLICE("batch_size"), { size, 0 } },
		{ SLICE("range_partitioned"), SLICE("false") },
		{ SLICE(KEY_HASH), { digits, KEY_HASH_DIGITS } },
	};
	struct arrow_schema schema = w->lookup_schema;
	struct batch b = builder_batch(&w->lookup);
	struct page_writer *to;
	struct err e;

	pairs[0].value.len = (size_t)snprintf(size, sizeof(size), "%u",
	    w->paths.batch_rows);
	key_hash_text(hash, digits);
	schema.pairs = pairs;
	schema.pair_count = ARRAY_LEN(pairs);
	e = page_write_open(w->dir, w->paths.lookup, &schema, w->pace, &to);
	if (err_is(e))
		return e;
	b.schema = &schema;
	if (b.row_count > 0)
		e = page_write_batch(to, &b);
	if (!err_is(e))
		return page_write_finish(to, written);
	page_write_abort(to);
	return e;
}

struct err
key_write_finish(struct key_writer *w, struct key_written *written)
{
	struct page_written data, lookup;
	uint64_t hash;
	struct err e = key_write_batch(w);

	if (!err_is(e)) {
		e = page_write_finish(w->data, &data);
		w->data = NULL;
	}
	if (!err_is(e))
		e = hash_file(w->dir, w->paths.data, &hash);
	if (!err_is(e))
		e = write_lookup(w, hash, &lookup);
	key_write_abort(w);
	if (!err_is(e))
		*written = (struct key_written){ data.size_bytes,
		    lookup.size_bytes };
	return e;
}

/* several as one */

struct cursor {
	const struct key_input *input;
	uint64_t at;
	struct slice key;
};

struct merging {
	struct key_writer *to;
	struct cursor *cursors;
	uint32_t *heap;			/* numbers of cursors, by key */
	uint32_t heap_count;
};

static uint32_t
fragment_of(const struct cursor *c)
{
	uint32_t place = key_index_place(c->input->index, c->at);

	return place < c->input->fragment_count ?
	    c->input->fragments[place] : KEY_NO_FRAGMENT;
}

/* To the next key of a fragment that is wanted; false at the end. */
static bool
settle(struct cursor *c)
{
	for (; c->at < key_index_count(c->input->index); c->at++) {
		if (fragment_of(c) != KEY_NO_FRAGMENT) {
			c->key = key_index_key(c->input->index, c->at);
			return true;
		}
	}
	return false;
}

static bool
is_before(const struct merging *m, uint32_t a, uint32_t b)
{
	int c = slice_cmp(m->cursors[a].key, m->cursors[b].key);

	return c != 0 ? c < 0 : a < b;
}

/* Down from the top, where a cursor has moved on or the last one came. */
static void
sift(struct merging *m)
{
	uint32_t i = 0, child, moved = m->heap[0];

	for (; (child = 2 * i + 1) < m->heap_count; i = child) {
		if (child + 1 < m->heap_count &&
		    is_before(m, m->heap[child + 1], m->heap[child]))
			child++;
		if (!is_before(m, m->heap[child], moved))
			break;
		m->heap[i] = m->heap[child];
	}
	m->heap[i] = moved;
}

static void
push(struct merging *m, uint32_t cursor)
{
	uint32_t i = m->heap_count++;

	for (; i > 0 && is_before(m, cursor, m->heap[(i - 1) / 2]);
	    i = (i - 1) / 2)
		m->heap[i] = m->heap[(i - 1) / 2];
	m->heap[i] = cursor;
}

/* A marked read: a batch of keys into the writer. */
static struct err
gather(void *ctx)
{
	struct merging *m = ctx;
	struct cursor *c;
	struct err e = OK;

	while (!err_is(e) && m->heap_count > 0 && key_write_has_room(m->to)) {
		c = &m->cursors[m->heap[0]];
		e = key_write_add(m->to, c->key, (uint64_t)fragment_of(c) << 32 |
		    key_index_row(c->input->index, c->at));
		c->at++;
		if (!settle(c))
			m->heap[0] = m->heap[--m->heap_count];
		if (m->heap_count > 0)
			sift(m);
	}
	return e;
}

/* A marked read too. */
static struct err
begin(void *ctx)
{
	struct merging *m = ctx;
	uint32_t i, count = m->heap_count;

	m->heap_count = 0;
	for (i = 0; i < count; i++) {
		if (settle(&m->cursors[i]))
			push(m, i);
	}
	return OK;
}

static struct err
merge(struct merging *m)
{
	struct err e = object_map_guarded(begin, m);

	while (!err_is(e) && m->heap_count > 0) {
		e = object_map_guarded(gather, m);
		if (!err_is(e))
			e = key_write_batch(m->to);
	}
	return e;
}

struct err
key_merge(const struct key_input *inputs, uint32_t count,
    struct object_dir *dir, const struct key_index_paths *paths,
    struct object_pace *pace, struct key_written *written)
{
	struct merging m = { .heap_count = count };
	struct err e;
	uint32_t i;

	m.cursors = calloc(MAX(count, 1u), sizeof(*m.cursors));
	m.heap = calloc(MAX(count, 1u), sizeof(*m.heap));
	e = m.cursors == NULL || m.heap == NULL ?
	    FAIL(NO_MEMORY, "merge key indexes") :
	    key_write_open(dir, paths, pace, &m.to);
	for (i = 0; !err_is(e) && i < count; i++)
		m.cursors[i].input = &inputs[i];
	if (!err_is(e)) {
		e = merge(&m);
		if (err_is(e))
			key_write_abort(m.to);
		else
			e = key_write_finish(m.to, written);
	}
	free(m.cursors);
	free(m.heap);
	return e;
}
