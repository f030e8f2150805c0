#ifndef MEMWALD_WORKER_HTTP_CHUNK_H
#define MEMWALD_WORKER_HTTP_CHUNK_H

/*
 * chunk - the chunked transfer coding, taken apart as it comes (RFC 9112 7.1).
 *
 *	chunk	hex digits (at most 15), extensions that are ignored, CR LF,
 *		that many bytes, CR LF
 *	end	a chunk of size 0 without data, trailer lines that are
 *		ignored, an empty line
 *
 * Strict: CR LF only, no blanks around the size, no control bytes; extensions
 * and trailers together are bounded. State is a few words, so that input may
 * be cut anywhere.
 *
 * Errors:	BAD_INPUT; the decoder must not be used afterwards.
 */

#include "common/base.h"
#include "common/err.h"

struct chunk {
	uint8_t state;
	uint8_t digits;
	uint32_t ignored_bytes;	/* of extensions and trailers */
	uint64_t left;		/* of the current chunk */
	bool done;		/* the end was seen; what follows is not ours */
};

void chunk_init(struct chunk *);

/*
 * Decodes in place: the data in bytes[0, len) is moved together at the front.
 * *data_len: how much that is; *used: how much input was taken, all of it
 * unless done.
 */
struct err chunk_decode(struct chunk *, char *bytes, size_t len,
    size_t *data_len, size_t *used) MUST_CHECK;

#endif
