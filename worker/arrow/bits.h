#ifndef MEMWALD_ARROW_BITS_H
#define MEMWALD_ARROW_BITS_H

/*
 * bits - runs of bits, LSB first, as Arrow's validity and bool buffers.
 *
 * Positions are bits from the start of a buffer. Nothing outside of the bytes
 * that hold the run is touched, and no bit outside of the run is changed.
 */

#include "common/base.h"

/* Makes them 1. */
void bits_set(uint8_t *, uint64_t first, uint64_t count);
/* How many are 1. */
uint64_t bits_count(const uint8_t *, uint64_t first, uint64_t count);
/* The buffers must not overlap. */
void bits_copy(uint8_t *to, uint64_t to_first, const uint8_t *from,
    uint64_t from_first, uint64_t count);

#endif
