#include "common/base.h"

#include "common/fault.h"
#include "common/hash.h"
#include "shm/part.h"
#include "shm/process.h"
#include "shm/store_table.h"

/*
 * The truth is in the slots: each carries its key, and its incarnation is odd
 * while it is in use. The index (open addressing, linear probing) and both free
 * lists are derived from that. So each change is one store of an incarnation
 * or of the head of a chain, with everything before it prepared, and the rest
 * is redone by the repair if its doer dies.
 */

#define NO_SLOT UINT32_MAX
#define LOOK_AT_MAX 1024u

static struct table {
	struct shm_mutex mutex;
	uint32_t free_slot;		/* NO_SLOT: full */
	uint32_t free_record;		/* SHM_NO_RECORD: full */
	uint32_t hand;			/* where the next eviction begins to look */
	_Atomic uint32_t reach;		/* see shm_store_reach; only rises */
} *table;

static uint32_t *cells;			/* index + 1 of a slot, 0: empty */
static char *slots;
static struct shm_record *records;

/* Constant after carve; every child inherits a copy. */
static struct {
	uint32_t slots, records, cells, workers, processes;
	size_t slot_bytes, locals_at, lock_at, serials_at, pins_at;
} sizes;

static const char *const kind_names[] = {
#define X(kind, text) text,
	STORE_KINDS(X)
#undef X
};

const char *
store_kind_name(uint32_t kind)
{
	return kind < STORE_KIND_COUNT ? kind_names[kind] : "unknown";
}

static void
set_sizes(uint32_t slot_count, uint32_t record_count, uint32_t workers_max)
{
	sizes.slots = slot_count;
	sizes.records = record_count;
	sizes.workers = workers_max;
	sizes.processes = 2 + workers_max;
	/* At most half full: probes stay short. */
	for (sizes.cells = 16; sizes.cells < 2 * slot_count;)
		sizes.cells *= 2;
	sizes.locals_at = sizeof(struct shm_slot);
	sizes.lock_at = sizes.locals_at +
	    workers_max * sizeof(struct shm_shard_state);
	sizes.serials_at = sizes.lock_at +
	    shm_rwlock_bytes((uint16_t)sizes.processes);
	sizes.pins_at = sizes.serials_at + sizes.processes * sizeof(uint64_t);
	sizes.slot_bytes = ROUND_UP(sizes.pins_at +
	    sizes.processes * sizeof(uint32_t), CACHELINE);
}

uint64_t
shm_slot_size(uint32_t workers_max)
{
	set_sizes(1, 0, workers_max);
	return sizes.slot_bytes;
}

static uint64_t
cells_at(void)
{
	return ROUND_UP(sizeof(struct table), CACHELINE);
}

static uint64_t
slots_at(void)
{
	return cells_at() + ROUND_UP(sizes.cells * sizeof(uint32_t), CACHELINE);
}

static uint64_t
records_at(void)
{
	return slots_at() + sizes.slots * sizes.slot_bytes;
}

uint64_t
shm_store_table_bytes(const struct shm_config *cfg)
{
	set_sizes(cfg->slots, cfg->shard_records, cfg->workers_max);
	return records_at() +
	    cfg->shard_records * (uint64_t)sizeof(struct shm_record);
}

struct shm_slot *
shm_slot_at(uint32_t index)
{
	MUST(index < sizes.slots);
	return (void *)(slots + index * sizes.slot_bytes);
}

struct shm_rwlock *
shm_slot_lock(struct shm_slot *s)
{
	return (void *)((char *)s + sizes.lock_at);
}

struct shm_shard_state *
shm_slot_local(struct shm_slot *s, uint32_t ordinal)
{
	MUST(ordinal < sizes.workers);
	return (struct shm_shard_state *)(void *)
	    ((char *)s + sizes.locals_at) + ordinal;
}

_Atomic uint64_t *
shm_slot_serials(struct shm_slot *s)
{
	return (void *)((char *)s + sizes.serials_at);
}

_Atomic uint32_t *
shm_slot_pins(struct shm_slot *s)
{
	return (void *)((char *)s + sizes.pins_at);
}

struct shm_record *
shm_record_at(uint32_t index)
{
	MUST(index < sizes.records);
	return &records[index];
}

uint32_t
shm_records(void)
{
	return sizes.records;
}

uint32_t
shm_store_slots(void)
{
	return sizes.slots;
}

uint32_t
shm_store_reach(void)
{
	return atomic_load(&table->reach);
}

static bool
in_use(const struct shm_slot *s)
{
	return atomic_load(&s->incarnation) % 2 == 1;
}

/* What is known of a store is forgotten; key, lock and incarnation stay. */
static void
reset_slot(struct shm_slot *s)
{
	uint32_t i;

	atomic_store(&s->load, 0);
	atomic_store(&s->last_used_ns, 0);
	atomic_store(&s->dirty, 0);
	atomic_store(&s->reads_refused, 0);
	atomic_store(&s->pressure, SHM_PRESSURE_NONE);
	atomic_store(&s->collected_serial, 0);
	atomic_store(&s->base_version, 0);
	atomic_store(&s->pinned_version, 0);
	atomic_store(&s->flags, 0);
	atomic_store(&s->first_record, SHM_NO_RECORD);
	memset(&s->tick, 0, sizeof(s->tick));
	for (i = 0; i < sizes.workers; i++)
		shm_shard_init(shm_slot_local(s, i));
}

static void
put_cell(uint32_t hash, uint32_t index)
{
	uint32_t cell = hash & (sizes.cells - 1);

	while (cells[cell] != 0)
		cell = (cell + 1) & (sizes.cells - 1);
	cells[cell] = index + 1;
}

/* Index and free slots from the slots, free records from the chains. A chain
 * is whole at any instruction: its head is the last word written. */
static void
derive(void)
{
	uint32_t i, r;

	memset(cells, 0, sizes.cells * sizeof(uint32_t));
	table->free_slot = NO_SLOT;
	table->free_record = SHM_NO_RECORD;
	for (r = 0; r < sizes.records; r++)
		records[r].chained = 0;
	for (i = sizes.slots; i-- > 0;) {
		struct shm_slot *s = shm_slot_at(i);

		if (!in_use(s)) {
			s->next_free = table->free_slot;
			table->free_slot = i;
			continue;
		}
		put_cell(s->hash, i);
		for (r = atomic_load(&s->first_record); r != SHM_NO_RECORD;
		    r = atomic_load(&records[r].next))
			records[r].chained = 1;
	}
	for (r = sizes.records; r-- > 0;) {
		if (records[r].chained)
			continue;
		atomic_store(&records[r].next, table->free_record);
		table->free_record = r;
	}
}

void
shm_store_table_repair(struct shm_mutex *m)
{
	MUST(m == &table->mutex);
	derive();
}

void
shm_store_table_carve(void *at, const struct shm_config *cfg)
{
	uint32_t i;

	set_sizes(cfg->slots, cfg->shard_records, cfg->workers_max);
	table = at;
	cells = (void *)((char *)at + cells_at());
	slots = (char *)at + slots_at();
	records = (void *)((char *)at + records_at());
	shm_mutex_init(&table->mutex, SHM_LOCK_store_table);
	atomic_init(&table->reach, 0);
	for (i = 0; i < sizes.slots; i++) {
		struct shm_slot *s = shm_slot_at(i);

		atomic_init(&s->incarnation, 0);
		shm_guard_init(&s->guard);
		shm_rwlock_init(shm_slot_lock(s), (uint16_t)sizes.processes);
		reset_slot(s);
	}
	derive();
}

static uint32_t
hash_of(struct shm_store_key key)
{
	return (uint32_t)hash_bytes(key.name.ptr, key.name.len) +
	    (uint32_t)key.kind * 0x9e3779b9u;
}

static bool
has_key(const struct shm_slot *s, struct shm_store_key key, uint32_t hash)
{
	return s->hash == hash && s->kind == key.kind &&
	    slice_eq(slice_make(s->name, s->name_len), key.name);
}

static bool
is_deleted(const struct shm_slot *s)
{
	return (atomic_load(&s->flags) & SHM_FLAG_DELETED) != 0;
}

/* The cell that holds it, or sizes.cells: of several with this name the one
 * that is not deleted, if there is one. With the mutex held. */
static uint32_t
find_cell(struct shm_store_key key, uint32_t hash)
{
	uint32_t cell = hash & (sizes.cells - 1), found = sizes.cells;

	for (; cells[cell] != 0; cell = (cell + 1) & (sizes.cells - 1)) {
		struct shm_slot *s = shm_slot_at(cells[cell] - 1);

		if (!has_key(s, key, hash))
			continue;
		if (!is_deleted(s))
			return cell;
		found = cell;
	}
	return found;
}

/* Closes the gap, so that probes need no tombstones. */
static void
drop_cell(uint32_t gap)
{
	uint32_t mask = sizes.cells - 1, at = gap, home;

	for (;;) {
		cells[gap] = 0;
		do {
			at = (at + 1) & mask;
			if (cells[at] == 0)
				return;
			home = shm_slot_at(cells[at] - 1)->hash & mask;
			/* Stays if its home lies behind the gap. */
		} while (((at - home) & mask) < ((at - gap) & mask));
		cells[gap] = cells[at];
		gap = at;
	}
}

static struct shm_ref
ref_of(uint32_t index)
{
	return (struct shm_ref){ index,
	    atomic_load(&shm_slot_at(index)->incarnation) };
}

struct err
shm_store_find(struct shm_store_key key, struct shm_ref *ref)
{
	uint32_t hash = hash_of(key), cell;

	shm_mutex_lock(&table->mutex);
	cell = find_cell(key, hash);
	if (cell < sizes.cells)
		*ref = ref_of(cells[cell] - 1);
	shm_mutex_unlock(&table->mutex);
	return cell < sizes.cells ? OK : FAIL(NOT_FOUND, "not resident");
}

static void
mark_deleted(struct shm_slot *s)
{
	shm_rwlock_write(shm_slot_lock(s));
	atomic_fetch_or(&s->flags, SHM_FLAG_DELETED);
	atomic_fetch_add(&s->serial, 1);
	shm_rwlock_write_done(shm_slot_lock(s));
}

/* With the mutex held. False: somebody needs it after all. */
static bool
evict(uint32_t index, bool dirty_counts)
{
	struct shm_slot *s = shm_slot_at(index);
	uint32_t r, next, cell;
	bool needed;

	shm_rwlock_write(shm_slot_lock(s));
	needed = shm_slot_needed(s) ||
	    (dirty_counts && atomic_load(&s->dirty) != 0);
	if (!needed)
		/* From here on the slot is free, and every ref is old. */
		atomic_fetch_add(&s->incarnation, 1);
	shm_rwlock_write_done(shm_slot_lock(s));
	if (needed)
		return false;

	FAULT_HERE(shm_evict);
	for (cell = s->hash & (sizes.cells - 1); cells[cell] != index + 1;)
		cell = (cell + 1) & (sizes.cells - 1);
	drop_cell(cell);
	r = atomic_load(&s->first_record);
	atomic_store(&s->first_record, SHM_NO_RECORD);
	for (; r != SHM_NO_RECORD; r = next) {
		next = atomic_load(&records[r].next);
		atomic_store(&records[r].next, table->free_record);
		table->free_record = r;
	}
	s->next_free = table->free_slot;
	table->free_slot = index;
	return true;
}

/* The least used that nobody needs, of all or of those with records; after a
 * few that turned out to be needed it gives up. Of a large table it looks at a
 * part, the next one each time: the mutex is held, and who finds nothing comes
 * again. */
static bool
evict_least(bool with_records)
{
	uint32_t looked = with_records ? sizes.slots :
	    MIN(sizes.slots, LOOK_AT_MAX);
	uint32_t first = table->hand, k, least, tries;
	uint64_t least_ns;

	table->hand = (first + looked) % sizes.slots;
	for (tries = 0; tries < 8; tries++) {
		least = NO_SLOT;
		least_ns = UINT64_MAX;
		for (k = 0; k < looked; k++) {
			uint32_t i = (first + k) % sizes.slots;
			struct shm_slot *s = shm_slot_at(i);
			uint64_t used_ns = atomic_load_explicit(
			    &s->last_used_ns, memory_order_relaxed);

			if (!in_use(s) || used_ns >= least_ns ||
			    (with_records && atomic_load(&s->first_record) ==
			    SHM_NO_RECORD) ||
			    atomic_load(&s->dirty) != 0 ||
			    shm_slot_needed(s))
				continue;
			least = i;
			least_ns = used_ns;
		}
		if (least == NO_SLOT)
			return false;
		if (evict(least, true))
			return true;
	}
	return false;
}

/* With the mutex held and a free slot at hand. */
static struct shm_ref
fill(struct shm_store_key key, uint32_t hash, const struct uuid *store)
{
	uint32_t index = table->free_slot;
	struct shm_slot *s = shm_slot_at(index);

	MUST(!in_use(s));
	table->free_slot = s->next_free;
	if (index >= atomic_load(&table->reach))
		atomic_store(&table->reach, index + 1);
	reset_slot(s);
	s->kind = (uint8_t)key.kind;
	s->name_len = (uint8_t)key.name.len;
	memcpy(s->name, key.name.ptr, key.name.len);
	s->store = *store;
	s->hash = hash;
	FAULT_HERE(shm_insert);
	shm_slot_used(s);
	atomic_fetch_add(&s->serial, 1);
	atomic_fetch_add(&s->incarnation, 1);	/* now it is in use */
	FAULT_HERE(shm_inserted);
	put_cell(hash, index);
	return ref_of(index);
}

/* Of the slots with this name the one of that store, or NO_SLOT. Others that are
 * deleted, or known to be gone, go, or, while somebody needs them, they only
 * learn of it; any other is a conflict. With the mutex held. */
static uint32_t
find_or_retire(struct shm_store_key key, uint32_t hash,
    const struct uuid *store, struct uuid *gone, bool *conflict)
{
	uint32_t cell = hash & (sizes.cells - 1);

	while (cells[cell] != 0) {
		uint32_t index = cells[cell] - 1;
		struct shm_slot *s = shm_slot_at(index);

		if (has_key(s, key, hash)) {
			if (uuid_eq(&s->store, store))
				return index;
			if (!is_deleted(s) && !uuid_eq(&s->store, gone)) {
				*gone = s->store;
				*conflict = true;
				return NO_SLOT;
			}
			/* The gap was closed: this cell is another's now. */
			if (evict(index, false))
				continue;
			if (!is_deleted(s))
				mark_deleted(s);
		}
		cell = (cell + 1) & (sizes.cells - 1);
	}
	return NO_SLOT;
}

struct err
shm_store_insert(struct shm_store_key key, const struct uuid *store,
    struct uuid *gone, struct shm_ref *ref)
{
	uint32_t hash = hash_of(key), index;
	bool conflict = false;
	struct err e = OK;

	MUST(key.kind < STORE_KIND_COUNT);
	MUST(key.name.len > 0 && key.name.len <= SHM_STORE_NAME_MAX);
	shm_mutex_lock(&table->mutex);
	index = find_or_retire(key, hash, store, gone, &conflict);
	if (index != NO_SLOT && is_deleted(shm_slot_at(index)))
		e = FAIL(NOT_FOUND, "the store is being deleted");
	else if (index != NO_SLOT)
		*ref = ref_of(index);
	else if (conflict)
		e = FAIL(CONFLICT, "another store of this name is resident");
	else if (table->free_slot == NO_SLOT && !evict_least(false))
		e = FAIL(BUSY, "all slots for resident stores are in use");
	else
		*ref = fill(key, hash, store);
	shm_mutex_unlock(&table->mutex);
	return e;
}

struct err
shm_store_evict(struct shm_ref ref)
{
	struct err e = OK;

	shm_mutex_lock(&table->mutex);
	/* Only under this mutex does a slot get another incarnation. */
	if (!shm_slot_is(shm_slot_at(ref.index), ref))
		e = FAIL(NOT_FOUND, "the slot was evicted");
	else if (!evict(ref.index, false))
		e = FAIL(BUSY, "the store is in use");
	shm_mutex_unlock(&table->mutex);
	return e;
}

/* One record out of the pool; NO_RECORD: full of what is needed. */
static uint32_t
take_record(void)
{
	uint32_t r;

	if (table->free_record == SHM_NO_RECORD && !evict_least(true))
		return SHM_NO_RECORD;
	r = table->free_record;
	table->free_record = atomic_load(&records[r].next);
	return r;
}

static bool
owns_all_records(const struct shm_slot *s)
{
	uint32_t r, n = 0;

	for (r = atomic_load(&s->first_record); r != SHM_NO_RECORD;
	    r = atomic_load(&records[r].next))
		n++;
	return n == sizes.records;
}

/* With the mutex held. */
static struct err
add_record(struct shm_ref ref, const struct uuid *shard, uint32_t *number)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint32_t r;

	if (s == NULL)
		return FAIL(NOT_FOUND, "the slot was evicted");
	r = take_record();
	if (r == SHM_NO_RECORD)
		return owns_all_records(s) ?
		    FAIL(NO_MEMORY, "this store alone has more shards than "
		    "the segment has records") :
		    FAIL(BUSY, "all shard records are in use");
	MUST(shm_slot_is(s, ref));	/* the caller holds it */
	FAULT_HERE(shm_record);
	records[r].shard = *shard;
	atomic_store(&records[r].ordinal, 0);
	shm_shard_init(&records[r].state);
	atomic_store(&records[r].next, atomic_load(&s->first_record));
	shm_rwlock_write(shm_slot_lock(s));
	atomic_store(&s->first_record, r);
	shm_rwlock_write_done(shm_slot_lock(s));
	*number = SHM_SHARD_RECORD + r;
	return OK;
}

struct err
shm_store_shard_add(struct shm_ref ref, const struct uuid *shard,
    uint32_t *number)
{
	struct err e = OK;
	uint32_t found;

	shm_mutex_lock(&table->mutex);
	found = shm_store_shard_find(ref, shard);
	if (found != SHM_SHARD_NONE)
		*number = found;
	else
		e = add_record(ref, shard, number);
	shm_mutex_unlock(&table->mutex);
	return e;
}

/* Whether a probe for its key comes to this slot. */
static bool
is_indexed(uint32_t index)
{
	uint32_t cell = shm_slot_at(index)->hash & (sizes.cells - 1);

	while (cells[cell] != 0 && cells[cell] != index + 1)
		cell = (cell + 1) & (sizes.cells - 1);
	return cells[cell] != 0;
}

/* Counts of what derive would find. */
bool
shm_store_table_sound(void)
{
	uint32_t i, used = 0, found = 0, free_slots = 0, chained = 0, loose = 0;
	uint32_t r;

	shm_mutex_lock(&table->mutex);
	for (i = 0; i < sizes.slots; i++) {
		struct shm_slot *s = shm_slot_at(i);

		if (!in_use(s))
			continue;
		used++;
		found += is_indexed(i);
		for (r = s->first_record; r != SHM_NO_RECORD &&
		    chained <= sizes.records; r = records[r].next)
			chained++;
	}
	for (i = table->free_slot; i != NO_SLOT && free_slots <= sizes.slots;
	    i = shm_slot_at(i)->next_free)
		free_slots++;
	for (r = table->free_record; r != SHM_NO_RECORD &&
	    loose <= sizes.records; r = records[r].next)
		loose++;
	shm_mutex_unlock(&table->mutex);
	return used == found && used + free_slots == sizes.slots &&
	    chained + loose == sizes.records;
}
