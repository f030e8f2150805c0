#include "common/base.h"

#include "common/clock.h"
#include "common/log.h"
#include "shm/mailbox.h"
#include "shm/process.h"
#include "master/child.h"
#include "master/cover.h"

#define EMPTY_NS (100 * NS_PER_MS)

/* By worker number: the life that accepts for it; slot SHM_NOBODY: none. */
static struct {
	bool active;
	uint16_t by;
	pid_t pid;
} covers[SHM_WORKERS_LIMIT];

static bool
serves(const struct child *c)
{
	return c->pid != 0 && c->beaten && !c->killed && !c->stopping;
}

/* It empties its queue itself, and its socket ends: where it is parked, until
 * nobody lives there (child.h). */
static bool
is_leaving(const struct child *c)
{
	return c->leaving && (!c->parked || c->pid != 0);
}

static bool
tell(uint16_t to, enum shm_mail kind, uint16_t slot)
{
	struct shm_command m = { .kind = kind, .args = { slot } };

	return !err_is(shm_mailbox_send(to, &m));
}

/* It does not listen yet, or bars its socket while it answers what it has. */
static bool
needs_nobody(const struct child *c)
{
	return c->shut || (c->pid != 0 && c->stopping);
}

/* Spread over those that serve: the next one behind the empty slot. */
static const struct child *
choose(uint32_t index)
{
	uint32_t i, workers = child_count() - 1;

	for (i = 1; i < workers; i++) {
		const struct child *c = child_at(1 + (index - 1 + i) % workers);

		if (serves(c))
			return c;
	}
	return NULL;
}

static void
look_at(uint32_t index, uint64_t now_ns)
{
	const struct child *c = child_at(index), *by;
	uint32_t k = index - 1;

	if (covers[k].active) {
		by = child_of_slot(covers[k].by);
		if (by == NULL || by->pid != covers[k].pid)
			covers[k].active = false;
	}
	if (serves(c) || is_leaving(c)) {
		if (covers[k].active &&
		    tell(covers[k].by, SHM_MAIL_STOP_ACCEPT_FOR, c->slot))
			covers[k].active = false;
		return;
	}
	if (covers[k].active || needs_nobody(c) ||
	    (!c->left && now_ns < c->empty_ns + EMPTY_NS))
		return;
	by = choose(index);
	if (by == NULL || !tell(by->slot, SHM_MAIL_ACCEPT_FOR, c->slot))
		return;
	covers[k].active = true;
	covers[k].by = by->slot;
	covers[k].pid = by->pid;
	log_info("slot is empty, another worker accepts for it slot=%u by=%u",
	    c->slot, by->slot);
}

/* Its slot is no worker's any more. */
static void
end_cover(uint32_t k)
{
	const struct child *by = child_of_slot(covers[k].by);

	if (by == NULL || by->pid != covers[k].pid || tell(covers[k].by,
	    SHM_MAIL_STOP_ACCEPT_FOR, (uint16_t)SHM_WORKER(k)))
		covers[k].active = false;
}

void
cover_look(uint64_t now_ns)
{
	uint32_t i;

	for (i = child_count() - 1; i < shm_workers_max(); i++) {
		if (covers[i].active)
			end_cover(i);
	}
	for (i = 1; i < child_count(); i++)
		look_at(i, now_ns);
}
