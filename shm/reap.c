#include "common/base.h"

#include "common/log.h"
#include "shm/budget.h"
#include "shm/mailbox.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/reap.h"
#include "shm/store_table.h"

/* A writer died inside: nothing it may have half written is believed, and a
 * load begun before is not either, hence the serial. */
static void
spoil(void *arg)
{
	struct shm_slot *s = arg;

	atomic_fetch_or(&s->flags, SHM_FLAG_STALE);
	atomic_fetch_add(&s->serial, 1);
}

static void
reap_lock(struct shm_slot *s, uint16_t dead, struct shm_reaped *r)
{
	struct shm_rwlock_reaped l = shm_rwlock_reap(shm_slot_lock(s), dead,
	    spoil, s);

	r->readers += l.readers;
	r->writers_waiting += l.writers_waiting;
	r->writers += l.wrote;
}

static void
reap_shard(struct shm_shard_state *s, uint16_t dead, struct shm_reaped *r)
{
	r->seal_guards += shm_guard_break(&s->seal_guard, dead);
	/* The claim stays, with its epoch: it names a life that is over, and
	 * whoever seals wants to know which epoch that was. */
	r->claims += atomic_load(&s->claim) == shm_life_of(dead);
}

/* A seal guard of a record keeps its slot, and so its chain. Another slot's may
 * be taken apart meanwhile and lead anywhere: bounded. */
static void
reap_records(struct shm_slot *s, uint16_t dead, struct shm_reaped *r)
{
	uint32_t i, seen = 0;

	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD &&
	    seen < shm_records(); i = atomic_load(&shm_record_at(i)->next)) {
		reap_shard(&shm_record_at(i)->state, dead, r);
		seen++;
	}
}

static void
reap_slot(struct shm_slot *s, uint16_t dead, struct shm_reaped *r)
{
	uint64_t load;
	uint32_t i;

	/* Most never are: the dead's replacement waits for this walk. */
	if (atomic_load(&s->incarnation) == 0)
		return;
	reap_lock(s, dead, r);
	r->guards += shm_guard_break(&s->guard, dead);
	for (i = 0; i < shm_workers_max(); i++)
		reap_shard(shm_slot_local(s, i), dead, r);
	reap_records(s, dead, r);
	r->serials += atomic_exchange(&shm_slot_serials(s)[dead], 0) != 0;
	r->pins += atomic_exchange(&shm_slot_pins(s)[dead], 0);
	/* 0 and 1 are no lives. */
	load = atomic_load(&s->load);
	if (load > 1 && shm_life_slot(load) == dead)
		r->loads += atomic_compare_exchange_strong(&s->load, &load, 0);
}

static void
reap_process(uint16_t dead)
{
	struct shm_process *p = shm_process_get(dead);

	atomic_fetch_add(&p->cpu_ticks_past, atomic_exchange(&p->cpu_ticks, 0));
}

void
shm_reap(uint16_t dead, struct shm_reaped *r)
{
	uint32_t i;

	MUST(dead != shm_self());
	memset(r, 0, sizeof(*r));
	/* From here on its life is over, for claims and for senders. */
	atomic_store(&shm_process_get(dead)->state, SHM_PROCESS_DEAD);
	for (i = 0; i < shm_store_reach(); i++)
		reap_slot(shm_slot_at(i), dead, r);
	for (i = 0; i < SHM_BUDGET_COUNT; i++)
		r->budget += shm_budget_reap(i, dead);
	shm_metric_reap(dead);
	reap_process(dead);
	r->commands = shm_mailbox_reap(dead);
}

void
shm_reap_log(uint16_t dead, const struct shm_reaped *r)
{
	log_info("released what a dead process held slot=%u guards=%u "
	    "seal_guards=%u readers=%u stale=%u waiting=%u views=%u pins=%u "
	    "loads=%u claims=%u commands=%u budget=%llu", dead, r->guards,
	    r->seal_guards, r->readers, r->writers, r->writers_waiting,
	    r->serials, r->pins, r->loads, r->claims, r->commands,
	    (unsigned long long)r->budget);
}
