#ifndef MEMWALD_LANCE_KEY_INDEX_H
#define MEMWALD_LANCE_KEY_INDEX_H

/*
 * key_index - the keys of one immutable source in order, each with its row.
 *
 * Gets and folds look keys up in it, lists walk several of them side by side.
 * Two kinds of sources have one, with one format and one interface:
 *
 *	a generation	_pk_index/page_data.lance, _pk_index/page_lookup.lance
 *			and bloom_filter.bin, as the engine writes them
 *	a base fragment	_memwald/keys/<data file>: a disposable side file that
 *			is made again from the key column when it is absent or
 *			damaged, and its filter. The engine never looks there,
 *			and its clean-up leaves the folder alone.
 *
 * page_data.lance is a data file of two columns, values (the key) and ids
 * (uint64, the row offset), sorted by key, then by row; keys that occur twice
 * stand there twice. page_lookup.lance has a row for each 8192 rows of it: min,
 * max, null_count, page_idx; only the engine reads that.
 *
 * Opening reads all of it once: that keys and rows rise and that rows are below
 * the row count. So lookups check nothing, the pages are in memory, and it is
 * known whether any key occurs twice. A filter that is too small for the number
 * of keys (a generation's has a fixed size), absent or damaged in size is
 * replaced by one in memory.
 *
 * A position is an index into the sorted keys; a cursor is a position.
 *
 * Lifetime:	the opener's; keys are good until key_index_close.
 * Locking:	immutable; any number of threads.
 * Errors:	NOT_FOUND: no such file. CORRUPT: build it again. NO_MEMORY:
 *		the cap of a build.
 * Source:	lance-format.md 7.4 and 8.
 */

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
	size_t head;			/* bytes that all keys begin with */
	uint64_t *samples;		/* what follows of each n-th key */
	uint64_t sample_count;
	const uint8_t *filter;
	size_t filter_bytes;
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
	char lookup[OBJECT_NAME_MAX];	/* "": not written */
	char filter[OBJECT_NAME_MAX];
};

void key_index_paths_generation(struct key_index_paths *);
/* data_file: the name of the fragment's data file that has the key. */
void key_index_paths_fragment(struct key_index_paths *, const char *data_file);

/* row_count: physical rows of the source; the index must have as many. */
struct err key_index_open(struct object_dir *, const struct key_index_paths *,
    uint64_t row_count, struct key_index **) MUST_CHECK;
/* From the key column (utf8, not null) of an open fragment. */
struct err key_index_build(const struct fragment *, const struct arrow_field *key,
    size_t cap_bytes, struct key_index **) MUST_CHECK;

/* From keys in row order, batch by batch: what a seal or a fold writes. */
struct err key_build_start(size_t cap_bytes, struct key_build **) MUST_CHECK;
struct err key_build_add(struct key_build *, const struct array *keys) MUST_CHECK;
/* Takes the build, also on failure. */
struct err key_build_end(struct key_build *, struct key_index **) MUST_CHECK;
void key_build_abort(struct key_build *);	/* NULL is fine */

/* Writes its files; EXISTS: there is a data file, of somebody else or damaged
 * (key_index_delete). The filter has the engine's fixed size if there is a
 * lookup file. */
struct err key_index_write(const struct key_index *, struct object_dir *,
    const struct key_index_paths *, struct object_pace *) MUST_CHECK;
/* Absent is OK. Who has it open may go on. */
struct err key_index_delete(struct object_dir *, const struct key_index_paths *)
    MUST_CHECK;
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

#endif
