#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/arena.h"

/* Blocks double from 4 KiB to 1 MiB, so that a small request takes one and a
 * large one does not take thousands. */
#define BLOCK_MIN	4096u
#define BLOCK_MAX	(1024u * 1024)
#define ALIGN		16u

struct arena_block {
	struct arena_block *next;
	size_t bytes;			/* of the payload */
	alignas(ALIGN) char payload[];
};

void
arena_init(struct arena *a, size_t cap_bytes)
{
	*a = (struct arena){ .cap_bytes = cap_bytes };
}

static void
free_blocks(struct arena_block *b, struct arena_block *keep)
{
	while (b != keep) {
		struct arena_block *next = b->next;

		free(b);
		b = next;
	}
}

void
arena_reset(struct arena *a)
{
	struct arena_block *oldest = a->head;

	if (oldest == NULL)
		return;
	while (oldest->next != NULL)
		oldest = oldest->next;
	free_blocks(a->head, oldest);
	a->head = oldest;
	a->used_bytes = 0;
	a->total_bytes = oldest->bytes;
	/* A first block made for one huge allocation is not worth keeping. */
	if (oldest->bytes > BLOCK_MAX)
		arena_free(a);
}

void
arena_free(struct arena *a)
{
	free_blocks(a->head, NULL);
	a->head = NULL;
	a->used_bytes = 0;
	a->total_bytes = 0;
}

static bool
add_block(struct arena *a, size_t at_least)
{
	size_t bytes = a->head == NULL ? BLOCK_MIN :
	    MIN(a->head->bytes * 2, BLOCK_MAX);
	struct arena_block *b;

	if (a->total_bytes + bytes > a->cap_bytes)
		bytes = a->cap_bytes - a->total_bytes;
	bytes = MAX(bytes, at_least);
	if (bytes > a->cap_bytes - a->total_bytes)
		return false;
	b = malloc(sizeof(*b) + bytes);
	if (b == NULL)
		return false;
	b->bytes = bytes;
	b->next = a->head;
	a->head = b;
	a->used_bytes = 0;
	a->total_bytes += bytes;
	return true;
}

void *
arena_alloc(struct arena *a, size_t bytes)
{
	char *p;

	if (bytes > SIZE_MAX - ALIGN)
		return NULL;
	bytes = ROUND_UP(MAX(bytes, (size_t)1), ALIGN);
	if (a->head == NULL || a->head->bytes - a->used_bytes < bytes) {
		if (!add_block(a, bytes))
			return NULL;
	}
	p = a->head->payload + a->used_bytes;
	a->used_bytes += bytes;
	return p;
}

void *
arena_calloc(struct arena *a, size_t count, size_t bytes)
{
	size_t total;
	void *p;

	if (__builtin_mul_overflow(count, bytes, &total))
		return NULL;
	p = arena_alloc(a, total);
	if (p != NULL)
		memset(p, 0, total);
	return p;
}

char *
arena_copy(struct arena *a, struct slice s)
{
	char *p = s.len == SIZE_MAX ? NULL : arena_alloc(a, s.len + 1);

	if (p == NULL)
		return NULL;
	if (s.len > 0)
		memcpy(p, s.ptr, s.len);
	p[s.len] = '\0';
	return p;
}

const char *
arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	MUST(n >= 0);
	p = arena_alloc(a, (size_t)n + 1);
	if (p == NULL)
		return fmt;
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return p;
}
