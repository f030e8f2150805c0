#include "common/base.h"

#include "worker/arrow/bits.h"

/*
 * Each walk is: bits up to a byte border, whole bytes, the rest. A run of one
 * bit, which every single value is, never leaves the first part.
 */

static uint8_t
mask(unsigned first, unsigned count)
{
	return (uint8_t)(((1u << count) - 1) << first);
}

void
bits_set(uint8_t *bits, uint64_t first, uint64_t count)
{
	unsigned at = first % 8;
	unsigned head = (unsigned)MIN(count, (uint64_t)(8 - at) % 8);

	if (at != 0) {
		bits[first / 8] |= mask(at, head);
		first += head;
		count -= head;
	}
	if (count >= 8)
		memset(bits + first / 8, 0xff, (size_t)(count / 8));
	first += count / 8 * 8;
	if (count % 8 != 0)
		bits[first / 8] |= mask(0, count % 8);
}

uint64_t
bits_count(const uint8_t *bits, uint64_t first, uint64_t count)
{
	uint64_t word, ones = 0;

	for (; count > 0 && first % 8 != 0; first++, count--)
		ones += bits[first / 8] >> (first % 8) & 1;
	for (; count >= 64; first += 64, count -= 64) {
		memcpy(&word, bits + first / 8, 8);
		ones += (uint64_t)__builtin_popcountll(word);
	}
	for (; count >= 8; first += 8, count -= 8)
		ones += (uint64_t)__builtin_popcount(bits[first / 8]);
	if (count > 0)
		ones += (uint64_t)__builtin_popcount(bits[first / 8] &
		    mask(0, (unsigned)count));
	return ones;
}

static void
copy_bit(uint8_t *to, uint64_t to_at, const uint8_t *from, uint64_t from_at)
{
	unsigned bit = from[from_at / 8] >> (from_at % 8) & 1;

	to[to_at / 8] = (uint8_t)((to[to_at / 8] & ~(1u << (to_at % 8))) |
	    bit << (to_at % 8));
}

void
bits_copy(uint8_t *to, uint64_t to_first, const uint8_t *from,
    uint64_t from_first, uint64_t count)
{
	uint64_t i, bytes;
	unsigned shift;

	for (; count > 0 && to_first % 8 != 0; to_first++, from_first++, count--)
		copy_bit(to, to_first, from, from_first);
	bytes = count / 8;
	shift = from_first % 8;
	if (bytes > 0 && shift == 0)
		memcpy(to + to_first / 8, from + from_first / 8, (size_t)bytes);
	for (i = 0; shift != 0 && i < bytes; i++)
		to[to_first / 8 + i] = (uint8_t)(
		    from[from_first / 8 + i] >> shift |
		    from[from_first / 8 + i + 1] << (8 - shift));
	to_first += bytes * 8;
	from_first += bytes * 8;
	for (count %= 8; count > 0; to_first++, from_first++, count--)
		copy_bit(to, to_first, from, from_first);
}
