#include "shm_test.h"

#include "common/clock.h"
#include "common/loop.h"
#include "shm/metric.h"
#include "worker/maintain/rate.h"

#define BASE	(4u << 20)

static struct config config = { .maintain_write_rate = BASE };
static struct object_pace pace;
static struct loop *loop;

static int
setup(void **state)
{
	struct shm_config cfg = test_config();

	(void)state;
	test_segment(&cfg);
	assert_int_equal(loop_create(&(struct loop_settings){ .entries = 64 },
	    &loop).kind, ERR_OK);
	object_pace_init(&pace, BASE);
	rate_start(&config, loop, &pace);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	rate_stop();
	loop_destroy(loop);
	shm_segment_destroy();
	return 0;
}

/* As it is a second later. */
static uint32_t
times(void)
{
	timers_fire(loop_timers(loop), clock_mono_ns() + 2 * NS_PER_SEC);
	return atomic_load(&pace.times);
}

static void
nobody_waits(void **state)
{
	(void)state;
	assert_int_equal(times(), 8);
	assert_int_equal(times(), 8);
}

/* Whoever reads waits for a CPU, although he commits nothing. */
static void
somebody_asks(void **state)
{
	(void)state;
	shm_metric_add(METRIC_memwald_store_requests_total, 0, 1);
	assert_int_equal(times(), 1);
	assert_int_equal(times(), 8);
	/* Nobody asked for that: our own rotations open stores, too. */
	shm_metric_add(METRIC_rollout_store_cache_hits_total, 0, 1);
	assert_int_equal(times(), 8);
}

/* Each row is written twice and gathered between: after many seconds of a
 * steady load that is what the rate allows, above what it always does. */
static void
rows_come(void **state)
{
	uint32_t i, n = 0;

	(void)state;
	for (i = 0; i < 200; i++) {
		shm_metric_add(METRIC_memwald_store_requests_total, 0, 1);
		shm_metric_add(METRIC_memwald_wal_row_bytes_total, 0,
		    16 * BASE);
		n = times();
	}
	assert_in_range(n, 36, 37);
}

static void
a_backlog_grows(void **state)
{
	(void)state;
	shm_metric_add(METRIC_memwald_store_requests_total, 0, 1);
	rate_backlog(64 * 3);
	assert_int_equal(times(), 4);
}

static void
ticks_run_out_of_time(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++)
		rate_late(true);
	shm_metric_add(METRIC_memwald_store_requests_total, 0, 1);
	assert_int_equal(times(), 4);
	rate_late(false);
	shm_metric_add(METRIC_memwald_store_requests_total, 0, 1);
	assert_int_equal(times(), 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nobody_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(somebody_asks, setup, teardown),
		cmocka_unit_test_setup_teardown(a_backlog_grows, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(ticks_run_out_of_time, setup,
		    teardown),
		/* Last: the average goes on. */
		cmocka_unit_test_setup_teardown(rows_come, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
