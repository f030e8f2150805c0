#include "common/base.h"

#include "common/base64.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* A value below 64, or NOT, whose bit survives an "or" of several. */
#define NOT	0x80
#define N4	NOT, NOT, NOT, NOT
#define N16	N4, N4, N4, N4
#define N64	N16, N16, N16, N16

static const uint8_t values[256] = {
	N16, N16,
	N4, N4, NOT, NOT, NOT, 62, NOT, NOT, NOT, 63,
	52, 53, 54, 55, 56, 57, 58, 59, 60, 61, NOT, NOT, N4,
	NOT, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
	15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, NOT, NOT, NOT, NOT, NOT,
	NOT, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
	41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, NOT, NOT, NOT, NOT, NOT,
	N64, N64,
};

/* Whole groups of four; stops before the first other character. */
static size_t
decode_groups(const uint8_t *in, size_t len, char *out, size_t *out_len)
{
	char *to = out + *out_len;
	size_t i;

	for (i = 0; len - i >= 4; i += 4) {
		uint32_t a = values[in[i]], b = values[in[i + 1]];
		uint32_t c = values[in[i + 2]], d = values[in[i + 3]];
		uint32_t bits = a << 18 | b << 12 | c << 6 | d;

		if (((a | b | c | d) & NOT) != 0)
			break;
		*to++ = (char)(bits >> 16);
		*to++ = (char)(bits >> 8);
		*to++ = (char)bits;
	}
	*out_len = (size_t)(to - out);
	return i;
}

/* "=" ends a group that has two or three characters and no bits over. */
static bool
take_pad(struct base64 *s, char *out, size_t *out_len)
{
	if (s->padded) {		/* the second one: nothing more to say */
		s->have = 0;
		return true;
	}
	if (s->have < 2 || (s->bits & (s->have == 2 ? 0xf : 0x3)) != 0)
		return false;
	if (s->have == 2) {
		out[(*out_len)++] = (char)(s->bits >> 4);
	} else {
		out[(*out_len)++] = (char)(s->bits >> 10);
		out[(*out_len)++] = (char)(s->bits >> 2);
	}
	s->padded = true;
	s->have = (s->have + 1) & 3;	/* 3: one more "=" is due */
	return true;
}

static void
take_value(struct base64 *s, uint8_t value, char *out, size_t *out_len)
{
	s->bits = s->bits << 6 | value;
	s->have++;
	if (s->have < 4)
		return;
	out[(*out_len)++] = (char)(s->bits >> 16);
	out[(*out_len)++] = (char)(s->bits >> 8);
	out[(*out_len)++] = (char)s->bits;
	s->have = 0;
	s->bits = 0;
}

size_t
base64_decode(struct base64 *s, struct slice text, char *out, size_t *out_len)
{
	const uint8_t *in = (const uint8_t *)text.ptr;
	size_t i = 0;

	while (i < text.len) {
		if (s->padded && s->have == 0)
			break;
		if (s->have == 0)
			i += decode_groups(in + i, text.len - i, out, out_len);
		if (i == text.len)
			break;
		if (in[i] == '=') {
			if (!take_pad(s, out, out_len))
				break;
		} else {
			if (s->padded || values[in[i]] == NOT)
				break;
			take_value(s, values[in[i]], out, out_len);
		}
		i++;
	}
	return i;
}

bool
base64_finish(const struct base64 *s)
{
	return s->have == 0;
}

void
base64_encode(struct slice bytes, char *out)
{
	const uint8_t *in = (const uint8_t *)bytes.ptr;
	size_t i;
	uint32_t bits;

	for (i = 0; bytes.len - i >= 3; i += 3) {
		bits = (uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2];
		*out++ = alphabet[bits >> 18];
		*out++ = alphabet[bits >> 12 & 63];
		*out++ = alphabet[bits >> 6 & 63];
		*out++ = alphabet[bits & 63];
	}
	if (i == bytes.len)
		return;
	bits = (uint32_t)in[i] << 16;
	if (bytes.len - i == 2)
		bits |= (uint32_t)in[i + 1] << 8;
	*out++ = alphabet[bits >> 18];
	*out++ = alphabet[bits >> 12 & 63];
	*out++ = bytes.len - i == 2 ? alphabet[bits >> 6 & 63] : '=';
	*out = '=';
}
