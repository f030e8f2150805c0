#include "common/base.h"

#include <errno.h>
#include <time.h>

#include "common/clock.h"
#include "shm/process.h"
#include "worker/maintain/ask.h"

#define LOOK_NS (50 * NS_PER_MS)	/* whether the worker still lives */

void
ask_init(struct ask *a)
{
	pthread_condattr_t attr;

	MUST(pthread_mutex_init(&a->mutex, NULL) == 0);
	MUST(pthread_condattr_init(&attr) == 0);
	MUST(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
	MUST(pthread_cond_init(&a->cond, &attr) == 0);
	MUST(pthread_condattr_destroy(&attr) == 0);
	list_init(&a->waiting);
}

static struct timespec
time_after(uint64_t span_ns)
{
	uint64_t real = clock_real_ns(span_ns);
	struct timespec ts;

	MUST(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	ts.tv_sec += (time_t)(real / NS_PER_SEC);
	ts.tv_nsec += (long)(real % NS_PER_SEC);
	if (ts.tv_nsec >= (long)NS_PER_SEC) {
		ts.tv_sec++;
		ts.tv_nsec -= (long)NS_PER_SEC;
	}
	return ts;
}

void
ask_begin(struct ask *a, struct ask_question *q, uint16_t slot,
    struct shm_command *command)
{
	struct err e;

	*q = (struct ask_question){ .token = shm_mailbox_token(),
		/* Before it is sent: else a death in between is not seen. */
		.life = shm_life_of(slot),
		.err = FAIL(TIMED_OUT, "no reply from a worker in time") };
	command->token = q->token;
	MUST(pthread_mutex_lock(&a->mutex) == 0);
	list_append(&a->waiting, &q->link);
	MUST(pthread_mutex_unlock(&a->mutex) == 0);
	/* Sent without the mutex: sending takes a lock of the segment. */
	e = shm_mailbox_send(slot, command);
	if (!err_is(e))
		return;
	MUST(pthread_mutex_lock(&a->mutex) == 0);
	q->answered = true;
	q->err = e;
	MUST(pthread_mutex_unlock(&a->mutex) == 0);
}

/* With the mutex held. What a worker had taken when it died nobody answers. */
static void
wait_for_answer(struct ask *a, struct ask_question *q, uint64_t until_ns)
{
	while (!q->answered && clock_mono_ns() < until_ns) {
		struct timespec look = time_after(LOOK_NS);
		int rc = pthread_cond_timedwait(&a->cond, &a->mutex, &look);

		MUST(rc == 0 || rc == ETIMEDOUT);
		if (!q->answered && !shm_life_goes_on(q->life)) {
			q->err = FAIL(UNAVAILABLE, "worker died");
			return;
		}
	}
}

struct err
ask_wait(struct ask *a, struct ask_question *q, uint64_t until_ns)
{
	MUST(pthread_mutex_lock(&a->mutex) == 0);
	wait_for_answer(a, q, until_ns);
	list_remove(&q->link);
	MUST(pthread_mutex_unlock(&a->mutex) == 0);
	return q->err;
}

struct err
ask_worker(struct ask *a, uint16_t slot, struct shm_command *command,
    uint64_t span_ns)
{
	struct ask_question q;

	ask_begin(a, &q, slot, command);
	return ask_wait(a, &q, clock_mono_ns() + span_ns);
}

void
ask_reply(struct ask *a, const struct shm_command *reply)
{
	struct list *l;

	MUST(pthread_mutex_lock(&a->mutex) == 0);
	LIST_FOREACH(l, &a->waiting) {
		struct ask_question *q =
		    CONTAINER_OF(l, struct ask_question, link);

		if (q->token != reply->token)
			continue;
		q->answered = true;
		if (reply->kind == SHM_MAIL_ABORTED)
			q->err = FAIL(UNAVAILABLE, "worker died");
		else
			q->err = (struct err){ reply->err < ERR_KIND_COUNT ?
			    (uint16_t)reply->err : ERR_INTERNAL, 0,
			    "worker's reply" };
		break;
	}
	MUST(pthread_cond_broadcast(&a->cond) == 0);
	MUST(pthread_mutex_unlock(&a->mutex) == 0);
}
