#include "common/base.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/fault.h"
#include "shm/mailbox.h"
#include "shm/metric.h"
#include "shm/mutex.h"
#include "shm/part.h"
#include "shm/process.h"

/*
 * Counts run on and are taken modulo the room. A command is there once the
 * sender's count says so, and gone once the receiver's does; each is one store
 * after the copy, so there is no half command to repair.
 */

static struct mailbox {
	alignas(CACHELINE)
	struct shm_mutex mutex;
	_Atomic uint32_t sent;
	_Atomic uint32_t received;
	struct shm_command ring[SHM_MAILBOX_ROOM];
} *boxes;

static_assert((SHM_MAILBOX_ROOM & (SHM_MAILBOX_ROOM - 1)) == 0,
    "counts wrap at a multiple of the room");

static _Atomic uint32_t tokens;		/* of this process */

static const char *const mail_names[] = {
#define MAIL(kind, name, help) name,
#include "shm/mailbox.def"
#undef MAIL
};

static const char *const job_names[] = {
#define X(job, text) text,
	SHM_JOBS(X)
#undef X
};

const char *
shm_job_name(uint32_t job)
{
	return job < SHM_JOB_COUNT ? job_names[job] : "unknown";
}

const char *
shm_mail_name(uint32_t kind)
{
	return kind < SHM_MAIL_COUNT ? mail_names[kind] : "unknown";
}

uint64_t
shm_mailbox_bytes(const struct shm_config *cfg)
{
	return (2 + (uint64_t)cfg->workers_max) * sizeof(struct mailbox);
}

void
shm_mailbox_carve(void *at, const struct shm_config *cfg)
{
	uint16_t slot;

	(void)cfg;
	boxes = at;
	for (slot = 0; slot < shm_process_count(); slot++) {
		int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

		MUST(fd >= 0);
		shm_process_get(slot)->eventfd = fd;
		shm_mutex_init(&boxes[slot].mutex, SHM_LOCK_mailbox);
	}
}

static uint32_t
waiting_in(const struct mailbox *box)
{
	return atomic_load(&box->sent) - atomic_load(&box->received);
}

void
shm_mailbox_repair(struct shm_mutex *m)
{
	struct mailbox *box = CONTAINER_OF(m, struct mailbox, mutex);

	MUST(waiting_in(box) <= SHM_MAILBOX_ROOM);
}

uint64_t
shm_mailbox_token(void)
{
	/* Of this life, so that a replacement never takes a late reply to its
	 * predecessor for one of its own. */
	return (uint64_t)shm_self_incarnation() << 32 |
	    (atomic_fetch_add(&tokens, 1) + 1);
}

void
shm_mailbox_wake(uint16_t slot)
{
	uint64_t one = 1;
	ssize_t n = write(shm_process_get(slot)->eventfd, &one, sizeof(one));

	/* A full counter wakes as well. */
	MUST(n == sizeof(one) || errno == EAGAIN);
}

/* life 0: whoever lives there. */
static bool
put(uint16_t to, uint64_t life, const struct shm_command *c)
{
	struct mailbox *box = &boxes[to];
	struct shm_command *cell;
	bool fits;

	shm_mutex_lock(&box->mutex);
	/* Under the mutex: the walk that empties it comes before or after. */
	fits = waiting_in(box) < SHM_MAILBOX_ROOM && (life == 0 ?
	    shm_process_lives(to) : shm_life_goes_on(life));
	if (fits) {
		/* The wake goes first: dead after it, and the receiver found
		 * nothing; dead between the two the other way round, and the
		 * command would lie there until the next one. */
		shm_mailbox_wake(to);
		cell = &box->ring[atomic_load(&box->sent) % SHM_MAILBOX_ROOM];
		*cell = *c;
		cell->from = shm_life_self();
		FAULT_HERE(shm_send);
		atomic_fetch_add(&box->sent, 1);
	}
	shm_mutex_unlock(&box->mutex);
	if (!fits)
		shm_metric_add(METRIC_memwald_mailbox_refused_total, 0, 1);
	return fits;
}

struct err
shm_mailbox_send(uint16_t to, const struct shm_command *c)
{
	MUST(to < shm_process_count());
	MUST(c->kind > SHM_MAIL_NONE && c->kind < SHM_MAIL_COUNT);
	return put(to, 0, c) ? OK : FAIL(BUSY, "its mailbox takes no more");
}

static void
answer(const struct shm_command *request, uint32_t kind, uint32_t err_kind,
    uint64_t arg0)
{
	struct shm_command c = {
		.kind = kind,
		.err = err_kind,
		.token = request->token,
		.store = request->store,
		.shard = request->shard,
		.args = { arg0 },
	};

	memcpy(c.text, request->text, sizeof(c.text));
	/* To a full or dead one it is lost; who waits has a deadline. */
	if (request->token != 0)
		(void)put(shm_life_slot(request->from), request->from, &c);
}

void
shm_mailbox_reply(const struct shm_command *request, struct err e,
    uint64_t arg0)
{
	answer(request, SHM_MAIL_REPLY, e.kind, arg0);
}

void
shm_mailbox_reply_with(const struct shm_command *request, struct err e,
    const struct shm_command *filled)
{
	struct shm_command c = *filled;

	c.kind = SHM_MAIL_REPLY;
	c.err = e.kind;
	c.token = request->token;
	if (c.token != 0)
		(void)put(shm_life_slot(request->from), request->from, &c);
}

static bool
take_from(struct mailbox *box, struct shm_command *c)
{
	bool any;

	shm_mutex_lock(&box->mutex);
	any = waiting_in(box) > 0;
	if (any) {
		*c = box->ring[atomic_load(&box->received) % SHM_MAILBOX_ROOM];
		atomic_fetch_add(&box->received, 1);
	}
	shm_mutex_unlock(&box->mutex);
	return any;
}

bool
shm_mailbox_receive(struct shm_command *c)
{
	/* Never a look without the mutex: the wake comes before the command,
	 * and who looks between them must wait for the sender. */
	return take_from(&boxes[shm_self()], c);
}

int
shm_mailbox_fd(void)
{
	return shm_process_get(shm_self())->eventfd;
}

void
shm_mailbox_drain(void)
{
	uint64_t count;
	ssize_t n = read(shm_mailbox_fd(), &count, sizeof(count));

	MUST(n == sizeof(count) || errno == EAGAIN);
}

uint32_t
shm_mailbox_reap(uint16_t dead_slot)
{
	struct mailbox *box = &boxes[dead_slot];
	struct shm_command c;
	uint32_t dropped = 0;
	uint64_t count;
	ssize_t n;

	MUST(dead_slot < shm_process_count());
	/* Nobody may send any more, or this would not end. */
	MUST(!shm_process_lives(dead_slot));
	while (take_from(box, &c)) {
		dropped++;
		if (c.kind != SHM_MAIL_REPLY && c.kind != SHM_MAIL_ABORTED)
			answer(&c, SHM_MAIL_ABORTED, ERR_UNAVAILABLE, 0);
	}
	n = read(shm_process_get(dead_slot)->eventfd, &count, sizeof(count));
	MUST(n == sizeof(count) || errno == EAGAIN);
	return dropped;
}
