#include "common/base.h"

#include "common/utf8.h"
#include "worker/store/filter_parts.h"

/*
 * A pattern is cut at its '%' into parts. The first must stand at the begin of
 * the text, the last at its end, and those between are searched for from left
 * to right, each as early as possible. A part without '_' is searched for in
 * linear time (memmem); one with '_' is short (FILTER_SEARCH_MAX), so that no
 * pattern makes a row cost the product of two long texts.
 */

struct part {
	size_t len;
	const char *bytes;
	const bool *any;		/* '_': one code point */
	bool has_any;
};

struct filter_pattern {
	size_t part_count;		/* 1: there is no '%' */
	struct part *parts;
};

static size_t
code_point(const char *p, size_t left)
{
	int n = utf8_length(p, left);

	return n > 0 ? (size_t)n : 1;	/* foreign bytes: one each */
}

/* Takes pattern bytes from *at into the part, up to a '%' or the end. */
static void
take_part(struct slice pattern, size_t *at, struct part *p, char *bytes,
    bool *any)
{
	*p = (struct part){ .bytes = bytes, .any = any };
	for (; *at < pattern.len && pattern.ptr[*at] != '%'; ++*at) {
		char c = pattern.ptr[*at];

		any[p->len] = c == '_';
		p->has_any = p->has_any || c == '_';
		if (c == '\\' && *at + 1 < pattern.len)
			c = pattern.ptr[++*at];
		bytes[p->len++] = c;
	}
}

struct err
filter_like_make(struct slice pattern, struct arena *arena,
    const struct filter_pattern **out, const char **why)
{
	struct filter_pattern *f = arena_calloc(arena, 1, sizeof(*f));
	char *bytes = arena_alloc(arena, pattern.len + 1);
	bool *any = arena_calloc(arena, pattern.len + 1, sizeof(*any));
	size_t at = 0, i;

	*why = NULL;
	if (f != NULL)
		f->parts = arena_calloc(arena, pattern.len + 1,
		    sizeof(*f->parts));
	if (f == NULL || f->parts == NULL || bytes == NULL || any == NULL)
		return FAIL(NO_MEMORY, "filter");
	for (;; at++) {
		struct part *p = &f->parts[f->part_count++];

		take_part(pattern, &at, p, bytes, any);
		bytes += p->len;
		any += p->len;
		if (at == pattern.len)
			break;
	}
	for (i = 1; i + 1 < f->part_count; i++) {
		if (f->parts[i].has_any &&
		    f->parts[i].len > FILTER_SEARCH_MAX)
			*why = "between two % a part with _ is too long";
	}
	*out = f;
	return OK;
}

/* The part at the begin of s: *bytes is what it takes. */
static bool
match_front(const struct part *p, struct slice s, size_t *bytes)
{
	size_t at = 0, i;

	if (!p->has_any) {
		*bytes = p->len;
		return p->len <= s.len && (p->len == 0 ||
		    memcmp(p->bytes, s.ptr, p->len) == 0);
	}
	for (i = 0; i < p->len; i++) {
		if (at == s.len)
			return false;
		if (p->any[i])
			at += code_point(s.ptr + at, s.len - at);
		else if (s.ptr[at++] != p->bytes[i])
			return false;
	}
	*bytes = at;
	return true;
}

/* Bytes of the last code point of s, which is not empty. */
static size_t
last_code_point(struct slice s)
{
	size_t n;

	for (n = 2; n <= 4 && n <= s.len; n++) {
		if (utf8_length(s.ptr + s.len - n, n) == (int)n)
			return n;
	}
	return 1;
}

/* The part at the end of s: *bytes is what it takes. */
static bool
match_back(const struct part *p, struct slice s, size_t *bytes)
{
	size_t left = s.len, i;

	for (i = p->len; i > 0; i--) {
		if (left == 0)
			return false;
		if (p->any[i - 1])
			left -= last_code_point(slice_make(s.ptr, left));
		else if (s.ptr[--left] != p->bytes[i - 1])
			return false;
	}
	*bytes = s.len - left;
	return true;
}

/* The part as early as possible; s is cut behind it. */
static bool
search(const struct part *p, struct slice *s)
{
	size_t at = 0, bytes = p->len;
	const char *found;

	if (p->len == 0)
		return true;
	if (!p->has_any) {
		found = s->len < p->len ? NULL :
		    memmem(s->ptr, s->len, p->bytes, p->len);
		if (found == NULL)
			return false;
		at = (size_t)(found - s->ptr);
	} else {
		while (!match_front(p, slice_make(s->ptr + at, s->len - at),
		    &bytes)) {
			if (at == s->len)
				return false;
			at += code_point(s->ptr + at, s->len - at);
		}
	}
	*s = slice_make(s->ptr + at + bytes, s->len - at - bytes);
	return true;
}

bool
filter_like_match(const struct filter_pattern *f, struct slice s)
{
	const struct part *last = &f->parts[f->part_count - 1];
	size_t bytes, i;

	if (!match_front(&f->parts[0], s, &bytes))
		return false;
	s = slice_make(s.ptr + bytes, s.len - bytes);
	if (f->part_count == 1)
		return s.len == 0;
	if (!match_back(last, s, &bytes))
		return false;
	s.len -= bytes;
	for (i = 1; i + 1 < f->part_count; i++) {
		if (!search(&f->parts[i], &s))
			return false;
	}
	return true;
}
