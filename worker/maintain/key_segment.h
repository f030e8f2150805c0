#ifndef MEMWALD_MAINTAIN_KEY_SEGMENT_H
#define MEMWALD_MAINTAIN_KEY_SEGMENT_H

/*
 * key_segment - the base's key index goes on with a new fragment.
 *
 * It stays a few segments, and what is written of it does not grow with the
 * base: the new keys, those of fragments that have no segment yet, and segments
 * that are no larger than all that together, so that each key is written again
 * only when its segment at least doubles. None grows beyond
 * KEY_SEGMENT_ROWS, but by one fragment that is larger. What a segment has of
 * fragments that the edit removes does not count; without any other it goes.
 *
 * Death:	files that no version names.
 * Locking:	none; one thread.
 * Errors:	those of key_write.h.
 */

#include "worker/lance/commit.h"
#include "worker/maintain/maintain.h"
#include "worker/store/base.h"

#define KEY_SEGMENT_ROWS	(2u << 20)

/* The segment of the one fragment that the edit adds to the base, and what goes
 * for it. Its files are durable when OK. Memory: the arena. */
struct err key_segment_add(struct aged_store *, const struct base *,
    const struct key_index *added, struct arena *, struct commit_edit *)
    MUST_CHECK;

#endif
