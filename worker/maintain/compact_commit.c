#include "common/base.h"

#include "common/fault.h"
#include "common/log.h"
#include "worker/maintain/compact_parts.h"
#include "worker/maintain/key_segment.h"

/* What became of the chosen fragments in one version. */
struct effect {
	struct compaction *c;
	struct arena *arena;
	struct compact_cover cover;	/* of that version */
	struct deletion *masked;	/* rows of the new fragment; NULL: none */
	uint64_t *removed;
	uint32_t removed_count;
	uint32_t deletion_files;	/* of those removed */
};

static const struct arrow_field *
key_of(const struct compaction *c)
{
	const struct store_shape *shape = c->aged->shape;

	return &shape->schema.fields[shape->key];
}

static struct err
mask(struct effect *x, uint32_t row)
{
	struct err e = OK;

	if (x->masked == NULL)
		e = deletion_new(&x->masked);
	if (!err_is(e))
		deletion_add(x->masked, row);
	return e;
}

/* Whether the fragment is what it was, but for rows that were deleted; rows do
 * come back when somebody restores an old version. */
static bool
is_same(const struct effect *x, uint32_t chosen, uint32_t now)
{
	const struct compaction *c = x->c;
	const struct fragment *f = c->base->sources[chosen]->fragment;
	uint32_t row;

	if (now == c->now->source_count ||
	    !base_same_fragment(&c->base->table->fragments[chosen],
	    &c->now->table->fragments[now]) ||
	    compact_covers(&x->cover, f->id))
		return false;
	for (row = 0; f->deletion != NULL && deletion_next(f->deletion, &row);
	    row++) {
		if (!fragment_is_deleted(c->now->sources[now]->fragment, row))
			return false;
	}
	return true;
}

/* Of one chosen fragment what must not be seen in the new one: what was deleted
 * since, or all of it, if it is not the one that was rewritten. */
static struct err
meet(struct effect *x, uint32_t chosen)
{
	const struct compaction *c = x->c;
	const struct fragment *f = c->base->sources[chosen]->fragment;
	uint32_t now = base_find(c->now, f->id), row;
	bool same = is_same(x, chosen, now);
	const uint32_t *moved = c->moved[chosen];
	struct err e = OK;

	for (row = 0; !err_is(e) && row < f->row_count; row++) {
		if (moved[row] != COMPACT_NOT_MOVED && (!same ||
		    fragment_is_deleted(c->now->sources[now]->fragment, row)))
			e = mask(x, moved[row]);
	}
	if (same) {
		x->removed[x->removed_count++] = f->id;
		x->deletion_files += c->now->sources[now]->fragment->deletion !=
		    NULL;
	}
	return e;
}

static struct err
meet_all(struct effect *x)
{
	const struct compaction *c = x->c;
	struct err e;
	uint32_t i;

	x->removed = arena_calloc(x->arena, c->chosen_count,
	    sizeof(*x->removed));
	if (x->removed == NULL)
		return FAIL(NO_MEMORY, "replace fragments");
	e = compact_cover_of(c->now->table, key_of(c), &x->cover);
	for (i = 0; !err_is(e) && i < c->base->source_count; i++) {
		if (c->chosen[i])
			e = meet(x, i);
	}
	return e;
}

static struct err
add_fragment(struct effect *x, struct commit_edit *edit)
{
	struct compaction *c = x->c;
	struct table_fragment *added = arena_calloc(x->arena, 1,
	    sizeof(*added));
	struct err e = OK;

	if (added == NULL)
		return FAIL(NO_MEMORY, "replace fragments");
	*added = c->file.fragment;
	if (x->masked != NULL)
		e = deletion_write(c->aged->dir,
		    c->now->table->next_fragment_id, c->now->table->version,
		    x->masked, &added->deletion);
	edit->added = added;
	edit->added_count = 1;
	return err_is(e) ? e : key_segment_add(c->aged, c->now, c->file.keys,
	    x->arena, edit);
}

static void
count(struct effect *x, const struct commit_edit *edit)
{
	struct compact_result *to = &x->c->counts;
	uint32_t i;

	*to = (struct compact_result){ .passes = 1,
		.fragments_removed = edit->removed_count,
		.fragments_added = edit->added_count,
		.files_removed = x->deletion_files,
		.files_added = edit->added_count * (x->masked == NULL ? 1 : 2),
	};
	for (i = 0; i < edit->removed_count; i++)
		to->files_removed += table_fragment_find(x->c->now->table,
		    edit->removed[i])->file_count;
}

static struct err
make_edit(struct effect *x, struct commit_edit *edit)
{
	struct compaction *c = x->c;
	uint64_t masked, rows = c->file.fragment.row_count;
	struct err e;

	e = meet_all(x);
	if (err_is(e))
		return e;
	masked = x->masked == NULL ? 0 : deletion_count(x->masked);
	if (x->removed_count == 0 || (masked > rows / 2 && masked < rows))
		return FAIL(CONFLICT, "others changed most of what was "
		    "compacted");
	edit->operation = COMMIT_REWRITE;
	edit->removed = x->removed;
	edit->removed_count = x->removed_count;
	if (masked < rows)
		e = add_fragment(x, edit);
	if (!err_is(e))
		count(x, edit);
	return e;
}

/* The base as it is now, with what is open of the version before. */
static struct err
look_at(struct compaction *c, uint64_t version)
{
	struct base *before = c->now;
	struct table *table;
	struct err e;

	if (before == NULL)
		before = base_hold(c->base);
	c->now = before;
	if (before->table->version == version)
		return OK;
	e = table_load_version(c->aged->dir, version, &c->arena, &table);
	if (!err_is(e))
		e = base_open(c->aged->dir, c->aged->shape, table, before,
		    &c->now);
	if (!err_is(e))
		base_drop(before);
	return e;
}

static struct err
build(const struct table *newest, struct arena *arena,
    struct commit_edit *edit, void *ctx)
{
	struct compaction *c = ctx;
	struct effect x = { .c = c, .arena = arena };
	struct err e;

	e = aged_check_table(c->aged, newest);
	if (!err_is(e))
		e = aged_check(c->aged);
	if (!err_is(e))
		e = look_at(c, newest->version);
	if (err_is(e))
		return e;
	e = make_edit(&x, edit);
	deletion_free(x.masked);
	deletion_free(x.cover.ids);
	if (!err_is(e))
		e = FAULT(compact_commit);
	return err_is(e) ? e : merged_file_check(c->aged, &c->file);
}

struct err
compact_commit(struct compaction *c)
{
	return commit_run(c->aged->dir, build, c, &c->arena, &c->committed);
}
