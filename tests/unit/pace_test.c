#include "common/base.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "common/clock.h"
#include "worker/object/pace.h"

/* Only "never faster" is asserted: how much slower is the machine's affair. */

static struct object_pace pace;

static void *
take(void *ctx)
{
	int *steps = ctx;

	while ((*steps)-- > 0)
		object_pace_take(&pace, OBJECT_PACE_STEP);
	return NULL;
}

static uint64_t
elapsed_ns(int threads, int steps_each)
{
	uint64_t start = clock_mono_ns();
	pthread_t ids[4];
	int steps[4], i;

	for (i = 0; i < threads; i++) {
		steps[i] = steps_each;
		assert_int_equal(pthread_create(&ids[i], NULL, take, &steps[i]), 0);
	}
	for (i = 0; i < threads; i++)
		assert_int_equal(pthread_join(ids[i], NULL), 0);
	return clock_mono_ns() - start;
}

/* 32 steps of 64 KiB are 2 MiB: 125 ms at 16 MiB/s, but for the first step and
 * the credit of 10 ms. */
static void
test_rate(void **state)
{
	(void)state;
	object_pace_init(&pace, 16u << 20);
	assert_true(elapsed_ns(1, 32) >= 110 * NS_PER_MS);
	/* An idle line saves nothing up. */
	assert_true(elapsed_ns(1, 32) >= 110 * NS_PER_MS);
}

static void
test_threads_share(void **state)
{
	(void)state;
	object_pace_init(&pace, 16u << 20);
	assert_true(elapsed_ns(4, 8) >= 110 * NS_PER_MS);
}

/* Without the factor the second would last for half an hour, the third and
 * fourth for days. */
static void
test_times(void **state)
{
	(void)state;
	object_pace_init(&pace, 4u << 20);
	object_pace_set_times(&pace, 4);
	assert_true(elapsed_ns(1, 32) >= 110 * NS_PER_MS);
	object_pace_init(&pace, 1024);
	object_pace_set_times(&pace, 16384);
	assert_true(elapsed_ns(1, 32) >= 110 * NS_PER_MS);
	object_pace_init(&pace, 1);
	object_pace_set_times(&pace, 0);
	elapsed_ns(4, 8);		/* returns */
	object_pace_init(&pace, 0);
	elapsed_ns(4, 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_threads_share),
		cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
