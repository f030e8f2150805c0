#ifndef MEMWALD_STORE_ROW_H
#define MEMWALD_STORE_ROW_H

/*
 * row - one row of a batch against another.
 *
 * The order is total and the same on every host, so that two hosts that wrote
 * one key under one sequence agree which row stands (design 1). It has no
 * other meaning: null is smallest, numbers by value (NaN by its bits), text and
 * bytes bytewise, lists item by item, then by length.
 */

#include "worker/arrow/batch.h"

/* <0, 0, >0. Arrays of one type. */
int row_compare_value(const struct array *, uint64_t i, const struct array *,
    uint64_t k);
/* Column first_column first (-1: none), then all in order. */
int row_compare(const struct batch *, uint64_t i, const struct batch *,
    uint64_t k, int first_column);

#endif
