#ifndef MEMWALD_STORE_PIN_H
#define MEMWALD_STORE_PIN_H

/*
 * pin - a store that is read at an old version of its base table, until it is
 * released (contract 2.4.5).
 *
 *	memwald:pinned	metadata of the newest version of the base table: the
 *			version to read, in decimal; empty or missing: none
 *
 * Pinning is a commit of the base table: one more version, of the same rows,
 * that says so. So it is as durable as the table, the look at the next version
 * that every read takes shows it to other instances, and nothing can come
 * between: a fold or a compaction that is under way loses the race for the
 * version, finds the pin and gives up (aged_check_table). In the slot the pin
 * belongs to the base version that bears it (shm/view.h).
 *
 * Only what the newest version says counts: the version that is pinned may be
 * one that once said something itself.
 *
 * Collection. Who deletes versions of the table loads the newest, and spares
 * what pin_of answers and all files that this version names. A pin that is
 * made meanwhile looks, after its commit, whether its version is still there,
 * and is taken back if it is not. So of a version that is deleted the manifest
 * goes first; then the newest version is looked at again, and if that pins the
 * deleted one the manifest is put back, before any file that only that version
 * named is touched.
 *
 * Death:	a pin is there whole or not at all; between its commit and the
 *		second look at the version: a pin of a version that is gone,
 *		which reads answer (read.h), until it is released.
 * Locking:	none; any process, any instance.
 * Errors:	NOT_FOUND: no such version. Those of commit.h.
 */

#include "shm/store_table.h"
#include "worker/lance/table.h"

#define META_PINNED	"memwald:pinned"

/* The version that a newest version pins its store to; 0: none. */
uint64_t pin_of(const struct table *newest);

/* Pins to a version, or releases (0), and tells the slot; one that is released
 * is due at the next tick. *base_version: the newest one afterwards. For the
 * pool: blocks. errors: for texts. */
struct err pin_change(struct object_dir *, struct shm_ref, uint64_t version,
    struct arena *errors, uint64_t *base_version) MUST_CHECK;

#endif
