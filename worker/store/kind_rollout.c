#include "common/base.h"

#include "worker/store/kind_field.h"

/* Contract 3.1.1: everything here is constant. */

static const struct arrow_field input_tokens_item[] = {
	LEAF(15, "item", INT32, true),
};
static const struct arrow_field output_tokens_item[] = {
	LEAF(17, "item", INT32, true),
};
static const struct arrow_field output_logprobs_item[] = {
	LEAF(21, "item", FLOAT32, true),
};
static const struct arrow_field input_logprobs_item[] = {
	LEAF(23, "item", FLOAT32, true),
};
static const struct arrow_field ref_logprobs_item[] = {
	LEAF(25, "item", FLOAT32, true),
};
static const struct arrow_field loss_mask_item[] = {
	LEAF(27, "item", INT8, true),
};
static const struct arrow_field relationship_members[] = {
	LEAF(38, "target_id", UTF8, true),
	LEAF(39, "relation", UTF8, true),
	LEAF(40, "weight", FLOAT32, true),
};
static const struct arrow_field relationships_item[] = {
	{ NAMED("item"), .type = ARROW_STRUCT, .nullable = true, .id = 37,
	  .child_count = ARRAY_LEN(relationship_members),
	  .children = relationship_members },
};

static const struct arrow_field rollout_fields[] = {
	[ROLLOUT_id] = { NAMED("id"), .type = ARROW_UTF8, .id = 0,
	    .pair_count = KIND_KEY_PAIRS, .pairs = kind_key_pairs },
	[ROLLOUT_rollout_id] = LEAF(1, "rollout_id", UTF8, false),
	[ROLLOUT_problem_id] = LEAF(2, "problem_id", UTF8, false),
	[ROLLOUT_dataset] = LEAF(3, "dataset", UTF8, true),
	[ROLLOUT_sequence_order] = LEAF(4, "sequence_order", INT32, false),
	[ROLLOUT_role] = LEAF(5, "role", UTF8, false),
	[ROLLOUT_created_at] = LEAF(6, "created_at", TIMESTAMP, false),
	[ROLLOUT_content] = LEAF(7, "content", LARGE_UTF8, true),
	[ROLLOUT_content_type] = LEAF(8, "content_type", UTF8, false),
	[ROLLOUT_model_input_string] =
	    LEAF(9, "model_input_string", LARGE_UTF8, true),
	[ROLLOUT_model_output_string] =
	    LEAF(10, "model_output_string", LARGE_UTF8, true),
	[ROLLOUT_rationale] = LEAF(11, "rationale", LARGE_UTF8, true),
	[ROLLOUT_problem_text] = LEAF(12, "problem_text", LARGE_UTF8, true),
	[ROLLOUT_user_metadata] = LEAF(13, "user_metadata", LARGE_UTF8, true),
	[ROLLOUT_input_tokens] = LIST(14, "input_tokens", input_tokens_item),
	[ROLLOUT_output_tokens] = LIST(16, "output_tokens", output_tokens_item),
	[ROLLOUT_num_input_tokens] = LEAF(18, "num_input_tokens", INT32, true),
	[ROLLOUT_num_output_tokens] = LEAF(19, "num_output_tokens", INT32, true),
	[ROLLOUT_output_logprobs] =
	    LIST(20, "output_logprobs", output_logprobs_item),
	[ROLLOUT_input_logprobs] =
	    LIST(22, "input_logprobs", input_logprobs_item),
	[ROLLOUT_ref_logprobs] = LIST(24, "ref_logprobs", ref_logprobs_item),
	[ROLLOUT_loss_mask] = LIST(26, "loss_mask", loss_mask_item),
	[ROLLOUT_advantage] = LEAF(28, "advantage", FLOAT32, true),
	[ROLLOUT_reward] = LEAF(29, "reward", FLOAT32, true),
	[ROLLOUT_raw_reward] = LEAF(30, "raw_reward", FLOAT32, true),
	[ROLLOUT_grader_id] = LEAF(31, "grader_id", UTF8, true),
	[ROLLOUT_score] = LEAF(32, "score", FLOAT32, true),
	[ROLLOUT_include_in_training] =
	    LEAF(33, "include_in_training", BOOL, true),
	[ROLLOUT_exclude_reason] = LEAF(34, "exclude_reason", UTF8, true),
	[ROLLOUT_policy_version] = LEAF(35, "policy_version", UTF8, true),
	[ROLLOUT_relationships] = LIST(36, "relationships", relationships_item),
	[ROLLOUT_binary_payload] =
	    LEAF(41, "binary_payload", LARGE_BINARY, true),
	[ROLLOUT_payload_size] = LEAF(42, "payload_size", INT64, true),
	[ROLLOUT_payload_checksum] = LEAF(43, "payload_checksum", UTF8, true),
	[ROLLOUT_artifact_type] = LEAF(44, "artifact_type", UTF8, true),
	[ROLLOUT_metadata] = LEAF(45, "metadata", LARGE_UTF8, true),
	[ROLLOUT__seq] = LEAF(46, "_seq", INT64, true),
};

static_assert(ARRAY_LEN(rollout_fields) == ROLLOUT_COLUMN_COUNT,
    "a field for each column");

static const struct rule relationship_rules[] = {
	{ .presence = RULE_REQUIRED },
	{ .presence = RULE_REQUIRED },
	{ .presence = RULE_OPTIONAL },
};

static_assert(ARRAY_LEN(relationship_rules) == ARRAY_LEN(relationship_members),
    "a rule for each member");

/* What is not listed is optional and plain. */
static const struct rule rollout_rules[ROLLOUT_COLUMN_COUNT] = {
	[ROLLOUT_id] = { .presence = RULE_REQUIRED, .form = FORM_KEY },
	[ROLLOUT_rollout_id] = { .presence = RULE_REQUIRED },
	[ROLLOUT_problem_id] = { .presence = RULE_OPTIONAL_FILL,
	    .fill = FILL_COLUMN, .fill_column = ROLLOUT_rollout_id },
	[ROLLOUT_sequence_order] = { .presence = RULE_DEFAULT,
	    .fill = FILL_ZERO },
	[ROLLOUT_role] = { .presence = RULE_DEFAULT, .fill = FILL_TEXT,
	    .fill_text = { "assistant", 9 } },
	[ROLLOUT_created_at] = { .presence = RULE_OPTIONAL_FILL,
	    .fill = FILL_NOW },
	[ROLLOUT_content_type] = { .presence = RULE_DEFAULT, .fill = FILL_TEXT,
	    .fill_text = { "text/plain", 10 } },
	[ROLLOUT_output_logprobs] = { .null_items = true },
	[ROLLOUT_input_logprobs] = { .null_items = true },
	[ROLLOUT_ref_logprobs] = { .null_items = true },
	[ROLLOUT_relationships] = { .presence = RULE_DEFAULT,
	    .fill = FILL_ZERO, .members = relationship_rules },
	[ROLLOUT_binary_payload] = { .form = FORM_BLOB },
	[ROLLOUT_metadata] = { .form = FORM_JSON },
	[ROLLOUT__seq] = { .presence = RULE_INTERNAL, .fill = FILL_ZERO },
};

static const struct store_shape rollout_shape = {
	.schema = { .field_count = ROLLOUT_COLUMN_COUNT,
	    .fields = rollout_fields },
	.rules = rollout_rules,
	.key = ROLLOUT_id,
	.blob = ROLLOUT_binary_payload,
	.created_at = ROLLOUT_created_at,
	.payload_size = ROLLOUT_payload_size,
	.seq = ROLLOUT__seq,
};

const struct kind kind_rollout = {
	.id = STORE_ROLLOUT,
	.name = "rollout",
	.title = "Rollout store",
	.collection = "rollouts",
	.rows = "records",
	.row = "record",
	.append_ids = true,
	.any_body = true,
	.suffix = ".rollout.lance",
	.shape = &rollout_shape,
};
