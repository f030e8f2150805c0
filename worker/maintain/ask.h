#ifndef MEMWALD_MAINTAIN_ASK_H
#define MEMWALD_MAINTAIN_ASK_H

/*
 * ask - a command to a worker whose reply a thread waits for.
 *
 * The thread that ages a store sends and sleeps; the maintainer's loop hands
 * the reply over. Nothing is held meanwhile but guards.
 *
 * Death:	of the worker: its reaper answers ABORTED for what it had not
 *		taken; for the rest the waiting thread looks whether it lives.
 * Locking:	a mutex of the process, of no rank: nothing is taken under it.
 * Errors:	BUSY: mailbox full or nobody there. UNAVAILABLE: it died.
 *		TIMED_OUT. What the reply says.
 */

#include <pthread.h>

#include "common/err.h"
#include "common/list.h"
#include "shm/mailbox.h"

struct ask {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct list waiting;
};

struct ask_question {		/* of the thread that waits */
	struct list link;
	uint64_t token;
	uint64_t life;		/* of the worker */
	bool answered;
	struct err err;
};

void ask_init(struct ask *);
/* Sends; each question that was begun is ended by one wait. So several workers
 * are asked before the first is waited for. */
void ask_begin(struct ask *, struct ask_question *, uint16_t slot,
    struct shm_command *);
/* The answer, or TIMED_OUT at until_ns of clock_mono_ns. */
struct err ask_wait(struct ask *, struct ask_question *, uint64_t until_ns)
    MUST_CHECK;
/* Both, at most span_ns. */
struct err ask_worker(struct ask *, uint16_t slot, struct shm_command *,
    uint64_t span_ns) MUST_CHECK;
/* Loop: a REPLY or ABORTED came. Nobody waits for it: dropped. */
void ask_reply(struct ask *, const struct shm_command *);

#endif
