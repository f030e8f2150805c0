#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "worker/object/retry.h"

#define WAIT_MIN_NS	(10 * NS_PER_MS)
#define WAIT_MAX_NS	NS_PER_SEC

void
object_retry_begin(struct object_retry *r, uint64_t span_ns)
{
	r->until_ns = clock_mono_ns() + span_ns;
	r->wait_ns = WAIT_MIN_NS;
}

bool
object_retry_wait(struct object_retry *r)
{
	uint64_t half = r->wait_ns / 2;
	uint64_t ns = half + arc4random_uniform((uint32_t)half);

	if (clock_mono_ns() + ns > r->until_ns)
		return false;
	clock_sleep_ns(ns);
	r->wait_ns = MIN(r->wait_ns * 2, WAIT_MAX_NS);
	return true;
}
