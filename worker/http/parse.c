#include "common/base.h"

#include <strings.h>

#include "worker/http/parse.h"

#define LENGTH_DIGITS_MAX	18	/* no overflow, and enough */
#define REQUEST_ID_MAX		128

/* What a byte may be part of. */
#define TOKEN	1u			/* methods and header names */
#define VALUE	2u			/* header values */
#define TARGET	4u			/* request targets */

static uint8_t classes[256];
static uint8_t lower[256];

__attribute__((constructor)) static void
fill_classes(void)
{
	static const char token_marks[] = "!#$%&'*+-.^_`|~";

	for (int c = 0; c < 256; c++) {
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';

		lower[c] = (uint8_t)(c >= 'A' && c <= 'Z' ? c + 32 : c);
		if (letter || digit ||
		    (c != 0 && strchr(token_marks, c) != NULL))
			classes[c] |= TOKEN;
		if (c == '\t' || (c >= ' ' && c != 127))
			classes[c] |= VALUE;
		if (c > ' ' && c != 127 && c != '#')
			classes[c] |= TARGET;
	}
}

static bool
is(char c, unsigned class)
{
	return (classes[(uint8_t)c] & class) != 0;
}

static bool
equal_nocase(struct slice s, const char *text)
{
	return s.len == strlen(text) && strncasecmp(s.ptr, text, s.len) == 0;
}

const char *
http_method_name(enum http_method m)
{
	static const char *const names[] = {
#define X(name) #name,
		HTTP_METHODS(X)
#undef X
	};

	MUST(m < HTTP_METHOD_COUNT);
	return names[m];
}

const struct slice *
http_head_header(const struct http_head *h, const char *name)
{
	struct slice want = slice_of(name);

	for (uint32_t i = 0; i < h->header_count; i++) {
		if (slice_eq(h->headers[i].name, want))
			return &h->headers[i].value;
	}
	return NULL;
}

/* --- text --- */

bool
parse_utf8_valid(struct slice s)
{
	const uint8_t *p = (const uint8_t *)s.ptr, *end = p + s.len;

	while (p < end) {
		uint32_t code, more;

		if (*p < 0x80) {
			p++;
			continue;
		}
		if (*p >= 0xc2 && *p <= 0xdf) {
			code = *p & 0x1f;
			more = 1;
		} else if ((*p & 0xf0) == 0xe0) {
			code = *p & 0x0f;
			more = 2;
		} else if (*p >= 0xf0 && *p <= 0xf4) {
			code = *p & 0x07;
			more = 3;
		} else {
			return false;
		}
		if ((size_t)(end - p) <= more)
			return false;
		for (uint32_t i = 1; i <= more; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return false;
			code = code << 6 | (p[i] & 0x3f);
		}
		/* Overlong, surrogate, or beyond the last plane. */
		if ((more == 2 && code < 0x800) ||
		    (code >= 0xd800 && code <= 0xdfff) ||
		    (more == 3 && code < 0x10000) || code > 0x10ffff)
			return false;
		p += more + 1;
	}
	return true;
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)lower[(uint8_t)c];
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
parse_percent(char *bytes, size_t *len, bool plus_is_blank)
{
	size_t to = 0;

	for (size_t at = 0; at < *len; at++) {
		char c = bytes[at];

		if (c == '%') {
			int high, low;

			if (*len - at < 3)
				return false;
			high = hex_value(bytes[at + 1]);
			low = hex_value(bytes[at + 2]);
			if (high < 0 || low < 0)
				return false;
			c = (char)(high << 4 | low);
			at += 2;
		} else if (c == '+' && plus_is_blank) {
			c = ' ';
		}
		if (c == '\0')
			return false;
		bytes[to++] = c;
	}
	*len = to;
	return parse_utf8_valid(slice_make(bytes, to));
}

/* --- the request line --- */

static enum http_method
method_of(struct slice s)
{
	for (int m = 0; m < HTTP_OTHER; m++) {
		if (slice_eq(s, slice_of(http_method_name(m))))
			return (enum http_method)m;
	}
	return HTTP_OTHER;
}

static struct err
parse_segments(struct http_head *h, char *path, char *end)
{
	uint32_t count = 0;

	MUST(*path == '/');
	while (path < end) {
		char *from = path + 1;
		size_t len;

		path = memchr(from, '/', (size_t)(end - from));
		if (path == NULL)
			path = end;
		len = (size_t)(path - from);
		if (count < HTTP_SEGMENTS_MAX && memchr(from, '%', len) != NULL)
			h->escaped |= 1u << count;
		if (!parse_percent(from, &len, false))
			return FAIL(BAD_INPUT, "bad escape in the path");
		if (count < HTTP_SEGMENTS_MAX)
			h->segments[count] = slice_make(from, len);
		count++;
	}
	/* None, if there are too many: that is an unknown path. */
	h->segment_count = count <= HTTP_SEGMENTS_MAX ? count : 0;
	return OK;
}

/* Origin form, or absolute form, of which only the path matters. */
static struct err
parse_target(struct http_head *h, char *target, char *end)
{
	static const char scheme[] = "http://";
	char *query;

	if ((size_t)(end - target) > sizeof(scheme) - 1 &&
	    strncasecmp(target, scheme, sizeof(scheme) - 1) == 0) {
		target += sizeof(scheme) - 1;
		while (target < end && *target != '/' && *target != '?')
			target++;
	}
	query = memchr(target, '?', (size_t)(end - target));
	if (query != NULL) {
		h->query = slice_make(query + 1, (size_t)(end - query - 1));
		end = query;
	}
	if (target == end || *target != '/') {
		if (h->method == HTTP_OPTIONS && end - target == 1 &&
		    *target == '*')
			return OK;	/* no segments: an unknown path */
		return FAIL(BAD_INPUT, "bad request target");
	}
	return parse_segments(h, target, end);
}

static struct err
parse_version(struct http_head *h, struct slice s)
{
	if (s.len != 8 || memcmp(s.ptr, "HTTP/", 5) != 0 || s.ptr[6] != '.' ||
	    s.ptr[5] < '0' || s.ptr[5] > '9' || s.ptr[7] < '0' ||
	    s.ptr[7] > '9')
		return FAIL(BAD_INPUT, "bad request line");
	if (s.ptr[5] != '1')
		return FAIL(HTTP_VERSION, "only HTTP/1.x is spoken here");
	h->minor = s.ptr[7] == '0' ? 0 : 1;
	h->keep_alive = h->minor > 0;
	return OK;
}

/* end: of the line, without its CR LF. */
static struct err
parse_request_line(struct http_head *h, char *line, char *end)
{
	char *p = line, *target;
	struct err e;

	while (p < end && is(*p, TOKEN))
		p++;
	if (p == line || p == end || *p != ' ')
		return FAIL(BAD_INPUT, "bad request line");
	h->method = method_of(slice_make(line, (size_t)(p - line)));
	target = ++p;
	while (p < end && is(*p, TARGET))
		p++;
	if (p == target || p == end || *p != ' ')
		return FAIL(BAD_INPUT, "bad request line");
	e = parse_version(h, slice_make(p + 1, (size_t)(end - p - 1)));
	if (err_is(e))
		return e;
	return parse_target(h, target, p);
}

/* --- header fields --- */

/* What the fields said, until all of them are known. */
struct framing {
	uint32_t hosts, lengths, codings;
};

static struct err
take_length(struct http_head *h, struct framing *f, struct slice v)
{
	uint64_t n = 0;

	/* Also when they are equal: no honest client repeats it. */
	if (++f->lengths > 1)
		return FAIL(BAD_INPUT, "more than one Content-Length");
	if (v.len == 0 || v.len > LENGTH_DIGITS_MAX)
		return FAIL(BAD_INPUT, "bad Content-Length");
	for (size_t i = 0; i < v.len; i++) {
		if (v.ptr[i] < '0' || v.ptr[i] > '9')
			return FAIL(BAD_INPUT, "bad Content-Length");
		n = n * 10 + (uint64_t)(v.ptr[i] - '0');
	}
	h->has_length = true;
	h->content_length = n;
	return OK;
}

static struct err
take_coding(struct http_head *h, struct framing *f, struct slice v)
{
	if (++f->codings > 1 || h->minor == 0 || !equal_nocase(v, "chunked"))
		return FAIL(BAD_INPUT, "bad Transfer-Encoding");
	h->chunked = true;
	return OK;
}

/* A list of tokens, of which only "close" matters: 1.1 keeps the connection
 * without being asked, and 1.0 is closed even if asked. */
static void
take_connection(struct http_head *h, struct slice v)
{
	const char *p = v.ptr, *end = v.ptr + v.len;

	while (p < end) {
		const char *from = p;

		while (p < end && is(*p, TOKEN))
			p++;
		if (equal_nocase(slice_make(from, (size_t)(p - from)), "close"))
			h->keep_alive = false;
		while (p < end && !is(*p, TOKEN))
			p++;
	}
}

static struct err
take_expect(struct http_head *h, struct slice v)
{
	if (!equal_nocase(v, "100-continue"))
		return FAIL(EXPECTATION, "only 100-continue can be expected");
	h->expect_continue = h->minor > 0;
	return OK;
}

static void
take_request_id(struct http_head *h, struct slice v)
{
	if (v.len > REQUEST_ID_MAX)
		return;
	for (size_t i = 0; i < v.len; i++) {
		if (v.ptr[i] < ' ' || v.ptr[i] > '~')
			return;
	}
	h->request_id = v;
}

static struct err
take_field(struct http_head *h, struct framing *f, struct http_header *field)
{
	struct slice name = field->name;

#define IS(text) (memcmp(name.ptr, text, sizeof(text) - 1) == 0)
	switch (name.len) {
	case 4:
		f->hosts += IS("host");
		break;
	case 6:
		if (IS("expect"))
			return take_expect(h, field->value);
		break;
	case 10:
		if (IS("connection"))
			take_connection(h, field->value);
		break;
	case 12:
		if (IS("content-type"))
			h->content_type = field->value;
		else if (IS("x-request-id"))
			take_request_id(h, field->value);
		break;
	case 14:
		if (IS("content-length"))
			return take_length(h, f, field->value);
		break;
	case 17:
		if (IS("transfer-encoding"))
			return take_coding(h, f, field->value);
		break;
	}
#undef IS
	return OK;
}

static struct err
parse_field(struct http_head *h, struct framing *f, char *line, char *end)
{
	struct http_header *field;
	char *p = line, *value;

	while (p < end && is(*p, TOKEN)) {
		*p = (char)lower[(uint8_t)*p];
		p++;
	}
	if (p == line || p == end || *p != ':')
		return FAIL(BAD_INPUT, "bad header name");
	if (h->header_count == HTTP_HEADERS_MAX)
		return FAIL(HEAD_TOO_LARGE, "too many header fields");
	field = &h->headers[h->header_count++];
	field->name = slice_make(line, (size_t)(p - line));
	for (value = ++p; p < end; p++) {
		if (!is(*p, VALUE))
			return FAIL(BAD_INPUT, "bad byte in a header value");
	}
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	field->value = slice_make(value, (size_t)(end - value));
	return take_field(h, f, field);
}

/* --- the head --- */

static struct err
parse_lines(char *line, char *end, struct http_head *h)
{
	struct framing f = { 0 };
	char *eol = memchr(line, '\n', (size_t)(end - line));
	struct err e = parse_request_line(h, line, eol - 1);

	while (!err_is(e) && eol + 1 < end - 2) {
		line = eol + 1;
		eol = memchr(line, '\n', (size_t)(end - line));
		e = parse_field(h, &f, line, eol - 1);
	}
	if (err_is(e))
		return e;
	if (f.lengths > 0 && f.codings > 0)
		return FAIL(BAD_INPUT,
		    "Content-Length with Transfer-Encoding");
	if (f.hosts > 1 || (f.hosts == 0 && h->minor > 0))
		return FAIL(BAD_INPUT, "one Host, please");
	return OK;
}

/* *end: behind the empty line, or NULL while that is missing. */
static struct err
find_end(char *bytes, size_t len, size_t *scanned, char **end)
{
	char *line = bytes + *scanned, *eol;

	*end = NULL;
	for (;;) {
		eol = memchr(line, '\n', len - (size_t)(line - bytes));
		*scanned = (size_t)(line - bytes);
		if (line > bytes && line < bytes + len &&
		    (*line == ' ' || *line == '\t'))
			return FAIL(BAD_INPUT, "folded header line");
		if (eol == NULL)
			return OK;
		if (eol == line || eol[-1] != '\r')
			return FAIL(BAD_INPUT, "line without CR LF");
		if (eol == line + 1) {
			*end = eol + 1;
			return OK;
		}
		line = eol + 1;
	}
}

struct err
parse_head(char *bytes, size_t len, size_t head_bytes_max, size_t *scanned,
    struct http_head *h, size_t *head_len)
{
	char *start = bytes, *end;
	struct err e;

	*head_len = 0;
	/* Left behind by clients that end a body with a line of their own. */
	if (len >= 2 && bytes[0] == '\r' && bytes[1] == '\n') {
		start += 2;
		len -= 2;
	} else if (len == 1 && bytes[0] == '\r') {
		return OK;
	}
	e = find_end(start, len, scanned, &end);
	if (err_is(e))
		return e;
	if ((end == NULL ? len : (size_t)(end - start)) > head_bytes_max ||
	    (end == NULL && len == head_bytes_max))
		return FAIL(HEAD_TOO_LARGE, "request head too large");
	if (end == NULL)
		return OK;
	if (end - start <= 2)
		return FAIL(BAD_INPUT, "bad request line");

	/* Not the arrays: what counts as filled says how far they are. */
	h->segment_count = h->escaped = 0;
	h->header_count = 0;
	h->has_length = h->chunked = h->expect_continue = false;
	h->content_length = 0;
	h->query = h->content_type = h->request_id = (struct slice){ "", 0 };
	e = parse_lines(start, end, h);
	if (!err_is(e))
		*head_len = (size_t)(end - bytes);
	return e;
}

static void
rebase(struct slice *s, const char *from, const char *to)
{
	if (s->len > 0)
		s->ptr = to + (s->ptr - from);
}

void
parse_rebase(struct http_head *h, const char *from, const char *to)
{
	rebase(&h->query, from, to);
	rebase(&h->content_type, from, to);
	rebase(&h->request_id, from, to);
	for (uint32_t i = 0; i < h->segment_count; i++)
		rebase(&h->segments[i], from, to);
	for (uint32_t i = 0; i < h->header_count; i++) {
		rebase(&h->headers[i].name, from, to);
		rebase(&h->headers[i].value, from, to);
	}
}
