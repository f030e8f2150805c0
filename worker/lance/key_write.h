#ifndef MEMWALD_LANCE_KEY_WRITE_H
#define MEMWALD_LANCE_KEY_WRITE_H

/*
 * key_write - the files of a key index, key by key; and several indexes as one.
 *
 * Keys come sorted. They are gathered a batch at a time, so that a caller may
 * gather in a marked read (key_write_add does no I/O) and write outside of it.
 * The lookup file is written last, since it names the hash of the other one:
 * without it there is no index.
 *
 * A merge walks indexes of the base side by side, and writes a segment of the
 * fragments that it was told. It costs a batch of memory and what the lookup
 * file takes, whatever the number of keys.
 *
 * The format is in key_index.h.
 *
 * Locking:	one thread at a time.
 * Errors:	those of page_write. EXISTS: there are such files. CORRUPT: a
 *		file that is merged was cut meanwhile.
 */

#include "worker/lance/key_index.h"

struct key_writer;

struct err key_write_open(struct object_dir *, const struct key_index_paths *,
    struct object_pace *, struct key_writer **) MUST_CHECK;
/* Whether another key fits before the next key_write_batch. */
bool key_write_has_room(const struct key_writer *);
struct err key_write_add(struct key_writer *, struct slice key, uint64_t id)
    MUST_CHECK;
/* Writes what was gathered: full batches, but for the last. */
struct err key_write_batch(struct key_writer *) MUST_CHECK;
struct key_written {
	uint64_t data_bytes, lookup_bytes;	/* of the files */
};

/* Durable when OK. Takes the writer, also on failure. */
struct err key_write_finish(struct key_writer *, struct key_written *)
    MUST_CHECK;
void key_write_abort(struct key_writer *);	/* NULL is fine */

/* Ids of the fragments at the places of an index; KEY_NO_FRAGMENT: leave their
 * rows out. */
#define KEY_NO_FRAGMENT UINT32_MAX

struct key_input {
	const struct key_index *index;
	uint32_t fragment_count;
	const uint32_t *fragments;
};

struct err key_merge(const struct key_input *, uint32_t count,
    struct object_dir *, const struct key_index_paths *, struct object_pace *,
    struct key_written *) MUST_CHECK;

#endif
