#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "worker/store/kind_datagen.h"

/* The table of contract 3.1.1, written down a second time. */
static const char *const columns[][2] = {
	{ "id", "string" }, { "rollout_id", "string" },
	{ "problem_id", "string" }, { "dataset", "string?" },
	{ "sequence_order", "int32" }, { "role", "string" },
	{ "created_at", "timestamp:us:-" }, { "content", "large_string?" },
	{ "content_type", "string" },
	{ "model_input_string", "large_string?" },
	{ "model_output_string", "large_string?" },
	{ "rationale", "large_string?" }, { "problem_text", "large_string?" },
	{ "user_metadata", "large_string?" }, { "input_tokens", "list?int32" },
	{ "output_tokens", "list?int32" }, { "num_input_tokens", "int32?" },
	{ "num_output_tokens", "int32?" }, { "output_logprobs", "list?float" },
	{ "input_logprobs", "list?float" }, { "ref_logprobs", "list?float" },
	{ "loss_mask", "list?int8" }, { "advantage", "float?" },
	{ "reward", "float?" }, { "raw_reward", "float?" },
	{ "grader_id", "string?" }, { "score", "float?" },
	{ "include_in_training", "bool?" }, { "exclude_reason", "string?" },
	{ "policy_version", "string?" }, { "relationships", "list?struct" },
	{ "binary_payload", "large_binary?" }, { "payload_size", "int64?" },
	{ "payload_checksum", "string?" }, { "artifact_type", "string?" },
	{ "metadata", "large_string?" }, { "_seq", "int64?" },
};

/* And that of 3.2.1. */
static const char *const datagen_columns[][2] = {
	{ "event_id", "string" }, { "item_id", "string" },
	{ "root_item_id", "string" }, { "parent_item_id", "string?" },
	{ "item_seq", "int64" }, { "checkpoint_id", "string" },
	{ "event_type", "string" }, { "step_name", "string?" },
	{ "step_kind", "string?" }, { "step_index", "int64?" },
	{ "enclosing_step", "string?" }, { "selector_step", "string?" },
	{ "attempt", "int32" }, { "run_id", "string" },
	{ "writer_epoch", "string" }, { "field_name", "string?" },
	{ "field_type", "string?" }, { "codec_version", "int32?" },
	{ "value_kind", "string?" }, { "value_i64", "int64?" },
	{ "value_f64", "double?" }, { "value_bool", "bool?" },
	{ "value_str", "large_string?" }, { "value_json", "large_string?" },
	{ "value_blob", "large_binary?" }, { "payload_size", "int64?" },
	{ "payload_checksum", "string?" },
	{ "query_tags_json", "large_string?" }, { "status", "string?" },
	{ "error_type", "string?" }, { "error_dump", "large_string?" },
	{ "traceback", "large_string?" }, { "event_ts", "timestamp:us:UTC" },
	{ "schema_version", "int32" }, { "_seq", "int64?" },
};

static void
columns_are(const struct arrow_schema *s, const char *const (*want)[2],
    size_t count)
{
	char type[64];
	uint32_t i;

	assert_int_equal(s->field_count, count);
	for (i = 0; i < s->field_count; i++) {
		const struct arrow_field *f = &s->fields[i];

		assert_true(slice_eq(f->name, slice_of(want[i][0])));
		strcpy(type, arrow_type_name((enum arrow_type)f->type));
		strcat(type, f->nullable ? "?" : "");
		if (f->child_count > 0) {
			assert_true(slice_eq(f->children[0].name, SLICE("item")));
			assert_true(f->children[0].nullable);
			strcat(type, arrow_type_name(
			    (enum arrow_type)f->children[0].type));
		}
		assert_string_equal(type, want[i][1]);
	}
}

static void
columns_are_those_of_the_contract(void **state)
{
	(void)state;
	columns_are(&kind_rollout.shape->schema, columns, ARRAY_LEN(columns));
	columns_are(&kind_datagen.shape->schema, datagen_columns,
	    ARRAY_LEN(datagen_columns));
}

/* Depth first from 0. */
static void
count_ids(const struct arrow_field *f, int32_t *next)
{
	uint32_t i;

	assert_int_equal(f->id, *next);
	(*next)++;
	for (i = 0; i < f->child_count; i++)
		count_ids(&f->children[i], next);
}

static void
field_ids_run_depth_first(void **state)
{
	const struct arrow_schema *s = &kind_rollout.shape->schema;
	const struct arrow_schema *d = &kind_datagen.shape->schema;
	int32_t next = 0;
	uint32_t i;

	(void)state;
	for (i = 0; i < s->field_count; i++)
		count_ids(&s->fields[i], &next);
	assert_int_equal(next, 47);
	for (i = 0, next = 0; i < d->field_count; i++)
		count_ids(&d->fields[i], &next);
	assert_int_equal(next, 35);
}

static void
marks_are(const struct kind *kind, const char *key, const char *blob,
    const char *created_at)
{
	const struct store_shape *p = kind->shape;
	const struct arrow_field *f = p->schema.fields;

	assert_int_equal(p->key, arrow_schema_find(&p->schema, slice_of(key)));
	assert_int_equal(p->blob,
	    arrow_schema_find(&p->schema, slice_of(blob)));
	assert_int_equal(p->created_at,
	    arrow_schema_find(&p->schema, slice_of(created_at)));
	assert_int_equal(p->payload_size,
	    arrow_schema_find(&p->schema, SLICE("payload_size")));
	assert_int_equal(p->seq, p->schema.field_count - 1);
	assert_int_equal(f[p->seq].type, ARROW_INT64);
	assert_true(f[p->seq].nullable);

	assert_false(f[p->key].nullable);
	assert_int_equal(f[p->key].pair_count, 2);
	assert_true(slice_eq(f[p->key].pairs[0].key,
	    SLICE("lance-schema:unenforced-primary-key")));
	assert_true(slice_eq(f[p->key].pairs[0].value, SLICE("true")));
	assert_true(slice_eq(f[p->key].pairs[1].key,
	    SLICE("lance-schema:unenforced-primary-key:position")));
	assert_true(slice_eq(f[p->key].pairs[1].value, SLICE("1")));
}

static void
marked_columns(void **state)
{
	(void)state;
	marks_are(&kind_rollout, "id", "binary_payload", "created_at");
	marks_are(&kind_datagen, "event_id", "value_blob", "event_ts");
}

/* A column without a null must never be left empty by its rule. */
static void
rules_fit(const struct store_shape *p)
{
	uint32_t i;

	for (i = 0; i < p->schema.field_count; i++) {
		const struct arrow_field *f = &p->schema.fields[i];
		const struct rule *r = &p->rules[i];

		if (!f->nullable)
			assert_true(r->presence == RULE_REQUIRED ||
			    r->fill != FILL_NULL);
		if (r->fill == FILL_COLUMN)
			assert_int_equal(f->type,
			    p->schema.fields[r->fill_column].type);
		if (r->fill == FILL_NOW)
			assert_true(f->type == ARROW_TIMESTAMP ||
			    f->type == ARROW_TIMESTAMP_UTC);
		if (f->type == ARROW_LIST &&
		    f->children[0].type == ARROW_STRUCT)
			assert_non_null(r->members);
	}
}

static void
rules_fit_their_columns(void **state)
{
	(void)state;
	rules_fit(kind_rollout.shape);
	rules_fit(kind_datagen.shape);
}

/* Members of an object have names there, and none of their own. */
static void
members_are_columns(void **state)
{
	const struct store_shape *p = kind_datagen.shape;
	uint32_t i, members = 0;

	(void)state;
	for (i = 0; i < p->object->member_count; i++)
		assert_int_equal(p->rules[p->object->members[i].column]
		    .presence, RULE_MEMBER);
	for (i = 0; i < p->schema.field_count; i++) {
		if (p->rules[i].presence == RULE_MEMBER)
			members++;
	}
	assert_int_equal(members, DATAGEN_payload_checksum -
	    DATAGEN_value_kind + 1);
	assert_null(kind_rollout.shape->object);
}

static void
words_have_numbers(void **state)
{
	(void)state;
	assert_int_equal(datagen_event(SLICE("ITEM_CREATED")), 0);
	assert_int_equal(datagen_event(SLICE("TERMINAL")),
	    DATAGEN_EVENT_TERMINAL);
	assert_int_equal(datagen_event(SLICE("terminal")),
	    DATAGEN_EVENT_COUNT);
	assert_int_equal(datagen_value(SLICE("bool")), DATAGEN_VALUE_bool);
	assert_int_equal(datagen_value(SLICE("blob")), DATAGEN_VALUE_blob);
	assert_int_equal(datagen_value(SLICE("")), DATAGEN_VALUE_COUNT);
}

static void
kinds_are_found(void **state)
{
	(void)state;
	assert_ptr_equal(kind_find(SLICE("rollout")), &kind_rollout);
	assert_ptr_equal(kind_find(SLICE("rollouts")), &kind_rollout);
	assert_ptr_equal(kind_find(SLICE("datagen")), &kind_datagen);
	assert_ptr_equal(kind_get(STORE_DATAGEN), &kind_datagen);
	assert_null(kind_find(SLICE("rollou")));
	assert_null(kind_find(SLICE("")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_those_of_the_contract),
		cmocka_unit_test(field_ids_run_depth_first),
		cmocka_unit_test(marked_columns),
		cmocka_unit_test(rules_fit_their_columns),
		cmocka_unit_test(members_are_columns),
		cmocka_unit_test(words_have_numbers),
		cmocka_unit_test(kinds_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
