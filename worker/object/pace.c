#include "common/base.h"

#include "common/clock.h"
#include "worker/object/pace.h"

/* A line that was idle does not save up more than this: a burst is what the
 * pace is there to prevent. */
#define CREDIT_NS	(10 * NS_PER_MS)

void
object_pace_init(struct object_pace *p, uint64_t bytes_per_sec)
{
	atomic_init(&p->bytes_per_sec, bytes_per_sec);
	atomic_init(&p->times, 1);
	atomic_init(&p->next_ns, 0);
}

void
object_pace_set_rate(struct object_pace *p, uint64_t bytes_per_sec)
{
	atomic_store_explicit(&p->bytes_per_sec, bytes_per_sec,
	    memory_order_relaxed);
}

void
object_pace_set_times(struct object_pace *p, uint32_t times)
{
	atomic_store_explicit(&p->times, times, memory_order_relaxed);
}

void
object_pace_take(struct object_pace *p, uint64_t bytes)
{
	uint64_t times = atomic_load_explicit(&p->times, memory_order_relaxed);
	uint64_t rate = atomic_load_explicit(&p->bytes_per_sec,
	    memory_order_relaxed);
	uint64_t now_ns, seen, start, span_ns;

	if (rate == 0 || times == 0)
		return;
	MUST(bytes <= UINT32_MAX);	/* else the product may overflow */
	span_ns = bytes * NS_PER_SEC / rate / times;
	now_ns = clock_mono_ns();
	seen = atomic_load_explicit(&p->next_ns, memory_order_relaxed);
	do {
		start = MAX(seen, now_ns - MIN(now_ns, CREDIT_NS));
	} while (!atomic_compare_exchange_weak_explicit(&p->next_ns, &seen,
	    start + span_ns, memory_order_relaxed, memory_order_relaxed));
	if (start > now_ns)
		clock_sleep_ns(start - now_ns);
}
