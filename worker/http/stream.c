#include "common/base.h"

#include <stdio.h>

#include "common/log.h"

#include "worker/http/conn.h"

/* A piece is as large as its source makes it: a row is never cut by it. */
#define PIECE_BYTES_MAX	(1ull << 31)

/* Nothing was sent yet: the client can still be told. */
static enum conn_next
fail_early(struct conn *c, struct err e)
{
	struct request *r = c->req;
	struct http_reply reply = {
		.status = (uint16_t)err_status(e),
		.content_type = SLICE("application/json"),
		.retry_after_secs = err_retry_secs(e),
	};

	stream_finish(r, false);
	reply.body = reply_envelope(&r->pub.arena, err_code(e), err_text(e));
	reply_prepare(c, &reply);
	return CONN_AGAIN;
}

static enum conn_next
fail(struct conn *c, struct err e)
{
	log_err(LOG_WARN, e, "reply failed, closing it unfinished route=%s "
	    "id=\"%.*s\"", c->req->pub.route->name,
	    (int)c->req->pub.id.len, c->req->pub.id.ptr);
	if (!c->head_sent)
		return fail_early(c, e);
	c->broken = true;
	return CONN_AGAIN;
}

static void
add(struct conn *c, const void *bytes, size_t len)
{
	MUST(c->iov_count < ARRAY_LEN(c->iov));
	c->iov[c->iov_count++] = (struct iovec){ (void *)(uintptr_t)bytes,
		len };
}

static void
add_piece(struct conn *c)
{
	struct request *r = c->req;

	if (c->head_sent)
		c->iov_at = c->iov_count = 0;
	if (!r->chunked_reply) {
		if (r->piece.len > 0)
			add(c, r->piece.ptr, r->piece.len);
		return;
	}
	if (r->piece.len > 0) {
		int n = snprintf(r->chunk_line, sizeof(r->chunk_line),
		    "%zx\r\n", r->piece.len);

		add(c, r->chunk_line, (size_t)n);
		add(c, r->piece.ptr, r->piece.len);
		add(c, c->stream_ended ? "\r\n0\r\n\r\n" : "\r\n",
		    c->stream_ended ? 7 : 2);
	} else if (c->stream_ended) {
		add(c, "0\r\n\r\n", 5);
	}
}

enum conn_next
stream_fill(struct conn *c)
{
	struct request *r = c->req;
	struct err e = OK;

	if (r->piece.cap_bytes == 0)
		buf_init(&r->piece, PIECE_BYTES_MAX);
	r->piece.len = 0;
	switch (r->stream->pull(r->stream, &r->piece, &e)) {
	case STREAM_WAIT:
		MUST(r->piece.len == 0);
		c->stream_waits = true;
		c->inflight++;
		conn_deadline(c, UINT64_MAX);	/* it is not the peer's fault */
		return CONN_WAIT;
	case STREAM_FAILED:
		MUST(err_is(e));
		return fail(c, e);
	case STREAM_END:
		c->stream_ended = true;
		break;
	case STREAM_MORE:
		MUST(r->piece.len > 0);
		break;
	}
	r->stream_sent += r->piece.len;
	if (r->stream->has_length && (r->stream_sent > r->stream->length ||
	    (c->stream_ended && r->stream_sent < r->stream->length)))
		return fail(c, FAIL(INTERNAL, "reply of another length"));
	add_piece(c);
	return CONN_AGAIN;
}

void
stream_finish(struct request *r, bool complete)
{
	struct stream *s = r->stream;

	r->stream = NULL;
	buf_free(&r->piece);
	if (s != NULL)
		s->close(s, complete);
}
