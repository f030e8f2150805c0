#ifndef MEMWALD_LANCE_PAGE_WRITE_H
#define MEMWALD_LANCE_PAGE_WRITE_H

/*
 * page_write - a Lance data file of format 2.0, written front to back.
 *
 * Rows come as batches of any size and leave as groups of pages: all columns
 * are cut at the same rows, so that the widest has at most PAGE_WRITE_BYTES (a
 * longer value has a page of its own) and the group at most
 * PAGE_WRITE_GROUP_BYTES. Measured, 1 to 8 MiB a page read fastest, 64 KiB is
 * bad. Rows of small batches are gathered in memory until a group is full; of
 * large ones the pages are written where they lie, and values that are far
 * (batch.h) are copied from file to file. Memory is that one group and about
 * 100 bytes a page for the metadata at the end.
 *
 * The layout is in data_file.h; the encodings are those of lance-format.md 2.2,
 * the no-null form in each page that has no null. Every column has a page, if
 * need be of length 0: the engine panics late without (lance-format.md 11.1).
 *
 * Lifetime:	the schema must outlive the writer. Batches are not kept.
 * Locking:	one thread at a time.
 * Errors:	those of object_writer; NO_MEMORY; UNSUPPORTED: a null struct,
 *		which 2.0 cannot store. After an error only abort is allowed.
 */

#include "worker/arrow/batch.h"
#include "worker/lance/table.h"
#include "worker/object/object.h"

#define PAGE_WRITE_BYTES	(2u << 20)
#define PAGE_WRITE_GROUP_BYTES	(32u << 20)

struct page_writer;

struct page_written {
	uint64_t size_bytes;
	uint64_t row_count;
};

/* Field ids of the schema must be set. The schema's metadata goes into the
 * file. Nothing is visible before page_write_finish. */
struct err page_write_open(struct object_dir *, const char *name,
    const struct arrow_schema *, struct object_pace *, struct page_writer **)
    MUST_CHECK;
/* All rows of a batch, or a run of them. Its columns are the schema's, in name,
 * type and order; ids are taken from the schema. */
struct err page_write_batch(struct page_writer *, const struct batch *)
    MUST_CHECK;
struct err page_write_run(struct page_writer *, const struct batch *,
    struct span rows) MUST_CHECK;
uint64_t page_write_rows(const struct page_writer *);	/* so far */
/* Durable under its name when OK. Takes the writer, also on failure. */
struct err page_write_finish(struct page_writer *, struct page_written *)
    MUST_CHECK;
void page_write_abort(struct page_writer *);	/* NULL is fine */

/* Lance columns of a schema, and the field id of each: what DataFile.fields
 * lists; column_indices are 0, 1, ... */
uint32_t page_write_column_count(const struct arrow_schema *);
void page_write_field_ids(const struct arrow_schema *, int32_t *ids);

/* A written file as a fragment names it. path stays the caller's. */
struct err page_write_describe(const struct arrow_schema *, struct slice path,
    const struct page_written *, struct arena *, struct table_file *)
    MUST_CHECK;

#endif
