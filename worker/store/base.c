#include "common/base.h"

#include <stdlib.h>

#include "worker/store/base_keys.h"
#include "worker/store/opened.h"

static int
compare_ids(const void *a, const void *b, void *ctx)
{
	const struct table_fragment *f = ctx;
	uint64_t x = f[*(const uint32_t *)a].id, y = f[*(const uint32_t *)b].id;

	return x < y ? -1 : x > y;
}

static void
sort_ids(struct base *b)
{
	uint32_t i, count = b->table->fragment_count;

	for (i = 0; i < count; i++)
		b->by_id[i] = i;
	qsort_r(b->by_id, count, sizeof(*b->by_id), compare_ids,
	    (void *)(uintptr_t)b->table->fragments);
}

uint32_t
base_find(const struct base *b, uint64_t id)
{
	uint32_t low = 0, high = b->table->fragment_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (b->table->fragments[b->by_id[middle]].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < b->table->fragment_count &&
	    b->table->fragments[b->by_id[low]].id == id ? b->by_id[low] :
	    b->table->fragment_count;
}

bool
base_same_fragment(const struct table_fragment *a, const struct table_fragment *b)
{
	uint32_t i;

	if (a->id != b->id || a->row_count != b->row_count ||
	    a->file_count != b->file_count)
		return false;
	for (i = 0; i < a->file_count; i++) {
		const struct table_file *f = &a->files[i], *g = &b->files[i];

		if (!slice_eq(f->path, g->path) ||
		    f->field_count != g->field_count ||
		    memcmp(f->fields, g->fields,
		    f->field_count * sizeof(*f->fields)) != 0)
			return false;
	}
	return true;
}

static bool
same_deletion(const struct table_deletion *a, const struct table_deletion *b)
{
	return a->kind == b->kind && a->read_version == b->read_version &&
	    a->id == b->id;
}

/* The fragment of the version before with these files, or source_count. */
static uint32_t
find_before(const struct base *previous, const struct table_fragment *f)
{
	uint32_t i = base_find(previous, f->id);

	return i < previous->source_count &&
	    base_same_fragment(&previous->table->fragments[i], f) ? i :
	    previous->source_count;
}

static struct err
open_fragments(struct object_dir *dir, const struct store_shape *shape,
    const struct base *previous, struct base *b)
{
	uint32_t i, at;
	struct err e;

	for (i = 0; i < b->table->fragment_count; i++) {
		const struct table_fragment *f = &b->table->fragments[i];

		at = previous == NULL ? 0 : find_before(previous, f);
		if (previous != NULL && at < previous->source_count &&
		    same_deletion(&previous->table->fragments[at].deletion,
		    &f->deletion)) {
			b->sources[i] = source_hold(previous->sources[at]);
		} else {
			e = source_open_fragment(dir, shape, f, &b->sources[i]);
			if (err_is(e))
				return e;
		}
		b->source_count = i + 1;
	}
	return OK;
}

struct err
base_open(struct object_dir *dir, const struct store_shape *shape,
    struct table *table, const struct base *previous, struct base **out)
{
	struct base *b = calloc(1, sizeof(*b));
	uint32_t count = table->fragment_count;
	struct err e;

	if (b == NULL) {
		table_free(table);
		return FAIL(NO_MEMORY, "open the base table");
	}
	atomic_init(&b->refs, 1);
	b->table = table;
	b->sources = calloc(MAX(count, 1u), sizeof(*b->sources));
	b->keys = calloc(count + table->index_count + 1, sizeof(*b->keys));
	b->useless = calloc(table->index_count + 1, sizeof(*b->useless));
	b->by_id = calloc(MAX(count, 1u), sizeof(*b->by_id));
	b->found_by = calloc(MAX(count, 1u), sizeof(*b->found_by));
	e = b->sources == NULL || b->keys == NULL || b->useless == NULL ||
	    b->by_id == NULL || b->found_by == NULL ?
	    FAIL(NO_MEMORY, "open the base table") : OK;
	if (!err_is(e)) {
		sort_ids(b);
		memset(b->found_by, 0xff, count * sizeof(*b->found_by));
		e = open_fragments(dir, shape, previous, b);
	}
	if (!err_is(e))
		e = base_keys_open(dir, shape, previous, b);
	if (err_is(e)) {
		base_drop(b);
		return e;
	}
	b->bytes = sizeof(*b) + table->arena.total_bytes + count *
	    (sizeof(struct source *) + 2 * sizeof(uint32_t)) +
	    b->keys_count * sizeof(*b->keys);
	opened_add(OPENED_SOURCE_BYTES, b->bytes);
	*out = b;
	return OK;
}

struct base *
base_hold(struct base *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

void
base_drop(struct base *b)
{
	uint32_t i;

	if (b == NULL)
		return;
	if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
		return;
	opened_sub(OPENED_SOURCE_BYTES, b->bytes);
	base_keys_close(b);
	for (i = 0; i < b->source_count; i++)
		source_drop(b->sources[i]);
	free(b->keys);
	free(b->useless);
	free(b->by_id);
	free(b->found_by);
	free(b->sources);
	table_free(b->table);
	free(b);
}
