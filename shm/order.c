#include "common/base.h"

#include "shm/order.h"

/* A bit a rank, so that the check is one comparison. */

static const struct {
	const char *name;
	uint32_t rank;
} locks[] = {
#define LOCK(name, rank, kind, repair, protects, taken_by, death) \
	{ #name, rank },
#include "shm/lock.def"
#undef LOCK
};

static _Thread_local uint32_t held;

const char *
shm_lock_name(enum shm_lock lock)
{
	MUST(lock < SHM_LOCK_COUNT);
	return locks[lock].name;
}

uint32_t
shm_lock_rank(enum shm_lock lock)
{
	MUST(lock < SHM_LOCK_COUNT);
	return locks[lock].rank;
}

void
shm_order_acquire(enum shm_lock lock)
{
	uint32_t bit = 1u << shm_lock_rank(lock);

	/* A number above all bits held: a higher rank, not held yet. */
	MUST(bit > held);
	held |= bit;
}

void
shm_order_release(enum shm_lock lock)
{
	uint32_t bit = 1u << shm_lock_rank(lock);

	MUST((held & bit) != 0);
	held &= ~bit;
}

bool
shm_order_holds_any(void)
{
	return held != 0;
}
