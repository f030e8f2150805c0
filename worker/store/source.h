#ifndef MEMWALD_STORE_SOURCE_H
#define MEMWALD_STORE_SOURCE_H

/*
 * source - one immutable set of rows of a store, opened: a base fragment, or a
 * generation with its key index. Those of the base are in base.h.
 *
 * Opening does I/O: it maps and checks the files, reads the key index once, so
 * that its pages are in memory, and makes one that is missing or damaged from
 * the key column. Afterwards lookups and reads of rows cost no system call.
 *
 * Lifetime:	counted references. A snapshot holds one for each of its
 *		sources; the next snapshot takes over what has not changed.
 *		Files may be unlinked meanwhile: mappings keep them.
 * Locking:	immutable but for the count, which is atomic; any thread.
 * Errors:	NOT_FOUND: collected meanwhile, take a newer view. CORRUPT.
 */

#include "common/arena.h"
#include "common/err.h"
#include "common/uuid.h"
#include "worker/lance/fragment.h"
#include "worker/lance/key_index.h"
#include "worker/lance/shard_manifest.h"
#include "worker/store/kind.h"

struct source {
	_Atomic uint32_t refs;
	bool is_generation;
	uint64_t number;		/* of the generation, or fragment id */
	struct fragment *fragment;
	struct key_index *index;	/* NULL: a base fragment */
	const struct store_shape *shape; /* what its rows are read as */
	uint64_t bytes;			/* as counted (opened.h) */
	uint32_t maps;
};

/* A fragment of the base table in dir. */
struct err source_open_fragment(struct object_dir *dir,
    const struct store_shape *, const struct table_fragment *,
    struct source **) MUST_CHECK;
/* A generation of a shard. */
struct err source_open_generation(struct object_dir *dir,
    const struct store_shape *, const struct uuid *shard,
    const struct shard_generation *, struct source **) MUST_CHECK;
struct source *source_hold(struct source *);
void source_drop(struct source *);		/* NULL is fine */

/* The sequence of a row; INT64_MIN where it has none (another engine's). */
struct err source_sequence(const struct source *, uint32_t row, struct arena *,
    int64_t *) MUST_CHECK;
/* Rows with all columns of the shape. */
struct err source_read(const struct source *, struct span rows, struct arena *,
    struct batch *) MUST_CHECK;
/* With those that are true in columns (NULL: all); the others are left empty. */
struct err source_read_columns(const struct source *, struct span rows,
    const bool *columns, struct arena *, struct batch *) MUST_CHECK;

#endif
