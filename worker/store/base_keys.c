#include "common/base.h"

#include <stdlib.h>

#include "common/log.h"
#include "worker/lance/data_file.h"
#include "worker/lance/index_entry.h"
#include "worker/store/base_keys.h"
#include "worker/store/opened.h"

/* Memory that making one key index may take. */
#define INDEX_BUILD_MAX	(1ull << 30)

struct base_fragment {			/* at one place of an index */
	uint64_t id;
	bool is_covered;
	bool is_whole;			/* deleted rows are in it as well */
};

struct base_index {
	_Atomic uint32_t refs;
	bool is_segment;
	struct uuid uuid;
	struct key_index *index;
	uint64_t bytes;			/* as counted (opened.h) */
	uint32_t maps;
	uint32_t fragment_count;
	struct base_fragment fragments[];
};

static void
index_drop(struct base_index *x)
{
	if (x == NULL || atomic_fetch_sub_explicit(&x->refs, 1,
	    memory_order_acq_rel) != 1)
		return;
	opened_sub(OPENED_SOURCE_BYTES, x->bytes);
	opened_sub(OPENED_MAPS, x->maps);
	key_index_close(x->index);
	free(x);
}

/* It is whole: from now on it is counted. */
static struct base_index *
index_opened(struct base_index *x)
{
	const struct data_file *file = x->index->file;

	x->maps = file != NULL;
	x->bytes = key_index_bytes(x->index) + (file == NULL ? 0 : file->map.len);
	opened_add(OPENED_SOURCE_BYTES, x->bytes);
	opened_add(OPENED_MAPS, x->maps);
	return x;
}

static struct err
index_new(uint32_t fragment_count, struct base_index **out)
{
	struct base_index *x = calloc(1, sizeof(*x) +
	    fragment_count * sizeof(x->fragments[0]));

	if (x == NULL)
		return FAIL(NO_MEMORY, "open the keys of the base table");
	atomic_init(&x->refs, 1);
	x->fragment_count = fragment_count;
	*out = x;
	return OK;
}

/* What is found out while a version's indexes are put together. */
struct keying {
	struct object_dir *dir;
	const struct store_shape *shape;
	const struct base *previous;
	struct base *base;
};

static const struct arrow_field *
key_of(const struct keying *k)
{
	return &k->shape->schema.fields[k->shape->key];
}

/* Fills in which rows of the version the index is for: those of the covered
 * fragments that no other index has. */
static struct err
use_index(struct keying *k, struct base_index *x)
{
	struct base *b = k->base;
	struct base_keys *to = &b->keys[b->keys_count];
	uint32_t number = b->keys_count, i, place;

	*to = (struct base_keys){ .opened = x, .index = x->index,
	    .is_segment = x->is_segment, .uuid = x->uuid,
	    .place_count = x->fragment_count };
	to->sources = calloc(MAX(x->fragment_count, 1u), sizeof(*to->sources));
	if (to->sources == NULL)
		return FAIL(NO_MEMORY, "open the keys of the base table");
	for (place = 0; place < x->fragment_count; place++) {
		to->sources[place] = BASE_NO_SOURCE;
		i = base_find(b, x->fragments[place].id);
		if (!x->fragments[place].is_covered || i == b->source_count ||
		    b->found_by[i] != BASE_NO_KEYS)
			continue;
		to->sources[place] = i;
		b->found_by[i] = number;
	}
	b->keys_count++;
	return OK;
}

struct wanted {				/* the fragments of a segment's bitmap */
	uint32_t count;
	struct key_fragment *fragments;	/* by rising id */
};

static int
compare_wanted(const void *a, const void *b)
{
	const struct key_fragment *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static struct err
find_wanted(const struct keying *k, const struct table_index *entry,
    struct arena *a, struct wanted *w)
{
	const struct base *b = k->base;
	struct deletion *set;
	struct err e;
	uint32_t i;

	w->fragments = arena_calloc(a, MAX(b->source_count, 1u),
	    sizeof(*w->fragments));
	if (w->fragments == NULL)
		return FAIL(NO_MEMORY, "open the keys of the base table");
	e = index_entry_fragments(entry, &set);
	if (err_is(e))
		return e;
	for (i = 0; i < b->source_count; i++) {
		const struct fragment *f = b->sources[i]->fragment;

		if (b->found_by[i] == BASE_NO_KEYS &&
		    deletion_contains(set, (uint32_t)f->id))
			w->fragments[w->count++] = (struct key_fragment){
			    (uint32_t)f->id, f->row_count };
	}
	deletion_free(set);
	qsort(w->fragments, w->count, sizeof(*w->fragments), compare_wanted);
	return OK;
}

/* It is there. */
static const struct fragment *
fragment_of(const struct base *b, uint64_t id)
{
	uint32_t i = base_find(b, id);

	MUST(i < b->source_count);
	return b->sources[i]->fragment;
}

/* A row that is not in the segment must be a deleted one. */
static void
judge(const struct fragment *f, const uint8_t *seen, struct base_fragment *to)
{
	uint64_t row;

	to->is_covered = to->is_whole = true;
	for (row = 0; to->is_covered && row < f->row_count; row++) {
		if ((seen[row / 8] >> row % 8 & 1) != 0)
			continue;
		to->is_whole = false;
		to->is_covered = fragment_is_deleted(f, (uint32_t)row);
	}
}

/* Marks all rows of one place; false if one comes twice. */
static bool
mark_rows(const struct key_index *ix, uint8_t *const *seen, uint32_t count)
{
	uint64_t i;

	for (i = 0; i < key_index_count(ix); i++) {
		uint32_t place = key_index_place(ix, i);
		uint32_t row = key_index_row(ix, i);

		if (place >= count)
			continue;
		if ((seen[place][row / 8] >> row % 8 & 1) != 0)
			return false;
		seen[place][row / 8] |= (uint8_t)(1u << row % 8);
	}
	return true;
}

static struct err
check_cover(const struct keying *k, struct base_index *x, struct arena *a)
{
	uint8_t **seen = arena_calloc(a, x->fragment_count, sizeof(*seen));
	const struct fragment *f;
	uint32_t i;

	for (i = 0; seen != NULL && i < x->fragment_count; i++) {
		f = fragment_of(k->base, x->fragments[i].id);
		seen[i] = arena_calloc(a, f->row_count / 8 + 1, 1);
		if (seen[i] == NULL)
			return FAIL(NO_MEMORY, "check a key index");
	}
	if (seen == NULL)
		return FAIL(NO_MEMORY, "check a key index");
	if (!mark_rows(x->index, seen, x->fragment_count))
		return FAIL(CORRUPT, "a key index with a row twice");
	for (i = 0; i < x->fragment_count; i++)
		judge(fragment_of(k->base, x->fragments[i].id), seen[i],
		    &x->fragments[i]);
	return OK;
}

static struct err
open_segment(const struct keying *k, const struct table_index *entry,
    const struct wanted *w, struct arena *a, struct base_index **out)
{
	struct key_index_paths paths;
	struct base_index *x;
	struct err e;
	uint32_t i;

	e = index_new(w->count, &x);
	if (err_is(e))
		return e;
	x->is_segment = true;
	x->uuid = entry->uuid;
	for (i = 0; i < w->count; i++)
		x->fragments[i].id = w->fragments[i].id;
	key_index_paths_segment(&paths, key_of(k), &entry->uuid);
	e = key_index_open_segment(k->dir, &paths, w->fragments, w->count,
	    &x->index);
	if (!err_is(e))
		e = check_cover(k, x, a);
	if (err_is(e))
		index_drop(x);
	else
		*out = index_opened(x);
	return e;
}

/* Whether all that is deleted in one is deleted in the other. */
static bool
still_deleted(const struct fragment *before, const struct fragment *now)
{
	uint32_t row;

	if (before->deletion == NULL || before == now)
		return true;
	for (row = 0; deletion_next(before->deletion, &row); row++) {
		if (!fragment_is_deleted(now, row))
			return false;
	}
	return true;
}

/* fragment_count: it has none of this fragment. */
static uint32_t
place_of(const struct base_index *x, uint64_t id)
{
	uint32_t low = 0, high = x->fragment_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (x->fragments[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < x->fragment_count && x->fragments[low].id == id ? low :
	    x->fragment_count;
}

/* Whether what was opened for the version before has all of a fragment now: a
 * row that it lacks may not have come back. */
static bool
still_covers(const struct keying *k, const struct base_index *x, uint64_t id)
{
	uint32_t now = base_find(k->base, id), place = place_of(x, id);
	uint32_t before = base_find(k->previous, id);

	if (place == x->fragment_count || !x->fragments[place].is_covered ||
	    now == k->base->source_count || before == k->previous->source_count ||
	    !base_same_fragment(&k->previous->table->fragments[before],
	    &k->base->table->fragments[now]))
		return false;
	return x->fragments[place].is_whole ||
	    still_deleted(k->previous->sources[before]->fragment,
	    k->base->sources[now]->fragment);
}

static struct base_index *
hold_index(struct base_index *x)
{
	atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
	return x;
}

/* What the version before had open of the same segment, or NULL. */
static struct base_index *
take_segment(const struct keying *k, const struct uuid *uuid,
    const struct wanted *w)
{
	uint32_t i, n;

	for (i = 0; k->previous != NULL && i < k->previous->keys_count; i++) {
		struct base_index *x = k->previous->keys[i].opened;

		if (!x->is_segment || !uuid_eq(&x->uuid, uuid))
			continue;
		for (n = 0; n < w->count &&
		    still_covers(k, x, w->fragments[n].id); n++)
			;
		if (n == w->count)
			return hold_index(x);
	}
	return NULL;
}

/* The index that it made of the same fragment, or NULL. */
static struct base_index *
take_keys(const struct keying *k, uint64_t id)
{
	const struct base *b = k->previous;
	uint32_t i = b == NULL ? 0 : base_find(b, id);
	struct base_index *x;

	if (b == NULL || i == b->source_count)
		return NULL;
	x = b->keys[b->found_by[i]].opened;
	return !x->is_segment && still_covers(k, x, id) ? hold_index(x) : NULL;
}

static bool
is_damage(struct err e)
{
	return e.kind == ERR_CORRUPT || e.kind == ERR_NOT_FOUND ||
	    e.kind == ERR_UNSUPPORTED;
}

static struct err
use_segment(struct keying *k, const struct table_index *entry, struct arena *a)
{
	struct base_index *x = NULL;
	struct wanted w = { 0 };
	struct err e = find_wanted(k, entry, a, &w);

	if (!err_is(e) && w.count > 0) {
		x = take_segment(k, &entry->uuid, &w);
		if (x == NULL)
			e = open_segment(k, entry, &w, a, &x);
	}
	if (is_damage(e)) {
		char text[UUID_TEXT_LEN + 1];

		uuid_to_text(&entry->uuid, text);
		log_err(LOG_WARN, e, "index of the key column is damaged, making "
		    "its part in memory until the next fold segment=%s", text);
	} else if (err_is(e)) {
		return e;
	}
	if (x == NULL) {
		k->base->useless[k->base->useless_count++] = entry->uuid;
		return OK;
	}
	e = use_index(k, x);
	if (err_is(e))
		index_drop(x);
	return e;
}

/* The index of a fragment that no segment covers. */
static struct err
make_keys(struct keying *k, uint32_t number)
{
	const struct fragment *f = k->base->sources[number]->fragment;
	struct base_index *x = take_keys(k, f->id);
	struct err e = OK;

	if (x == NULL) {
		e = index_new(1, &x);
		if (err_is(e))
			return e;
		x->fragments[0] = (struct base_fragment){ f->id, true, true };
		e = key_index_build(f, key_of(k), INDEX_BUILD_MAX, &x->index);
		if (!err_is(e))
			index_opened(x);
	}
	if (!err_is(e))
		e = use_index(k, x);
	if (err_is(e))
		index_drop(x);
	return e;
}

struct err
base_keys_open(struct object_dir *dir, const struct store_shape *shape,
    const struct base *previous, struct base *b)
{
	struct keying k = { dir, shape, previous, b };
	const struct table *t = b->table;
	struct arena arena;
	struct err e = OK;
	uint32_t i;

	arena_init(&arena, SIZE_MAX);
	for (i = 0; !err_is(e) && i < t->index_count; i++) {
		arena_reset(&arena);
		if (index_entry_is_segment(t, key_of(&k), &t->indices[i]))
			e = use_segment(&k, &t->indices[i], &arena);
	}
	for (i = 0; !err_is(e) && i < b->source_count; i++) {
		if (b->found_by[i] == BASE_NO_KEYS)
			e = make_keys(&k, i);
	}
	arena_free(&arena);
	return e;
}

void
base_keys_close(struct base *b)
{
	uint32_t i;

	for (i = 0; i < b->keys_count; i++) {
		free(b->keys[i].sources);
		index_drop(b->keys[i].opened);
	}
}
