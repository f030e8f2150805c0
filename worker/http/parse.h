#ifndef MEMWALD_WORKER_HTTP_PARSE_H
#define MEMWALD_WORKER_HTTP_PARSE_H

/*
 * parse - a request head, strictly and once (RFC 9112, narrowed).
 *
 * What two readers could understand differently is refused, and the caller
 * closes the connection: Content-Length with Transfer-Encoding, lengths that
 * differ or are not plain digits (equal repeated ones are refused, too), any
 * transfer coding but a single "chunked", any coding on HTTP/1.0, a folded
 * line, a blank before a colon, LF without CR, CR or NUL or any other control
 * inside a value, no Host or two. The line terminator is CR LF and nothing
 * else; one empty line before the request line is skipped.
 *
 * The path is split at '/' first, then each segment is decoded once: "%2F" is
 * a slash inside a segment, "%252F" is the text "%2F". A bad escape, NUL, or
 * what is not UTF-8 after decoding is BAD_INPUT. The query stays raw.
 *
 * Header names are lower-cased and segments decoded in place, in the buffer
 * that the head was parsed from.
 *
 * Lifetime:	slices point into that buffer.
 * Errors:	BAD_INPUT, HEAD_TOO_LARGE, EXPECTATION, HTTP_VERSION.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

#define HTTP_HEADERS_MAX	64
#define HTTP_SEGMENTS_MAX	32	/* bits of escaped */

#define HTTP_METHODS(X) \
	X(GET) X(HEAD) X(POST) X(PUT) X(DELETE) X(PATCH) X(OPTIONS) X(OTHER)

enum http_method {
#define X(name) HTTP_##name,
	HTTP_METHODS(X)
#undef X
	HTTP_METHOD_COUNT
};

struct http_header {
	struct slice name;		/* lower case */
	struct slice value;		/* blanks around it removed */
};

struct http_head {
	enum http_method method;
	uint8_t minor;			/* HTTP/1.x: 0 or 1 */
	bool keep_alive;
	bool expect_continue;
	bool chunked;
	bool has_length;		/* Content-Length was given */
	uint64_t content_length;	/* 0 without; unknown if chunked */

	struct slice query;		/* raw, without '?'; empty if none */
	struct slice segments[HTTP_SEGMENTS_MAX];	/* decoded */
	uint32_t segment_count;		/* "/a/b": 2; "/a/": 2, the last "" */
	uint32_t escaped;		/* bit: of a segment that had an escape,
					 * which is no word of a route */

	struct slice content_type;	/* empty if none */
	struct slice request_id;	/* X-Request-Id if it is usable */
	struct http_header headers[HTTP_HEADERS_MAX];
	uint32_t header_count;
};

/* NULL if there is none; the first if there are several. name: lower case. */
const struct slice *http_head_header(const struct http_head *, const char *name);
const char *http_method_name(enum http_method);

/*
 * Looks for a whole head in bytes. *head_len: its length with the empty line,
 * or 0 if it is not all there yet, and then *scanned says where the next call
 * may go on (start with 0). The head is written only if it is complete. LF
 * without CR and folded lines are noticed at once, the rest when the head is
 * complete.
 */
struct err parse_head(char *bytes, size_t len, size_t head_bytes_max,
    size_t *scanned, struct http_head *, size_t *head_len) MUST_CHECK;

/* Follows a copy of the head's bytes to another place. */
void parse_rebase(struct http_head *, const char *from, const char *to);

/* Decodes in place and shortens; false for a bad escape, NUL, or what is not
 * UTF-8 afterwards. For copies of query parameters (api) '+' may be a blank. */
bool parse_percent(char *bytes, size_t *len, bool plus_is_blank) MUST_CHECK;
bool parse_utf8_valid(struct slice) MUST_CHECK;

#endif
