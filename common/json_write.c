#include "common/base.h"

#include <math.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/number.h"
#include "common/utf8.h"

#define REPLACEMENT	"\xef\xbf\xbd"	/* U+FFFD */

static bool
put_escape(struct buf *b, uint8_t c)
{
	static const char short_names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
	static const char hex[] = "0123456789abcdef";
	const char *at = c == 0 ? NULL : strchr(short_names, c);
	char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

	if (at == NULL)
		return buf_append(b, text, sizeof(text));
	text[1] = letters[at - short_names];
	return buf_append(b, text, 2);
}

/* Sequences as they are, as many as come; what is none as U+FFFD, a byte. */
static const char *
put_sequences(struct buf *b, const char *p, const char *end, bool *ok)
{
	const char *from = p;
	int n = 1;

	while (p < end && (uint8_t)*p >= 0x80) {
		n = utf8_length(p, (size_t)(end - p));
		if (n <= 0)
			break;
		p += n;
	}
	*ok = buf_append(b, from, (size_t)(p - from));
	if (n <= 0) {
		*ok = *ok && buf_append(b, REPLACEMENT, 3);
		p++;
	}
	return p;
}

bool
json_put_text(struct buf *b, struct slice s)
{
	const char *p = s.ptr, *end = s.ptr + s.len;
	bool ok = true;
	size_t run;

	if (!buf_reserve(b, s.len + 2))
		return false;
	b->ptr[b->len++] = '"';
	while (ok && p < end) {
		run = json_plain(p, end);
		if (!buf_append(b, p, run))
			return false;
		p += run;
		if (p == end)
			break;
		if ((uint8_t)*p >= 0x80)
			p = put_sequences(b, p, end, &ok);
		else
			ok = put_escape(b, (uint8_t)*p++);
	}
	return ok && buf_append(b, "\"", 1);
}

/* ---- the writer */

void
json_write_init(struct json_writer *w, struct buf *b)
{
	*w = (struct json_writer){ .buf = b };
}

static void
put(struct json_writer *w, const void *bytes, size_t n)
{
	if (!w->full && !buf_append(w->buf, bytes, n))
		w->full = true;
}

static void
put_text(struct json_writer *w, struct slice s)
{
	if (!w->full && !json_put_text(w->buf, s))
		w->full = true;
}

/* What stands before a value. */
static void
begin(struct json_writer *w, const char *name)
{
	if (w->comma)
		put(w, ",", 1);
	w->comma = true;
	if (name == NULL)
		return;
	put_text(w, slice_of(name));
	put(w, ":", 1);
}

void
json_write_open(struct json_writer *w, const char *name, char bracket)
{
	begin(w, name);
	put(w, &bracket, 1);
	w->comma = false;
}

void
json_write_close(struct json_writer *w, char bracket)
{
	put(w, &bracket, 1);
	w->comma = true;
}

void
json_write_text(struct json_writer *w, const char *name, struct slice s)
{
	begin(w, name);
	put_text(w, s);
}

void
json_write_uint64(struct json_writer *w, const char *name, uint64_t v)
{
	char text[NUMBER_TEXT_MAX];

	begin(w, name);
	put(w, text, number_print_uint64(text, v));
}

void
json_write_int64(struct json_writer *w, const char *name, int64_t v)
{
	char text[NUMBER_TEXT_MAX];

	begin(w, name);
	put(w, text, number_print_int64(text, v));
}

void
json_write_double(struct json_writer *w, const char *name, double v)
{
	char text[NUMBER_TEXT_MAX];

	if (!isfinite(v)) {
		json_write_null(w, name);
		return;
	}
	begin(w, name);
	put(w, text, number_print_double(text, v));
}

void
json_write_bool(struct json_writer *w, const char *name, bool v)
{
	begin(w, name);
	put(w, v ? "true" : "false", v ? 4 : 5);
}

void
json_write_null(struct json_writer *w, const char *name)
{
	begin(w, name);
	put(w, "null", 4);
}

void
json_write_raw(struct json_writer *w, const char *name, struct slice s)
{
	begin(w, name);
	put(w, s.ptr, s.len);
}

bool
json_write_done(const struct json_writer *w)
{
	return !w->full;
}
