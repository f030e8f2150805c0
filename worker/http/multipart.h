#ifndef MEMWALD_WORKER_HTTP_MULTIPART_H
#define MEMWALD_WORKER_HTTP_MULTIPART_H

/*
 * multipart - a body of multipart/form-data (RFC 7578, 2046), part by part.
 *
 *	preamble CRLF
 *	--boundary [blanks] CRLF
 *	Content-Disposition: form-data; name="x" CRLF
 *	other headers CRLF
 *	CRLF
 *	bytes of the part
 *	CRLF --boundary [blanks] CRLF ... CRLF --boundary-- epilogue
 *
 * The body is fed in pieces of any size; the bytes of a part go on at once, as
 * slices of these pieces. What is kept between two is one header line, and how
 * much of a delimiter was seen: its bytes need not be kept, since they are the
 * delimiter's own. A delimiter has its only CR in front, so where a match
 * breaks off none can have begun within it, and nothing is looked at twice.
 *
 * A part is known by the name of its Content-Disposition. File names, content
 * types and unknown headers are checked for their form and ignored; preamble
 * and epilogue are ignored.
 *
 * What two readers could understand differently is refused: a line that begins
 * with the boundary and goes on otherwise, or stands within or right behind the
 * headers of a part; LF without CR, folded lines or control characters in headers; no
 * name or two; a transfer encoding that would have to be decoded.
 *
 * Lifetime:	the caller's, usually the request's arena; keeps no pointer to
 *		what it was fed. The name is good within its call.
 * Locking:	none; one thread at a time.
 * Errors:	BAD_INPUT with a literal; sticky. What a call answers goes up
 *		unchanged.
 */

#include "common/base.h"
#include "common/err.h"
#include "common/slice.h"

#define MULTIPART_BOUNDARY_MAX	70		/* RFC 2046 */
#define MULTIPART_LINE_MAX	2048		/* of a part's headers */
#define MULTIPART_HEADERS_MAX	(8u * 1024)	/* of one part */

struct multipart_calls {
	struct err (*begin)(void *arg, struct slice name);
	struct err (*data)(void *arg, struct slice bytes);	/* not empty */
	struct err (*end)(void *arg);
};

struct multipart {
	const struct multipart_calls *calls;
	void *arg;
	struct err err;			/* sticky */
	uint8_t state;
	bool bare;			/* the match did not begin with CR LF */
	bool named;			/* in the headers of this part */
	size_t matched;			/* of the delimiter */
	size_t delimiter_len;
	size_t line_len, name_len;
	size_t header_bytes;		/* of this part */
	char delimiter[4 + MULTIPART_BOUNDARY_MAX];	/* CR LF - - boundary */
	char line[MULTIPART_LINE_MAX];
	char name[MULTIPART_LINE_MAX];
};

/* content_type: the value of the request's header, which names the boundary. */
struct err multipart_init(struct multipart *, struct slice content_type,
    const struct multipart_calls *, void *arg) MUST_CHECK;
struct err multipart_feed(struct multipart *, struct slice piece) MUST_CHECK;
/* The body is complete: BAD_INPUT if its last delimiter was missing. */
struct err multipart_finish(struct multipart *) MUST_CHECK;

#endif
