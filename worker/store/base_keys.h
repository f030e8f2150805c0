#ifndef MEMWALD_STORE_BASE_KEYS_H
#define MEMWALD_STORE_BASE_KEYS_H

/*
 * base_keys - the key indexes of one version of the base table, as base.h tells
 * of them: put together for base.c.
 *
 * Errors:	those of base.h.
 */

#include "worker/store/base.h"

/* Fills in keys, found_by and useless of a base whose sources are open. */
struct err base_keys_open(struct object_dir *, const struct store_shape *,
    const struct base *previous, struct base *) MUST_CHECK;
void base_keys_close(struct base *);

#endif
