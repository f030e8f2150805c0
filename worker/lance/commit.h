#ifndef MEMWALD_LANCE_COMMIT_H
#define MEMWALD_LANCE_COMMIT_H

/*
 * commit - the next version of a table: put if absent, rebase, bounded retry.
 *
 * A commit loads the newest version, found by listing, and calls back for the
 * edit to make to it; it writes the transaction file and then the manifest of
 * the next version if that is absent. When somebody else took the version, all
 * is done again on top of the newer one, the call back included, which looks at
 * what changed and may find that its edit stands already. Everything that an
 * edit does not name is carried over as it was, unknown fields included.
 *
 * An outcome that is unknown is read back: the manifest bears our transaction's
 * uuid or it does not (field fault B.3). After the put the newest version is
 * looked up by listing: a higher one may mean that ours filled a hole that
 * collection had left. It stands only if the newest bears the same progress
 * (or, of an edit without progress, its new files, or without those its
 * metadata; of a rewrite, whose new files may have been rewritten again, none of
 * those that it removed); else we start again from that one (design 6.3).
 * Whether those files are still on the disk is for the caller to look at before
 * he drains.
 *
 * Death:	a commit is there whole or not at all. What stays behind is a
 *		transaction file that no manifest names.
 * Locking:	none; any process of any host may commit at the same time.
 * Errors:	CONFLICT: lost COMMIT_TRIES races. UNSUPPORTED: table_writable.
 *		Whatever the call back answers. UNKNOWN: a version of ours may
 *		stand, now or later; nothing that the edit names may be removed.
 *		After any other error it may.
 * Source:	lance-format.md 5.
 */

#include "worker/lance/table.h"

#define COMMIT_TRIES	64

enum commit_operation {
	COMMIT_NOTHING,			/* the edit stands already */
	COMMIT_APPEND,			/* new fragments only */
	COMMIT_UPDATE,			/* whatever a fold changes */
	COMMIT_REWRITE,			/* what is added has the rows of what is
					 * removed, but for deleted ones */
	COMMIT_CREATE_MEM_WAL,		/* the entry of lance-format.md 7.1 */
};

struct commit_deletion {
	uint64_t fragment_id;
	struct table_deletion deletion;
};

struct commit_segment {			/* of the key's BTREE: index_entry.h */
	struct uuid uuid;		/* of its directory, which is durable */
	struct slice name;
	int32_t field;
	struct slice fragments;		/* ids, a portable roaring set */
	uint64_t data_bytes, lookup_bytes;
};

/* Memory: the arena of the call back. */
struct commit_edit {
	enum commit_operation operation;
	uint32_t added_count;
	const struct table_fragment *added;	/* ids are given here, in order
						 * from next_fragment_id on */
	uint32_t deletion_count;		/* new deletion files of old ones */
	const struct commit_deletion *deletions;
	uint32_t removed_count;
	const uint64_t *removed;		/* fragment ids */
	uint32_t progress_count;		/* never falls */
	const struct table_progress *progress;
	uint32_t metadata_count;		/* set or replaced */
	const struct arrow_pair *metadata;
	uint32_t segment_count;			/* new ones */
	const struct commit_segment *segments;
	uint32_t dropped_count;			/* old ones that go */
	const struct uuid *dropped;
};

bool commit_edit_removes(const struct commit_edit *, uint64_t fragment_id);

/* The edit comes cleared. arena lives until the call back is called again or
 * the commit ends. */
typedef struct err commit_build_fn(const struct table *newest,
    struct arena *arena, struct commit_edit *, void *ctx);

struct commit_result {
	bool written;			/* false: COMMIT_NOTHING */
	uint64_t version;		/* that bears the edit */
	uint32_t tries;
};

struct err commit_run(struct object_dir *, commit_build_fn *, void *ctx,
    struct arena *errors, struct commit_result *) MUST_CHECK;

/*
 * A new table: version 1 (its schema) and version 2 (the MemWAL entry), as
 * LanceDB makes them. Fields without an id get one. key is the column of the
 * primary key: not null. EXISTS if version 1 is taken; a table that was left at
 * version 1 is completed.
 */
struct commit_create {
	const struct arrow_schema *schema;
	struct slice key;
	uint32_t metadata_count;
	const struct arrow_pair *metadata;
};

struct err commit_create_table(struct object_dir *, const struct commit_create *,
    struct arena *errors) MUST_CHECK;

/*
 * A generation: a table of version 1 only, one fragment, flags 0 even with a
 * deletion file, no transaction, the field ids of the base (lance-format 7.4).
 * EXISTS: the directory holds one already.
 */
struct err commit_create_generation(struct object_dir *,
    const struct arrow_schema *, const struct table_fragment *,
    const struct arrow_pair *metadata, uint32_t metadata_count) MUST_CHECK;

#endif
