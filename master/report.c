#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/number.h"
#include "master/report.h"

#define VALUE_BYTES 400

void
report_init(struct report *r, struct buf *body, bool json)
{
	*r = (struct report){ .json = json };
	json_write_init(&r->w, body);
}

void
report_open(struct report *r)
{
	if (r->json)
		json_write_open(&r->w, NULL, '{');
}

static void
put(struct report *r, const char *bytes, size_t n)
{
	if (!r->full && !buf_append(r->w.buf, bytes, n))
		r->full = true;
}

void
report_close(struct report *r)
{
	if (r->json) {
		json_write_close(&r->w, '}');
		put(r, "\n", 1);
	}
}

bool
report_full(const struct report *r)
{
	return r->full || !json_write_done(&r->w);
}

/* Columns are two blanks apart, and none is left at the end of a line. */
static void
cell(struct report *r, const char *text, int width, bool last)
{
	int room = width < 0 ? -width : width;
	int pad = room - (int)strlen(text);

	for (; pad > 0 && width > 0; pad--)
		put(r, " ", 1);
	put(r, text, strlen(text));
	if (last)
		return;
	for (; pad > 0; pad--)
		put(r, " ", 1);
	put(r, "  ", 2);
}

/* Whether a column of the text comes after this one. */
static bool
is_last(const struct report *r, uint32_t column)
{
	uint32_t i;

	for (i = column + 1; i < r->count && r->columns[i].head == NULL; i++)
		continue;
	return i == r->count;
}

void
report_list(struct report *r, const char *name,
    const struct report_column *columns, uint32_t count)
{
	uint32_t i;

	r->columns = columns;
	r->count = count;
	if (r->json) {
		json_write_open(&r->w, name, '[');
		return;
	}
	for (i = 0; i < count; i++) {
		if (columns[i].head != NULL)
			cell(r, columns[i].head, columns[i].width,
			    is_last(r, i));
	}
	put(r, "\n", 1);
}

void
report_list_end(struct report *r)
{
	if (r->json)
		json_write_close(&r->w, ']');
}

void
report_row(struct report *r)
{
	r->at = 0;
	if (r->json)
		json_write_open(&r->w, NULL, '{');
}

void
report_row_end(struct report *r)
{
	MUST(r->at == r->count);
	if (r->json)
		json_write_close(&r->w, '}');
	else
		put(r, "\n", 1);
}

/* The column of the next value; NULL: it is not shown. */
static const struct report_column *
next_column(struct report *r)
{
	const struct report_column *c = &r->columns[r->at];

	MUST(r->at < r->count);
	r->at++;
	return (r->json ? c->name : c->head) != NULL ? c : NULL;
}

static void
show(struct report *r, const struct report_column *c, const char *text)
{
	cell(r, text, c->width, is_last(r, r->at - 1));
}

void
report_uint(struct report *r, uint64_t v)
{
	const struct report_column *c = next_column(r);
	char text[NUMBER_TEXT_MAX + 1];

	if (c == NULL)
		return;
	if (r->json) {
		json_write_uint64(&r->w, c->name, v);
		return;
	}
	text[number_print_uint64(text, v)] = '\0';
	show(r, c, text);
}

void
report_int(struct report *r, int64_t v)
{
	const struct report_column *c = next_column(r);
	char text[NUMBER_TEXT_MAX + 1];

	if (c == NULL)
		return;
	if (r->json) {
		json_write_int64(&r->w, c->name, v);
		return;
	}
	text[number_print_int64(text, v)] = '\0';
	show(r, c, text);
}

void
report_bool(struct report *r, bool v)
{
	const struct report_column *c = next_column(r);

	if (c == NULL)
		return;
	if (r->json)
		json_write_bool(&r->w, c->name, v);
	else
		show(r, c, v ? "yes" : "no");
}

void
report_text(struct report *r, const char *fmt, ...)
{
	const struct report_column *c = next_column(r);
	char text[VALUE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (c == NULL)
		return;
	if (r->json)
		json_write_text(&r->w, c->name, slice_of(text));
	else
		show(r, c, *text != '\0' ? text : "-");
}

void
report_line(struct report *r, const char *fmt, ...)
{
	char text[VALUE_BYTES];
	va_list ap;

	if (r->json)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put(r, text, strlen(text));
	put(r, "\n", 1);
}
