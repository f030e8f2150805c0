#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "filter_rows.h"
#include "worker/store/filter_parts.h"

/*
 * Some rows of every type (filter_rows.h), and of each row of the grammar which
 * of them it gives: "ab" is rows a and b. Texts of errors are exact.
 */

struct row_case {
	const char *text, *want;
};

static void
see(const struct rows *r, const char *text, const char *want)
{
	char got[64];

	rows_matching(r, text, got);
	if (strcmp(got, want) != 0)
		fail_msg("%s\n gives %s\n want  %s", text, got, want);
}

static void
see_all(const struct row_case *cases, size_t count)
{
	struct rows r;
	size_t i;

	rows_make(&r);
	for (i = 0; i < count; i++)
		see(&r, cases[i].text, cases[i].want);
	rows_free(&r);
}

static void
test_comparisons(void **state)
{
	static const struct row_case cases[] = {
		{ "i32 = 2", "b" }, { "i32 == 2", "b" },
		{ "i32 != 2", "acde" }, { "i32 <> 2", "acde" },
		{ "i32 < 3", "ab" }, { "i32 <= 3", "abc" },
		{ "i32 > 3", "de" }, { "i32 >= 3", "cde" },
		{ "3 < i32", "de" }, { "3 >= i32", "abc" },
		{ "i32>-1", "abcde" }, { "i32=+1", "a" },
		{ " i32\t=\n1 ", "a" },
		{ "i32 = i32", "abcde" }, { "i32 < d", "bcd" },
		{ "1 = 1", "abcdef" }, { "1 = 2", "" }, { "1 < 1.5", "abcdef" },
		{ "'a' < 'b'", "abcdef" }, { "TRUE = true", "abcdef" },
		{ "s = 'it''s'", "ae" }, { "s = ''", "b" }, { "s > 'z'", "d" },
		{ "s >= 'it''s'", "acde" }, { "'z' < s", "d" },
		{ "ls = '50%'", "c" }, { "s < ls", "be" }, { "s != ls", "abcde" },
		{ "b = TRUE", "ad" }, { "b = false", "be" }, { "b < true", "be" },
		{ "b != TRUE", "be" }, { "b", "ad" }, { "NOT b", "be" },
		{ "`i32` = 1", "a" }, { "\"i32\" = 1", "a" },
		{ "`a b``c` = 1", "a" }, { "\"say \"\"x\"\"\" = 2", "b" },
		{ "timestamp = 1", "a" }, { "version = 1", "a" },
		{ "TRUE", "abcdef" }, { "false OR i32 = 1", "a" },
	};

	(void)state;
	see_all(cases, ARRAY_LEN(cases));
}

static void
test_numbers(void **state)
{
	static const struct row_case cases[] = {
		/* 2^53 and its neighbours, as integers, decimals, doubles. */
		{ "i64 = 9007199254740993", "a" },
		{ "i64 = 9007199254740992", "b" },
		{ "i64 = 9007199254740993.0", "a" },
		{ "i64 = 9007199254740992.0", "b" },
		{ "i64 = 9007199254740992.5", "" },
		{ "i64 > 9007199254740992.5", "ae" },
		{ "i64 < 9007199254740992.5", "bcd" },
		{ "i64 = 90071992547409.93e2", "a" },
		{ "i64 = 0.9007199254740993e16", "a" },
		{ "i64 = 9007199254740993000e-3", "a" },
		{ "i64 <= 9007199254740992.0e0", "bcd" },
		{ "i64 = d", "b" }, { "i64 > d", "ae" }, { "d < i64", "ae" },
		{ "i64 IN (9007199254740993.0, -9223372036854775808)", "ad" },
		{ "i64 = 9223372036854775807", "e" },
		{ "i64 = 9223372036854775808", "" },
		{ "i64 < 9223372036854775808", "abcde" },
		{ "i64 < 1e30", "abcde" }, { "i64 > -1e30", "abcde" },
		{ "i64 >= -9223372036854775808", "abcde" },
		{ "i64 > -9223372036854775808.5", "abcde" },
		{ "i64 < -9223372036854775808.5", "" },
		{ "i64 = -1", "c" }, { "i64 > -1.5", "abce" },
		{ "i64 < -0.5", "cd" },
		{ "i32 > 2.5", "cde" }, { "i32 = 3.0", "c" }, { "i32 = 3e0", "c" },
		{ "i32 = 30e-1", "c" }, { "i32 = .3e1", "c" }, { "i32 > .5", "abcde" },
		{ "i32 = 00003", "c" }, { "i32 = 0e99999", "" },
		{ "i32 > 1e-99999", "abcde" }, { "i32 IN (1, 2.5, 3)", "ac" },
		{ "i32 BETWEEN 1.5 AND 3", "bc" },
		/* A literal beside a float is rounded as the stored value was. */
		{ "f = 0.1", "a" }, { "f < 0.1", "e" }, { "f <= 0.1", "ae" },
		{ "f = 16777217", "b" }, { "f IN (0.1, 5)", "a" },
		{ "f BETWEEN 0.1 AND 0.2", "a" }, { "0.1 = f", "a" },
		{ "f < 1e39", "abde" }, { "f > 1e39", "c" }, { "f = 1e39", "" },
		{ "f = 0", "e" }, { "f = -0.0", "e" }, { "f >= 0", "abcde" },
		{ "d = 9007199254740993", "b" }, { "d = 0.1", "a" },
		{ "f = d", "ce" }, { "f > d", "a" },
		/* NaN: equal to itself, above all. */
		{ "d > 1e300", "c" }, { "d != 0", "abcd" }, { "d = d", "abcde" },
		{ "i32 < f", "bcd" },
		{ "version(v) = 12", "a" }, { "version(v) BETWEEN 7 AND 12", "ab" },
		{ "version(v) IS NULL", "cdf" }, { "VERSION(v) > 0", "ab" },
		{ "version( v ) < i32", "e" }, { "version(v) IN (0, 7)", "be" },
		{ "version(v) IS NOT NULL AND NOT version(v) = 0", "ab" },
	};

	(void)state;
	see_all(cases, ARRAY_LEN(cases));
}

static void
test_predicates(void **state)
{
	static const struct row_case cases[] = {
		{ "i32 IN (1)", "a" }, { "i32 IN (5,1 , 3)", "ace" },
		{ "i32 NOT IN (1, 2)", "cde" }, { "s IN ('', 'zz')", "bd" },
		{ "1 IN (1, 2)", "abcdef" }, { "b IN (TRUE)", "ad" },
		{ "i32 IN (9,8,7,6,5,4,9,9,8,7,6,-5,10,11,12,13,1)", "ade" },
		{ "t IN (timestamp '2026-01-01')", "b" },
		{ "i32 BETWEEN 2 AND 4", "bcd" }, { "i32 BETWEEN 4 AND 2", "" },
		{ "i32 NOT BETWEEN 2 AND 4", "ae" },
		{ "3 BETWEEN i32 AND i64", "ab" },
		{ "s BETWEEN 'a' AND 'k'", "ace" },
		{ "i32 BETWEEN 1 AND 2 AND b", "a" },
		{ "NOT i32 BETWEEN 1 AND 2 OR b", "acde" },
		{ "i32 IS NULL", "f" }, { "i32 IS NOT NULL", "abcde" },
		{ "NOT i32 IS NULL", "abcde" }, { "1 IS NULL", "" },
		{ "x IS NULL", "bf" }, { "list IS NOT NULL", "ace" },
		{ "vec IS NULL", "bdf" }, { "b IS NULL", "cf" },
		{ "b IS TRUE", "ad" }, { "b IS NOT TRUE", "bcef" },
		{ "b IS FALSE", "be" }, { "b IS NOT FALSE", "acdf" },
		{ "true IS TRUE", "abcdef" }, { "b is not null", "abde" },
		{ "t = timestamp '2026-01-01'", "b" },
		{ "t > timestamp '2026-01-01 00:00:00'", "c" },
		{ "t > timestamp '2026-01-01T00:00:00Z'", "c" },
		{ "t > TIMESTAMP '2026-01-01T00:00:00+01:00'", "bc" },
		{ "t = Timestamp '2026-01-01 00:00:01.5'", "c" },
		{ "tz = timestamp '2026-01-01'", "b" }, { "t = tz", "abcde" },
		{ "t BETWEEN timestamp '2026-01-01' AND "
		  "timestamp '2026-01-01T00:00:02Z'", "bc" },
	};

	(void)state;
	see_all(cases, ARRAY_LEN(cases));
}

static void
test_precedence(void **state)
{
	static const struct row_case cases[] = {
		{ "i32 = 1 OR i32 = 2 AND i32 = 3", "a" },
		{ "(i32 = 1 OR i32 = 2) AND i32 = 2", "b" },
		{ "i32 = 2 AND i32 = 3 OR i32 = 1", "a" },
		{ "NOT i32 = 1 AND i32 < 3", "b" },
		{ "NOT (i32 = 1 AND i32 < 3)", "bcde" },
		{ "NOT (i32 = 1 OR i32 = 3) AND NOT (i32 = 2)", "de" },
		{ "NOT NOT i32 = 1", "a" }, { "NOT (NOT (i32 = 1))", "a" },
		{ "((((i32 = 1))))", "a" },
		{ "i32 = 1 OR (i32 = 2 OR (i32 = 3 OR (i32 = 4)))", "abcd" },
		{ "not i32 = 1 and i32 = 2 or i32 = 3", "bc" },
		{ "(i32 > 1 AND (b OR NOT b)) AND s IS NOT NULL", "bde" },
		{ "i32 = 1 OR b AND NOT b OR s = ''", "ab" },
	};

	(void)state;
	see_all(cases, ARRAY_LEN(cases));
}

static void
test_like(void **state)
{
	static const struct {
		const char *text, *pattern;
		bool want;
	} cases[] = {
		{ "", "", true }, { "a", "", false }, { "", "%", true },
		{ "", "_", false }, { "abc", "abc", true }, { "abc", "ab", false },
		{ "abc", "a%", true }, { "abc", "%c", true }, { "abc", "%b%", true },
		{ "abc", "%d%", false }, { "abc", "a_c", true },
		{ "abc", "___", true }, { "abc", "____", false },
		{ "abc", "__", false }, { "abc", "%%%", true },
		{ "aXbXc", "a%X%c", true }, { "abc", "abc%abc", false },
		{ "abab", "ab%ab", true }, { "aba", "ab%ba", false },
		{ "mississippi", "m%iss%pp_", true },
		{ "mississippi", "%_ss_ss_%", true },
		{ "mississippi", "%sip%iss%", false },
		/* One code point, however many bytes. */
		{ "a\xc3\xa9" "b", "a_b", true }, { "a\xc3\xa9" "b", "a__b", false },
		{ "\xe4\xb8\x96", "_", true }, { "\xf0\x9f\x99\x82", "_", true },
		{ "\xf0\x9f\x99\x82", "____", false },
		{ "x\xe4\xb8\x96", "%_", true }, { "x\xe4\xb8\x96y", "%_y%", true },
		{ "\xe4\xb8\x96", "%__", false }, { "\xe4\xb8\x96x", "_%x", true },
		/* Bytes that are no text: one each. */
		{ "a\xff\xfe" "b", "a__b", true }, { "\xff", "%_", true },
		{ "\x80\x80", "%__", true }, { "\xc3", "_", true },
		/* What is taken as it is. */
		{ "50%", "50\\%", true }, { "50x", "50\\%", false },
		{ "a_b", "a\\_b", true }, { "axb", "a\\_b", false },
		{ "a\\b", "a\\\\b", true }, { "ab", "a\\b", true },
		{ "a\\", "a\\", true }, { "a\\", "%\\", true },
		{ "a\nb", "a_b", true }, { "A", "a", false },
	};
	const struct filter_pattern *p;
	struct arena arena;
	const char *why;
	size_t i;

	(void)state;
	arena_init(&arena, 1u << 20);
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		assert_false(err_is(filter_like_make(
		    slice_of(cases[i].pattern), &arena, &p, &why)));
		assert_null(why);
		if (filter_like_match(p, slice_of(cases[i].text)) !=
		    cases[i].want)
			fail_msg("'%s' LIKE '%s'", cases[i].text,
			    cases[i].pattern);
	}
	arena_free(&arena);
}

/* By backtracking over code points, as the definition goes. */
static bool
like_naive(const char *s, const char *p)
{
	size_t n;

	if (*p == '\0')
		return *s == '\0';
	if (*p == '%')
		return like_naive(s, p + 1) ||
		    (*s != '\0' && like_naive(s + 1, p));
	if (*s == '\0')
		return false;
	if (*p == '_') {
		for (n = 1; ((unsigned char)s[n] & 0xc0) == 0x80; n++)
			;
		return like_naive(s + n, p + 1);
	}
	return *s == *p && like_naive(s + 1, p + 1);
}

static void
test_like_random(void **state)
{
	static const char *const letters[] = { "a", "b", "\xc3\xa9" };
	static const char *const signs[] = { "a", "b", "\xc3\xa9", "_", "%" };
	const struct filter_pattern *p;
	struct arena arena;
	const char *why;
	uint32_t i, k;

	(void)state;
	srand(1);
	arena_init(&arena, 1u << 20);
	for (i = 0; i < 20000; i++) {
		char text[64] = "", pattern[64] = "";
		int text_n = rand() % 9, pattern_n = rand() % 7;

		for (k = 0; (int)k < text_n; k++)
			strcat(text, letters[rand() % 3]);
		for (k = 0; (int)k < pattern_n; k++)
			strcat(pattern, signs[rand() % 5]);
		arena_reset(&arena);
		assert_false(err_is(filter_like_make(slice_of(pattern), &arena,
		    &p, &why)));
		if (filter_like_match(p, slice_of(text)) !=
		    like_naive(text, pattern))
			fail_msg("'%s' LIKE '%s'", text, pattern);
	}
	arena_free(&arena);
}

static void
test_three_values(void **state)
{
	static const char *const operands[] = { "yes", "nope", "maybe" };
	/* 't', 'f' and 'u' of AND and OR, by left and right operand. */
	static const char both[3][4] = { "tfu", "fff", "ufu" };
	static const char any[3][4] = { "ttt", "tfu", "tuu" };
	static const char not[] = "ftu";
	struct rows r;
	char text[128];
	int i, k;

	(void)state;
	rows_make(&r);
	for (i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "NOT %s", operands[i]);
		see(&r, text, not[i] == 't' ? "abcdef" : "");
		snprintf(text, sizeof(text), "NOT (NOT %s)", operands[i]);
		see(&r, text, not[i] == 'f' ? "abcdef" : "");
		for (k = 0; k < 3; k++) {
			snprintf(text, sizeof(text), "%s AND %s", operands[i],
			    operands[k]);
			see(&r, text, both[i][k] == 't' ? "abcdef" : "");
			snprintf(text, sizeof(text), "NOT (%s AND %s)",
			    operands[i], operands[k]);
			see(&r, text, both[i][k] == 'f' ? "abcdef" : "");
			snprintf(text, sizeof(text), "%s OR %s", operands[i],
			    operands[k]);
			see(&r, text, any[i][k] == 't' ? "abcdef" : "");
			snprintf(text, sizeof(text), "NOT (%s OR %s)",
			    operands[i], operands[k]);
			see(&r, text, any[i][k] == 'f' ? "abcdef" : "");
		}
	}
	rows_free(&r);
}

static void
test_errors(void **state)
{
	static const struct row_case cases[] = {
		{ "", "1: expected a column or a value, found the end" },
		{ "   ", "4: expected a column or a value, found the end" },
		{ "i32", "1: expected a comparison, or a boolean column, "
		  "found a number (column 'i32')" },
		{ "i32 =", "6: expected a column or a value, found the end" },
		{ "i32 = 1 i32", "9: expected AND, OR or the end, found i32" },
		{ "i32 = 1)", "8: expected AND, OR or the end, found )" },
		{ "(i32 = 1", "1: expected a ')' for this '(', found the end" },
		{ "(i32 = 1 x", "10: expected AND, OR or ')', found x" },
		{ "i32 = 1 AND", "12: expected a column or a value, found the "
		  "end" },
		{ "AND i32 = 1", "1: expected a column or a value, found AND" },
		{ "nix = 1", "1: there is no column 'nix'" },
		{ "I32 = 1", "1: there is no column 'I32'" },
		{ "i32 = 1 OR _seq = 2", "12: there is no column '_seq'" },
		{ "`\xc3\xa9\xc3\xa9` = 1", "1: there is no column "
		  "'\xc3\xa9\xc3\xa9'" },
		{ "s = '\xc3\xa9\xc3\xa9' AND nix = 1", "14: there is no column "
		  "'nix'" },
		{ "\"\" = 1", "1: there is no column ''" },
		{ "i32 = 'x'", "7: expected a number (column 'i32') to compare "
		  "with, found text" },
		{ "s = 1", "5: expected text (column 's') to compare with, "
		  "found a number" },
		{ "t > '2026-01-01'", "5: expected a timestamp (column 't') to "
		  "compare with, found text" },
		{ "t > 5", "5: expected a timestamp (column 't') to compare "
		  "with, found a number" },
		{ "b = 1", "5: expected a boolean (column 'b') to compare with, "
		  "found a number" },
		{ "x = 'a'", "1: expected something that compares, found a list, "
		  "vector or binary (column 'x'): only IS NULL can be asked of "
		  "it" },
		{ "1 = vec", "5: expected something that compares, found a list, "
		  "vector or binary (column 'vec'): only IS NULL can be asked "
		  "of it" },
		{ "i32 = NULL", "7: nothing compares with NULL, expected IS NULL "
		  "or IS NOT NULL" },
		{ "i32 IN (1, NULL)", "12: expected a value, found NULL" },
		{ "i32 IN (1, i32)", "12: expected a value, found i32" },
		{ "i32 IN ()", "9: expected a value, found )" },
		{ "i32 IN 1", "8: expected '(' after IN, found 1" },
		{ "i32 IN (1 2)", "11: expected ',' or ')', found 2" },
		{ "i32 IN (1, 'a')", "12: expected a number (column 'i32') to "
		  "compare with, found text" },
		{ "i32 BETWEEN 1", "14: expected AND of a BETWEEN, found the "
		  "end" },
		{ "i32 BETWEEN 1 AND 'x'", "19: expected a number (column 'i32') "
		  "to compare with, found text" },
		{ "i32 NOT = 1", "9: expected IN, BETWEEN or LIKE, found =" },
		{ "i32 IS 1", "8: expected NULL, TRUE or FALSE, found 1" },
		{ "i32 IS TRUE", "1: expected a boolean before IS, found a "
		  "number (column 'i32')" },
		{ "i32 LIKE 'x'", "1: expected text before LIKE, found a number "
		  "(column 'i32')" },
		{ "s LIKE 5", "8: expected a pattern in quotes, found 5" },
		{ "s LIKE ls", "8: expected a pattern in quotes, found ls" },
		{ "s = 'x", "5: expected a closing '" },
		{ "`s = 1", "1: expected a closing `" },
		{ "s = 'x' ; drop", "9: expected a column, a value or an "
		  "operator, found ;" },
		{ "i32 = \xc2\xa7", "7: expected a column, a value or an "
		  "operator, found \xc2\xa7" },
		{ "i32 = 1.", "8: expected the end of the number before ." },
		{ "i32 = 1e", "8: expected digits of an exponent" },
		{ "i32 = 12x", "9: expected the end of the number before x" },
		{ "i32 = 1e999", "7: the number is too large" },
		{ "i32 + 1 = 2", "5: expected a column, a value or an operator, "
		  "found +" },
		{ "(i32) = 1", "2: expected a comparison, or a boolean column, "
		  "found a number (column 'i32')" },
		{ "t = timestamp 'soon'", "15: expected a time such as "
		  "'2026-11-01T08:00:01Z', '2026-11-01 08:00:01' or "
		  "'2026-11-01'" },
		{ "t = timestamp '2026-02-30'", "15: expected a time such as "
		  "'2026-11-01T08:00:01Z', '2026-11-01 08:00:01' or "
		  "'2026-11-01'" },
		{ "version(i32) = 1", "9: expected a text column, found a number "
		  "(column 'i32')" },
		{ "version('a') = 1", "9: expected a column or a value, found "
		  "'a'" },
		{ "version(s = 1", "11: expected ')', found =" },
		{ "s = '\xff'", "6: expected UTF-8" },
		{ "s = 'a' or s = cccccccccccccccccccccccccccccccccccccccccccccc "
		  "or '", "16: there is no column "
		  "'cccccccccccccccccccccccccccccccccccccccccccccc'" },
	};
	struct rows r;
	char got[600], want[600];
	size_t i;

	(void)state;
	rows_make(&r);
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		rows_error(&r, cases[i].text, got, sizeof(got));
		snprintf(want, sizeof(want), "filter, position %s",
		    cases[i].want);
		if (strcmp(got, want) != 0)
			fail_msg("%s\n says %s\n want %s", cases[i].text, got,
			    want);
	}
	rows_free(&r);
}

static void
test_bounds(void **state)
{
	char *text = malloc(1u << 20);
	struct rows r;
	char got[600];
	uint32_t i;
	char *p;

	(void)state;
	assert_non_null(text);
	rows_make(&r);
	for (i = 0, p = text; i < FILTER_NESTING_MAX; i++)
		*p++ = '(';
	p = stpcpy(p, "i32 = 1");
	for (i = 0; i < FILTER_NESTING_MAX; i++)
		*p++ = ')';
	*p = '\0';
	see(&r, text, "a");
	memmove(text + 1, text, strlen(text) + 1);
	rows_error(&r, text, got, sizeof(got));
	assert_string_equal(got, "filter, position 65: the filter is nested "
	    "too deeply");
	/* A predicate, SKIP and OR each. */
	p = stpcpy(text, "i32 = 1");
	for (i = 3; i < FILTER_STEPS_MAX; i += 3)
		p = stpcpy(p, " OR i32=2");
	see(&r, text, "ab");
	stpcpy(p, " OR i32=2 OR i32 = 3");
	rows_error(&r, text, got, sizeof(got));
	assert_non_null(strstr(got, "too many conditions"));
	/* A list has no such bound. */
	p = stpcpy(text, "i32 IN (1");
	for (i = 0; i < 20000; i++)
		p += sprintf(p, ",%u", 2 * i + 1);
	stpcpy(p, ")");
	see(&r, text, "ace");
	p = stpcpy(text, "s LIKE '%_");
	for (i = 1; i < FILTER_SEARCH_MAX; i++)
		*p++ = 'x';
	stpcpy(p, "%'");
	see(&r, text, "");
	stpcpy(p, "x%'");
	rows_error(&r, text, got, sizeof(got));
	assert_string_equal(got, "filter, position 8: between two % a part "
	    "with _ is too long");
	rows_free(&r);
	free(text);
}

/* A row of a column that the left side rules out is not read. */
static struct err
counting_column(void *ctx, uint32_t column, struct array *out)
{
	struct counting *c = ctx;

	c->asked[column]++;
	*out = c->batch->columns[column];
	return OK;
}

static void
see_asked(const struct rows *r, const char *text, int i32, int s)
{
	struct counting c = { .batch = &r->batch };
	struct filter_rows rows = { r->batch.row_count, counting_column, &c };
	const struct filter *f;
	struct arena arena;
	uint64_t match[FILTER_WORDS(6)];

	arena_init(&arena, 1u << 20);
	assert_false(err_is(filter_parse(&r->shape, slice_of(text), &arena,
	    &f)));
	assert_false(err_is(filter_eval(f, &rows, &arena, match)));
	assert_int_equal(c.asked[C_i32], i32);
	assert_int_equal(c.asked[C_s], s);
	assert_int_equal(filter_uses(f, C_s), 1);
	assert_int_equal(filter_uses(f, C_ls), 0);
	arena_free(&arena);
}

static void
test_reads_no_more_than_needed(void **state)
{
	struct rows r;

	(void)state;
	rows_make(&r);
	see_asked(&r, "i32 = 1 AND s = '' AND s = 'x' AND i32 = 3", 1, 1);
	see_asked(&r, "i64 = 77 AND s = ''", 0, 0);
	see_asked(&r, "nope AND (s = '' OR i32 = 1)", 0, 0);
	see_asked(&r, "yes OR s = '' AND i32 = 1", 0, 0);
	see_asked(&r, "(i64 = 77 AND s = '') OR i32 = 1", 1, 0);
	/* Unknown is as good as false, unless a NOT is around it. */
	see_asked(&r, "maybe AND s = ''", 0, 0);
	see_asked(&r, "NOT (maybe AND s = '')", 0, 1);
	see_asked(&r, "NOT (nope AND s = '')", 0, 0);
	rows_free(&r);
}

static void
test_made_by_program(void **state)
{
	const struct filter *text, *truth, *both, *parsed;
	struct arena arena;
	struct rows r;
	char got[64], name[] = "it's";

	(void)state;
	rows_make(&r);
	arena_init(&arena, 1u << 20);
	assert_false(err_is(filter_text(&r.shape, C_s, slice_of(name), &arena,
	    &text)));
	memset(name, 'x', 4);		/* it need not stay */
	rows_given(&r, text, got);
	assert_string_equal(got, "ae");
	assert_false(err_is(filter_bool(&r.shape, C_b, false, &arena, &truth)));
	rows_given(&r, truth, got);
	assert_string_equal(got, "be");
	assert_false(err_is(filter_parse(&r.shape,
	    SLICE("i32 = 1 OR i32 = 2 AND (s = '' OR i32 = 9)"), &arena,
	    &parsed)));
	assert_false(err_is(filter_both(truth, parsed, &arena, &both)));
	rows_given(&r, both, got);
	assert_string_equal(got, "b");
	assert_false(err_is(filter_both(both, text, &arena, &both)));
	rows_given(&r, both, got);
	assert_string_equal(got, "");
	assert_true(filter_uses(both, C_s) && filter_uses(both, C_b));
	assert_false(err_is(filter_both(NULL, text, &arena, &both)));
	assert_ptr_equal(both, text);
	assert_false(err_is(filter_both(text, NULL, &arena, &both)));
	assert_ptr_equal(both, text);
	assert_false(err_is(filter_both(NULL, NULL, &arena, &both)));
	assert_null(both);
	arena_free(&arena);
	rows_free(&r);
}

/* Whatever allocation fails, it is an error and nothing else. */
static void
test_memory(void **state)
{
	static const char text[] = "i32 IN (1,2,3) AND s LIKE 'a%b' OR "
	    "version(v) = 7 AND t > timestamp '2026-01-01' OR f = 0.5";
	const struct filter *f;
	struct arena arena;
	struct err e = FAIL(NO_MEMORY, "");
	struct rows r;
	size_t cap;

	(void)state;
	rows_make(&r);
	for (cap = 0; e.kind == ERR_NO_MEMORY && cap < (1u << 20); cap += 16) {
		arena_init(&arena, cap);
		e = filter_parse(&r.shape, SLICE(text), &arena, &f);
		arena_free(&arena);
	}
	assert_int_equal(e.kind, ERR_OK);
	rows_free(&r);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comparisons),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_predicates),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_like),
		cmocka_unit_test(test_like_random),
		cmocka_unit_test(test_three_values),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_reads_no_more_than_needed),
		cmocka_unit_test(test_made_by_program),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
