#include "common/base.h"

#include "worker/api/row_machine.h"
#include "worker/api/row_value.h"

#define LOOK_BYTES	(1u << 20)

static const struct rule item_rule = { .presence = RULE_REQUIRED };
static const struct rule null_item_rule = { .presence = RULE_OPTIONAL };

/* ---- values */

static ptrdiff_t
fail_found(struct row_read *r, const char *p, const char *end,
    const char *expected)
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
			return row_frame_fail(r, why);
		found = *p == 'n' ? "null" : *p == 't' ? "true" : "false";
		break;
	}
	return row_frame_fail(r, arena_printf(r->arena, "expected %s, found %s",
	    expected, found));
}

static ptrdiff_t
fail_value(struct row_read *r, const char *p, const char *end)
{
	return fail_found(r, p, end, row_value_expects(r->column,
	    r->shape->flags));
}

static ptrdiff_t
step_free(struct row_read *r, const char *p, const char *end)
{
	struct buf *keep = r->column == NULL ? NULL : &r->column->values;
	const char *from = p, *why;

	switch (json_scan(&r->scan, &p, end, keep, &why)) {
	case JSON_SCAN_MORE:
		return p - from;	/* 0: cut */
	case JSON_SCAN_BAD:
		return row_frame_fail(r, why);
	case JSON_SCAN_FULL:
		return row_frame_fail_full(r);
	case JSON_SCAN_DONE:
		break;
	}
	if (r->column != NULL && !column_end_value(r->column))
		return row_frame_fail_full(r);
	row_frame_value_done(r);
	return p - from;
}

static ptrdiff_t
begin_free(struct row_read *r, const char *p, const char *end)
{
	/* Of what is not kept the grammar is enough. */
	r->scan = (struct json_scan){ .finite = r->column != NULL };
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
		return row_frame_fail(r, why);
	if (r->rule->presence == RULE_REQUIRED || r->rule->presence == RULE_DEFAULT)
		return row_frame_fail(r, "must not be null");
	if (row_frame_top(r)->kind == FRAME_LIST && !column_null(r->column))
		return row_frame_fail_full(r);
	row_frame_value_done(r);
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
		return row_frame_fail(r, why);
	if (n == JSON_MORE)
		return JSON_MORE;
	if (!column_bool(r->column, *p == 't'))
		return row_frame_fail_full(r);
	row_frame_value_done(r);
	return n;
}

#define TOLD_MAX 40		/* bytes of a bad number in an error */

/* The number at p, or what is wrong with it: *n is then the step's answer. */
static bool
see_number(struct row_read *r, const char *p, const char *end,
    const char *expected, ptrdiff_t *n)
{
	const char *why;

	if (*p != '-' && (unsigned)(*p - '0') > 9) {
		*n = fail_found(r, p, end, expected);
		return false;
	}
	*n = json_number(p, end, &why);
	if (*n == JSON_BAD)
		*n = row_frame_fail(r, why);
	return *n > 0;
}

static ptrdiff_t
number_done(struct row_read *r, enum row_value_outcome outcome, const char *p,
    ptrdiff_t n, const char *why)
{
	switch (outcome) {
	case ROW_VALUE_OK:
		row_frame_value_done(r);
		return n;
	case ROW_VALUE_BAD:
		/* why is one of the formats of row_value.c. */
		return row_frame_fail(r, arena_printf(r->arena, why,
		    (int)MIN(n, TOLD_MAX), p));
	default:
		return row_frame_fail_full(r);
	}
}

static ptrdiff_t
step_number(struct row_read *r, const char *p, const char *end)
{
	enum row_value_outcome outcome;
	const char *why = NULL;
	ptrdiff_t n;

	if (!see_number(r, p, end, row_value_expects(r->column,
	    r->shape->flags), &n))
		return n;
	outcome = row_value_number(r->column, slice_make(p, (size_t)n), &why);
	return number_done(r, outcome, p, n, why);
}

/* A number of a vector, or a byte. */
static ptrdiff_t
step_packed(struct row_read *r, const char *p, const char *end)
{
	struct frame *f = row_frame_top(r);
	enum row_value_outcome outcome;
	const char *why = NULL;
	ptrdiff_t n;

	if (!see_number(r, p, end, f->kind == FRAME_VECTOR ? "a number" :
	    "a byte, 0 to 255", &n))
		return n;
	outcome = row_value_item(f->column, slice_make(p, (size_t)n), &why);
	return number_done(r, outcome, p, n, why);
}

static ptrdiff_t
begin_text(struct row_read *r, const char *p, const char *end, enum state next)
{
	if (*p != '"')
		return fail_value(r, p, end);
	row_text_begin(r, next);
	return 1;
}

/* LIST, VECTOR or BYTES. */
static ptrdiff_t
begin_items(struct row_read *r, const char *p, const char *end,
    enum frame_kind kind)
{
	if (*p != '[')
		return fail_value(r, p, end);
	row_frame_push(r, kind, AT_FIRST_ITEM);
	row_frame_top(r)->column = r->column;
	row_frame_top(r)->rule = r->rule;
	return 1;
}

static ptrdiff_t
begin_bytes(struct row_read *r, const char *p, const char *end)
{
	if (*p == '[' && (r->shape->flags & SHAPE_BYTE_ARRAYS) != 0)
		return begin_items(r, p, end, FRAME_BYTES);
	return begin_text(r, p, end, IN_BYTES);
}

static ptrdiff_t
begin_time(struct row_read *r, const char *p, const char *end)
{
	if (*p != '"' && (r->shape->flags & SHAPE_RAW_TIMES) != 0)
		return step_number(r, p, end);
	return begin_text(r, p, end, IN_TIME);
}

static ptrdiff_t
begin_struct(struct row_read *r, const char *p, const char *end)
{
	const struct rule *of_list = row_frame_top(r)->rule;

	if (*p != '{')
		return fail_value(r, p, end);
	row_frame_push(r, FRAME_STRUCT, AT_FIRST_NAME);
	row_frame_top(r)->column = r->column;
	row_frame_top(r)->rule = of_list;
	return 1;
}

/* The members of the object are columns of the row. */
static ptrdiff_t
begin_object(struct row_read *r, const char *p, const char *end)
{
	const char *why = "must be an object";
	int n;

	if (*p == '{') {
		r->is_object = false;
		row_frame_push(r, FRAME_OBJECT, AT_FIRST_NAME);
		return 1;
	}
	n = *p == 'n' ? json_word(p, end, &why) : JSON_BAD;
	if (n == JSON_BAD)
		return row_frame_fail(r, why);
	if (n == JSON_MORE)
		return JSON_MORE;
	r->is_object = false;
	row_frame_value_done(r);
	return n;
}

static ptrdiff_t
step_column(struct row_read *r, const char *p, const char *end)
{
	if (r->rule->form == FORM_VALUE)
		return begin_free(r, p, end);
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
		return begin_bytes(r, p, end);
	case ARROW_TIMESTAMP:
	case ARROW_TIMESTAMP_UTC:
		return begin_time(r, p, end);
	case ARROW_LIST:
		return begin_items(r, p, end, FRAME_LIST);
	case ARROW_FIXED_LIST:
		return begin_items(r, p, end, FRAME_VECTOR);
	case ARROW_STRUCT:
		return begin_struct(r, p, end);
	default:
		return step_number(r, p, end);
	}
}

static ptrdiff_t
step_value(struct row_read *r, const char *p, const char *end)
{
	struct frame *f = row_frame_top(r);

	if (f->kind == FRAME_BODY && f->name.ptr == r->list_name.ptr) {
		if (*p != '[')
			return row_frame_fail_shape(r,
			    "must be an array of rows");
		r->have_rows = true;
		row_frame_push(r, FRAME_ROWS, AT_FIRST_ITEM);
		return 1;
	}
	if (r->is_object)
		return begin_object(r, p, end);
	if (r->column == NULL)
		return begin_free(r, p, end);
	return step_column(r, p, end);
}

static ptrdiff_t
begin_row(struct row_read *r, const char *p)
{
	if (*p != '{')
		return row_frame_fail_shape(r, "a row is an object");
	row_frame_push(r, FRAME_ROW, AT_FIRST_NAME);
	memset(r->seen, 0, (r->shape->schema.field_count + 63) / 64 * 8);
	r->last = 0;
	r->seen_object = false;
	return 1;
}

static ptrdiff_t
step_item(struct row_read *r, const char *p, const char *end)
{
	struct frame *f = row_frame_top(r);
	struct column *items;
	uint64_t count;
	size_t run;
	bool full;

	if (f->kind == FRAME_ROWS)
		return begin_row(r, p);
	items = f->kind == FRAME_LIST ? &f->column->children[0] : f->column;
	run = row_value_run(items, p, end, &count, &full);
	if (full)
		return row_frame_fail_full(r);
	if (run > 0) {
		f->index += count;
		r->state = AT_ITEM;
		return (ptrdiff_t)run;
	}
	if (f->kind != FRAME_LIST)
		return step_packed(r, p, end);
	r->column = items;
	r->rule = f->rule->null_items ? &null_item_rule : &item_rule;
	return step_column(r, p, end);
}

/* ---- the machine */

static ptrdiff_t
step_next(struct row_read *r, const char *p)
{
	struct frame *f = row_frame_top(r);

	if (*p == ',') {
		f->index++;
		r->state = row_frame_is_object(f) ? AT_NAME : AT_ITEM;
		return 1;
	}
	if (*p == (row_frame_is_object(f) ? '}' : ']'))
		return row_frame_pop(r);
	return row_frame_fail(r, row_frame_is_object(f) ? "no \",\" or \"}\" after a value" :
	    "no \",\" or \"]\" after a value");
}

/* Another JSON value, to go by its first byte, or none. */
static ptrdiff_t
fail_body(struct row_read *r, char first)
{
	static const char begins[] = "[\"-0123456789tfn";

	return memchr(begins, first, sizeof(begins) - 1) != NULL ?
	    row_frame_fail_shape(r, "not a JSON object") :
	    row_frame_fail(r, "not a JSON object");
}

/* p < end, and no blank unless in a string. */
static ptrdiff_t
step(struct row_read *r, const char *p, const char *end)
{
	switch ((enum state)r->state) {
	case AT_BODY:
		if (*p != '{')
			return fail_body(r, *p);
		row_frame_push(r, FRAME_BODY, AT_FIRST_NAME);
		return 1;
	case AT_FIRST_NAME:
		return *p == '}' ? row_frame_pop(r) : row_name_begin(r, p, end);
	case AT_NAME:
		return row_name_begin(r, p, end);
	case AT_COLON:
		if (*p != ':')
			return row_frame_fail(r, "no \":\" after a name");
		r->state = AT_VALUE;
		return 1;
	case AT_VALUE:
		return step_value(r, p, end);
	case AT_FIRST_ITEM:
		return *p == ']' ? row_frame_pop(r) : step_item(r, p, end);
	case AT_ITEM:
		return step_item(r, p, end);
	case IN_NAME:
	case IN_TEXT:
	case IN_TIME:
		return row_text_step(r, p, end);
	case IN_BYTES:
		return row_text_step_bytes(r, p, end);
	case IN_FREE:
		return step_free(r, p, end);
	case AT_NEXT:
		return step_next(r, p);
	case AT_END:
		return row_frame_fail(r, "bytes after its end");
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

/* Rows that cost about a MiB though nothing is in them. */
static uint32_t
rows_a_look(const struct arrow_schema *schema)
{
	uint64_t bytes = 1;
	uint32_t i;

	for (i = 0; i < schema->field_count; i++) {
		const struct arrow_field *f = &schema->fields[i];

		bytes += f->type == ARROW_FIXED_LIST ?
		    (uint64_t)f->dim * sizeof(float) : sizeof(uint64_t);
	}
	return (uint32_t)(LOOK_BYTES / bytes) + 1;
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
	r->look_every = rows_a_look(&shape->schema);
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
		row_frame_fail(r, "ends early");
	else if (!r->have_rows)
		row_frame_fail_shape(r, arena_printf(r->arena, "no \"%s\"",
		    r->list_name.ptr));
	else if (r->builder->row_count == r->first_row &&
	    (r->shape->flags & SHAPE_EMPTY_BODY) == 0)
		row_frame_fail(r, arena_printf(r->arena, "\"%s\" is empty",
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
	return row_value_text(&b->columns[shape->key], row);
}
