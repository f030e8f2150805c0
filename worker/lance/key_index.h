#ifndef MEMWALD_LANCE_KEY_INDEX_H
#define MEMWALD_LANCE_KEY_INDEX_H

/*
 * key_index - the keys of immutable sources in order, each with its row.
 *
 * Gets and folds look keys up in it, lists walk several of them side by side.
 * There are three kinds, with one interface:
 *
 *	a generation's	_pk_index/page_data.lance, _pk_index/page_lookup.lance
 *			and bloom_filter.bin, as the engine writes them
 *	a segment	_indices/<uuid>/page_data.lance and page_lookup.lance:
 *			the keys of some fragments of the base table, a BTREE
 *			that the engine uses as well. Its filter is in memory.
 *	of a fragment	that no segment has: made from the key column, in
 *			memory.
 *
 * page_data.lance is a data file of two columns, values (the key) and ids
 * (uint64; a generation's row offset, or fragment id << 32 | row offset),
 * sorted by key; keys that occur twice stand there twice, a generation's by
 * row. page_lookup.lance has a row for each batch_size rows of it, 8192 in a
 * generation, 4096 in a segment: min, max, null_count, page_idx. Its schema has
 * the metadata batch_size, range_partitioned = "false" and, if it is ours,
 * memwald:xxh3: the hash of all bytes of page_data.lance, in hex digits.
 *
 * Opening reads all of it once: the hash, that keys rise, that rows are below
 * the row count; of a filter, that it has every key. So lookups check nothing,
 * the pages are in memory, and it is known whether any key occurs twice. A
 * filter that is too small for the number of keys (a generation's has a fixed
 * size), absent or damaged is replaced by one in memory. Whether all rows are
 * there is told by the count of a generation's; of a segment the caller looks.
 *
 * A position is an index into the sorted keys; a cursor is a position. A
 * segment's fragments have places: 0, 1, ... in the order that they were named.
 *
 * Lifetime:	the opener's; keys are good until key_index_close.
 * Locking:	immutable; any number of threads.
 * Errors:	NOT_FOUND: no such file. CORRUPT: build it again. UNSUPPORTED:
 *		of a newer engine. NO_MEMORY: the cap of a build.
 * Source:	lance-format.md 7.4 and 8.
 */

#include "common/uuid.h"
#include "worker/arrow/batch.h"
#include "worker/object/object.h"

struct data_file;
struct fragment;
struct key_build;

struct key_page {			/* a run of keys behind each other */
	uint64_t first, count;		/* positions */
	const uint8_t *ends;		/* u64 each */
	const char *bytes;
};

struct key_index {
	uint64_t count;
	bool unique;			/* no key occurs twice */
	uint32_t page_count;
	struct key_page *pages;
	uint32_t *rows;			/* of each position */
	uint32_t *places;		/* of each position; NULL: all are 0 */
	size_t head;			/* bytes that all keys begin with */
	uint64_t *samples;		/* what follows of each n-th key */
	uint64_t sample_count;
	const uint8_t *filter;
	size_t filter_bytes;
	bool filter_is_whole;		/* has every key; known after the scan */
	/* What of it lies in files, and what in memory; NULL: the other. */
	struct data_file *file;
	struct object_map filter_map;
	char *own_bytes;
	uint64_t *own_ends;
	uint8_t *own_filter;
};

/* Where the files of one index are, relative to its directory. */
struct key_index_paths {
	char data[OBJECT_NAME_MAX];
	char lookup[OBJECT_NAME_MAX];
	char filter[OBJECT_NAME_MAX];	/* "": it has none */
	uint32_t batch_rows;
	uint8_t key_type;		/* enum arrow_type: utf8 or large */
};

/* The fragments of a segment that are of interest, by rising id. */
struct key_fragment {
	uint32_t id;
	uint64_t row_count;		/* physical */
};

#define KEY_NO_PLACE UINT32_MAX		/* of a row in any other fragment */

void key_index_paths_generation(struct key_index_paths *,
    const struct arrow_field *key);
void key_index_paths_segment(struct key_index_paths *,
    const struct arrow_field *key, const struct uuid *);

/* row_count: physical rows of the source; the index must have as many. */
struct err key_index_open(struct object_dir *, const struct key_index_paths *,
    uint64_t row_count, struct key_index **) MUST_CHECK;
struct err key_index_open_segment(struct object_dir *,
    const struct key_index_paths *, const struct key_fragment *, uint32_t count,
    struct key_index **) MUST_CHECK;
/* From the key column (utf8, not null) of an open fragment. */
struct err key_index_build(const struct fragment *, const struct arrow_field *key,
    size_t cap_bytes, struct key_index **) MUST_CHECK;

/* From keys in row order, batch by batch, of a source that is being written. */
struct err key_build_start(size_t cap_bytes, struct key_build **) MUST_CHECK;
struct err key_build_add(struct key_build *, const struct array *keys) MUST_CHECK;
/* Takes the build, also on failure. */
struct err key_build_end(struct key_build *, struct key_index **) MUST_CHECK;
void key_build_abort(struct key_build *);	/* NULL is fine */

/* Writes the files of a generation's. EXISTS: there are some. Segments are
 * written by key_write.h. */
struct err key_index_write(const struct key_index *, struct object_dir *,
    const struct key_index_paths *, struct object_pace *) MUST_CHECK;
void key_index_close(struct key_index *);	/* NULL is fine */

static inline uint64_t
key_index_count(const struct key_index *ix)
{
	return ix->count;
}

static inline bool
key_index_unique(const struct key_index *ix)
{
	return ix->unique;
}

size_t key_index_bytes(const struct key_index *);	/* memory, mapping left out */

/* The positions of a key; false if it is not there. hash: bloom_hash(key),
 * taken once for all sources. */
bool key_index_find(const struct key_index *, struct slice key, uint64_t hash,
    struct span *positions) MUST_CHECK;
/* The first position whose key is >= key; the count if there is none. */
uint64_t key_index_seek(const struct key_index *, struct slice key);
struct slice key_index_key(const struct key_index *, uint64_t position);
uint32_t key_index_row(const struct key_index *, uint64_t position);
uint32_t key_index_place(const struct key_index *, uint64_t position);

#endif
