#ifndef MEMWALD_SHM_SHARD_STATE_H
#define MEMWALD_SHM_SHARD_STATE_H

/*
 * shard_state - what all processes know of one shard of one resident store.
 *
 * The owner's part announces the tail: the last commit that was acknowledged,
 * the entry that was closed, under which epoch, by which life of which
 * process. The manifest part is a copy of the shard manifest's marks. Both are
 * a cache of the object store: in doubt the slot is stale and is loaded again.
 *
 * A point is {position, end offset} of the last commit in one 64-bit word, so
 * that no reader ever pairs the position of one commit with the end of
 * another: 36 bits position (one rotation a microsecond for 19 hours, one a
 * second for 2,000 years), 28 bits end / 8 (an entry is a whole number of 8
 * byte units, below 2 GiB). The word 0 is "none": an end is never 0. Words of
 * one shard only rise, as numbers too.
 *
 * Death:	a commit published by a process that died stays published: its
 *		rows were acknowledged. The claim names a life (process.h), so
 *		that the next life sees that it has no claim yet; nothing must
 *		be cleared. It names a term of the lease as well (instance.h):
 *		what happened to the shard after that has ended, no claim of
 *		this instance knows; and a stay of the ordinal with its owner
 *		(ordinal_table.h), for the same reason. The seal guard is broken by the master's walk.
 * Lifetime:	as long as the slot's incarnation; callers hold a pin, a view
 *		or the guard (store_table.h).
 * Locking:	owner's part: atomics with one writer, the owner's loop. Manifest
 *		part: written under the slot's write lock (view.h), atomics so
 *		that the status page may look without one.
 * Errors:	none.
 */

#include "common/base.h"
#include "shm/guard.h"

#define SHM_POSITION_MAX ((1ull << 36) - 1)
#define SHM_END_MAX	 (((1ull << 28) - 1) * 8)

struct shm_point {			/* {0, 0}: none */
	uint64_t position;
	uint64_t end;			/* bytes, a multiple of 8 */
};

/* What a version of the shard manifest says; version 0: none known. */
struct shm_manifest_marks {
	uint64_t version;
	uint64_t epoch;
	uint64_t replay_after;		/* WAL position that is sealed up to */
	uint64_t pending_bytes;
	uint32_t pending_generations;
};

struct shm_shard_state {
	/* Written by the owner only. */
	alignas(CACHELINE)
	_Atomic uint64_t commit;	/* the last one acknowledged: a point */
	_Atomic uint64_t closed;	/* the last entry closed: a point */
	_Atomic uint64_t epoch;		/* of the claim */
	_Atomic uint64_t claim;		/* the life that made it; 0: none */
	_Atomic uint64_t max_seq;	/* highest sequence published */
	_Atomic uint64_t appended;	/* bytes of the WAL, ever published */
	_Atomic uint32_t term;		/* of the lease, when it was claimed */
	_Atomic uint32_t ordinal;	/* whose claim it is */
	_Atomic uint32_t moves;		/* of that, when it was claimed */

	struct shm_guard seal_guard;

	/* Guarded by the slot's rwlock; the version is written last. */
	alignas(CACHELINE)
	_Atomic uint64_t manifest_version;
	_Atomic uint64_t manifest_epoch;
	_Atomic uint64_t replay_after;
	_Atomic uint64_t pending_bytes;
	_Atomic uint32_t pending_generations;
	/* Written under the seal guard: of appended, what is in generations. */
	_Atomic uint64_t sealed;
};

static_assert(sizeof(struct shm_shard_state) == 3 * CACHELINE,
    "owner, guard and manifest: a line each");

uint64_t shm_point_pack(struct shm_point);
struct shm_point shm_point_unpack(uint64_t word);
/* Whether a lies before b in the WAL. */
bool shm_point_before(struct shm_point a, struct shm_point b);

void shm_shard_init(struct shm_shard_state *);

/* Owner of that ordinal: this life holds the claim of that epoch, and its first
 * entry ends at tail ({0, 0} leaves the commit as it is). Clears the closed mark. */
void shm_shard_claim(struct shm_shard_state *, uint32_t ordinal,
    uint64_t epoch, struct shm_point tail);
/* Owner: fenced, or done with this shard. Commits stay published. */
void shm_shard_unclaim(struct shm_shard_state *);
/* Owner, after the fence check: everything up to here is acknowledged.
 * Release: who sees it sees the bytes. Points never fall: unless the claim of
 * that epoch still lives another may have read and raised it already. */
void shm_shard_publish(struct shm_shard_state *, uint64_t epoch,
    struct shm_point, uint64_t sequence);
/* Owner: I never touch that entry again, it ends at point.end. */
void shm_shard_close(struct shm_shard_state *, struct shm_point);

/* Anybody, for a tail that has no live claim: the end that was read back. Does
 * nothing if the published commit is already there or beyond. */
void shm_shard_raise(struct shm_shard_state *, struct shm_point);

/*
 * How much WAL waits for a seal: an estimate for limits and the status page, as
 * what a process that died had not counted yet is missing from it until the
 * next time that all of the tail is sealed. Of this instance's shards only.
 *
 * Who read a tail back: it has at least so many. Under the seal guard, when the
 * manifest's marks stand: entries with that many bytes were sealed.
 */
uint64_t shm_shard_tail_bytes(const struct shm_shard_state *);
void shm_shard_tail_found(struct shm_shard_state *, uint64_t bytes);
void shm_shard_tail_sealed(struct shm_shard_state *, uint64_t bytes);

/* Acquire. */
struct shm_point shm_shard_commit(const struct shm_shard_state *);
struct shm_point shm_shard_closed(const struct shm_shard_state *);

struct shm_claim {
	uint64_t epoch;
	uint16_t slot;			/* SHM_NOBODY: nobody */
	bool live;			/* its process still lives that life, the
					 * lease's term lasts, and the ordinal
					 * has not moved */
	bool own;			/* it is this very process */
	bool newest;			/* no manifest that is known here names a
					 * later one: nobody has fenced it */
};

/* Who claimed this shard last. Epoch and life belong together unless a claim
 * is being made at this instant; the durable fence decides in any case. */
struct shm_claim shm_shard_claimed(const struct shm_shard_state *);
uint64_t shm_shard_max_seq(const struct shm_shard_state *);

/* Without a lock: for the status page and for hints. */
struct shm_manifest_marks shm_shard_marks(const struct shm_shard_state *);
/* Under the slot's write lock; view.c only. False: known, or newer known. */
bool shm_shard_raise_marks(struct shm_shard_state *,
    const struct shm_manifest_marks *);

#endif
