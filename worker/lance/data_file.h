#ifndef MEMWALD_LANCE_DATA_FILE_H
#define MEMWALD_LANCE_DATA_FILE_H

/*
 * data_file - a Lance data file of format 2.0, opened: where its pages are.
 *
 * Opening maps the file, parses footer, tables and page messages once, and
 * checks every offset, length and encoding before anything uses them. What is
 * left to check is what stands in the buffers (page_read.h). Nothing of it is
 * trusted: the file may come from another engine, or be damaged.
 *
 *	page buffers, each 64 aligned
 *	FileDescriptor (global buffer 0)	schema, rows
 *	ColumnMetadata, one a column		its pages
 *	CMO table		u64 position, u64 size a column
 *	GBO table		u64 position, u64 size a global buffer
 *	u64 first column metadata | u64 CMO | u64 GBO | u32 global buffers |
 *	u32 columns | u16 0 | u16 3 | "LANC"
 *
 * Columns are numbered depth first over the schema: a list takes one and its
 * item the next, a struct one and its members the next, all else one. A page is
 * a run of consecutive values of one column; pages of different columns need
 * not begin at the same rows, item pages need not follow those of their list.
 *
 * Valid:	1. footer, version 2.0, all tables inside of the file and sized
 *		   for their counts; at least one global buffer.
 *		2. every page has a known encoding, as many buffers as that
 *		   takes, each inside of the file and long enough.
 *		3. a column's pages hold fewer than 2^40 values in all.
 * Lifetime:	the opener's; arrays that page_read made of it point into the
 *		mapping and are good until data_file_close.
 * Locking:	immutable once open; any number of threads may read it.
 * Errors:	CORRUPT: a rule is broken. UNSUPPORTED: another format version,
 *		compression, or an encoding that 2.0 files of no engine have.
 *		NO_MEMORY: its metadata does not fit DATA_FILE_META_MAX.
 * Source:	lance-format.md 2.
 */

#include "worker/arrow/schema.h"
#include "worker/object/object.h"

#define DATA_FILE_META_MAX	(64u << 20)	/* memory of parsed messages */
#define DATA_FILE_VALUES_MAX	(1ull << 40)

enum page_form {
	PAGE_FIXED,		/* values: bits each, dim of them a row */
	PAGE_ALL_NULL,		/* no buffer */
	PAGE_BINARY,		/* offsets, bytes; null is offset >= null_at */
	PAGE_DICTIONARY,	/* values: u8 each, 0 null; offsets of items */
	PAGE_LIST,		/* offsets into the item column */
	PAGE_STRUCT		/* no buffer; its members have the values */
};

struct data_page {
	uint64_t first;			/* values in the pages before it */
	uint64_t count;
	uint8_t form;			/* enum page_form */
	uint16_t bits;			/* FIXED: a value of 1, 8, 32 or 64 */
	uint32_t dim;			/* FIXED: values a row; 0: no fixed list */
	uint32_t dictionary_count;
	const uint8_t *validity;	/* FIXED; NULL: no value is null */
	const uint8_t *items_validity;	/* of a fixed list's; a bit an item */
	const uint8_t *values;		/* FIXED values, DICTIONARY indices */
	const uint8_t *offsets;		/* u64 ends, without the leading 0 */
	const uint8_t *bytes;		/* BINARY, DICTIONARY */
	uint64_t bytes_len;
	uint64_t null_at;		/* BINARY, LIST, DICTIONARY: adjustment */
	uint64_t item_first, item_count; /* LIST: its run of items */
};

struct data_column {
	uint64_t count;			/* values of all pages */
	uint32_t page_count;
	bool all_null;			/* of every value; no page need be looked at */
	const struct data_page *pages;
};

struct data_file_id {			/* which column a field has */
	int32_t field_id;
	uint32_t column;
};

struct data_file_ids {			/* the same as a manifest lists it */
	uint32_t count;
	const int32_t *fields;
	const int32_t *columns;
};

struct data_file {
	struct object_map map;
	struct arena arena;		/* all below */
	uint64_t row_count;
	uint32_t column_count;
	const struct data_column *columns;
	uint32_t id_count;		/* sorted by field id, each once */
	const struct data_file_id *ids;
	uint32_t pair_count;		/* metadata of the schema */
	const struct arrow_pair *pairs;
};

/* ids: what the manifest says of the file; ids below 0 are dropped fields and
 * are left out. NULL: the file's own schema says it. */
struct err data_file_open(struct object_dir *, const char *name,
    const struct data_file_ids *, struct data_file **) MUST_CHECK;
/* The same of bytes that the caller keeps. */
struct err data_file_parse(struct slice bytes, const struct data_file_ids *,
    struct data_file **) MUST_CHECK;
void data_file_close(struct data_file *);	/* NULL is fine */

/* The column of a field, or NULL if this file does not have it. */
const struct data_column *data_file_column(const struct data_file *,
    int32_t field_id);
/* Metadata of its schema by key; false if there is none. */
bool data_file_pair(const struct data_file *, struct slice key, struct slice *)
    MUST_CHECK;
/* What it takes of memory besides the mapping. */
size_t data_file_bytes(const struct data_file *);

#endif
