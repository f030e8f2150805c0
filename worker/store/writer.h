#ifndef MEMWALD_STORE_WRITER_H
#define MEMWALD_STORE_WRITER_H

/*
 * writer - this process as the one writer of its shard of one store.
 *
 * A state machine of the loop: unclaimed, claiming (a job on the pool), ready,
 * writing (in the ring or inline), rotating (a job). writer.c has its life,
 * its claim and its entries; writer_commit.c what happens between a pending
 * batch and its answers; append.c is what requests and the maintainer see.
 *
 * Lifetime:	the store's handle; made by the first append or rotation.
 * Locking:	the loop's thread. A job owns the fields under "in flight".
 * Errors:	append.h.
 */

#include "worker/store/append.h"
#include "worker/store/claim.h"

#define WRITER_KEEP_BYTES	(8u << 20)	/* of buffers between commits */
#define WRITER_ROTATES_MAX	8u

enum writer_state {
	WRITER_UNCLAIMED,
	WRITER_CLAIMING,	/* a job on the pool */
	WRITER_READY,		/* nothing in flight */
	WRITER_WRITING,		/* a write and sync, in the ring or inline */
	WRITER_ROTATING		/* a job on the pool: a commit with an entry */
};

struct writer {
	struct store *store;
	struct shm_shard_state *state;
	struct uuid shard;
	enum writer_state at;
	uint64_t epoch;
	uint32_t term;			/* of the lease, before it was claimed */
	uint32_t moves;			/* the same of our ordinal */
	struct wal_writer entry;
	bool closed;			/* never touch that entry again; one put
					 * whole takes no commit anyway */
	uint64_t next_bytes;		/* of the next entry, being made */
	struct object_entry next;
	bool has_next, making_next;
	uint32_t descriptors;		/* as counted (opened.h) */

	struct builder builders[2];	/* a quiet store has none */
	struct builder *pending, *flight;
	struct list waiting, in_flight;	/* struct append */
	struct buf message;		/* of all but large requests */
	uint64_t commit_bytes, row_bytes;	/* of what is in flight */
	uint32_t large_count;		/* requests written from where they lie */
	uint64_t sequence;
	uint64_t began_ns;
	uint64_t said_ns;		/* when a failure was last logged */
	uint32_t failed_count;		/* since then */
	struct wal_layout layout;
	struct arena layout_arena;

	struct list due_link;
	uint32_t rotate_count;
	struct shm_command rotates[WRITER_ROTATES_MAX];

	/* The job or write in flight. */
	struct op op;
	struct err job_err;
	struct claim claim;
	struct wal_start start;
	struct arena parts;		/* of the large requests' messages */
	struct wal_writer started;
	struct op next_op;
	struct object_entry next_made;
	struct err next_err;
};

struct err writer_new(struct store *) MUST_CHECK;
void writer_free(struct store *);
/* Makes the builders that a quiet store gave back. */
struct err writer_builders(struct writer *) MUST_CHECK;
/* Something is in flight, or waits for it. */
bool writer_busy(const struct writer *);

/* Does what can be done now; after anything in flight has ended. */
void writer_step(struct writer *);
/* The loop starts its commit before it waits. */
void writer_due(struct writer *);
void writer_claim(struct writer *);
/* All that is pending, up to one commit's size. alone: nothing else wants the
 * loop, so the sync may run in it. */
void writer_commit(struct writer *, bool alone);

/* After an error, with a use of the handle held: whether the store was deleted
 * meanwhile, which then is the error. The handle is dead then. */
bool writer_is_gone(struct writer *, struct err *);
/* All that waits gets this answer: a claim failed, or the store is gone. */
void writer_refuse(struct writer *, struct err);
/* Answers all requests of a list. */
void writer_answer(struct writer *, struct list *appends, struct err);
/* The entry gets no more: its end is the last acknowledged one, for good. */
void writer_close_entry(struct writer *);
/* The entry may hold anything now. */
void writer_give_up_entry(struct writer *);
/* Nothing is open any more, until the next commit begins a new entry. */
void writer_rest(struct writer *);
/* What is open has changed, or was used: it is counted and kept. */
void writer_count(struct writer *);
/* Fenced: nothing more comes of this claim. */
void writer_lose_claim(struct writer *);
/* Whether the right to write, by which it was claimed, is the one of now. */
bool writer_claim_lasts(const struct writer *);
/* Gives the claim up if it does not last, with the entry closed; if something
 * is in flight, then after that. */
void writer_release(struct writer *);
/* Makes the next entry ahead of need. */
void writer_prepare_next(struct writer *);

#endif
