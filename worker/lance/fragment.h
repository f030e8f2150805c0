#ifndef MEMWALD_LANCE_FRAGMENT_H
#define MEMWALD_LANCE_FRAGMENT_H

/*
 * fragment - the rows of one fragment: its data files and what is deleted.
 *
 * A fragment of a base table has one data file or, after another engine's
 * schema changes, several, each with some of the columns. A field is found by
 * its Lance id in any of them; a field in none is null in every row, as after
 * a column was added; what a file has beyond that was dropped. A generation is
 * a Lance table of one fragment and opened the same way.
 *
 * Rows are physical: numbered from 0 with the deleted ones, which reads return
 * like all others. Who walks rows asks fragment_is_deleted.
 *
 * Lifetime:	the opener's. What was read is good until fragment_close and
 *		the reset of the arena. The names that it was opened with may
 *		be unlinked meanwhile.
 * Locking:	immutable; any number of threads.
 * Errors:	CORRUPT: files with too few rows, a size that is not the
 *		manifest's. Otherwise those of data_file, page_read, deletion,
 *		table.
 */

#include "worker/arrow/batch.h"
#include "worker/lance/data_file.h"
#include "worker/lance/deletion.h"
#include "worker/lance/table.h"

#define FRAGMENT_FILES_MAX 1024

struct fragment {
	uint64_t id;
	uint64_t row_count;		/* physical */
	struct deletion *deletion;	/* NULL: nothing is deleted */
	struct table *table;		/* a generation's own; else NULL */
	uint32_t file_count;
	struct data_file *files[];
};

/* The description need not outlive the call. */
struct err fragment_open(struct object_dir *table, const struct table_fragment *,
    struct fragment **) MUST_CHECK;
/* dir is the generation's. Its schema and metadata are in fragment->table.
 * errors: for the text of an error. */
struct err fragment_open_generation(struct object_dir *dir, struct arena *errors,
    struct fragment **) MUST_CHECK;
void fragment_close(struct fragment *);		/* NULL is fine */
/* As object_map_sparse, for all of its files. */
void fragment_sparse(const struct fragment *, bool sparse);

/* The columns of the projection, a schema with Lance ids, of a run of rows. */
struct err fragment_read(const struct fragment *,
    const struct arrow_schema *projection, struct span rows, struct arena *,
    struct batch *) MUST_CHECK;
/* One of them. */
struct err fragment_read_field(const struct fragment *,
    const struct arrow_field *, struct span rows, struct arena *,
    struct array *) MUST_CHECK;

static inline bool
fragment_is_deleted(const struct fragment *f, uint32_t row)
{
	return f->deletion != NULL && deletion_contains(f->deletion, row);
}

/* The file that a value which was read lies in: -1: in none, but in memory. */
int32_t fragment_file_of(const struct fragment *, const void *value);
/* Rows that are not deleted. */
uint64_t fragment_live_count(const struct fragment *);
size_t fragment_bytes(const struct fragment *);	/* memory, mappings left out */
uint64_t fragment_mapped_bytes(const struct fragment *);

#endif
