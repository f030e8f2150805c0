#include "common/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "master/call.h"
#include "master/command.h"

#define TIMEOUT_SECS_MAX 86400u

enum when { ANY, RUN };			/* RUN: not while draining */

static const struct row {
	const char *name, *operands;
	uint32_t options;		/* beside --json: bits */
	enum when when;
	uint32_t seconds;
	enum call_step (*step)(struct call *);
} rows[] = {
#define ADMIN(symbol, function, name, operands, options, when, seconds, help) \
	{ name, operands, options, when, seconds, command_##function },
#include "master/admin.def"
#undef ADMIN
};

static const struct { const char *name, *value; } options[] = {
#define ADMIN_OPTION(symbol, name, value, help) { name, value },
#include "master/admin.def"
#undef ADMIN_OPTION
};

static_assert(ADMIN_OPTION_COUNT <= 32, "a bit each");

enum call_step
call_refuse(struct call *call, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(call->text, sizeof(call->text), fmt, ap);
	va_end(ap);
	call->exit = ADMIN_EXIT_REFUSED;
	return CALL_DONE;
}

/* Whether the text is one of the words of "a|b|c". */
static bool
is_choice(const char *words, const char *text)
{
	size_t len = strlen(text);

	for (; len > 0 && words != NULL; words = strchr(words, '|')) {
		words += *words == '|';
		if (strncmp(words, text, len) == 0 &&
		    (words[len] == '|' || words[len] == '\0'))
			return true;
	}
	return false;
}

/* "--name" or "--name=value". */
static bool
take_option(struct call *call, const struct row *row, char *word)
{
	char *value = strchr(word, '=');
	uint32_t i;

	if (value != NULL)
		*value++ = '\0';
	for (i = 0; i < ADMIN_OPTION_COUNT; i++) {
		if (strcmp(options[i].name, word + 2) == 0 &&
		    (i == ADMIN_OPTION_JSON || (row->options >> i & 1) != 0))
			break;
	}
	if (i == ADMIN_OPTION_COUNT)
		call_refuse(call, "%s: has no option %s; see memwaldctl --help",
		    row->name, word);
	else if (call->given[i])
		call_refuse(call, "%s: %s is given twice", row->name, word);
	else if ((value != NULL) != (*options[i].value != '\0'))
		call_refuse(call, "%s: %s takes %s", row->name, word,
		    value != NULL ? "no value" : options[i].value);
	else if (strchr(options[i].value, '|') != NULL &&
	    !is_choice(options[i].value, value))
		call_refuse(call, "%s: %s is one of %s", row->name, word,
		    options[i].value);
	if (call->exit != ADMIN_EXIT_OK)
		return false;
	call->given[i] = true;
	call->values[i] = value;
	return true;
}

/* How many operands a row takes at most: words, or "..." for all. */
static uint32_t
operands_max(const struct row *row)
{
	const char *s = row->operands;
	uint32_t n = *s != '\0';

	for (; *s != '\0'; s++)
		n += *s == ' ';
	return strstr(row->operands, "...") != NULL ? CALL_OPERANDS_MAX : n;
}

/* One that is not in brackets must be there. */
static uint32_t
operands_min(const struct row *row)
{
	return *row->operands != '\0' && *row->operands != '[';
}

static void
take_words(struct call *call, const struct row *row, char *line)
{
	char *word;

	while ((word = strsep(&line, " \t\r")) != NULL) {
		if (*word == '\0')
			continue;
		if (strncmp(word, "--", 2) == 0) {
			if (!take_option(call, row, word))
				return;
			continue;
		}
		if (call->operand_count == operands_max(row)) {
			call_refuse(call, "%s: one word too many: %s",
			    row->name, word);
			return;
		}
		call->operands[call->operand_count++] = word;
	}
	if (call->operand_count < operands_min(row))
		call_refuse(call, "%s: needs %s", row->name, row->operands);
}

/* Until the call is given up: the row's, or --timeout. */
static uint64_t
seconds_of(struct call *call, const struct row *row)
{
	const char *value = call->values[ADMIN_OPTION_TIMEOUT];
	unsigned long seconds;
	char *end;

	if (value == NULL)
		return row->seconds;
	seconds = strtoul(value, &end, 10);
	if (strspn(value, "0123456789") == 0 || *end != '\0' || seconds == 0 ||
	    seconds > TIMEOUT_SECS_MAX) {
		call_refuse(call, "%s: --timeout is 1 to %u seconds",
		    row->name, TIMEOUT_SECS_MAX);
		return 0;
	}
	return seconds;
}

void
call_begin(struct call *call, char *line, uint64_t now_ns)
{
	char *word = NULL;
	uint32_t i;

	memset(call, 0, sizeof(*call));
	buf_init(&call->body, CALL_BODY_BYTES);
	line += strspn(line, " \t\r");
	word = strsep(&line, " \t\r");
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].name, word) == 0)
			break;
	}
	call->command = i;
	if (i == ARRAY_LEN(rows)) {
		call_refuse(call, "no such command; see memwaldctl --help");
		return;
	}
	take_words(call, &rows[i], line);
	call->deadline_ns = now_ns + seconds_of(call, &rows[i]) * NS_PER_SEC;
	report_init(&call->report, &call->body,
	    call->given[ADMIN_OPTION_JSON]);
	if (call->exit == ADMIN_EXIT_OK && rows[i].when == RUN &&
	    command_draining())
		call_refuse(call, "%s: the server is draining", rows[i].name);
}

enum call_step
call_step(struct call *call, uint64_t now_ns)
{
	enum call_step step;

	if (call->exit == ADMIN_EXIT_REFUSED)
		return CALL_DONE;
	call->now_ns = now_ns;
	step = rows[call->command].step(call);
	if (report_full(&call->report))
		return call_refuse(call, "no memory for the answer");
	if (call_late(call) && call->exit != ADMIN_EXIT_REFUSED) {
		call->exit = ADMIN_EXIT_LATE;
		return CALL_DONE;
	}
	return step;
}

enum call_step
call_decide(struct call *call, enum call_step (*decide)(struct call *),
    enum call_step (*look)(struct call *))
{
	switch (decide_step(call)) {
	case DECIDE_NOW:
		return decide(call);
	case DECIDE_BROUGHT:
		return look(call);
	case DECIDE_WAIT:
		return CALL_WAIT;
	default:
		return CALL_DONE;
	}
}

bool
call_late(const struct call *call)
{
	return call->now_ns >= call->deadline_ns;
}

void
call_progress(struct call *call, uint64_t done, uint64_t total,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(call->progress_text, sizeof(call->progress_text), fmt, ap);
	va_end(ap);
	call->progress_known = true;
	call->progress_done = done;
	call->progress_total = total;
}

void
call_end(struct call *call)
{
	work_end(call);
	decide_end(call);
	left_walk_drop(&call->left);
	fence_drop(&call->fence);
	buf_free(&call->body);
}
