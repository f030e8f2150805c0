#ifndef MEMWALD_WORKER_HTTP_STREAM_H
#define MEMWALD_WORKER_HTTP_STREAM_H

/*
 * stream - a reply body that is pulled as the socket takes it.
 *
 * The connection asks for some bytes (about STREAM_PIECE_BYTES), sends them,
 * and asks again when they are gone, so that a million rows cost one piece of
 * memory and a slow client holds back only itself. A stream that has to wait
 * (for a pool job) answers WAIT and calls http_stream_ready later.
 *
 * An error after the first piece can no longer change the status: the
 * connection is closed without the last chunk, so that the client notices.
 *
 * Lifetime:	the stream is the handler's, usually in the request's arena,
 *		until its close function is called: exactly once, on every
 *		path, and not while it owes http_stream_ready.
 * Locking:	the loop's thread.
 */

#include "common/base.h"
#include "common/buf.h"
#include "common/err.h"

#define STREAM_PIECE_BYTES	(64u * 1024)

enum stream_state {
	STREAM_MORE,		/* out holds some bytes, there are more */
	STREAM_END,		/* out holds the last ones, or none */
	STREAM_WAIT,		/* nothing yet; http_stream_ready will come */
	STREAM_FAILED		/* *error says why */
};

struct stream {
	/* Appends to out, which is empty; at least one byte with MORE. */
	enum stream_state (*pull)(struct stream *, struct buf *out,
	    struct err *error);
	/* complete: every byte went to the socket. */
	void (*close)(struct stream *, bool complete);
	/* With has_length the length goes into the head, pieces must sum to
	 * it, and nothing is chunked. */
	bool has_length;
	uint64_t length;
};

#endif
