#include "common/base.h"

#include <stdlib.h>

#include "worker/http/chunk.h"
#include "worker/http/parse.h"

/*
 * Any bytes as a request head, and what is behind it as chunks. Cut anywhere
 * the answer must be the same as in one piece: that is what a proxy in front
 * of us relies on.
 */

#define HEAD_BYTES_MAX 16384

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static char *
copy_of(const uint8_t *bytes, size_t len)
{
	char *copy = malloc(len + 1);

	MUST(copy != NULL);
	memcpy(copy, bytes, len);
	return copy;
}

/* The length of the head if it is good, 0 if it is not complete or bad. */
static size_t
parse_whole(const uint8_t *bytes, size_t len, struct http_head *head,
    char **buffer)
{
	size_t scanned = 0, head_len = 0;

	*buffer = copy_of(bytes, len);
	if (err_is(parse_head(*buffer, len, HEAD_BYTES_MAX, &scanned, head,
	    &head_len)))
		return 0;
	MUST(head_len <= len);
	return head_len;
}

static size_t
parse_in_steps(const uint8_t *bytes, size_t len, struct http_head *head,
    char **buffer)
{
	size_t scanned = 0, head_len = 0, upto;

	*buffer = copy_of(bytes, len);
	for (upto = 0; upto <= len && head_len == 0; upto++) {
		if (err_is(parse_head(*buffer, upto, HEAD_BYTES_MAX, &scanned,
		    head, &head_len)))
			return 0;
	}
	return head_len;
}

static void
same_heads(const struct http_head *a, const struct http_head *b)
{
	uint32_t i;

	MUST(a->method == b->method && a->minor == b->minor);
	MUST(a->keep_alive == b->keep_alive && a->chunked == b->chunked);
	MUST(a->content_length == b->content_length);
	MUST(!(a->chunked && a->has_length));
	MUST(a->segment_count == b->segment_count);
	for (i = 0; i < a->segment_count; i++) {
		MUST(slice_eq(a->segments[i], b->segments[i]));
		MUST(parse_utf8_valid(a->segments[i]));
	}
	MUST(slice_eq(a->query, b->query));
	MUST(a->header_count == b->header_count);
}

/* The data that came out, and whether the end was seen; -1 for an error. */
static int
decode(const uint8_t *bytes, size_t len, size_t step, char *out,
    size_t *out_len)
{
	struct chunk c;
	size_t at = 0;

	chunk_init(&c);
	*out_len = 0;
	while (at < len && !c.done) {
		size_t n = MIN(step, len - at), data_len = 0, used = 0;
		char *piece = copy_of(bytes + at, n);
		struct err e = chunk_decode(&c, piece, n, &data_len, &used);

		if (err_is(e)) {
			free(piece);
			return -1;
		}
		MUST(used <= n && data_len <= used);
		MUST(used == n || c.done);
		memcpy(out + *out_len, piece, data_len);
		*out_len += data_len;
		at += used;
		free(piece);
	}
	return c.done;
}

static void
chunks(const uint8_t *bytes, size_t len)
{
	char *whole = malloc(len + 1), *cut = malloc(len + 1);
	size_t whole_len, cut_len;
	int a, b;

	MUST(whole != NULL && cut != NULL);
	a = decode(bytes, len, len == 0 ? 1 : len, whole, &whole_len);
	b = decode(bytes, len, 1, cut, &cut_len);
	MUST(a == b);
	if (a >= 0)
		MUST(whole_len == cut_len &&
		    memcmp(whole, cut, whole_len) == 0);
	free(whole);
	free(cut);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct http_head whole, steps;
	char *one, *other;
	size_t a, b;

	if (len > HEAD_BYTES_MAX)
		return 0;
	a = parse_whole(bytes, len, &whole, &one);
	b = parse_in_steps(bytes, len, &steps, &other);
	MUST(a == b);
	if (a != 0) {
		same_heads(&whole, &steps);
		chunks(bytes + a, len - a);
	}
	free(one);
	free(other);
	return 0;
}
