#ifndef MEMWALD_STORE_KIND_DATAGEN_H
#define MEMWALD_STORE_KIND_DATAGEN_H

/*
 * kind_datagen - the columns of datagen stores, and the words in them.
 *
 * A row is an event of an item. Its value is one of the value_* columns,
 * chosen by value_kind; a blob has a size and perhaps a checksum besides. In
 * JSON these are the members of one object, "value" (contract 2.5.1).
 *
 * Lifetime:	static.
 */

#include "worker/store/kind.h"

/* In the order of contract 3.2.1. */
#define DATAGEN_COLUMNS(X) \
	X(event_id) X(item_id) X(root_item_id) X(parent_item_id) X(item_seq) \
	X(checkpoint_id) X(event_type) X(step_name) X(step_kind) \
	X(step_index) X(enclosing_step) X(selector_step) X(attempt) \
	X(run_id) X(writer_epoch) X(field_name) X(field_type) \
	X(codec_version) X(value_kind) X(value_i64) X(value_f64) \
	X(value_bool) X(value_str) X(value_json) X(value_blob) \
	X(payload_size) X(payload_checksum) X(query_tags_json) X(status) \
	X(error_type) X(error_dump) X(traceback) X(event_ts) \
	X(schema_version) X(_seq)

enum datagen_column {
#define X(name) DATAGEN_##name,
	DATAGEN_COLUMNS(X)
#undef X
	DATAGEN_COLUMN_COUNT
};

#define DATAGEN_EVENTS(X) \
	X(ITEM_CREATED) X(STEP_STARTED) X(FIELD_SET) X(FIELD_APPEND) \
	X(STEP_COMPLETED) X(FAILED) X(TERMINAL)

enum datagen_event {
#define X(name) DATAGEN_EVENT_##name,
	DATAGEN_EVENTS(X)
#undef X
	DATAGEN_EVENT_COUNT
};

#define DATAGEN_VALUES(X) X(int) X(float) X(bool) X(str) X(json) X(blob)

enum datagen_value {
#define X(name) DATAGEN_VALUE_##name,
	DATAGEN_VALUES(X)
#undef X
	DATAGEN_VALUE_COUNT
};

/* The numbers of these words; the counts above if it is none of them, which
 * only another engine can have stored. */
enum datagen_event datagen_event(struct slice);
enum datagen_value datagen_value(struct slice);

#endif
