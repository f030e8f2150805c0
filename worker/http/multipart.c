#include "common/base.h"

#include <strings.h>

#include "worker/http/multipart.h"

/* states; what of the body is being read */
enum state {
	IN_PREAMBLE,		/* ignored, up to the first delimiter */
	IN_DATA,		/* of a part, up to the next delimiter */
	AFTER_DELIMITER,	/* a line end or the first dash */
	AFTER_DASH,		/* the second one */
	IN_PADDING,		/* blanks, then the line's end */
	IN_LINE,		/* of headers */
	IN_EPILOGUE		/* ignored */
};

static struct err
fail(struct multipart *m, const char *why)
{
	m->err = FAIL(BAD_INPUT, why);
	return m->err;
}

/* ---- values with parameters: form-data; name="x"; filename=y */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool
is_token(char c)
{
	static const char separators[] = "()<>@,;:\\\"/[]?={}";

	return (uint8_t)c > ' ' && (uint8_t)c < 127 &&
	    strchr(separators, c) == NULL;
}

static void
skip_blanks(struct slice *s)
{
	while (s->len > 0 && is_blank(*s->ptr)) {
		s->ptr++;
		s->len--;
	}
}

/* Bytes that is_token says are of one; empty if the first is not. */
static struct slice
take_token(struct slice *s)
{
	struct slice token = { s->ptr, 0 };

	while (token.len < s->len && is_token(s->ptr[token.len]))
		token.len++;
	s->ptr += token.len;
	s->len -= token.len;
	return token;
}

static bool
same_word(struct slice s, const char *word)
{
	return s.len == strlen(word) && strncasecmp(s.ptr, word, s.len) == 0;
}

/* The value of a parameter, a token or quoted, to out; false: neither, or too
 * long. What was quoted with a backslash loses it. */
static bool
take_value(struct slice *s, char *out, size_t room, size_t *len)
{
	struct slice token;
	size_t i, n = 0;

	if (s->len == 0 || *s->ptr != '"') {
		token = take_token(s);
		if (token.len == 0 || token.len > room)
			return false;
		memcpy(out, token.ptr, token.len);
		*len = token.len;
		return true;
	}
	for (i = 1; i < s->len && s->ptr[i] != '"'; i++) {
		if (s->ptr[i] == '\\' && ++i == s->len)
			return false;
		if (n == room)
			return false;
		out[n++] = s->ptr[i];
	}
	if (i >= s->len)
		return false;
	s->ptr += i + 1;
	s->len -= i + 1;
	*len = n;
	return true;
}

/*
 * Looks through the parameters behind a value for one, which goes to out.
 * False: malformed, or given twice. *len stays 0 with found false.
 */
static bool
find_parameter(struct slice s, const char *want, char *out, size_t room,
    size_t *len, bool *found)
{
	char other[MULTIPART_LINE_MAX];
	struct slice name;
	size_t n;
	bool wanted;

	*found = false;
	*len = 0;
	for (;;) {
		skip_blanks(&s);
		if (s.len == 0)
			return true;
		if (*s.ptr != ';')
			return false;
		s.ptr++;
		s.len--;
		skip_blanks(&s);
		if (s.len == 0)
			return true;	/* a last ";" is often sent */
		name = take_token(&s);
		if (name.len == 0 || s.len == 0 || *s.ptr != '=')
			return false;
		s.ptr++;
		s.len--;
		wanted = same_word(name, want);
		if (wanted && *found)
			return false;
		if (!take_value(&s, wanted ? out : other,
		    wanted ? room : sizeof(other), &n))
			return false;
		if (wanted) {
			*found = true;
			*len = n;
		}
	}
}

/* ---- the headers of a part */

/* RFC 7578 4.7: it is not used; what it may say says nothing. */
static bool
encoding_is_none(struct slice value)
{
	return same_word(value, "binary") || same_word(value, "8bit") ||
	    same_word(value, "7bit");
}

static struct err
read_disposition(struct multipart *m, struct slice value)
{
	bool found;

	if (m->named)
		return fail(m, "multipart: two Content-Disposition headers in "
		    "one part");
	if (!same_word(take_token(&value), "form-data"))
		return fail(m, "multipart: Content-Disposition is not "
		    "form-data");
	if (!find_parameter(value, "name", m->name, sizeof(m->name),
	    &m->name_len, &found))
		return fail(m, "multipart: malformed Content-Disposition");
	if (!found)
		return fail(m, "multipart: a part without a name");
	m->named = true;
	return OK;
}

/* A line of headers, without its end. */
static struct err
read_header(struct multipart *m)
{
	struct slice rest = { m->line, m->line_len }, name;
	size_t dashed = m->delimiter_len - 2;

	if (m->line_len >= dashed &&
	    memcmp(m->line, m->delimiter + 2, dashed) == 0)
		return fail(m, "multipart: a boundary within the headers of a "
		    "part");
	for (size_t i = 0; i < m->line_len; i++) {
		uint8_t c = (uint8_t)m->line[i];

		if ((c < ' ' && c != '\t') || c == 127)
			return fail(m, "multipart: control character in a "
			    "header of a part");
	}
	name = take_token(&rest);
	if (name.len == 0 || rest.len == 0 || *rest.ptr != ':')
		return fail(m, "multipart: malformed header of a part");
	rest.ptr++;
	rest.len--;
	skip_blanks(&rest);
	while (rest.len > 0 && is_blank(rest.ptr[rest.len - 1]))
		rest.len--;
	if (same_word(name, "content-disposition"))
		return read_disposition(m, rest);
	if (same_word(name, "content-transfer-encoding") &&
	    !encoding_is_none(rest))
		return fail(m, "multipart: a Content-Transfer-Encoding is not "
		    "supported");
	return OK;
}

static struct err
line_done(struct multipart *m)
{
	struct err e;

	m->line_len--;			/* the CR */
	if (m->line_len > 0) {
		e = read_header(m);
		m->line_len = 0;
		return e;
	}
	if (!m->named)
		return fail(m, "multipart: a part without Content-Disposition");
	e = m->calls->begin(m->arg, slice_make(m->name, m->name_len));
	m->err = e;
	/* A delimiter in the first line of the part is refused, not missed. */
	m->state = IN_DATA;
	m->bare = true;
	m->matched = 2;
	return e;
}

static struct err
take_line(struct multipart *m, const char **at, const char *end)
{
	const char *lf = memchr(*at, '\n', (size_t)(end - *at));
	size_t n = (size_t)((lf == NULL ? end : lf) - *at);

	m->header_bytes += n;
	if (n > sizeof(m->line) - m->line_len ||
	    m->header_bytes > MULTIPART_HEADERS_MAX)
		return fail(m, "multipart: headers of a part are too long");
	memcpy(m->line + m->line_len, *at, n);
	m->line_len += n;
	*at += n;
	if (lf == NULL)
		return OK;
	++*at;
	if (m->line_len == 0 || m->line[m->line_len - 1] != '\r')
		return fail(m, "multipart: a header line ends in a bare LF");
	return line_done(m);
}

/* ---- delimiters */

static struct err
give(struct multipart *m, const char *bytes, size_t len)
{
	if (len > 0 && m->state == IN_DATA)
		m->err = m->calls->data(m->arg, slice_make(bytes, len));
	return m->err;
}

static struct err
delimiter_done(struct multipart *m)
{
	bool in_data = m->state == IN_DATA;

	m->matched = 0;
	if (in_data && m->bare)
		return fail(m, "multipart: a boundary right behind the "
		    "headers of a part");
	m->bare = false;
	m->state = AFTER_DELIMITER;
	if (in_data)
		m->err = m->calls->end(m->arg);
	return m->err;
}

/* Bytes of a delimiter that the last piece ended in. */
static struct err
go_on_matching(struct multipart *m, const char **at, const char *end)
{
	const char *d = m->delimiter;
	size_t from = m->bare ? 2 : 0, held;

	while (*at < end && m->matched < m->delimiter_len &&
	    **at == d[m->matched]) {
		++*at;
		m->matched++;
	}
	if (m->matched == m->delimiter_len)
		return delimiter_done(m);
	if (*at == end)
		return OK;
	held = m->matched - from;
	m->matched = 0;
	m->bare = false;
	return give(m, d + from, held);
}

/* How much of a delimiter the bytes end in. */
static size_t
begun_at_end(const struct multipart *m, const char *at, const char *end)
{
	size_t n = MIN((size_t)(end - at), m->delimiter_len - 1);
	const char *cr = n == 0 ? NULL : memrchr(end - n, '\r', n);

	if (cr == NULL || memcmp(cr, m->delimiter, (size_t)(end - cr)) != 0)
		return 0;
	return (size_t)(end - cr);
}

static struct err
take_data(struct multipart *m, const char **at, const char *end)
{
	const char *from = *at, *hit;
	struct err e;

	if (m->matched > 0)
		return go_on_matching(m, at, end);
	hit = memmem(from, (size_t)(end - from), m->delimiter,
	    m->delimiter_len);
	if (hit == NULL) {
		m->matched = begun_at_end(m, from, end);
		*at = end;
		return give(m, from, (size_t)(end - from) - m->matched);
	}
	*at = hit + m->delimiter_len;
	e = give(m, from, (size_t)(hit - from));
	return err_is(e) ? e : delimiter_done(m);
}

static struct err
after_delimiter(struct multipart *m, char c)
{
	if (m->state == AFTER_DASH && c == '-') {
		m->state = IN_EPILOGUE;
		return OK;
	}
	if (m->state == AFTER_DELIMITER && c == '-') {
		m->state = AFTER_DASH;
		return OK;
	}
	if (m->state != AFTER_DASH && c == '\n' && m->matched == 1) {
		m->state = IN_LINE;
		m->matched = m->line_len = m->header_bytes = m->name_len = 0;
		m->named = false;
		return OK;
	}
	if (m->state != AFTER_DASH && m->matched == 0 &&
	    (is_blank(c) || c == '\r')) {
		m->state = IN_PADDING;
		m->matched = c == '\r';
		return OK;
	}
	return fail(m, "multipart: a line begins with the boundary and goes "
	    "on otherwise");
}

/* ---- the body */

static bool
is_boundary(struct slice s)
{
	static const char others[] = "'()+_,-./:=? ";

	for (size_t i = 0; i < s.len; i++) {
		char c = s.ptr[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
		    !(c >= 'A' && c <= 'Z') &&
		    (c == '\0' || strchr(others, c) == NULL))
			return false;
	}
	return s.len > 0 && s.ptr[s.len - 1] != ' ';
}

struct err
multipart_init(struct multipart *m, struct slice content_type,
    const struct multipart_calls *calls, void *arg)
{
	const char *semicolon = content_type.len == 0 ? NULL :
	    memchr(content_type.ptr, ';', content_type.len);
	struct slice parameters = { "", 0 };
	size_t len;
	bool found;

	if (semicolon != NULL)
		parameters = slice_make(semicolon, content_type.len -
		    (size_t)(semicolon - content_type.ptr));
	memset(m, 0, offsetof(struct multipart, delimiter));
	m->calls = calls;
	m->arg = arg;
	if (!find_parameter(parameters, "boundary", m->delimiter + 4,
	    MULTIPART_BOUNDARY_MAX, &len, &found))
		return FAIL(BAD_INPUT, "multipart: malformed Content-Type, or "
		    "a boundary of more than 70 characters");
	if (!found || !is_boundary(slice_make(m->delimiter + 4, len)))
		return FAIL(BAD_INPUT, "multipart: Content-Type names no "
		    "usable boundary");
	memcpy(m->delimiter, "\r\n--", 4);
	m->delimiter_len = 4 + len;
	/* The first one may begin the body. */
	m->state = IN_PREAMBLE;
	m->bare = true;
	m->matched = 2;
	return OK;
}

struct err
multipart_feed(struct multipart *m, struct slice piece)
{
	const char *at = piece.ptr, *end = piece.ptr + piece.len;
	struct err e = m->err;

	while (!err_is(e) && at < end) {
		switch ((enum state)m->state) {
		case IN_PREAMBLE:
		case IN_DATA:
			e = take_data(m, &at, end);
			break;
		case AFTER_DELIMITER:
		case AFTER_DASH:
		case IN_PADDING:
			e = after_delimiter(m, *at++);
			break;
		case IN_LINE:
			e = take_line(m, &at, end);
			break;
		case IN_EPILOGUE:
			return OK;
		}
	}
	return e;
}

struct err
multipart_finish(struct multipart *m)
{
	if (err_is(m->err))
		return m->err;
	if (m->state != IN_EPILOGUE)
		return fail(m, "multipart: ends without the last boundary");
	return OK;
}
