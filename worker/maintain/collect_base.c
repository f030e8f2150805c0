#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/fault.h"
#include "common/json.h"
#include "worker/lance/own.h"
#include "worker/lance/table_names.h"
#include "worker/maintain/collect_parts.h"
#include "worker/object/local.h"
#include "worker/store/pin.h"

/*
 * Old versions of the base table. One goes in two steps:
 *
 *	1. its manifest is moved to _collect/, so that nobody opens it any more;
 *	   then the newest version and the tags are read again, and a version
 *	   that one of them names by now is moved back;
 *	2. the files that it named and no version that is left does are deleted,
 *	   and then what was moved aside.
 *
 * So a run that died after 1 is gone on with by the next, which begins with
 * what it finds aside.
 *
 * All under a lock among instances: while one of two that decided that nothing
 * names a version deletes its files, the other could move it back, for a pin
 * that came between and finds its version there.
 */

#define ASIDE		"_collect"
#define LOCK		ASIDE "/.lock"
#define HINT		"_versions/latest_version_hint.json"
#define TAG_BYTES_MAX	(1u << 20)
#define VERSIONS_LISTED_MAX 65536u

struct version {
	uint64_t number;
	uint64_t modified_us;
};

struct versions {		/* ascending once listed */
	struct arena *arena;
	uint32_t count, room;
	struct version *list;
	bool full;
};

struct base_run {
	struct collecting *c;
	struct versions there, aside, tagged;
	struct collect_names live;
	const char *folder;		/* that is being listed */
	uint32_t unnamed_count, unnamed_room;
	const char **unnamed;
	struct err err;			/* of a call back */
};

static void
add_version(struct versions *v, uint64_t number, uint64_t modified_us)
{
	if (v->count == v->room) {
		uint32_t room = MAX(v->room * 2, 256u);
		struct version *more = room > VERSIONS_LISTED_MAX ? NULL :
		    arena_alloc(v->arena, room * sizeof(*more));

		v->full = more == NULL;
		if (v->full)
			return;
		if (v->count > 0)
			memcpy(more, v->list, v->count * sizeof(*more));
		v->list = more;
		v->room = room;
	}
	v->list[v->count++] = (struct version){ number, modified_us };
}

static bool
note_manifest(const struct object_info *info, void *ctx)
{
	struct versions *v = ctx;
	uint64_t number;

	if (table_manifest_parse(info->name, &number))
		add_version(v, number, info->modified_us);
	return !v->full;
}

static int
compare_versions(const void *a, const void *b)
{
	const struct version *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static bool
has_version(const struct versions *v, uint64_t number)
{
	struct version key = { number, 0 };

	return v->count > 0 && bsearch(&key, v->list, v->count, sizeof(key),
	    compare_versions) != NULL;
}

static struct err
list_versions(struct base_run *b, const char *folder, struct versions *v)
{
	struct err e;

	*v = (struct versions){ .arena = &b->c->arena };
	e = object_list(b->c->aged->dir, folder, note_manifest, v);
	if (!err_is(e) && v->full)
		e = FAIL(NO_MEMORY, "table has too many versions");
	if (e.kind == ERR_NOT_FOUND)
		e = OK;
	if (!err_is(e) && v->count > 0)
		qsort(v->list, v->count, sizeof(*v->list), compare_versions);
	return e;
}

/* ---- what stays whatever its age */

static bool
note_tag(const struct object_info *info, void *ctx)
{
	struct base_run *b = ctx;
	char path[OBJECT_NAME_MAX];
	const struct json *tag;
	struct slice text;
	uint64_t version;
	struct err e;

	if (info->is_dir)
		return true;
	snprintf(path, sizeof(path), "_refs/tags/%.*s", (int)info->name.len,
	    info->name.ptr);
	e = object_get(b->c->aged->dir, path, TAG_BYTES_MAX, &b->c->arena,
	    &text);
	if (e.kind == ERR_NOT_FOUND)
		return true;
	if (!err_is(e))
		e = json_parse(&b->c->arena, text, "tag", &tag);
	if (!err_is(e))
		e = json_get_uint64(&b->c->arena, tag, "version",
		    JSON_REQUIRED, &version);
	if (!err_is(e))
		add_version(&b->tagged, version, 0);
	if (!err_is(e) && b->tagged.full)
		e = FAIL(NO_MEMORY, "table has too many tags");
	b->err = e;
	return !err_is(e);
}

/* A tag that cannot be read may name any version. */
static struct err
list_tags(struct base_run *b)
{
	struct err e;

	b->tagged = (struct versions){ .arena = &b->c->arena };
	b->err = OK;
	e = object_list_names(b->c->aged->dir, "_refs/tags", note_tag, b);
	if (!err_is(e))
		e = b->err;
	if (!err_is(e) && b->tagged.count > 0)
		qsort(b->tagged.list, b->tagged.count,
		    sizeof(*b->tagged.list), compare_versions);
	return e.kind == ERR_NOT_FOUND ? OK : e;
}

static bool
note_any(const struct object_info *info, void *ctx)
{
	(void)info;
	*(bool *)ctx = true;
	return false;
}

/* A branch goes on from files of any version (and lies elsewhere). */
static struct err
has_branches(struct base_run *b, bool *has)
{
	struct err e;

	*has = false;
	e = object_list_names(b->c->aged->dir, "_refs/branches", note_any, has);
	return e.kind == ERR_NOT_FOUND ? OK : e;
}

/* NOT_FOUND if the newest version is a pin. */
static struct err
check_newest(struct base_run *b, uint64_t *newest)
{
	struct table *t;
	struct err e;

	e = table_load(b->c->aged->dir, &b->c->arena, &t);
	if (err_is(e))
		return e;
	*newest = t->version;
	e = aged_check_table(b->c->aged, t);
	table_free(t);
	return e;
}

/* ---- moved aside, and back */

static void
aside_name(uint64_t version, char *name)
{
	char manifest[TABLE_NAME_MAX];

	table_manifest_name(version, manifest);
	snprintf(name, TABLE_NAME_MAX, ASIDE "/%s", strchr(manifest, '/') + 1);
}

static struct err
move(struct base_run *b, uint64_t version, bool back)
{
	char manifest[TABLE_NAME_MAX], aside[TABLE_NAME_MAX];
	struct object_dir *dir = b->c->aged->dir;
	struct err e;

	table_manifest_name(version, manifest);
	aside_name(version, aside);
	e = back ? object_rename(dir, aside, dir, manifest) :
	    object_rename(dir, manifest, dir, aside);
	/* Another instance did so since it was listed. */
	if (e.kind == ERR_NOT_FOUND)
		e = OK;
	if (e.kind == ERR_EXISTS)
		e = object_delete(dir, back ? aside : manifest);
	return e;
}

static bool
may_go(struct base_run *b, const struct version *v, uint64_t newest)
{
	if (v->number >= b->c->mark->base_version || v->number >= newest ||
	    has_version(&b->tagged, v->number))
		return false;
	return collect_is_old(b->c, v->modified_us);
}

static struct err
move_aside(struct base_run *b, uint64_t newest)
{
	uint32_t i, moved = 0;
	struct err e = OK;

	for (i = 0; !err_is(e) && i < b->there.count; i++) {
		const struct version *v = &b->there.list[i];

		if (!may_go(b, v, newest))
			continue;
		if (moved == COLLECT_VERSIONS_MAX) {
			b->c->waits = true;
			break;
		}
		if (moved++ == 0)
			e = collect_hint(b->c, HINT, newest);
		if (!err_is(e))
			e = aged_check(b->c->aged);
		if (!err_is(e))
			e = FAULT(collect_version);
		if (!err_is(e))
			e = move(b, v->number, false);
	}
	return e;
}

/* The pin or the tag that came meanwhile looks for its version as well, after
 * it was made: one of the two sees the other. */
static struct err
move_back(struct base_run *b)
{
	struct table *t;
	uint64_t pinned;
	struct err e;
	uint32_t i;

	FAULT_HERE(collect_aside);
	e = table_load(b->c->aged->dir, &b->c->arena, &t);
	if (err_is(e))
		return e;
	pinned = pin_of(t);
	table_free(t);
	e = list_tags(b);
	for (i = 0; !err_is(e) && i < b->aside.count; i++) {
		uint64_t version = b->aside.list[i].number;

		if (version == pinned || has_version(&b->tagged, version))
			e = move(b, version, true);
	}
	return e;
}

/* ---- files */

static struct err
note_live(const char *name, void *ctx)
{
	struct base_run *b = ctx;

	return collect_names_add(&b->live, name);
}

static struct err
read_live(struct base_run *b)
{
	struct table *t;
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < b->there.count; i++) {
		e = table_load_version(b->c->aged->dir, b->there.list[i].number,
		    &b->c->arena, &t);
		if (e.kind == ERR_NOT_FOUND) {
			e = OK;		/* deleted by another engine */
			continue;
		}
		if (err_is(e))
			return e;
		e = table_names(t, note_live, b);
		table_free(t);
	}
	return e;
}

static enum metric_collected
what_is(const char *name)
{
	return strncmp(name, "data/", 5) == 0 ? METRIC_COLLECTED_DATA :
	    strncmp(name, "_deletions/", 11) == 0 ? METRIC_COLLECTED_DELETION :
	    strncmp(name, "_indices/", 9) == 0 ? METRIC_COLLECTED_INDEX :
	    METRIC_COLLECTED_TRANSACTION;
}

static struct err
delete_dead(const char *name, void *ctx)
{
	struct base_run *b = ctx;
	struct err e;

	if (collect_names_has(&b->live, name))
		return OK;
	e = FAULT(collect_file);
	return err_is(e) ? e : collect_delete(b->c, what_is(name), name);
}

static struct err
delete_version(struct base_run *b, uint64_t version)
{
	char name[TABLE_NAME_MAX];
	struct arena arena;
	struct table *t;
	struct slice file;
	struct err e;

	aside_name(version, name);
	arena_init(&arena, TABLE_BYTES_MAX + (1u << 20));
	e = object_get(b->c->aged->dir, name, TABLE_BYTES_MAX, &arena, &file);
	if (!err_is(e))
		e = table_parse(file, &arena, &t);
	e = aged_keep(b->c->aged, e);
	arena_free(&arena);
	if (err_is(e))
		return e.kind == ERR_NOT_FOUND ? OK : e;
	e = table_names(t, delete_dead, b);
	table_free(t);
	if (!err_is(e))
		e = FAULT(collect_forget);
	return err_is(e) ? e :
	    collect_delete(b->c, METRIC_COLLECTED_VERSION, name);
}

/* ---- what nobody ever named */

static bool
note_unnamed(const struct object_info *info, void *ctx)
{
	struct base_run *b = ctx;
	char name[OBJECT_NAME_MAX];

	if ((size_t)snprintf(name, sizeof(name), "%s/%.*s", b->folder,
	    (int)info->name.len, info->name.ptr) >= sizeof(name))
		return true;
	if (!own_is(name) || collect_names_has(&b->live, name) ||
	    !collect_is_abandoned(b->c, name))
		return true;
	b->unnamed[b->unnamed_count++] = arena_copy(&b->c->arena,
	    slice_of(name));
	return b->unnamed[b->unnamed_count - 1] != NULL &&
	    b->unnamed_count < COLLECT_UNNAMED_MAX;
}

static struct err
delete_abandoned(struct base_run *b)
{
	static const char *const folders[] = { "data", "_transactions",
	    "_deletions", "_indices" };
	struct err e = OK;
	uint32_t i, k;

	b->unnamed = arena_calloc(&b->c->arena, COLLECT_UNNAMED_MAX,
	    sizeof(*b->unnamed));
	if (b->unnamed == NULL)
		return FAIL(NO_MEMORY, "files of a store");
	for (i = 0; !err_is(e) && i < ARRAY_LEN(folders); i++) {
		b->folder = folders[i];
		b->unnamed_count = 0;
		e = object_list_names(b->c->aged->dir, folders[i],
		    note_unnamed, b);
		if (e.kind == ERR_NOT_FOUND)
			e = OK;
		for (k = 0; !err_is(e) && k < b->unnamed_count &&
		    b->unnamed[k] != NULL; k++) {
			e = FAULT(collect_abandoned);
			if (!err_is(e))
				e = collect_delete(b->c,
				    what_is(b->unnamed[k]), b->unnamed[k]);
		}
	}
	return e;
}

/* ---- */

static struct err
collect_versions(struct base_run *b)
{
	uint64_t newest;
	struct err e;
	uint32_t i;

	e = list_tags(b);
	if (!err_is(e))
		e = check_newest(b, &newest);
	if (!err_is(e))
		e = list_versions(b, "_versions", &b->there);
	if (!err_is(e))
		e = move_aside(b, newest);
	if (!err_is(e))
		e = list_versions(b, ASIDE, &b->aside);
	if (!err_is(e))
		e = move_back(b);
	if (!err_is(e))
		e = check_newest(b, &newest);
	/* What is left after that. */
	if (!err_is(e))
		e = list_versions(b, ASIDE, &b->aside);
	if (!err_is(e))
		e = list_versions(b, "_versions", &b->there);
	if (!err_is(e))
		e = read_live(b);
	for (i = 0; !err_is(e) && i < b->aside.count; i++)
		e = delete_version(b, b->aside.list[i].number);
	return err_is(e) ? e : delete_abandoned(b);
}

struct err
collect_base(struct collecting *c)
{
	struct base_run b = { .c = c };
	bool branches;
	struct err e;
	int lock;

	e = object_lock(c->aged->dir, LOCK, 0, &lock);
	if (e.kind == ERR_BUSY) {	/* another instance collects */
		c->waits = true;
		return OK;
	}
	if (err_is(e))
		return e;
	e = has_branches(&b, &branches);
	if (!err_is(e) && !branches)
		e = collect_versions(&b);
	e = aged_keep(c->aged, e);
	object_unlock(lock);
	collect_names_free(&b.live);
	arena_reset(&c->arena);
	return e;
}
