#ifndef MEMWALD_LANCE_INDEX_ENTRY_H
#define MEMWALD_LANCE_INDEX_ENTRY_H

/*
 * index_entry - segments of the BTREE over the key column, in a table's index
 * section. Pure; used by next.c, and by whoever looks for them.
 *
 * All segments of one name are one index to the engine, which asks each and
 * unites what they find; each covers the fragments of its bitmap. Their rows
 * are masked by deletion vectors, and fragments that are gone are ignored, so
 * that an entry stays good while the table goes on. Entries of other indices
 * are carried over as they were.
 *
 * The name is that of the BTREE that is there already, or the engine's own
 * choice, or, if an index of another type or column has taken that, one of ours:
 * a name with two types is an error to the engine.
 *
 * Lifetime:	the arena's.
 * Errors:	CORRUPT. NO_MEMORY.
 * Source:	lance-format.md 8; several segments of a name: tested with the
 *		engine in tests/interop/base_index_test.py.
 */

#include "worker/lance/commit.h"

struct deletion;
struct Pb__RewrittenIndex;

/* Whether it is a segment of the key's index, in a format that we can read. */
bool index_entry_is_segment(const struct table *, const struct arrow_field *key,
    const struct table_index *);
struct err index_entry_name(const struct table *, const struct arrow_field *key,
    struct arena *, struct slice *) MUST_CHECK;
/* The ids of its fragments, as a set. */
struct err index_entry_fragments(const struct table_index *, struct deletion **)
    MUST_CHECK;
/* The index section without the edit's dropped segments and with its new ones,
 * which are built from version `version` of the table. */
struct err index_entry_change(struct arena *, const struct commit_edit *,
    uint64_t version, struct slice *section) MUST_CHECK;
/* The same for the transaction of a rewrite: the new segment goes on for each
 * that is dropped. */
struct err index_entry_rewritten(struct arena *, const struct commit_edit *,
    struct Pb__RewrittenIndex ***, size_t *count) MUST_CHECK;

#endif
