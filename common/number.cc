#include "common/base.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "common/number.h"

/*
 * Log-probabilities and rewards are short decimals: a mantissa that a double
 * holds exactly and a power of ten that it holds exactly too, so that one
 * division or multiplication gives the nearest double (Clinger's fast path).
 * The nearest float follows from it, except where the double lies exactly
 * between two floats and the decimal perhaps did not. That and all else goes to
 * the library.
 */

static const double powers[] = {
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

#define MANTISSA_MAX	(UINT64_C(1) << 53)
#define DIGITS_MAX	18		/* that cannot overflow 64 bits */

static bool
short_decimal(struct slice s, double *out)
{
	const char *p = s.ptr, *end = s.ptr + s.len, *point = nullptr;
	uint64_t mantissa = 0;
	bool minus = p < end && *p == '-';

	p += minus;
	if (end - p > DIGITS_MAX + 1 || p == end)
		return false;
	for (; p < end; p++) {
		unsigned digit = (unsigned)((unsigned char)*p - '0');

		if (digit <= 9)
			mantissa = mantissa * 10 + digit;
		else if (*p == '.' && point == nullptr)
			point = p + 1;
		else
			return false;
	}
	if (mantissa >= MANTISSA_MAX)
		return false;
	*out = (double)mantissa;
	if (point != nullptr)
		*out /= powers[end - point];
	if (minus)
		*out = -*out;
	return true;
}

/* Whether the nearest float of the double is that of what it was made from. */
static bool
rounds_alike(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return (bits & 0x1fffffff) != 0x10000000;
}

/*
 * The library says "out of range" of what is too large and of what is too
 * small. They differ in where the first digit that counts stands.
 */
static bool
is_large(struct slice s)
{
	const char *p = s.ptr, *end = s.ptr + s.len;
	int64_t exponent = 0, written = 0;
	bool point = false, started = false, minus;

	for (; p < end && (*p | 32) != 'e'; p++) {
		if (*p == '.')
			point = true;
		else if (*p >= '0' && *p <= '9') {
			started = started || *p != '0';
			if (started && !point)
				exponent++;
			else if (!started && point)
				exponent--;
		}
	}
	if (p < end)
		p++;
	minus = p < end && *p == '-';
	if (p < end && (*p == '-' || *p == '+'))
		p++;
	for (; p < end && written < 1000000; p++)
		written = written * 10 + (*p - '0');
	return exponent + (minus ? -written : written) > 0;
}

template <typename T>
static enum number_outcome
from_text(struct slice s, T *out)
{
	T v = 0;
	std::from_chars_result r = std::from_chars(s.ptr, s.ptr + s.len, v);

	if (r.ptr != s.ptr + s.len || r.ec == std::errc::invalid_argument)
		return NUMBER_NOT;
	if (r.ec == std::errc::result_out_of_range)
		return NUMBER_OVERFLOW;
	*out = v;
	return NUMBER_OK;
}

template <typename T>
static enum number_outcome
float_from_text(struct slice s, T *out)
{
	T v = 0;
	enum number_outcome outcome = from_text(s, &v);

	if (outcome == NUMBER_OVERFLOW && !is_large(s)) {
		v = s.len > 0 && s.ptr[0] == '-' ? -(T)0 : (T)0;
		outcome = NUMBER_OK;
	}
	if (outcome == NUMBER_OK && !std::isfinite(v))
		return NUMBER_NOT;	/* "inf" and "nan" are no JSON */
	if (outcome == NUMBER_OK)
		*out = v;
	return outcome;
}

enum number_outcome
number_float(struct slice s, float *out)
{
	double d;

	if (short_decimal(s, &d) && rounds_alike(d)) {
		*out = (float)d;	/* below 1e18, above 1e-18: in range */
		return NUMBER_OK;
	}
	return float_from_text(s, out);
}

enum number_outcome
number_double(struct slice s, double *out)
{
	if (short_decimal(s, out))
		return NUMBER_OK;
	return float_from_text(s, out);
}

/* A sign or digits, nothing else: a fraction or an exponent is NUMBER_NOT. */
enum number_outcome
number_int64(struct slice s, int64_t *out)
{
	return from_text(s, out);
}

enum number_outcome
number_uint64(struct slice s, uint64_t *out)
{
	return from_text(s, out);
}

/*
 * The same the other way: a value that six decimals name needs no search for
 * the shortest text. Below 16 two such decimals are never the same float (its
 * neighbours are less than 1e-6 away), so no shorter one exists either. Nor is
 * the double of any of these 16 million decimals half way between two floats, so
 * that it makes no difference whether a reader goes by way of a double.
 */
static size_t
print_short(char *out, float v)
{
	float a = std::fabs(v);
	char *p = out;
	uint32_t n, fraction;
	double back;
	int width = 6;

	if (!(a < 16))
		return 0;
	n = (uint32_t)((double)a * 1e6 + 0.5);
	back = (double)n / 1e6;
	if ((float)back != a)
		return 0;
	if (std::signbit(v))
		*p++ = '-';
	fraction = n % 1000000;
	n /= 1000000;
	if (n >= 10) {
		*p++ = '1';
		n -= 10;
	}
	*p++ = (char)('0' + n);
	if (fraction == 0)
		return (size_t)(p - out);
	*p++ = '.';
	for (int i = 5; i >= 0; i--) {
		p[i] = (char)('0' + fraction % 10);
		fraction /= 10;
	}
	while (p[width - 1] == '0')
		width--;
	return (size_t)(p + width - out);
}

template <typename T>
static size_t
to_text(char *out, T v)
{
	std::to_chars_result r = std::to_chars(out, out + NUMBER_TEXT_MAX, v);

	MUST(r.ec == std::errc());
	return (size_t)(r.ptr - out);
}

size_t
number_print_float(char *out, float v)
{
	size_t n;

	MUST(std::isfinite(v));
	n = print_short(out, v);
	return n > 0 ? n : to_text(out, v);
}

size_t
number_print_double(char *out, double v)
{
	MUST(std::isfinite(v));
	return to_text(out, v);
}

size_t
number_print_int64(char *out, int64_t v)
{
	return to_text(out, v);
}

size_t
number_print_uint64(char *out, uint64_t v)
{
	return to_text(out, v);
}
