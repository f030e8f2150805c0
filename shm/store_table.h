#ifndef MEMWALD_SHM_STORE_TABLE_H
#define MEMWALD_SHM_STORE_TABLE_H

/*
 * store_table - the resident stores of this host: one slot each.
 *
 * A store is found by {kind, name}. The answer is a ref, {index, incarnation}:
 * a slot that is evicted and used for another store, or for the same store
 * anew, has another incarnation, and every function that takes a ref answers
 * NOT_FOUND for an old one. So processes keep refs as long as they like and
 * look a name up only when they have none, or when theirs is refused.
 *
 * A slot is resident until it is evicted: only when the table is full, the
 * least used first, and never one that somebody needs. Needed is a slot that
 * is pinned, read (view.h), dirty (its tail is not sealed) or guarded. Who keeps something about a store in its own memory that
 * must not outlive the slot (an open WAL entry with a live claim) holds a pin.
 *
 * Layout of a slot: struct shm_slot, then workers_max shard states (the local
 * ordinals), then the rwlock, then per process the oldest serial it reads and
 * its pins. At most 4 KiB with 16 workers. Shards of other instances and
 * orphans are records of one pool of the segment, chained from the slot.
 *
 * Death:	a dead holder of the mutex: the hash index, the free slots and
 *		the free records are derived from the slots, and are rebuilt.
 *		A slot half inserted is free, a slot half evicted is not there.
 *		Pins and serials are taken back by the master's walk, a loader
 *		that dies leaves the slot absent.
 * Lifetime:	made before the first fork; slots are reset, never freed.
 * Locking:	name -> slot: the mutex of rank 2. View, flags and manifest
 *		marks: the slot's rwlock. State, dirty mark and tick status:
 *		atomics.
 * Errors:	BUSY when full and nothing can be evicted; NOT_FOUND for a name
 *		without a slot and for an old ref.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"
#include "common/uuid.h"
#include "shm/guard.h"
#include "shm/rwlock.h"
#include "shm/shard_state.h"

#define STORE_KINDS(X) /* kind, on the wire and in directory names */ \
	X(ROLLOUT,	"rollout") \
	X(DATAGEN,	"datagen") \
	X(GENERIC,	"generic")

enum store_kind {
#define X(kind, text) STORE_##kind,
	STORE_KINDS(X)
#undef X
	STORE_KIND_COUNT
};

const char *store_kind_name(uint32_t);

#define SHM_STORE_NAME_MAX 128

struct shm_ref {
	uint32_t index;
	uint32_t incarnation;		/* 0: no slot */
};

static inline bool
shm_ref_eq(struct shm_ref a, struct shm_ref b)
{
	return a.index == b.index && a.incarnation == b.incarnation;
}

struct shm_store_key {
	enum store_kind kind;
	struct slice name;		/* 1 to SHM_STORE_NAME_MAX bytes */
};

#define SHM_LOAD_STATES(X) \
	X(ABSENT,	"absent")	/* a name, nothing known: load it */ \
	X(LOADING,	"loading")	/* somebody does */ \
	X(READY,	"ready")

enum shm_load_state {
#define X(state, text) SHM_LOAD_##state,
	SHM_LOAD_STATES(X)
#undef X
	SHM_LOAD_STATE_COUNT
};

const char *shm_load_state_name(uint32_t);

/* How far a store's backlog has grown, by the limits of worker/store/pressure.h;
 * what the name says holds for the levels above it as well. */
#define SHM_PRESSURES(X) \
	X(NONE,		"none") \
	X(FOLDS_FIRST,	"folds_first") \
	X(NO_APPENDS,	"no_appends") \
	X(NO_READS,	"no_reads")

enum shm_pressure {
#define X(level, text) SHM_PRESSURE_##level,
	SHM_PRESSURES(X)
#undef X
	SHM_PRESSURE_COUNT
};

const char *shm_pressure_name(uint32_t);

#define SHM_FLAG_DELETED	1u	/* no appends, no folds; never taken back */
#define SHM_FLAG_STALE		2u	/* a writer died inside: load it again */

/* What the ticks of a store came to; for the status page. */
struct shm_tick_status {
	_Atomic uint64_t last_start_us;		/* wall clock */
	_Atomic uint64_t last_end_us;
	_Atomic uint32_t ticks;
	_Atomic uint32_t busy_skips;		/* guard not free */
	_Atomic uint32_t seal_errors;
	_Atomic uint32_t fold_errors;
	_Atomic uint32_t timeouts;
	_Atomic uint32_t last_err_kind;		/* enum err_kind */
	_Atomic uint32_t last_err_phase;	/* enum tick_phase */
	_Atomic uint32_t errors_in_row;		/* 0 after a clean tick */
	_Atomic uint32_t compactions;		/* that changed something */
	_Atomic uint32_t compact_err_kind;	/* of the last try */
	_Atomic uint64_t compacted_us;		/* the last of them; 0: none */
};

#define SHM_NO_RECORD UINT32_MAX

struct shm_slot {
	/* Key: written when the slot is filled, then constant for as long as
	 * the incarnation is. Odd incarnations are in use, even ones free. */
	alignas(CACHELINE)
	_Atomic uint32_t incarnation;
	uint8_t kind;			/* enum store_kind */
	uint8_t name_len;
	char name[SHM_STORE_NAME_MAX];
	struct uuid store;
	uint32_t hash;			/* of kind and name */
	uint32_t next_free;		/* guarded by the table's mutex */

	_Atomic uint64_t load;		/* 0: absent, 1: ready, else the life of
					 * the process that loads it */
	_Atomic uint64_t last_used_ns;	/* coarse: who evicts may be wrong a bit */
	_Atomic uint32_t dirty;		/* appended to since the last clean tick */
	_Atomic uint32_t reads_refused;	/* too many pending generations */
	_Atomic uint32_t pressure;	/* enum shm_pressure, when last looked */
	/* The view's when collection left nothing behind that was not in it;
	 * written under the guard. Stale: one collection more. */
	_Atomic uint64_t collected_serial;

	struct shm_guard guard;
	alignas(CACHELINE)
	struct shm_tick_status tick;

	/* Guarded by the slot's rwlock; atomics for those who only look. */
	alignas(CACHELINE)
	_Atomic uint64_t serial;	/* of the view: rises with each swap */
	_Atomic uint64_t base_version;
	_Atomic uint64_t pinned_version;	/* as base_version bears it; 0:
						 * reads follow the newest */
	_Atomic uint32_t flags;
	_Atomic uint32_t first_record;	/* chain; SHM_NO_RECORD: none */
};

/* A shard of another instance, or an orphan. */
struct shm_record {
	alignas(CACHELINE)
	struct uuid shard;
	_Atomic uint32_t next;		/* of the slot's chain, or free */
	uint32_t chained;		/* the repair's; else without meaning */
	_Atomic uint32_t ordinal;	/* its index + 1; 0: not looked up yet */
	struct shm_shard_state state;
};

/* Looks up; NOT_FOUND if the store is not resident. */
struct err shm_store_find(struct shm_store_key, struct shm_ref *) MUST_CHECK;

/* Finds or fills a slot, evicting if need be; a new one is ABSENT. NOT_FOUND:
 * this very store is being deleted; nobody opens it any more.
 *
 * CONFLICT: another store of this name is resident, that in *gone. Either it
 * was deleted before this one was created, or the caller is late and it is the
 * newer. So he looks at the registry again, and if that does not name *gone
 * (known to have been registered before the look) calls again: then its slot
 * is evicted, or, while a slow reader or a dead handle needs it, marked deleted
 * and left beside the new one. */
struct err shm_store_insert(struct shm_store_key, const struct uuid *store,
    struct uuid *gone, struct shm_ref *) MUST_CHECK;

/* Frees the slot, by hand: the store is gone. BUSY while somebody needs it
 * (dirty does not count). */
struct err shm_store_evict(struct shm_ref) MUST_CHECK;

/* The slot while the ref is current, else NULL. Who goes on using it holds a
 * pin, a view or the guard. */
struct shm_slot *shm_store_slot(struct shm_ref);

/* A pin of this process, counted; many may be held. NOT_FOUND: old ref. */
struct err shm_store_pin(struct shm_ref) MUST_CHECK;
void shm_store_unpin(struct shm_ref);

/* True: the caller loads, and says how it went. False: somebody does (who may
 * die: then it is ABSENT again), or it is loaded. */
bool shm_store_load_begin(struct shm_ref) MUST_CHECK;
void shm_store_load_failed(struct shm_ref);
enum shm_load_state shm_store_load_state(struct shm_ref);

/* Flags; under the write lock. NOT_FOUND: old ref. */
struct err shm_store_delete(struct shm_ref) MUST_CHECK;
struct err shm_store_stale(struct shm_ref) MUST_CHECK;
/* SHM_FLAG_*, without a lock: checked between the steps of long work. */
uint32_t shm_store_flags(struct shm_ref);	/* old ref: DELETED */

/* It is used now: slots go in the order of this. Costs two loads when it was
 * marked within the last second. An old ref does nothing. */
void shm_store_used(struct shm_ref);
/* After each publish: costs one load when the mark is there already. */
void shm_store_touch(struct shm_ref);
/* The tick: takes the mark away before it looks; true if it was there. Touch
 * again what the tick leaves behind. */
bool shm_store_untouch(struct shm_ref);

/* The guard and the seal guards, by ref, so that an old ref gets none. 0: busy
 * or gone. A slot whose guard is held is not evicted. */
uint64_t shm_store_guard_try(struct shm_ref, uint64_t deadline_ns) MUST_CHECK;
void shm_store_guard_phase(struct shm_ref, enum tick_phase);
void shm_store_guard_release(struct shm_ref, uint64_t token);
uint64_t shm_store_seal_try(struct shm_ref, uint32_t shard,
    uint64_t deadline_ns) MUST_CHECK;
void shm_store_seal_release(struct shm_ref, uint32_t shard, uint64_t token);

/* A shard is named by its number in the slot: a local ordinal's is the
 * ordinal (0 to workers_max - 1), a record's is SHM_SHARD_RECORD + its index
 * in the pool. The caller holds a pin, a view or the guard. */
#define SHM_SHARD_RECORD 65536u
#define SHM_SHARD_NONE	 UINT32_MAX

struct shm_shard_state *shm_store_shard(struct shm_ref, uint32_t shard);
/* uuid of that shard. */
struct uuid shm_store_shard_uuid(struct shm_ref, uint32_t shard);
/* Its ordinal, or SHM_NO_ORDINAL: none that is known explains it. */
#define SHM_NO_ORDINAL UINT32_MAX
uint32_t shm_store_shard_ordinal(struct shm_ref, uint32_t shard);
/* Shards that this server ages: those of its own ordinals that are not another
 * instance's, and of those that others left to its workers (ordinal_table.h).
 * The first at or after *at, which moves behind it; false at the end. */
struct shm_aged {
	uint32_t shard;			/* its number */
	uint32_t ordinal;
};
bool shm_store_aged_next(struct shm_ref, uint32_t *at, struct shm_aged *);
/* The number of the shard with this uuid, or SHM_SHARD_NONE. */
uint32_t shm_store_shard_find(struct shm_ref, const struct uuid *);
/* The same, with a record made for one that is not known. BUSY: the pool is
 * full of stores that are needed; this store alone needs more: NO_MEMORY. */
struct err shm_store_shard_add(struct shm_ref, const struct uuid *,
    uint32_t *shard) MUST_CHECK;

/* Iteration: the first resident slot at or after *index, which moves behind
 * it; false at the end. Without a lock: slots may come and go meanwhile. */
bool shm_store_next(uint32_t *index, struct shm_ref *);
uint32_t shm_store_slots(void);
/* Slots from this index on were never in use: nobody need touch their pages,
 * which may be ten thousand. */
uint32_t shm_store_reach(void);

/* A copy without a lock, for the ticker and the status page; false: old ref.
 * pending_* and tail_shards are sums over the shards of the slot. */
struct shm_store_info {
	struct shm_ref ref;
	enum store_kind kind;
	char name[SHM_STORE_NAME_MAX + 1];
	struct uuid store;
	enum shm_load_state load;
	uint32_t flags;
	bool dirty;
	bool garbage;			/* maybe: not collected since its view
					 * changed */
	uint64_t serial;
	uint64_t base_version;
	uint64_t pinned_version;
	uint64_t oldest_serial;		/* still read; 0: nobody reads */
	uint32_t pins;
	uint32_t shards;		/* with anything known */
	uint32_t pending_generations;	/* all shards */
	uint32_t pending_generations_max;	/* of one */
	uint64_t pending_bytes;
	uint32_t tail_shards;		/* with a commit not sealed */
	uint64_t tail_bytes;		/* of this instance's */
	/* Of shards that this instance can age; tails: of workers that live. */
	uint32_t own_generations;
	uint32_t own_generations_max;	/* of one */
	uint64_t own_bytes;		/* with what is not sealed */
	uint32_t reads_refused;
	uint32_t pressure;		/* enum shm_pressure */

	bool guarded;
	struct shm_who guard_holder;
	uint32_t guard_phase;
	uint64_t guard_since_ns;
	uint64_t guard_deadline_ns;

	uint64_t tick_start_us, tick_end_us;
	uint32_t ticks, busy_skips, seal_errors, fold_errors, timeouts;
	uint32_t last_err_kind, last_err_phase, errors_in_row;
	uint32_t compactions, compact_err_kind;
	uint64_t compacted_us;
};

bool shm_store_peek(struct shm_ref, struct shm_store_info *) MUST_CHECK;
/* Without a pin or a lock: whether a shard that is aged here has commits not
 * sealed or generations not folded. */
bool shm_store_left(struct shm_ref);

/* For tests: whether index, free lists and chains agree with the slots. */
bool shm_store_table_sound(void);

/* Pieces of a slot; for the files of this module, view.c, reap.c, metric. */
struct shm_slot *shm_slot_at(uint32_t index);
struct shm_rwlock *shm_slot_lock(struct shm_slot *);
struct shm_shard_state *shm_slot_local(struct shm_slot *, uint32_t ordinal);
_Atomic uint64_t *shm_slot_serials(struct shm_slot *);	/* by process slot */
_Atomic uint32_t *shm_slot_pins(struct shm_slot *);	/* by process slot */
struct shm_record *shm_record_at(uint32_t index);
uint32_t shm_record_ordinal(uint32_t index);	/* or SHM_NO_ORDINAL */
uint32_t shm_records(void);
bool shm_slot_is(const struct shm_slot *, struct shm_ref);
/* The slot, with its lock taken, if the ref is current; else NULL and none. */
struct shm_slot *shm_slot_read(struct shm_ref);
struct shm_slot *shm_slot_write(struct shm_ref);
/* Whether any process pins, reads, guards, seals or loads it. */
bool shm_slot_needed(struct shm_slot *);
/* Marks the slot as used now, if the last mark is a second old. */
void shm_slot_used(struct shm_slot *);

#endif
