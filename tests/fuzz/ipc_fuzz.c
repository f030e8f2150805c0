#include "common/base.h"

#include <stdlib.h>

#include "worker/arrow/column.h"
#include "worker/arrow/ipc.h"

/*
 * Any bytes as a stream and as a file. What can be read is read to the last
 * byte, copied into columns, written, and must be readable again: whatever
 * passed the checks is whole.
 */

#define ARENA_BYTES	(16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static uint64_t sum;

static void
touch_bytes(struct slice s)
{
	size_t i;

	for (i = 0; i < s.len; i++)
		sum += (uint8_t)s.ptr[i];
}

static void
touch(const struct array *a)
{
	uint32_t width = arrow_type_width((enum arrow_type)a->field->type);
	uint64_t i;
	uint32_t k;

	for (i = 0; i < a->length; i++) {
		if (array_is_null(a, i)) {
			sum++;
			continue;
		}
		if (a->field->type == ARROW_BOOL)
			sum += array_bool(a, i);
		else if (a->field->type == ARROW_LIST)
			sum += array_span(a, i).count;
		else if (arrow_offset_width((enum arrow_type)a->field->type) != 0)
			touch_bytes(array_slice(a, i));
	}
	if (a->field->type == ARROW_FIXED_LIST)
		width = (uint32_t)a->field->dim * 4;
	touch_bytes(slice_make(a->values, a->length * width));
	for (k = 0; k < a->field->child_count; k++)
		touch(&a->children[k]);
}

static void
rewrite_schema(const struct arrow_schema *s, struct arena *arena)
{
	struct arrow_schema back;
	struct ipc_message m;
	struct buf out;

	buf_init(&out, ARENA_BYTES);
	if (!err_is(ipc_schema_write(&out, s, s->pairs, s->pair_count))) {
		MUST(!err_is(ipc_message_read(buf_slice(&out), &m)));
		if (!err_is(ipc_schema_read(&m, arena, &back))) {
			MUST(arrow_schema_same(s, &back));
			MUST(s->pair_count == back.pair_count);
		}
	}
	buf_free(&out);
}

static void
rewrite(const struct batch *b, struct arena *arena)
{
	struct ipc_layout l;
	struct builder copy;
	struct batch back, copied;
	struct ipc_message m;
	struct buf out;
	uint32_t i;

	if (err_is(ipc_layout_init(&l, b->schema, NULL, 0, arena)))
		return;
	MUST(!err_is(builder_init(&copy, b->schema, ARENA_BYTES)));
	buf_init(&out, 4 * ARENA_BYTES);
	for (i = 0; i < b->schema->field_count; i++) {
		if (!column_copy_run(&copy.columns[i], &b->columns[i], 0,
		    b->row_count))
			goto out;
	}
	builder_end_rows(&copy, b->row_count);
	copied = builder_batch(&copy);
	if (!buf_reserve(&out, ipc_batch_size(&l, &copied, 0, b->row_count)))
		goto out;
	out.len = ipc_batch_write(&l, &copied, 0, b->row_count, out.ptr);
	MUST(out.len == ipc_batch_size(&l, &copied, 0, b->row_count));
	MUST(!err_is(ipc_message_read(buf_slice(&out), &m)));
	if (!err_is(ipc_batch_read(&m, b->schema, arena, &back))) {
		MUST(back.row_count == b->row_count);
		for (i = 0; i < b->schema->field_count; i++)
			MUST(back.columns[i].null_count ==
			    b->columns[i].null_count);
	}
out:
	buf_free(&out);
	builder_free(&copy);
}

static void
use(const struct batch *b, struct arena *arena)
{
	uint32_t i;

	for (i = 0; i < b->schema->field_count; i++)
		touch(&b->columns[i]);
	rewrite(b, arena);
}

static void
as_stream(struct slice bytes, struct arena *arena)
{
	struct arrow_schema schema;
	struct ipc_message m;
	struct slice value;
	struct batch b;
	bool known = false;

	while (!err_is(ipc_message_read(bytes, &m)) && m.kind != IPC_END) {
		if (ipc_message_find(&m, SLICE("memwald:len"), &value))
			touch_bytes(value);
		if (m.kind == IPC_SCHEMA) {
			known = !err_is(ipc_schema_read(&m, arena, &schema));
			if (known)
				rewrite_schema(&schema, arena);
		} else if (known && !err_is(ipc_batch_read(&m, &schema, arena, &b)))
			use(&b, arena);
		bytes = slice_make(bytes.ptr + m.bytes, bytes.len - m.bytes);
	}
}

static void
as_file(struct slice bytes, struct arena *arena)
{
	struct ipc_file f;
	struct batch b;
	uint32_t i;

	if (err_is(ipc_file_open(bytes, arena, &f)))
		return;
	for (i = 0; i < f.batch_count; i++) {
		if (!err_is(ipc_file_batch(&f, i, arena, &b)))
			use(&b, arena);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;

	arena_init(&arena, ARENA_BYTES);
	as_stream(slice_make(data, size), &arena);
	arena_reset(&arena);
	as_file(slice_make(data, size), &arena);
	arena_free(&arena);
	return 0;
}
