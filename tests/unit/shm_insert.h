#ifndef MEMWALD_TESTS_SHM_INSERT_H
#define MEMWALD_TESTS_SHM_INSERT_H

/* shm_insert - a store gets its slot, for tests that are about other things. */

#include "shm/store_table.h"

/* As an opener whose second look at the registry names this store, too. */
static inline struct err
insert_store(struct shm_store_key key, const struct uuid *store,
    struct shm_ref *to)
{
	struct uuid gone = { 0 };
	struct err e = shm_store_insert(key, store, &gone, to);

	return e.kind == ERR_CONFLICT ?
	    shm_store_insert(key, store, &gone, to) : e;
}

#endif
