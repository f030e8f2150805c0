#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/rfc3339.h"

/*
 * Days are counted in eras of 400 years that begin on the first of March, so
 * that the leap day is the last of a year and the months need no table.
 */

#define ERA_DAYS	146097	/* of 400 years */
#define ERA_TO_1970	719468	/* days from 0000-03-01 to 1970-01-01 */
#define DAY_SECS	86400
/* From the year 0 on, and before the year 10000. */
#define LEAST_US	(-62167219200 * (int64_t)US_PER_SEC)
#define BEYOND_US	(253402300800 * (int64_t)US_PER_SEC)

static int64_t
days_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t in_era = y - era * 400;
	int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * ERA_DAYS + in_era * 365 + in_era / 4 - in_era / 100 +
	    in_year - ERA_TO_1970;
}

struct date {
	int64_t year;
	int month, day;
};

static struct date
date_of(int64_t days)
{
	int64_t z = days + ERA_TO_1970;
	int64_t era = (z >= 0 ? z : z - (ERA_DAYS - 1)) / ERA_DAYS;
	int64_t d = z - era * ERA_DAYS;
	int64_t y = (d - d / 1460 + d / 36524 - d / (ERA_DAYS - 1)) / 365;
	int64_t in_year = d - (365 * y + y / 4 - y / 100);
	int64_t m = (5 * in_year + 2) / 153;
	int month = (int)(m < 10 ? m + 3 : m - 9);

	return (struct date){
		.year = y + era * 400 + (month <= 2),
		.month = month,
		.day = (int)(in_year - (153 * m + 2) / 5 + 1),
	};
}

/* Exactly count digits at *p. */
static bool
take_digits(const char **p, const char *end, int count, int64_t *out)
{
	int64_t v = 0;
	int i;

	if (end - *p < count)
		return false;
	for (i = 0; i < count; i++) {
		unsigned digit = (unsigned)((*p)[i] - '0');

		if (digit > 9)
			return false;
		v = v * 10 + digit;
	}
	*p += count;
	*out = v;
	return true;
}

static bool
take_char(const char **p, const char *end, const char *any_of)
{
	if (*p == end || **p == '\0' || strchr(any_of, **p) == NULL)
		return false;
	(*p)++;
	return true;
}

static bool
take_date(const char **p, const char *end, int64_t *days)
{
	static const int8_t lengths[] = {
		31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31,
	};
	int64_t year, month, day;
	bool leap;

	if (!take_digits(p, end, 4, &year) || !take_char(p, end, "-") ||
	    !take_digits(p, end, 2, &month) || !take_char(p, end, "-") ||
	    !take_digits(p, end, 2, &day))
		return false;
	leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	if (month < 1 || month > 12 || day < 1 ||
	    day > lengths[month - 1] + (month == 2 && leap))
		return false;
	*days = days_of(year, month, day);
	return true;
}

static bool
take_time(const char **p, const char *end, int64_t *us)
{
	int64_t hour, minute, second, digit, scale = 100000;

	if (!take_digits(p, end, 2, &hour) || !take_char(p, end, ":") ||
	    !take_digits(p, end, 2, &minute) || !take_char(p, end, ":") ||
	    !take_digits(p, end, 2, &second))
		return false;
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	*us = ((hour * 60 + minute) * 60 + second) * (int64_t)US_PER_SEC;
	if (!take_char(p, end, "."))
		return true;
	if (!take_digits(p, end, 1, &digit))
		return false;
	do {
		*us += digit * scale;
		scale /= 10;		/* 0 beyond microseconds: cut */
	} while (take_digits(p, end, 1, &digit));
	return true;
}

static bool
take_offset(const char **p, const char *end, int64_t *us)
{
	int64_t hour, minute;
	bool west;

	if (take_char(p, end, "Zz")) {
		*us = 0;
		return true;
	}
	west = *p < end && **p == '-';
	if (!take_char(p, end, "+-") || !take_digits(p, end, 2, &hour) ||
	    !take_char(p, end, ":") || !take_digits(p, end, 2, &minute))
		return false;
	if (hour > 23 || minute > 59)
		return false;
	*us = (hour * 60 + minute) * 60 * (int64_t)US_PER_SEC;
	if (west)
		*us = -*us;
	return true;
}

bool
rfc3339_parse(struct slice text, int64_t *us)
{
	const char *p = text.ptr, *end = text.ptr + text.len;
	int64_t days, time, offset, at;

	if (text.len > RFC3339_READ_MAX)
		return false;
	if (!take_date(&p, end, &days) || !take_char(&p, end, "Tt ") ||
	    !take_time(&p, end, &time) || !take_offset(&p, end, &offset) ||
	    p != end)
		return false;
	at = days * DAY_SECS * (int64_t)US_PER_SEC + time - offset;
	if (at < LEAST_US || at >= BEYOND_US)
		return false;
	*us = at;
	return true;
}

static char *
put_two(char *out, int v)
{
	out[0] = (char)('0' + v / 10);
	out[1] = (char)('0' + v % 10);
	return out + 2;
}

/* digits of v, most significant first. */
static char *
put_digits(char *out, int64_t v, int digits)
{
	int i;

	for (i = digits - 1; i >= 0; i--) {
		out[i] = (char)('0' + v % 10);
		v /= 10;
	}
	return out + digits;
}

size_t
rfc3339_print(char out[RFC3339_TEXT_MAX], int64_t us)
{
	int64_t seconds = us / (int64_t)US_PER_SEC, days;
	int64_t fraction = us % (int64_t)US_PER_SEC;
	int in_day;
	struct date d;
	char *p = out;

	if (fraction < 0) {		/* division rounds to zero, time does not */
		fraction += (int64_t)US_PER_SEC;
		seconds--;
	}
	days = seconds / DAY_SECS - (seconds % DAY_SECS < 0);
	in_day = (int)(seconds - days * DAY_SECS);
	d = date_of(days);

	if (d.year >= 0 && d.year <= 9999)
		p = put_digits(p, d.year, 4);
	else
		p += snprintf(p, RFC3339_TEXT_MAX, "%+05lld", (long long)d.year);
	*p++ = '-';
	p = put_two(p, d.month);
	*p++ = '-';
	p = put_two(p, d.day);
	*p++ = 'T';
	p = put_two(p, in_day / 3600);
	*p++ = ':';
	p = put_two(p, in_day / 60 % 60);
	*p++ = ':';
	p = put_two(p, in_day % 60);
	if (fraction != 0) {
		*p++ = '.';
		if (fraction % 1000 == 0)
			p = put_digits(p, fraction / 1000, 3);
		else
			p = put_digits(p, fraction, 6);
	}
	*p++ = 'Z';
	return (size_t)(p - out);
}
