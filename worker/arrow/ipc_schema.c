#include "common/base.h"

#include "worker/arrow/flatbuf.h"
#include "worker/arrow/ipc.h"
#include "worker/arrow/ipc_meta.h"

/*
 * Schemas: as a message, and as what a file's footer holds.
 *
 * Tables may refer to one another's vectors, so few bytes can describe very
 * many fields. A budget of fields and pairs bounds what a schema may cost.
 */

#define PAIRS_MAX	(16 * ARROW_FIELDS_MAX)

/* Schema.fbs, union Type. */
enum type_id {
	TYPE_INT = 2,
	TYPE_FLOAT = 3,
	TYPE_BINARY = 4,
	TYPE_UTF8 = 5,
	TYPE_BOOL = 6,
	TYPE_TIMESTAMP = 10,
	TYPE_LIST = 12,
	TYPE_STRUCT = 13,
	TYPE_FIXED_LIST = 16,
	TYPE_LARGE_BINARY = 19,
	TYPE_LARGE_UTF8 = 20,
};

enum { UNIT_MICROSECOND = 2 };
enum { PRECISION_SINGLE = 1, PRECISION_DOUBLE = 2 };

/* ours, theirs, and of numbers: bits, signed */
static const struct {
	uint8_t id, bits;
	bool is_signed;
} types[ARROW_TYPE_COUNT] = {
	[ARROW_BOOL]		= { TYPE_BOOL, 0, false },
	[ARROW_INT8]		= { TYPE_INT, 8, true },
	[ARROW_INT32]		= { TYPE_INT, 32, true },
	[ARROW_INT64]		= { TYPE_INT, 64, true },
	[ARROW_UINT32]		= { TYPE_INT, 32, false },
	[ARROW_UINT64]		= { TYPE_INT, 64, false },
	[ARROW_FLOAT32]		= { TYPE_FLOAT, 0, false },
	[ARROW_FLOAT64]		= { TYPE_FLOAT, 0, false },
	[ARROW_TIMESTAMP]	= { TYPE_TIMESTAMP, 0, false },
	[ARROW_TIMESTAMP_UTC]	= { TYPE_TIMESTAMP, 0, false },
	[ARROW_UTF8]		= { TYPE_UTF8, 0, false },
	[ARROW_LARGE_UTF8]	= { TYPE_LARGE_UTF8, 0, false },
	[ARROW_BINARY]		= { TYPE_BINARY, 0, false },
	[ARROW_LARGE_BINARY]	= { TYPE_LARGE_BINARY, 0, false },
	[ARROW_FIXED_LIST]	= { TYPE_FIXED_LIST, 0, false },
	[ARROW_LIST]		= { TYPE_LIST, 0, false },
	[ARROW_STRUCT]		= { TYPE_STRUCT, 0, false },
};

/* What a fixed-size list holds; schema.h leaves it out. */
static const struct arrow_field fixed_item = {
	.name = { "item", 4 }, .type = ARROW_FLOAT32, .nullable = true, .id = -1,
};

/* ---- writing */

size_t
ipc_pairs_write(struct fbw *w, const struct arrow_pair *pairs, uint32_t count,
    size_t *values_at)
{
	static const uint8_t widths[] = { 4, 4 };
	size_t vector = fbw_vector(w, count, 4, 4);
	size_t at[2], text;
	uint32_t i;

	for (i = 0; i < count; i++) {
		fbw_refer(w, vector + 4 + (size_t)i * 4,
		    fbw_table(w, widths, 2, at));
		fbw_refer(w, at[0], fbw_text(w, pairs[i].key));
		text = fbw_text(w, pairs[i].value);
		fbw_refer(w, at[1], text);
		if (values_at != NULL)
			values_at[i] = text + 4;
	}
	return vector;
}

static size_t
write_type(struct fbw *w, const struct arrow_field *f)
{
	static const uint8_t int_widths[] = { 4, 1 }, float_widths[] = { 2 },
	    timestamp_widths[] = { 2, 4 }, list_widths[] = { 4 };
	size_t table, at[2];

	switch (types[f->type].id) {
	case TYPE_INT:
		table = fbw_table(w, int_widths, 2, at);
		fbw_put(w, at[0], types[f->type].bits, 4);
		fbw_put(w, at[1], types[f->type].is_signed, 1);
		return table;
	case TYPE_FLOAT:
		table = fbw_table(w, float_widths, 1, at);
		fbw_put(w, at[0], f->type == ARROW_FLOAT32 ? PRECISION_SINGLE :
		    PRECISION_DOUBLE, 2);
		return table;
	case TYPE_TIMESTAMP:
		table = fbw_table(w, timestamp_widths,
		    f->type == ARROW_TIMESTAMP_UTC ? 2 : 1, at);
		fbw_put(w, at[0], UNIT_MICROSECOND, 2);
		if (f->type == ARROW_TIMESTAMP_UTC)
			fbw_refer(w, at[1], fbw_text(w, SLICE("UTC")));
		return table;
	case TYPE_FIXED_LIST:
		table = fbw_table(w, list_widths, 1, at);
		fbw_put(w, at[0], f->dim, 4);
		return table;
	default:
		return fbw_table(w, NULL, 0, at);
	}
}

/* Depth is bounded by ARROW_DEPTH_MAX. */
static size_t
write_field(struct fbw *w, const struct arrow_field *f)
{
	uint8_t widths[] = { 4, 1, 1, 4, 0, 4, f->pair_count > 0 ? 4 : 0 };
	const struct arrow_field *children = f->children;
	uint32_t i, count = f->child_count;
	size_t table, vector, at[7];

	if (f->type == ARROW_FIXED_LIST) {
		children = &fixed_item;
		count = 1;
	}
	table = fbw_table(w, widths, 7, at);
	fbw_refer(w, at[0], fbw_text(w, f->name));
	fbw_put(w, at[1], f->nullable, 1);
	fbw_put(w, at[2], types[f->type].id, 1);
	fbw_refer(w, at[3], write_type(w, f));
	vector = fbw_vector(w, count, 4, 4);
	fbw_refer(w, at[5], vector);
	for (i = 0; i < count; i++)
		fbw_refer(w, vector + 4 + (size_t)i * 4,
		    write_field(w, &children[i]));
	if (f->pair_count > 0)
		fbw_refer(w, at[6], ipc_pairs_write(w, f->pairs, f->pair_count,
		    NULL));
	return table;
}

size_t
ipc_schema_table_write(struct fbw *w, const struct arrow_schema *s)
{
	uint8_t widths[] = { 2, 4, s->pair_count > 0 ? 4 : 0 };
	size_t table, vector, at[3];
	uint32_t i;

	table = fbw_table(w, widths, 3, at);
	vector = fbw_vector(w, s->field_count, 4, 4);
	fbw_refer(w, at[1], vector);
	for (i = 0; i < s->field_count; i++)
		fbw_refer(w, vector + 4 + (size_t)i * 4,
		    write_field(w, &s->fields[i]));
	if (s->pair_count > 0)
		fbw_refer(w, at[2], ipc_pairs_write(w, s->pairs, s->pair_count,
		    NULL));
	return table;
}

struct err
ipc_schema_write(struct buf *out, const struct arrow_schema *s,
    const struct arrow_pair *pairs, uint32_t pair_count)
{
	struct ipc_opening o;

	ipc_message_begin(&o, out, IPC_HEADER_SCHEMA, pair_count > 0);
	fbw_refer(&o.w, o.header_at, ipc_schema_table_write(&o.w, s));
	if (pair_count > 0)
		fbw_refer(&o.w, o.pairs_at,
		    ipc_pairs_write(&o.w, pairs, pair_count, NULL));
	return ipc_message_end(&o);
}

/* ---- reading */

struct reader {
	struct fb fb;
	struct arena *arena;
	uint32_t nodes_left;
	uint32_t pairs_left;
};

static struct err
copy_text(struct reader *r, struct slice from, struct slice *to)
{
	char *p = arena_copy(r->arena, from);

	if (p == NULL)
		return FAIL(NO_MEMORY, "arrow schema");
	*to = slice_make(p, from.len);
	return OK;
}

static struct err
read_pairs(struct reader *r, const struct fb_table *t, uint32_t slot,
    const struct arrow_pair **pairs, uint32_t *count)
{
	struct fb_vector v = fb_vector(&r->fb, t, slot, 4);
	struct arrow_pair *p;
	struct fb_table pair;
	struct err e;
	uint32_t i;

	if (v.count > r->pairs_left)
		return FAIL(CORRUPT, "arrow schema: too much metadata");
	r->pairs_left -= v.count;
	p = arena_calloc(r->arena, MAX(v.count, 1u), sizeof(*p));
	if (p == NULL)
		return FAIL(NO_MEMORY, "arrow schema");
	for (i = 0; i < v.count; i++) {
		pair = fb_element(&r->fb, &v, i);
		e = copy_text(r, fb_text(&r->fb, &pair, 0), &p[i].key);
		if (!err_is(e))
			e = copy_text(r, fb_text(&r->fb, &pair, 1), &p[i].value);
		if (err_is(e))
			return e;
	}
	*pairs = p;
	*count = v.count;
	return OK;
}

static struct err
unsupported(struct reader *r, const struct arrow_field *f, const char *why)
{
	return FAIL(UNSUPPORTED, arena_printf(r->arena,
	    "arrow column \"%.*s\": %s", (int)MIN(f->name.len, 100u),
	    f->name.ptr, why));
}

/* The type that fits what a field says of itself, or ARROW_TYPE_COUNT. */
static enum arrow_type
type_of(struct reader *r, uint8_t id, const struct fb_table *t)
{
	int64_t bits = fb_int(&r->fb, t, 0, id == TYPE_INT ? 4 : 2, 0);
	bool is_signed = id == TYPE_INT && fb_int(&r->fb, t, 1, 1, 0) != 0;
	struct slice zone;
	enum arrow_type i;

	if (id == TYPE_FLOAT)
		return bits == PRECISION_SINGLE ? ARROW_FLOAT32 :
		    bits == PRECISION_DOUBLE ? ARROW_FLOAT64 : ARROW_TYPE_COUNT;
	if (id == TYPE_TIMESTAMP) {
		zone = fb_text(&r->fb, t, 1);
		if (bits != UNIT_MICROSECOND ||
		    (zone.len > 0 && !slice_eq(zone, SLICE("UTC"))))
			return ARROW_TYPE_COUNT;
		return zone.len > 0 ? ARROW_TIMESTAMP_UTC : ARROW_TIMESTAMP;
	}
	for (i = 0; i < ARROW_TYPE_COUNT; i++) {
		if (types[i].id != id)
			continue;
		if (id != TYPE_INT || (types[i].bits == bits &&
		    types[i].is_signed == is_signed))
			return i;
	}
	return ARROW_TYPE_COUNT;
}

static struct err read_fields(struct reader *, const struct fb_vector *,
    int depth, const struct arrow_field **);

static struct err
read_children(struct reader *r, const struct fb_table *t, int depth,
    struct arrow_field *f)
{
	struct fb_vector v = fb_vector(&r->fb, t, 5, 4);
	const struct arrow_field *children;
	bool nests = f->type == ARROW_LIST || f->type == ARROW_STRUCT;
	struct err e;

	if (!nests && f->type != ARROW_FIXED_LIST)
		return v.count == 0 ? OK :
		    FAIL(CORRUPT, "arrow schema: a leaf with children");
	if (f->type != ARROW_STRUCT && v.count != 1)
		return FAIL(CORRUPT, "arrow schema: a list without its item");
	if (v.count == 0 || depth == ARROW_DEPTH_MAX)
		return unsupported(r, f, v.count == 0 ?
		    "a struct without members" : "nested too deep");
	e = read_fields(r, &v, depth + 1, &children);
	if (err_is(e))
		return e;
	if (nests) {
		f->child_count = v.count;
		f->children = children;
		return OK;
	}
	if (children[0].type != ARROW_FLOAT32)
		return unsupported(r, f, "a fixed-size list not of float32");
	return OK;
}

static struct err
read_field(struct reader *r, const struct fb_table *t, int depth,
    struct arrow_field *f)
{
	uint8_t id = (uint8_t)fb_int(&r->fb, t, 2, 1, 0);
	struct fb_table type = fb_child(&r->fb, t, 3);
	struct fb_table dictionary = fb_child(&r->fb, t, 4);
	enum arrow_type known = type_of(r, id, &type);
	struct err e;

	*f = (struct arrow_field){ .id = -1 };
	e = copy_text(r, fb_text(&r->fb, t, 0), &f->name);
	if (err_is(e))
		return e;
	if (r->fb.bad)
		return FAIL(CORRUPT, "arrow schema: field out of bounds");
	if (dictionary.at != 0)
		return unsupported(r, f, "dictionary encoded");
	if (known == ARROW_TYPE_COUNT)
		return unsupported(r, f, "a type that is not stored here");
	f->type = (uint8_t)known;
	f->nullable = fb_int(&r->fb, t, 1, 1, 0) != 0;
	if (known == ARROW_FIXED_LIST) {
		f->dim = (int32_t)fb_int(&r->fb, &type, 0, 4, 0);
		if (f->dim < 1)
			return unsupported(r, f, "a fixed-size list of nothing");
	}
	e = read_pairs(r, t, 6, &f->pairs, &f->pair_count);
	if (err_is(e))
		return e;
	return read_children(r, t, depth, f);
}

/* Recursion ends at ARROW_DEPTH_MAX. */
static struct err
read_fields(struct reader *r, const struct fb_vector *v, int depth,
    const struct arrow_field **fields)
{
	struct arrow_field *f;
	struct fb_table t;
	struct err e;
	uint32_t i;

	if (v->count > r->nodes_left)
		return FAIL(CORRUPT, "arrow schema: too many fields");
	r->nodes_left -= v->count;
	f = arena_calloc(r->arena, MAX(v->count, 1u), sizeof(*f));
	if (f == NULL)
		return FAIL(NO_MEMORY, "arrow schema");
	for (i = 0; i < v->count; i++) {
		t = fb_element(&r->fb, v, i);
		e = read_field(r, &t, depth, &f[i]);
		if (err_is(e))
			return e;
	}
	*fields = f;
	return OK;
}

struct err
ipc_schema_read(const struct ipc_message *m, struct arena *arena,
    struct arrow_schema *out)
{
	struct reader r = { .fb = { m->metadata, false }, .arena = arena,
	    .nodes_left = ARROW_NODES_MAX, .pairs_left = PAIRS_MAX };
	struct fb_table t = fb_table_at(&r.fb, m->header);
	struct fb_vector v = fb_vector(&r.fb, &t, 1, 4);
	struct arrow_schema s;
	struct err e;

	MUST(m->kind == IPC_SCHEMA);
	if (fb_int(&r.fb, &t, 0, 2, 0) != 0)
		return FAIL(UNSUPPORTED, "arrow schema: big endian");
	if (v.count > ARROW_FIELDS_MAX)
		return FAIL(UNSUPPORTED, "arrow schema: too many columns");
	s.field_count = v.count;
	e = read_fields(&r, &v, 1, &s.fields);
	if (!err_is(e))
		e = read_pairs(&r, &t, 2, &s.pairs, &s.pair_count);
	if (err_is(e))
		return e;
	if (r.fb.bad)
		return FAIL(CORRUPT, "arrow schema: out of bounds");
	*out = s;
	return OK;
}
