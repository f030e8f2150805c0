#ifndef MEMWALD_MAINTAIN_COLLECT_PARTS_H
#define MEMWALD_MAINTAIN_COLLECT_PARTS_H

/*
 * collect_parts - one collection of a store between its files: collect.c says
 * whether it is time, collect_mark.c keeps the marks, collect_shard.c and
 * collect_base.c list and delete, collect_names.c is a set of names.
 *
 * Lifetime:	one run, one thread. A mark from one run to the next.
 * Locking:	marks: a mutex of the process, of no rank: nothing is taken
 *		under it. A mark is changed under the store's guard alone.
 */

#include "shm/metric.h"
#include "worker/maintain/collect.h"

/* Bounds of one run; what is beyond them waits for the next. */
#define COLLECT_VERSIONS_MAX	256u	/* of the table */
#define COLLECT_MANIFESTS_MAX	2048u	/* of a shard */
#define COLLECT_UNNAMED_MAX	1024u	/* files, of a store */
#define COLLECT_ARENA_MAX	(64u << 20)

/* ---- names: as hashes, so that a few may be taken for ones that are in it;
 * then a file stays that could go */

struct collect_names {
	uint64_t *cells;		/* 0: free */
	uint32_t count, room;		/* room: a power of two */
};

void collect_names_free(struct collect_names *);
struct err collect_names_add(struct collect_names *, const char *name)
    MUST_CHECK;
bool collect_names_has(const struct collect_names *, const char *name);

/* ---- marks */

struct collect_unnamed {		/* a file that nobody names */
	uint64_t hash;			/* of its name */
	uint64_t since_ns;		/* clock_mono_ns */
};

struct collect_mark {
	struct shm_ref ref;
	uint64_t since_ns;		/* clock_mono_ns */
	uint64_t serial;
	uint64_t base_version;
	uint32_t unnamed_count;		/* by hash */
	struct collect_unnamed *unnamed;
	uint32_t shard_count;
	struct {
		struct shm_aged at;	/* who aged it when the mark was made */
		uint64_t version;	/* 0: not known */
		uint64_t replay_after;
	} shards[];
};

/* The store's state as it is now, or NULL: no memory, or a slot that must be
 * loaded first. The caller frees it or puts it. */
struct collect_mark *collect_mark_new(struct shm_ref);
void collect_mark_free(struct collect_mark *);	/* NULL is fine */
/* The store's mark, or NULL; stays as long as the guard is held. */
struct collect_mark *collect_mark_get(struct shm_ref);
/* Takes the mark, or none, in place of the one that is there. */
void collect_mark_put(struct shm_ref, struct collect_mark *);

/* ---- a run */

struct collecting {
	struct aged_store *aged;
	const struct collect_mark *mark;	/* whose age is enough */
	struct collect_mark *next;	/* state of now; unnamed: seen so far */
	uint64_t old_us;		/* files of this time may go */
	uint64_t now_ns, abandoned_ns;
	struct arena arena;		/* of the part at work */
	bool waits;			/* something is left for another run */
};

/* Whether a file is old enough of itself; if not, it waits. */
bool collect_is_old(struct collecting *, uint64_t modified_us);
/* Whether a file that nobody names was so for long enough; if not, it waits,
 * and is known again in the next run. */
bool collect_is_abandoned(struct collecting *, const char *name);
/* It is, and cannot go now. */
void collect_wait_for(struct collecting *, const char *name);
/* One step: checks that the store is still there and time is left, deletes an
 * object or a tree, and counts it. */
struct err collect_delete(struct collecting *, enum metric_collected,
    const char *name) MUST_CHECK;
void collect_count(const struct collecting *, enum metric_collected,
    const struct object_gone *);
/* Before old versions go: who probes upwards from the hint finds the newest. */
struct err collect_hint(struct collecting *, const char *name,
    uint64_t version) MUST_CHECK;

/* By its index in the mark. */
struct err collect_shard(struct collecting *, uint32_t index) MUST_CHECK;
struct err collect_base(struct collecting *) MUST_CHECK;

#endif
