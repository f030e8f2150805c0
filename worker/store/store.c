#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/hash.h"
#include "common/log.h"
#include "shm/metric.h"
#include "worker/lance/commit.h"
#include "worker/store/append.h"
#include "worker/store/opened.h"
#include "worker/store/read.h"
#include "worker/store/registry.h"
#include "worker/store/reload.h"
#include "worker/store/shape.h"
#include "worker/store/store.h"

/* How long a name is believed without a look at the registry (contract 5.3) and
 * at the next version of the table, where pins by other instances are seen; a
 * local directory tells of deletions by them each time. */
#define LOOK_SPAN_NS	NS_PER_SEC
#define OPEN_TRIES	8
/* A load that found no room is tried again: meanwhile idle stores go. */
#define OPEN_AGAIN_NS	(25 * NS_PER_MS)
#define OPEN_PATIENCE_NS (3 * NS_PER_SEC)

struct open_job {
	struct op op;
	struct store *store;
	struct shm_ref ref;
	struct object_dir *dir;
	const struct store_shape *shape;	/* NULL: the handle has one */
	struct err err;
};

static struct list *
bucket_of(struct engine *en, const struct kind *kind, const char *name)
{
	return &en->buckets[(hash_bytes(name, strlen(name)) + kind->id) %
	    ENGINE_BUCKETS];
}

static struct store *
find(struct engine *en, const struct kind *kind, const char *name)
{
	struct list *bucket = bucket_of(en, kind, name), *l;

	LIST_FOREACH(l, bucket) {
		struct store *s = CONTAINER_OF(l, struct store, link);

		if (s->kind == kind && strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

struct store *
store_by_ref(struct engine *en, struct shm_ref ref)
{
	struct shm_store_info info;
	const struct kind *kind;
	struct store *s;

	if (!shm_store_peek(ref, &info))
		return NULL;
	kind = kind_get(info.kind);
	s = kind == NULL ? NULL : find(en, kind, info.name);
	return s != NULL && !s->loading && shm_ref_eq(s->ref, ref) ? s : NULL;
}

static void
keep_no_more(struct store *s)
{
	uint32_t i;

	for (i = 0; i < KEPT_COUNT; i++)
		source_cache_gone(s, i);
}

static void
free_store(struct store *s)
{
	append_close(s);
	read_close(s);
	shm_readers_free(&s->readers);
	shape_drop(s->kind, s->shape);
	if (s->dir != NULL) {
		object_dir_close(s->dir);
		shm_store_unpin(s->ref);
		opened_sub(OPENED_DESCRIPTORS, 1);
	}
	keep_no_more(s);
	free(s);
}

struct store *
store_hold(struct store *s)
{
	s->uses++;
	return s;
}

void
store_close(struct store *s)
{
	MUST(s->uses > 0);
	if (--s->uses == 0 && s->dead)
		free_store(s);
}

void
store_forget(struct store *s)
{
	if (s->dead)
		return;
	s->dead = true;
	list_remove(&s->link);
	source_cache_gone(s, KEPT_HANDLE);
	store_hold(s);
	store_close(s);
}

struct err
store_check_here(const struct store *s)
{
	struct err e = registry_here(s->engine->root, s->kind, s->name,
	    s->dir);

	if (e.kind != ERR_NOT_FOUND)
		return e;
	if ((shm_store_flags(s->ref) & SHM_FLAG_DELETED) != 0)
		return FAIL(BAD_INPUT, "store is being deleted");
	return FAIL(UNAVAILABLE, "store was deleted by another instance, and "
	    "maybe created anew, try again");
}

/* A new handle pins its slot: what a request finds loaded stays loaded. */
static struct err
open_pinned(struct open_job *j)
{
	struct store *s = j->store;
	int tries = 0;
	struct err e;

	do {
		e = reload_open(s->engine->root, s->kind, s->name, &j->ref,
		    &j->dir);
		if (!err_is(e) && s->dir == NULL &&
		    err_is(shm_store_pin(j->ref))) {
			object_dir_close(j->dir);
			e = FAIL(CONFLICT, "the slot was evicted");
		}
	} while (e.kind == ERR_CONFLICT && ++tries < OPEN_TRIES);
	return e;
}

static int32_t
run_open(struct op *op)
{
	struct open_job *j = CONTAINER_OF(op, struct open_job, op);

	j->err = open_pinned(j);
	if (err_is(j->err) || j->store->shape != NULL)
		return 0;
	j->err = shape_load(j->store->kind, j->dir, &j->shape);
	if (err_is(j->err)) {
		object_dir_close(j->dir);
		shm_store_unpin(j->ref);
	}
	return 0;
}

static void
serve(struct store *s, struct list *openers, struct err e)
{
	struct list waiting, *l;

	list_init(&waiting);
	list_splice(&waiting, openers);
	while ((l = list_pop(&waiting)) != NULL) {
		struct store_wait *w = CONTAINER_OF(l, struct store_wait, link);

		w->store = err_is(e) ? NULL : store_hold(s);
		w->done(w, e);
	}
}

/* Who joined came after the look that found nothing, maybe after a create. One
 * more look serves all of them. */
static void
open_again(struct store *s)
{
	struct list *l = list_pop(&s->joined);
	struct store *now;

	if (l == NULL)
		return;
	store_open(s->engine, s->kind, s->name,
	    CONTAINER_OF(l, struct store_wait, link));
	now = find(s->engine, s->kind, s->name);
	if (now != NULL && now->loading) {
		list_splice(&now->openers, &s->joined);
		return;
	}
	while ((l = list_pop(&s->joined)) != NULL)
		store_open(s->engine, s->kind, s->name,
		    CONTAINER_OF(l, struct store_wait, link));
}

/* The load is over, one way or the other. Gives its use back. */
static void
open_ended(struct store *s, struct err e)
{
	s->loading = false;
	s->looked_ns = s->reloaded_ns = loop_now_ns(s->engine->loop);
	serve(s, &s->openers, e);
	if (e.kind != ERR_NOT_FOUND)
		serve(s, &s->joined, e);
	/* A handle that has a slot stays for it while loading it again only
	 * failed: a second one beside it would have a writer and readers of
	 * its own. */
	if (err_is(e) && (s->dir == NULL || e.kind == ERR_NOT_FOUND ||
	    shm_store_slot(s->ref) == NULL))
		store_forget(s);
	open_again(s);
	store_close(s);
}

static void try_again(struct timer *);

/* No slot, or no descriptor: others let go of what they do not use, and we try
 * again for a while. */
static void
wait_for_room(struct store *s, struct err e)
{
	uint64_t now = loop_now_ns(s->engine->loop);

	source_cache_relieve(&s->engine->cache);
	if (now >= s->open_until_ns) {
		open_ended(s, e);
		return;
	}
	timer_init(&s->room_timer, try_again);
	timer_set(loop_timers(s->engine->loop), &s->room_timer,
	    now + OPEN_AGAIN_NS);
}

static void
opened(struct op *op, int32_t res)
{
	struct open_job *j = CONTAINER_OF(op, struct open_job, op);
	struct store *s = j->store;
	struct err e = j->err;

	(void)res;
	if (!err_is(e) && s->dir != NULL) {
		/* Loaded anew: jobs and the writer use the directory. */
		object_dir_close(j->dir);
		if (!shm_ref_eq(s->ref, j->ref))
			e = FAIL(UNAVAILABLE, "store has moved, try again");
	} else if (!err_is(e)) {
		s->ref = j->ref;
		s->dir = j->dir;
		s->shape = j->shape;
		opened_add(OPENED_DESCRIPTORS, 1);
	}
	free(j);
	if (e.kind == ERR_BUSY)
		wait_for_room(s, e);
	else
		open_ended(s, e);
}

static struct err
submit_open(struct store *s)
{
	struct open_job *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return FAIL(NO_MEMORY, "open a store");
	j->store = s;
	j->op.done = opened;
	if (!pool_submit(s->engine->pool, &j->op, run_open)) {
		free(j);
		return FAIL(BUSY, "too many jobs are waiting");
	}
	return OK;
}

static void
try_again(struct timer *t)
{
	struct store *s = CONTAINER_OF(t, struct store, room_timer);
	struct err e = FAIL(BUSY, "too many stores are in use");

	if (s->dir != NULL || source_cache_has_room(&s->engine->cache))
		e = submit_open(s);
	if (e.kind == ERR_BUSY)
		wait_for_room(s, e);
	else if (err_is(e))
		open_ended(s, e);
}

static struct err
start_open(struct store *s)
{
	bool room = s->dir != NULL ||
	    source_cache_has_room(&s->engine->cache);
	struct err e = room ? submit_open(s) : OK;

	if (err_is(e))
		return e;
	store_hold(s);
	s->loading = true;
	s->open_until_ns = loop_now_ns(s->engine->loop) + OPEN_PATIENCE_NS;
	if (!room)
		wait_for_room(s, OK);
	return OK;
}

static struct store *
new_store(struct engine *en, const struct kind *kind, const char *name)
{
	struct store *s = calloc(1, sizeof(*s));
	uint32_t i;

	if (s == NULL)
		return NULL;
	s->engine = en;
	s->kind = kind;
	snprintf(s->name, sizeof(s->name), "%s", name);
	list_init(&s->openers);
	list_init(&s->joined);
	list_init(&s->viewers);
	list_init(&s->past_viewers);
	for (i = 0; i < KEPT_COUNT; i++)
		list_init(&s->kept[i].link);
	shm_readers_init(&s->readers);
	list_append(bucket_of(en, kind, name), &s->link);
	return s;
}

enum use { USE_AS_IT_IS, USE_LOADED_AGAIN, USE_NOT };

/*
 * Whether a handle may still be used. Not when its slot went, when the store
 * was deleted, here or by another instance, which takes the directory's name
 * away first and may have given it to a new store since, or when the registry,
 * looked at once a second, has no entry any more. A stale slot is loaded again
 * under the same handle, since two writers of one shard in one process would
 * fence each other; so is one whose table has a newer version that nobody told
 * us of.
 */
static enum use
usable(struct store *s)
{
	uint64_t now = loop_now_ns(s->engine->loop);
	uint32_t flags;

	if (s->loading)
		return USE_AS_IT_IS;
	flags = shm_store_flags(s->ref);
	if ((flags & SHM_FLAG_DELETED) != 0 ||
	    store_check_here(s).kind == ERR_UNAVAILABLE)
		return USE_NOT;
	if ((flags & SHM_FLAG_STALE) != 0 ||
	    shm_store_load_state(s->ref) != SHM_LOAD_READY)
		return USE_LOADED_AGAIN;
	if (now - s->looked_ns < LOOK_SPAN_NS)
		return USE_AS_IT_IS;
	s->looked_ns = now;
	if (registry_exists(s->engine->root, s->kind, s->name).kind ==
	    ERR_NOT_FOUND)
		return USE_NOT;
	/* Others may have pinned it, which an append must know; the next version
	 * may be collected once the grace is over. */
	return now - s->reloaded_ns <
	    s->engine->config->grace_secs * NS_PER_SEC / 2 &&
	    err_is(table_version_exists(s->dir, store_version(s) + 1)) ?
	    USE_AS_IT_IS : USE_LOADED_AGAIN;
}

void
store_open(struct engine *en, const struct kind *kind, const char *name,
    struct store_wait *w)
{
	struct store *s = find(en, kind, name);
	enum use use = s == NULL ? USE_NOT : usable(s);
	struct err e = OK;

	shm_metric_add(use == USE_AS_IT_IS ?
	    METRIC_rollout_store_cache_hits_total :
	    METRIC_rollout_store_cache_misses_total, 0, 1);
	w->store = NULL;
	list_init(&w->link);
	if (s != NULL && use == USE_NOT) {
		store_forget(s);
		s = NULL;
	}
	if (s == NULL)
		s = new_store(en, kind, name);
	if (s == NULL) {
		w->done(w, FAIL(NO_MEMORY, "open a store"));
		return;
	}
	source_cache_used(s, KEPT_HANDLE);
	if (use != USE_AS_IT_IS)
		e = start_open(s);
	else if (!s->loading)
		shm_store_used(s->ref);
	if (err_is(e)) {
		if (use == USE_NOT)
			store_forget(s);
		w->done(w, e);
	} else if (s->loading) {
		list_append(use == USE_AS_IT_IS ? &s->joined : &s->openers,
		    &w->link);
	} else {
		w->store = store_hold(s);
		w->done(w, OK);
	}
}

uint64_t
store_version(const struct store *s)
{
	struct shm_slot *slot = shm_store_slot(s->ref);

	return slot == NULL ? 0 : atomic_load_explicit(&slot->base_version,
	    memory_order_relaxed);
}

uint64_t
store_pinned(const struct store *s)
{
	struct shm_slot *slot = shm_store_slot(s->ref);

	return slot == NULL ? 0 : atomic_load_explicit(&slot->pinned_version,
	    memory_order_acquire);
}

static struct err
create_table(struct object_dir *root, const struct kind *kind,
    const struct store_shape *shape, const char *name,
    const struct uuid *store, struct arena *arena)
{
	char directory[REGISTRY_DIRECTORY_MAX], uuid[UUID_TEXT_LEN + 1];
	struct arrow_pair *meta = arena_calloc(arena, 1 + shape->pair_count,
	    sizeof(*meta));
	struct commit_create create = {
		.schema = &shape->schema,
		.key = shape->schema.fields[shape->key].name,
		.metadata_count = 1 + shape->pair_count, .metadata = meta,
	};
	struct object_dir *dir;
	struct err e;

	if (meta == NULL)
		return FAIL(NO_MEMORY, "metadata");
	uuid_to_text(store, uuid);
	meta[0] = (struct arrow_pair){ SLICE(META_STORE_UUID), slice_of(uuid) };
	if (shape->pair_count > 0)
		memcpy(meta + 1, shape->pairs,
		    shape->pair_count * sizeof(*meta));
	registry_directory(kind, name, directory);
	e = object_dir_open(root, directory, true, &dir);
	if (err_is(e))
		return e;
	e = commit_create_table(dir, &create, arena);
	object_dir_close(dir);
	return e;
}

/* What the table bears besides its uuid is what the create wants. */
static bool
same_shape(const struct table *t, const struct store_shape *shape)
{
	uint32_t i;

	for (i = 0; i < shape->pair_count; i++) {
		if (!slice_eq(table_metadata_get(t, shape->pairs[i].key),
		    shape->pairs[i].value))
			return false;
	}
	return true;
}

/* A directory that a create left behind before it registered: its uuid is
 * taken over, so that the create can be repeated (contract 2.3). */
static struct err
adopt(struct object_dir *root, const struct kind *kind,
    const struct store_shape *shape, const char *name, struct uuid *store,
    struct arena *arena)
{
	char directory[REGISTRY_DIRECTORY_MAX];
	struct object_dir *dir;
	struct table *t;
	struct err e;

	registry_directory(kind, name, directory);
	e = object_dir_open(root, directory, false, &dir);
	if (err_is(e))
		return e;
	e = table_load(dir, arena, &t);
	object_dir_close(dir);
	if (err_is(e))
		return e;
	if (!uuid_from_text(table_metadata_get(t, SLICE(META_STORE_UUID)),
	    store))
		e = FAIL(CORRUPT, "directory holds a table that is no store");
	else if (!same_shape(t, shape))
		e = FAIL(BAD_INPUT, "the directory of an unfinished create "
		    "holds another schema");
	table_free(t);
	return e;
}

static struct err
create_locked(struct object_dir *root, const struct kind *kind,
    const struct store_shape *shape, const char *name)
{
	struct registry_entry entry = { .store = uuid_random(),
	    .created_ms = clock_wall_us() / 1000 };
	struct arena arena;
	struct err e;

	snprintf(entry.name, sizeof(entry.name), "%s", name);
	e = registry_exists(root, kind, name);
	if (e.kind != ERR_NOT_FOUND)
		return err_is(e) ? e : FAIL(EXISTS, "store exists already");
	arena_init(&arena, 64u << 20);
	e = create_table(root, kind, shape, name, &entry.store, &arena);
	if (e.kind == ERR_EXISTS)
		e = adopt(root, kind, shape, name, &entry.store, &arena);
	if (e.kind == ERR_BAD_INPUT) {
		log_err(LOG_WARN, e, "store not created kind=%s store=%s",
		    kind->name, name);
	} else if (err_is(e)) {
		log_err(LOG_DEBUG, e, "store not created");
		e.what = "create the table";	/* its text is in arena */
	} else {
		e = FAULT(store_create);
	}
	if (!err_is(e))
		e = registry_add(root, kind, &entry);
	arena_free(&arena);
	return e;
}

struct err
store_create(struct object_dir *root, const struct kind *kind,
    const struct store_shape *shape, const char *name)
{
	struct err e;
	int lock;

	e = registry_lock(root, kind, name, &lock);
	if (err_is(e))
		return e;
	e = create_locked(root, kind, shape, name);
	registry_unlock(lock);
	return e;
}
