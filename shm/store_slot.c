#include "common/base.h"

#include "common/clock.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/store_table.h"

/*
 * What is done with a ref. A slot changes hands only under its write lock and
 * only when nobody needs it, so what makes it needed (pin, serial, guard) is
 * begun under the read lock, after a look at the incarnation.
 */

#define LOAD_ABSENT	0ull
#define LOAD_READY	1ull	/* any other value: the life of the loader */

static const char *const load_names[] = {
#define X(state, text) text,
	SHM_LOAD_STATES(X)
#undef X
};

const char *
shm_load_state_name(uint32_t state)
{
	return state < SHM_LOAD_STATE_COUNT ? load_names[state] : "unknown";
}

static const char *const pressure_names[] = {
#define X(level, text) text,
	SHM_PRESSURES(X)
#undef X
};

const char *
shm_pressure_name(uint32_t level)
{
	return level < SHM_PRESSURE_COUNT ? pressure_names[level] : "unknown";
}

bool
shm_slot_is(const struct shm_slot *s, struct shm_ref ref)
{
	return ref.incarnation % 2 == 1 &&
	    atomic_load(&s->incarnation) == ref.incarnation;
}

struct shm_slot *
shm_store_slot(struct shm_ref ref)
{
	struct shm_slot *s = shm_slot_at(ref.index);

	return shm_slot_is(s, ref) ? s : NULL;
}

struct shm_slot *
shm_slot_read(struct shm_ref ref)
{
	struct shm_slot *s = shm_slot_at(ref.index);

	shm_rwlock_read(shm_slot_lock(s));
	if (shm_slot_is(s, ref))
		return s;
	shm_rwlock_read_done(shm_slot_lock(s));
	return NULL;
}

struct shm_slot *
shm_slot_write(struct shm_ref ref)
{
	struct shm_slot *s = shm_slot_at(ref.index);

	shm_rwlock_write(shm_slot_lock(s));
	if (shm_slot_is(s, ref))
		return s;
	shm_rwlock_write_done(shm_slot_lock(s));
	return NULL;
}

void
shm_slot_used(struct shm_slot *s)
{
	uint64_t now_ns = clock_mono_ns();

	/* Not each time: the line would travel between all readers. */
	if (now_ns - atomic_load_explicit(&s->last_used_ns,
	    memory_order_relaxed) >= NS_PER_SEC)
		atomic_store_explicit(&s->last_used_ns, now_ns,
		    memory_order_relaxed);
}

static bool
held(const struct shm_guard *g)
{
	struct shm_who who;

	return shm_guard_holder(g, &who);
}

bool
shm_slot_needed(struct shm_slot *s)
{
	uint64_t load = atomic_load(&s->load);
	uint32_t i;

	if (held(&s->guard) || (load != LOAD_ABSENT && load != LOAD_READY))
		return true;
	for (i = 0; i < shm_process_count(); i++) {
		if (atomic_load(&shm_slot_serials(s)[i]) != 0 ||
		    atomic_load(&shm_slot_pins(s)[i]) != 0)
			return true;
	}
	for (i = 0; i < shm_workers_max(); i++) {
		if (held(&shm_slot_local(s, i)->seal_guard))
			return true;
	}
	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD;
	    i = atomic_load(&shm_record_at(i)->next)) {
		if (held(&shm_record_at(i)->state.seal_guard))
			return true;
	}
	return false;
}

struct err
shm_store_pin(struct shm_ref ref)
{
	struct shm_slot *s = shm_slot_read(ref);

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	atomic_fetch_add(&shm_slot_pins(s)[shm_self()], 1);
	shm_slot_used(s);
	shm_rwlock_read_done(shm_slot_lock(s));
	return OK;
}

void
shm_store_unpin(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);

	MUST(s != NULL);	/* the pin kept it */
	MUST(atomic_fetch_sub(&shm_slot_pins(s)[shm_self()], 1) > 0);
}

bool
shm_store_load_begin(struct shm_ref ref)
{
	struct shm_slot *s = shm_slot_read(ref);
	uint64_t from;
	bool mine;

	if (s == NULL)
		return false;
	/* A stale slot is loaded again. */
	from = (atomic_load(&s->flags) & SHM_FLAG_STALE) != 0 ?
	    LOAD_READY : LOAD_ABSENT;
	mine = atomic_compare_exchange_strong(&s->load, &from,
	    shm_life_self());
	if (!mine && from == LOAD_ABSENT)
		mine = atomic_compare_exchange_strong(&s->load, &from,
		    shm_life_self());
	shm_rwlock_read_done(shm_slot_lock(s));
	return mine;
}

void
shm_store_load_failed(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint64_t mine = shm_life_self();

	if (s != NULL)
		atomic_compare_exchange_strong(&s->load, &mine, LOAD_ABSENT);
}

enum shm_load_state
shm_store_load_state(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint64_t load = s == NULL ? LOAD_ABSENT : atomic_load(&s->load);

	if (load == LOAD_ABSENT)
		return SHM_LOAD_ABSENT;
	return load == LOAD_READY ? SHM_LOAD_READY : SHM_LOAD_LOADING;
}

static struct err
set_flag(struct shm_ref ref, uint32_t flag)
{
	struct shm_slot *s = shm_slot_write(ref);

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	atomic_fetch_or(&s->flags, flag);
	atomic_fetch_add(&s->serial, 1);
	shm_rwlock_write_done(shm_slot_lock(s));
	return OK;
}

struct err
shm_store_delete(struct shm_ref ref)
{
	return set_flag(ref, SHM_FLAG_DELETED);
}

struct err
shm_store_stale(struct shm_ref ref)
{
	return set_flag(ref, SHM_FLAG_STALE);
}

uint32_t
shm_store_flags(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);

	return s == NULL ? SHM_FLAG_DELETED : atomic_load(&s->flags);
}

void
shm_store_used(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);

	if (s != NULL)
		shm_slot_used(s);
}

void
shm_store_touch(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);

	if (s == NULL)
		return;
	/* The commit first, then the look: else a tick that takes the mark
	 * away in between sees neither mark nor commit. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&s->dirty) == 0)
		atomic_store(&s->dirty, 1);
	shm_slot_used(s);
}

bool
shm_store_untouch(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);

	return s != NULL && atomic_exchange(&s->dirty, 0) != 0;
}

uint64_t
shm_store_guard_try(struct shm_ref ref, uint64_t deadline_ns)
{
	struct shm_slot *s = shm_slot_read(ref);
	uint64_t token;

	if (s == NULL)
		return 0;
	token = shm_guard_try(&s->guard, shm_who(), deadline_ns);
	shm_rwlock_read_done(shm_slot_lock(s));
	return token;
}

void
shm_store_guard_phase(struct shm_ref ref, enum tick_phase phase)
{
	struct shm_slot *s = shm_store_slot(ref);

	MUST(s != NULL);	/* the guard kept it */
	shm_guard_phase(&s->guard, phase);
}

void
shm_store_guard_release(struct shm_ref ref, uint64_t token)
{
	struct shm_slot *s = shm_store_slot(ref);

	MUST(s != NULL);	/* the guard kept it */
	shm_metric_observe(METRIC_memwald_guard_hold_seconds, 0,
	    clock_mono_ns() - atomic_load(&s->guard.since_ns));
	shm_guard_release(&s->guard, token);
}

uint64_t
shm_store_seal_try(struct shm_ref ref, uint32_t shard, uint64_t deadline_ns)
{
	struct shm_slot *s = shm_slot_read(ref);
	uint64_t token;

	if (s == NULL)
		return 0;
	token = shm_guard_try(&shm_store_shard(ref, shard)->seal_guard,
	    shm_who(), deadline_ns);
	shm_rwlock_read_done(shm_slot_lock(s));
	return token;
}

void
shm_store_seal_release(struct shm_ref ref, uint32_t shard, uint64_t token)
{
	shm_guard_release(&shm_store_shard(ref, shard)->seal_guard, token);
}

struct shm_shard_state *
shm_store_shard(struct shm_ref ref, uint32_t shard)
{
	struct shm_slot *s = shm_store_slot(ref);

	MUST(s != NULL);	/* the caller holds it */
	if (shard >= SHM_SHARD_RECORD)
		return &shm_record_at(shard - SHM_SHARD_RECORD)->state;
	return shm_slot_local(s, shard);
}

struct uuid
shm_store_shard_uuid(struct shm_ref ref, uint32_t shard)
{
	MUST(shm_store_slot(ref) != NULL);
	if (shard >= SHM_SHARD_RECORD)
		return shm_record_at(shard - SHM_SHARD_RECORD)->shard;
	return shm_ordinal_shard(shard);
}

static bool
is_ordinal(const struct shm_record *r, uint32_t ordinal)
{
	struct uuid shard = shm_ordinal_shard(ordinal);

	return uuid_eq(&shard, &r->shard);
}

/* Found once: names and uuids of ordinals never change. Looked at again, since
 * who notes it without a pin may do so when the record is another shard's. */
uint32_t
shm_record_ordinal(uint32_t index)
{
	struct shm_record *r = shm_record_at(index);
	uint32_t known = atomic_load_explicit(&r->ordinal,
	    memory_order_relaxed), ordinal;

	if (known != 0 && is_ordinal(r, known - 1))
		return known - 1;
	if (err_is(shm_ordinal_find(&r->shard, &ordinal)))
		return SHM_NO_ORDINAL;
	atomic_store_explicit(&r->ordinal, ordinal + 1, memory_order_relaxed);
	return ordinal;
}

uint32_t
shm_store_shard_ordinal(struct shm_ref ref, uint32_t shard)
{
	MUST(shm_store_slot(ref) != NULL);
	return shard >= SHM_SHARD_RECORD ?
	    shm_record_ordinal(shard - SHM_SHARD_RECORD) : shard;
}

static bool
is_aged(uint32_t shard, struct shm_aged *aged)
{
	aged->shard = shard;
	aged->ordinal = shard >= SHM_SHARD_RECORD ?
	    shm_record_ordinal(shard - SHM_SHARD_RECORD) : shard;
	return aged->ordinal != SHM_NO_ORDINAL &&
	    shm_ordinal_aged(aged->ordinal);
}

/* at: a number, of which those of records are in the order of their chain. */
bool
shm_store_aged_next(struct shm_ref ref, uint32_t *at, struct shm_aged *aged)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint32_t shard, next;

	MUST(s != NULL);	/* the caller holds it */
	while (*at != SHM_SHARD_NONE) {
		shard = *at;
		if (shard < shm_workers_max()) {
			(*at)++;
		} else {
			next = shard < SHM_SHARD_RECORD ?
			    atomic_load(&s->first_record) : atomic_load(
			    &shm_record_at(shard - SHM_SHARD_RECORD)->next);
			*at = next == SHM_NO_RECORD ? SHM_SHARD_NONE :
			    SHM_SHARD_RECORD + next;
			if (shard < SHM_SHARD_RECORD)
				continue;
		}
		if (is_aged(shard, aged))
			return true;
	}
	return false;
}

/* A chain only grows while its slot is held, so no lock is needed to walk. */
uint32_t
shm_store_shard_find(struct shm_ref ref, const struct uuid *uuid)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint32_t i;

	if (s == NULL)
		return SHM_SHARD_NONE;
	for (i = 0; i < shm_workers_max(); i++) {
		struct uuid own = shm_ordinal_shard(i);

		if (uuid_eq(&own, uuid))
			return i;
	}
	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD;
	    i = atomic_load(&shm_record_at(i)->next)) {
		if (uuid_eq(&shm_record_at(i)->shard, uuid))
			return SHM_SHARD_RECORD + i;
	}
	return SHM_SHARD_NONE;
}

bool
shm_store_next(uint32_t *index, struct shm_ref *ref)
{
	for (; *index < shm_store_reach(); (*index)++) {
		uint32_t incarnation =
		    atomic_load(&shm_slot_at(*index)->incarnation);

		if (incarnation % 2 == 1) {
			*ref = (struct shm_ref){ *index, incarnation };
			(*index)++;
			return true;
		}
	}
	return false;
}
