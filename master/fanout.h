#ifndef MEMWALD_MASTER_FANOUT_H
#define MEMWALD_MASTER_FANOUT_H

/*
 * fanout - folds of what lies in the shards of ordinals that have moved.
 *
 * Who owns such an ordinal does not write to its shards, so no tick of his meets
 * them. For each store with anything left in one of them a fold job goes to its
 * owner (shm/home.h says which are ours to send): to our maintainer, whose worker
 * claims the shard, or over HTTP, which the maintainer sends, to the instance
 * that owns it. A job is done when the shard is empty.
 *
 * Which stores those are, the maintainer says, one after the other
 * (SHM_JOB_PENDING): a sweep through the registry. One begins when an ordinal
 * has changed, another some seconds after one that found anything, and then
 * ever more seldom up to SWEEP_MAX, for as long as an ordinal is not at home.
 * What it finds takes a place in a table of FANOUT_JOBS; while that is full the
 * sweep waits. So nothing is kept but what is under way, and a master that was
 * started anew finds all of it again. A job that runs twice changes nothing.
 *
 * Each job has a deadline (--merge-queue-timeout-secs and
 * --merge-execution-timeout-secs), at which the maintainer stops it.
 *
 * A job that fails is tried again with back-off, FANOUT_TRIES times; then it is
 * given up for a longer time: it keeps its place, and is shown by status, until
 * it succeeds, the ordinal goes elsewhere, or its place is needed, when the next
 * sweep finds it anew. An instance that answers nothing holds up its own jobs
 * alone: they have half of the table at most, and their own number in flight.
 *
 * Death:	of the maintainer: its jobs fail, and are tried again. Of the
 *		master: its children go too; the next one begins with a sweep.
 * Lifetime:	one a master; its memory is fixed.
 * Locking:	the ordinal table's mutex, for a moment.
 * Errors:	none: each outcome is a line in the log, and counted.
 */

#include "common/base.h"
#include "shm/instance.h"
#include "shm/mailbox.h"
#include "master/mail.h"

#define FANOUT_JOBS	64u
#define FANOUT_TRIES	5u

#define FANOUT_STATES(X) \
	X(FREE,		"free")		/* no job */ \
	X(WAITING,	"waiting")	/* for its turn, or for the next try */ \
	X(RUNNING,	"running") \
	X(GIVEN_UP,	"given up")	/* tried again, but seldom */

enum fanout_state {
#define X(state, text) FANOUT_##state,
	FANOUT_STATES(X)
#undef X
	FANOUT_STATE_COUNT
};

const char *fanout_state_name(enum fanout_state);

struct fanout_job {
	enum fanout_state state;
	uint32_t kind;			/* enum store_kind */
	char store[SHM_MAIL_TEXT];
	uint32_t ordinal;
	bool there;			/* it is another instance's */
	char instance[SHM_INSTANCE_TEXT];	/* whose, when it was last begun */
	uint32_t failures;		/* in a row */
	struct err err;			/* the last one */
	uint64_t due_ns;		/* of clock_mono_ns: the next try, */
	uint64_t until_ns;		/* or its deadline */
	uint64_t began_ns;
	struct mail_question question;
};

struct fanout_plan {			/* spans of clock_mono_ns */
	uint64_t queue_ns;		/* a job waits so long for its turn, */
	uint64_t work_ns;		/* and is worked on so long */
};

/* Before the first step. */
void fanout_init(const struct fanout_plan *);
/* While the server runs; now_ns as of shm_lock_now_ns. */
void fanout_step(uint64_t now_ns);
/* When to call again, at the latest. */
uint64_t fanout_next_ns(uint64_t now_ns);

/* For status: place i of FANOUT_JOBS. */
const struct fanout_job *fanout_job(uint32_t i);
uint32_t fanout_given_up(void);

#endif
