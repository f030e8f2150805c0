#ifndef MEMWALD_COMMON_HASH_H
#define MEMWALD_COMMON_HASH_H

/*
 * hash - XXH3 with 64 bits: checks of stored batches, hash tables of keys.
 * Not for signatures. Source: the xxHash specification.
 */

#include "common/base.h"
#include "common/slice.h"

uint64_t hash_bytes(const void *, size_t);
/* The same as hash_bytes of all of them in a row. */
uint64_t hash_parts(const struct slice *parts, uint32_t count);

/* The same of bytes that are never all in memory. NULL: no memory. */
struct hash_stream;
struct hash_stream *hash_stream_new(void);
void hash_stream_add(struct hash_stream *, struct slice);
/* Of all that was added; frees it. */
uint64_t hash_stream_end(struct hash_stream *);

#endif
