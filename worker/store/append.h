#ifndef MEMWALD_STORE_APPEND_H
#define MEMWALD_STORE_APPEND_H

/*
 * append - rows become durable: pending batch, group commit, one answer.
 *
 * A worker writes one shard of each store, its own ordinal's. Requests put
 * their rows into the writer's pending builder, or bring a builder of their
 * own; while no commit is in flight, all that is pending becomes the next one:
 * group commit by construction, no timer. A commit is one write and one sync,
 * or a rotation when it does not fit its entry; where the store cannot append
 * it is an entry of its own, put if absent (wal.h), and its own fence. Else the
 * position behind the entry must still be absent, in the object store. Only
 * then the new end is published and every request in the commit is answered
 * (design 4).
 *
 * The first append to a store claims the shard (claim.h), on the pool. A
 * writer that was fenced answers FENCED to all that waited and claims again
 * when the next append comes, if the assignment still names it (assignment.h).
 * While this server does not hold its lease nothing is written: UNAVAILABLE.
 *
 * After a write or sync error the entry is never touched again: a later sync
 * would succeed over lost pages. The next commit starts a new entry, which
 * records the last end that was acknowledged.
 *
 * Death:	what was not answered may appear, whole, or not; what was
 *		answered is in the entry below the published end.
 * Lifetime:	a request belongs to the writer from append_submit until done.
 * Locking:	the loop's thread.
 * Errors:	FENCED, IO, FULL, TIMED_OUT: nothing was acknowledged. BUSY: more
 *		is pending than a commit may take. BACKLOG: pressure.h.
 */

#include "worker/arrow/column.h"
#include "worker/store/store.h"

#define APPEND_COMMIT_MAX	(64u << 20)	/* or one larger request */
/* From here on a request's own builder is written from where it lies, into an
 * entry that is made for it. */
#define APPEND_LARGE_MIN	(4u << 20)

struct append {
	void (*done)(struct append *, struct err);
	struct list link;
	struct builder *own;		/* takes; NULL: rows are in pending */
	uint64_t row_count;
};

/* The builder to parse a short request into. Its rows from the present
 * row_count on are the caller's, until he submits or cuts them back, in the
 * same turn. BUSY: full. BACKLOG: pressure.h. BAD_INPUT: the store is pinned or
 * being deleted; the text, which names the version, is in errors. */
struct err append_builder(struct store *, struct arena *errors,
    struct builder **) MUST_CHECK;
/* The rows are there. For own: a builder that the writer frees. The store is
 * held until done. */
void append_submit(struct store *, struct append *);

/* ROTATE from the maintainer: closes the entry once nothing is in flight, and
 * claims a tail that has no live claim. Of another ordinal's shard: guest.h.
 * Replies. */
void append_rotate(struct engine *, const struct shm_command *);
/* RELEASE: our ordinal may have moved away. If so entries are closed and claims
 * given up, each once nothing is in flight. Replies. */
void append_release(struct engine *, const struct shm_command *);
/* Starts what is due; the loop's hook. */
void append_start_due(struct engine *);
/* No more appends will come: closes the entry, if nothing is in flight. */
void append_leave(struct store *);
/* It was not used for a while: closes the entry and the one made ahead. The
 * claim stays. Nothing may be in flight. */
void append_rest(struct store *);
/* The store's handle goes: frees the writer. Nothing may be in flight. */
void append_close(struct store *);
bool append_busy(const struct store *);

#endif
