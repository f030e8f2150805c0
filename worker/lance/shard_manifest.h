#ifndef MEMWALD_LANCE_SHARD_MANIFEST_H
#define MEMWALD_LANCE_SHARD_MANIFEST_H

/*
 * shard_manifest - the state of one shard: who may write, what is sealed.
 *
 *	_mem_wal/SHARD/manifest/DIGITS.binpb	64 binary digits, the version
 *						with its bits reversed: version
 *						1 is "1000...", 2 "0100..."
 *	_mem_wal/SHARD/manifest/version_hint.json
 *
 * A version is a protobuf message, put if absent, and never changed. The newest
 * is found by listing, never by probing, since collection leaves holes. Every
 * version carries the uuid of its writer, made afresh for each put, so that
 * after an ambiguous outcome one's own is known from another's.
 *
 * shard_manifest_change is compare and set: load the newest, let the call back
 * edit it, put version + 1. After the put it lists again: a higher version
 * means that it filled a hole, or that others went on from its version; then
 * it removes its own and starts again from the newest, where its change may
 * stand already (the call back must see that). What the removed version named
 * is left to collection. Checked with Spin (design 4).
 *
 * Death:	between put and list: the version stands, or is a hole filled
 *		below the newest, which nobody reads.
 * Lifetime:	what is loaded lives in the caller's arena.
 * Errors:	NOT_FOUND: the shard has no manifest. CORRUPT. CONFLICT: lost
 *		SHARD_MANIFEST_TRIES races. What the call back answers, which
 *		also gives up. UNKNOWN, and no other: a put of ours may stand,
 *		now or later.
 * Source:	lance-format.md 7.2; field 1000 is memwald's.
 */

#include "common/arena.h"
#include "common/uuid.h"
#include "worker/object/object.h"

struct Pb__ShardManifest;

#define SHARD_MANIFEST_TRIES	64
#define SHARD_MANIFEST_BYTES_MAX (4u << 20)
#define SHARD_GENERATIONS_MAX	65536
#define SHARD_NAME_MAX		160	/* of a name that we make, with NUL */

enum shard_status { SHARD_ACTIVE, SHARD_SEALED };

struct shard_generation {
	uint64_t number;		/* from 1 */
	struct slice directory;		/* below the shard's */
};

struct shard_manifest {
	uint64_t version;		/* 0: the shard has none yet */
	uint64_t epoch;
	uint64_t replay_after;		/* last WAL position in a generation */
	uint64_t last_seen;		/* hint */
	uint64_t current_generation;	/* number of the next one; from 1 */
	uint32_t generation_count;	/* sealed, not yet drained; by number */
	const struct shard_generation *generations;
	struct uuid shard;
	uint32_t status;		/* enum shard_status */
	struct uuid writer;		/* all zero: another engine's */
	const struct Pb__ShardManifest *carried; /* what it was read from; the
					 * unknown of it is written again */
};

/* Both relative to the table's directory. A position or version from 1. */
void shard_manifest_name(const struct uuid *shard, uint64_t version, char *name);
void shard_wal_name(const struct uuid *shard, uint64_t position, char *name);
void shard_directory_name(const struct uuid *shard, char *name);
/* "1010...0" + suffix; false for any other name. */
bool shard_number_parse(struct slice name, struct slice suffix, uint64_t *)
    MUST_CHECK;

struct err shard_manifest_load(struct object_dir *table, const struct uuid *shard,
    struct arena *, struct shard_manifest *) MUST_CHECK;
struct err shard_manifest_load_version(struct object_dir *table,
    const struct uuid *shard, uint64_t version, struct arena *,
    struct shard_manifest *) MUST_CHECK;
/* The newest version by listing; NOT_FOUND if there is none. */
struct err shard_manifest_newest(struct object_dir *table,
    const struct uuid *shard, uint64_t *version) MUST_CHECK;
/* For tests and fuzzing. */
struct err shard_manifest_parse(struct slice, struct arena *,
    struct shard_manifest *) MUST_CHECK;

/*
 * Edits m in place: it comes as the newest version (version 0, epoch 0,
 * generation 1, no generations, if there is none yet); version and writer are
 * set by the caller afterwards. *stands = true: nothing to write, m is the
 * result. An error gives up. Memory from the arena, which the caller owns and
 * which a try adds a manifest or two to.
 */
typedef struct err shard_manifest_edit_fn(struct shard_manifest *m,
    struct arena *, bool *stands, void *ctx);

struct err shard_manifest_change(struct object_dir *table,
    const struct uuid *shard, shard_manifest_edit_fn *, void *ctx,
    struct arena *, struct shard_manifest *result) MUST_CHECK;

#endif
