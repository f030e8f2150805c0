#ifndef MEMWALD_API_ROW_MACHINE_H
#define MEMWALD_API_ROW_MACHINE_H

/*
 * row_machine - the inside of row_read, shared by its parts: row_frame.c (where
 * we are, and errors that say so), row_name.c (names to columns), row_text.c
 * (strings, times, base64), row_read.c (values, and the machine itself).
 *
 * A machine over whole pieces of JSON (json_scan.h): each step takes a bracket,
 * a name, a number or a run of a string, or says that the window cuts it. What
 * is cut is kept and brought again in front of the next window, so that no step
 * knows of windows. Free values (metadata, unknown names) go through json_scan.
 *
 * The frames say where we are: body, rows, row, object, list, struct. They are also the
 * position in error texts. Nothing deeper exists (ARROW_DEPTH_MAX); all else is
 * in a free value, which keeps its own nesting.
 *
 * A step answers the bytes that it took, JSON_MORE or JSON_BAD; then err is set.
 */

#include "common/base64.h"
#include "common/json_scan.h"
#include "worker/api/row_read.h"

enum state {
	AT_BODY,		/* "{" of the body */
	AT_FIRST_NAME,		/* a name or "}" */
	AT_NAME,		/* a name, after a comma */
	IN_NAME,
	AT_COLON,
	AT_VALUE,
	AT_FIRST_ITEM,		/* an item or "]" */
	AT_ITEM,		/* an item, after a comma */
	IN_TEXT,
	IN_TIME,
	IN_BYTES,
	IN_FREE,
	AT_NEXT,		/* "," or the closing bracket */
	AT_END,
};

enum frame_kind {
	FRAME_BODY, FRAME_ROWS, FRAME_ROW, FRAME_OBJECT, FRAME_LIST,
	FRAME_STRUCT,
	FRAME_VECTOR,			/* numbers of a fixed-size list */
	FRAME_BYTES,			/* numbers that are the bytes of a binary */
};

struct frame {
	uint8_t kind;
	bool named;			/* in the value of name */
	struct slice name;		/* in the schema, or row_read.name */
	struct column *column;		/* all below ROW */
	const struct rule *rule;	/* LIST, STRUCT: of the list */
	uint64_t index;			/* ROWS, LIST, VECTOR, BYTES: of the item */
	uint64_t seen;			/* STRUCT, OBJECT: members by bit */
};

#define FRAMES_MAX	5
#define NAME_MAX_BYTES	JSON_PIECE_MAX
#define NO_COLUMN	UINT16_MAX

struct row_read {
	struct arena *arena;
	const struct store_shape *shape;
	struct builder *builder;
	struct slice list_name;
	int64_t now_us;
	uint64_t first_row;
	uint32_t look_every, unlooked;	/* rows between looks at the sum */
	struct err err;			/* sticky */

	uint8_t state;
	uint8_t depth;			/* frames in use */
	bool have_rows;
	struct frame frames[FRAMES_MAX];

	/* The value at hand: where it goes; NULL: nowhere. */
	struct column *column;
	bool is_object;			/* to the shape's object */
	const struct rule *rule;
	struct base64 base64;
	struct json_scan scan;

	uint64_t seen[(ARROW_FIELDS_MAX + 63) / 64];	/* columns of the row */
	bool seen_object;
	uint16_t last;			/* column, + 1; 0: none yet */
	uint16_t *next_of;		/* which column came after it last time */

	struct slice ignored[ROW_IGNORED_MAX];
	uint32_t ignored_count;

	size_t name_len;		/* name, and times */
	size_t kept_len;
	char name[NAME_MAX_BYTES];
	char kept[JSON_PIECE_MAX + 64];
};

static inline struct frame *
row_frame_top(struct row_read *r)
{
	MUST(r->depth > 0);
	return &r->frames[r->depth - 1];
}

static inline void
row_frame_value_done(struct row_read *r)
{
	row_frame_top(r)->named = false;
	r->state = AT_NEXT;
}

static inline bool
row_frame_is_object(const struct frame *f)
{
	return f->kind == FRAME_BODY || f->kind == FRAME_ROW ||
	    f->kind == FRAME_OBJECT || f->kind == FRAME_STRUCT;
}

/* All answer JSON_BAD. why is a literal or in the arena. */
ptrdiff_t row_frame_fail(struct row_read *, const char *why);
/* The body is no list of rows at all. */
ptrdiff_t row_frame_fail_shape(struct row_read *, const char *why);
ptrdiff_t row_frame_fail_full(struct row_read *);
/* The same for a member of the innermost object, named as in JSON. */
ptrdiff_t row_frame_fail_at(struct row_read *, struct slice name, const char *why);

void row_frame_push(struct row_read *, enum frame_kind, enum state next);
/* A closing bracket. */
ptrdiff_t row_frame_pop(struct row_read *);

/* A name is due at p. */
ptrdiff_t row_name_begin(struct row_read *, const char *p, const char *end);
/* All of it is in r->name. */
ptrdiff_t row_name_done(struct row_read *);

/* A string of the column at hand begins. */
void row_text_begin(struct row_read *, enum state next);
/* In a name, text or time. */
ptrdiff_t row_text_step(struct row_read *, const char *p, const char *end);
/* In base64. */
ptrdiff_t row_text_step_bytes(struct row_read *, const char *p, const char *end);

#endif
