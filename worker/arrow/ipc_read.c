#include "common/base.h"

#include "worker/arrow/bits.h"
#include "worker/arrow/ipc_meta.h"
#include "worker/arrow/zstd.h"

/*
 * Messages and batches out of bytes that nobody vouches for. A batch is walked
 * as its schema asks, depth first, taking a node a field and the buffers that
 * its type has; each is compared with the length of its node before anything
 * points to it. What is compressed is expanded into the arena, whose cap is
 * the limit for bombs.
 */

#define BUFFER_BYTES	16
#define NODE_BYTES	16
#define LENGTH_MAX	(1ull << 40)	/* rows; so that sizes do not overflow */

enum { CODEC_NONE = -1, CODEC_ZSTD = 1 };

/* For arrays without bytes; offsets of an array of no values. */
static const uint64_t nothing[1];

/* ---- messages */

static bool
all_zero(struct slice s)
{
	size_t i;

	for (i = 0; i < s.len; i++) {
		if (s.ptr[i] != 0)
			return false;
	}
	return true;
}

/* total: bytes there are from the message on, in memory or not. */
static struct err
read_metadata(struct slice bytes, uint64_t total, struct ipc_message *m)
{
	struct fb fb = { m->metadata, false };
	struct fb_table root = fb_root(&fb), header;
	int64_t version = fb_int(&fb, &root, 0, 2, 0);
	int64_t type = fb_int(&fb, &root, 1, 1, 0);
	int64_t body_bytes = fb_int(&fb, &root, 3, 8, 0);
	struct fb_vector pairs = fb_vector(&fb, &root, 4, 4);
	size_t begin = IPC_PREFIX_BYTES + m->metadata.len;

	header = fb_child(&fb, &root, 2);
	if (fb.bad || header.at == 0)
		return FAIL(CORRUPT, "arrow message out of bounds");
	if (version != IPC_VERSION_V5 && version != IPC_VERSION_V4)
		return FAIL(UNSUPPORTED, "arrow message of another version");
	if (type != IPC_HEADER_SCHEMA && type != IPC_HEADER_BATCH)
		return FAIL(UNSUPPORTED, "arrow message of another kind");
	if (body_bytes < 0 || (uint64_t)body_bytes > total - begin)
		return FAIL(CORRUPT, "arrow message cut short");
	m->kind = type == IPC_HEADER_SCHEMA ? IPC_SCHEMA : IPC_BATCH;
	m->header = header.at;
	m->pairs = pairs.count == 0 ? 0 : pairs.at - 4;
	m->body = slice_make(total > bytes.len ? NULL : bytes.ptr + begin,
	    (size_t)body_bytes);
	m->bytes = begin + (size_t)body_bytes;
	return OK;
}

static struct err
read_message(struct slice bytes, uint64_t total, struct ipc_message *out)
{
	struct ipc_message m = { .kind = IPC_END };
	uint32_t prefix[2];
	struct err e;

	if (bytes.len < IPC_PREFIX_BYTES) {
		if (!all_zero(bytes))
			return FAIL(CORRUPT, "arrow message cut short");
		*out = m;
		return OK;
	}
	memcpy(prefix, bytes.ptr, sizeof(prefix));
	if (prefix[1] == 0 && (prefix[0] == UINT32_MAX || prefix[0] == 0)) {
		*out = m;
		return OK;
	}
	if (prefix[0] != UINT32_MAX || prefix[1] % 8 != 0)
		return FAIL(CORRUPT, "no arrow message");
	if (prefix[1] > bytes.len - IPC_PREFIX_BYTES)
		return FAIL(CORRUPT, "arrow message cut short");
	m.metadata = slice_make(bytes.ptr + IPC_PREFIX_BYTES, prefix[1]);
	e = read_metadata(bytes, total, &m);
	if (!err_is(e))
		*out = m;
	return e;
}

struct err
ipc_message_read(struct slice bytes, struct ipc_message *out)
{
	return read_message(bytes, bytes.len, out);
}

struct err
ipc_message_read_head(struct slice bytes, uint64_t total,
    struct ipc_message *out)
{
	MUST(total > bytes.len);
	return read_message(bytes, total, out);
}

bool
ipc_message_find(const struct ipc_message *m, struct slice key,
    struct slice *value)
{
	struct fb fb = { m->metadata, false };
	struct fb_vector v = { m->pairs + 4, 0 };
	struct fb_table pair;
	struct slice text;
	uint32_t i;

	/* Its bounds were checked when the message was read. */
	if (m->pairs != 0)
		v.count = (uint32_t)fb_load(&fb, m->pairs, 4);
	for (i = 0; i < v.count && !fb.bad; i++) {
		pair = fb_element(&fb, &v, i);
		if (!slice_eq(fb_text(&fb, &pair, 0), key))
			continue;
		text = fb_text(&fb, &pair, 1);
		if (fb.bad)
			return false;
		*value = text;
		return true;
	}
	return false;
}

/* ---- batches */

struct reader {
	struct fb fb;
	struct slice body;
	const struct ipc_far *far;	/* NULL: the body is in memory */
	bool stays;			/* the column's bytes may be far */
	struct fb_vector nodes, buffers;
	uint32_t node, buffer;		/* the next ones */
	int codec;
	struct arena *arena;
};

struct node {
	uint64_t length, nulls;
};

static struct err
take_node(struct reader *r, struct node *n)
{
	size_t at;

	if (r->node == r->nodes.count)
		return FAIL(CORRUPT, "arrow batch: too few nodes");
	at = r->nodes.at + (size_t)r->node++ * NODE_BYTES;
	n->length = (uint64_t)fb_load(&r->fb, at, 8);
	n->nulls = (uint64_t)fb_load(&r->fb, at + 8, 8);
	if (n->length > LENGTH_MAX || n->nulls > n->length)
		return FAIL(CORRUPT, "arrow batch: length of a node");
	return OK;
}

static struct err
expand(struct reader *r, struct slice *bytes)
{
	int64_t length;
	struct err e;
	char *p;

	if (bytes->len == 0)
		return OK;
	if (bytes->len < 8)
		return FAIL(CORRUPT, "arrow batch: compressed buffer");
	memcpy(&length, bytes->ptr, 8);
	bytes->ptr += 8;
	bytes->len -= 8;
	if (length == -1)		/* stored as it was */
		return OK;
	if (length < 0)
		return FAIL(CORRUPT, "arrow batch: compressed buffer");
	p = (uint64_t)length > r->arena->cap_bytes ? NULL :
	    arena_alloc(r->arena, (size_t)length);
	if (p == NULL)
		return FAIL(NO_MEMORY, "arrow batch: compressed buffer");
	e = zstd_expand(*bytes, p, (size_t)length);
	*bytes = slice_make(p, (size_t)length);
	return e;
}

/* The next buffer where it is: a slice without a pointer if that is a file. */
struct place {
	uint64_t offset;		/* in the body */
	struct slice bytes;
};

static struct err
take_place(struct reader *r, struct place *p)
{
	uint64_t offset, length;
	size_t at;

	if (r->buffer == r->buffers.count)
		return FAIL(CORRUPT, "arrow batch: too few buffers");
	at = r->buffers.at + (size_t)r->buffer++ * BUFFER_BYTES;
	offset = (uint64_t)fb_load(&r->fb, at, 8);
	length = (uint64_t)fb_load(&r->fb, at + 8, 8);
	if (offset > r->body.len || length > r->body.len - offset)
		return FAIL(CORRUPT, "arrow batch: buffer out of bounds");
	p->offset = offset;
	p->bytes = slice_make(r->far != NULL ? NULL : r->body.ptr + offset,
	    (size_t)length);
	return OK;
}

static struct err
fetch(struct reader *r, struct place *p)
{
	struct err e;
	char *to;

	if (r->far == NULL)
		return OK;
	to = arena_alloc(r->arena, p->bytes.len);
	if (to == NULL)
		return FAIL(NO_MEMORY, "arrow batch: buffer");
	e = r->far->fetch(r->far->fd, to, p->bytes.len,
	    r->far->body_at + p->offset);
	p->bytes.ptr = to;
	return e;
}

static struct err
take_buffer(struct reader *r, uint64_t bytes_min, struct slice *out)
{
	struct place p;
	struct err e = take_place(r, &p);

	if (!err_is(e))
		e = fetch(r, &p);
	if (err_is(e))
		return e;
	*out = p.bytes;
	if (r->codec == CODEC_ZSTD)
		e = expand(r, out);
	if (!err_is(e) && out->len < bytes_min)
		e = FAIL(CORRUPT, "arrow batch: buffer too short");
	return e;
}

/* strict: a field that is not nullable has no null. */
static struct err
take_validity(struct reader *r, struct array *a, bool strict)
{
	struct slice bits;
	struct node n;
	struct err e;

	e = take_node(r, &n);
	if (err_is(e))
		return e;
	e = take_buffer(r, n.nulls == 0 ? 0 : (n.length + 7) / 8, &bits);
	if (err_is(e))
		return e;
	a->length = n.length;
	a->null_count = n.nulls;
	if (n.nulls == 0)
		return OK;
	if (strict && !a->field->nullable)
		return FAIL(CORRUPT, "arrow batch: null where none may be");
	a->validity = (const uint8_t *)bits.ptr;
	if (bits_count(a->validity, 0, n.length) != n.length - n.nulls)
		return FAIL(CORRUPT, "arrow batch: null count");
	return OK;
}

/* Whether offsets begin at 0 or above and never fall. Without a branch a
 * value: this runs over every row that is read. */
static bool
offsets_rise(const struct array *a)
{
	const char *p = a->offsets;
	bool narrow = arrow_offset_width((enum arrow_type)a->field->type) == 4;
	int32_t n0, n1;
	int64_t w0, w1;
	uint64_t i;
	bool fell;

	if (narrow) {
		memcpy(&n0, p, 4);
		for (fell = n0 < 0, i = 1; i <= a->length; i++, n0 = n1) {
			memcpy(&n1, p + i * 4, 4);
			fell |= n1 < n0;
		}
		return !fell;
	}
	memcpy(&w0, p, 8);
	for (fell = w0 < 0, i = 1; i <= a->length; i++, w0 = w1) {
		memcpy(&w1, p + i * 8, 8);
		fell |= w1 < w0;
	}
	return !fell;
}

static bool
nulls_are_empty(const struct array *a)
{
	uint64_t i;

	for (i = 0; a->null_count > 0 && i < a->length; i++) {
		if (array_is_null(a, i) &&
		    array_offset(a, i) != array_offset(a, i + 1))
			return false;
	}
	return true;
}

static struct err
take_offsets(struct reader *r, struct array *a)
{
	uint32_t width = arrow_offset_width((enum arrow_type)a->field->type);
	struct slice s;
	struct err e;

	/* Of no values, no offsets at all are allowed. */
	e = take_buffer(r, a->length == 0 ? 0 : (a->length + 1) * width, &s);
	if (err_is(e))
		return e;
	a->offsets = a->length == 0 ? (const char *)nothing : s.ptr;
	if (!offsets_rise(a))
		return FAIL(CORRUPT, "arrow batch: offsets fall");
	return OK;
}

/*
 * Other writers may leave bytes under a null string. Ours rely on there being
 * none, so such a column is copied without them.
 */
static struct err
close_gaps(struct reader *r, struct array *a)
{
	uint32_t width = arrow_offset_width((enum arrow_type)a->field->type);
	uint64_t i, at = 0, bytes = array_offset(a, a->length);
	char *offsets = arena_calloc(r->arena, a->length + 1, width);
	char *values = arena_alloc(r->arena, (size_t)MAX(bytes, 1u));
	struct slice s;

	if (offsets == NULL || values == NULL)
		return FAIL(NO_MEMORY, "arrow batch: bytes under nulls");
	for (i = 0; i < a->length; i++) {
		s = array_slice(a, i);
		if (!array_is_null(a, i) && s.len > 0) {
			memcpy(values + at, s.ptr, s.len);
			at += s.len;
		}
		memcpy(offsets + (i + 1) * width, &at, width);
	}
	a->offsets = offsets;
	a->values = values;
	return OK;
}

/* Leaves the next buffer where it is, if that is what was asked for. */
static struct err
leave_far(struct reader *r, struct array *a, bool *left)
{
	uint64_t bytes = array_offset(a, a->length);
	struct array_far *far;
	struct place p;
	struct err e;

	*left = false;
	if (!r->stays || r->codec != CODEC_NONE ||
	    bytes < r->far->bytes_min || !nulls_are_empty(a))
		return OK;
	e = take_place(r, &p);
	if (err_is(e))
		return e;
	if (p.bytes.len < bytes)
		return FAIL(CORRUPT, "arrow batch: buffer too short");
	far = arena_alloc(r->arena, sizeof(*far));
	if (far == NULL)
		return FAIL(NO_MEMORY, "arrow batch");
	*far = (struct array_far){ r->far->fd, r->far->body_at + p.offset };
	a->far = far;
	a->values = NULL;
	*left = true;
	return OK;
}

static struct err
read_bytes(struct reader *r, struct array *a)
{
	struct slice s;
	struct err e;
	bool left;

	e = take_offsets(r, a);
	if (!err_is(e))
		e = leave_far(r, a, &left);
	if (err_is(e) || left)
		return e;
	e = take_buffer(r, array_offset(a, a->length), &s);
	if (err_is(e))
		return e;
	a->values = s.ptr;
	return nulls_are_empty(a) ? OK : close_gaps(r, a);
}

/* An item that is null under a row that is not cannot be told in our array. */
static bool
items_are_there(const struct array *a, const struct slice *bits, uint64_t items)
{
	uint32_t dim = (uint32_t)a->field->dim;
	uint64_t i;

	for (i = 0; i < items; i++) {
		if (((uint8_t)bits->ptr[i / 8] >> (i % 8) & 1) == 0 &&
		    !array_is_null(a, i / dim))
			return false;
	}
	return true;
}

static struct err
read_fixed_list(struct reader *r, struct array *a)
{
	uint64_t items = a->length * (uint32_t)a->field->dim;
	struct slice bits, s;
	struct node n;
	struct err e;

	/* length <= 2^40 and dim < 2^31: only the bytes could overflow. */
	if (items > LENGTH_MAX)
		return FAIL(CORRUPT, "arrow batch: length of a fixed list");
	e = take_node(r, &n);
	if (err_is(e))
		return e;
	if (n.length != items)
		return FAIL(CORRUPT, "arrow batch: items of a fixed list");
	e = take_buffer(r, n.nulls == 0 ? 0 : (items + 7) / 8, &bits);
	if (err_is(e))
		return e;
	if (n.nulls > 0 && !items_are_there(a, &bits, items))
		return FAIL(UNSUPPORTED, "arrow batch: null in a fixed list");
	e = take_buffer(r, items * 4, &s);
	a->values = s.ptr;
	return e;
}

static struct err read_array(struct reader *, const struct arrow_field *,
    bool strict, struct array *);

static struct err
read_list(struct reader *r, struct array *a, struct array *item)
{
	struct err e;

	e = take_offsets(r, a);
	if (!err_is(e))
		e = read_array(r, &a->field->children[0], true, item);
	if (err_is(e))
		return e;
	if (array_offset(a, a->length) > item->length)
		return FAIL(CORRUPT, "arrow batch: list out of bounds");
	if (!nulls_are_empty(a))
		return FAIL(UNSUPPORTED, "arrow batch: items under a null list");
	return OK;
}

static struct err
read_struct(struct reader *r, struct array *a, struct array *members)
{
	struct err e;
	uint32_t i;

	for (i = 0; i < a->field->child_count; i++) {
		e = read_array(r, &a->field->children[i], a->null_count == 0,
		    &members[i]);
		if (err_is(e))
			return e;
		if (members[i].length != a->length)
			return FAIL(CORRUPT, "arrow batch: length of a member");
	}
	return OK;
}

/* Depth is bounded by ARROW_DEPTH_MAX. */
static struct err
read_array(struct reader *r, const struct arrow_field *f, bool strict,
    struct array *a)
{
	uint32_t width = arrow_type_width((enum arrow_type)f->type);
	struct array *children = NULL;
	struct slice s;
	struct err e;

	*a = (struct array){ .field = f, .offsets = nothing, .values = nothing };
	e = take_validity(r, a, strict);
	if (err_is(e))
		return e;
	if (f->child_count > 0) {
		children = arena_calloc(r->arena, f->child_count,
		    sizeof(*children));
		if (children == NULL)
			return FAIL(NO_MEMORY, "arrow batch");
		a->children = children;
		r->stays = false;
	}
	switch (f->type) {
	case ARROW_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_UTF8:
	case ARROW_LARGE_BINARY:
		return read_bytes(r, a);
	case ARROW_LIST:
		return read_list(r, a, children);
	case ARROW_STRUCT:
		return read_struct(r, a, children);
	case ARROW_FIXED_LIST:
		return read_fixed_list(r, a);
	case ARROW_BOOL:
		e = take_buffer(r, (a->length + 7) / 8, &s);
		break;
	default:
		e = take_buffer(r, a->length * width, &s);
		break;
	}
	if (!err_is(e))
		a->values = s.ptr;
	return e;
}

static struct err
read_codec(struct reader *r, const struct fb_table *header)
{
	struct fb_table t = fb_child(&r->fb, header, 3);

	if (t.at == 0)
		return OK;
	r->codec = (int)fb_int(&r->fb, &t, 0, 1, 0);
	if (r->codec != CODEC_ZSTD || fb_int(&r->fb, &t, 1, 1, 0) != 0)
		return FAIL(UNSUPPORTED, "arrow batch: compressed, not by zstd");
	return OK;
}

static struct err
read_batch(const struct ipc_message *m, const struct arrow_schema *s,
    const struct ipc_far *far, struct arena *arena, struct batch *out)
{
	struct reader r = { .fb = { m->metadata, false }, .body = m->body,
	    .far = far, .codec = CODEC_NONE, .arena = arena };
	struct fb_table header = fb_table_at(&r.fb, m->header);
	uint64_t rows = (uint64_t)fb_int(&r.fb, &header, 0, 8, 0);
	struct array *columns;
	struct err e;
	uint32_t i;

	MUST(m->kind == IPC_BATCH);
	r.nodes = fb_vector(&r.fb, &header, 1, NODE_BYTES);
	r.buffers = fb_vector(&r.fb, &header, 2, BUFFER_BYTES);
	e = read_codec(&r, &header);
	if (err_is(e))
		return e;
	/* Rows without columns would cost nothing, and a reader very much. */
	if (r.fb.bad || rows > LENGTH_MAX || (s->field_count == 0 && rows > 0))
		return FAIL(CORRUPT, "arrow batch out of bounds");
	columns = arena_calloc(arena, MAX(s->field_count, 1u), sizeof(*columns));
	if (columns == NULL)
		return FAIL(NO_MEMORY, "arrow batch");
	for (i = 0; i < s->field_count; i++) {
		r.stays = far != NULL && far->columns[i];
		e = read_array(&r, &s->fields[i], true, &columns[i]);
		if (err_is(e))
			return e;
		if (columns[i].length != rows)
			return FAIL(CORRUPT, "arrow batch: length of a column");
	}
	if (r.node != r.nodes.count || r.buffer != r.buffers.count)
		return FAIL(CORRUPT, "arrow batch: more than its schema has");
	*out = (struct batch){ s, rows, columns };
	return OK;
}

struct err
ipc_batch_read(const struct ipc_message *m, const struct arrow_schema *s,
    struct arena *arena, struct batch *out)
{
	MUST(m->body.ptr != NULL);
	return read_batch(m, s, NULL, arena, out);
}

struct err
ipc_batch_read_far(const struct ipc_message *m, const struct arrow_schema *s,
    const struct ipc_far *far, struct arena *arena, struct batch *out)
{
	MUST(m->body.ptr == NULL);
	return read_batch(m, s, far, arena, out);
}
