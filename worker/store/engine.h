#ifndef MEMWALD_STORE_ENGINE_H
#define MEMWALD_STORE_ENGINE_H

/*
 * engine - what all stores of one process share: the root, the loop, the pool,
 * the open handles, and calls to other processes by mailbox.
 *
 * Lifetime:	made after fork by a worker's main; ends with the process.
 * Locking:	the loop's thread.
 */

#include "common/config.h"
#include "common/err.h"
#include "common/list.h"
#include "common/loop.h"
#include "common/pool.h"
#include "common/timer.h"
#include "shm/mailbox.h"
#include "worker/object/object.h"
#include "worker/store/source_cache.h"

#define ENGINE_BUCKETS	4096u

struct tail_cache;

struct engine {
	struct object_dir *root;
	struct loop *loop;
	struct pool *pool;
	const struct config *config;
	uint32_t ordinal;		/* of this worker */
	struct list buckets[ENGINE_BUCKETS];	/* struct store */
	struct tail_cache *tails;	/* of gets */
	struct source_cache cache;
	struct list due;		/* writers with something to commit */
	uint32_t due_count;
	struct list guests;		/* guest.h: claims under way */
	struct list calls;		/* waiting for a reply */
	uint64_t sync_ns;		/* smoothed time of a commit's sync */
};

/* workers: how many there are, who share the limits of the server. */
struct err engine_init(struct engine *, const struct config *, struct loop *,
    struct pool *, uint32_t ordinal, uint32_t workers) MUST_CHECK;

/* The root of all stores, to be used as the options say. */
struct err engine_root(const struct config *, struct object_dir **) MUST_CHECK;

/* Commands that came by mailbox; false: not one of ours. */
bool engine_command(struct engine *, const struct shm_command *);
/* The loop's before-wait hook: starts the commits that are due, and lets go of
 * what is open beyond its limits. */
void engine_before_wait(void *engine);
/* This process appends no more: closes the entries of all its writers. */
void engine_close_entries(struct engine *);
/* Nothing is being written or waited for: a drain may end. */
bool engine_idle(const struct engine *);

/*
 * A command to another process whose reply is waited for: at most until the
 * deadline, then TIMED_OUT (the work may still be done), and no longer than
 * the other lives: what it had taken when it died nobody answers, so whether
 * it lives is looked at meanwhile, and the end is UNAVAILABLE. done is called
 * once, from a later turn, unless engine_call answers an error (BUSY).
 */
struct engine_call {
	void (*done)(struct engine_call *, struct err, uint64_t arg0);
	struct list link;
	struct engine *engine;
	struct timer look;
	uint64_t until_ns;
	uint64_t life;			/* of the other */
	uint64_t token;
};

struct err engine_call(struct engine *, struct engine_call *, uint16_t to,
    struct shm_command *, uint64_t span_ns) MUST_CHECK;

#endif
