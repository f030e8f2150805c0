#ifndef MEMWALD_COMMON_SLICE_H
#define MEMWALD_COMMON_SLICE_H

/*
 * slice - pointer and length: bytes that somebody else owns.
 *
 * How long one is good is said by whoever hands it out. May hold any byte,
 * NUL included; is not terminated.
 */

#include "common/base.h"

struct slice {
	const char *ptr;
	size_t len;
};

/* Of a literal. */
#define SLICE(lit)	((struct slice){ (lit), sizeof(lit) - 1 })

static inline struct slice
slice_of(const char *text)
{
	return (struct slice){ text, strlen(text) };
}

static inline struct slice
slice_make(const void *ptr, size_t len)
{
	return (struct slice){ (const char *)ptr, len };
}

static inline bool
slice_eq(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Bytewise, the order of keys everywhere: <0, 0, >0. */
static inline int
slice_cmp(struct slice a, struct slice b)
{
	size_t n = MIN(a.len, b.len);
	int c = n == 0 ? 0 : memcmp(a.ptr, b.ptr, n);

	if (c != 0)
		return c;
	return a.len < b.len ? -1 : a.len > b.len;
}

#endif
