#ifndef MEMWALD_ARROW_ZSTD_H
#define MEMWALD_ARROW_ZSTD_H

/*
 * zstd - frames of Zstandard, taken apart into memory of a known size.
 *
 * Only reading: what we write is not compressed. The engine's deletion files
 * are (lance-format.md 6.2).
 *
 * Errors:	CORRUPT if the frame is bad or does not give exactly to_bytes;
 *		never writes more.
 */

#include "common/err.h"
#include "common/slice.h"

struct err zstd_expand(struct slice frame, void *to, size_t to_bytes)
    MUST_CHECK;

#endif
