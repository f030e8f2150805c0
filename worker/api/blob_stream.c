#include "common/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "worker/api/blob_stream.h"
#include "worker/object/local.h"
#include "worker/object/map.h"

/* One piece of a mapping. */
struct piece {
	char *to;
	const char *from;
	size_t len;
};

static struct err
copy_guarded(void *ctx)
{
	const struct piece *p = ctx;

	memcpy(p->to, p->from, p->len);
	return OK;
}

static struct err
next_piece(struct blob_stream *b, char *to, size_t len)
{
	struct piece p = { to, b->mapped, len };
	struct err e;

	if (b->fd >= 0)
		return object_read_at(b->fd, to, len, b->offset);
	e = object_map_guarded(copy_guarded, &p);
	object_map_forget(b->mapped, len);
	return e;
}

static enum stream_state
pull(struct stream *s, struct buf *out, struct err *error)
{
	struct blob_stream *b = CONTAINER_OF(s, struct blob_stream, stream);
	size_t n = MIN(b->left, (uint64_t)STREAM_PIECE_BYTES);

	if (!buf_reserve(out, n)) {
		*error = FAIL(NO_MEMORY, "answer");
		return STREAM_FAILED;
	}
	*error = next_piece(b, out->ptr + out->len, n);
	if (err_is(*error))
		return STREAM_FAILED;
	out->len += n;
	b->offset += n;
	b->mapped += b->fd >= 0 ? 0 : n;
	b->left -= n;
	return b->left == 0 ? STREAM_END : STREAM_MORE;
}

static void
closed(struct stream *s, bool complete)
{
	struct blob_stream *b = CONTAINER_OF(s, struct blob_stream, stream);

	(void)complete;
	if (b->fd >= 0)
		close(b->fd);
}

static void
init(struct blob_stream *b, int fd, uint64_t bytes)
{
	*b = (struct blob_stream){
		.stream = { .pull = pull, .close = closed,
		    .has_length = true, .length = bytes },
		.fd = fd, .left = bytes,
	};
}

struct err
blob_stream_far(struct blob_stream *b, const struct array *a, uint64_t i)
{
	/* Its own: whoever follows the shard may close the entry's. */
	int fd = fcntl(a->far->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return FAIL_OS(IO, "read a payload");
	init(b, fd, array_length(a, i));
	b->offset = a->far->offset + array_offset(a, i);
	return OK;
}

void
blob_stream_mapped(struct blob_stream *b, struct slice bytes)
{
	init(b, -1, bytes.len);
	b->mapped = bytes.ptr;
}
