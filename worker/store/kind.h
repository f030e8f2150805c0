#ifndef MEMWALD_STORE_KIND_H
#define MEMWALD_STORE_KIND_H

/*
 * kind - the kinds of stores: their columns, their key, what a row must have.
 *
 * A shape is what the engine knows of the rows of one store: the Arrow schema
 * and which of its columns have a meaning of their own. Stores of the built-in
 * kinds share one static shape; each generic store brings its own. Rules say,
 * column by column, how a JSON row becomes values (contract 2.4.1); they are
 * of interest to the row codec alone.
 *
 * The last column of every shape is the internal _seq (design 4): nullable
 * int64, never shown, never taken from a client. The row codec leaves a 0 in
 * it, so that its values buffer has its place for every row; whoever commits
 * the rows overwrites that buffer with the commit's sequence.
 *
 * Lance field ids are assigned depth first from 0 (lance-format.md 3). The
 * key's field metadata names it as primary key; whoever writes a Lance schema
 * makes fields 12 and 13 of it.
 *
 * Lifetime:	static.
 */

#include "common/base.h"
#include "common/err.h"
#include "shm/store_table.h"
#include "worker/arrow/schema.h"

/* A longer key could not be asked for: it travels in the path of a request. */
#define STORE_KEY_BYTES_MAX 4096

/* Field metadata of the key column; its position is "1". */
#define STORE_KEY_MARK		"lance-schema:unenforced-primary-key"
#define STORE_KEY_POSITION	"lance-schema:unenforced-primary-key:position"

enum rule_presence {
	RULE_OPTIONAL,		/* absent and null: stored as null */
	RULE_REQUIRED,		/* absent and null are errors */
	RULE_DEFAULT,		/* absent: fill; null: an error */
	RULE_OPTIONAL_FILL,	/* absent and null: fill */
	RULE_INTERNAL,		/* not a field of the API */
	RULE_MEMBER,		/* optional, a member of the shape's object */
};

enum rule_fill {		/* what a missing value becomes */
	FILL_NULL,
	FILL_ZERO,		/* number 0, empty list */
	FILL_TEXT,
	FILL_COLUMN,		/* the value of another text column */
	FILL_NOW,		/* the server's time */
};

enum rule_form {		/* of the value, where the type leaves a choice */
	FORM_PLAIN,
	FORM_KEY,		/* not empty, no U+0000, bounded */
	FORM_FILLED,		/* not empty */
	FORM_JSON,		/* any JSON value, stored as its text */
	FORM_VALUE,		/* the same, and null is a value */
	FORM_BLOB,		/* base64 on the way in, only its own route out */
};

struct rule {
	uint8_t presence;
	uint8_t fill;
	uint8_t form;
	bool null_items;		/* a list may hold nulls */
	uint16_t fill_column;
	struct slice fill_text;
	const struct rule *members;	/* list of structs: of its members */
	struct slice name;		/* in JSON; empty: the column's */
	uint32_t word_count;		/* 0: any text */
	const struct slice *words;	/* which texts there are */
};

/* Columns that in JSON are the members of one object of the row. */
struct rule_member {
	struct slice name;
	uint16_t column;
};

struct rule_object {
	struct slice name;
	uint32_t member_count;
	const struct rule_member *members;
};

enum shape_flag {		/* how rows of the shape are read and written */
	SHAPE_STRICT_NAMES = 1,	/* a name that no column has is an error */
	SHAPE_EMPTY_BODY = 2,	/* a request without rows is a good one */
	SHAPE_TYPED_BODY = 4,	/* no list of rows, or none of objects: SHAPE */
	SHAPE_RAW_TIMES = 8,	/* times out: whole us; in: these as well */
	SHAPE_WIDE_FLOATS = 16,	/* float32 is widened before it is printed */
	SHAPE_BYTE_ARRAYS = 32,	/* binary in: also an array of 0 to 255 */
	SHAPE_READ_STRONG = 64,	/* reads ask for the tails of other instances
				 * (contract 4.2) */
	SHAPE_EVENTS = 128,	/* rules across columns (contract 2.5.1) */
};

struct store_shape {
	struct arrow_schema schema;
	const struct rule *rules;	/* one a column */
	uint32_t flags;			/* enum shape_flag, or-ed */
	/* What its table bears besides the store's uuid. Not in schema.pairs:
	 * a WAL entry that bore them would be refused (lance-format 7.3). */
	uint32_t pair_count;
	const struct arrow_pair *pairs;
	struct slice spec;		/* generic: its schema as JSON */
	/* Columns by index; -1: this shape has none. */
	int16_t key;
	int16_t blob;			/* of its own route; FORM_BLOB: all */
	int16_t created_at;		/* ties of equal sequences (design 1) */
	int16_t payload_size;
	int16_t seq;			/* always the last */
	const struct rule_object *object;	/* or NULL */
};

struct kind {
	uint8_t id;			/* enum store_kind */
	const char *name;		/* "rollout": registry, labels, logs */
	const char *title;		/* "Rollout store", in error texts */
	const char *collection;		/* "rollouts": in URLs */
	const char *rows;		/* "records": in bodies of appends, lists */
	const char *row;		/* "record": around a get's; NULL: bare */
	bool append_ids;		/* the answer to an append names ids */
	bool any_body;			/* a body of no known type or form is 400,
					 * else 415 and 422 (contract 1.3) */
	const char *suffix;		/* ".rollout.lance" of its directory */
	const struct store_shape *shape;	/* NULL: each store has its own */
};

extern const struct kind kind_rollout;
extern const struct kind kind_datagen;	/* columns: kind_datagen.h */
extern const struct kind kind_generic;

/* Of the rollout schema, in the order of contract 3.1.1. */
#define ROLLOUT_COLUMNS(X) \
	X(id) X(rollout_id) X(problem_id) X(dataset) X(sequence_order) \
	X(role) X(created_at) X(content) X(content_type) \
	X(model_input_string) X(model_output_string) X(rationale) \
	X(problem_text) X(user_metadata) X(input_tokens) X(output_tokens) \
	X(num_input_tokens) X(num_output_tokens) X(output_logprobs) \
	X(input_logprobs) X(ref_logprobs) X(loss_mask) X(advantage) \
	X(reward) X(raw_reward) X(grader_id) X(score) X(include_in_training) \
	X(exclude_reason) X(policy_version) X(relationships) \
	X(binary_payload) X(payload_size) X(payload_checksum) \
	X(artifact_type) X(metadata) X(_seq)

enum rollout_column {
#define X(name) ROLLOUT_##name,
	ROLLOUT_COLUMNS(X)
#undef X
	ROLLOUT_COLUMN_COUNT
};

/* By its name or its URL collection; NULL if there is none. */
const struct kind *kind_find(struct slice);
/* By its number; NULL if this version does not serve that kind. */
const struct kind *kind_get(enum store_kind);

#endif
