#include "common/base.h"

#include <stdio.h>

#include "common/fault.h"
#include "shm/mutex.h"
#include "shm/ordinal_table.h"
#include "shm/part.h"
#include "shm/process.h"

struct entry {
	/* Constant once counted, as long as it is not retired. */
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid shard;

	/* Guarded by the mutex. */
	struct shm_news now;
	/* From now, for who cannot wait. */
	_Atomic uint16_t owner;			/* process slot */
	_Atomic bool elsewhere;			/* another instance's */
	_Atomic uint32_t moves;			/* never falls */
	_Atomic bool wanted;			/* want is whole */
	struct shm_want want;
};

#define NO_UNDO UINT32_MAX

static struct table {
	struct shm_mutex mutex;
	_Atomic uint32_t count;		/* an entry is there once it counts */
	uint32_t room;
	_Atomic uint64_t version;	/* entries are known up to it */
	_Atomic uint64_t unread;	/* the one after it; 0: none such */

	/* Guarded by the mutex: the assignment before a change begun. */
	_Atomic uint32_t undo_index;	/* NO_UNDO: none begun */
	struct shm_news undo;
	/* And what comes into the place of a retired one. */
	_Atomic uint32_t redo_index;	/* NO_UNDO: nothing */
	char redo_name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid redo_shard;

	/* Guarded by the mutex. */
	_Atomic bool newcomer_wanted;	/* newcomer is whole */
	struct shm_newcomer newcomer;

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

static const char *const reason_names[] = {
#define X(reason, text) text,
	SHM_ORDINAL_REASONS(X)
#undef X
};

const char *
shm_ordinal_reason_name(uint32_t reason)
{
	return reason < SHM_ORDINAL_REASON_COUNT ? reason_names[reason] : "";
}

uint64_t
shm_ordinal_table_bytes(const struct shm_config *cfg)
{
	return sizeof(struct table) + cfg->ordinals * sizeof(struct entry);
}

static uint16_t
owner_of(const struct shm_assignment *is)
{
	return is->state != SHM_ORDINAL_ORPHANED &&
	    is->state != SHM_ORDINAL_RETIRED &&
	    is->worker < shm_workers_max() &&
	    strcmp(is->instance, shm_instance_id()) == 0 ?
	    (uint16_t)SHM_WORKER(is->worker) : SHM_NOBODY;
}

static bool
is_elsewhere(const struct shm_assignment *is)
{
	return is->state != SHM_ORDINAL_ORPHANED &&
	    is->state != SHM_ORDINAL_RETIRED && is->instance[0] != '\0' &&
	    strcmp(is->instance, shm_instance_id()) != 0;
}

/* Its moves first: a claim of the stay before must not be taken for one of the
 * new owner's. missed: it was somebody else's in between. */
static void
set_owner(struct entry *e, bool missed)
{
	uint16_t owner = owner_of(&e->now.is);
	bool elsewhere = is_elsewhere(&e->now.is);

	if (!missed && owner == atomic_load(&e->owner) &&
	    elsewhere == atomic_load(&e->elsewhere))
		return;
	atomic_fetch_add(&e->moves, 1);
	atomic_store(&e->elsewhere, elsewhere);
	atomic_store(&e->owner, owner);
}

/* The part of instances is carved before ours. */
static void
set_own(struct shm_assignment *is, uint32_t worker)
{
	is->state = SHM_ORDINAL_OWNED;
	is->worker = worker;
	snprintf(is->instance, sizeof(is->instance), "%s", shm_instance_id());
	snprintf(is->address, sizeof(is->address), "%s",
	    shm_instance_address());
}

void
shm_ordinal_table_carve(void *at, const struct shm_config *cfg)
{
	uint32_t k;

	table = at;
	shm_mutex_init(&table->mutex, SHM_LOCK_ordinal_table);
	table->room = cfg->ordinals;
	atomic_init(&table->undo_index, NO_UNDO);
	atomic_init(&table->redo_index, NO_UNDO);
	for (k = 0; k < cfg->workers_max; k++) {
		struct entry *e = &table->entries[k];
		int n = snprintf(e->name, sizeof(e->name),
		    k == 0 ? "%.*s" : "%.*s#%u", (int)cfg->instance_id.len,
		    cfg->instance_id.ptr, k);

		MUST(n > 0 && (size_t)n < sizeof(e->name));
		e->shard = uuid_named(slice_of(e->name));
		set_own(&e->now.is, k);
		atomic_init(&e->owner, owner_of(&e->now.is));
	}
	atomic_init(&table->count, cfg->workers_max);
}

/* A claim of the one before is no claim of this one's. */
static void
redo(uint32_t index)
{
	struct entry *e = &table->entries[index];

	atomic_fetch_add(&e->moves, 1);
	atomic_store(&e->elsewhere, false);
	atomic_store(&e->owner, SHM_NOBODY);
	atomic_store(&e->wanted, false);
	memset(&e->now, 0, sizeof(e->now));
	e->now.is.state = SHM_ORDINAL_ORPHANED;
	memcpy(e->name, table->redo_name, sizeof(e->name));
	FAULT_HERE(shm_insert);
	e->shard = table->redo_shard;
	atomic_store(&table->redo_index, NO_UNDO);
}

void
shm_ordinal_table_repair(struct shm_mutex *m)
{
	uint32_t index = atomic_load(&table->redo_index);

	MUST(m == &table->mutex);
	if (index != NO_UNDO)
		redo(index);
	index = atomic_load(&table->undo_index);
	if (index == NO_UNDO)
		return;
	table->entries[index].now = table->undo;
	set_owner(&table->entries[index], true);
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

uint16_t
shm_ordinal_owner(uint32_t index)
{
	return atomic_load_explicit(&entry_at(index)->owner,
	    memory_order_acquire);
}

bool
shm_ordinal_here(uint32_t index)
{
	return shm_ordinal_owner(index) != SHM_NOBODY;
}

bool
shm_ordinal_aged(uint32_t index)
{
	return index < shm_workers_max() ?
	    !atomic_load_explicit(&entry_at(index)->elsewhere,
	    memory_order_acquire) : shm_ordinal_here(index);
}

bool
shm_ordinal_guest(uint32_t index)
{
	uint16_t owner = shm_ordinal_owner(index);

	return owner != SHM_NOBODY && (index >= shm_workers_max() ||
	    owner != SHM_WORKER(index));
}

uint32_t
shm_ordinal_moves(uint32_t index)
{
	return atomic_load_explicit(&entry_at(index)->moves,
	    memory_order_acquire);
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
	shm_mutex_lock(&table->mutex);
	memcpy(o->name, e->name, sizeof(o->name));
	o->shard = e->shard;
	o->is = e->now.is;
	o->version = e->now.version;
	o->at_ms = e->now.at_ms;
	o->reason = e->now.reason;
	memcpy(o->was, e->now.was, sizeof(o->was));
	o->drained = e->now.drained;
	o->wanted = atomic_load(&e->wanted);
	shm_mutex_unlock(&table->mutex);
	o->owner = owner_of(&o->is);
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

bool
shm_ordinal_full(void)
{
	return shm_ordinal_count() == table->room;
}

/* With the mutex; NO_UNDO: there is none. */
static uint32_t
find_retired(void)
{
	uint32_t i, count = shm_ordinal_count();

	for (i = shm_workers_max(); i < count; i++) {
		const struct entry *e = &table->entries[i];

		if (e->now.is.state == SHM_ORDINAL_RETIRED &&
		    e->now.drained == 0 && !atomic_load(&e->wanted))
			return i;
	}
	return NO_UNDO;
}

/* With the mutex. Noted first: whoever repairs ends it. */
static struct err
take_place(struct slice name, const struct uuid *shard, uint32_t *index)
{
	uint32_t i = find_retired();

	if (i == NO_UNDO)
		return FAIL(NO_MEMORY, "the table of ordinals is full");
	memset(table->redo_name, 0, sizeof(table->redo_name));
	memcpy(table->redo_name, name.ptr, name.len);
	table->redo_shard = *shard;
	atomic_store(&table->redo_index, i);
	redo(i);
	*index = i;
	return OK;
}

static bool
is_named(uint32_t index, struct slice name)
{
	return slice_eq(slice_of(table->entries[index].name), name);
}

/* With the mutex. */
static struct err
find_or_add(struct slice name, const struct uuid *shard, uint32_t *index)
{
	uint32_t count = shm_ordinal_count(), i;
	struct entry *to;

	for (i = 0; i < count; i++) {
		bool named = is_named(i, name);

		if (uuid_eq(&table->entries[i].shard, shard) != named)
			return FAIL(EXISTS, "an ordinal of another name has that "
			    "shard, or one of that name another shard");
		if (named) {
			*index = i;
			return OK;
		}
	}
	if (count == table->room)
		return take_place(name, shard, index);
	to = &table->entries[count];
	memset(to, 0, sizeof(*to));
	memcpy(to->name, name.ptr, name.len);
	to->shard = *shard;
	to->now.is.state = SHM_ORDINAL_ORPHANED;
	atomic_init(&to->owner, SHM_NOBODY);
	FAULT_HERE(shm_insert);
	*index = count;
	atomic_fetch_add_explicit(&table->count, 1, memory_order_release);
	return OK;
}

struct err
shm_ordinal_adopt(struct slice name, const struct uuid *shard,
    uint32_t *index)
{
	struct err e;

	if (name.len == 0 || name.len > SHM_ORDINAL_NAME_MAX)
		return FAIL(BAD_INPUT, "an ordinal's name has 1 to 279 bytes");
	shm_mutex_lock(&table->mutex);
	e = find_or_add(name, shard, index);
	shm_mutex_unlock(&table->mutex);
	return e;
}

struct err
shm_ordinal_add(struct slice name, uint32_t *index)
{
	struct uuid shard = uuid_named(name);

	return shm_ordinal_adopt(name, &shard, index);
}

struct err
shm_ordinal_assign(uint32_t index, const struct shm_news *news, bool *changed)
{
	struct shm_news *now;

	if (index >= shm_ordinal_count())
		return FAIL(NOT_FOUND, "no such ordinal");
	now = &table->entries[index].now;
	shm_mutex_lock(&table->mutex);
	*changed = news->version > now->version;
	if (*changed) {
		bool missed = news->was[0].version > now->version;

		table->undo = *now;
		atomic_store(&table->undo_index, index);
		now->is = news->is;
		FAULT_HERE(shm_assign);
		*now = *news;
		set_owner(&table->entries[index], missed);
		atomic_store(&table->undo_index, NO_UNDO);
	}
	shm_mutex_unlock(&table->mutex);
	return OK;
}

uint64_t
shm_ordinal_version(void)
{
	return atomic_load_explicit(&table->version, memory_order_acquire);
}

void
shm_ordinal_version_raise(uint64_t version)
{
	uint64_t seen = shm_ordinal_version();

	while (seen < version &&
	    !atomic_compare_exchange_weak(&table->version, &seen, version))
		;
}

uint64_t
shm_ordinal_unread(void)
{
	return atomic_load(&table->unread);
}

void
shm_ordinal_unread_set(uint64_t version)
{
	if (shm_ordinal_unread() != version)
		atomic_store(&table->unread, version);
}

struct err
shm_ordinal_want(uint32_t index, const struct shm_want *w)
{
	struct entry *e;

	if (index >= shm_ordinal_count())
		return FAIL(NOT_FOUND, "no such ordinal");
	e = &table->entries[index];
	shm_mutex_lock(&table->mutex);
	atomic_store(&e->wanted, false);
	e->want = *w;
	atomic_store(&e->wanted, true);
	shm_mutex_unlock(&table->mutex);
	return OK;
}

bool
shm_ordinal_wanted(uint32_t index, struct shm_want *w)
{
	const struct entry *e = entry_at(index);
	bool wanted;

	shm_mutex_lock(&table->mutex);
	wanted = atomic_load(&e->wanted);
	if (wanted)
		*w = e->want;
	shm_mutex_unlock(&table->mutex);
	return wanted;
}

void
shm_ordinal_want_end(uint32_t index, const struct shm_want *w)
{
	struct entry *e;

	MUST(index < shm_ordinal_count());
	e = &table->entries[index];
	shm_mutex_lock(&table->mutex);
	if (memcmp(&e->want, w, sizeof(*w)) == 0)
		atomic_store(&e->wanted, false);
	shm_mutex_unlock(&table->mutex);
}

void
shm_ordinal_want_new(const struct shm_newcomer *n)
{
	shm_mutex_lock(&table->mutex);
	atomic_store(&table->newcomer_wanted, false);
	table->newcomer = *n;
	atomic_store(&table->newcomer_wanted, true);
	shm_mutex_unlock(&table->mutex);
}

bool
shm_ordinal_wanted_new(struct shm_newcomer *n)
{
	bool wanted;

	shm_mutex_lock(&table->mutex);
	wanted = atomic_load(&table->newcomer_wanted);
	if (wanted)
		*n = table->newcomer;
	shm_mutex_unlock(&table->mutex);
	return wanted;
}

void
shm_ordinal_want_new_end(const struct shm_newcomer *n)
{
	shm_mutex_lock(&table->mutex);
	if (memcmp(&table->newcomer, n, sizeof(*n)) == 0)
		atomic_store(&table->newcomer_wanted, false);
	shm_mutex_unlock(&table->mutex);
}
