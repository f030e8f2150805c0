#ifndef MEMWALD_STORE_REMOVE_H
#define MEMWALD_STORE_REMOVE_H

/*
 * remove - a store goes: renamed away, unregistered, its files later.
 *
 *	_trash/{store uuid}-{wall clock ms}/	where the directory waits
 *
 * Renaming first means that late work, which holds directory descriptors, hits
 * the dead tree and never a store that is created anew under the same name.
 * The files go after the grace (collect).
 *
 * Death:	after the rename the registry entry may still be there: the
 *		store then cannot be opened, and removing it again completes.
 *		The entry goes last, so while it names this store the
 *		directory is this store's; when it does not, all was done.
 * Locking:	the name's (registry.h); the caller holds the store's guard.
 *		Blocks.
 * Errors:	IO. BUSY: somebody else creates or removes a name for too
 *		long. A directory or entry that is missing already is fine,
 *		also when another store has the name by now: that one stays.
 */

#include "common/err.h"
#include "common/uuid.h"
#include "worker/object/object.h"
#include "worker/store/kind.h"

#define REMOVE_TRASH	"_trash"

struct err remove_store(struct object_dir *root, const struct kind *,
    const char *name, const struct uuid *store) MUST_CHECK;
/* Deletes what was renamed away longer than grace_us ago. *removed counts. */
struct err remove_trash(struct object_dir *root, uint64_t grace_us,
    uint32_t *removed) MUST_CHECK;

#endif
