#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"

#define ROOM_MIN 64u

void
buf_init(struct buf *b, size_t cap_bytes)
{
	*b = (struct buf){ .cap_bytes = cap_bytes };
}

void
buf_free(struct buf *b)
{
	free(b->ptr);
	b->ptr = NULL;
	b->len = 0;
	b->room = 0;
}

bool
buf_reserve(struct buf *b, size_t more)
{
	size_t need, room;
	char *p;

	if (more <= b->room - b->len)
		return true;
	if (more > b->cap_bytes || b->len > b->cap_bytes - more)
		return false;
	need = b->len + more;
	room = MAX(b->room + b->room / 2, (size_t)ROOM_MIN);
	room = MIN(MAX(room, need), b->cap_bytes);
	p = realloc(b->ptr, room);
	if (p == NULL)
		return false;
	b->ptr = p;
	b->room = room;
	return true;
}

bool
buf_append(struct buf *b, const void *bytes, size_t n)
{
	if (!buf_reserve(b, n))
		return false;
	if (n > 0)
		memcpy(b->ptr + b->len, bytes, n);
	b->len += n;
	return true;
}

bool
buf_append_zero(struct buf *b, size_t n)
{
	if (!buf_reserve(b, n))
		return false;
	if (n > 0)
		memset(b->ptr + b->len, 0, n);
	b->len += n;
	return true;
}

bool
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	MUST(n >= 0);
	if (!buf_reserve(b, (size_t)n + 1))
		return false;
	va_start(ap, fmt);
	vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return true;
}

void
buf_consume(struct buf *b, size_t n)
{
	MUST(n <= b->len);
	if (n > 0 && n < b->len)
		memmove(b->ptr, b->ptr + n, b->len - n);
	b->len -= n;
}
