#include "common/base.h"

#include "worker/store/opened.h"

static _Atomic uint64_t sums[OPENED_COUNT];

void
opened_add(enum opened_what what, uint64_t n)
{
	atomic_fetch_add_explicit(&sums[what], n, memory_order_relaxed);
}

void
opened_sub(enum opened_what what, uint64_t n)
{
	uint64_t had = atomic_fetch_sub_explicit(&sums[what], n,
	    memory_order_relaxed);

	MUST(had >= n);
}

void
opened_change(enum opened_what what, uint64_t before, uint64_t after)
{
	if (after > before)
		opened_add(what, after - before);
	else if (before > after)
		opened_sub(what, before - after);
}

uint64_t
opened_now(enum opened_what what)
{
	return atomic_load_explicit(&sums[what], memory_order_relaxed);
}
