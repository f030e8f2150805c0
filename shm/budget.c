#include "common/base.h"

#include "shm/budget.h"
#include "shm/part.h"
#include "shm/process.h"

/*
 * Sequentially consistent: two takers that each add to their own share and
 * then read the other's must not both read the old value.
 */

static struct budget {
	alignas(CACHELINE)
	uint64_t limit;
	_Atomic uint64_t shares[];	/* by process slot */
} *budgets;

static uint64_t stride;

static const char *const names[] = {
#define X(budget, text) text,
	SHM_BUDGETS(X)
#undef X
};

static uint64_t
stride_of(const struct shm_config *cfg)
{
	return ROUND_UP(sizeof(struct budget) +
	    (2 + (uint64_t)cfg->workers_max) * sizeof(uint64_t), CACHELINE);
}

uint64_t
shm_budget_bytes(const struct shm_config *cfg)
{
	return SHM_BUDGET_COUNT * stride_of(cfg);
}

static struct budget *
budget_at(enum shm_budget b)
{
	MUST(b < SHM_BUDGET_COUNT);
	return (void *)((char *)budgets + b * stride);
}

void
shm_budget_carve(void *at, const struct shm_config *cfg)
{
	int b;

	budgets = at;
	stride = stride_of(cfg);
	for (b = 0; b < SHM_BUDGET_COUNT; b++)
		budget_at(b)->limit = cfg->budget_limits[b];
}

const char *
shm_budget_name(enum shm_budget b)
{
	MUST(b < SHM_BUDGET_COUNT);
	return names[b];
}

uint64_t
shm_budget_used(enum shm_budget b)
{
	struct budget *budget = budget_at(b);
	uint64_t used = 0;
	uint16_t slot;

	for (slot = 0; slot < shm_process_count(); slot++)
		used += atomic_load(&budget->shares[slot]);
	return used;
}

static bool
take(enum shm_budget b, uint64_t amount, bool alone)
{
	struct budget *budget = budget_at(b);
	_Atomic uint64_t *mine = &budget->shares[shm_self()];
	uint64_t used;

	/* So that no sum of shares can wrap. */
	if (amount > UINT64_MAX >> 16)
		return false;
	atomic_fetch_add(mine, amount);
	used = shm_budget_used(b);
	if (budget->limit == 0 || used <= budget->limit ||
	    (alone && used == amount))
		return true;
	atomic_fetch_sub(mine, amount);
	return false;
}

bool
shm_budget_take(enum shm_budget b, uint64_t amount)
{
	return take(b, amount, false);
}

bool
shm_budget_take_alone(enum shm_budget b, uint64_t amount)
{
	return take(b, amount, true);
}

void
shm_budget_give(enum shm_budget b, uint64_t amount)
{
	uint64_t had = atomic_fetch_sub(&budget_at(b)->shares[shm_self()],
	    amount);

	MUST(had >= amount);
}

uint64_t
shm_budget_limit(enum shm_budget b)
{
	return budget_at(b)->limit;
}

uint64_t
shm_budget_share(enum shm_budget b, uint16_t slot)
{
	MUST(slot < shm_process_count());
	return atomic_load(&budget_at(b)->shares[slot]);
}

uint64_t
shm_budget_reap(enum shm_budget b, uint16_t dead_slot)
{
	MUST(dead_slot < shm_process_count());
	return atomic_exchange(&budget_at(b)->shares[dead_slot], 0);
}
