#ifndef MEMWALD_STORE_RELOAD_H
#define MEMWALD_STORE_RELOAD_H

/*
 * reload - object store -> slot: at first use, at start, and whenever a slot
 * is stale. The one way to recover from any doubt about shared memory.
 *
 * In the order last commits, shard manifests, base table, so that a row that
 * is sealed or folded meanwhile is seen twice rather than never (design 5).
 * Tails whose claim is live in this instance are announced by their owners;
 * all others are read to their end and synced, and raised. The host's clock is
 * raised to the highest sequence found anywhere; one of another instance that
 * lies more than a minute ahead is reported instead.
 *
 * Any process may do it, under no guard: views are swapped as maxima.
 *
 * Locking:	blocks on I/O: for the pool, or a maintainer's thread.
 * Errors:	NOT_FOUND: not registered, or the slot went. CORRUPT: the data
 *		is another store's, or damaged. UNSUPPORTED. CONFLICT: others
 *		swapped the view each time; try again.
 */

#include "common/err.h"
#include "shm/store_table.h"
#include "worker/lance/table.h"
#include "worker/store/kind.h"

/* Metadata of base tables and generations. */
#define META_STORE_UUID	"memwald:store"
#define META_MAX_SEQ	"memwald:max_seq"	/* base: ":SHARD" behind it */
#define META_MAX_SEQ_KEY_MAX 64

/* Finds the store in the registry, gives it a slot, and loads that, or, if it is
 * ready, what its table says by now. The store's directory is the caller's to close. */
struct err reload_open(struct object_dir *root, const struct kind *,
    const char *name, struct shm_ref *, struct object_dir **) MUST_CHECK;

/* Loads a slot whose directory is open. */
struct err reload_slot(struct object_dir *dir, const struct kind *,
    struct shm_ref) MUST_CHECK;

/*
 * Other engines and other instances move a store without telling us. Looks for
 * a newer base version, newer manifests of shards that are not ours, and shards
 * that the slot does not know, and brings the slot up to them. For the pool.
 */
struct err reload_others(struct object_dir *dir, const struct kind *,
    struct shm_ref) MUST_CHECK;

/* Whether others may change this shard without telling us: it has no live claim
 * of this server, and its ordinal or the lease was not ours all the time. The
 * caller holds a pin or a view. */
bool reload_is_others(struct shm_ref, uint32_t number);

/* The part of it that concerns the base table: its newest version, and whether
 * that pins the store (pin.h). */
struct err reload_base(struct object_dir *dir, struct shm_ref) MUST_CHECK;

/*
 * What a strong read asks before that: reads the tails that no claim of this
 * server announces to their ends, synced, and announces them here. Where they
 * end is known before the view is, so what is sealed meanwhile is in the
 * manifest that reload_others finds. For the pool.
 */
struct err reload_tails(struct object_dir *dir, const struct kind *,
    struct shm_ref) MUST_CHECK;

/* "memwald:max_seq:SHARD", META_MAX_SEQ_KEY_MAX bytes. */
void reload_max_seq_key(const struct uuid *shard, char *key);
/* The sequence under a key of a table's metadata; 0 if there is none. */
uint64_t reload_sequence(const struct table *, struct slice key);

#endif
