#ifndef MEMWALD_STORE_REGISTRY_H
#define MEMWALD_STORE_REGISTRY_H

/*
 * registry - which stores there are: one small object each.
 *
 *	_registry/{kind}/{name}.json	put if absent, removed last
 *	{"name":..., "uuid":..., "created_at":ms, "directory":...}
 *
 * It is the only authority on existence: a directory without an object is not
 * a store, an object without data is one that cannot be opened. Put-if-absent
 * makes creating exclusive over all instances (contract 5.3).
 *
 * Locking:	any thread, any process. What changes a name holds its lock.
 * Errors:	EXISTS, NOT_FOUND; BAD_INPUT for a name that is not allowed;
 *		CORRUPT: an object that is no registry entry.
 */

#include "common/arena.h"
#include "common/err.h"
#include "common/uuid.h"
#include "worker/object/object.h"
#include "worker/store/kind.h"

struct registry_entry {
	char name[SHM_STORE_NAME_MAX + 1];
	struct uuid store;
	uint64_t created_ms;
};

#define REGISTRY_DIRECTORY_MAX (SHM_STORE_NAME_MAX + 32)

/* Contract 5.1; BAD_INPUT says what is wrong. */
struct err registry_name_check(struct slice name) MUST_CHECK;
/* "math.rollout.lance": the store's directory below the root. */
void registry_directory(const struct kind *, const char *name, char *directory);

struct err registry_add(struct object_dir *root, const struct kind *,
    const struct registry_entry *) MUST_CHECK;
struct err registry_get(struct object_dir *root, const struct kind *,
    const char *name, struct registry_entry *) MUST_CHECK;
/* One look, without reading it. */
struct err registry_exists(struct object_dir *root, const struct kind *,
    const char *name) MUST_CHECK;
/* NOT_FOUND: the name is not registered, or by now names another store. */
struct err registry_check(struct object_dir *root, const struct kind *,
    const char *name, const struct uuid *store) MUST_CHECK;
/* NOT_FOUND: dir is not, or not any more, the directory of that name: its
 * store was deleted, whoever has the name now. */
struct err registry_here(struct object_dir *root, const struct kind *,
    const char *name, const struct object_dir *dir) MUST_CHECK;
struct err registry_remove(struct object_dir *root, const struct kind *,
    const char *name) MUST_CHECK;

/*
 * Creating and removing a store take several steps each, and removing an entry
 * cannot ask whose it is by now: so they hold the lock of the name. Without it
 * a removal that was late, or a create that cleans up after one, takes the
 * entry of the store that came next, and its rows with it (tests/model,
 * names.pml). Names share a few locks. BUSY: held for too long.
 */
struct err registry_lock(struct object_dir *root, const struct kind *,
    const char *name, int *lock) MUST_CHECK;
void registry_unlock(int lock);

/* Names of a kind in bytewise order, in the arena. */
struct err registry_names(struct object_dir *root, const struct kind *,
    struct arena *, const char ***names, uint32_t *count) MUST_CHECK;

#endif
