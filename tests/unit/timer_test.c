#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/timer.h"

#define COUNT 500

struct probe {
	struct timer timer;
	uint64_t want_ns;	/* 0: not set */
	bool fired;
};

static struct timers timers;
static struct probe probes[COUNT];
static uint64_t last_fired_ns;
static uint32_t fired_count;

static void
note(struct timer *t)
{
	struct probe *p = CONTAINER_OF(t, struct probe, timer);

	assert_false(p->fired);
	assert_false(t->armed);
	assert_true(p->want_ns >= last_fired_ns);
	last_fired_ns = p->want_ns;
	p->fired = true;
	fired_count++;
}

static int
setup(void **state)
{
	(void)state;
	timers_init(&timers);
	memset(probes, 0, sizeof(probes));
	for (int i = 0; i < COUNT; i++)
		timer_init(&probes[i].timer, note);
	last_fired_ns = fired_count = 0;
	return 0;
}

static void
test_random_against_a_scan(void **state)
{
	uint64_t now = 1;

	(void)state;
	srand(7);
	for (int step = 0; step < 20000; step++) {
		struct probe *p = &probes[rand() % COUNT];
		uint64_t first = UINT64_MAX;
		uint32_t due = 0;

		if (rand() % 3 == 0) {
			timer_cancel(&timers, &p->timer);
			p->want_ns = 0;
		} else {
			p->want_ns = now + 1 + (uint64_t)(rand() % 1000);
			p->fired = false;
			timer_set(&timers, &p->timer, p->want_ns);
		}
		if (step % 16 == 0)
			now += (uint64_t)(rand() % 100);
		for (int i = 0; i < COUNT; i++) {
			if (probes[i].want_ns == 0 || probes[i].fired)
				continue;
			first = MIN(first, probes[i].want_ns);
			due += probes[i].want_ns <= now;
		}
		assert_int_equal(timers_next(&timers), first);
		fired_count = 0;
		last_fired_ns = 0;
		timers_fire(&timers, now);
		assert_int_equal(fired_count, due);
	}
}

static void
test_cancel_all(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++)
		timer_set(&timers, &probes[i].timer, (uint64_t)(i * 7 % 100));
	for (int i = 0; i < COUNT; i++) {
		timer_cancel(&timers, &probes[i].timer);
		timer_cancel(&timers, &probes[i].timer);
	}
	assert_int_equal(timers_next(&timers), UINT64_MAX);
	timers_fire(&timers, 1000);
	assert_int_equal(fired_count, 0);
}

static uint32_t again_count;

static void
set_again(struct timer *t)
{
	again_count++;
	timer_set(&timers, t, 5);	/* in the past */
}

static void
test_setting_itself_to_the_past_fires_once_a_call(void **state)
{
	struct timer t;

	(void)state;
	timer_init(&t, set_again);
	timer_set(&timers, &t, 5);
	timers_fire(&timers, 10);
	assert_int_equal(again_count, 1);
	timers_fire(&timers, 11);
	assert_int_equal(again_count, 2);
}

static void
cancel_other(struct timer *t)
{
	(void)t;
	timer_cancel(&timers, &probes[1].timer);
}

static void
test_firing_one_may_cancel_the_next(void **state)
{
	struct timer t;

	(void)state;
	timer_init(&t, cancel_other);
	probes[1].want_ns = 6;
	timer_set(&timers, &t, 5);
	timer_set(&timers, &probes[1].timer, 6);
	timers_fire(&timers, 10);
	assert_int_equal(fired_count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_random_against_a_scan, setup),
		cmocka_unit_test_setup(test_cancel_all, setup),
		cmocka_unit_test_setup(
		    test_setting_itself_to_the_past_fires_once_a_call, setup),
		cmocka_unit_test_setup(test_firing_one_may_cancel_the_next,
		    setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
