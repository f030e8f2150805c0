#include "common/base.h"

#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"

#include "worker/http/conn.h"

/* A reply head is put together in the fixed buffer of its request; what does
 * not fit (headers of a handler) is our mistake and becomes a 500. */

struct writer {
	char *at, *end;
	bool full;
};

static void
put(struct writer *w, struct slice s)
{
	if ((size_t)(w->end - w->at) < s.len) {
		w->full = true;
		return;
	}
	memcpy(w->at, s.ptr, s.len);
	w->at += s.len;
}

#define PUT(w, literal)	put(w, SLICE(literal))

static void
put_number(struct writer *w, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	put(w, slice_make(digits + at, sizeof(digits) - at));
}

static struct slice
reason(uint16_t status)
{
	switch (status) {
	case 200: return SLICE("OK");
	case 201: return SLICE("Created");
	case 202: return SLICE("Accepted");
	case 204: return SLICE("No Content");
	case 304: return SLICE("Not Modified");
	case 400: return SLICE("Bad Request");
	case 401: return SLICE("Unauthorized");
	case 403: return SLICE("Forbidden");
	case 404: return SLICE("Not Found");
	case 405: return SLICE("Method Not Allowed");
	case 408: return SLICE("Request Timeout");
	case 409: return SLICE("Conflict");
	case 413: return SLICE("Content Too Large");
	case 415: return SLICE("Unsupported Media Type");
	case 417: return SLICE("Expectation Failed");
	case 422: return SLICE("Unprocessable Content");
	case 431: return SLICE("Request Header Fields Too Large");
	case 500: return SLICE("Internal Server Error");
	case 501: return SLICE("Not Implemented");
	case 503: return SLICE("Service Unavailable");
	case 505: return SLICE("HTTP Version Not Supported");
	case 507: return SLICE("Insufficient Storage");
	}
	return SLICE("Status");
}

static void
put_date(struct writer *w, struct http_server *h)
{
	uint64_t second = clock_wall_us() / US_PER_SEC;

	if (second != h->date_second) {
		time_t t = (time_t)second;
		struct tm tm;

		MUST(gmtime_r(&t, &tm) != NULL);
		MUST(strftime(h->date, sizeof(h->date),
		    "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
		h->date_second = second;
	}
	PUT(w, "Date: ");
	put(w, slice_of(h->date));
}

/* A control byte in a value of the handler's would end the line. */
static void
put_value(struct writer *w, struct slice s)
{
	char *from = w->at;

	put(w, s);
	for (char *p = from; p < w->at; p++) {
		if ((uint8_t)*p < ' ' || *p == 127)
			*p = '_';
	}
}

static bool
has_no_body(uint16_t status)
{
	return status < 200 || status == 204 || status == 304;
}

static void
put_framing(struct writer *w, struct request *r, const struct http_reply *reply)
{
	struct stream *s = reply->stream;

	if (has_no_body(reply->status))
		return;
	if (s == NULL || s->has_length) {
		PUT(w, "\r\nContent-Length: ");
		put_number(w, s == NULL ? reply->body.len : s->length);
	} else if (r->chunked_reply) {
		PUT(w, "\r\nTransfer-Encoding: chunked");
	}
}

static void
put_head(struct writer *w, struct conn *c, const struct http_reply *reply)
{
	struct request *r = c->req;

	PUT(w, "HTTP/1.1 ");
	put_number(w, reply->status);
	PUT(w, " ");
	put(w, reason(reply->status));
	PUT(w, "\r\n");
	put_date(w, c->server);
	if (reply->content_type.len > 0) {
		PUT(w, "\r\nContent-Type: ");
		put_value(w, reply->content_type);
	}
	put_framing(w, r, reply);
	PUT(w, "\r\nX-Request-Id: ");
	put(w, r->pub.id);
	if (c->server->set.worker_name != NULL) {
		PUT(w, "\r\nX-Memwald-Worker: ");
		put(w, slice_of(c->server->set.worker_name));
	}
	if (reply->retry_after_secs > 0) {
		PUT(w, "\r\nRetry-After: ");
		put_number(w, reply->retry_after_secs);
	}
	for (uint32_t i = 0; i < reply->header_count; i++) {
		PUT(w, "\r\n");
		put_value(w, reply->headers[i].name);
		PUT(w, ": ");
		put_value(w, reply->headers[i].value);
	}
	if (c->must_close)
		PUT(w, "\r\nConnection: close");
	PUT(w, "\r\n\r\n");
}

static void
decide_close(struct conn *c, const struct http_reply *reply)
{
	const struct http_head *head = &c->req->pub.head;
	const struct http_settings *s = &c->server->set;

	if (reply->close || !head->keep_alive || c->server->announced ||
	    c->server->draining ||
	    (s->reply_closes != NULL && s->reply_closes(s->arg)))
		c->must_close = true;
	/* Without a length an older peer sees the end by the closing. */
	if (reply->stream != NULL && !reply->stream->has_length &&
	    head->minor == 0)
		c->must_close = true;
	/* The rest of an unwanted body would be taken for a request. */
	if (!body_skip(c)) {
		c->must_close = true;
		c->lingers = true;
	}
}

void
reply_prepare(struct conn *c, const struct http_reply *reply)
{
	struct request *r = c->req;
	struct writer w = { r->reply_head, r->reply_head + REPLY_HEAD_MAX,
	    false };
	struct slice body = reply->body;

	MUST(reply->status >= 200 && reply->status < 600);
	decide_close(c, reply);
	request_shrink_large(c, reply);
	r->status = reply->status;
	r->stream = reply->stream;
	r->stream_sent = 0;
	r->chunked_reply = reply->stream != NULL &&
	    !reply->stream->has_length && r->pub.head.minor > 0;
	put_head(&w, c, reply);
	if (w.full) {
		struct http_reply instead = { .status = 500 };

		log_error("reply head does not fit, answering 500; report "
		    "this route=%s", r->pub.route->name);
		stream_finish(r, false);
		reply_prepare(c, &instead);
		return;
	}

	if (r->head_only || has_no_body(reply->status))
		body.len = 0;
	/* One piece is one simple send. */
	if (body.len > 0 && body.len <= (size_t)(w.end - w.at)) {
		put(&w, body);
		body.len = 0;
	}
	c->iov[0] = (struct iovec){ r->reply_head,
		(size_t)(w.at - r->reply_head) };
	c->iov[1] = (struct iovec){ (void *)(uintptr_t)body.ptr, body.len };
	c->iov_at = 0;
	c->iov_count = body.len > 0 ? 2 : 1;
	c->head_sent = false;
	c->stream_ended = r->head_only || has_no_body(reply->status);
	c->answered = true;
}

/* --- the envelope --- */

static void
put_json(struct buf *b, const char *text, bool *fits)
{
	for (const char *p = text; *p != '\0'; p++) {
		uint8_t byte = (uint8_t)*p;

		if (byte == '"' || byte == '\\')
			*fits &= buf_printf(b, "\\%c", byte);
		else if (byte < ' ')
			*fits &= buf_printf(b, "\\u%04x", byte);
		else
			*fits &= buf_append(b, p, 1);
	}
}

struct slice
reply_envelope(struct arena *a, const char *code, const char *message)
{
	struct slice short_one = SLICE(
	    "{\"error\":{\"code\":\"INTERNAL\",\"message\":\"\"}}");
	struct buf b;
	bool fits = true;
	char *copy;

	buf_init(&b, 64 * 1024);
	fits &= buf_printf(&b, "{\"error\":{\"code\":\"%s\",\"message\":\"",
	    code);
	if (parse_utf8_valid(slice_of(message)))
		put_json(&b, message, &fits);
	fits &= buf_append(&b, "\"}}", 3);
	copy = fits ? arena_copy(a, buf_slice(&b)) : NULL;
	if (copy != NULL)
		short_one = slice_make(copy, b.len);
	buf_free(&b);
	return short_one;
}
