#ifndef MEMWALD_STORE_SHAPE_H
#define MEMWALD_STORE_SHAPE_H

/*
 * shape - the shape of one store: its kind's, or, of a kind whose stores bring
 * their own, what the table in its directory bears.
 *
 * Lifetime:	until shape_drop. Whatever was opened or read with a shape
 *		(sources, tails, batches) must be gone by then: it points into
 *		it.
 * Locking:	immutable; shape_load blocks on I/O.
 * Errors:	NOT_FOUND: no table; CORRUPT, UNSUPPORTED: see generic.h.
 */

#include "worker/object/object.h"
#include "worker/store/kind.h"

struct err shape_load(const struct kind *, struct object_dir *,
    const struct store_shape **) MUST_CHECK;
/* NULL is fine. */
void shape_drop(const struct kind *, const struct store_shape *);

#endif
