#ifndef MEMWALD_STORE_BASE_H
#define MEMWALD_STORE_BASE_H

/*
 * base - one version of the base table, opened: its fragments, and its keys.
 *
 * Each live row of the base is found through exactly one key index: a segment
 * of the table's BTREE over the key column, which the engine uses as well, for
 * the fragments that it covers; for a fragment that no segment covers (another
 * engine appended it, or its segment is damaged) one that is made here, in
 * memory, from its key column. The next fold writes a segment for those.
 *
 * A segment is not believed to cover a fragment because the manifest says so:
 * each row that is not deleted has to be in it, once. What stands in it of other
 * fragments, of fragments that are gone or of deleted rows is passed over.
 *
 * What the version before had open is taken over: fragments with their files
 * and deletion vector, indexes also when only rows were deleted.
 *
 * Lifetime:	counted references, of the base and of each index.
 * Locking:	immutable but for the counts; any thread.
 * Errors:	NOT_FOUND: a data file was collected, take a newer view.
 *		CORRUPT: one is damaged. A missing or damaged index is none.
 */

#include "worker/lance/table.h"
#include "worker/store/source.h"

#define BASE_NO_SOURCE UINT32_MAX
#define BASE_NO_KEYS UINT32_MAX

struct base_index;

struct base_keys {		/* an index as one version uses it */
	struct base_index *opened;
	const struct key_index *index;
	bool is_segment;		/* else of one fragment, in memory */
	struct uuid uuid;		/* of a segment */
	uint32_t place_count;
	uint32_t *sources;		/* at each place; BASE_NO_SOURCE: passed
					 * over */
};

struct base {
	_Atomic uint32_t refs;
	struct table *table;
	uint32_t source_count;
	struct source **sources;	/* one a fragment, in its order */
	uint32_t *by_id;		/* their numbers, by fragment id */
	uint32_t *found_by;		/* the keys of each source, by number */
	uint32_t keys_count;
	struct base_keys *keys;
	uint32_t useless_count;		/* segments of no live fragment, damaged */
	struct uuid *useless;
	uint64_t bytes;			/* as counted (opened.h) */
};

/* Takes table, also on failure. previous: what may be taken over, or NULL. */
struct err base_open(struct object_dir *, const struct store_shape *,
    struct table *, const struct base *previous, struct base **) MUST_CHECK;
struct base *base_hold(struct base *);
void base_drop(struct base *);			/* NULL is fine */

/* The number of the source of a fragment; source_count: there is none. */
uint32_t base_find(const struct base *, uint64_t fragment_id);
/* Whether two versions name the same rows, what is deleted of them apart. Another
 * engine's overwrite counts ids from 0 again, so the files have to be the same
 * too. */
bool base_same_fragment(const struct table_fragment *,
    const struct table_fragment *);

/* The row at a position of one of its indexes; false if it is deleted, or not
 * found through this one. */
static inline bool
base_row(const struct base *b, const struct base_keys *k, uint64_t position,
    uint32_t *source, uint32_t *row)
{
	uint32_t place = key_index_place(k->index, position);

	if (place >= k->place_count || k->sources[place] == BASE_NO_SOURCE)
		return false;
	*source = k->sources[place];
	*row = key_index_row(k->index, position);
	return !fragment_is_deleted(b->sources[*source]->fragment, *row);
}

#endif
