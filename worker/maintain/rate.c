#include "common/base.h"

#include "common/clock.h"
#include "common/timer.h"
#include "shm/metric.h"
#include "worker/maintain/rate.h"

#define IDLE_TIMES	8u	/* the rate while no request is for a store */
#define AVERAGE_SECS	16u
#define TIMES_MAX	1024u
/* So many generations are no backlog yet. */
#define BACKLOG_STEP	64u

static struct {
	const struct config *config;
	struct loop *loop;
	struct object_pace *pace;
	struct timer timer;
	uint64_t requests, row_bytes;	/* at the last look */
	uint64_t bytes_per_sec;		/* of rows, smoothed */
	uint32_t backlog;		/* the largest since then */
	uint32_t late;			/* times, by ticks that ran out of time */
} rate;

/* How often the rate must be had so that each row can be sealed, gathered and
 * folded, which is two writes and a fourth (merged_file.c). A burst is sealed at
 * leisure, so the average is over some time. */
static uint32_t
times_to_keep_up(void)
{
	uint64_t bytes = shm_metric_sum(METRIC_memwald_wal_row_bytes_total, 0);
	uint64_t base = CONFIG_NOW(rate.config, maintain_write_rate);

	rate.bytes_per_sec += (bytes - MIN(bytes, rate.row_bytes)) /
	    AVERAGE_SECS - rate.bytes_per_sec / AVERAGE_SECS;
	rate.row_bytes = bytes;
	return base == 0 ? 0 : (uint32_t)MIN(9 * rate.bytes_per_sec / 4 / base,
	    (uint64_t)TIMES_MAX);
}

static void
look(struct timer *t)
{
	uint64_t requests =
	    shm_metric_sum(METRIC_memwald_store_requests_total, 0);
	uint32_t times = 1 + rate.backlog / BACKLOG_STEP + times_to_keep_up();

	if (requests == rate.requests)
		times = MAX(times, IDLE_TIMES);
	times = MIN(times * rate.late, TIMES_MAX);
	rate.requests = requests;
	rate.backlog = 0;
	object_pace_set_times(rate.pace, times);
	timer_set(loop_timers(rate.loop), t, clock_mono_ns() + NS_PER_SEC);
}

void
rate_start(const struct config *config, struct loop *loop,
    struct object_pace *pace)
{
	rate.config = config;
	rate.loop = loop;
	rate.pace = pace;
	rate.late = 1;
	rate.row_bytes = shm_metric_sum(METRIC_memwald_wal_row_bytes_total, 0);
	timer_init(&rate.timer, look);
	look(&rate.timer);
}

void
rate_stop(void)
{
	timer_cancel(loop_timers(rate.loop), &rate.timer);
}

void
rate_backlog(uint32_t generations)
{
	rate.backlog = MAX(rate.backlog, generations);
}

void
rate_late(bool late)
{
	rate.late = late ? MIN(rate.late * 2, TIMES_MAX) :
	    MAX(rate.late / 2, 1u);
}
