#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "worker/store/filter_parts.h"

/* What of a token is repeated in an error. */
#define SHOWN_BYTES_MAX	40

/* In characters, from 1: where an editor shows it. */
static size_t
position(const struct filter_lex *l, size_t at)
{
	size_t i, n = 1;

	for (i = 0; i < at; i++)
		n += ((unsigned char)l->text.ptr[i] & 0xc0) != 0x80;
	return n;
}

struct err
filter_lex_fail(const struct filter_lex *l, size_t at, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return FAIL(BAD_INPUT, arena_printf(l->arena,
	    "filter, position %zu: %s", position(l, at), text));
}

struct err
filter_lex_expected(const struct filter_lex *l, const char *what)
{
	size_t n = l->next - l->at;

	if (l->token == FILTER_END)
		return filter_lex_fail(l, l->at, "expected %s, found the end",
		    what);
	/* Never cut within a character. */
	if (n > SHOWN_BYTES_MAX) {
		n = SHOWN_BYTES_MAX;
		while (n > 0 &&
		    ((unsigned char)l->text.ptr[l->at + n] & 0xc0) == 0x80)
			n--;
	}
	return filter_lex_fail(l, l->at, "expected %s, found %.*s", what,
	    (int)n, l->text.ptr + l->at);
}

bool
filter_lex_is(const struct filter_lex *l, const char *word)
{
	return l->token == FILTER_WORD && l->value.len == strlen(word) &&
	    strncasecmp(l->value.ptr, word, l->value.len) == 0;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static char
peek(const struct filter_lex *l, size_t ahead)
{
	return ahead < l->text.len - l->next ? l->text.ptr[l->next + ahead] :
	    '\0';
}

static void
skip_digits(struct filter_lex *l)
{
	while (is_digit(peek(l, 0)))
		l->next++;
}

/* The first character is a sign, a digit, or a point before one. */
static struct err
take_digits(struct filter_lex *l)
{
	size_t exponent;

	l->token = FILTER_DIGITS;
	if (peek(l, 0) == '+' || peek(l, 0) == '-')
		l->next++;
	skip_digits(l);
	if (peek(l, 0) == '.' && is_digit(peek(l, 1))) {
		l->next++;
		skip_digits(l);
	}
	if (peek(l, 0) == 'e' || peek(l, 0) == 'E') {
		exponent = peek(l, 1) == '+' || peek(l, 1) == '-' ? 2 : 1;
		if (!is_digit(peek(l, exponent)))
			return filter_lex_fail(l, l->next,
			    "expected digits of an exponent");
		l->next += exponent;
		skip_digits(l);
	}
	if (is_letter(peek(l, 0)) || peek(l, 0) == '.')
		return filter_lex_fail(l, l->next, "expected the end of the "
		    "number before %c", peek(l, 0));
	l->value = slice_make(l->text.ptr + l->at, l->next - l->at);
	return OK;
}

/* 'text', "name" or `name`; the quote twice is one of it. */
static struct err
take_quoted(struct filter_lex *l, char quote)
{
	char *out = arena_alloc(l->arena, l->text.len - l->at);
	size_t n = 0;

	if (out == NULL)
		return FAIL(NO_MEMORY, "filter");
	l->token = quote == '\'' ? FILTER_STRING : FILTER_QUOTED;
	for (l->next++; l->next < l->text.len; l->next++) {
		if (l->text.ptr[l->next] != quote) {
			out[n++] = l->text.ptr[l->next];
			continue;
		}
		if (peek(l, 1) != quote) {
			l->next++;
			l->value = slice_make(out, n);
			return OK;
		}
		out[n++] = quote;
		l->next++;
	}
	return filter_lex_fail(l, l->at, "expected a closing %c", quote);
}

static void
take_word(struct filter_lex *l)
{
	l->token = FILTER_WORD;
	while (is_letter(peek(l, 0)) || is_digit(peek(l, 0)))
		l->next++;
	l->value = slice_make(l->text.ptr + l->at, l->next - l->at);
}

static bool
take_symbol(struct filter_lex *l)
{
	static const struct {
		char text[3];
		uint8_t token, orders;
	} symbols[] = {
		{ "==", FILTER_COMPARE, FILTER_SAME },
		{ "=", FILTER_COMPARE, FILTER_SAME },
		{ "!=", FILTER_COMPARE, FILTER_LESS | FILTER_MORE },
		{ "<>", FILTER_COMPARE, FILTER_LESS | FILTER_MORE },
		{ "<=", FILTER_COMPARE, FILTER_LESS | FILTER_SAME },
		{ "<", FILTER_COMPARE, FILTER_LESS },
		{ ">=", FILTER_COMPARE, FILTER_MORE | FILTER_SAME },
		{ ">", FILTER_COMPARE, FILTER_MORE },
		{ "(", FILTER_OPEN, 0 },
		{ ")", FILTER_CLOSE, 0 },
		{ ",", FILTER_COMMA, 0 },
	};
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(symbols); i++) {
		n = strlen(symbols[i].text);
		if (l->text.len - l->at < n ||
		    memcmp(l->text.ptr + l->at, symbols[i].text, n) != 0)
			continue;
		l->token = symbols[i].token;
		l->orders = symbols[i].orders;
		l->next += n;
		return true;
	}
	return false;
}

struct err
filter_lex_next(struct filter_lex *l)
{
	char c;

	while (l->next < l->text.len &&
	    strchr(" \t\r\n", l->text.ptr[l->next]) != NULL &&
	    l->text.ptr[l->next] != '\0')
		l->next++;
	l->at = l->next;
	l->value = slice_make(l->text.ptr + l->at, 0);
	if (l->at == l->text.len) {
		l->token = FILTER_END;
		return OK;
	}
	c = l->text.ptr[l->at];
	if (c == '\'' || c == '"' || c == '`')
		return take_quoted(l, c);
	if (is_digit(c) || (strchr("+-.", c) != NULL && c != '\0' &&
	    (is_digit(peek(l, 1)) || (c != '.' && peek(l, 1) == '.' &&
	    is_digit(peek(l, 2))))))
		return take_digits(l);
	if (is_letter(c)) {
		take_word(l);
		return OK;
	}
	if (take_symbol(l))
		return OK;
	l->next = l->at + 1;
	while (l->next < l->text.len &&
	    ((unsigned char)l->text.ptr[l->next] & 0xc0) == 0x80)
		l->next++;
	return filter_lex_expected(l, "a column, a value or an operator");
}
