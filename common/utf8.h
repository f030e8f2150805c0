#ifndef MEMWALD_COMMON_UTF8_H
#define MEMWALD_COMMON_UTF8_H

/*
 * utf8 - one sequence at a time, strictly (Unicode 15, table 3-7): nothing
 * overlong, no surrogates, nothing above U+10FFFF.
 */

#include "common/base.h"

#define UTF8_BAD	(-1)	/* no sequence begins like this */
#define UTF8_SHORT	0	/* the beginning of one, cut at the end */

/* Bytes (1 to 4) of the sequence at p, of which left > 0 bytes are there. */
static inline int
utf8_length(const char *text, size_t left)
{
	const uint8_t *p = (const uint8_t *)text;
	uint8_t low = 0x80, high = 0xbf;
	int need, i;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return UTF8_BAD;
	need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i < need; i++) {
		if ((size_t)i == left)
			return UTF8_SHORT;
		if (p[i] < low || p[i] > high)
			return UTF8_BAD;
		low = 0x80;
		high = 0xbf;
	}
	return need;
}

/* The code point must be one that has an encoding; answers its bytes. */
static inline size_t
utf8_encode(char out[4], uint32_t code)
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

#endif
