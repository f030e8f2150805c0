#include "common/base.h"

#include <pthread.h>

#include "common/arena.h"
#include "common/log.h"
#include "shm/ordinal_table.h"
#include "shm/stray.h"
#include "worker/maintain/explain.h"
#include "worker/store/assignment.h"

/* Stores are aged on several threads. */
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

static void
note(const struct uuid *shard, const struct shm_store_info *info)
{
	char text[UUID_TEXT_LEN + 1];
	bool fresh;

	pthread_mutex_lock(&noting);
	fresh = shm_stray_note(shard, info->kind, info->name);
	pthread_mutex_unlock(&noting);
	if (!fresh)
		return;
	uuid_to_text(shard, text);
	log_warn("shard that no ordinal explains: its rows are readable, but "
	    "nobody seals or folds it until it is adopted shard=%s store=%s "
	    "kind=%s", text, info->name, store_kind_name(info->kind));
}

static bool
is_explained(const struct uuid *shard)
{
	uint32_t ordinal;

	return !err_is(shm_ordinal_find(shard, &ordinal));
}

/* The segment as new as it gets; what it has no place for, in *all. */
static struct err
look(struct object_dir *root, struct arena *arena, struct assignment *all)
{
	struct err e = assignment_look(root);

	if (!err_is(e) && shm_ordinal_full())
		e = assignment_load(root, arena, all);
	return e;
}

static void
explain(struct object_dir *root, const struct shm_store_info *info,
    struct shm_slot *slot)
{
	struct assignment all = { 0 };
	struct arena arena;
	bool looked = false;
	struct err e = OK;
	uint32_t i;

	arena_init(&arena, ASSIGNMENT_BYTES_MAX);
	/* Records come in front: none of these is newer than the look. */
	for (i = atomic_load(&slot->first_record);
	    i != SHM_NO_RECORD && !err_is(e);
	    i = atomic_load(&shm_record_at(i)->next)) {
		struct uuid shard = shm_record_at(i)->shard;

		if (is_explained(&shard))
			continue;
		if (!looked)
			e = look(root, &arena, &all);
		looked = true;
		if (!err_is(e) && !is_explained(&shard) &&
		    !assignment_has(&all, &shard))
			note(&shard, info);
	}
	arena_free(&arena);
	if (err_is(e))
		log_err(LOG_DEBUG, e, "shards not explained, the next tick "
		    "tries again store=%s", info->name);
}

void
explain_store(struct object_dir *root, struct shm_ref ref)
{
	struct shm_store_info info;

	/* With a pin a chain of records only grows. */
	if (err_is(shm_store_pin(ref)))
		return;
	if (shm_store_peek(ref, &info))
		explain(root, &info, shm_store_slot(ref));
	shm_store_unpin(ref);
}
