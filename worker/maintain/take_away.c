#include "common/base.h"

#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/process.h"
#include "worker/maintain/take_away.h"
#include "worker/store/remove.h"

#define FORGET_SPAN_NS	(2 * NS_PER_SEC)
/* A fold that sees the mark of a deletion gives its guard back between two
 * steps; this long we wait for it. */
#define DELETE_WAIT_NS	(20 * NS_PER_SEC)
#define DELETE_POLL_NS	(20 * NS_PER_MS)

static void
nap(uint64_t ns)
{
	struct timespec span = { 0, (long)ns };

	nanosleep(&span, NULL);
}

void
forget_everywhere(struct aged_store *a)
{
	uint16_t slot;

	for (slot = SHM_WORKER(0); slot < shm_process_count(); slot++) {
		struct shm_command command = { .kind = SHM_MAIL_FORGET,
		    .store = a->ref };
		struct err e;

		if (atomic_load_explicit(&shm_process_get(slot)->pid,
		    memory_order_relaxed) == 0)
			continue;
		e = ask_worker(&a->env->asks, slot, &command, FORGET_SPAN_NS);
		if (err_is(e))
			log_err(LOG_WARN, e, "worker still holds a deleted "
			    "store store=%s worker=%u", a->name,
			    slot - SHM_WORKER(0));
	}
}

struct err
take_away(struct aged_store *a)
{
	struct shm_slot *slot = shm_store_slot(a->ref);
	uint64_t until = clock_mono_ns() + DELETE_WAIT_NS, token;
	struct err e;

	while ((token = shm_store_guard_try(a->ref, until)) == 0) {
		if (clock_mono_ns() > until)
			return FAIL(BUSY, "store is being folded");
		nap(DELETE_POLL_NS);
	}
	aged_enter(a, TICK_REMOVE);
	e = remove_store(a->env->root, a->kind, a->name, &slot->store);
	shm_store_guard_release(a->ref, token);
	return e;
}
