#include "common/base.h"

#include "worker/arrow/bits.h"
#include "worker/arrow/ipc.h"
#include "worker/arrow/ipc_meta.h"

/*
 * Batches as messages. All that varies between two batches of one schema has a
 * fixed place and width in the metadata: row count, nodes, buffers, body
 * length. So the metadata are made once (the layout), and a message is a copy
 * of them with numbers patched in, then the body.
 *
 * Measuring, writing and naming the parts are one walk over the columns, which
 * in the first case has nowhere to write, and in the last writes the head alone:
 * they cannot disagree.
 */

#define NODE_BYTES	16
#define BUFFER_BYTES	16

/* ---- messages */

void
ipc_message_begin(struct ipc_opening *o, struct buf *out, int header,
    bool has_pairs)
{
	uint8_t widths[] = { 2, 1, 4, 8, has_pairs ? 4 : 0 };
	size_t at[5];
	bool full = !buf_append_zero(out, IPC_PREFIX_BYTES);

	fbw_begin(&o->w, out);
	o->w.full |= full;
	fbw_refer(&o->w, 0, fbw_table(&o->w, widths, 5, at));
	fbw_put(&o->w, at[0], IPC_VERSION_V5, 2);
	fbw_put(&o->w, at[1], header, 1);
	o->header_at = at[2];
	o->body_length_at = at[3];
	o->pairs_at = at[4];
}

struct err
ipc_message_end(struct ipc_opening *o)
{
	uint32_t prefix[2] = { UINT32_MAX, 0 };

	prefix[1] = (uint32_t)fbw_pad(&o->w, 8);
	if (o->w.full)
		return FAIL(NO_MEMORY, "arrow message");
	memcpy(o->w.out->ptr + o->w.base - IPC_PREFIX_BYTES, prefix,
	    sizeof(prefix));
	return OK;
}

bool
ipc_end_write(struct buf *out)
{
	static const uint32_t end[2] = { UINT32_MAX, 0 };

	return buf_append(out, end, sizeof(end));
}

/* ---- the layout */

/* Depth is bounded by ARROW_DEPTH_MAX. */
static void
count_field(const struct arrow_field *f, struct ipc_layout *l)
{
	uint32_t i;

	l->node_count++;
	switch (f->type) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
		l->buffer_count += 3;
		break;
	case ARROW_FIXED_LIST:
		l->node_count++;
		l->buffer_count += 3;
		break;
	case ARROW_STRUCT:
		l->buffer_count++;
		break;
	default:
		l->buffer_count += 2;
		break;
	}
	for (i = 0; i < f->child_count; i++)
		count_field(&f->children[i], l);
}

/* Metadata of a message with zeroes for all that varies. */
static struct err
write_head(struct ipc_layout *l, struct buf *out,
    const struct arrow_pair *pairs, size_t *values_at)
{
	static const uint8_t widths[] = { 8, 4, 4 };
	struct ipc_opening o;
	size_t at[3], nodes, buffers;

	ipc_message_begin(&o, out, IPC_HEADER_BATCH, l->pair_count > 0);
	fbw_refer(&o.w, o.header_at, fbw_table(&o.w, widths, 3, at));
	nodes = fbw_vector(&o.w, l->node_count, NODE_BYTES, 8);
	fbw_refer(&o.w, at[1], nodes);
	buffers = fbw_vector(&o.w, l->buffer_count, BUFFER_BYTES, 8);
	fbw_refer(&o.w, at[2], buffers);
	if (l->pair_count > 0)
		fbw_refer(&o.w, o.pairs_at,
		    ipc_pairs_write(&o.w, pairs, l->pair_count, values_at));
	l->body_length_at = (uint32_t)(IPC_PREFIX_BYTES + o.body_length_at);
	l->row_count_at = (uint32_t)(IPC_PREFIX_BYTES + at[0]);
	l->nodes_at = (uint32_t)(IPC_PREFIX_BYTES + nodes + 4);
	l->buffers_at = (uint32_t)(IPC_PREFIX_BYTES + buffers + 4);
	return ipc_message_end(&o);
}

struct err
ipc_layout_init(struct ipc_layout *out, const struct arrow_schema *s,
    const struct arrow_pair *pairs, uint32_t pair_count, struct arena *arena)
{
	struct ipc_layout l = { .schema = s, .pair_count = pair_count };
	size_t *found = arena_calloc(arena, pair_count + 1, sizeof(*found));
	uint32_t *values_at = arena_calloc(arena, pair_count + 1,
	    sizeof(*values_at));
	struct buf head;
	struct err e;
	char *copy;
	uint32_t i;

	if (found == NULL || values_at == NULL)
		return FAIL(NO_MEMORY, "arrow layout");
	for (i = 0; i < s->field_count; i++)
		count_field(&s->fields[i], &l);
	buf_init(&head, arena->cap_bytes);
	e = write_head(&l, &head, pairs, found);
	if (err_is(e))
		goto out;
	for (i = 0; i < pair_count; i++)
		values_at[i] = (uint32_t)(IPC_PREFIX_BYTES + found[i]);
	copy = arena_copy(arena, buf_slice(&head));
	if (copy == NULL) {
		e = FAIL(NO_MEMORY, "arrow layout");
		goto out;
	}
	l.head = slice_make(copy, head.len);
	l.values_at = values_at;
	*out = l;
out:
	buf_free(&head);
	return e;
}

/* ---- batches */

struct walk {
	char *head;		/* NULL: measuring only */
	char *body;		/* NULL: buffers are not copied */
	struct ipc_parts *parts;	/* NULL, or where they are named */
	size_t body_bytes;
	char *node;		/* the next one to patch */
	char *buffer;
};

struct run {
	uint64_t first, count;
};

static void
put_node(struct walk *w, uint64_t count, uint64_t nulls)
{
	if (w->head == NULL)
		return;
	memcpy(w->node, &count, 8);
	memcpy(w->node + 8, &nulls, 8);
	w->node += NODE_BYTES;
}

static void
add_part(struct walk *w, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	w->parts->parts[w->parts->count++] = slice_make(bytes, n);
	w->parts->bytes += n;
}

/* A buffer that stays where it is. */
static void
name_buffer(struct walk *w, const void *bytes, size_t n)
{
	static const char zeroes[8];

	if (w->parts == NULL)
		return;
	add_part(w, bytes, n);
	add_part(w, zeroes, (size_t)ROUND_UP(n, 8) - n);
}

/* Where the next buffer's bytes go, its padding zeroed; NULL: nowhere. */
static char *
put_buffer(struct walk *w, size_t bytes)
{
	uint64_t at = w->body_bytes, length = bytes;
	size_t padded = (size_t)ROUND_UP(bytes, 8);
	char *p;

	w->body_bytes += padded;
	if (w->head == NULL)
		return NULL;
	memcpy(w->buffer, &at, 8);
	memcpy(w->buffer + 8, &length, 8);
	w->buffer += BUFFER_BYTES;
	if (w->body == NULL)
		return NULL;
	p = w->body + at;
	memset(p + bytes, 0, padded - bytes);
	return p;
}

static void
put_bytes(struct walk *w, const void *bytes, size_t n)
{
	char *p = put_buffer(w, n);

	if (p == NULL)
		name_buffer(w, bytes, n);
	else if (n > 0)
		memcpy(p, bytes, n);
}

static void
put_bits(struct walk *w, const uint8_t *bits, struct run r)
{
	size_t n = (size_t)((r.count + 7) / 8);
	char *p = put_buffer(w, n);

	/* A builder's bits begin at a byte, and are 0 behind the last. */
	MUST(w->parts == NULL || r.first == 0);
	if (p == NULL)
		name_buffer(w, bits, n);
	if (p == NULL || n == 0)
		return;
	/* Bits behind the last are 0: equal batches are equal bytes. */
	p[n - 1] = 0;
	bits_copy((uint8_t *)p, 0, bits, r.first, r.count);
}

static void
put_validity(struct walk *w, const struct array *a, struct run r)
{
	uint64_t nulls = 0;

	if (a->validity != NULL && r.count == a->length)
		nulls = a->null_count;
	else if (a->validity != NULL)
		nulls = r.count - bits_count(a->validity, r.first, r.count);
	put_node(w, r.count, nulls);
	if (nulls > 0)
		put_bits(w, a->validity, r);
	else
		put_bytes(w, NULL, 0);
}

/* Offsets of the run, its first value beginning at 0. What they span. */
static struct run
put_offsets(struct walk *w, const struct array *a, struct run r)
{
	uint32_t width = arrow_offset_width((enum arrow_type)a->field->type);
	uint64_t i, from = array_offset(a, r.first), wide;
	const char *offsets = (const char *)a->offsets + r.first * width;
	size_t n = (size_t)(r.count + 1) * width;
	char *p = put_buffer(w, n);
	int32_t narrow;

	MUST(w->parts == NULL || from == 0);
	if (p == NULL)
		name_buffer(w, offsets, n);
	else if (from == 0)
		memcpy(p, offsets, n);
	for (i = 0; p != NULL && from != 0 && i <= r.count; i++) {
		wide = array_offset(a, r.first + i) - from;
		narrow = (int32_t)wide;
		memcpy(p + i * width, width == 4 ? (void *)&narrow :
		    (void *)&wide, width);
	}
	return (struct run){ from, array_offset(a, r.first + r.count) - from };
}

/* Depth is bounded by ARROW_DEPTH_MAX. */
static void
put_array(struct walk *w, const struct array *a, struct run r)
{
	uint32_t width = arrow_type_width((enum arrow_type)a->field->type);
	struct run inner;
	uint32_t i;

	MUST(r.first <= a->length && r.count <= a->length - r.first);
	put_validity(w, a, r);
	switch (a->field->type) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
		inner = put_offsets(w, a, r);
		put_bytes(w, (const char *)a->values + inner.first,
		    (size_t)inner.count);
		break;
	case ARROW_LIST:
		inner = put_offsets(w, a, r);
		put_array(w, &a->children[0], inner);
		break;
	case ARROW_STRUCT:
		for (i = 0; i < a->field->child_count; i++)
			put_array(w, &a->children[i], r);
		break;
	case ARROW_FIXED_LIST:
		width = (uint32_t)a->field->dim * 4;
		put_node(w, r.count * (uint32_t)a->field->dim, 0);
		put_bytes(w, NULL, 0);
		put_bytes(w, (const char *)a->values + r.first * width,
		    (size_t)r.count * width);
		break;
	case ARROW_BOOL:
		put_bits(w, a->values, r);
		break;
	default:
		put_bytes(w, (const char *)a->values + r.first * width,
		    (size_t)r.count * width);
		break;
	}
}

static void
put_columns(struct walk *w, const struct ipc_layout *l, const struct batch *b,
    struct run r)
{
	uint32_t i;

	MUST(r.first <= b->row_count && r.count <= b->row_count - r.first);
	MUST(b->schema->field_count == l->schema->field_count);
	for (i = 0; i < b->schema->field_count; i++) {
		MUST(b->columns[i].field->type == l->schema->fields[i].type);
		put_array(w, &b->columns[i], r);
	}
}

size_t
ipc_batch_size(const struct ipc_layout *l, const struct batch *b,
    uint64_t first, uint64_t count)
{
	struct walk w = { .head = NULL };

	put_columns(&w, l, b, (struct run){ first, count });
	return l->head.len + w.body_bytes;
}

/* The head of a message, and where its walk says the body. */
static size_t
write_message(struct walk *w, const struct ipc_layout *l, const struct batch *b,
    struct run r)
{
	char *to = w->head;
	uint64_t body_bytes;

	memcpy(to, l->head.ptr, l->head.len);
	w->node = to + l->nodes_at;
	w->buffer = to + l->buffers_at;
	put_columns(w, l, b, r);
	MUST(w->node == to + l->nodes_at + (size_t)l->node_count * NODE_BYTES);
	MUST(w->buffer == to + l->buffers_at +
	    (size_t)l->buffer_count * BUFFER_BYTES);
	body_bytes = w->body_bytes;
	memcpy(to + l->body_length_at, &body_bytes, 8);
	memcpy(to + l->row_count_at, &r.count, 8);
	return l->head.len + w->body_bytes;
}

size_t
ipc_batch_write(const struct ipc_layout *l, const struct batch *b,
    uint64_t first, uint64_t count, char *to)
{
	struct walk w = { .head = to, .body = to + l->head.len };

	return write_message(&w, l, b, (struct run){ first, count });
}

uint32_t
ipc_parts_max(const struct ipc_layout *l)
{
	return 1 + 2 * l->buffer_count;
}

void
ipc_batch_parts(const struct ipc_layout *l, const struct batch *b, char *head,
    struct ipc_parts *parts)
{
	struct walk w = { .head = head, .parts = parts };
	size_t bytes;

	parts->count = 0;
	parts->bytes = 0;
	add_part(&w, head, l->head.len);
	bytes = write_message(&w, l, b, (struct run){ 0, b->row_count });
	MUST(bytes == parts->bytes && parts->count <= ipc_parts_max(l));
}
