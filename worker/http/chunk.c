#include "common/base.h"

#include "worker/http/chunk.h"

#define SIZE_DIGITS_MAX	15	/* no overflow */
#define IGNORED_MAX	4096

enum state {
	SIZE,			/* of a chunk: its digits */
	EXTENSION,		/* behind the size, up to CR */
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_START,		/* at the beginning of a line */
	TRAILER,
	TRAILER_LF,
	END_LF
};

void
chunk_init(struct chunk *c)
{
	*c = (struct chunk){ .state = SIZE };
}

static int
hex_value(char b)
{
	if (b >= '0' && b <= '9')
		return b - '0';
	if (b >= 'a' && b <= 'f')
		return b - 'a' + 10;
	return b >= 'A' && b <= 'F' ? b - 'A' + 10 : -1;
}

static bool
take_size(struct chunk *c, char b)
{
	int digit = hex_value(b);

	if (digit >= 0) {
		c->left = c->left << 4 | (uint64_t)digit;
		return ++c->digits <= SIZE_DIGITS_MAX;
	}
	if (c->digits == 0)
		return false;
	c->digits = 0;
	c->state = b == ';' ? EXTENSION : SIZE_LF;
	return b == ';' || b == '\r';
}

/* A byte of what is ignored; *next: the state behind its CR. */
static bool
take_ignored(struct chunk *c, char b, enum state next)
{
	if (b == '\r') {
		c->state = next;
		return true;
	}
	if (++c->ignored_bytes > IGNORED_MAX)
		return false;
	return b == '\t' || ((uint8_t)b >= ' ' && b != 127);
}

static bool
expect(struct chunk *c, char b, char want, enum state next)
{
	c->state = next;
	return b == want;
}

/* One byte that is not data. */
static bool
take(struct chunk *c, char b)
{
	switch ((enum state)c->state) {
	case SIZE:
		return take_size(c, b);
	case EXTENSION:
		return take_ignored(c, b, SIZE_LF);
	case SIZE_LF:
		return expect(c, b, '\n',
		    c->left > 0 ? DATA : TRAILER_START);
	case DATA_CR:
		return expect(c, b, '\r', DATA_LF);
	case DATA_LF:
		return expect(c, b, '\n', SIZE);
	case TRAILER_START:
		c->state = TRAILER;
		if (b == '\r')
			c->state = END_LF;
		else if (b == ' ' || b == '\t')
			return false;	/* folded */
		else
			return take_ignored(c, b, TRAILER_LF);
		return true;
	case TRAILER:
		return take_ignored(c, b, TRAILER_LF);
	case TRAILER_LF:
		return expect(c, b, '\n', TRAILER_START);
	case END_LF:
		c->done = true;
		return b == '\n';
	case DATA:
		break;
	}
	MUST(!"a byte of framing");
	return false;
}

struct err
chunk_decode(struct chunk *c, char *bytes, size_t len, size_t *data_len,
    size_t *used)
{
	size_t at = 0, to = 0;

	while (at < len && !c->done) {
		if (c->state == DATA) {
			size_t n = (size_t)MIN(c->left, (uint64_t)(len - at));

			memmove(bytes + to, bytes + at, n);
			to += n;
			at += n;
			c->left -= n;
			if (c->left == 0)
				c->state = DATA_CR;
		} else if (!take(c, bytes[at++])) {
			return FAIL(BAD_INPUT, "bad chunked body");
		}
	}
	*data_len = to;
	*used = at;
	return OK;
}
