#include "common/base.h"

#include <errno.h>
#include <time.h>

#include "common/clock.h"

/* All readings are base + (now - base) * speed; speed 1 is the true clock. */
static uint64_t speed = 1;
static uint64_t mono_base_ns;
static uint64_t wall_base_us;

static uint64_t
read_ns(clockid_t id)
{
	struct timespec ts;

	MUST(clock_gettime(id, &ts) == 0);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t
clock_mono_ns(void)
{
	return mono_base_ns +
	    (read_ns(CLOCK_MONOTONIC) - mono_base_ns) * speed;
}

uint64_t
clock_wall_us(void)
{
	return wall_base_us +
	    (read_ns(CLOCK_REALTIME) / NS_PER_US - wall_base_us) * speed;
}

uint64_t
clock_boot_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

uint64_t
clock_real_ns(uint64_t span_ns)
{
	return (span_ns + speed - 1) / speed;
}

void
clock_sleep_ns(uint64_t span_ns)
{
	uint64_t real_ns = clock_real_ns(span_ns);
	struct timespec left = {
		.tv_sec = (time_t)(real_ns / NS_PER_SEC),
		.tv_nsec = (long)(real_ns % NS_PER_SEC),
	};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

void
clock_set_speed(uint32_t times)
{
	MUST(times > 0);
	mono_base_ns = read_ns(CLOCK_MONOTONIC);
	wall_base_us = read_ns(CLOCK_REALTIME) / NS_PER_US;
	speed = times;
}
