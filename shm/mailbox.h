#ifndef MEMWALD_SHM_MAILBOX_H
#define MEMWALD_SHM_MAILBOX_H

/*
 * mailbox - small commands from process to process.
 *
 * Each process slot has a bounded ring and an eventfd, both made before the
 * first fork. A sender never waits for a receiver: a mailbox that is full, or
 * whose process is dead, answers BUSY. The receiver polls its eventfd in its
 * loop; it reads the eventfd first, then receives until the ring is empty.
 *
 * A token names a request; its reply carries the same one. Replies may be
 * lost (their receiver died, its ring is full, the replier died after it began
 * the work), so whoever waits for one has a deadline of its own.
 *
 * Death:	of a sender: the eventfd is written, then the command, then the
 *		count that makes it visible; half a command is dropped. Of a
 *		receiver: the master's walk empties the ring and tells each
 *		sender ABORTED; the next life starts with an empty ring. Of
 *		either with the mutex: EOWNERDEAD, nothing but the counts to
 *		check.
 * Lifetime:	made before the first fork.
 * Locking:	mutex of rank 4.
 * Errors:	BUSY.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/uuid.h"
#include "shm/store_table.h"

enum shm_mail {
#define MAIL(kind, name, help) SHM_MAIL_##kind,
#include "shm/mailbox.def"
#undef MAIL
	SHM_MAIL_COUNT
};

const char *shm_mail_name(uint32_t);

#define SHM_MAILBOX_ROOM 256u
#define SHM_MAIL_TEXT 136u	/* holds a store's name */

struct shm_command {
	uint32_t kind;			/* enum shm_mail */
	uint32_t err;			/* REPLY: enum err_kind */
	uint64_t token;			/* of the request */
	uint64_t from;			/* life of the sender; send fills it in */
	struct shm_ref store;		/* incarnation 0: none */
	struct uuid shard;
	uint64_t args[4];		/* REPLY to FOLD*: args[0] is the count */
	char text[SHM_MAIL_TEXT];	/* a word or a name, NUL padded; the
					 * reply has the request's */
};

static_assert(SHM_MAIL_TEXT > SHM_STORE_NAME_MAX, "with its NUL");
static_assert(sizeof(struct shm_command) == 216, "small, and no holes");

/*
 * FOLD_SHARD, what is done for an ordinal that its owner here does not write
 * itself (worker/maintain/fold_job.h):
 *	arg 0	enum store_kind
 *	arg 1	clock_mono_ns until which it waits for its turn and for the
 *		store's guard
 *	arg 2	clock_mono_ns until which its work ends, if not before by the
 *		time limit of a tick
 *	text	the store's name
 *	shard	of the ordinal, which a worker of this server must own, unless
 *		it is retired: then it is empty
 * The store gets a slot if it has none. Reply: arg 0 generations reclaimed, of
 * all shards that the same run folded; OK: the shard is empty, but for what its
 * owner appends meanwhile, and who had it before the ordinal came here is fenced.
 * NOT_FOUND: no such store. BAD_INPUT: no ordinal of the assignment has that
 * shard. FENCED: the ordinal is not ours. CONFLICT: something is left, since the
 * store is pinned or the ordinal moved on. BUSY, TIMED_OUT and all others: what was
 * done stays, ask again.
 */

/* What the master orders from the maintainer, since it does no I/O. */
#define SHM_JOBS(X) \
	X(ASSIGN, "assign")	/* bring wants into the chain of assignments; \
				 * reply: CONFLICT, some came too late; arg 0: \
				 * how many stand */ \
	X(LOOK,	  "look")	/* at leases and assignments, now; reply: what \
				 * came of it */ \
	X(LEFT,	  "left")	/* what is not folded of that shard, in all \
				 * stores: from kind arg 1 and the store in text \
				 * on; arg 2 not 0: in which it is there at all; \
				 * reply: where it is (text), arg 0: kind, and \
				 * SHM_LEFT_FOUND if there is some; on an error \
				 * the store that could not be read, or "" */ \
	X(PENDING, "pending")	/* which shard of an ordinal that has moved has \
				 * anything left (worker/maintain/ \
				 * pending_list.h) */ \
	X(FOLD_THERE, "fold_there") /* a fold of such a shard by the instance \
				 * that owns it (worker/maintain/remote.h) */

enum shm_job {
#define X(job, text) SHM_JOB_##job,
	SHM_JOBS(X)
#undef X
	SHM_JOB_COUNT
};

const char *shm_job_name(uint32_t);
#define SHM_LEFT_FOUND (1ull << 32)

/*
 * PENDING goes on behind a place, and answers with the next one:
 *	arg 1	enum store_kind
 *	text	store's name; "": before the first of that kind
 *	arg 2	ordinal from which on, of that store
 * Reply: arg 0 is one of SHM_PENDING, the others are the place; of MORE and ONE
 * the next question has the same with arg 2 one higher.
 */
enum shm_pending {
	SHM_PENDING_MORE,		/* nothing so far, ask again */
	SHM_PENDING_ONE,		/* this ordinal, in this store */
	SHM_PENDING_END			/* nothing more */
};

/*
 * FOLD_THERE:
 *	arg 1	enum store_kind
 *	arg 2	ordinal
 *	arg 3	clock_mono_ns until which to wait for the answer
 *	text	the store's name
 * Reply: arg 0 generations reclaimed; OK: its shard is empty. Errors as those of
 * FOLD_SHARD; FENCED: the ordinal is not another's any more, or not that one's.
 */

/* A fresh token, of this life alone. */
uint64_t shm_mailbox_token(void);

/* BUSY: full, or nobody lives there. */
struct err shm_mailbox_send(uint16_t to, const struct shm_command *) MUST_CHECK;
/* To the life that sent the request, and to no other one in its slot. A reply
 * that finds nobody is dropped. */
void shm_mailbox_reply(const struct shm_command *request, struct err,
    uint64_t arg0);
/* The same with args and text of another command. */
void shm_mailbox_reply_with(const struct shm_command *request, struct err,
    const struct shm_command *filled);

/* Own mailbox; false: empty. */
bool shm_mailbox_receive(struct shm_command *) MUST_CHECK;
/* To poll for POLLIN; non-blocking. Drain reads it, before receiving. */
int shm_mailbox_fd(void);
void shm_mailbox_drain(void);
/* Wakes a loop for other reasons than a command. */
void shm_mailbox_wake(uint16_t slot);

/* Master only: empties it, tells the senders. How many were dropped. */
uint32_t shm_mailbox_reap(uint16_t dead_slot);

#endif
