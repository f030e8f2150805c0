#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "common/rfc3339.h"

static void
print_is(int64_t us, const char *want)
{
	char text[RFC3339_TEXT_MAX];
	size_t n = rfc3339_print(text, us);

	assert_int_equal(n, strlen(want));
	assert_memory_equal(text, want, n);
}

static void
known_times(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
		const char *back;
	} t[] = {
		{ "1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z" },
		{ "2026-11-01T08:00:01.237Z", 1793520001237000,
		    "2026-11-01T08:00:01.237Z" },
		{ "2026-11-01T08:00:01.237000999Z", 1793520001237000,
		    "2026-11-01T08:00:01.237Z" },
		{ "2026-11-01T10:00:01.5+02:00", 1793520001500000,
		    "2026-11-01T08:00:01.500Z" },
		{ "2026-11-01t02:30:01.000001-05:30", 1793520001000001,
		    "2026-11-01T08:00:01.000001Z" },
		{ "2026-11-01 08:00:01z", 1793520001000000,
		    "2026-11-01T08:00:01Z" },
		{ "1969-12-31T23:59:59.9999999Z", -1,
		    "1969-12-31T23:59:59.999999Z" },
		{ "1969-12-31T23:59:59Z", -1000000, "1969-12-31T23:59:59Z" },
		{ "2000-02-29T00:00:00Z", 951782400000000,
		    "2000-02-29T00:00:00Z" },
		{ "2016-12-31T23:59:60Z", 1483228800000000,
		    "2017-01-01T00:00:00Z" },
		{ "0000-01-01T00:00:00Z", -62167219200000000,
		    "0000-01-01T00:00:00Z" },
		{ "9999-12-31T23:59:59.999999Z", 253402300799999999,
		    "9999-12-31T23:59:59.999999Z" },
		{ "9999-12-31T23:59:60+00:01", 253402300740000000,
		    "9999-12-31T23:59:00Z" },
		{ "0000-01-01T00:00:00Z", -62167219200000000,
		    "0000-01-01T00:00:00Z" },
		{ "0000-01-01T00:01:00+00:01", -62167219200000000,
		    "0000-01-01T00:00:00Z" },
	};
	size_t i;
	int64_t us;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		assert_true(rfc3339_parse(slice_of(t[i].text), &us));
		assert_int_equal(us, t[i].us);
		print_is(us, t[i].back);
	}
	print_is(253402300800000000, "+10000-01-01T00:00:00Z");
	print_is(-62167219200000001, "-0001-12-31T23:59:59.999999Z");
	print_is(INT64_MAX, "+294247-01-10T04:00:54.775807Z");
	print_is(INT64_MIN, "-290308-12-21T19:59:05.224192Z");
}

static void
what_is_no_time(void **state)
{
	static const char *const bad[] = {
		"", "2026-11-01", "2026-11-01T08:00:00", "2026-11-01T08:00Z",
		"2026-1-01T08:00:00Z", "2026-13-01T08:00:00Z",
		"2026-00-01T08:00:00Z", "2026-11-31T08:00:00Z",
		"2026-02-29T08:00:00Z", "1900-02-29T08:00:00Z",
		"2026-11-00T08:00:00Z", "2026-11-01T24:00:00Z",
		"2026-11-01T08:60:00Z", "2026-11-01T08:00:61Z",
		"2026-11-01T08:00:00.Z", "2026-11-01T08:00:00,5Z",
		"2026-11-01T08:00:00+24:00", "2026-11-01T08:00:00+01:60",
		"2026-11-01T08:00:00+0100", "2026-11-01T08:00:00Z ",
		" 2026-11-01T08:00:00Z", "2026-11-01T08:00:00+", "+026-11-01T08:00:00Z",
		"2026-11-01T08:00:00.00000000000000000000000000000000000000000001Z",
		"20\xd9\xa1" "6-11-01T08:00:00Z",
		/* Of no year that could be answered. */
		"9999-12-31T23:59:60Z", "9999-12-31T23:59:59.999999-00:01",
		"9999-12-31T00:01:00-23:59", "9999-12-31T23:59:60.5+00:00",
		"0000-01-01T00:00:00+23:59", "0000-01-01T00:00:00.999999+00:01",
	};
	struct slice nul = SLICE("2026-11-01\0" "08:00:00Z");
	size_t i;
	int64_t us = 7;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(rfc3339_parse(slice_of(bad[i]), &us));
	assert_false(rfc3339_parse(nul, &us));
	assert_int_equal(us, 7);
}

/* A day in each month of 4000 years, against the C library. */
static void
days_agree_with_timegm(void **state)
{
	int year, month;
	char text[64];
	int64_t us;

	(void)state;
	for (year = 1; year < 4000; year += 3) {
		for (month = 0; month < 12; month++) {
			struct tm tm = { .tm_year = year - 1900,
			    .tm_mon = month, .tm_mday = 1 + year % 28,
			    .tm_hour = month, .tm_sec = year % 60 };

			size_t n = strftime(text, sizeof(text), "-%m-%dT%TZ", &tm);
			char whole[80];

			assert_true(n > 0);
			snprintf(whole, sizeof(whole), "%04d%s", year, text);
			assert_true(rfc3339_parse(slice_of(whole), &us));
			assert_int_equal(us, (int64_t)timegm(&tm) * 1000000);
			print_is(us, whole);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_times),
		cmocka_unit_test(what_is_no_time),
		cmocka_unit_test(days_agree_with_timegm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
