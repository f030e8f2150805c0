#ifndef MEMWALD_COMMON_JSON_SCAN_H
#define MEMWALD_COMMON_JSON_SCAN_H

/*
 * json_scan - the smallest pieces of JSON, and one value of any shape, checked
 * strictly (RFC 8259) as its bytes come.
 *
 * All readers of JSON here work on a window of bytes. A piece that the window
 * cuts is not consumed: the caller brings it again with more behind it. Pieces
 * are small: JSON_PIECE_MAX bytes at most, which is what has to be kept between
 * two windows. Strings and whitespace are consumed in runs of any length.
 *
 * Errors:	a scan tells what is wrong as a literal; where it was is the
 *		caller's to add.
 */

#include "common/base.h"
#include "common/buf.h"
#include "common/slice.h"

#define JSON_PIECE_MAX	1024	/* a number; all else is shorter */
#define JSON_DEPTH_MAX	128	/* of arrays and objects in each other */

/* What json_* answer where they do not answer a length. */
#define JSON_MORE	0	/* cut by the end of the window */
#define JSON_BAD	(-1)	/* *why is set */

static inline bool
json_is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Bytes at p that stand for themselves in a string: ASCII from blank on, but
 * for the quote and the backslash. */
size_t json_plain(const char *p, const char *end);
/* Length of the escape at p ("\n", "\u00e9", "\ud83d\ude00") and its code
 * point. */
int json_escape(const char *p, const char *end, uint32_t *code,
    const char **why);
/* Length of the number at p; the byte after it must be in the window. */
int json_number(const char *p, const char *end, const char **why);
/* Length of true, false or null at p. */
int json_word(const char *p, const char *end, const char **why);

struct json_scan {		/* zero it to begin */
	uint64_t nest[JSON_DEPTH_MAX / 64];	/* bit: in an object */
	uint8_t depth;
	uint8_t state;
	bool saw_nul;		/* "\u0000" somewhere */
	bool finite;		/* asked for: a number beyond a double is bad */
};

enum json_scan_outcome { JSON_SCAN_MORE, JSON_SCAN_DONE, JSON_SCAN_BAD,
    JSON_SCAN_FULL };

/*
 * Takes bytes from *p on until the value ends (DONE: *p stands behind it) or
 * the window does. If keep is not NULL the value is appended to it, without
 * the blanks between its pieces and otherwise byte for byte.
 */
enum json_scan_outcome json_scan(struct json_scan *, const char **p,
    const char *end, struct buf *keep, const char **why) MUST_CHECK;

/* Whether a text is exactly one JSON value, blanks around it allowed. */
bool json_is_valid(struct slice) MUST_CHECK;

#endif
