#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/mailbox.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "worker/store/relieve.h"

#define TELL_SPAN_NS	(20 * NS_PER_MS)
#define MORE_SPAN_NS	(2 * NS_PER_SEC)	/* it was in vain: more */
#define SAMPLES_MAX	256u

static int
by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* When the eighth of the resident stores that the host has used least was used
 * last, or more of them; of a sample, since there may be many. */
static uint64_t
least_used_ns(uint32_t eighths)
{
	uint32_t stride = MAX(shm_store_slots() / SAMPLES_MAX, 1u);
	uint64_t used[2 * SAMPLES_MAX];
	uint32_t index = 0, n = 0;
	struct shm_ref ref;

	if (eighths >= 8)
		return UINT64_MAX;
	while (n < ARRAY_LEN(used) && shm_store_next(&index, &ref)) {
		struct shm_slot *slot = shm_store_slot(ref);

		if (slot != NULL)
			used[n++] = atomic_load_explicit(&slot->last_used_ns,
			    memory_order_relaxed);
		index += stride - 1;
	}
	if (n == 0)
		return 0;
	qsort(used, n, sizeof(used[0]), by_number);
	return used[n * eighths / 8];
}

static void
tell_others(uint64_t used_ns)
{
	struct shm_command command = { .kind = SHM_MAIL_RELIEVE,
	    .args = { used_ns } };
	uint16_t slot;

	for (slot = SHM_MAINTAINER; slot < shm_process_count(); slot++) {
		struct err e;

		if (slot == shm_self() || atomic_load_explicit(
		    &shm_process_get(slot)->pid, memory_order_relaxed) == 0)
			continue;
		command.token = shm_mailbox_token();
		e = shm_mailbox_send(slot, &command);
		if (err_is(e))
			log_err(LOG_DEBUG, e, "not told that slots are short "
			    "slot=%u", slot);
	}
}

bool
relieve(struct relieve *r, uint64_t now_ns, uint64_t *used_ns)
{
	uint64_t since_ns = now_ns - r->told_ns;

	if (r->told_ns != 0 && since_ns < TELL_SPAN_NS)
		return false;
	if (r->told_ns == 0 || since_ns > MORE_SPAN_NS)
		r->eighths = 1;
	else
		r->eighths = MIN(r->eighths * 2, 8u);
	r->told_ns = now_ns;
	shm_metric_add(METRIC_memwald_slots_short_total, 0, 1);
	*used_ns = least_used_ns(r->eighths);
	tell_others(*used_ns);
	return true;
}
