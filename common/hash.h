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

#endif
