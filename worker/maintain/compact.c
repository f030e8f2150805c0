#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/view.h"
#include "worker/maintain/compact_parts.h"
#include "worker/maintain/fold_budget.h"
#include "worker/object/local.h"

/* A bound, not an aim: each pass leaves fewer fragments, or fewer masked rows,
 * unless others add some meanwhile. */
#define PASSES_MAX	1024u

const struct compact_wish compact_by_itself = {
	.target_rows = COMPACT_ROWS, .masked = true,
};

/* ---- counts in a word: 20 and 12 bits, twice */

#define REMOVED_MAX	((1u << 20) - 1)
#define ADDED_MAX	((1u << 12) - 1)

uint64_t
compact_pack(const struct compact_result *r)
{
	return (uint64_t)MIN(r->fragments_removed, REMOVED_MAX) << 44 |
	    (uint64_t)MIN(r->fragments_added, ADDED_MAX) << 32 |
	    (uint64_t)MIN(r->files_removed, REMOVED_MAX) << 12 |
	    (uint64_t)MIN(r->files_added, ADDED_MAX);
}

struct compact_result
compact_unpack(uint64_t word)
{
	return (struct compact_result){
		.fragments_removed = (uint32_t)(word >> 44) & REMOVED_MAX,
		.fragments_added = (uint32_t)(word >> 32) & ADDED_MAX,
		.files_removed = (uint32_t)(word >> 12) & REMOVED_MAX,
		.files_added = (uint32_t)word & ADDED_MAX,
	};
}

/* ---- the new fragment */

/* A data file of a fragment, by its name. */
static struct err
open_file(void *ctx, const struct source *s, uint32_t file, int *fd)
{
	const struct compaction *c = ctx;
	const struct table_fragment *f =
	    table_fragment_find(c->base->table, s->number);
	char name[OBJECT_NAME_MAX];
	uint64_t size;

	MUST(f != NULL && file < f->file_count);
	/* It was opened by this name: it fits. */
	MUST((size_t)snprintf(name, sizeof(name), "data/%.*s",
	    (int)f->files[file].path.len, f->files[file].path.ptr) <
	    sizeof(name));
	return object_entry_open(c->aged->dir, name, fd, &size);
}

static struct err
step(void *ctx)
{
	const struct compaction *c = ctx;
	struct err e = FAULT(compact_prepare);

	return err_is(e) ? e : aged_check(c->aged);
}

static void
took(void *ctx, const struct merge_row *row)
{
	struct compaction *c = ctx;
	uint32_t source = base_find(c->base, row->source->number);

	MUST(source < c->base->source_count && c->chosen[source]);
	MUST(c->row_count < COMPACT_NOT_MOVED);
	c->moved[source][row->row] = c->row_count++;
}

/* All columns that the table has, not those of the store alone. */
static struct err
key_of(const struct compaction *c, uint32_t *key)
{
	const struct store_shape *shape = c->aged->shape;
	const struct arrow_schema *schema = &c->base->table->schema;
	uint32_t i;

	for (i = 0; i < schema->field_count; i++) {
		if (schema->fields[i].id ==
		    shape->schema.fields[shape->key].id) {
			*key = i;
			return OK;
		}
	}
	return FAIL(CORRUPT, "table without its key column");
}

static struct err
write_fragment(struct compaction *c)
{
	struct merged_input in = { .aged = c->aged,
	    .schema = &c->base->table->schema, .open = open_file,
	    .step = step, .took = took, .ctx = c };
	struct err e;

	e = key_of(c, &in.key);
	if (!err_is(e))
		e = merge_new(c->aged->shape, c->base->keys_count, &in.merge);
	if (err_is(e))
		return e;
	merge_keep_all(in.merge);
	merge_add_base_some(in.merge, c->base, c->chosen);
	e = FAULT(compact_write);
	if (!err_is(e))
		e = merged_file_write(&in, &c->arena, &c->file);
	merge_free(in.merge);
	return e;
}

/* ---- passes */

static struct err
open_base(struct compaction *c, const struct base *before)
{
	struct table *newest;
	struct err e;

	e = table_load(c->aged->dir, &c->arena, &newest);
	if (err_is(e))
		return e;
	e = table_writable(newest);
	if (!err_is(e))
		e = aged_check_table(c->aged, newest);
	if (err_is(e)) {
		table_free(newest);
		return e;
	}
	return base_open(c->aged->dir, c->aged->shape, newest, before,
	    &c->base);
}

static struct err
write_and_commit(struct compaction *c)
{
	struct err e = write_fragment(c);

	if (!err_is(e))
		e = aged_check(c->aged);
	if (!err_is(e))
		e = compact_commit(c);
	if (err_is(e)) {
		merged_file_remove(c->aged, &c->file, e);
		return e;
	}
	FAULT_HERE(compact_publish);
	return shm_view_raise(c->aged->ref, c->committed.version, NULL, 0,
	    NULL);
}

static void
add_counts(struct compact_result *to, const struct compact_result *more)
{
	to->passes += more->passes;
	to->fragments_removed += more->fragments_removed;
	to->fragments_added += more->fragments_added;
	to->files_removed += more->files_removed;
	to->files_added += more->files_added;
}

/* base: in: of the pass before, or NULL; out: of this one. */
static struct err
pass(struct aged_store *a, const struct compact_wish *wish, struct base **base,
    struct compact_result *result, bool *more)
{
	struct compaction c = { .aged = a, .wish = wish };
	struct fold_budget budget = { .slot = false };
	struct err e;

	arena_init(&c.arena, COMPACT_ARENA_MAX);
	e = open_base(&c, *base);
	if (!err_is(e))
		e = compact_choose(&c);
	*more = !err_is(e) && c.chosen_count > 0;
	if (*more)
		e = fold_budget_slot(&budget, a);
	if (*more && !err_is(e))
		e = fold_budget_memory(&budget, a, c.chosen_bytes);
	if (*more && !err_is(e))
		e = write_and_commit(&c);
	fold_budget_give(&budget);
	if (*more && !err_is(e))
		add_counts(result, &c.counts);
	key_index_close(c.file.keys);
	base_drop(c.now);
	base_drop(*base);
	*base = c.base;
	e = aged_keep(a, e);		/* its text may be in c.arena */
	arena_free(&c.arena);
	return e;
}

struct err
compact_store(struct aged_store *a, const struct compact_wish *wish,
    struct compact_result *result)
{
	uint64_t began = clock_mono_ns();
	struct base *base = NULL;
	uint32_t passes = 0;
	bool more = true;
	struct err e;

	MUST(wish->target_rows > 0);
	*result = (struct compact_result){ .passes = 0 };
	do {
		e = aged_check(a);
		if (!err_is(e))
			e = pass(a, wish, &base, result, &more);
	} while (!err_is(e) && more && ++passes < PASSES_MAX);
	base_drop(base);
	if (result->passes > 0)
		shm_metric_observe(METRIC_rollout_compaction_duration_seconds,
		    0, clock_mono_ns() - began);
	return e;
}
