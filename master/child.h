#ifndef MEMWALD_MASTER_CHILD_H
#define MEMWALD_MASTER_CHILD_H

/*
 * child - the master's children: fork, reap, refill after a delay, kill by
 * deadline.
 *
 * There is a fixed slot a child (shm/process.h): the maintainer and the
 * workers. What the master decides with is its own (struct child), not what
 * the child wrote into the segment, but for the heartbeat and the panic text.
 *
 * On a death one function does one ordered list: status and panic text to the
 * log, shm_reap, then the slot is free for a refill. A child that died before
 * its first heartbeat waits 100 ms, doubled each time up to 10 s; one that
 * died within a second of its start 10 ms, doubled up to 320 ms; any other is
 * replaced at once. So a crash costs no service, and a loop of them no CPU.
 *
 * A child whose heartbeat is older than its limit is killed. The heartbeat is
 * the loop's, not a request's: whoever streams for an hour still has it (D.5).
 *
 * Death:	the kernel tells the children: by the end of a pipe of which
 *		only the master has the other end, and by SIGTERM. Each child is
 *		a process group of its own, so that one that was stopped is
 *		continued by the kernel when the master is gone, and can leave.
 * Lifetime:	child_init once; the plan is kept.
 * Locking:	none. Pids are only used while they are not reaped, so they
 *		never name a stranger.
 * Errors:	a fork that fails is tried again, as a death before the first
 *		heartbeat.
 */

#include "common/base.h"
#include "common/err.h"
#include "worker/start.h"

#include <sys/types.h>

struct child {
	uint16_t slot;
	pid_t pid;			/* 0: nobody lives there */
	bool beaten;			/* this life had a heartbeat */
	bool stopping;			/* was told to leave */
	bool leaving;			/* its slot is given up, or */
	bool parked;			/* is to stay empty until that is undone */
	bool left;			/* and nobody is needed there any more */
	bool shut;			/* its socket does not listen yet */
	uint64_t home_by_ns;		/* until then its ordinal may come home
					 * before it is forked */
	uint64_t leave_by_ns;		/* then it is killed */
	bool killed;			/* was sent SIGKILL by us */
	uint32_t failures;		/* bad deaths in a row */
	uint64_t forked_ns;		/* times of shm_lock_now_ns */
	uint64_t empty_ns;		/* since when nobody serves here */
	uint64_t due_ns;		/* no refill before that */
	char last_death[160];		/* for the status page; "" : none */
};

struct child_plan {
	struct child_start start;	/* slot is filled in */
	int master_write_fd;		/* other end of start.master_fd */
	uint32_t workers;
	void (*forget)(void);		/* in a child: closes the master's own */
	/* Before a fork: the socket of that worker listens. NULL: nothing. */
	void (*revive)(uint32_t worker);
	/* A worker is gone for good: nobody takes what comes to its socket. */
	void (*forsake)(uint32_t worker);
	/* The limits, of true time. 0: the defaults. */
	uint64_t beat_limit_ns;
	uint64_t first_beat_limit_ns;
};

void child_init(const struct child_plan *);
uint32_t child_count(void);
struct child *child_at(uint32_t index);		/* 0: the maintainer */
struct child *child_of_slot(uint16_t slot);	/* NULL: none */

/*
 * So many workers from now on, at most shm_workers_max(). Workers that are too
 * many leave as in a drain, the last ones first, each within span_ns; slots
 * that were given up stay among the children until nobody lives there. One that
 * dies on its way is started once more, so that what the kernel has taken for
 * it is answered. One that comes, or comes back, is forked once its ordinal is
 * home: before that it would refuse its appends. If that takes too long (the
 * storage does not answer), it serves reads meanwhile.
 */
void child_resize(uint32_t workers, uint64_t now_ns, uint64_t span_ns);
uint32_t child_wanted(void);		/* workers */
/* How often that was told. What was decided before is for other slots than there
 * are, even if there are as many. */
uint32_t child_resizes(void);

/*
 * A worker leaves in the same way, though it is not too many: its slot stays
 * empty, and its socket another's care (cover.h), until it is wanted again. Who
 * is parked already stays so. Of a worker that nobody wants nothing happens.
 */
void child_park(uint32_t worker, bool parked, uint64_t now_ns,
    uint64_t span_ns);
/* It is, and has left. */
bool child_is_parked(uint32_t worker);

/* One that comes, and is not forked yet. */
bool child_awaits(const struct child *);
/* There is one whose socket does not listen yet. */
bool child_any_shut(void);

/* Workers that are where they shall be: they serve, or are parked; and workers
 * that are still to leave. */
void child_progress(uint32_t *serving, uint32_t *leaving);

/* Workers are forked only after this. With start.hold in the plan they are
 * forked before, with their doors shut, which this opens; then it is the
 * maintainer that waits for its own. */
void child_let_workers(void);
void child_let_maintainer(void);

/* Forks what is due. */
void child_refill(uint64_t now_ns);
/* Waits for all that have died; also for strangers, as PID 1 must. */
void child_reap(uint64_t now_ns);
/* Sees first heartbeats, kills who has stopped beating. */
void child_watch(uint64_t now_ns);
/* When to call again, at the latest. */
uint64_t child_next_ns(uint64_t now_ns);

/* No refills from now on; again after all. */
void child_no_more(void);
void child_more(void);
/* Every worker slot has somebody who has beaten. */
bool child_workers_beaten(void);
/* SIGTERM to all of a role (enum shm_role); SIGKILL to all that are left. */
void child_stop(uint32_t role);
void child_kill_all(void);
uint32_t child_alive(uint32_t role);
/* What they all have under way for long, by their last heartbeats; who has had
 * none since that time of clock_mono_ns counts as one. */
uint32_t child_busy(uint64_t since_mono_ns);
/* How many child_kill_all had to kill. */
uint32_t child_killed_late(void);
/* SIGKILL for whoever lives in a slot. */
void child_kill(uint16_t slot, const char *why);

/* No worker ever got as far as a heartbeat, and each has failed often. */
bool child_hopeless(void);

/* The delay after a death, and the new count of failures. Pure. */
uint64_t child_delay_ns(bool beaten, uint64_t lived_ns, uint32_t *failures);

#endif
