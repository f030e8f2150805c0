#ifndef MEMWALD_COMMON_BUF_H
#define MEMWALD_COMMON_BUF_H

/*
 * buf - bytes that grow at the end, up to a cap.
 *
 * The one growing buffer of the server: column values, replies, messages. It
 * doubles, so that appending n bytes costs O(n), and it never passes its cap:
 * beyond it a call answers false and the caller makes that 413 or 503.
 *
 * Lifetime:	pointers into it are good until the next call that may grow it.
 * Locking:	none; one thread at a time.
 */

#include "common/base.h"
#include "common/slice.h"

struct buf {
	char *ptr;
	size_t len;
	size_t room;		/* allocated */
	size_t cap_bytes;	/* never allocated beyond */
};

void buf_init(struct buf *, size_t cap_bytes);
void buf_free(struct buf *);
/* Makes room for more bytes behind len; false at the cap. */
bool buf_reserve(struct buf *, size_t more) MUST_CHECK;
bool buf_append(struct buf *, const void *, size_t) MUST_CHECK;
bool buf_append_zero(struct buf *, size_t) MUST_CHECK;
bool buf_printf(struct buf *, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
/* Forgets the first n bytes and moves the rest to the front. */
void buf_consume(struct buf *, size_t n);

static inline bool
buf_append_slice(struct buf *b, struct slice s)
{
	return buf_append(b, s.ptr, s.len);
}

static inline struct slice
buf_slice(const struct buf *b)
{
	return slice_make(b->ptr, b->len);
}

#endif
