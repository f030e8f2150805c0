#ifndef MEMWALD_COMMON_JSON_H
#define MEMWALD_COMMON_JSON_H

/*
 * json - JSON of the control plane: request bodies other than rows, registry
 * objects, configuration files, replies. Rows never pass through here (design
 * 4); worker/api/row_read.h and row_write.h are for them.
 *
 * Read: the text is checked by our own strict scanner (json_scan.h), so that
 * trailing bytes, bad UTF-8, lone surrogates and deep nesting are refused, and
 * also "\u0000", which a C string would be cut at (field fault H.4). cJSON then
 * makes the tree, which is copied into the arena. Numbers keep their digits
 * beside it: a double would round those above 2^53, and make 1 of 1.0 (H.1).
 *
 * Lifetime:	values live as long as the arena.
 * Locking:	none; a parsed value is never changed.
 * Errors:	BAD_INPUT: no JSON. SHAPE: JSON, but a field is missing or has
 *		the wrong type; the text names it. NO_MEMORY: the arena is full.
 */

#include "common/arena.h"
#include "common/base.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/slice.h"

enum json_type {
	JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT
};

struct json {
	uint8_t type;			/* enum json_type */
	bool truth;			/* BOOL */
	struct slice name;		/* in its object; else empty */
	struct slice text;		/* TEXT; NUMBER: its digits */
	uint32_t count;			/* ARRAY, OBJECT: of children */
	struct json *first;		/* child */
	struct json *next;		/* sibling */
};

/* what begins the error texts: "body", "cluster.json". */
struct err json_parse(struct arena *, struct slice text, const char *what,
    const struct json **) MUST_CHECK;

/*
 * Getters for one field of an object (SHAPE if it is none). An optional field
 * that is absent or null leaves *out as it was: set the default before. A name
 * given twice is refused, since nobody could say which one counts.
 */
enum json_need {
	JSON_OPTIONAL,
	JSON_REQUIRED,
	JSON_DEFAULT,			/* may be absent, but not be null */
};

struct err json_get(struct arena *, const struct json *object,
    const char *name, enum json_need, const struct json **out) MUST_CHECK;
struct err json_get_text(struct arena *, const struct json *object,
    const char *name, enum json_need, struct slice *out) MUST_CHECK;
struct err json_get_bool(struct arena *, const struct json *object,
    const char *name, enum json_need, bool *out) MUST_CHECK;
struct err json_get_uint64(struct arena *, const struct json *object,
    const char *name, enum json_need, uint64_t *out) MUST_CHECK;
struct err json_get_int64(struct arena *, const struct json *object,
    const char *name, enum json_need, int64_t *out) MUST_CHECK;
struct err json_get_array(struct arena *, const struct json *object,
    const char *name, enum json_need, const struct json **out) MUST_CHECK;
struct err json_get_object(struct arena *, const struct json *object,
    const char *name, enum json_need, const struct json **out) MUST_CHECK;

#define JSON_FOREACH(child, parent) \
	for ((child) = (parent)->first; (child) != NULL; (child) = (child)->next)

/*
 * Written straight into a buffer; commas are set by the writer. name is NULL
 * inside an array and at the top. A full buffer makes it deaf, and is told at
 * the end, once.
 */
struct json_writer {
	struct buf *buf;
	bool comma;			/* before the next value */
	bool full;
};

void json_write_init(struct json_writer *, struct buf *);
void json_write_open(struct json_writer *, const char *name, char bracket);
void json_write_close(struct json_writer *, char bracket);
void json_write_text(struct json_writer *, const char *name, struct slice);
void json_write_uint64(struct json_writer *, const char *name, uint64_t);
void json_write_int64(struct json_writer *, const char *name, int64_t);
/* null for what JSON cannot say. */
void json_write_double(struct json_writer *, const char *name, double);
void json_write_bool(struct json_writer *, const char *name, bool);
void json_write_null(struct json_writer *, const char *name);
/* JSON already; the caller vouches for it. */
void json_write_raw(struct json_writer *, const char *name, struct slice);
/* Whether all of it is in the buffer. */
bool json_write_done(const struct json_writer *) MUST_CHECK;

/* One string with its quotes; what is no UTF-8 becomes U+FFFD. */
bool json_put_text(struct buf *, struct slice) MUST_CHECK;

#endif
