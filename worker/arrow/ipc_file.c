#include "common/base.h"

#include "worker/arrow/ipc_meta.h"

/*
 * Files: found from the end, since writers pad the beginning as they like (the
 * Lance engine to 64 bytes). Each block of the footer is read as the message
 * that it points to; nothing is taken from between them.
 */

#define MAGIC		"ARROW1"
#define MAGIC_LEN	6
#define TAIL_LEN	(4 + MAGIC_LEN)		/* i32 footer length, magic */
#define BEGIN_LEN	8			/* magic and two zeroes */
#define BLOCK_BYTES	24

static struct err
write_footer(struct buf *out, const struct arrow_schema *s, uint64_t offset,
    size_t head_bytes, size_t body_bytes)
{
	static const uint8_t widths[] = { 2, 4, 4, 4 };
	struct fbw w;
	size_t at[4], blocks;
	uint32_t bytes;

	fbw_begin(&w, out);
	fbw_refer(&w, 0, fbw_table(&w, widths, 4, at));
	fbw_put(&w, at[0], IPC_VERSION_V5, 2);
	fbw_refer(&w, at[1], ipc_schema_table_write(&w, s));
	fbw_refer(&w, at[2], fbw_vector(&w, 0, BLOCK_BYTES, 8));
	blocks = fbw_vector(&w, 1, BLOCK_BYTES, 8);
	fbw_refer(&w, at[3], blocks);
	fbw_put(&w, blocks + 4, (int64_t)offset, 8);
	fbw_put(&w, blocks + 12, (int64_t)head_bytes, 4);
	fbw_put(&w, blocks + 20, (int64_t)body_bytes, 8);
	bytes = (uint32_t)fbw_pad(&w, 8);
	if (w.full || !buf_append(out, &bytes, 4) ||
	    !buf_append(out, MAGIC, MAGIC_LEN))
		return FAIL(NO_MEMORY, "arrow file");
	return OK;
}

static struct err
write_batch(struct buf *out, const struct ipc_layout *l, const struct batch *b)
{
	size_t bytes = ipc_batch_size(l, b, 0, b->row_count);

	if (!buf_reserve(out, bytes))
		return FAIL(NO_MEMORY, "arrow file");
	ipc_batch_write(l, b, 0, b->row_count, out->ptr + out->len);
	out->len += bytes;
	return OK;
}

struct err
ipc_file_write(struct buf *out, const struct batch *b)
{
	struct ipc_layout l;
	struct arena arena;
	size_t offset;
	struct err e;

	MUST(out->len == 0);	/* all alignments count from there */
	arena_init(&arena, out->cap_bytes);
	e = ipc_layout_init(&l, b->schema, NULL, 0, &arena);
	if (err_is(e))
		goto out;
	e = FAIL(NO_MEMORY, "arrow file");
	if (!buf_append(out, MAGIC "\0", BEGIN_LEN))
		goto out;
	e = ipc_schema_write(out, b->schema, NULL, 0);
	if (err_is(e))
		goto out;
	offset = out->len;
	e = write_batch(out, &l, b);
	if (err_is(e))
		goto out;
	e = FAIL(NO_MEMORY, "arrow file");
	if (!ipc_end_write(out))
		goto out;
	e = write_footer(out, b->schema, offset, l.head.len,
	    out->len - IPC_END_BYTES - offset - l.head.len);
out:
	arena_free(&arena);
	return e;
}

static struct err
read_blocks(struct fb *fb, const struct fb_vector *v, struct arena *arena,
    struct ipc_file *f)
{
	uint64_t offset, head_bytes, body_bytes, room;
	struct slice *batches;
	uint32_t i;
	size_t at;

	batches = arena_calloc(arena, MAX(v->count, 1u), sizeof(*batches));
	if (batches == NULL)
		return FAIL(NO_MEMORY, "arrow file");
	for (i = 0; i < v->count; i++) {
		at = v->at + (size_t)i * BLOCK_BYTES;
		offset = (uint64_t)fb_load(fb, at, 8);
		head_bytes = (uint32_t)fb_load(fb, at + 8, 4);
		body_bytes = (uint64_t)fb_load(fb, at + 16, 8);
		if (offset > f->bytes.len)
			return FAIL(CORRUPT, "arrow file: block out of bounds");
		room = f->bytes.len - offset;
		if (head_bytes > room || body_bytes > room - head_bytes)
			return FAIL(CORRUPT, "arrow file: block out of bounds");
		batches[i] = slice_make(f->bytes.ptr + offset,
		    (size_t)(head_bytes + body_bytes));
	}
	f->batch_count = v->count;
	f->batches = batches;
	return OK;
}

static struct err
find_footer(struct slice bytes, struct slice *footer)
{
	const char *tail;
	uint32_t length;

	if (bytes.len < BEGIN_LEN + TAIL_LEN ||
	    memcmp(bytes.ptr, MAGIC, MAGIC_LEN) != 0)
		return FAIL(CORRUPT, "no arrow file");
	tail = bytes.ptr + bytes.len - TAIL_LEN;
	if (memcmp(tail + 4, MAGIC, MAGIC_LEN) != 0)
		return FAIL(CORRUPT, "arrow file cut short");
	memcpy(&length, tail, 4);
	if (length > bytes.len - BEGIN_LEN - TAIL_LEN)
		return FAIL(CORRUPT, "arrow file: footer out of bounds");
	*footer = slice_make(tail - length, length);
	return OK;
}

struct err
ipc_file_open(struct slice bytes, struct arena *arena, struct ipc_file *out)
{
	struct ipc_file f = { .bytes = bytes };
	struct ipc_message m = { .kind = IPC_SCHEMA };
	struct fb fb = { .bad = false };
	struct fb_table root, schema;
	struct fb_vector blocks;
	struct err e;

	e = find_footer(bytes, &m.metadata);
	if (err_is(e))
		return e;
	fb.bytes = m.metadata;
	root = fb_root(&fb);
	schema = fb_child(&fb, &root, 1);
	blocks = fb_vector(&fb, &root, 3, BLOCK_BYTES);
	if (fb.bad || schema.at == 0)
		return FAIL(CORRUPT, "arrow file: footer out of bounds");
	m.header = schema.at;
	e = ipc_schema_read(&m, arena, &f.schema);
	if (!err_is(e))
		e = read_blocks(&fb, &blocks, arena, &f);
	if (!err_is(e))
		*out = f;
	return e;
}

struct err
ipc_file_batch(const struct ipc_file *f, uint32_t index, struct arena *arena,
    struct batch *out)
{
	struct ipc_message m;
	struct err e;

	MUST(index < f->batch_count);
	e = ipc_message_read(f->batches[index], &m);
	if (err_is(e))
		return e;
	if (m.kind != IPC_BATCH)
		return FAIL(CORRUPT, "arrow file: a block without a batch");
	return ipc_batch_read(&m, &f->schema, arena, out);
}
