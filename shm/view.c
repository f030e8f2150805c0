#include "common/base.h"

#include "common/fault.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/view.h"

/*
 * Last commits come before manifests before base, as in storage. Under the
 * read lock no manifest and no base moves, so the order within take is free;
 * what matters is that a commit is not read after the lock is given up.
 */

#define LOAD_READY 1ull			/* as in store_slot.c */

void
shm_readers_init(struct shm_readers *r)
{
	memset(r, 0, sizeof(*r));
	MUST(pthread_mutex_init(&r->mutex, NULL) == 0);
}

void
shm_readers_free(struct shm_readers *r)
{
	MUST(r->count == 0);
	MUST(pthread_mutex_destroy(&r->mutex) == 0);
}

/* The serial that the reader is booked under. */
static uint64_t
book(struct shm_readers *r, uint64_t serial)
{
	uint32_t last = r->count - 1;

	/* Serials rise, so only the newest entry can be the one. */
	if (r->count > 0 && (r->entries[last].serial == serial ||
	    r->count == SHM_READERS_SERIALS)) {
		MUST(r->entries[last].serial <= serial);
		r->entries[last].readers++;
		return r->entries[last].serial;
	}
	MUST(r->count == 0 || r->entries[last].serial < serial);
	r->entries[r->count].serial = serial;
	r->entries[r->count].readers = 1;
	r->count++;
	return serial;
}

static void
unbook(struct shm_readers *r, uint64_t held)
{
	uint32_t i = 0;

	while (i < r->count && r->entries[i].serial != held)
		i++;
	MUST(i < r->count);
	MUST(r->entries[i].readers > 0);
	if (--r->entries[i].readers > 0)
		return;
	r->count--;
	memmove(&r->entries[i], &r->entries[i + 1],
	    (r->count - i) * sizeof(r->entries[0]));
}

/*
 * Counts also what finds no room. Another instance's shard is there from when
 * its folder is, although nothing is known of it yet: else nobody would look
 * for its first manifest.
 */
static void
copy_shard(struct shm_view *v, uint32_t shard, const struct uuid *uuid,
    const struct shm_shard_state *s)
{
	struct shm_view_shard to = {
		.shard = shard,
		.commit = shm_shard_commit(s),
		.closed = shm_shard_closed(s),
		.claim = shm_shard_claimed(s),
		.marks = shm_shard_marks(s),
	};

	if (shard < SHM_SHARD_RECORD && to.marks.version == 0 &&
	    to.commit.end == 0 && to.claim.slot == SHM_NOBODY)
		return;
	to.uuid = *uuid;
	if (v->shard_count < v->shard_room)
		v->shards[v->shard_count] = to;
	v->shard_count++;
}

static struct err
copy_view(struct shm_slot *s, struct shm_view *v)
{
	struct uuid uuid;
	uint32_t i;

	v->shard_count = 0;
	v->flags = atomic_load(&s->flags);
	if (atomic_load(&s->load) != LOAD_READY ||
	    (v->flags & SHM_FLAG_STALE) != 0)
		return FAIL(UNAVAILABLE, "the store is being loaded");
	for (i = 0; i < shm_workers_max(); i++) {
		uuid = shm_ordinal_shard(i);
		copy_shard(v, i, &uuid, shm_slot_local(s, i));
	}
	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD;
	    i = atomic_load(&shm_record_at(i)->next))
		copy_shard(v, SHM_SHARD_RECORD + i, &shm_record_at(i)->shard,
		    &shm_record_at(i)->state);
	if (v->shard_count > v->shard_room)
		return FAIL(TOO_LARGE, "a view has more shards than room");
	v->store = s->store;
	v->serial = atomic_load(&s->serial);
	v->base_version = atomic_load(&s->base_version);
	v->pinned_version = atomic_load(&s->pinned_version);
	return OK;
}

struct err
shm_view_take(struct shm_ref ref, struct shm_readers *r, struct shm_view *v)
{
	struct shm_slot *s;
	struct err e;

	MUST(pthread_mutex_lock(&r->mutex) == 0);
	s = shm_slot_read(ref);
	if (s == NULL) {
		e = FAIL(NOT_FOUND, "the slot was evicted");
		goto out;
	}
	e = copy_view(s, v);
	if (!err_is(e)) {
		v->ref = ref;
		v->held = book(r, v->serial);
		/* Noted before the lock goes: a swap that comes next, and
		 * whoever deletes after it, sees this reader. */
		atomic_store(&shm_slot_serials(s)[shm_self()],
		    r->entries[0].serial);
	}
	shm_rwlock_read_done(shm_slot_lock(s));
	if (!err_is(e))
		shm_slot_used(s);
out:
	MUST(pthread_mutex_unlock(&r->mutex) == 0);
	return e;
}

void
shm_view_drop(struct shm_readers *r, struct shm_view *v)
{
	struct shm_slot *s;

	MUST(pthread_mutex_lock(&r->mutex) == 0);
	s = shm_store_slot(v->ref);
	MUST(s != NULL);	/* this reader kept it */
	unbook(r, v->held);
	atomic_store(&shm_slot_serials(s)[shm_self()],
	    r->count > 0 ? r->entries[0].serial : 0);
	MUST(pthread_mutex_unlock(&r->mutex) == 0);
	v->ref = (struct shm_ref){ 0 };
	v->held = 0;
}

uint64_t
shm_view_oldest(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint64_t oldest = UINT64_MAX, serial;
	uint16_t p;

	for (p = 0; s != NULL && p < shm_process_count(); p++) {
		serial = atomic_load(&shm_slot_serials(s)[p]);
		if (serial != 0)
			oldest = MIN(oldest, serial);
	}
	return oldest;
}

/* Under the write lock. */
static bool
raise_all(struct shm_ref ref, struct shm_slot *s, uint64_t base_version,
    uint64_t pinned_version, const struct shm_view_mark *marks, uint32_t count)
{
	bool changed = false;
	uint32_t i;

	for (i = 0; i < count; i++)
		changed |= shm_shard_raise_marks(
		    shm_store_shard(ref, marks[i].shard), &marks[i].marks);
	FAULT_HERE(shm_raise);
	if (base_version > atomic_load(&s->base_version)) {
		atomic_store(&s->base_version, base_version);
		atomic_store(&s->pinned_version, pinned_version);
		changed = true;
	}
	return changed;
}

struct err
shm_view_raise(struct shm_ref ref, uint64_t base_version,
    const struct shm_view_mark *marks, uint32_t count, uint64_t *serial)
{
	struct shm_slot *s = shm_slot_write(ref);

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	if (raise_all(ref, s, base_version, 0, marks, count))
		atomic_fetch_add(&s->serial, 1);
	if (serial != NULL)
		*serial = atomic_load(&s->serial);
	shm_rwlock_write_done(shm_slot_lock(s));
	return OK;
}

struct err
shm_view_raise_base(struct shm_ref ref, uint64_t base_version,
    uint64_t pinned_version)
{
	struct shm_slot *s = shm_slot_write(ref);

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	if (raise_all(ref, s, base_version, pinned_version, NULL, 0))
		atomic_fetch_add(&s->serial, 1);
	shm_rwlock_write_done(shm_slot_lock(s));
	return OK;
}

struct err
shm_view_load_begin(struct shm_ref ref, uint64_t *serial)
{
	struct shm_slot *s = shm_slot_read(ref);

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	*serial = atomic_load(&s->serial);
	shm_rwlock_read_done(shm_slot_lock(s));
	return OK;
}

/* Half written marks may be of any version: none is believed. */
static void
forget_marks(struct shm_slot *s)
{
	uint32_t i;

	atomic_store(&s->base_version, 0);
	for (i = 0; i < shm_workers_max(); i++)
		atomic_store(&shm_slot_local(s, i)->manifest_version, 0);
	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD;
	    i = atomic_load(&shm_record_at(i)->next))
		atomic_store(&shm_record_at(i)->state.manifest_version, 0);
}

struct err
shm_view_load_end(struct shm_ref ref, uint64_t serial, uint64_t base_version,
    uint64_t pinned_version, const struct shm_view_mark *marks, uint32_t count)
{
	struct shm_slot *s = shm_slot_write(ref);
	struct err e = OK;

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	if ((atomic_load(&s->flags) & SHM_FLAG_STALE) != 0) {
		if (atomic_load(&s->serial) != serial) {
			e = FAIL(CONFLICT, "the view was changed while it was "
			    "loaded");
			goto out;
		}
		forget_marks(s);
		atomic_fetch_and(&s->flags, ~SHM_FLAG_STALE);
	}
	raise_all(ref, s, base_version, pinned_version, marks, count);
	atomic_fetch_add(&s->serial, 1);
	atomic_store(&s->load, LOAD_READY);
out:
	shm_rwlock_write_done(shm_slot_lock(s));
	return e;
}
