#include "common/base.h"

#include "common/clock.h"
#include "shm/guard.h"

/*
 * The word, from the top: 16 bits slot + 1 (0: free), 16 bits thread, 32 bits
 * sequence. A free guard keeps its sequence and each acquisition raises it, so
 * no two tokens are alike: a release that comes twice, or after the guard was
 * broken, cannot free the hold of somebody else.
 */

static const char *const phase_names[] = {
#define X(phase, text) text,
	TICK_PHASES(X)
#undef X
};

static uint64_t
pack(uint32_t owner, uint32_t thread, uint32_t sequence)
{
	return (uint64_t)owner << 48 | (uint64_t)thread << 32 | sequence;
}

static uint32_t
owner_of(uint64_t word)
{
	return (uint32_t)(word >> 48);
}

/* Succeeds only if nothing has changed since word was seen. */
static bool
set_free(struct shm_guard *g, uint64_t word)
{
	return atomic_compare_exchange_strong_explicit(&g->word, &word,
	    pack(0, 0, (uint32_t)word),
	    memory_order_release, memory_order_relaxed);
}

const char *
tick_phase_name(uint32_t phase)
{
	return phase < TICK_PHASE_COUNT ? phase_names[phase] : "unknown";
}

void
shm_guard_init(struct shm_guard *g)
{
	atomic_init(&g->word, 0);
	atomic_init(&g->since_ns, 0);
	atomic_init(&g->deadline_ns, 0);
	atomic_init(&g->phase, TICK_NONE);
}

uint64_t
shm_guard_try(struct shm_guard *g, struct shm_who self, uint64_t deadline_ns)
{
	uint64_t seen = atomic_load_explicit(&g->word, memory_order_relaxed);
	uint64_t mine;

	MUST(self.slot < UINT16_MAX);
	if (owner_of(seen) != 0)
		return 0;

	/* Strong: a spurious failure would skip a tick that nobody runs. */
	mine = pack(self.slot + 1u, self.thread, (uint32_t)seen + 1);
	if (!atomic_compare_exchange_strong_explicit(&g->word, &seen, mine,
	    memory_order_acquire, memory_order_relaxed))
		return 0;

	atomic_store_explicit(&g->since_ns, clock_mono_ns(),
	    memory_order_relaxed);
	atomic_store_explicit(&g->deadline_ns, deadline_ns,
	    memory_order_relaxed);
	atomic_store_explicit(&g->phase, TICK_NONE, memory_order_relaxed);
	return mine;
}

void
shm_guard_release(struct shm_guard *g, uint64_t token)
{
	MUST(token != 0);
	MUST(set_free(g, token));
}

void
shm_guard_phase(struct shm_guard *g, enum tick_phase phase)
{
	atomic_store_explicit(&g->phase, phase, memory_order_relaxed);
}

bool
shm_guard_holder(const struct shm_guard *g, struct shm_who *who)
{
	uint64_t seen = atomic_load_explicit(&g->word, memory_order_acquire);

	if (owner_of(seen) == 0)
		return false;
	who->slot = (uint16_t)(owner_of(seen) - 1);
	who->thread = (uint16_t)(seen >> 32);
	return true;
}

bool
shm_guard_break(struct shm_guard *g, uint16_t dead_slot)
{
	/* Acquire: what the dead wrote goes to the next holder through us. */
	uint64_t seen = atomic_load_explicit(&g->word, memory_order_acquire);

	if (owner_of(seen) != dead_slot + 1u)
		return false;
	MUST(set_free(g, seen));	/* the dead change nothing any more */
	return true;
}
