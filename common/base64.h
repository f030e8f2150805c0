#ifndef MEMWALD_COMMON_BASE64_H
#define MEMWALD_COMMON_BASE64_H

/*
 * base64 - RFC 4648 section 4, strict: standard alphabet, "=" padding there
 * and complete, unused bits zero, no blanks and no line breaks.
 *
 * The decoder takes its text in pieces of any size, since a payload may be
 * larger than what the socket brings at once.
 */

#include "common/base.h"
#include "common/slice.h"

struct base64 {			/* zero it to begin */
	uint32_t bits;		/* of the characters of an unfinished group */
	uint8_t have;		/* characters of it, 0 to 3, padding counted */
	bool padded;		/* "=" seen: only one more may follow */
};

/* Bytes that decoding n characters makes at most, whatever went before. */
#define BASE64_ROOM(n)	((n) / 4 * 3 + 6)
#define BASE64_LENGTH(bytes) (((bytes) + 2) / 3 * 4)

/*
 * Decodes up to the first character that does not belong there, and answers
 * how many it took; *out_len grows by the bytes written behind out. After the
 * padding nothing belongs there any more.
 */
size_t base64_decode(struct base64 *, struct slice text, char *out,
    size_t *out_len);
/* Whether all that was taken is a whole text. */
bool base64_finish(const struct base64 *) MUST_CHECK;
/* Writes BASE64_LENGTH(bytes.len) characters. */
void base64_encode(struct slice bytes, char *out);

#endif
