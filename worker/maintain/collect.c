#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/hash.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/view.h"
#include "worker/lance/own.h"
#include "worker/lance/shard_manifest.h"
#include "worker/lance/table_names.h"
#include "worker/maintain/collect_parts.h"
#include "worker/maintain/temporary.h"

/* A reader of an older view is looked for again after this. */
#define READERS_NS	NS_PER_SEC

static uint64_t
grace_ns(const struct config *c)
{
	return c->grace_secs * NS_PER_SEC;
}

static uint64_t
abandoned_ns(const struct config *c)
{
	return MAX(grace_ns(c), COLLECT_ABANDONED_NS);
}

uint64_t
collect_uncommitted_ns(const struct config *c)
{
	return abandoned_ns(c) / 2;
}

bool
collect_is_old(struct collecting *c, uint64_t modified_us)
{
	bool old = modified_us <= c->old_us;

	c->waits |= !old;
	return old;
}

static int
compare_unnamed(const void *a, const void *b)
{
	const struct collect_unnamed *x = a, *y = b;

	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* The file, as the mark knows it, or seen now for the first time. */
static struct collect_unnamed
seen_before(const struct collecting *c, const char *name)
{
	struct collect_unnamed now = { hash_bytes(name, strlen(name)),
	    c->now_ns };
	const struct collect_unnamed *seen;

	seen = c->mark->unnamed_count == 0 ? NULL : bsearch(&now,
	    c->mark->unnamed, c->mark->unnamed_count, sizeof(now),
	    compare_unnamed);
	return seen != NULL ? *seen : now;
}

void
collect_wait_for(struct collecting *c, const char *name)
{
	struct collect_mark *next = c->next;

	c->waits = true;
	if (next->unnamed == NULL)
		next->unnamed = calloc(COLLECT_UNNAMED_MAX,
		    sizeof(*next->unnamed));
	if (next->unnamed != NULL && next->unnamed_count < COLLECT_UNNAMED_MAX)
		next->unnamed[next->unnamed_count++] = seen_before(c, name);
}

bool
collect_is_abandoned(struct collecting *c, const char *name)
{
	if (c->now_ns - seen_before(c, name).since_ns >= c->abandoned_ns)
		return true;
	collect_wait_for(c, name);
	return false;
}

void
collect_count(const struct collecting *c, enum metric_collected what,
    const struct object_gone *gone)
{
	uint32_t label = SHM_LABEL2(KIND_OR_ROUTE, what, c->aged->kind->id);

	shm_metric_add(METRIC_memwald_collected_objects_total, label,
	    gone->objects);
	shm_metric_add(METRIC_memwald_collected_bytes_total, label,
	    gone->bytes);
}

struct err
collect_delete(struct collecting *c, enum metric_collected what,
    const char *name)
{
	struct object_gone gone = { 0 };
	struct err e = aged_check(c->aged);

	if (err_is(e))
		return e;
	e = object_delete_paced(c->aged->dir, name, &c->aged->env->pace,
	    &gone);
	collect_count(c, what, &gone);
	return e;
}

struct err
collect_hint(struct collecting *c, const char *name, uint64_t version)
{
	char text[64];
	struct err e;
	int n;

	n = snprintf(text, sizeof(text), "{\"version\":%llu}",
	    (unsigned long long)version);
	e = object_put_hint(c->aged->dir, name, slice_make(text, (size_t)n));
	/* Durable: else a loss of power brings back one that names what is
	 * gone. */
	return err_is(e) ? e : object_confirm(c->aged->dir, name);
}

static struct err
run(struct collecting *c)
{
	struct object_gone gone = { 0 };
	struct err e = OK;
	uint32_t k;

	for (k = 0; !err_is(e) && k < c->mark->shard_count; k++) {
		e = aged_check(c->aged);
		if (!err_is(e) && c->mark->shards[k].version != 0 &&
		    shm_ordinal_aged(c->mark->shards[k].at.ordinal))
			e = collect_shard(c, k);
	}
	if (!err_is(e))
		e = collect_base(c);
	if (err_is(e))
		return e;
	gone.objects = temporary_clean_store(c->aged->dir);
	collect_count(c, METRIC_COLLECTED_TEMPORARY, &gone);
	return OK;
}

/* The state of now is the next mark; if it is what this one was, and nothing
 * waits, nothing is left that another run could delete. */
static void
move_on(struct collecting *c, uint64_t *again_ns)
{
	struct shm_ref ref = c->aged->ref;
	struct collect_mark *next = c->next;

	c->next = NULL;
	if (next->serial == c->mark->serial && !c->waits) {
		atomic_store_explicit(
		    &shm_store_slot(ref)->collected_serial, next->serial,
		    memory_order_relaxed);
		collect_mark_free(next);
		collect_mark_put(ref, NULL);
		*again_ns = 0;
		return;
	}
	if (next->unnamed_count > 0)
		qsort(next->unnamed, next->unnamed_count,
		    sizeof(*next->unnamed), compare_unnamed);
	*again_ns = next->since_ns + grace_ns(c->aged->env->config);
	collect_mark_put(ref, next);
}

static void
count_run(const struct aged_store *a, struct err e)
{
	shm_metric_add(METRIC_memwald_collects_total,
	    SHM_LABEL2(KIND, aged_result(e), a->kind->id), 1);
}

static struct err
collect(struct aged_store *a, const struct collect_mark *mark,
    uint64_t *again_ns)
{
	uint64_t grace_us = grace_ns(a->env->config) / NS_PER_US;
	uint64_t wall_us = clock_wall_us();
	struct collecting c = { .aged = a, .mark = mark,
	    .next = collect_mark_new(a->ref),
	    .old_us = wall_us - MIN(wall_us, grace_us),
	    .now_ns = clock_mono_ns(),
	    .abandoned_ns = abandoned_ns(a->env->config) };
	struct err e;

	if (c.next == NULL)
		return FAIL(NO_MEMORY, "mark a store");
	arena_init(&c.arena, COLLECT_ARENA_MAX);
	e = aged_keep(a, run(&c));	/* its text may be in c.arena */
	if (!err_is(e))
		move_on(&c, again_ns);
	collect_mark_free(c.next);
	arena_free(&c.arena);
	count_run(a, e);
	return e;
}

struct err
collect_store(struct aged_store *a, uint64_t *again_ns)
{
	const struct shm_slot *slot = shm_store_slot(a->ref);
	const struct collect_mark *mark = collect_mark_get(a->ref);
	struct collect_mark *first;
	uint64_t now_ns;

	*again_ns = 0;
	if (slot == NULL || atomic_load_explicit(&slot->collected_serial,
	    memory_order_relaxed) == atomic_load_explicit(&slot->serial,
	    memory_order_relaxed))
		return OK;
	if (mark == NULL) {
		first = collect_mark_new(a->ref);
		if (first == NULL)
			return OK;	/* the next tick makes it */
		collect_mark_put(a->ref, first);
		mark = first;
	}
	now_ns = clock_mono_ns();
	*again_ns = mark->since_ns + grace_ns(a->env->config);
	if (now_ns < *again_ns)
		return OK;
	*again_ns = now_ns + READERS_NS;
	if (shm_view_oldest(a->ref) < mark->serial)
		return OK;
	return collect(a, mark, again_ns);
}

struct named_look {
	struct collect_names names;
	bool all;
};

struct look {
	const char *part;		/* of the names that are counted */
	uint32_t count;
};

static bool
count_name(const struct object_info *info, void *ctx)
{
	struct look *l = ctx;

	l->count += memmem(info->name.ptr, info->name.len, l->part,
	    strlen(l->part)) != NULL;
	return true;
}

static uint32_t
count_names(struct object_dir *dir, const char *folder, const char *part)
{
	struct look l = { .part = part };
	struct err e = object_list_names(dir, folder, count_name, &l);

	/* What cannot be listed is looked at as garbage is. */
	return err_is(e) && e.kind != ERR_NOT_FOUND ? UINT32_MAX : l.count;
}

static struct err
note_named(const char *name, void *ctx)
{
	return collect_names_add(ctx, name);
}

static bool
is_named(const struct object_info *info, void *ctx)
{
	struct named_look *l = ctx;
	char name[OBJECT_NAME_MAX];

	snprintf(name, sizeof(name), "data/%.*s", (int)info->name.len,
	    info->name.ptr);
	l->all = !own_is(name) || collect_names_has(&l->names, name);
	return l->all;
}

/* Whether the newest version names all data files of ours: who dies between
 * writing one and naming it leaves it. */
static bool
names_all(struct object_dir *dir)
{
	struct named_look l = { .all = true };
	struct arena arena;
	struct table *t;
	struct err e;

	arena_init(&arena, COLLECT_ARENA_MAX);
	e = table_load(dir, &arena, &t);
	if (!err_is(e)) {
		e = table_names(t, note_named, &l.names);
		table_free(t);
	}
	if (!err_is(e))
		e = object_list_names(dir, "data", is_named, &l);
	if (e.kind == ERR_NOT_FOUND)
		e = OK;
	collect_names_free(&l.names);
	arena_free(&arena);
	return l.all && !err_is(e);
}

static bool
looks_clean(struct object_dir *dir, struct shm_ref ref)
{
	struct shm_aged aged;
	uint32_t at = 0;

	if (count_names(dir, "_versions", ".manifest") > 1 ||
	    count_names(dir, "_collect", ".manifest") > 0 ||
	    !names_all(dir))
		return false;
	while (shm_store_aged_next(ref, &at, &aged)) {
		struct uuid shard = shm_store_shard_uuid(ref, aged.shard);
		char path[SHARD_NAME_MAX], manifests[SHARD_NAME_MAX + 16];

		shard_directory_name(&shard, path);
		snprintf(manifests, sizeof(manifests), "%s/manifest", path);
		if (count_names(dir, manifests, ".binpb") > 1 ||
		    count_names(dir, path, "_gen_") > 0)
			return false;
	}
	return true;
}

bool
collect_look(struct object_dir *dir, struct shm_ref ref)
{
	struct shm_slot *slot;
	uint64_t serial;
	bool clean;

	if (err_is(shm_store_pin(ref)))
		return false;
	slot = shm_store_slot(ref);
	serial = atomic_load_explicit(&slot->serial, memory_order_acquire);
	clean = looks_clean(dir, ref);
	atomic_store_explicit(&slot->collected_serial, clean ? serial : 0,
	    memory_order_relaxed);
	shm_store_unpin(ref);
	return !clean;
}
