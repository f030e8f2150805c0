#ifndef MEMWALD_LANCE_KEY_SORT_H
#define MEMWALD_LANCE_KEY_SORT_H

/*
 * key_sort - row numbers in the order of their keys, then of the rows.
 *
 * A radix sort over eight bytes of each key, those behind what all keys have in
 * common, and a comparison sort of the few runs that are equal there. Keys of
 * one source share a long head (a run's name), so eight bytes from the start
 * would say nothing. Measured with 1M keys: see tests/unit/key_index_test.c.
 *
 * Memory:	32 bytes a key while it runs.
 * Errors:	NO_MEMORY.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

struct key_list {			/* keys behind each other */
	uint64_t count;
	const char *bytes;
	const uint64_t *ends;
};

static inline struct slice
key_list_at(const struct key_list *l, uint64_t i)
{
	uint64_t from = i == 0 ? 0 : l->ends[i - 1];

	return slice_make(l->bytes + from, l->ends[i] - from);
}

#define KEY_SORT_BYTES	32u

/* rows: count of them. */
struct err key_sort(const struct key_list *, uint32_t *rows) MUST_CHECK;

/* How many bytes two keys have in common at their head, at most so many. */
size_t key_common(struct slice a, struct slice b, size_t at_most);
/* The eight bytes from skip on as a number that compares as they do; a key
 * that ends before is filled with zeroes. */
uint64_t key_prefix(struct slice key, size_t skip);

#endif
