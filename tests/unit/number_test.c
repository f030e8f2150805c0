#include "common/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/number.h"

static uint64_t
next_random(uint64_t *state)		/* splitmix64 */
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void
float_is(const char *text, float want)
{
	float v = 99;

	assert_int_equal(number_float(slice_of(text), &v), NUMBER_OK);
	assert_memory_equal(&v, &want, sizeof(v));
}

static void
known_floats(void **state)
{
	float v = 5;

	(void)state;
	float_is("0", 0.0f);
	float_is("-0", -0.0f);
	float_is("-0.0", -0.0f);
	float_is("1", 1.0f);
	float_is("-3.014424", -3.014424f);
	float_is("0.1", 0.1f);
	float_is("1e-3", 1e-3f);
	float_is("1E+10", 1e10f);
	float_is("3.4028235e38", 3.4028235e38f);
	float_is("3.40282356e38", 3.4028235e38f);	/* rounds down to it */
	float_is("1e-45", 1e-45f);
	float_is("-1e-46", -0.0f);
	float_is("1e-400", 0.0f);
	float_is("1e-99999999999999999999", 0.0f);
	float_is("0e99999999999999999999", 0.0f);
	float_is("123456789012345678", 123456789012345678.0f);
	/* Exactly between two floats, and a hair above: a double in between
	 * would make one of the other. */
	float_is("16777217", 16777216.0f);
	float_is("16777217.0000000001", 16777218.0f);
	float_is("16777219", 16777220.0f);
	float_is("8.000001430511474", 8.00000095367431640625f);
	float_is("-1.6086380481719971", -1.6086380481719971f);

	assert_int_equal(number_float(SLICE("1e39"), &v), NUMBER_OVERFLOW);
	assert_int_equal(number_float(SLICE("-1e400"), &v), NUMBER_OVERFLOW);
	assert_int_equal(number_float(SLICE("3.4028236e38"), &v), NUMBER_OVERFLOW);
	assert_int_equal(number_float(SLICE("1e99999999999999999999"), &v),
	    NUMBER_OVERFLOW);
	assert_int_equal(number_float(SLICE("nan"), &v), NUMBER_NOT);
	assert_int_equal(number_float(SLICE("inf"), &v), NUMBER_NOT);
	assert_int_equal(number_float(SLICE(""), &v), NUMBER_NOT);
	assert_int_equal(number_float(SLICE("-"), &v), NUMBER_NOT);
	assert_int_equal(number_float(SLICE("1.5x"), &v), NUMBER_NOT);
	assert_true(v == 5);
}

static void
known_integers(void **state)
{
	int64_t v = 5;
	uint64_t u = 5;

	(void)state;
	assert_int_equal(number_int64(SLICE("9007199254740993"), &v), NUMBER_OK);
	assert_true(v == 9007199254740993);
	assert_int_equal(number_int64(SLICE("-9223372036854775808"), &v),
	    NUMBER_OK);
	assert_true(v == INT64_MIN);
	assert_int_equal(number_int64(SLICE("-0"), &v), NUMBER_OK);
	assert_true(v == 0);
	assert_int_equal(number_int64(SLICE("9223372036854775808"), &v),
	    NUMBER_OVERFLOW);
	assert_int_equal(number_int64(SLICE("1.0"), &v), NUMBER_NOT);
	assert_int_equal(number_int64(SLICE("1e3"), &v), NUMBER_NOT);
	assert_int_equal(number_int64(SLICE(""), &v), NUMBER_NOT);
	assert_int_equal(number_int64(SLICE("+1"), &v), NUMBER_NOT);
	assert_true(v == 0);
	assert_int_equal(number_uint64(SLICE("18446744073709551615"), &u),
	    NUMBER_OK);
	assert_true(u == UINT64_MAX);
	assert_int_equal(number_uint64(SLICE("-1"), &u), NUMBER_NOT);
}

/* Whatever is printed reads back the same, for us and for the C library. */
static void
check_float(float v)
{
	char text[NUMBER_TEXT_MAX + 1], shortest[64];
	size_t n = number_print_float(text, v);
	float back;
	int digits;

	assert_true(n <= NUMBER_TEXT_MAX);
	text[n] = '\0';
	assert_int_equal(number_float(slice_of(text), &back), NUMBER_OK);
	if (memcmp(&back, &v, sizeof(v)) != 0 || strtof(text, NULL) != v ||
	    (float)strtod(text, NULL) != v)
		fail_msg("%a prints as %s", (double)v, text);
	/* No text with fewer digits would do (whole numbers are printed with
	 * all of theirs while that is no longer than an exponent). */
	if (fabsf(v) >= 16777216)
		return;
	for (digits = 1; digits < 9; digits++) {
		snprintf(shortest, sizeof(shortest), "%.*e", digits - 1, (double)v);
		if (strtof(shortest, NULL) == v)
			break;
	}
	snprintf(shortest, sizeof(shortest), "%.*e", digits - 1, (double)v);
	if (strtod(shortest, NULL) != strtod(text, NULL))
		fail_msg("%s, but %s is as good", text, shortest);
}

static void
floats_there_and_back(void **state)
{
	static const float v[] = {
		0.0f, -0.0f, 1, -1, 0.1f, 15.999999f, 16, 9.5367431640625e-7f,
		1e-6f, 5e-7f, 1.5e-6f, 0.000001f, 10.0f, 12.5f, 0.9999999f,
		1e-45f, 1.17549435e-38f, 3.4028235e38f, 16777216, 123456.0f,
	};
	uint64_t random = 1;
	size_t i;
	uint32_t bits;
	float f;

	(void)state;
	for (i = 0; i < ARRAY_LEN(v); i++)
		check_float(v[i]);
	for (i = 0; i < 30000; i++) {
		bits = (uint32_t)next_random(&random);
		memcpy(&f, &bits, sizeof(f));
		if (isfinite(f))
			check_float(f);
		check_float((float)((double)(next_random(&random) %
		    40000000) / 1e6 - 20));
		check_float((float)((double)(next_random(&random) % 20001) / 1e4));
	}
}

/* Decimals of all lengths, against the C library. */
static void
decimals_agree_with_strtof(void **state)
{
	uint64_t random = 2;
	char text[80];
	size_t i;

	(void)state;
	for (i = 0; i < 100000; i++) {
		uint64_t r = next_random(&random);
		uint64_t digits = next_random(&random) >> (r & 63);
		int exponent = (int)(r >> 8 & 63) - 32;
		float f, want;
		double d;

		if ((r >> 16 & 3) == 0)
			snprintf(text, sizeof(text), "%llue%d",
			    (unsigned long long)digits, exponent);
		else
			snprintf(text, sizeof(text), "-%llu.%0*llu",
			    (unsigned long long)(digits % 1000),
			    (int)(r >> 20 & 15) + 1,
			    (unsigned long long)(digits >> 10));
		want = strtof(text, NULL);
		if (isinf(want)) {
			assert_int_equal(number_float(slice_of(text), &f),
			    NUMBER_OVERFLOW);
		} else {
			assert_int_equal(number_float(slice_of(text), &f),
			    NUMBER_OK);
			if (memcmp(&f, &want, sizeof(f)) != 0)
				fail_msg("%s: %a, not %a", text, (double)f,
				    (double)want);
		}
		assert_int_equal(number_double(slice_of(text), &d), NUMBER_OK);
		if (d != strtod(text, NULL))
			fail_msg("%s: %a", text, d);
	}
}

static void
integers_and_doubles_there_and_back(void **state)
{
	static const int64_t v[] = { 0, 1, -1, 9, 10, INT64_MAX, INT64_MIN,
	    1491926160718000000, 9007199254740993 };
	uint64_t random = 3;
	char text[NUMBER_TEXT_MAX];
	size_t i, n;
	int64_t back;
	double d, e;

	(void)state;
	for (i = 0; i < ARRAY_LEN(v); i++) {
		n = number_print_int64(text, v[i]);
		assert_int_equal(number_int64(slice_make(text, n), &back),
		    NUMBER_OK);
		assert_true(back == v[i]);
	}
	n = number_print_uint64(text, UINT64_MAX);
	assert_true(slice_eq(slice_make(text, n), SLICE("18446744073709551615")));
	for (i = 0; i < 20000; i++) {
		uint64_t bits = next_random(&random);

		memcpy(&d, &bits, sizeof(d));
		if (!isfinite(d))
			continue;
		n = number_print_double(text, d);
		assert_true(n <= NUMBER_TEXT_MAX);
		assert_int_equal(number_double(slice_make(text, n), &e), NUMBER_OK);
		assert_memory_equal(&d, &e, sizeof(d));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_floats),
		cmocka_unit_test(known_integers),
		cmocka_unit_test(floats_there_and_back),
		cmocka_unit_test(decimals_agree_with_strtof),
		cmocka_unit_test(integers_and_doubles_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
