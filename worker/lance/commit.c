#include "common/base.h"

#include <stdio.h>

#include "common/fault.h"
#include "common/log.h"
#include "worker/lance/next.h"
#include "worker/lance/own.h"

/* Several times a manifest: what it becomes, its pieces, and the edit. */
#define MEMORY_MAX	((size_t)TABLE_BYTES_MAX * 4)

/* One commit, over all its tries. */
struct commit {
	struct object_dir *dir;
	struct arena *errors;
	struct arena arena;		/* of one try */
	/* The same in all tries, so that a put of ours that landed after it
	 * was given up is known again as ours. */
	struct uuid uuid;
	struct commit_edit edit;
	struct next next;
	bool may_land;			/* a put that was given up */
};

static bool
is_ours(const struct commit *c, const struct table *t)
{
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(&c->uuid, text);
	return slice_eq(t->transaction_uuid, slice_of(text));
}

static bool
all_gone(const struct commit_edit *edit, const struct table *t)
{
	uint32_t i;

	for (i = 0; i < edit->removed_count; i++) {
		if (table_fragment_find(t, edit->removed[i]) != NULL)
			return false;
	}
	return true;
}

/* Whether a newer version than ours goes on from ours. */
static bool
bears(const struct commit_edit *edit, const struct table *t)
{
	uint32_t i, k;

	for (i = 0; i < edit->progress_count; i++) {
		if (table_progress_of(t, &edit->progress[i].shard) <
		    edit->progress[i].generation)
			return false;
	}
	if (edit->progress_count > 0)
		return true;
	if (edit->operation == COMMIT_CREATE_MEM_WAL)
		return t->has_mem_wal;
	if (edit->operation == COMMIT_REWRITE)
		return all_gone(edit, t);
	for (i = 0; edit->added_count == 0 && i < edit->metadata_count; i++) {
		if (!slice_eq(table_metadata_get(t, edit->metadata[i].key),
		    edit->metadata[i].value))
			return false;
	}
	for (i = 0; i < edit->added_count; i++) {
		const struct table_file *f = &edit->added[i].files[0];

		for (k = 0; k < t->fragment_count; k++) {
			if (t->fragments[k].file_count > 0 && slice_eq(f->path,
			    t->fragments[k].files[0].path))
				break;
		}
		if (k == t->fragment_count)
			return false;
	}
	return true;
}

static void
put_hint(struct commit *c)
{
	char text[64];
	struct err e;
	int n;

	n = snprintf(text, sizeof(text), "{\"version\":%llu}",
	    (unsigned long long)c->next.version);
	e = object_put_hint(c->dir, "_versions/latest_version_hint.json",
	    slice_make(text, (size_t)n));
	if (err_is(e))
		log_err(LOG_DEBUG, e, "version hint not written, going on");
}

/* Our manifest is there; does the table go on from it? */
static struct err
confirm(struct commit *c, bool *stands)
{
	char name[TABLE_NAME_MAX];
	struct table *t;
	uint64_t newest;
	struct err e;

	FAULT_HERE(table_committed);
	e = table_newest(c->dir, &newest);
	if (err_is(e))
		goto unknown;
	*stands = newest <= c->next.version;
	if (*stands)
		return OK;
	e = table_load(c->dir, c->errors, &t);
	if (err_is(e))
		goto unknown;
	*stands = bears(&c->edit, t);
	table_free(t);
	if (*stands)
		return OK;
	log_warn("commit filled a hole of collected versions, starting again "
	    "version=%llu newest=%llu", (unsigned long long)c->next.version,
	    (unsigned long long)newest);
	/* Nobody went on from it; who probes upwards from an old hint would
	 * take it for the newest. */
	table_manifest_name(c->next.version, name);
	e = object_delete(c->dir, name);
	if (!err_is(e))
		return OK;
unknown:
	return (struct err){ ERR_UNKNOWN, e.os, e.what };
}

/* After an outcome that is not known, and when the version was taken: maybe by
 * us. */
static struct err
read_back(struct commit *c, bool *ours)
{
	char name[TABLE_NAME_MAX];
	struct table *t;
	struct err e;

	e = table_load_version(c->dir, c->next.version, c->errors, &t);
	if (e.kind == ERR_NOT_FOUND) {
		*ours = false;
		return OK;
	}
	if (err_is(e))
		return (struct err){ ERR_UNKNOWN, e.os, e.what };
	*ours = is_ours(c, t);
	table_free(t);
	if (!*ours)
		return OK;
	table_manifest_name(c->next.version, name);
	e = object_confirm(c->dir, name);
	return err_is(e) ? (struct err){ ERR_UNKNOWN, e.os, e.what } : OK;
}

/* Of a try that lost. Should its put land after all, the manifest holds the
 * transaction as well. */
static void
drop_transaction(struct commit *c)
{
	struct err e;

	if (c->next.transaction_name[0] == '\0')
		return;
	e = object_delete(c->dir, c->next.transaction_name);
	if (err_is(e))
		log_err(LOG_DEBUG, e, "transaction of a lost race stays behind");
}

static struct err
put(struct commit *c, bool *stands)
{
	char name[TABLE_NAME_MAX];
	bool ours = true;
	struct err e = OK;

	*stands = false;
	if (c->next.transaction_name[0] != '\0')
		e = object_put_new(c->dir, c->next.transaction_name,
		    c->next.transaction);
	/* Taken: by us, in a try before that made nothing of it. Unknown: the
	 * manifest holds the transaction as well. */
	if (err_is(e) && e.kind != ERR_EXISTS && e.kind != ERR_UNKNOWN)
		return e;
	e = FAULT(table_commit);
	if (err_is(e))
		return e;
	table_manifest_name(c->next.version, name);
	e = object_put_new(c->dir, name, c->next.manifest);
	c->may_land |= e.kind == ERR_UNKNOWN;
	if (e.kind == ERR_UNKNOWN || e.kind == ERR_EXISTS)
		e = read_back(c, &ours);
	if (!err_is(e) && !ours)
		drop_transaction(c);
	if (err_is(e) || !ours)
		return e;
	e = confirm(c, stands);
	if (!err_is(e) && *stands)
		put_hint(c);
	return e;
}

static struct err
try_once(struct commit *c, commit_build_fn *build, void *ctx, bool *done,
    struct commit_result *result)
{
	struct table *t;
	struct err e;

	*done = false;
	arena_reset(&c->arena);
	e = table_load(c->dir, c->errors, &t);
	if (err_is(e))
		return e;
	e = table_writable(t);
	if (err_is(e))
		goto out;
	c->edit = (struct commit_edit){ .operation = COMMIT_NOTHING };
	e = build(t, &c->arena, &c->edit, ctx);
	if (err_is(e))
		goto out;
	if (c->edit.operation == COMMIT_NOTHING) {
		result->version = t->version;
		*done = true;
		goto out;
	}
	e = next_make(&c->arena, t, &c->edit, &c->uuid, &c->next);
	if (!err_is(e))
		e = put(c, done);
	if (!err_is(e) && *done) {
		result->written = true;
		result->version = c->next.version;
	}
out:
	table_free(t);
	return e;
}

struct err
commit_run(struct object_dir *dir, commit_build_fn *build, void *ctx,
    struct arena *errors, struct commit_result *result)
{
	struct commit c = { .dir = dir, .errors = errors, .uuid = own_uuid() };
	struct commit_result r = { 0 };
	bool done = false;
	struct err e = OK;

	arena_init(&c.arena, MEMORY_MAX);
	while (!done && !err_is(e) && r.tries < COMMIT_TRIES) {
		r.tries++;
		e = try_once(&c, build, ctx, &done, &r);
	}
	arena_free(&c.arena);
	if (!err_is(e) && !done)
		e = FAIL(CONFLICT, "too many commits of others to this table");
	if (err_is(e))
		return c.may_land ? (struct err){ ERR_UNKNOWN, e.os, e.what } :
		    e;
	*result = r;
	return OK;
}

/* creating */

static struct err
build_mem_wal(const struct table *newest, struct arena *a,
    struct commit_edit *edit, void *ctx)
{
	bool *had = ctx;

	(void)a;
	*had = newest->has_mem_wal;
	if (!*had)
		edit->operation = COMMIT_CREATE_MEM_WAL;
	return OK;
}

struct err
commit_create_table(struct object_dir *dir, const struct commit_create *create,
    struct arena *errors)
{
	struct commit c = { .dir = dir, .errors = errors, .uuid = own_uuid() };
	struct commit_result result;
	bool stands, had;
	uint64_t newest;
	struct err e;

	/* Version 1 may be collected from a table that lives. */
	e = table_newest(dir, &newest);
	if (e.kind == ERR_NOT_FOUND) {
		arena_init(&c.arena, MEMORY_MAX);
		e = next_make_first(&c.arena, create, &c.uuid, &c.next);
		if (!err_is(e))
			e = put(&c, &stands);
		arena_free(&c.arena);
	}
	if (!err_is(e))
		e = commit_run(dir, build_mem_wal, &had, errors, &result);
	if (err_is(e))
		return e;
	return had ? FAIL(EXISTS, "table exists") : OK;
}

struct err
commit_create_generation(struct object_dir *dir,
    const struct arrow_schema *schema, const struct table_fragment *fragment,
    const struct arrow_pair *metadata, uint32_t metadata_count)
{
	char name[TABLE_NAME_MAX];
	struct arena a;
	struct next n;
	struct err e;

	arena_init(&a, MEMORY_MAX);
	e = next_make_generation(&a, schema, fragment, metadata, metadata_count,
	    &n);
	if (!err_is(e)) {
		table_manifest_name(n.version, name);
		e = object_put_new(dir, name, n.manifest);
	}
	arena_free(&a);
	return e;
}
