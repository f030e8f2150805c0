#ifndef MEMWALD_TESTS_UNIT_MULTIPART_NAIVE_H
#define MEMWALD_TESTS_UNIT_MULTIPART_NAIVE_H

/*
 * multipart_naive - what multipart must find, found the simple way: the whole
 * body is there, and is cut wherever CR LF and the boundary stand. Only for
 * bodies that multipart takes; says nothing of what is malformed.
 */

#include "common/base.h"

#include <stdlib.h>

#include "common/buf.h"
#include "worker/http/multipart.h"

/* What was told, as text: "<name>bytes;" for each part. */
struct told {
	struct buf text;
	uint32_t parts;
	bool open;
};

static struct err
told_begin(void *arg, struct slice name)
{
	struct told *t = arg;

	MUST(!t->open);
	t->open = true;
	t->parts++;
	MUST(buf_append(&t->text, "<", 1) && buf_append_slice(&t->text, name) &&
	    buf_append(&t->text, ">", 1));
	return OK;
}

static struct err
told_data(void *arg, struct slice bytes)
{
	struct told *t = arg;

	MUST(t->open && bytes.len > 0);
	MUST(buf_append_slice(&t->text, bytes));
	return OK;
}

static struct err
told_end(void *arg)
{
	struct told *t = arg;

	MUST(t->open);
	t->open = false;
	MUST(buf_append(&t->text, ";", 1));
	return OK;
}

static const struct multipart_calls told_calls = {
	.begin = told_begin,
	.data = told_data,
	.end = told_end,
};

/* Feeds the body in pieces that end where their memory does. */
static struct err
told_read(struct told *t, struct slice type, struct slice body, size_t step)
{
	static struct multipart m;
	struct err e;
	size_t at, n;
	char *piece;

	buf_init(&t->text, 64u << 20);
	t->parts = 0;
	t->open = false;
	e = multipart_init(&m, type, &told_calls, t);
	for (at = 0; at < body.len && !err_is(e); at += n) {
		n = MIN(step, body.len - at);
		piece = malloc(n);
		MUST(piece != NULL);
		memcpy(piece, body.ptr + at, n);
		e = multipart_feed(&m, slice_make(piece, n));
		free(piece);
	}
	return err_is(e) ? e : multipart_finish(&m);
}

/* The data of every part, in order, each with ";" behind it. */
static void
naive_parts(struct slice body, const char *boundary, struct buf *out,
    uint32_t *parts)
{
	struct buf all, delimiter;
	char *at, *end, *next;

	buf_init(&all, 64u << 20);
	buf_init(&delimiter, 1024);
	MUST(buf_append(&all, "\r\n", 2) && buf_append_slice(&all, body));
	MUST(buf_printf(&delimiter, "\r\n--%s", boundary));
	*parts = 0;
	end = all.ptr + all.len;
	at = memmem(all.ptr, all.len, delimiter.ptr, delimiter.len);
	while (at != NULL) {
		at += delimiter.len;
		if (end - at >= 2 && memcmp(at, "--", 2) == 0)
			break;
		next = memmem(at, (size_t)(end - at), delimiter.ptr,
		    delimiter.len);
		MUST(next != NULL);
		at = memmem(at, (size_t)(next - at), "\r\n\r\n", 4);
		MUST(at != NULL);
		at += 4;
		MUST(buf_append(out, at, (size_t)(next - at)));
		MUST(buf_append(out, ";", 1));
		++*parts;
		at = next;
	}
	MUST(at != NULL);
	buf_free(&all);
	buf_free(&delimiter);
}

#endif
