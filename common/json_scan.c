#include "common/base.h"

#include "common/json_scan.h"
#include "common/number.h"
#include "common/utf8.h"

/*
 * The scanner of a value is a machine whose steps are whole pieces: a bracket,
 * a word, a number, a run of a string. It never looks back, so that where a
 * window ends makes no difference (tests cut at every byte).
 */
enum scan_state {
	SCAN_VALUE,		/* a value is due */
	SCAN_FIRST_ITEM,	/* a value or "]" */
	SCAN_FIRST_NAME,	/* a name or "}" */
	SCAN_NAME,		/* a name, after a comma */
	SCAN_IN_NAME,
	SCAN_COLON,
	SCAN_IN_TEXT,
	SCAN_NEXT,		/* "," or the closing bracket */
	SCAN_END,
};

#define ONES	0x0101010101010101ull
#define HIGHS	0x8080808080808080ull

/* High bits mark bytes that are zero. Above the first one there may be false
 * marks, but only the first one counts. */
static inline uint64_t
zeroes(uint64_t w)
{
	return (w - ONES) & ~w & HIGHS;
}

size_t
json_plain(const char *p, const char *end)
{
	const char *from = p;
	uint64_t w, special;

	for (; end - p >= 8; p += 8) {
		memcpy(&w, p, 8);
		special = zeroes(w ^ ONES * '"') | zeroes(w ^ ONES * '\\') |
		    ((w - ONES * ' ') & ~w & HIGHS) | (w & HIGHS);
		if (special != 0)
			return (size_t)(p - from) +
			    (size_t)__builtin_ctzll(special) / 8;
	}
	for (; p < end; p++) {
		uint8_t c = (uint8_t)*p;

		if (c < ' ' || c >= 0x80 || c == '"' || c == '\\')
			break;
	}
	return (size_t)(p - from);
}

static int
bad(const char **why, const char *text)
{
	*why = text;
	return JSON_BAD;
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of "\uXXXX", p at the backslash. 6, JSON_MORE or JSON_BAD. */
static int
unicode_escape(const char *p, const char *end, uint32_t *unit, const char **why)
{
	uint32_t v = 0;
	int i, digit;

	for (i = 2; i < 6; i++) {
		if (end - p <= i)
			return JSON_MORE;
		digit = hex_value(p[i]);
		if (digit < 0)
			return bad(why, "bad \\u escape");
		v = v << 4 | (uint32_t)digit;
	}
	*unit = v;
	return 6;
}

static int
surrogates(const char *p, const char *end, uint32_t high, uint32_t *code,
    const char **why)
{
	uint32_t low = 0;
	int n;

	if (high >= 0xdc00)
		return bad(why, "lone surrogate");
	if (end - p > 6 && p[6] != '\\')
		return bad(why, "lone surrogate");
	if (end - p > 7 && p[7] != 'u')
		return bad(why, "lone surrogate");
	if (end - p <= 7)
		return JSON_MORE;
	n = unicode_escape(p + 6, end, &low, why);
	if (n <= 0)
		return n;
	if (low < 0xdc00 || low > 0xdfff)
		return bad(why, "lone surrogate");
	*code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
	return 12;
}

int
json_escape(const char *p, const char *end, uint32_t *code, const char **why)
{
	static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *at;
	uint32_t unit = 0;
	int n;

	if (end - p < 2)
		return JSON_MORE;
	if (p[1] != 'u') {
		at = p[1] == '\0' ? NULL : strchr(names, p[1]);
		if (at == NULL)
			return bad(why, "unknown escape in a string");
		*code = (uint8_t)means[at - names];
		return 2;
	}
	n = unicode_escape(p, end, &unit, why);
	if (n <= 0)
		return n;
	if (unit >= 0xd800 && unit <= 0xdfff)
		return surrogates(p, end, unit, code, why);
	*code = unit;
	return n;
}

static const char *
digits(const char *p, const char *end)
{
	while (p < end && (unsigned)(*p - '0') <= 9)
		p++;
	return p;
}

static int
number_ends(const char *from, const char *p, const char *end, const char **why)
{
	/* Only what comes behind shows that it is complete. */
	if (p - from > JSON_PIECE_MAX)
		return bad(why, "number too long");
	if (p == end)
		return JSON_MORE;
	return (int)(p - from);
}

int
json_number(const char *p, const char *end, const char **why)
{
	const char *from = p, *part;

	if (p < end && *p == '-')
		p++;
	part = p;
	p = digits(p, end);
	if (p < end && p == part)
		return bad(why, *p == 'I' ? "Infinity is no JSON number" :
		    "not a JSON value");
	if (p - part > 1 && *part == '0')
		return bad(why, "number begins with 0");
	if (p < end && *p == '.') {
		part = ++p;
		p = digits(p, end);
		if (p < end && p == part)
			return bad(why, "no digit after the point of a number");
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		part = p;
		p = digits(p, end);
		if (p < end && p == part)
			return bad(why, "no digit in the exponent of a number");
	}
	return number_ends(from, p, end, why);
}

int
json_word(const char *p, const char *end, const char **why)
{
	static const struct slice words[] = {
		{ "true", 4 }, { "false", 5 }, { "null", 4 },
	};
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		n = MIN((size_t)(end - p), words[i].len);
		if (memcmp(p, words[i].ptr, n) == 0)
			return n == words[i].len ? (int)n : JSON_MORE;
	}
	if (*p == 'N')
		return bad(why, "NaN is no JSON number");
	if (*p == 'I')
		return bad(why, "Infinity is no JSON number");
	return bad(why, "not a JSON value");
}

/* ---- a value of any shape */

static bool
in_object(const struct json_scan *s)
{
	uint32_t i = s->depth - 1u;

	return (s->nest[i / 64] >> (i % 64) & 1) != 0;
}

static int
open_bracket(struct json_scan *s, bool object, const char **why)
{
	if (s->depth == JSON_DEPTH_MAX)
		return bad(why, "nested too deeply");
	s->nest[s->depth / 64] &= ~(1ull << (s->depth % 64));
	s->nest[s->depth / 64] |= (uint64_t)object << (s->depth % 64);
	s->depth++;
	s->state = object ? SCAN_FIRST_NAME : SCAN_FIRST_ITEM;
	return 1;
}

static void
end_value(struct json_scan *s)
{
	s->state = s->depth == 0 ? SCAN_END : SCAN_NEXT;
}

static int
close_bracket(struct json_scan *s)
{
	s->depth--;
	end_value(s);
	return 1;
}

/* Readers make infinity of the rest, which is no JSON. */
static bool
is_finite(struct slice number)
{
	double d;

	return number_double(number, &d) != NUMBER_OVERFLOW;
}

static int
step_value(struct json_scan *s, const char *p, const char *end, const char **why)
{
	int n;

	switch (*p) {
	case '{':
		return open_bracket(s, true, why);
	case '[':
		return open_bracket(s, false, why);
	case '"':
		s->state = SCAN_IN_TEXT;
		return 1;
	case '-':
	case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		n = json_number(p, end, why);
		if (n > 0 && s->finite && !is_finite(slice_make(p, (size_t)n)))
			return bad(why, "a number beyond the largest double");
		break;
	default:
		n = json_word(p, end, why);
		break;
	}
	if (n > 0)
		end_value(s);
	return n;
}

/* A run of a string, one escape, one sequence, or the quote that ends it. */
static int
step_string(struct json_scan *s, const char *p, const char *end, const char **why)
{
	size_t run = json_plain(p, MIN(end, p + INT16_MAX));
	uint32_t code = 1;
	int n;

	if (run > 0)
		return (int)run;
	if (*p == '"') {
		if (s->state == SCAN_IN_NAME)
			s->state = SCAN_COLON;
		else
			end_value(s);
		return 1;
	}
	if (*p == '\\') {
		n = json_escape(p, end, &code, why);
		s->saw_nul |= n > 0 && code == 0;
		return n;
	}
	if ((uint8_t)*p < ' ')
		return bad(why, "control character in a string");
	n = utf8_length(p, (size_t)(end - p));
	return n == UTF8_BAD ? bad(why, "a string is not UTF-8") : n;
}

static int
step_next(struct json_scan *s, const char *p, const char **why)
{
	if (*p == ',') {
		s->state = in_object(s) ? SCAN_NAME : SCAN_VALUE;
		return 1;
	}
	if (*p == (in_object(s) ? '}' : ']'))
		return close_bracket(s);
	return bad(why, in_object(s) ? "no \",\" or \"}\" after a value" :
	    "no \",\" or \"]\" after a value");
}

/* p < end, and no blank unless in a string. */
static int
step(struct json_scan *s, const char *p, const char *end, const char **why)
{
	switch ((enum scan_state)s->state) {
	case SCAN_FIRST_ITEM:
		if (*p == ']')
			return close_bracket(s);
		return step_value(s, p, end, why);
	case SCAN_VALUE:
		return step_value(s, p, end, why);
	case SCAN_FIRST_NAME:
		if (*p == '}')
			return close_bracket(s);
		/* fallthrough */
	case SCAN_NAME:
		if (*p != '"')
			return bad(why, "no name where one is due");
		s->state = SCAN_IN_NAME;
		return 1;
	case SCAN_COLON:
		if (*p != ':')
			return bad(why, "no \":\" after a name");
		s->state = SCAN_VALUE;
		return 1;
	case SCAN_IN_NAME:
	case SCAN_IN_TEXT:
		return step_string(s, p, end, why);
	case SCAN_NEXT:
		return step_next(s, p, why);
	case SCAN_END:
		break;
	}
	MUST(!"a scan that has ended");
	return JSON_BAD;
}

static bool
keep_run(struct buf *keep, const char *from, const char *to)
{
	return keep == NULL || buf_append(keep, from, (size_t)(to - from));
}

enum json_scan_outcome
json_scan(struct json_scan *s, const char **at, const char *end, struct buf *keep,
    const char **why)
{
	const char *p = *at, *from = p;	/* from: not kept yet */
	int n = 1;

	while (p < end && s->state != SCAN_END) {
		if (json_is_blank(*p) && s->state != SCAN_IN_NAME &&
		    s->state != SCAN_IN_TEXT) {
			if (!keep_run(keep, from, p))
				return JSON_SCAN_FULL;
			from = ++p;
			continue;
		}
		n = step(s, p, end, why);
		if (n <= 0)
			break;
		p += n;
	}
	if (n == JSON_BAD)
		return JSON_SCAN_BAD;
	if (!keep_run(keep, from, p))
		return JSON_SCAN_FULL;
	*at = p;
	return s->state == SCAN_END ? JSON_SCAN_DONE : JSON_SCAN_MORE;
}

/* A number at the very end is complete, but only a byte behind it would show
 * that: so the last number is judged by itself. */
static bool
is_last_number(const struct json_scan *s, const char *p, const char *end)
{
	char text[JSON_PIECE_MAX + 1];
	const char *why;
	size_t n = (size_t)(end - p);

	if (s->depth != 0 || s->state != SCAN_VALUE || n == 0 ||
	    n > JSON_PIECE_MAX)
		return false;
	memcpy(text, p, n);
	text[n] = ' ';
	return (*p == '-' || (unsigned)(*p - '0') <= 9) &&
	    json_number(text, text + n + 1, &why) == (int)n;
}

bool
json_is_valid(struct slice s)
{
	struct json_scan scan = { 0 };
	const char *p = s.ptr, *end = s.ptr + s.len, *why;

	switch (json_scan(&scan, &p, end, NULL, &why)) {
	case JSON_SCAN_DONE:
		break;
	case JSON_SCAN_MORE:
		return is_last_number(&scan, p, end);
	default:
		return false;
	}
	while (p < end && json_is_blank(*p))
		p++;
	return p == end;
}
