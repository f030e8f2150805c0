#include "common/base.h"

#include "worker/lance/bloom.h"

/* 12 bits a key give about 0.6 % false answers, 8 about 2.5 %. */
#define BITS_PER_KEY	12u
#define BITS_SUIT	8u
#define BLOCK_BITS	(8u * BLOOM_BLOCK_BYTES)
#define BLOCK_WORDS	8u

static const uint32_t salts[BLOCK_WORDS] = {
	0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
	0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
};

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t
rotate(uint64_t x, uint32_t by)
{
	return x << by | x >> (64 - by);
}

static inline void
sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static inline void
sip_word(struct sip *s, uint64_t word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

/*
 * The message is 00 key ff, so each word of it but the first is eight bytes of
 * the key that begin one before a multiple of eight.
 */
uint64_t
bloom_hash(struct slice key)
{
	struct sip s = { 0x736f6d6570736575, 0x646f72616e646f6d,
		0x6c7967656e657261, 0x7465646279746573 };
	uint64_t len = key.len + 2, word, at;
	uint32_t n;

	if (key.len >= 7) {
		word = 0;
		memcpy((char *)&word + 1, key.ptr, 7);
		sip_word(&s, word);
		for (at = 7; key.len - at >= 8; at += 8) {
			memcpy(&word, key.ptr + at, 8);
			sip_word(&s, word);
		}
		n = 0;
		word = 0;
	} else {
		at = 0;
		n = 1;
		word = 0;
	}
	for (; at < key.len; at++, n++)
		word |= (uint64_t)(uint8_t)key.ptr[at] << (8 * n);
	word |= 0xffull << (8 * n);
	if (n == 7) {
		sip_word(&s, word);
		word = 0;
	}
	sip_word(&s, word | len << 56);

	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

size_t
bloom_size_bytes(uint64_t key_count)
{
	uint64_t blocks = (key_count * BITS_PER_KEY + BLOCK_BITS - 1) / BLOCK_BITS;

	return (size_t)MAX(blocks, 1u) * BLOOM_BLOCK_BYTES;
}

bool
bloom_suits(size_t bytes, uint64_t key_count)
{
	return bytes >= BLOOM_BLOCK_BYTES && bytes % BLOOM_BLOCK_BYTES == 0 &&
	    key_count <= bytes * 8ull / BITS_SUIT;
}

static uint64_t
block_of(size_t bytes, uint64_t hash)
{
	uint64_t blocks = bytes / BLOOM_BLOCK_BYTES;

	return ((hash >> 32) * blocks >> 32) * BLOOM_BLOCK_BYTES;
}

void
bloom_add(uint8_t *bits, size_t bytes, uint64_t hash)
{
	uint8_t *block = bits + block_of(bytes, hash);
	uint32_t words[BLOCK_WORDS], i;

	memcpy(words, block, sizeof(words));
	for (i = 0; i < BLOCK_WORDS; i++)
		words[i] |= 1u << ((uint32_t)hash * salts[i] >> 27);
	memcpy(block, words, sizeof(words));
}

bool
bloom_may_have(const uint8_t *bits, size_t bytes, uint64_t hash)
{
	uint32_t words[BLOCK_WORDS], missing = 0, i;

	memcpy(words, bits + block_of(bytes, hash), sizeof(words));
	for (i = 0; i < BLOCK_WORDS; i++)
		missing |= ~words[i] & 1u << ((uint32_t)hash * salts[i] >> 27);
	return missing == 0;
}
