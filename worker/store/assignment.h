#ifndef MEMWALD_STORE_ASSIGNMENT_H
#define MEMWALD_STORE_ASSIGNMENT_H

/*
 * assignment - which ordinal is whose, as the object store says it.
 *
 *	_cluster/assignment/DIGITS.json		a chain (worker/object/chain.h)
 *	{"version":7,"writer":UUID,"ordinals":[
 *	  {"name":"a#1","shard":UUID,"version":7,"state":"owned",
 *	   "instance":"a","worker":1,"address":"10.0.0.1:3000","at_ms":...,
 *	   "drained":1,"why":"command",
 *	   "history":[{"version":3,"state":...,"instance":...,"worker":...,
 *	     "at_ms":...,"why":"home"},...]}]}
 *
 * One chain for all ordinals, so that what moves together moves in one step,
 * and one look tells a claimer all. An ordinal's version is that of the chain
 * in which it last changed; its history has the assignments before, at most
 * ASSIGNMENT_HISTORY, newest first. An ordinal that no version names is its
 * home's: of the instance and the worker slot in its name. "drained" has the
 * bits of SHM_DRAINED (shm/ordinal_table.h); it is left out when it is 0. "why"
 * is a word of SHM_ORDINAL_REASONS: it stays while the owner does, and is left
 * out where nobody told it; one that is not known counts as left out.
 *
 * The segment has a cache of it (shm/ordinal_table.h), which any process brings
 * up to date. What shall change, the master writes there as wants; the
 * maintainer brings them here. A want counts if the ordinal still has the
 * version that it goes on from, so that of two that decided at the same time
 * one wins, and the other looks again. A name has one shard and a shard one
 * name: whoever comes second with either is too late.
 *
 * A worker whose ordinal has moved is told so (RELEASE) by whoever of its server
 * learns of it first.
 *
 * Who may write: the owner of an ordinal, while its instance holds its lease.
 * A worker asks before each claim, and again before it serves (claim.h). That
 * keeps writers from fencing each other for nothing, and those that were asleep
 * from writing; that no row is lost when two believe that they own an ordinal is
 * the work of epochs and sentinels.
 *
 * Death:	a version stands or does not. Half applied to the segment, the
 *		cache's version is the old one, and the next look does it again.
 * Lifetime:	what is loaded lives in the caller's arena.
 * Locking:	none of the segment over I/O; blocks: for a pool.
 * Errors:	FENCED: the ordinal is another's. UNAVAILABLE: this server has no
 *		lease. CONFLICT: lost CHAIN_TRIES races. CORRUPT. EXISTS: one of
 *		ours has the name of one that was adopted; other wants were
 *		brought. Those of chain.h.
 */

#include "shm/ordinal_table.h"
#include "worker/object/object.h"

#define ASSIGNMENT_HISTORY	SHM_ORDINAL_PASTS
#define ASSIGNMENT_KEEP		16u	/* versions that stay */
#define ASSIGNMENT_BYTES_MAX	(64u << 20)	/* of the arena of one */

struct assignment_change {
	uint64_t version;
	enum shm_ordinal_state state;
	uint32_t worker;
	struct slice instance;
	uint64_t at_ms;			/* wall clock of who changed it */
	enum shm_ordinal_reason reason;
};

struct assignment_ordinal {
	struct slice name;
	struct uuid shard;
	struct slice address;
	uint32_t drained;		/* SHM_DRAINED bits */
	struct assignment_change now;
	uint32_t history_count;
	struct assignment_change history[ASSIGNMENT_HISTORY];
};

struct assignment {
	uint64_t version;		/* 0: there is none yet */
	uint32_t count;
	const struct assignment_ordinal *ordinals;
};

struct err assignment_load(struct object_dir *root, struct arena *,
    struct assignment *) MUST_CHECK;
/* Brings the segment up to the newest version: one listing if it is. */
struct err assignment_look(struct object_dir *root) MUST_CHECK;
/* Whether the worker in that process slot may claim shards of an ordinal, now
 * and as the newest version says. *moves: of the stay (ordinal_table.h) in which
 * it may. */
struct err assignment_check(struct object_dir *root, uint32_t ordinal,
    uint16_t slot, uint32_t *moves) MUST_CHECK;
/* All wants that there are, in one version. *stand: how many stand after it, by
 * us or before us; *late: how many were decided on what was not the newest. */
struct err assignment_bring(struct object_dir *root, uint32_t *stand,
    uint32_t *late) MUST_CHECK;
/* Whether it has an ordinal of that shard, which the segment may have no place
 * for (ordinal_table.h). */
bool assignment_has(const struct assignment *, const struct uuid *shard)
    MUST_CHECK;
/* Removes old versions. */
struct err assignment_collect(struct object_dir *root) MUST_CHECK;

/* For tests. */
struct err assignment_parse(struct slice, struct arena *, struct assignment *)
    MUST_CHECK;

#endif
