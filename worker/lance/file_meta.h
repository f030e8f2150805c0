#ifndef MEMWALD_LANCE_FILE_META_H
#define MEMWALD_LANCE_FILE_META_H

/*
 * file_meta - what stands behind the pages of a data file that is being
 * written: descriptor, page messages, tables, footer (data_file.h).
 *
 * Page messages are made when their page is written and kept as bytes, about
 * 100 a page. The encodings are those of lance-format.md 2.2, byte for byte.
 * A struct has one page in all, made at the end: the engine refuses more.
 *
 * Lifetime:	the schema must outlive it.
 * Locking:	none; one thread at a time.
 * Errors:	NO_MEMORY: more than FILE_META_MAX of page messages in a column.
 */

#include "common/buf.h"
#include "worker/arrow/schema.h"
#include "worker/object/object.h"

#define FILE_META_MAX		(16u << 20)
#define FILE_PAGE_BUFFERS	2

struct file_page {
	uint64_t count;			/* values */
	bool has_nulls;			/* fixed width: a map comes first */
	uint64_t null_at;		/* strings, lists: the adjustment */
	uint64_t item_count;		/* lists */
	uint32_t buffer_count;
	uint64_t offsets[FILE_PAGE_BUFFERS];
	uint64_t sizes[FILE_PAGE_BUFFERS];
};

struct file_meta_column {
	const struct arrow_field *field;
	struct buf pages;
	uint64_t count;			/* values of all pages so far */
};

struct file_meta {
	const struct arrow_schema *schema;
	uint32_t column_count;
	struct file_meta_column *columns;	/* in Lance's order */
};

/* Lance columns of a field, with those below it. */
uint32_t file_meta_columns(const struct arrow_field *);

struct err file_meta_init(struct file_meta *, const struct arrow_schema *)
    MUST_CHECK;
void file_meta_free(struct file_meta *);
struct err file_meta_add(struct file_meta *, uint32_t column,
    const struct file_page *) MUST_CHECK;
/* All that comes behind the last page. */
struct err file_meta_write(struct file_meta *, struct object_writer *,
    uint64_t row_count) MUST_CHECK;

#endif
