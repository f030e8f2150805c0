#include "common/base.h"

#include "common/clock.h"
#include "master/backoff.h"

#define DOUBLED_MAX	32u

/* splitmix64, from what differs from process to process. */
static uint64_t
next_random(void)
{
	static uint64_t state;
	uint64_t z;

	if (state == 0)
		state = clock_boot_ns() ^ (uint64_t)(uintptr_t)&state;
	state += 0x9e3779b97f4a7c15u;
	z = state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t
backoff_jitter_ns(uint64_t most_ns)
{
	return most_ns == 0 ? 0 : next_random() % most_ns;
}

uint64_t
backoff_ns(const struct backoff *b, uint32_t failures)
{
	uint32_t doubled = MIN(failures, DOUBLED_MAX) - 1;
	uint64_t span_ns;

	MUST(failures > 0);
	/* No shift of it overflows: it is compared before it is made. */
	span_ns = b->max_ns >> doubled < b->first_ns ? b->max_ns :
	    b->first_ns << doubled;
	return span_ns / 2 + backoff_jitter_ns(span_ns / 2 + 1);
}
