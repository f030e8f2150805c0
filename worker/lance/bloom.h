#ifndef MEMWALD_LANCE_BLOOM_H
#define MEMWALD_LANCE_BLOOM_H

/*
 * bloom - which keys a source certainly does not have.
 *
 * A split block bloom filter: 32 byte blocks of eight u32 words, and a key sets
 * one bit in each word of its block. One cache line answers a key. The bits
 * are those of Lance's bloom_filter.bin, which has 1024 blocks and no header.
 *
 * Hash h of a key: SipHash-1-3 with a zero key over 00, the key's bytes, ff.
 * Block ((h >> 32) * blocks) >> 32; in word i bit ((u32)h * SALT[i]) >> 27.
 *
 * Lifetime:	the bits are the caller's.
 * Locking:	none.
 * Errors:	none.
 * Source:	lance-format.md 7.4.
 */

#include "common/base.h"
#include "common/slice.h"

#define BLOOM_BLOCK_BYTES	32u
#define BLOOM_LANCE_BYTES	32768u	/* what a generation's file has */

uint64_t bloom_hash(struct slice key);
/* Bytes for so many keys at about 1 % false answers: a whole number of blocks. */
size_t bloom_size_bytes(uint64_t key_count);
/* False answers are rare: the filter is large enough for so many keys. */
bool bloom_suits(size_t bytes, uint64_t key_count);
void bloom_add(uint8_t *bits, size_t bytes, uint64_t hash);
/* False: certainly not there. */
bool bloom_may_have(const uint8_t *bits, size_t bytes, uint64_t hash);

#endif
