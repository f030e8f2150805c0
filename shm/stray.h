#ifndef MEMWALD_SHM_STRAY_H
#define MEMWALD_SHM_STRAY_H

/*
 * stray - shards that no ordinal explains.
 *
 * Every shard of every store belongs to an ordinal (ordinal_table.h). One that
 * does not, of another engine or of a server whose name nobody knows any more,
 * is readable and is written by nobody, so nobody seals or folds it either: it
 * is told here, for status and metrics, until an ordinal for it is adopted.
 *
 * Death:	a stray is there once it counts.
 * Lifetime:	made before the first fork; entries are never removed, those that
 *		an ordinal explains by now are passed over.
 * Locking:	atomics; one thread of the maintainer adds at a time.
 * Errors:	none. Of what is beyond SHM_STRAYS_MAX only that there is more.
 */

#include "common/base.h"
#include "common/uuid.h"
#include "shm/store_table.h"

#define SHM_STRAYS_MAX 256u

struct shm_stray {
	struct uuid shard;
	uint32_t kind;			/* enum store_kind, */
	char store[SHM_STORE_NAME_MAX + 1];	/* of the store seen first */
};

/* True: it was not known, and whoever notes it says so. */
bool shm_stray_note(const struct uuid *shard, uint32_t kind, const char *store);
/* Those that are still unexplained; *index goes on from where it is. */
bool shm_stray_next(uint32_t *index, struct shm_stray *);
uint32_t shm_stray_count(void);

#endif
