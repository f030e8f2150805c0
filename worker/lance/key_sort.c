#include "common/base.h"

#include <stdlib.h>

#include "worker/lance/key_sort.h"

#define BUCKETS 256u

struct entry {
	uint64_t prefix;
	uint32_t row;
};

static_assert(2 * sizeof(struct entry) == KEY_SORT_BYTES, "two of them a key");

size_t
key_common(struct slice a, struct slice b, size_t at_most)
{
	size_t n = MIN(MIN(a.len, b.len), at_most), i = 0;

	while (i < n && a.ptr[i] == b.ptr[i])
		i++;
	return i;
}

uint64_t
key_prefix(struct slice key, size_t skip)
{
	uint64_t v = 0;

	if (key.len > skip)
		memcpy(&v, key.ptr + skip, MIN(key.len - skip, 8u));
	return __builtin_bswap64(v);
}

/* One byte of the prefix: stable, from one array to the other. False if all
 * are alike there, and nothing was moved. */
static bool
sort_byte(const struct entry *from, struct entry *to, uint64_t count,
    uint32_t shift)
{
	uint64_t at[BUCKETS] = { 0 }, sum = 0, n, i;
	uint32_t b;

	for (i = 0; i < count; i++)
		at[from[i].prefix >> shift & 0xff]++;
	if (at[from[0].prefix >> shift & 0xff] == count)
		return false;
	for (b = 0; b < BUCKETS; b++) {
		n = at[b];
		at[b] = sum;
		sum += n;
	}
	for (i = 0; i < count; i++)
		to[at[from[i].prefix >> shift & 0xff]++] = from[i];
	return true;
}

static int
compare(const void *a, const void *b, void *ctx)
{
	const struct entry *x = a, *y = b;
	int c = slice_cmp(key_list_at(ctx, x->row), key_list_at(ctx, y->row));

	if (c != 0)
		return c;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Entries come by row, and each step is stable: equal keys stay by row. */
static struct entry *
sort_entries(struct entry *entries, struct entry *other, uint64_t count)
{
	struct entry *swap;
	uint32_t shift;

	for (shift = 0; shift < 64; shift += 8) {
		if (sort_byte(entries, other, count, shift)) {
			swap = entries;
			entries = other;
			other = swap;
		}
	}
	return entries;
}

static void
sort_ties(const struct key_list *keys, struct entry *entries)
{
	uint64_t i, end;

	for (i = 0; i < keys->count; i = end) {
		end = i + 1;
		while (end < keys->count && entries[end].prefix == entries[i].prefix)
			end++;
		if (end - i > 1)
			qsort_r(&entries[i], end - i, sizeof(*entries), compare,
			    (void *)(uintptr_t)keys);
	}
}

struct err
key_sort(const struct key_list *keys, uint32_t *rows)
{
	struct entry *entries, *sorted;
	struct slice first, key;
	uint64_t i;
	size_t skip;

	if (keys->count == 0)
		return OK;
	entries = malloc(keys->count * KEY_SORT_BYTES);
	if (entries == NULL)
		return FAIL(NO_MEMORY, "sort keys");
	first = key_list_at(keys, 0);
	skip = first.len;
	for (i = 1; i < keys->count; i++)
		skip = key_common(first, key_list_at(keys, i), skip);
	for (i = 0; i < keys->count; i++) {
		key = key_list_at(keys, i);
		entries[i] = (struct entry){ key_prefix(key, skip), (uint32_t)i };
	}
	sorted = sort_entries(entries, entries + keys->count, keys->count);
	sort_ties(keys, sorted);
	for (i = 0; i < keys->count; i++)
		rows[i] = sorted[i].row;
	free(entries);
	return OK;
}
