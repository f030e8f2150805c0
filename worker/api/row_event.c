#include "common/base.h"

#include <math.h>

#include "common/json.h"
#include "common/number.h"
#include "common/utf8.h"
#include "worker/api/row_event.h"
#include "worker/api/row_value.h"
#include "worker/store/kind_datagen.h"

#define TOLD_MAX 40		/* bytes of a bad number in an error */

static struct column *
column_of(const struct row_read *r, enum datagen_column i)
{
	return &r->builder->columns[i];
}

/* Of the row at hand; columns without a value are not filled yet. */
static bool
is_given(const struct row_read *r, enum datagen_column i)
{
	return column_of(r, i)->length > r->builder->row_count;
}

static struct slice
text_at(const struct row_read *r, enum datagen_column i)
{
	return row_value_text(column_of(r, i), r->builder->row_count);
}

/* ---- the value object */

static ptrdiff_t
put_number(struct row_read *r, enum datagen_column to, struct slice text)
{
	struct column *c = column_of(r, to);
	const char *why;

	if (text.ptr[0] != '-' && (unsigned)(text.ptr[0] - '0') > 9)
		return row_frame_fail_at(r, SLICE("value"), arena_printf(r->arena,
		    "expected %s", row_value_expects(c, r->shape->flags)));
	switch (row_value_number(c, text, &why)) {
	case ROW_VALUE_OK:
		return 1;
	case ROW_VALUE_BAD:
		/* why is one of the formats of row_value.c. */
		return row_frame_fail_at(r, SLICE("value"), arena_printf(r->arena,
		    why, (int)MIN(text.len, (size_t)TOLD_MAX), text.ptr));
	default:
		return row_frame_fail_full(r);
	}
}

static ptrdiff_t
put_bool(struct row_read *r, struct slice text)
{
	bool truth = slice_eq(text, SLICE("true"));

	if (!truth && !slice_eq(text, SLICE("false")))
		return row_frame_fail_at(r, SLICE("value"),
		    "expected true or false");
	return column_bool(column_of(r, DATAGEN_value_bool), truth) ? 1 :
	    row_frame_fail_full(r);
}

/* A string that json_scan has let pass, with its quotes. */
static void
decode(struct column *c, struct slice text)
{
	const char *p = text.ptr + 1, *end = text.ptr + text.len - 1, *why;
	uint32_t code;
	size_t len;
	int n;

	while (p < end) {
		len = json_plain(p, end);
		if (len == 0 && *p == '\\') {
			n = json_escape(p, end + 1, &code, &why);
			MUST(n > 0);
			p += n;
			column_grow(c, utf8_encode(column_tail(c), code));
			continue;
		}
		if (len == 0) {
			n = utf8_length(p, (size_t)(end - p));
			MUST(n > 0);
			len = (size_t)n;
		}
		memcpy(column_tail(c), p, len);
		column_grow(c, len);
		p += len;
	}
}

static ptrdiff_t
put_text(struct row_read *r, struct slice text)
{
	struct column *c = column_of(r, DATAGEN_value_str);

	if (text.ptr[0] != '"')
		return row_frame_fail_at(r, SLICE("value"), "expected a string");
	/* No escape is shorter than what it stands for. */
	if (!column_reserve(c, text.len))
		return row_frame_fail_full(r);
	decode(c, text);
	return column_end_value(c) ? 1 : row_frame_fail_full(r);
}

static ptrdiff_t
end_blob(struct row_read *r)
{
	struct column *c = column_of(r, DATAGEN_payload_size);
	uint64_t row = r->builder->row_count;
	int64_t bytes, size;

	if (is_given(r, DATAGEN_value_json)) {
		if (!slice_eq(text_at(r, DATAGEN_value_json), SLICE("null")))
			return row_frame_fail_at(r, SLICE("value"),
			    "a blob has \"bytes\" instead");
		column_cut(column_of(r, DATAGEN_value_json), row);
	}
	if (!is_given(r, DATAGEN_value_blob))
		return row_frame_fail_at(r, SLICE("bytes"),
		    "required, but missing or null");
	bytes = (int64_t)text_at(r, DATAGEN_value_blob).len;
	if (!is_given(r, DATAGEN_payload_size))
		return column_int64(c, bytes) ? 1 : row_frame_fail_full(r);
	memcpy(&size, c->values.ptr + row * sizeof(size), sizeof(size));
	return size == bytes ? 1 : row_frame_fail_at(r, SLICE("size"),
	    arena_printf(r->arena, "%lld, but there are %lld bytes",
	    (long long)size, (long long)bytes));
}

/* What only a blob may have. */
static ptrdiff_t
refuse_bytes(struct row_read *r)
{
	static const struct {
		struct slice name;
		enum datagen_column column;
	} of_blobs[] = {
		{ SLICE("bytes"), DATAGEN_value_blob },
		{ SLICE("size"), DATAGEN_payload_size },
		{ SLICE("checksum"), DATAGEN_payload_checksum },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(of_blobs); i++) {
		if (is_given(r, of_blobs[i].column))
			return row_frame_fail_at(r, of_blobs[i].name,
			    "only a value of kind blob has it");
	}
	return 1;
}

ptrdiff_t
row_event_end_value(struct row_read *r)
{
	enum datagen_value kind;
	struct slice text;
	ptrdiff_t n;

	if (!is_given(r, DATAGEN_value_kind))
		return row_frame_fail_at(r, SLICE("kind"),
		    "required, but missing or null");
	kind = datagen_value(text_at(r, DATAGEN_value_kind));
	if (kind == DATAGEN_VALUE_blob)
		return end_blob(r);
	n = refuse_bytes(r);
	if (n < 0)
		return n;
	if (!is_given(r, DATAGEN_value_json))
		return row_frame_fail_at(r, SLICE("value"),
		    "required, but missing");
	text = text_at(r, DATAGEN_value_json);
	switch (kind) {
	case DATAGEN_VALUE_int:
		n = put_number(r, DATAGEN_value_i64, text);
		break;
	case DATAGEN_VALUE_float:
		n = put_number(r, DATAGEN_value_f64, text);
		break;
	case DATAGEN_VALUE_bool:
		n = put_bool(r, text);
		break;
	case DATAGEN_VALUE_str:
		n = put_text(r, text);
		break;
	default:
		MUST(kind == DATAGEN_VALUE_json);
		return 1;
	}
	column_cut(column_of(r, DATAGEN_value_json), r->builder->row_count);
	return n;
}

/* ---- a whole row */

static bool
is_null(const struct row_read *r, enum datagen_column i)
{
	const struct column *c = column_of(r, i);
	uint64_t row = r->builder->row_count;

	return c->null_count > 0 &&
	    ((uint8_t)c->validity.ptr[row / 8] >> (row % 8) & 1) == 0;
}

static ptrdiff_t
fail_column(struct row_read *r, enum datagen_column i, const char *why)
{
	return row_frame_fail_at(r, r->shape->schema.fields[i].name, why);
}

static ptrdiff_t
check_numbers(struct row_read *r)
{
	uint64_t row = r->builder->row_count;
	int64_t item_seq;
	int32_t attempt, version;

	memcpy(&item_seq, column_of(r, DATAGEN_item_seq)->values.ptr +
	    row * sizeof(item_seq), sizeof(item_seq));
	memcpy(&attempt, column_of(r, DATAGEN_attempt)->values.ptr +
	    row * sizeof(attempt), sizeof(attempt));
	memcpy(&version, column_of(r, DATAGEN_schema_version)->values.ptr +
	    row * sizeof(version), sizeof(version));
	if (item_seq < 0)
		return fail_column(r, DATAGEN_item_seq, "must not be negative");
	if (attempt < 0)
		return fail_column(r, DATAGEN_attempt, "must not be negative");
	if (version <= 0)
		return fail_column(r, DATAGEN_schema_version,
		    "must be above 0");
	return 1;
}

/* What an event of this type needs: columns that are not null, and texts that
 * are not empty. */
static const struct need {
	enum datagen_column columns[7];
	uint32_t count;
} needs[DATAGEN_EVENT_COUNT] = {
#define STEP	DATAGEN_step_name, DATAGEN_step_kind, DATAGEN_step_index
#define FIELD	DATAGEN_field_name, DATAGEN_field_type, DATAGEN_codec_version, \
	DATAGEN_value_kind
	[DATAGEN_EVENT_STEP_STARTED] = { { STEP }, 3 },
	[DATAGEN_EVENT_STEP_COMPLETED] = { { STEP }, 3 },
	[DATAGEN_EVENT_FIELD_SET] = { { FIELD, STEP }, 7 },
	[DATAGEN_EVENT_FIELD_APPEND] = { { FIELD, STEP }, 7 },
	[DATAGEN_EVENT_FAILED] = { { DATAGEN_error_type, STEP }, 4 },
#undef STEP
#undef FIELD
};

static ptrdiff_t
check_needs(struct row_read *r, const struct need *need)
{
	uint32_t i;

	for (i = 0; i < need->count; i++) {
		enum datagen_column c = need->columns[i];
		bool is_text = column_of(r, c)->field->type == ARROW_UTF8;

		if (!is_null(r, c) && (!is_text || text_at(r, c).len > 0))
			continue;
		return row_frame_fail_at(r, c == DATAGEN_value_kind ?
		    SLICE("value") : r->shape->schema.fields[c].name,
		    arena_printf(r->arena, "an event of type %.*s needs it",
		    (int)text_at(r, DATAGEN_event_type).len,
		    text_at(r, DATAGEN_event_type).ptr));
	}
	return 1;
}

ptrdiff_t
row_event_end(struct row_read *r)
{
	enum datagen_event event =
	    datagen_event(text_at(r, DATAGEN_event_type));
	ptrdiff_t n = check_numbers(r);
	struct slice status;

	MUST(event < DATAGEN_EVENT_COUNT);
	if (n > 0)
		n = check_needs(r, &needs[event]);
	if (n < 0 || event != DATAGEN_EVENT_TERMINAL)
		return n;
	status = is_null(r, DATAGEN_status) ? (struct slice){ "", 0 } :
	    text_at(r, DATAGEN_status);
	return slice_eq(status, SLICE("completed")) ||
	    slice_eq(status, SLICE("filtered")) ? 1 : fail_column(r,
	    DATAGEN_status, "must be completed or filtered in an event of type "
	    "TERMINAL");
}

/* ---- out */

/* With a point or an exponent, so that 3.0 and -0.0 stay what they are also for
 * readers to whom 3 and -0 are integers. */
static void
write_float(struct json_writer *w, double v)
{
	char text[NUMBER_TEXT_MAX + 2];
	size_t n;

	if (!isfinite(v)) {
		json_write_null(w, "value");
		return;
	}
	n = number_print_double(text, v);
	if (memchr(text, '.', n) == NULL && memchr(text, 'e', n) == NULL) {
		memcpy(text + n, ".0", 2);
		n += 2;
	}
	json_write_raw(w, "value", slice_make(text, n));
}

bool
row_event_write_value(struct buf *b, const struct batch *batch, uint64_t row)
{
	const struct array *c = batch->columns;
	struct slice kind = array_slice(&c[DATAGEN_value_kind], row), text;
	struct json_writer w;

	if (!buf_append_slice(b, SLICE("\"value\":")))
		return false;
	json_write_init(&w, b);
	json_write_open(&w, NULL, '{');
	json_write_text(&w, "kind", kind);
	if (!array_is_null(&c[DATAGEN_value_i64], row))
		json_write_int64(&w, "value",
		    array_int(&c[DATAGEN_value_i64], row));
	if (!array_is_null(&c[DATAGEN_value_f64], row))
		write_float(&w, array_double(&c[DATAGEN_value_f64], row));
	if (!array_is_null(&c[DATAGEN_value_bool], row))
		json_write_bool(&w, "value",
		    array_bool(&c[DATAGEN_value_bool], row));
	if (!array_is_null(&c[DATAGEN_value_str], row))
		json_write_text(&w, "value",
		    array_slice(&c[DATAGEN_value_str], row));
	if (!array_is_null(&c[DATAGEN_value_json], row)) {
		text = array_slice(&c[DATAGEN_value_json], row);
		/* A foreign engine may have stored anything there. */
		if (json_is_valid(text))
			json_write_raw(&w, "value", text);
		else
			json_write_text(&w, "value", text);
	}
	if (!array_is_null(&c[DATAGEN_payload_size], row))
		json_write_int64(&w, "size",
		    array_int(&c[DATAGEN_payload_size], row));
	if (!array_is_null(&c[DATAGEN_payload_checksum], row))
		json_write_text(&w, "checksum",
		    array_slice(&c[DATAGEN_payload_checksum], row));
	json_write_close(&w, '}');
	return json_write_done(&w);
}
