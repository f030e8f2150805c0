#include "common/base.h"

#include <stdlib.h>

#include "common/buf.h"
#include "worker/lance/bloom.h"
#include "worker/lance/data_file.h"
#include "worker/lance/fragment.h"
#include "worker/lance/key_sort.h"
#include "worker/lance/key_table.h"
#include "worker/object/map.h"

/*
 * A lookup bisects three times over less and less: an array of eight byte
 * samples, one a SAMPLE keys, which fits the cache; then the keys between two
 * samples. The head that all keys have in common is compared once and then left
 * out. Without the samples each step over 1M keys would miss the cache twice.
 */

#define SAMPLE		16u
#define BUILD_ROWS	8192u		/* read at once from a fragment */

struct key_build {
	struct buf bytes;		/* of all keys, in row order */
	struct buf ends;		/* u64 each */
	uint64_t count;
	size_t cap_bytes;
};

static struct slice
key_of(const struct key_page *page, uint64_t i)
{
	uint64_t from = 0, to;

	if (i > 0)
		memcpy(&from, page->ends + 8 * (i - 1), 8);
	memcpy(&to, page->ends + 8 * i, 8);
	return slice_make(page->bytes + from, to - from);
}

static const struct key_page *
page_of(const struct key_index *ix, uint64_t position)
{
	uint32_t low = 0, high = ix->page_count, middle;

	MUST(position < ix->count);
	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (ix->pages[middle].first <= position)
			low = middle;
		else
			high = middle;
	}
	return &ix->pages[low];
}

struct slice
key_index_key(const struct key_index *ix, uint64_t position)
{
	const struct key_page *page = page_of(ix, position);

	return key_of(page, position - page->first);
}

uint32_t
key_index_row(const struct key_index *ix, uint64_t position)
{
	MUST(position < ix->count);
	return ix->rows[position];
}

uint32_t
key_index_place(const struct key_index *ix, uint64_t position)
{
	MUST(position < ix->count);
	return ix->places == NULL ? 0 : ix->places[position];
}

/* How many samples are below v. */
static uint64_t
samples_below(const struct key_index *ix, uint64_t v)
{
	uint64_t low = 0, count = ix->sample_count, half;

	/* No branch depends on the comparison: none of them can be foreseen. */
	while (count > 1) {
		half = count / 2;
		low = ix->samples[low + half - 1] < v ? low + half : low;
		count -= half;
	}
	return low + (count == 1 && ix->samples[low] < v);
}

/* How the key compares with the head of all keys: 0, it has it. */
static int
compare_head(const struct key_index *ix, struct slice key)
{
	struct slice head = { key_of(&ix->pages[0], 0).ptr, ix->head };

	return slice_cmp(slice_make(key.ptr, MIN(key.len, ix->head)), head);
}

uint64_t
key_index_seek(const struct key_index *ix, struct slice key)
{
	uint64_t low, high, middle, prefix, below, above;
	int c;

	if (ix->count == 0)
		return 0;
	c = compare_head(ix, key);
	if (c != 0)
		return c < 0 ? 0 : ix->count;

	/* The sample before `below` is less than the key, the one at high is
	 * greater or there is none. */
	prefix = key_prefix(key, ix->head);
	below = samples_below(ix, prefix);
	low = below == 0 ? 0 : (below - 1) * SAMPLE;
	/* Nearly always there is no equal one. */
	above = below;
	if (below < ix->sample_count && ix->samples[below] == prefix)
		above = prefix == UINT64_MAX ? ix->sample_count :
		    samples_below(ix, prefix + 1);
	high = MIN(above * SAMPLE, ix->count);
	while (low < high) {
		middle = low + (high - low) / 2;
		if (slice_cmp(key_index_key(ix, middle), key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool
key_index_find(const struct key_index *ix, struct slice key, uint64_t hash,
    struct span *positions)
{
	uint64_t first, end;

	if (ix->count == 0 || !bloom_may_have(ix->filter, ix->filter_bytes, hash))
		return false;
	first = end = key_index_seek(ix, key);
	while (end < ix->count && slice_eq(key_index_key(ix, end), key)) {
		end++;
		if (ix->unique)
			break;
	}
	if (end == first)
		return false;
	*positions = (struct span){ first, end - first };
	return true;
}

struct err
key_table_new(uint64_t count, uint32_t page_count, struct key_index **out)
{
	struct key_index *ix = calloc(1, sizeof(*ix));

	if (ix == NULL)
		return FAIL(NO_MEMORY, "key index");
	ix->count = count;
	ix->page_count = page_count;
	ix->sample_count = (count + SAMPLE - 1) / SAMPLE;
	ix->pages = calloc(MAX(page_count, 1u), sizeof(*ix->pages));
	ix->rows = calloc(MAX(count, 1u), sizeof(*ix->rows));
	ix->samples = calloc(MAX(ix->sample_count, 1u), sizeof(*ix->samples));
	if (ix->pages == NULL || ix->rows == NULL || ix->samples == NULL) {
		key_index_close(ix);
		return FAIL(NO_MEMORY, "key index");
	}
	*out = ix;
	return OK;
}

struct err
key_table_own_filter(struct key_index *ix, size_t bytes)
{
	ix->own_filter = calloc(1, bytes);
	if (ix->own_filter == NULL)
		return FAIL(NO_MEMORY, "key filter");
	ix->filter = ix->own_filter;
	ix->filter_bytes = bytes;
	return OK;
}

static struct err
scan_page(struct key_index *ix, const struct key_page *page,
    struct slice *before)
{
	uint64_t i, at = page->first;
	struct slice key;
	int c;

	for (i = 0; i < page->count; i++, at++) {
		key = key_of(page, i);
		c = at == 0 ? -1 : slice_cmp(*before, key);
		/* The engine sorts a segment by key alone. */
		if (c > 0 || (c == 0 && ix->places == NULL &&
		    ix->rows[at - 1] >= ix->rows[at]))
			return FAIL(CORRUPT, "a key index out of order");
		if (c == 0)
			ix->unique = false;
		if (ix->own_filter != NULL)
			bloom_add(ix->own_filter, ix->filter_bytes, bloom_hash(key));
		else
			ix->filter_is_whole &= bloom_may_have(ix->filter,
			    ix->filter_bytes, bloom_hash(key));
		*before = key;
	}
	return OK;
}

struct err
key_table_scan(struct key_index *ix)
{
	struct slice before = { NULL, 0 };
	struct err e;
	uint64_t i;

	ix->unique = ix->filter_is_whole = true;
	for (i = 0; i < ix->page_count; i++) {
		e = scan_page(ix, &ix->pages[i], &before);
		if (err_is(e))
			return e;
	}
	if (ix->count == 0)
		return OK;
	/* They are in order: what the ends have in common, all have. */
	ix->head = key_common(key_index_key(ix, 0), before, SIZE_MAX);
	for (i = 0; i < ix->sample_count; i++)
		ix->samples[i] = key_prefix(key_index_key(ix, i * SAMPLE), ix->head);
	return OK;
}

struct err
key_build_start(size_t cap_bytes, struct key_build **out)
{
	struct key_build *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return FAIL(NO_MEMORY, "build a key index");
	b->cap_bytes = cap_bytes;
	buf_init(&b->bytes, cap_bytes);
	buf_init(&b->ends, cap_bytes);
	*out = b;
	return OK;
}

/* Keys stand twice while they are copied in order; buffers are at most twice
 * as large as what is in them. */
static bool
is_within_cap(const struct key_build *b, struct slice key)
{
	uint64_t bytes = 3ull * (b->bytes.len + key.len);
	uint64_t each = 3 * sizeof(uint64_t) + sizeof(uint32_t) + KEY_SORT_BYTES;

	return bytes + each * (b->count + 1) <= b->cap_bytes;
}

struct err
key_build_add(struct key_build *b, const struct array *keys)
{
	struct slice key;
	uint64_t i, end;

	for (i = 0; i < keys->length; i++) {
		if (array_is_null(keys, i))
			return FAIL(CORRUPT, "a row without a key");
		key = array_slice(keys, i);
		if (!is_within_cap(b, key) || b->count == UINT32_MAX)
			return FAIL(NO_MEMORY, "keys of a source exceed their cap");
		end = b->bytes.len + key.len;
		if (!buf_append_slice(&b->bytes, key) ||
		    !buf_append(&b->ends, &end, sizeof(end)))
			return FAIL(NO_MEMORY, "build a key index");
		b->count++;
	}
	return OK;
}

/* The keys once more, in order: what a lookup touches lies together. */
static struct err
copy_sorted(struct key_index *ix, const struct key_list *keys)
{
	struct slice key;
	uint64_t i, at = 0;

	ix->own_bytes = malloc(MAX(keys->count == 0 ? 0 :
	    keys->ends[keys->count - 1], 1u));
	ix->own_ends = malloc(MAX(keys->count, 1u) * sizeof(*ix->own_ends));
	if (ix->own_bytes == NULL || ix->own_ends == NULL)
		return FAIL(NO_MEMORY, "build a key index");
	for (i = 0; i < keys->count; i++) {
		key = key_list_at(keys, ix->rows[i]);
		if (key.len > 0)
			memcpy(ix->own_bytes + at, key.ptr, key.len);
		at += key.len;
		ix->own_ends[i] = at;
	}
	ix->pages[0] = (struct key_page){ 0, keys->count,
		(const uint8_t *)ix->own_ends, ix->own_bytes };
	return OK;
}

struct err
key_build_end(struct key_build *b, struct key_index **out)
{
	struct key_list keys = { b->count, b->bytes.ptr,
		(const uint64_t *)(const void *)b->ends.ptr };
	struct key_index *ix;
	struct err e;

	e = key_table_new(b->count, 1, &ix);
	if (err_is(e)) {
		key_build_abort(b);
		return e;
	}
	e = key_sort(&keys, ix->rows);
	if (!err_is(e))
		e = copy_sorted(ix, &keys);
	key_build_abort(b);
	if (!err_is(e))
		e = key_table_own_filter(ix, bloom_size_bytes(ix->count));
	if (!err_is(e))
		e = key_table_scan(ix);
	if (err_is(e))
		key_index_close(ix);
	else
		*out = ix;
	return e;
}

void
key_build_abort(struct key_build *b)
{
	if (b == NULL)
		return;
	buf_free(&b->bytes);
	buf_free(&b->ends);
	free(b);
}

struct keys_of {			/* a fragment, run by run */
	const struct fragment *fragment;
	const struct arrow_field *key;
	struct key_build *build;
	struct arena arena;
	struct span rows;
};

/* A marked read. */
static struct err
add_run(void *ctx)
{
	struct keys_of *k = ctx;
	struct array keys;
	struct err e;

	e = fragment_read_field(k->fragment, k->key, k->rows, &k->arena, &keys);
	return err_is(e) ? e : key_build_add(k->build, &keys);
}

struct err
key_index_build(const struct fragment *f, const struct arrow_field *key,
    size_t cap_bytes, struct key_index **out)
{
	struct keys_of k = { .fragment = f, .key = key };
	struct err e;

	e = key_build_start(cap_bytes, &k.build);
	if (err_is(e))
		return e;
	arena_init(&k.arena, cap_bytes);
	for (; !err_is(e) && k.rows.first < f->row_count;
	    k.rows.first += k.rows.count) {
		k.rows.count = MIN(f->row_count - k.rows.first, BUILD_ROWS);
		arena_reset(&k.arena);
		e = object_map_guarded(add_run, &k);
	}
	if (e.kind == ERR_CORRUPT)
		e.what = "key column cannot be read";	/* not in our arena */
	arena_free(&k.arena);
	if (err_is(e)) {
		key_build_abort(k.build);
		return e;
	}
	return key_build_end(k.build, out);
}

void
key_index_close(struct key_index *ix)
{
	if (ix == NULL)
		return;
	data_file_close(ix->file);
	if (ix->filter_map.ptr != NULL)
		object_map_close(&ix->filter_map);
	free(ix->pages);
	free(ix->rows);
	free(ix->places);
	free(ix->samples);
	free(ix->own_bytes);
	free(ix->own_ends);
	free(ix->own_filter);
	free(ix);
}

size_t
key_index_bytes(const struct key_index *ix)
{
	size_t bytes = sizeof(*ix) + ix->page_count * sizeof(*ix->pages) +
	    ix->count * sizeof(*ix->rows) + ix->sample_count * sizeof(*ix->samples);

	if (ix->places != NULL)
		bytes += ix->count * sizeof(*ix->places);
	if (ix->file != NULL)
		bytes += data_file_bytes(ix->file);
	if (ix->own_filter != NULL)
		bytes += ix->filter_bytes;
	if (ix->own_ends != NULL && ix->count > 0)
		bytes += ix->count * sizeof(*ix->own_ends) +
		    ix->own_ends[ix->count - 1];
	return bytes;
}
