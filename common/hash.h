#ifndef MEMWALD_COMMON_HASH_H
#define MEMWALD_COMMON_HASH_H

/*
 * hash - XXH3 with 64 bits: checks of stored batches, hash tables of keys.
 * Not for signatures. Source: the xxHash specification.
 */

#include "common/base.h"

uint64_t hash_bytes(const void *, size_t);

#endif
