#include "common/base.h"

#include "worker/store/kind_datagen.h"
#include "worker/store/kind_field.h"

/* Contract 3.2.1: everything here is constant. */

static const struct arrow_field datagen_fields[] = {
	[DATAGEN_event_id] = { NAMED("event_id"), .type = ARROW_UTF8, .id = 0,
	    .pair_count = KIND_KEY_PAIRS, .pairs = kind_key_pairs },
	[DATAGEN_item_id] = LEAF(1, "item_id", UTF8, false),
	[DATAGEN_root_item_id] = LEAF(2, "root_item_id", UTF8, false),
	[DATAGEN_parent_item_id] = LEAF(3, "parent_item_id", UTF8, true),
	[DATAGEN_item_seq] = LEAF(4, "item_seq", INT64, false),
	[DATAGEN_checkpoint_id] = LEAF(5, "checkpoint_id", UTF8, false),
	[DATAGEN_event_type] = LEAF(6, "event_type", UTF8, false),
	[DATAGEN_step_name] = LEAF(7, "step_name", UTF8, true),
	[DATAGEN_step_kind] = LEAF(8, "step_kind", UTF8, true),
	[DATAGEN_step_index] = LEAF(9, "step_index", INT64, true),
	[DATAGEN_enclosing_step] = LEAF(10, "enclosing_step", UTF8, true),
	[DATAGEN_selector_step] = LEAF(11, "selector_step", UTF8, true),
	[DATAGEN_attempt] = LEAF(12, "attempt", INT32, false),
	[DATAGEN_run_id] = LEAF(13, "run_id", UTF8, false),
	[DATAGEN_writer_epoch] = LEAF(14, "writer_epoch", UTF8, false),
	[DATAGEN_field_name] = LEAF(15, "field_name", UTF8, true),
	[DATAGEN_field_type] = LEAF(16, "field_type", UTF8, true),
	[DATAGEN_codec_version] = LEAF(17, "codec_version", INT32, true),
	[DATAGEN_value_kind] = LEAF(18, "value_kind", UTF8, true),
	[DATAGEN_value_i64] = LEAF(19, "value_i64", INT64, true),
	[DATAGEN_value_f64] = LEAF(20, "value_f64", FLOAT64, true),
	[DATAGEN_value_bool] = LEAF(21, "value_bool", BOOL, true),
	[DATAGEN_value_str] = LEAF(22, "value_str", LARGE_UTF8, true),
	[DATAGEN_value_json] = LEAF(23, "value_json", LARGE_UTF8, true),
	[DATAGEN_value_blob] = LEAF(24, "value_blob", LARGE_BINARY, true),
	[DATAGEN_payload_size] = LEAF(25, "payload_size", INT64, true),
	[DATAGEN_payload_checksum] = LEAF(26, "payload_checksum", UTF8, true),
	[DATAGEN_query_tags_json] =
	    LEAF(27, "query_tags_json", LARGE_UTF8, true),
	[DATAGEN_status] = LEAF(28, "status", UTF8, true),
	[DATAGEN_error_type] = LEAF(29, "error_type", UTF8, true),
	[DATAGEN_error_dump] = LEAF(30, "error_dump", LARGE_UTF8, true),
	[DATAGEN_traceback] = LEAF(31, "traceback", LARGE_UTF8, true),
	[DATAGEN_event_ts] = LEAF(32, "event_ts", TIMESTAMP_UTC, false),
	[DATAGEN_schema_version] = LEAF(33, "schema_version", INT32, false),
	[DATAGEN__seq] = LEAF(34, "_seq", INT64, true),
};

static_assert(ARRAY_LEN(datagen_fields) == DATAGEN_COLUMN_COUNT,
    "a field for each column");

#define WORD(text)	{ #text, sizeof(#text) - 1 }

/* Not by WORD: bool is a macro, and would be expanded on the way. */
static const struct slice event_words[] = {
#define X(text) { #text, sizeof(#text) - 1 },
	DATAGEN_EVENTS(X)
#undef X
};
static const struct slice value_words[] = {
#define X(text) { #text, sizeof(#text) - 1 },
	DATAGEN_VALUES(X)
#undef X
};
static const struct slice step_words[] = {
	WORD(root), WORD(leaf), WORD(sequence), WORD(loop), WORD(map_reduce),
	WORD(branch), WORD(sub_pipeline), WORD(conditional), WORD(router),
};
static const struct slice status_words[] = {
	WORD(running), WORD(completed), WORD(filtered), WORD(failed),
};

#define WORDS(list)	.word_count = ARRAY_LEN(list), .words = (list)

/* What is not listed is optional and plain. Items are asked for by their ids
 * in a path, as keys are. */
static const struct rule datagen_rules[DATAGEN_COLUMN_COUNT] = {
	[DATAGEN_event_id] = { .presence = RULE_REQUIRED, .form = FORM_KEY },
	[DATAGEN_item_id] = { .presence = RULE_REQUIRED, .form = FORM_KEY },
	[DATAGEN_root_item_id] = { .presence = RULE_REQUIRED,
	    .form = FORM_KEY },
	[DATAGEN_item_seq] = { .presence = RULE_REQUIRED },
	[DATAGEN_checkpoint_id] = { .presence = RULE_REQUIRED,
	    .form = FORM_FILLED },
	[DATAGEN_event_type] = { .presence = RULE_REQUIRED,
	    WORDS(event_words) },
	[DATAGEN_step_kind] = { WORDS(step_words) },
	[DATAGEN_attempt] = { .presence = RULE_DEFAULT, .fill = FILL_ZERO },
	[DATAGEN_run_id] = { .presence = RULE_REQUIRED, .form = FORM_FILLED },
	[DATAGEN_writer_epoch] = { .presence = RULE_REQUIRED,
	    .form = FORM_FILLED },
	[DATAGEN_value_kind] = { .presence = RULE_MEMBER, WORDS(value_words) },
	[DATAGEN_value_i64] = { .presence = RULE_MEMBER },
	[DATAGEN_value_f64] = { .presence = RULE_MEMBER },
	[DATAGEN_value_bool] = { .presence = RULE_MEMBER },
	[DATAGEN_value_str] = { .presence = RULE_MEMBER },
	[DATAGEN_value_json] = { .presence = RULE_MEMBER, .form = FORM_VALUE },
	[DATAGEN_value_blob] = { .presence = RULE_MEMBER, .form = FORM_BLOB },
	[DATAGEN_payload_size] = { .presence = RULE_MEMBER },
	[DATAGEN_payload_checksum] = { .presence = RULE_MEMBER },
	[DATAGEN_query_tags_json] = { .form = FORM_JSON, NAMED("query_tags") },
	[DATAGEN_status] = { WORDS(status_words) },
	[DATAGEN_event_ts] = { .presence = RULE_OPTIONAL_FILL,
	    .fill = FILL_NOW },
	[DATAGEN_schema_version] = { .presence = RULE_REQUIRED },
	[DATAGEN__seq] = { .presence = RULE_INTERNAL, .fill = FILL_ZERO },
};

/* The text of any value goes to value_json first: which column it is for is
 * known when the object ends. */
static const struct rule_member value_members[] = {
	{ NAMED("kind"), .column = DATAGEN_value_kind },
	{ NAMED("value"), .column = DATAGEN_value_json },
	{ NAMED("bytes"), .column = DATAGEN_value_blob },
	{ NAMED("size"), .column = DATAGEN_payload_size },
	{ NAMED("checksum"), .column = DATAGEN_payload_checksum },
};

static const struct rule_object value_object = {
	NAMED("value"),
	.member_count = ARRAY_LEN(value_members),
	.members = value_members,
};

static const struct store_shape datagen_shape = {
	.schema = { .field_count = DATAGEN_COLUMN_COUNT,
	    .fields = datagen_fields },
	.rules = datagen_rules,
	.flags = SHAPE_TYPED_BODY | SHAPE_READ_STRONG | SHAPE_EVENTS,
	.key = DATAGEN_event_id,
	.blob = DATAGEN_value_blob,
	.created_at = DATAGEN_event_ts,
	.payload_size = DATAGEN_payload_size,
	.seq = DATAGEN__seq,
	.object = &value_object,
};

const struct kind kind_datagen = {
	.id = STORE_DATAGEN,
	.name = "datagen",
	.title = "Datagen store",
	.collection = "datagen",
	.rows = "events",
	.suffix = ".datagen.lance",
	.shape = &datagen_shape,
};

static uint32_t
word_number(const struct slice *words, uint32_t count, struct slice text)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (slice_eq(words[i], text))
			break;
	}
	return i;
}

enum datagen_event
datagen_event(struct slice text)
{
	return (enum datagen_event)word_number(event_words,
	    ARRAY_LEN(event_words), text);
}

enum datagen_value
datagen_value(struct slice text)
{
	return (enum datagen_value)word_number(value_words,
	    ARRAY_LEN(value_words), text);
}
