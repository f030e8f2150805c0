#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "worker/lance/bloom.h"
#include "worker/lance/deletion.h"
#include "worker/lance/key_index.h"
#include "worker/maintain/fold_parts.h"
#include "worker/object/map.h"
#include "worker/store/merge_sources.h"
#include "worker/store/reload.h"

/* What the new rows do to the rows of one base version. */
struct effect {
	struct fold *fold;
	struct arena *arena;
	struct arena scratch;
	struct deletion **replaced;	/* one a base source; NULL: unchanged */
	struct deletion *losers;	/* rows of the new fragment; NULL: none */
};

static struct err
mask(struct deletion **set, const struct deletion *before, uint32_t row)
{
	struct err e = OK;

	if (*set == NULL)
		e = before == NULL ? deletion_new(set) :
		    deletion_copy(before, set);
	if (!err_is(e))
		deletion_add(*set, row);
	return e;
}

/*
 * One new row against the rows of its key in one index of the base. The base
 * may hold a key twice (other engines append), so all of them are looked at.
 */
static struct err
meet(struct effect *x, const struct merge_row *added,
    const struct base_keys *keys, uint64_t hash)
{
	const struct base *b = x->fold->base;
	struct merge_row old = { .key = added->key };
	struct span at;
	struct err e = OK;
	uint32_t source;
	uint64_t i;
	int order;

	if (!key_index_find(keys->index, added->key, hash, &at))
		return OK;
	for (i = at.first; !err_is(e) && i < at.first + at.count; i++) {
		if (!base_row(b, keys, i, &source, &old.row))
			continue;
		old.source = b->sources[source];
		arena_reset(&x->scratch);
		e = merge_compare(x->fold->aged->shape, added, &old,
		    &x->scratch, &order);
		if (err_is(e))
			break;
		/* Equal in everything: the base row stays. */
		e = order > 0 ? mask(&x->replaced[source],
		    old.source->fragment->deletion, old.row) :
		    mask(&x->losers, NULL, added->row);
	}
	return e;
}

static struct err
probe_guarded(void *ctx)
{
	struct effect *x = ctx;
	const struct source *added = x->fold->added;
	const struct key_index *keys = x->fold->file.keys;
	uint64_t i, count = key_index_count(keys);
	struct err e = OK;
	uint32_t k;

	for (i = 0; !err_is(e) && i < count; i++) {
		struct merge_row row = {
			.key = key_index_key(keys, i),
			.source = added,
			.row = key_index_row(keys, i),
		};
		uint64_t hash = bloom_hash(row.key);

		for (k = 0; !err_is(e) && k < x->fold->base->keys_count; k++)
			e = meet(x, &row, &x->fold->base->keys[k], hash);
	}
	return e;
}

/* It looks at a value here and there. */
static struct err
probe(struct effect *x)
{
	const struct base *b = x->fold->base;
	struct err e;
	uint32_t i;

	for (i = 0; i < b->source_count; i++)
		fragment_sparse(b->sources[i]->fragment, true);
	e = object_map_guarded(probe_guarded, x);
	for (i = 0; i < b->source_count; i++)
		fragment_sparse(b->sources[i]->fragment, false);
	return e;
}

/* Deletion files of the base fragments that lose rows; a fragment that loses
 * all of them goes. */
static struct err
write_deletions(struct effect *x, struct commit_edit *edit)
{
	struct base *b = x->fold->base;
	struct commit_deletion *deletions;
	uint64_t *removed;
	struct err e;
	uint32_t i;

	deletions = arena_calloc(x->arena, MAX(b->source_count, 1u),
	    sizeof(*deletions));
	removed = arena_calloc(x->arena, MAX(b->source_count, 1u),
	    sizeof(*removed));
	if (deletions == NULL || removed == NULL)
		return FAIL(NO_MEMORY, "replace rows");
	for (i = 0; i < b->source_count; i++) {
		const struct fragment *f = b->sources[i]->fragment;
		struct commit_deletion *d;

		if (x->replaced[i] == NULL)
			continue;
		if (deletion_count(x->replaced[i]) == f->row_count) {
			removed[edit->removed_count++] = f->id;
			continue;
		}
		d = &deletions[edit->deletion_count++];
		d->fragment_id = f->id;
		e = deletion_write(x->fold->aged->dir, f->id,
		    b->table->version, x->replaced[i], &d->deletion);
		if (err_is(e))
			return e;
	}
	edit->deletions = deletions;
	edit->removed = removed;
	return OK;
}

static struct err
add_fragment(struct effect *x, struct commit_edit *edit)
{
	struct fold *f = x->fold;
	struct table_fragment *added;

	if (x->losers != NULL &&
	    deletion_count(x->losers) == f->file.fragment.row_count)
		return OK;		/* every row was overtaken */
	added = arena_calloc(x->arena, 1, sizeof(*added));
	if (added == NULL)
		return FAIL(NO_MEMORY, "add a fragment");
	*added = f->file.fragment;
	edit->added = added;
	edit->added_count = 1;
	if (x->losers == NULL)
		return OK;
	return deletion_write(f->aged->dir,
	    f->base->table->next_fragment_id, f->base->table->version,
	    x->losers, &added->deletion);
}

static struct err
add_progress(struct effect *x, struct commit_edit *edit)
{
	struct fold *f = x->fold;
	struct table_progress *progress;
	struct arrow_pair *meta;
	uint64_t before;
	char *key;

	progress = arena_calloc(x->arena, 1, sizeof(*progress));
	meta = arena_calloc(x->arena, 1, sizeof(*meta));
	key = arena_alloc(x->arena, META_MAX_SEQ_KEY_MAX);
	if (progress == NULL || meta == NULL || key == NULL)
		return FAIL(NO_MEMORY, "note progress");
	*progress = (struct table_progress){ f->uuid, f->up_to };
	edit->progress = progress;
	edit->progress_count = 1;
	reload_max_seq_key(&f->uuid, key);
	before = reload_sequence(f->base->table, slice_of(key));
	meta->key = slice_of(key);
	meta->value = slice_of(arena_printf(x->arena, "%llu",
	    (unsigned long long)MAX(before, f->max_sequence)));
	edit->metadata = meta;
	edit->metadata_count = 1;
	return OK;
}

static struct err
delete_keys(struct effect *x, struct commit_edit *edit)
{
	uint64_t began = clock_mono_ns();
	struct err e;

	x->fold->commit_phase = METRIC_FOLD_PHASE_DELETE_KEYS;
	e = probe(x);
	if (!err_is(e))
		e = write_deletions(x, edit);
	if (err_is(e))
		return e;
	x->fold->delete_keys_ns += clock_mono_ns() - began;
	x->fold->commit_phase = METRIC_FOLD_PHASE_APPEND;
	return OK;
}

static struct err
make_edit(struct effect *x, struct commit_edit *edit)
{
	struct err e = OK;

	edit->operation = COMMIT_UPDATE;
	if (x->fold->added != NULL) {
		e = delete_keys(x, edit);
		if (!err_is(e))
			e = add_fragment(x, edit);
		if (!err_is(e) && edit->added_count > 0)
			e = key_segment_add(x->fold->aged, x->fold->base,
			    x->fold->file.keys, x->arena, edit);
	}
	return err_is(e) ? e : add_progress(x, edit);
}

/* The base as it is now, with what was open of the version before. */
static struct err
look_at(struct fold *f, uint64_t version)
{
	struct base *before = f->base, *now;
	struct table *table;
	struct err e;

	if (before != NULL && before->table->version == version)
		return OK;
	e = table_load_version(f->aged->dir, version, &f->arena, &table);
	if (!err_is(e))
		e = base_open(f->aged->dir, f->aged->shape, table, before,
		    &now);
	if (err_is(e))
		return e;
	base_drop(before);
	f->base = now;
	return OK;
}

static struct err
build(const struct table *newest, struct arena *arena,
    struct commit_edit *edit, void *ctx)
{
	struct fold *f = ctx;
	struct effect x = { .fold = f, .arena = arena };
	struct err e;
	uint32_t i;

	e = aged_check_table(f->aged, newest);
	if (err_is(e))
		return e;
	/* Folded already, by us before a crash or by another instance. */
	if (table_progress_of(newest, &f->uuid) >= f->up_to) {
		edit->operation = COMMIT_NOTHING;
		return OK;
	}
	e = aged_check(f->aged);
	if (!err_is(e))
		e = look_at(f, newest->version);
	if (err_is(e))
		return e;
	arena_init(&x.scratch, FOLD_ARENA_MAX);
	x.replaced = arena_calloc(arena, MAX(f->base->source_count, 1u),
	    sizeof(*x.replaced));
	e = x.replaced == NULL ? FAIL(NO_MEMORY, "replace rows") :
	    make_edit(&x, edit);
	for (i = 0; x.replaced != NULL && i < f->base->source_count; i++)
		deletion_free(x.replaced[i]);
	deletion_free(x.losers);
	e = aged_keep(f->aged, e);	/* its text may be in x.scratch */
	arena_free(&x.scratch);
	if (!err_is(e))
		e = FAULT(fold_commit);
	if (!err_is(e))
		e = merged_file_check(f->aged, &f->file);
	return err_is(e) ? e : aged_check(f->aged);
}

struct err
fold_commit(struct fold *f)
{
	return commit_run(f->aged->dir, build, f, &f->arena, &f->committed);
}
