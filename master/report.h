#ifndef MEMWALD_MASTER_REPORT_H
#define MEMWALD_MASTER_REPORT_H

/*
 * report - the body of an answer, as text for people or as one JSON object.
 *
 * A table is written once for both: its columns are named in an array, and a
 * row is one value for each, in that order. A column without a head is in the
 * JSON alone, one without a name in the text alone.
 *
 * The buffer may be emptied between any two calls: nothing points into it.
 *
 * Errors:	a full buffer makes it deaf; report_full tells.
 */

#include "common/base.h"
#include "common/json.h"

struct report_column {
	const char *head;		/* NULL: JSON only */
	const char *name;		/* NULL: text only */
	int width;			/* negative: flush left */
};

struct report {
	struct json_writer w;
	bool json, full;
	const struct report_column *columns;
	uint32_t count, at;		/* columns; the next one */
};

void report_init(struct report *, struct buf *, bool json);
/* Around all of it. */
void report_open(struct report *);
void report_close(struct report *);
bool report_full(const struct report *);

/* A table; title stands above it in the text, NULL: nothing. */
void report_list(struct report *, const char *name,
    const struct report_column *, uint32_t count);
void report_list_end(struct report *);
void report_row(struct report *);
void report_row_end(struct report *);

/* The next value of a row. */
void report_uint(struct report *, uint64_t);
void report_int(struct report *, int64_t);
void report_bool(struct report *, bool);
void report_text(struct report *, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A line of text; nothing in JSON. */
void report_line(struct report *, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
