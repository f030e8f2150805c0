#ifndef MEMWALD_LANCE_TABLE_H
#define MEMWALD_LANCE_TABLE_H

/*
 * table - one version of a Lance table, as its manifest tells it.
 *
 *	NAME.lance/
 *	  data/X.lance			data files
 *	  _versions/D.manifest		D = 20 digits of 2^64-1 - version
 *	  _transactions/N-UUID.txn	N = the version that it was made from
 *	  _deletions/F-N-ID.arrow|.bin	F = fragment id
 *	  _indices/UUID/...
 *	  _mem_wal/SHARD/...		shard_manifest.h
 *
 * A manifest file is [u32 length][message] for the transaction, the index
 * section and the manifest, in any order, then u64 position of the manifest,
 * u16 0, u16 2, "LANC". The newest version is found by listing _versions, never
 * by the hint: collection leaves holes, and a hint may lie.
 *
 * What is refused, with the reason in words: data format other than 2.0 (named),
 * reader flags that we do not know, base paths, branches, overlays, types that
 * no column of ours has. Whether it may be written as well is
 * table_writable: stable row ids and unknown writer flags forbid it.
 *
 * Death:	nothing of a table is shared; a version is a file that is there
 *		whole or not at all.
 * Lifetime:	immutable after loading; all it points to lies in its arena and
 *		lives until table_free. Counting references is the users'.
 * Locking:	none needed for reading.
 * Errors:	NOT_FOUND: no such table or version. UNSUPPORTED. CORRUPT.
 *		NO_MEMORY: a manifest larger than TABLE_BYTES_MAX. The text
 *		of an error lives in the arena that the caller gave for it.
 * Source:	lance-format.md 1, 3, 4, 6.3, 7.1.
 */

#include "common/arena.h"
#include "common/uuid.h"
#include "worker/arrow/schema.h"
#include "worker/object/object.h"

struct Pb__Manifest;

#define TABLE_BYTES_MAX	(64u << 20)	/* of a manifest file */
#define TABLE_NAME_MAX	128		/* of a name that we make, with NUL */

enum table_flag {
	TABLE_FLAG_DELETIONS = 1,
	TABLE_FLAG_STABLE_ROW_IDS = 2,
	TABLE_FLAG_V2 = 4,
	TABLE_FLAG_CONFIG = 8,
	TABLE_FLAG_NO_TXN_FILES = 32,
};

struct table_file {
	struct slice path;		/* below data/ */
	uint32_t field_count;		/* columns of the file */
	const int32_t *fields;		/* Lance ids; one not in the schema (or
					 * -2) was dropped */
	const int32_t *columns;		/* its column of each */
	uint64_t size_bytes;		/* 0: unknown */
};

enum table_deletion_kind {
	TABLE_DELETION_NONE,
	TABLE_DELETION_ARROW,
	TABLE_DELETION_BITMAP,		/* roaring, .bin */
};

struct table_deletion {
	uint8_t kind;			/* enum table_deletion_kind */
	uint64_t read_version;
	uint64_t id;			/* random, all 64 bits */
	uint64_t row_count;		/* deleted rows; 0: not said */
};

struct table_fragment {
	uint64_t id;
	uint64_t row_count;		/* physical, deleted ones included */
	uint32_t file_count;
	const struct table_file *files;
	struct table_deletion deletion;
};

struct table_index {
	struct uuid uuid;
	struct slice name;
	uint64_t dataset_version;
	int32_t index_version;		/* of its files' format */
	uint32_t field_count;
	const int32_t *fields;
	struct slice fragment_bitmap;	/* 32 bit roaring, portable */
	struct slice details_type;	/* "/lance.table.BTreeIndexDetails" */
	struct slice details;
};

struct table_progress {			/* folded up to and including */
	struct uuid shard;
	uint64_t generation;
};

struct table {
	struct arena arena;
	uint64_t version;
	uint64_t written_us;		/* wall clock of its writer */
	uint64_t reader_flags, writer_flags;
	struct arrow_schema schema;	/* with Lance ids */
	int key_column;			/* of the primary key; -1: none */
	uint32_t fragment_count;
	const struct table_fragment *fragments;		/* in scan order */
	uint64_t next_fragment_id;	/* never used before */
	uint32_t index_count;
	const struct table_index *indices;
	bool has_mem_wal;		/* its entry is one of the indices */
	uint32_t progress_count;
	const struct table_progress *progress;		/* merged generations */
	uint32_t config_count;
	const struct arrow_pair *config;
	uint32_t metadata_count;
	const struct arrow_pair *metadata;		/* of the table */
	struct slice transaction_uuid;	/* of the commit that made it; text, or
					 * empty */
	struct slice index_section;	/* the message, raw; empty: none */
	struct Pb__Manifest *manifest;	/* for commit.c */
};

/* Newest version of the table in dir. errors: for the text of an error. */
struct err table_load(struct object_dir *dir, struct arena *errors,
    struct table **) MUST_CHECK;
struct err table_load_version(struct object_dir *dir, uint64_t version,
    struct arena *errors, struct table **) MUST_CHECK;
/* A manifest file's bytes; for tests, and fuzzing. */
struct err table_parse(struct slice file, struct arena *errors,
    struct table **) MUST_CHECK;
void table_free(struct table *);

/* The newest version by listing; NOT_FOUND if there is none. */
struct err table_newest(struct object_dir *dir, uint64_t *version) MUST_CHECK;
/* OK if this version is there: whether readers must look again. One look. */
struct err table_version_exists(struct object_dir *dir, uint64_t version)
    MUST_CHECK;

/* OK, or UNSUPPORTED with the reason. */
struct err table_writable(const struct table *) MUST_CHECK;

/* 0 if nothing of this shard was folded. */
uint64_t table_progress_of(const struct table *, const struct uuid *shard);
/* Empty if there is no such key. */
struct slice table_metadata_get(const struct table *, struct slice key);
const struct table_fragment *table_fragment_find(const struct table *,
    uint64_t id);

/* Names relative to the table's directory; at most TABLE_NAME_MAX bytes. */
void table_manifest_name(uint64_t version, char *name);
void table_deletion_name(uint64_t fragment_id, const struct table_deletion *,
    char *name);
/* False for names that are no manifest. */
bool table_manifest_parse(struct slice name, uint64_t *version) MUST_CHECK;

#endif
