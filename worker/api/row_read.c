#include "common/base.h"

#include <stdio.h>

#include "common/base64.h"
#include "common/json_scan.h"
#include "common/rfc3339.h"
#include "common/utf8.h"
#include "worker/api/row_read.h"
#include "worker/api/row_value.h"

/*
 * A machine over whole pieces of JSON (json_scan.h): each step takes a bracket,
 * a name, a number or a run of a string, or says that the window cuts it. What
 * is cut is kept and brought again in front of the next window, so that no step
 * knows of windows. Free values (metadata, unknown names) go through json_scan.
 *
 * The frames say where we are: body, rows, row, list, struct. They are also the
 * position in error texts. Nothing deeper exists (ARROW_DEPTH_MAX); all else is
 * in a free value, which keeps its own nesting.
 */

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

enum frame_kind { FRAME_BODY, FRAME_ROWS, FRAME_ROW, FRAME_LIST, FRAME_STRUCT };

struct frame {
	uint8_t kind;
	bool named;			/* in the value of name */
	struct slice name;		/* in the schema, or row_read.name */
	struct column *column;		/* LIST, STRUCT */
	const struct rule *rule;	/* LIST, STRUCT: of the list */
	uint64_t index;			/* ROWS, LIST: of the item */
	uint64_t seen;			/* STRUCT: members by bit */
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
	struct err err;			/* sticky */

	uint8_t state;
	uint8_t depth;			/* frames in use */
	bool have_rows;
	struct frame frames[FRAMES_MAX];

	/* The value at hand: where it goes; NULL: nowhere. */
	struct column *column;
	const struct rule *rule;
	struct base64 base64;
	struct json_scan scan;

	uint64_t seen[(ARROW_FIELDS_MAX + 63) / 64];	/* columns of the row */
	uint16_t last;			/* column, + 1; 0: none yet */
	uint16_t *next_of;		/* which column came after it last time */

	struct slice ignored[ROW_IGNORED_MAX];
	uint32_t ignored_count;

	size_t name_len;		/* name, and times */
	size_t kept_len;
	char name[NAME_MAX_BYTES];
	char kept[JSON_PIECE_MAX + 64];
};

static const struct rule item_rule = { .presence = RULE_REQUIRED };
static const struct rule null_item_rule = { .presence = RULE_OPTIONAL };

/* ---- errors */

static const char *
position(const struct row_read *r)
{
	const char *at = "";
	uint8_t i;

	for (i = 0; i < r->depth; i++) {
		const struct frame *f = &r->frames[i];

		if (f->kind == FRAME_ROWS || f->kind == FRAME_LIST)
			at = arena_printf(r->arena, "%s[%llu]", at,
			    (unsigned long long)f->index);
		else if (f->named)
			at = arena_printf(r->arena, "%s%s%.*s", at,
			    *at == '\0' ? "" : ".", (int)f->name.len, f->name.ptr);
	}
	return *at == '\0' ? "body" : at;
}

static ptrdiff_t
fail(struct row_read *r, const char *why)
{
	r->err = FAIL(BAD_INPUT, arena_printf(r->arena, "%s: %s", position(r), why));
	return JSON_BAD;
}

static ptrdiff_t
fail_full(struct row_read *r)
{
	r->err = FAIL(TOO_LARGE, "the rows of one request are too large");
	return JSON_BAD;
}

static ptrdiff_t
fail_value(struct row_read *r, const char *p, const char *end)
{
	const char *found, *why;
	int n;

	switch (*p) {
	case '{':
		found = "an object";
		break;
	case '[':
		found = "an array";
		break;
	case '"':
		found = "a string";
		break;
	case '-':
	case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		found = "a number";
		break;
	default:
		n = json_word(p, end, &why);
		if (n == JSON_MORE)
			return JSON_MORE;
		if (n == JSON_BAD)
			return fail(r, why);
		found = *p == 'n' ? "null" : *p == 't' ? "true" : "false";
		break;
	}
	return fail(r, arena_printf(r->arena, "expected %s, found %s",
	    row_value_expects(r->column, r->rule), found));
}

/* ---- frames */

static struct frame *
top(struct row_read *r)
{
	MUST(r->depth > 0);
	return &r->frames[r->depth - 1];
}

static void
push(struct row_read *r, enum frame_kind kind, enum state next)
{
	MUST(r->depth < FRAMES_MAX);
	r->frames[r->depth++] = (struct frame){ .kind = (uint8_t)kind };
	r->state = (uint8_t)next;
}

static void
value_done(struct row_read *r)
{
	top(r)->named = false;
	r->state = AT_NEXT;
}

static bool
is_object(const struct frame *f)
{
	return f->kind == FRAME_BODY || f->kind == FRAME_ROW ||
	    f->kind == FRAME_STRUCT;
}

static ptrdiff_t
begin_row(struct row_read *r, const char *p)
{
	if (*p != '{')
		return fail(r, "a row is an object");
	push(r, FRAME_ROW, AT_FIRST_NAME);
	memset(r->seen, 0, (r->shape->schema.field_count + 63) / 64 * 8);
	r->last = 0;
	return 1;
}

static ptrdiff_t
missing(struct row_read *r, struct slice name)
{
	top(r)->named = true;
	top(r)->name = name;
	return fail(r, "required, but missing or null");
}

static ptrdiff_t
end_row(struct row_read *r)
{
	struct builder *b = r->builder;
	uint32_t i;

	for (i = 0; i < r->shape->schema.field_count; i++) {
		struct column *c = &b->columns[i];

		if (c->length > b->row_count)
			continue;
		if (r->shape->rules[i].presence == RULE_REQUIRED)
			return missing(r, c->field->name);
		if (row_value_fill(b, r->shape, i, r->now_us) != ROW_VALUE_OK)
			return fail_full(r);
	}
	builder_end_row(b);
	return 1;
}

static ptrdiff_t
end_struct(struct row_read *r, struct frame *f)
{
	struct column *c = f->column;
	uint32_t i;

	for (i = 0; i < c->field->child_count; i++) {
		struct column *m = &c->children[i];

		if (m->length > c->length)
			continue;
		if (f->rule->members[i].presence == RULE_REQUIRED)
			return missing(r, m->field->name);
		if (!column_null(m))
			return fail_full(r);
	}
	return column_end_value(c) ? 1 : fail_full(r);
}

/* A closing bracket. */
static ptrdiff_t
pop(struct row_read *r)
{
	struct frame *f = top(r);
	ptrdiff_t n = 1;

	switch ((enum frame_kind)f->kind) {
	case FRAME_BODY:
		r->depth--;
		r->state = AT_END;
		return 1;
	case FRAME_ROWS:
		break;
	case FRAME_ROW:
		n = end_row(r);
		break;
	case FRAME_LIST:
		n = column_end_value(f->column) ? 1 : fail_full(r);
		break;
	case FRAME_STRUCT:
		n = end_struct(r, f);
		break;
	}
	if (n > 0) {
		r->depth--;
		value_done(r);
	}
	return n;
}

/* ---- names */

/* A name that nobody knows: told once. In a struct it is told with the column
 * that the struct is in. */
static ptrdiff_t
ignore_name(struct row_read *r, struct slice name)
{
	const struct frame *f = top(r);
	char told[2 * NAME_MAX_BYTES];
	uint32_t i;
	int n;

	if (f->kind == FRAME_STRUCT) {
		MUST(f[-2].kind == FRAME_ROW && f[-2].name.len < NAME_MAX_BYTES);
		n = snprintf(told, sizeof(told), "%.*s.%.*s",
		    (int)f[-2].name.len, f[-2].name.ptr, (int)name.len, name.ptr);
		name = slice_make(told, MIN((size_t)n, sizeof(told) - 1));
	}
	for (i = 0; i < r->ignored_count; i++) {
		if (slice_eq(r->ignored[i], name))
			return 1;
	}
	if (r->ignored_count == ROW_IGNORED_MAX)
		return 1;
	name.ptr = arena_copy(r->arena, name);
	if (name.ptr == NULL)
		return fail_full(r);
	r->ignored[r->ignored_count++] = name;
	return 1;
}

static ptrdiff_t
unknown_name(struct row_read *r, struct slice name)
{
	top(r)->name = name;
	r->column = NULL;
	return ignore_name(r, name);
}

static ptrdiff_t
known_column(struct row_read *r, uint32_t i)
{
	struct frame *f = top(r);
	uint64_t bit = 1ull << (i % 64);

	f->name = r->shape->schema.fields[i].name;
	if ((r->seen[i / 64] & bit) != 0)
		return fail(r, "given twice");
	r->seen[i / 64] |= bit;
	r->next_of[r->last] = (uint16_t)i;
	r->last = (uint16_t)(i + 1);
	r->column = &r->builder->columns[i];
	r->rule = &r->shape->rules[i];
	return 1;
}

static ptrdiff_t
known_member(struct row_read *r, struct frame *f, struct slice name)
{
	uint32_t i;

	for (i = 0; i < f->column->field->child_count; i++) {
		if (slice_eq(f->column->field->children[i].name, name))
			break;
	}
	if (i == f->column->field->child_count)
		return unknown_name(r, name);
	f->name = f->column->field->children[i].name;
	if ((f->seen >> i & 1) != 0)
		return fail(r, "given twice");
	f->seen |= 1ull << i;
	r->column = &f->column->children[i];
	r->rule = &f->rule->members[i];
	return 1;
}

static ptrdiff_t
name_done(struct row_read *r)
{
	struct slice name = slice_make(r->name, r->name_len);
	struct frame *f = top(r);
	int i;

	f->named = true;
	r->state = AT_COLON;
	if (f->kind == FRAME_STRUCT)
		return known_member(r, f, name);
	if (f->kind == FRAME_ROW) {
		i = arrow_schema_find(&r->shape->schema, name);
		if (i < 0 || r->shape->rules[i].presence == RULE_INTERNAL)
			return unknown_name(r, name);
		return known_column(r, (uint32_t)i);
	}
	r->column = NULL;
	if (!slice_eq(name, r->list_name))
		return unknown_name(r, name);
	f->name = r->list_name;
	return r->have_rows ? fail(r, "given twice") : 1;
}

/* Rows mostly name their fields in one order: then a name costs one compare. */
static ptrdiff_t
begin_name(struct row_read *r, const char *p, const char *end)
{
	uint16_t i = r->next_of[r->last];
	struct slice name;

	if (*p != '"')
		return fail(r, "no name where one is due");
	if (top(r)->kind == FRAME_ROW && i != NO_COLUMN) {
		name = r->shape->schema.fields[i].name;
		if ((size_t)(end - p) >= name.len + 2 &&
		    memcmp(p + 1, name.ptr, name.len) == 0 &&
		    p[name.len + 1] == '"') {
			top(r)->named = true;
			r->state = AT_COLON;
			return known_column(r, i) > 0 ?
			    (ptrdiff_t)name.len + 2 : JSON_BAD;
		}
	}
	r->name_len = 0;
	r->state = IN_NAME;
	return 1;
}

/* ---- strings */

static bool
take_text(struct row_read *r, const char *p, size_t n)
{
	struct column *c = r->column;
	size_t max = r->state == IN_TIME ? RFC3339_READ_MAX : NAME_MAX_BYTES;

	if (r->state == IN_TEXT) {
		if (!column_reserve(c, n)) {
			fail_full(r);
			return false;
		}
		memcpy(column_tail(c), p, n);
		column_grow(c, n);
		return true;
	}
	if (n > max - r->name_len) {
		fail(r, r->state == IN_TIME ? "not a time of RFC 3339" :
		    "a name is too long");
		return false;
	}
	memcpy(r->name + r->name_len, p, n);
	r->name_len += n;
	return true;
}

static ptrdiff_t
text_done(struct row_read *r)
{
	uint64_t len = column_open_length(r->column);

	if (r->rule->form == FORM_KEY && len == 0)
		return fail(r, "must not be empty");
	if (r->rule->form == FORM_KEY && len > STORE_KEY_BYTES_MAX)
		return fail(r, "too long for a key");
	if (!column_end_value(r->column))
		return fail_full(r);
	value_done(r);
	return 1;
}

static ptrdiff_t
time_done(struct row_read *r)
{
	int64_t us;

	if (!rfc3339_parse(slice_make(r->name, r->name_len), &us))
		return fail(r, "not a time of RFC 3339");
	if (!column_int64(r->column, us))
		return fail_full(r);
	value_done(r);
	return 1;
}

static ptrdiff_t
step_escape(struct row_read *r, const char *p, const char *end)
{
	const char *why;
	uint32_t code;
	char utf8[4];
	int n = json_escape(p, end, &code, &why);

	if (n == JSON_BAD)
		return fail(r, why);
	if (n == JSON_MORE)
		return JSON_MORE;
	if (code == 0 && r->state == IN_NAME)
		return fail(r, "a name with U+0000");
	if (code == 0 && r->state == IN_TEXT && r->rule->form == FORM_KEY)
		return fail(r, "a key with U+0000");
	return take_text(r, utf8, utf8_encode(utf8, code)) ? n : JSON_BAD;
}

/* Sequences of several bytes, as many as come. */
static ptrdiff_t
step_utf8(struct row_read *r, const char *p, const char *end)
{
	const char *from = p;
	int n = 1;

	while (p < end && (uint8_t)*p >= 0x80) {
		n = utf8_length(p, (size_t)(end - p));
		if (n <= 0)
			break;
		p += n;
	}
	if (p == from)
		return n == UTF8_BAD ? fail(r, "not UTF-8") : JSON_MORE;
	return take_text(r, from, (size_t)(p - from)) ? p - from : JSON_BAD;
}

static ptrdiff_t
step_string(struct row_read *r, const char *p, const char *end)
{
	size_t run = json_plain(p, end);

	if (run > 0)
		return take_text(r, p, run) ? (ptrdiff_t)run : JSON_BAD;
	if (*p == '"')
		return r->state == IN_NAME ? name_done(r) :
		    r->state == IN_TIME ? time_done(r) : text_done(r);
	if (*p == '\\')
		return step_escape(r, p, end);
	if ((uint8_t)*p < ' ')
		return fail(r, "control character in a string");
	return step_utf8(r, p, end);
}

/* ---- base64 */

static size_t
decode(struct row_read *r, struct slice text)
{
	struct column *c = r->column;
	size_t len = 0, taken;

	taken = base64_decode(&r->base64, text, column_tail(c), &len);
	column_grow(c, len);
	return taken;
}

/* "\/" and the like are base64 too, if what they stand for is. */
static ptrdiff_t
step_bytes_escape(struct row_read *r, const char *p, const char *end)
{
	const char *why = "not base64";
	uint32_t code;
	char c;
	int n = json_escape(p, end, &code, &why);

	if (n == JSON_MORE)
		return JSON_MORE;
	if (n == JSON_BAD || code >= 0x80)
		return fail(r, why);
	c = (char)code;
	return decode(r, slice_make(&c, 1)) == 1 ? n : fail(r, "not base64");
}

static ptrdiff_t
step_bytes(struct row_read *r, const char *p, const char *end)
{
	/* Up to the quote, so that room is asked for this value alone. */
	const char *quote = memchr(p, '"', (size_t)(end - p));
	size_t len = (size_t)((quote == NULL ? end : quote) - p), taken;

	if (!column_reserve(r->column, BASE64_ROOM(len)))
		return fail_full(r);
	if (len == 0) {
		if (!base64_finish(&r->base64))
			return fail(r, "not base64: it ends early");
		return text_done(r);
	}
	taken = decode(r, slice_make(p, len));
	if (taken > 0)
		return (ptrdiff_t)taken;
	return *p == '\\' ? step_bytes_escape(r, p, end) : fail(r, "not base64");
}

/* ---- values */

static ptrdiff_t
step_free(struct row_read *r, const char *p, const char *end)
{
	struct buf *keep = r->column == NULL ? NULL : &r->column->values;
	const char *from = p, *why;

	switch (json_scan(&r->scan, &p, end, keep, &why)) {
	case JSON_SCAN_MORE:
		return p - from;	/* 0: cut */
	case JSON_SCAN_BAD:
		return fail(r, why);
	case JSON_SCAN_FULL:
		return fail_full(r);
	case JSON_SCAN_DONE:
		break;
	}
	if (r->column != NULL && !column_end_value(r->column))
		return fail_full(r);
	value_done(r);
	return p - from;
}

static ptrdiff_t
begin_free(struct row_read *r, const char *p, const char *end)
{
	r->scan = (struct json_scan){ 0 };
	r->state = IN_FREE;
	return step_free(r, p, end);
}

/* null: what has no value at the end of its row or struct is filled there; an
 * item has no such end. */
static ptrdiff_t
step_null(struct row_read *r, const char *p, const char *end)
{
	const char *why;
	int n = json_word(p, end, &why);

	if (n == JSON_MORE)
		return JSON_MORE;
	if (n == JSON_BAD)
		return fail(r, why);
	if (r->rule->presence == RULE_REQUIRED || r->rule->presence == RULE_DEFAULT)
		return fail(r, "must not be null");
	if (top(r)->kind == FRAME_LIST && !column_null(r->column))
		return fail_full(r);
	value_done(r);
	return n;
}

static ptrdiff_t
step_bool(struct row_read *r, const char *p, const char *end)
{
	const char *why;
	int n;

	if (*p != 't' && *p != 'f')
		return fail_value(r, p, end);
	n = json_word(p, end, &why);
	if (n == JSON_BAD)
		return fail(r, why);
	if (n == JSON_MORE)
		return JSON_MORE;
	if (!column_bool(r->column, *p == 't'))
		return fail_full(r);
	value_done(r);
	return n;
}

#define TOLD_MAX 40		/* bytes of a bad number in an error */

static ptrdiff_t
step_number(struct row_read *r, const char *p, const char *end)
{
	const char *why;
	int n;

	if (*p != '-' && (unsigned)(*p - '0') > 9)
		return fail_value(r, p, end);
	n = json_number(p, end, &why);
	if (n == JSON_BAD)
		return fail(r, why);
	if (n == JSON_MORE)
		return JSON_MORE;
	switch (row_value_number(r->column, slice_make(p, (size_t)n), &why)) {
	case ROW_VALUE_OK:
		value_done(r);
		return n;
	case ROW_VALUE_BAD:
		/* why is one of the formats of row_value.c. */
		return fail(r, arena_printf(r->arena, why, MIN(n, TOLD_MAX), p));
	default:
		return fail_full(r);
	}
}

static ptrdiff_t
begin_text(struct row_read *r, const char *p, const char *end, enum state next)
{
	if (*p != '"')
		return fail_value(r, p, end);
	r->name_len = 0;
	r->base64 = (struct base64){ 0 };
	r->state = (uint8_t)next;
	return 1;
}

static ptrdiff_t
begin_list(struct row_read *r, const char *p, const char *end)
{
	if (*p != '[')
		return fail_value(r, p, end);
	push(r, FRAME_LIST, AT_FIRST_ITEM);
	top(r)->column = r->column;
	top(r)->rule = r->rule;
	return 1;
}

static ptrdiff_t
begin_struct(struct row_read *r, const char *p, const char *end)
{
	const struct rule *of_list = top(r)->rule;

	if (*p != '{')
		return fail_value(r, p, end);
	push(r, FRAME_STRUCT, AT_FIRST_NAME);
	top(r)->column = r->column;
	top(r)->rule = of_list;
	return 1;
}

static ptrdiff_t
step_column(struct row_read *r, const char *p, const char *end)
{
	if (*p == 'n')
		return step_null(r, p, end);
	if (r->rule->form == FORM_JSON)
		return begin_free(r, p, end);
	switch (r->column->field->type) {
	case ARROW_BOOL:
		return step_bool(r, p, end);
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
		return begin_text(r, p, end, IN_TEXT);
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return begin_text(r, p, end, IN_BYTES);
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		return begin_text(r, p, end, IN_TIME);
	case ARROW_LIST:
		return begin_list(r, p, end);
	case ARROW_STRUCT:
		return begin_struct(r, p, end);
	default:
		return step_number(r, p, end);
	}
}

static ptrdiff_t
step_value(struct row_read *r, const char *p, const char *end)
{
	struct frame *f = top(r);

	if (f->kind == FRAME_BODY && f->name.ptr == r->list_name.ptr) {
		if (*p != '[')
			return fail(r, "must be an array of rows");
		r->have_rows = true;
		push(r, FRAME_ROWS, AT_FIRST_ITEM);
		return 1;
	}
	if (r->column == NULL)
		return begin_free(r, p, end);
	return step_column(r, p, end);
}

static ptrdiff_t
step_item(struct row_read *r, const char *p, const char *end)
{
	struct frame *f = top(r);
	struct column *items;
	uint64_t count;
	size_t run;
	bool full;

	if (f->kind == FRAME_ROWS)
		return begin_row(r, p);
	items = &f->column->children[0];
	run = row_value_run(items, p, end, &count, &full);
	if (full)
		return fail_full(r);
	if (run > 0) {
		f->index += count;
		r->state = AT_ITEM;
		return (ptrdiff_t)run;
	}
	r->column = items;
	r->rule = f->rule->null_items ? &null_item_rule : &item_rule;
	return step_column(r, p, end);
}

/* ---- the machine */

static ptrdiff_t
step_next(struct row_read *r, const char *p)
{
	struct frame *f = top(r);

	if (*p == ',') {
		f->index++;
		r->state = is_object(f) ? AT_NAME : AT_ITEM;
		return 1;
	}
	if (*p == (is_object(f) ? '}' : ']'))
		return pop(r);
	return fail(r, is_object(f) ? "no \",\" or \"}\" after a value" :
	    "no \",\" or \"]\" after a value");
}

/* p < end, and no blank unless in a string. */
static ptrdiff_t
step(struct row_read *r, const char *p, const char *end)
{
	switch ((enum state)r->state) {
	case AT_BODY:
		if (*p != '{')
			return fail(r, "not a JSON object");
		push(r, FRAME_BODY, AT_FIRST_NAME);
		return 1;
	case AT_FIRST_NAME:
		return *p == '}' ? pop(r) : begin_name(r, p, end);
	case AT_NAME:
		return begin_name(r, p, end);
	case AT_COLON:
		if (*p != ':')
			return fail(r, "no \":\" after a name");
		r->state = AT_VALUE;
		return 1;
	case AT_VALUE:
		return step_value(r, p, end);
	case AT_FIRST_ITEM:
		return *p == ']' ? pop(r) : step_item(r, p, end);
	case AT_ITEM:
		return step_item(r, p, end);
	case IN_NAME:
	case IN_TEXT:
	case IN_TIME:
		return step_string(r, p, end);
	case IN_BYTES:
		return step_bytes(r, p, end);
	case IN_FREE:
		return step_free(r, p, end);
	case AT_NEXT:
		return step_next(r, p);
	case AT_END:
		return fail(r, "bytes after its end");
	}
	MUST(!"a state of the machine");
	return JSON_BAD;
}

static bool
blanks_count(const struct row_read *r)
{
	return r->state == IN_NAME || r->state == IN_TEXT ||
	    r->state == IN_TIME || r->state == IN_BYTES || r->state == IN_FREE;
}

/* Answers where it stopped: at the end, before a piece that is cut, or at an
 * error. */
static const char *
run(struct row_read *r, const char *p, const char *end)
{
	ptrdiff_t n;

	while (p < end) {
		if (json_is_blank(*p) && !blanks_count(r)) {
			p++;
			continue;
		}
		n = step(r, p, end);
		if (n <= 0)
			break;
		p += n;
	}
	return p;
}

/* The kept bytes with what comes behind them; answers how many of the new
 * bytes are done with. */
static size_t
run_kept(struct row_read *r, struct slice piece)
{
	size_t more = MIN(piece.len, sizeof(r->kept) - r->kept_len);
	size_t done;

	memcpy(r->kept + r->kept_len, piece.ptr, more);
	done = (size_t)(run(r, r->kept, r->kept + r->kept_len + more) - r->kept);
	if (err_is(r->err))
		return 0;
	if (done >= r->kept_len) {
		done -= r->kept_len;
		r->kept_len = 0;
		return done;
	}
	/* Still cut; no piece of JSON is longer than what can be kept. */
	MUST(more == piece.len);
	r->kept_len += more - done;
	memmove(r->kept, r->kept + done, r->kept_len);
	return more;
}

struct err
row_read_open(struct arena *a, const struct store_shape *shape,
    const char *list_name, int64_t now_us, struct builder *b,
    struct row_read **out)
{
	uint32_t i, count = shape->schema.field_count;
	struct row_read *r = arena_alloc(a, sizeof(*r));

	MUST(count <= ARROW_FIELDS_MAX);
	if (r == NULL)
		return FAIL(NO_MEMORY, "read rows");
	/* Not the buffers at its end. */
	memset(r, 0, offsetof(struct row_read, name));
	r->arena = a;
	r->shape = shape;
	r->builder = b;
	r->list_name = slice_of(list_name);
	r->now_us = now_us;
	r->first_row = b->row_count;
	r->next_of = arena_alloc(a, (count + 1) * sizeof(*r->next_of));
	if (r->next_of == NULL)
		return FAIL(NO_MEMORY, "read rows");
	for (i = 0; i <= count; i++) {
		r->next_of[i] = i < count &&
		    shape->rules[i].presence != RULE_INTERNAL ?
		    (uint16_t)i : NO_COLUMN;
	}
	*out = r;
	return OK;
}

struct err
row_read_feed(struct row_read *r, struct slice piece)
{
	const char *stop, *end = piece.ptr + piece.len;
	size_t done = 0;

	if (err_is(r->err) || piece.len == 0)
		return r->err;
	if (r->kept_len > 0)
		done = run_kept(r, piece);
	if (err_is(r->err) || r->kept_len > 0)
		return r->err;
	stop = run(r, piece.ptr + done, end);
	if (err_is(r->err))
		return r->err;
	r->kept_len = (size_t)(end - stop);
	MUST(r->kept_len <= JSON_PIECE_MAX);
	memcpy(r->kept, stop, r->kept_len);
	return OK;
}

struct err
row_read_finish(struct row_read *r, struct row_read_result *out)
{
	if (err_is(r->err))
		return r->err;
	if (r->state != AT_END)
		fail(r, "ends early");
	else if (!r->have_rows)
		fail(r, arena_printf(r->arena, "no \"%s\"", r->list_name.ptr));
	else if (r->builder->row_count == r->first_row)
		fail(r, arena_printf(r->arena, "\"%s\" is empty",
		    r->list_name.ptr));
	if (err_is(r->err))
		return r->err;
	*out = (struct row_read_result){
		.first_row = r->first_row,
		.count = r->builder->row_count - r->first_row,
		.ignored_count = r->ignored_count,
		.ignored = r->ignored,
	};
	return OK;
}

struct slice
row_read_key(const struct builder *b, const struct store_shape *shape,
    uint64_t row)
{
	const struct column *c = &b->columns[shape->key];
	struct array a = { .field = c->field, .length = c->length,
	    .offsets = c->offsets.ptr, .values = c->values.ptr };

	MUST(row < c->length);
	return array_slice(&a, row);
}
