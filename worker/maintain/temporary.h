#ifndef MEMWALD_MAINTAIN_TEMPORARY_H
#define MEMWALD_MAINTAIN_TEMPORARY_H

/*
 * temporary - what processes that died left half made: files without a name
 * yet (object/local.h). Looked for at start and by collection.
 *
 * Errors:	logged; who looks next tries again.
 */

#include "worker/object/local.h"

/* Directly in prefix; how many went. */
uint32_t temporary_clean(struct object_dir *, const char *prefix);
/* In the directories of the data directory that are no store's: registries,
 * assignments, leases. */
uint32_t temporary_clean_root(struct object_dir *);
/* In all directories of a store but those of generations. */
uint32_t temporary_clean_store(struct object_dir *);

#endif
