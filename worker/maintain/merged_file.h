#ifndef MEMWALD_MAINTAIN_MERGED_FILE_H
#define MEMWALD_MAINTAIN_MERGED_FILE_H

/*
 * merged_file - the rows of a merge, in its order, as one data file of the base
 * table, and their keys. What a fold makes of generations, and a compaction of
 * fragments.
 *
 * Memory is some MiB of rows, whatever their number, and the keys; long values
 * go from file to file (large_row.h). Writes are paced.
 *
 * Death:	a temporary file, or a data file that no version names.
 * Locking:	none; one thread.
 * Errors:	those of the merge and of writing; what step answers.
 */

#include "worker/lance/key_index.h"
#include "worker/maintain/large_row.h"
#include "worker/maintain/maintain.h"
#include "worker/store/merge_sources.h"

struct merged_input {
	struct aged_store *aged;
	struct merge *merge;		/* of sources, not of tails */
	const struct arrow_schema *schema;	/* with ids; what is written */
	uint32_t key;			/* its key column */
	large_open_fn *open;
	/* Some rows were written: go on? */
	struct err (*step)(void *ctx);
	/* The next row, in order, is this one; in a marked read. NULL: nobody
	 * asks. */
	void (*took)(void *ctx, const struct merge_row *);
	void *ctx;
};

struct merged_file {
	char name[96];			/* below data/ */
	struct table_fragment fragment;	/* row_count 0: no row, no file */
	struct table_file data;
	uint64_t size_bytes;
	uint64_t finished_ns;		/* clock_mono_ns */
	struct key_index *keys;		/* in memory; the caller closes them */
};

/* Durable when OK. arena: of the description, which stays where *out is. */
struct err merged_file_write(const struct merged_input *, struct arena *,
    struct merged_file *out) MUST_CHECK;

/* It was not to be finished, or no version came to name it. */
void merged_file_remove(struct aged_store *, const struct merged_file *,
    struct err why);

/* Before a version names it: CONFLICT if it waited for so long that collection
 * could soon take it for abandoned (collect.h). Then all starts again. */
struct err merged_file_check(const struct aged_store *,
    const struct merged_file *) MUST_CHECK;

#endif
