#ifndef MEMWALD_MAINTAIN_MAINTAIN_H
#define MEMWALD_MAINTAIN_MAINTAIN_H

/*
 * maintain - what all work that ages stores shares, and one store at work.
 *
 * Lifetime:	the environment lives as long as the maintainer; work on a
 *		store is made for one tick, on one thread.
 * Locking:	the environment is constant but for its pace and its calls.
 */

#include "common/config.h"
#include "shm/metric.h"
#include "shm/store_table.h"
#include "worker/maintain/ask.h"
#include "worker/lance/table.h"
#include "worker/object/object.h"
#include "worker/object/pace.h"
#include "worker/store/kind.h"

struct compact_wish;

struct maintain_env {
	const struct config *config;
	struct object_dir *root;
	struct object_pace pace;
	struct ask asks;		/* commands to workers, awaited */
	char tag[9];			/* names this instance's data files */
	_Atomic bool ends;		/* set once: no step more (an upgrade) */
};

struct aged_store {		/* one store, while it is being aged */
	struct maintain_env *env;
	const struct kind *kind;
	const struct store_shape *shape;
	struct shm_ref ref;
	struct object_dir *dir;
	char name[SHM_STORE_NAME_MAX + 1];
	uint64_t deadline_ns;		/* clock_mono_ns; checked between steps, */
	_Atomic uint64_t *stepped_ns;	/* the last time that it was */
	enum tick_phase phase;		/* where the work is, or failed */
	bool late;			/* time ran out; not in waiting for owners */
	const struct compact_wish *asked;	/* of a compaction, or NULL */
	struct arena errors;		/* texts of errors that outlive a step */
};

/* NOT_FOUND: deleted, also by another instance, which takes the directory's
 * name away first; pinned or evicted meanwhile: leave it alone.
 * TIMED_OUT: the time limit. UNAVAILABLE: env->ends. OK: go on. Asked between
 * steps. */
struct err aged_check(const struct aged_store *) MUST_CHECK;
/* NOT_FOUND: the newest version of its table, which a commit is about to go on
 * from, is pinned (pin.h), maybe by another instance. The slot learns of it. */
struct err aged_check_table(const struct aged_store *,
    const struct table *newest) MUST_CHECK;
/* The next phase of work under the store's guard, which shows it. */
void aged_enter(struct aged_store *, enum tick_phase);
/* As metrics count what a step came to. */
enum metric_seal_result aged_result(struct err);
/* What a step wrote that failed, an object or a tree: goes at once, since the
 * next try may want the room. It stays for collection if the outcome is unknown:
 * a version may name it. */
void aged_remove(struct aged_store *, const char *name, struct err why);
/* The error with its text where it lives as long as the work. */
struct err aged_keep(struct aged_store *, struct err) MUST_CHECK;

#endif
