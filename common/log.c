#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"

/* A longer line is cut: one write of up to PIPE_BUF bytes is never torn. */
#define LINE_MAX_BYTES 4096

static const char *const level_names[] = { "ERROR", "WARN", "INFO", "DEBUG" };
static const char *process = "memwald";
static _Atomic int level = LOG_INFO;

void
log_init(const char *process_name)
{
	process = process_name;
}

void
log_set_level(enum log_level l)
{
	atomic_store_explicit(&level, l, memory_order_relaxed);
}

bool
log_level_parse(const char *text, enum log_level *l)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(level_names); i++) {
		if (strcasecmp(text, level_names[i]) == 0) {
			*l = (enum log_level)i;
			return true;
		}
	}
	return false;
}

bool
log_wants(enum log_level l)
{
	return (int)l <= atomic_load_explicit(&level, memory_order_relaxed);
}

/* snprintf answers what it would have written; at is what it did write. */
static size_t
advance(size_t at, int n)
{
	MUST(n >= 0);
	return MIN(at + (size_t)n, (size_t)LINE_MAX_BYTES - 2);
}

static size_t
put_head(char *line, enum log_level l)
{
	struct timespec now;
	struct tm tm;
	size_t at;

	/* The true time, also where tests replace the server's clock. */
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	at = strftime(line, LINE_MAX_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	return advance(at, snprintf(line + at, LINE_MAX_BYTES - at,
	    ".%03dZ %s %s ", (int)(now.tv_nsec / 1000000), level_names[l],
	    process));
}

static void
put_line(char *line, size_t at)
{
	size_t i, done = 0;

	/* An event is a line, whatever text came in from outside. */
	for (i = 0; i < at; i++) {
		if ((unsigned char)line[i] < 0x20)
			line[i] = ' ';
	}
	line[at++] = '\n';
	while (done < at) {
		ssize_t n = write(STDERR_FILENO, line + done, at - done);

		if (n <= 0)
			return;		/* nobody listens: nothing to do */
		done += (size_t)n;
	}
}

void
log_line(enum log_level l, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;
	size_t at;

	if (!log_wants(l))
		return;
	at = put_head(line, l);
	va_start(ap, fmt);
	at = advance(at, vsnprintf(line + at, sizeof(line) - at, fmt, ap));
	va_end(ap);
	put_line(line, at);
}

void
log_err(enum log_level l, struct err e, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;
	size_t at;

	if (!log_wants(l))
		return;
	at = put_head(line, l);
	va_start(ap, fmt);
	at = advance(at, vsnprintf(line + at, sizeof(line) - at, fmt, ap));
	va_end(ap);
	at = advance(at, snprintf(line + at, sizeof(line) - at,
	    " error=%s reason=\"%s\"", err_name(e), e.what));
	if (e.os != 0)
		at = advance(at, snprintf(line + at, sizeof(line) - at,
		    " os=\"%s\"", strerrordesc_np(e.os)));
	put_line(line, at);
}
