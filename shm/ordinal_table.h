#ifndef MEMWALD_SHM_ORDINAL_TABLE_H
#define MEMWALD_SHM_ORDINAL_TABLE_H

/*
 * ordinal_table - who owns which ordinal: the cached assignment.
 *
 * An ordinal is the stable identity of one writer: `{instance_id}` for worker
 * slot 0, `{instance_id}#{k}` for slot k. It owns one shard in every store,
 * with the uuid that follows from its name. Entries 0 to workers_max - 1 are
 * this instance's own, in that order, each owned by its worker at the start;
 * others are added as they are met. Name and uuid of an entry never change.
 * The truth is the chain of assignments in the object store; a change here has
 * that chain's version, and older versions change nothing.
 *
 * Death:	a change is noted before it is made; the next taker of the
 *		mutex undoes a half one. A half added entry is not there.
 * Lifetime:	made before the first fork; entries are never removed.
 * Locking:	mutex of rank 1. Names and uuids without it.
 * Errors:	NO_MEMORY: the table is full. NOT_FOUND: no such ordinal.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"
#include "common/uuid.h"

#define SHM_ORDINAL_STATES(X) \
	X(OWNED,	"owned") \
	X(ORPHANED,	"orphaned")	/* readable; nobody writes */ \
	X(MOVING,	"moving")	/* its owner-to-be claims its shards */ \
	X(RETIRED,	"retired")	/* folded empty, given up */

enum shm_ordinal_state {
#define X(state, text) SHM_ORDINAL_##state,
	SHM_ORDINAL_STATES(X)
#undef X
	SHM_ORDINAL_STATE_COUNT
};

const char *shm_ordinal_state_name(uint32_t);

#define SHM_ORDINAL_NAME_MAX 279

struct shm_ordinal {			/* a copy */
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid shard;
	uint16_t owner;			/* process slot, SHM_NOBODY: not here */
	enum shm_ordinal_state state;
	uint64_t version;		/* of the assignment; 0: the default */
};

uint32_t shm_ordinal_count(void);
struct err shm_ordinal_get(uint32_t index, struct shm_ordinal *) MUST_CHECK;
struct err shm_ordinal_find(const struct uuid *shard, uint32_t *index)
    MUST_CHECK;
/* Finds it, or adds it ORPHANED. */
struct err shm_ordinal_add(struct slice name, uint32_t *index) MUST_CHECK;

/* Changes owner and state unless a newer version is known. False: it is. */
struct err shm_ordinal_assign(uint32_t index, uint16_t owner,
    enum shm_ordinal_state, uint64_t version, bool *changed) MUST_CHECK;

/* Without the lock: constant. index < shm_ordinal_count(). */
struct uuid shm_ordinal_shard(uint32_t index);
struct slice shm_ordinal_name(uint32_t index);

#endif
