#include "common/base.h"

#include <stdio.h>

#include "common/fault.h"
#include "shm/mutex.h"
#include "shm/ordinal_table.h"
#include "shm/part.h"
#include "shm/process.h"

/* What an assignment changes; small enough to note before it is changed. */
struct assignment {
	uint64_t version;
	uint32_t state;
	uint16_t owner;
};

struct entry {
	char name[SHM_ORDINAL_NAME_MAX + 1];	/* constant once counted */
	struct uuid shard;			/* constant once counted */
	struct assignment now;			/* guarded by the mutex */
};

#define NO_UNDO UINT32_MAX

static struct table {
	struct shm_mutex mutex;
	_Atomic uint32_t count;		/* an entry is there once it counts */
	uint32_t room;

	/* Guarded by the mutex: the assignment before a change begun. */
	_Atomic uint32_t undo_index;	/* NO_UNDO: none begun */
	struct assignment undo;

	struct entry entries[];
} *table;

static const char *const state_names[] = {
#define X(state, text) text,
	SHM_ORDINAL_STATES(X)
#undef X
};

const char *
shm_ordinal_state_name(uint32_t state)
{
	return state < SHM_ORDINAL_STATE_COUNT ? state_names[state] : "unknown";
}

uint64_t
shm_ordinal_table_bytes(const struct shm_config *cfg)
{
	return sizeof(struct table) + cfg->ordinals * sizeof(struct entry);
}

void
shm_ordinal_table_carve(void *at, const struct shm_config *cfg)
{
	uint32_t k;

	table = at;
	shm_mutex_init(&table->mutex, SHM_LOCK_ordinal_table);
	table->room = cfg->ordinals;
	atomic_init(&table->undo_index, NO_UNDO);
	for (k = 0; k < cfg->workers_max; k++) {
		struct entry *e = &table->entries[k];
		int n = snprintf(e->name, sizeof(e->name),
		    k == 0 ? "%.*s" : "%.*s#%u", (int)cfg->instance_id.len,
		    cfg->instance_id.ptr, k);

		MUST(n > 0 && (size_t)n < sizeof(e->name));
		e->shard = uuid_named(slice_of(e->name));
		e->now.owner = (uint16_t)SHM_WORKER(k);
		e->now.state = SHM_ORDINAL_OWNED;
	}
	atomic_init(&table->count, cfg->workers_max);
}

void
shm_ordinal_table_repair(struct shm_mutex *m)
{
	uint32_t index = atomic_load(&table->undo_index);

	MUST(m == &table->mutex);
	if (index == NO_UNDO)
		return;
	table->entries[index].now = table->undo;
	atomic_store(&table->undo_index, NO_UNDO);
}

uint32_t
shm_ordinal_count(void)
{
	return atomic_load_explicit(&table->count, memory_order_acquire);
}

static const struct entry *
entry_at(uint32_t index)
{
	MUST(index < shm_ordinal_count());
	return &table->entries[index];
}

struct uuid
shm_ordinal_shard(uint32_t index)
{
	return entry_at(index)->shard;
}

struct slice
shm_ordinal_name(uint32_t index)
{
	return slice_of(entry_at(index)->name);
}

struct err
shm_ordinal_get(uint32_t index, struct shm_ordinal *o)
{
	const struct entry *e;

	if (index >= shm_ordinal_count())
		return FAIL(NOT_FOUND, "no such ordinal");
	e = entry_at(index);
	memcpy(o->name, e->name, sizeof(o->name));
	o->shard = e->shard;
	shm_mutex_lock(&table->mutex);
	o->owner = e->now.owner;
	o->state = e->now.state;
	o->version = e->now.version;
	shm_mutex_unlock(&table->mutex);
	return OK;
}

struct err
shm_ordinal_find(const struct uuid *shard, uint32_t *index)
{
	uint32_t i, count = shm_ordinal_count();

	for (i = 0; i < count; i++) {
		if (uuid_eq(&table->entries[i].shard, shard)) {
			*index = i;
			return OK;
		}
	}
	return FAIL(NOT_FOUND, "no such ordinal");
}

struct err
shm_ordinal_add(struct slice name, uint32_t *index)
{
	struct uuid shard = uuid_named(name);
	struct err e = OK;
	struct entry *to;

	if (name.len == 0 || name.len > SHM_ORDINAL_NAME_MAX)
		return FAIL(BAD_INPUT, "an ordinal's name has 1 to 279 bytes");
	shm_mutex_lock(&table->mutex);
	if (!err_is(shm_ordinal_find(&shard, index)))
		goto out;
	if (shm_ordinal_count() == table->room) {
		e = FAIL(NO_MEMORY, "the table of ordinals is full");
		goto out;
	}
	to = &table->entries[shm_ordinal_count()];
	memset(to, 0, sizeof(*to));
	memcpy(to->name, name.ptr, name.len);
	to->shard = shard;
	to->now.owner = SHM_NOBODY;
	to->now.state = SHM_ORDINAL_ORPHANED;
	FAULT_HERE(shm_insert);
	*index = shm_ordinal_count();
	atomic_fetch_add_explicit(&table->count, 1, memory_order_release);
out:
	shm_mutex_unlock(&table->mutex);
	return e;
}

struct err
shm_ordinal_assign(uint32_t index, uint16_t owner,
    enum shm_ordinal_state state, uint64_t version, bool *changed)
{
	struct assignment *now;

	if (index >= shm_ordinal_count())
		return FAIL(NOT_FOUND, "no such ordinal");
	now = &table->entries[index].now;
	shm_mutex_lock(&table->mutex);
	*changed = version > now->version;
	if (*changed) {
		table->undo = *now;
		atomic_store(&table->undo_index, index);
		now->owner = owner;
		now->state = state;
		FAULT_HERE(shm_assign);
		now->version = version;
		atomic_store(&table->undo_index, NO_UNDO);
	}
	shm_mutex_unlock(&table->mutex);
	return OK;
}
