#include "common/base.h"

#include "common/rfc3339.h"
#include "common/utf8.h"
#include "worker/api/row_machine.h"

static bool
take_text(struct row_read *r, const char *p, size_t n)
{
	struct column *c = r->column;
	size_t max = r->state == IN_TIME ? RFC3339_READ_MAX : NAME_MAX_BYTES;

	if (r->state == IN_TEXT) {
		if (!column_reserve(c, n)) {
			row_frame_fail_full(r);
			return false;
		}
		memcpy(column_tail(c), p, n);
		column_grow(c, n);
		return true;
	}
	if (n > max - r->name_len) {
		row_frame_fail(r, r->state == IN_TIME ? "not a time of RFC 3339" :
		    "a name is too long");
		return false;
	}
	memcpy(r->name + r->name_len, p, n);
	r->name_len += n;
	return true;
}

static bool
is_word(const struct row_read *r)
{
	size_t len = column_open_length(r->column);
	struct slice text = slice_make(column_tail(r->column) - len, len);
	uint32_t i;

	for (i = 0; len > 0 && i < r->rule->word_count; i++) {
		if (slice_eq(r->rule->words[i], text))
			return true;
	}
	return false;
}

static const char *
words_of(const struct row_read *r)
{
	const char *all = "";
	uint32_t i;

	for (i = 0; i < r->rule->word_count; i++)
		all = arena_printf(r->arena, "%s%s%s", all,
		    i == 0 ? "" : ", ", r->rule->words[i].ptr);
	return all;
}

static ptrdiff_t
text_done(struct row_read *r)
{
	uint64_t len = column_open_length(r->column);

	if ((r->rule->form == FORM_KEY || r->rule->form == FORM_FILLED) &&
	    len == 0)
		return row_frame_fail(r, "must not be empty");
	if (r->rule->form == FORM_KEY && len > STORE_KEY_BYTES_MAX)
		return row_frame_fail(r, "too long for a key");
	if (r->rule->word_count > 0 && !is_word(r))
		return row_frame_fail(r, arena_printf(r->arena,
		    "must be one of %s", words_of(r)));
	if (!column_end_value(r->column))
		return row_frame_fail_full(r);
	row_frame_value_done(r);
	return 1;
}

static ptrdiff_t
time_done(struct row_read *r)
{
	int64_t us;

	if (!rfc3339_parse(slice_make(r->name, r->name_len), &us))
		return row_frame_fail(r, "not a time of RFC 3339");
	if (!column_int64(r->column, us))
		return row_frame_fail_full(r);
	row_frame_value_done(r);
	return 1;
}

static ptrdiff_t
step_escape(struct row_read *r, const char *p, const char *end)
{
	const char *why;
	uint32_t code;
	char utf8[4];
	int n = json_escape(p, end, &code, &why);

	if (n == JSON_BAD)
		return row_frame_fail(r, why);
	if (n == JSON_MORE)
		return JSON_MORE;
	if (code == 0 && r->state == IN_NAME)
		return row_frame_fail(r, "a name with U+0000");
	if (code == 0 && r->state == IN_TEXT && r->rule->form == FORM_KEY)
		return row_frame_fail(r, "a key with U+0000");
	return take_text(r, utf8, utf8_encode(utf8, code)) ? n : JSON_BAD;
}

/* Sequences of several bytes, as many as come. */
static ptrdiff_t
step_utf8(struct row_read *r, const char *p, const char *end)
{
	const char *from = p;
	int n = 1;

	while (p < end && (uint8_t)*p >= 0x80) {
		n = utf8_length(p, (size_t)(end - p));
		if (n <= 0)
			break;
		p += n;
	}
	if (p == from)
		return n == UTF8_BAD ? row_frame_fail(r, "not UTF-8") : JSON_MORE;
	return take_text(r, from, (size_t)(p - from)) ? p - from : JSON_BAD;
}

ptrdiff_t
row_text_step(struct row_read *r, const char *p, const char *end)
{
	size_t run = json_plain(p, end);

	if (run > 0)
		return take_text(r, p, run) ? (ptrdiff_t)run : JSON_BAD;
	if (*p == '"')
		return r->state == IN_NAME ? row_name_done(r) :
		    r->state == IN_TIME ? time_done(r) : text_done(r);
	if (*p == '\\')
		return step_escape(r, p, end);
	if ((uint8_t)*p < ' ')
		return row_frame_fail(r, "control character in a string");
	return step_utf8(r, p, end);
}

/* ---- base64 */

static size_t
decode(struct row_read *r, struct slice text)
{
	struct column *c = r->column;
	size_t len = 0, taken;

	taken = base64_decode(&r->base64, text, column_tail(c), &len);
	column_grow(c, len);
	return taken;
}

/* "\/" and the like are base64 too, if what they stand for is. */
static ptrdiff_t
step_bytes_escape(struct row_read *r, const char *p, const char *end)
{
	const char *why = "not base64";
	uint32_t code;
	char c;
	int n = json_escape(p, end, &code, &why);

	if (n == JSON_MORE)
		return JSON_MORE;
	if (n == JSON_BAD || code >= 0x80)
		return row_frame_fail(r, why);
	c = (char)code;
	return decode(r, slice_make(&c, 1)) == 1 ? n : row_frame_fail(r, "not base64");
}

ptrdiff_t
row_text_step_bytes(struct row_read *r, const char *p, const char *end)
{
	/* Up to the quote, so that room is asked for this value alone. */
	const char *quote = memchr(p, '"', (size_t)(end - p));
	size_t len = (size_t)((quote == NULL ? end : quote) - p), taken;

	if (!column_reserve(r->column, BASE64_ROOM(len)))
		return row_frame_fail_full(r);
	if (len == 0) {
		if (!base64_finish(&r->base64))
			return row_frame_fail(r, "not base64: it ends early");
		return text_done(r);
	}
	taken = decode(r, slice_make(p, len));
	if (taken > 0)
		return (ptrdiff_t)taken;
	return *p == '\\' ? step_bytes_escape(r, p, end) : row_frame_fail(r, "not base64");
}

void
row_text_begin(struct row_read *r, enum state next)
{
	r->name_len = 0;
	r->base64 = (struct base64){ 0 };
	r->state = (uint8_t)next;
}
