#include "common/base.h"

#include <stdlib.h>

#include "worker/lance/field.h"
#include "worker/lance/proto_bytes.h"
#include "worker/lance/table.pb-c.h"

#define NO_PARENT (-1)

/* ids */

static struct err
assign(struct arena *a, const struct arrow_field *from, uint32_t count,
    int32_t *next, int depth, const struct arrow_field **out)
{
	struct arrow_field *to;
	struct err e;
	uint32_t i;

	MUST(depth <= ARROW_DEPTH_MAX);
	to = arena_calloc(a, count, sizeof(*to));
	if (to == NULL)
		return FAIL(NO_MEMORY, "schema");
	for (i = 0; i < count; i++) {
		to[i] = from[i];
		if (to[i].id < 0)
			to[i].id = (*next)++;
		if (from[i].child_count == 0)
			continue;
		e = assign(a, from[i].children, from[i].child_count, next,
		    depth + 1, &to[i].children);
		if (err_is(e))
			return e;
	}
	*out = to;
	return OK;
}

struct err
field_assign_ids(struct arena *a, const struct arrow_schema *from, int32_t first,
    struct arrow_schema *out)
{
	struct arrow_schema s = *from;
	struct err e;

	e = assign(a, from->fields, from->field_count, &first, 1, &s.fields);
	if (!err_is(e))
		*out = s;
	return e;
}

/* pairs */

struct err
field_pairs_make(struct arena *a, const struct arrow_pair *pairs, uint32_t count,
    struct Pb__Pair ***out)
{
	Pb__Pair **list = arena_calloc(a, count, sizeof(*list));
	Pb__Pair *room = arena_calloc(a, count, sizeof(*room));
	uint32_t i;

	if (list == NULL || room == NULL)
		return FAIL(NO_MEMORY, "metadata");
	for (i = 0; i < count; i++) {
		pb__pair__init(&room[i]);
		room[i].has_key = room[i].has_value = 1;
		room[i].key = proto_bytes(pairs[i].key);
		room[i].value = proto_bytes(pairs[i].value);
		list[i] = &room[i];
	}
	*out = list;
	return OK;
}

struct err
field_pairs_read(struct arena *a, struct Pb__Pair **list, size_t count,
    const struct arrow_pair **out)
{
	struct arrow_pair *pairs = arena_calloc(a, count, sizeof(*pairs));
	size_t i;

	if (pairs == NULL)
		return FAIL(NO_MEMORY, "metadata");
	for (i = 0; i < count; i++) {
		pairs[i].key = proto_slice(list[i]->key);
		pairs[i].value = proto_slice(list[i]->value);
	}
	*out = pairs;
	return OK;
}

/* schema to list */

struct maker {
	struct arena *arena;
	Pb__Field **list;
	size_t count;
};

static size_t
count_fields(const struct arrow_field *f, uint32_t count)
{
	size_t n = count;
	uint32_t i;

	for (i = 0; i < count; i++)
		n += count_fields(f[i].children, f[i].child_count);
	return n;
}

static struct slice
logical_type(struct arena *a, const struct arrow_field *f)
{
	if (f->type == ARROW_FIXED_LIST)
		return slice_of(arena_printf(a, "%s:%d",
		    arrow_type_name(ARROW_FIXED_LIST), f->dim));
	if (f->type == ARROW_LIST && f->children[0].type == ARROW_STRUCT)
		return SLICE("list.struct");
	return slice_of(arrow_type_name((enum arrow_type)f->type));
}

static int32_t
encoding_of(enum arrow_type t)
{
	switch (t) {
	case ARROW_STRUCT:
		return 0;
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return 2;
	default:
		return 1;
	}
}

/* The position in the key, from 1, or 0: metadata is text for people, fields
 * 12 and 13 are what the engine looks at. */
static uint32_t
key_position(const struct arrow_field *f)
{
	uint32_t i;

	for (i = 0; i < f->pair_count; i++) {
		if (slice_eq(f->pairs[i].key, SLICE(FIELD_KEY_POSITION)) &&
		    f->pairs[i].value.len == 1 &&
		    f->pairs[i].value.ptr[0] >= '1' &&
		    f->pairs[i].value.ptr[0] <= '9')
			return (uint32_t)(f->pairs[i].value.ptr[0] - '0');
	}
	return 0;
}

static struct err
make_field(struct arena *a, const struct arrow_field *f, int32_t parent,
    Pb__Field **out)
{
	Pb__Field *m = arena_alloc(a, sizeof(*m));
	struct err e;

	if (m == NULL)
		return FAIL(NO_MEMORY, "schema");
	MUST(f->id >= 0);
	pb__field__init(m);
	m->has_name = m->has_logical_type = 1;
	m->name = proto_bytes(f->name);
	m->logical_type = proto_bytes(logical_type(a, f));
	m->has_id = f->id != 0;
	m->id = f->id;
	m->has_parent_id = parent != 0;
	m->parent_id = parent;
	m->has_nullable = m->nullable = f->nullable;
	m->encoding = encoding_of((enum arrow_type)f->type);
	m->has_encoding = m->encoding != 0;
	m->primary_key_position = key_position(f);
	m->has_primary_key = m->primary_key = m->primary_key_position > 0;
	m->has_primary_key_position = m->has_primary_key;
	m->n_metadata = f->pair_count;
	e = field_pairs_make(a, f->pairs, f->pair_count, &m->metadata);
	if (!err_is(e))
		*out = m;
	return e;
}

static struct err
make_all(struct maker *mk, const struct arrow_field *f, uint32_t count,
    int32_t parent)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; i < count && !err_is(e); i++) {
		e = make_field(mk->arena, &f[i], parent, &mk->list[mk->count]);
		if (err_is(e))
			break;
		mk->count++;
		e = make_all(mk, f[i].children, f[i].child_count, f[i].id);
	}
	return e;
}

struct err
field_list_make(struct arena *a, const struct arrow_schema *s,
    struct Pb__Field ***out, size_t *count)
{
	struct maker mk = { .arena = a };
	struct err e;

	mk.list = arena_calloc(a, count_fields(s->fields, s->field_count),
	    sizeof(*mk.list));
	if (mk.list == NULL)
		return FAIL(NO_MEMORY, "schema");
	e = make_all(&mk, s->fields, s->field_count, NO_PARENT);
	if (err_is(e))
		return e;
	*out = mk.list;
	*count = mk.count;
	return OK;
}

/* list to schema */

struct reader {
	struct arena *arena;
	Pb__Field **list;
	size_t count;
	size_t at;			/* the next field */
};

static const char *
naming(struct arena *a, const Pb__Field *m, const char *what)
{
	return arena_printf(a, "column \"%.*s\" of type %.*s: %s",
	    (int)MIN(m->name.len, 256), (const char *)m->name.data,
	    (int)MIN(m->logical_type.len, 64),
	    (const char *)m->logical_type.data, what);
}

/* "8" of "fixed_size_list:float:8"; 0 if it is none. */
static int32_t
read_dim(struct slice s)
{
	const char *prefix = arrow_type_name(ARROW_FIXED_LIST);
	size_t i = strlen(prefix);
	int32_t dim = 0;

	if (s.len < i + 2 || memcmp(s.ptr, prefix, i) != 0 || s.ptr[i] != ':')
		return 0;
	for (i++; i < s.len; i++) {
		if (s.ptr[i] < '0' || s.ptr[i] > '9' || dim > 1000000)
			return 0;
		dim = dim * 10 + (s.ptr[i] - '0');
	}
	return dim;
}

static bool
read_type(struct slice logical, uint8_t *type, int32_t *dim)
{
	int t;

	*dim = read_dim(logical);
	if (*dim > 0) {
		*type = ARROW_FIXED_LIST;
		return true;
	}
	if (slice_eq(logical, SLICE("list.struct"))) {
		*type = ARROW_LIST;
		return true;
	}
	for (t = 0; t < ARROW_TYPE_COUNT; t++) {
		if (t != ARROW_FIXED_LIST &&
		    slice_eq(logical, slice_of(arrow_type_name(t)))) {
			*type = (uint8_t)t;
			return true;
		}
	}
	return false;
}

/* How many of the fields that follow belong to this parent. */
static uint32_t
count_children(const struct reader *r, int32_t parent)
{
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < r->count; i++)
		n += r->list[i]->parent_id == parent;
	return n;
}

static struct err read_all(struct reader *, int32_t parent, uint32_t count,
    int depth, const struct arrow_field **);

/* The next field of the list, which must be a child of parent. */
static struct err
read_field(struct reader *r, int32_t parent, int depth, struct arrow_field *f)
{
	Pb__Field *m;
	struct err e;

	if (r->at == r->count || r->list[r->at]->parent_id != parent)
		return FAIL(CORRUPT, "schema is not listed depth first");
	m = r->list[r->at++];
	if (m->id < 0)
		return FAIL(CORRUPT, "field without an id");
	f->name = proto_slice(m->name);
	f->nullable = m->nullable;
	f->id = m->id;
	if (!read_type(proto_slice(m->logical_type), &f->type, &f->dim))
		return FAIL(UNSUPPORTED, naming(r->arena, m, "not supported"));
	f->pair_count = (uint32_t)m->n_metadata;
	e = field_pairs_read(r->arena, m->metadata, m->n_metadata, &f->pairs);
	if (err_is(e))
		return e;
	if (f->type != ARROW_LIST && f->type != ARROW_STRUCT)
		return OK;
	if (depth == ARROW_DEPTH_MAX)
		return FAIL(UNSUPPORTED, naming(r->arena, m, "nested too deep"));
	f->child_count = count_children(r, f->id);
	if (f->child_count == 0 || (f->type == ARROW_LIST && f->child_count != 1))
		return FAIL(CORRUPT, naming(r->arena, m, "children are missing"));
	return read_all(r, f->id, f->child_count, depth + 1, &f->children);
}

static int
compare_names(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	return slice_cmp(*x, *y);
}

static struct err
check_names(struct arena *a, const struct arrow_field *f, uint32_t count)
{
	struct slice *names = arena_calloc(a, count, sizeof(*names));
	uint32_t i;

	if (names == NULL)
		return FAIL(NO_MEMORY, "schema");
	for (i = 0; i < count; i++)
		names[i] = f[i].name;
	qsort(names, count, sizeof(*names), compare_names);
	for (i = 1; i < count; i++) {
		if (slice_eq(names[i - 1], names[i]))
			return FAIL(CORRUPT, "two columns of one name");
	}
	return OK;
}

static struct err
read_all(struct reader *r, int32_t parent, uint32_t count, int depth,
    const struct arrow_field **out)
{
	struct arrow_field *f = arena_calloc(r->arena, count, sizeof(*f));
	struct err e = OK;
	uint32_t i;

	if (f == NULL)
		return FAIL(NO_MEMORY, "schema");
	for (i = 0; i < count && !err_is(e); i++)
		e = read_field(r, parent, depth, &f[i]);
	if (!err_is(e))
		e = check_names(r->arena, f, count);
	if (!err_is(e))
		*out = f;
	return e;
}

struct err
field_list_read(struct arena *a, struct Pb__Field **list, size_t count,
    struct arrow_schema *out)
{
	struct reader r = { a, list, count, 0 };
	struct arrow_schema s = { 0 };
	struct err e;

	if (count > ARROW_NODES_MAX)
		return FAIL(UNSUPPORTED, "too many columns");
	s.field_count = count_children(&r, NO_PARENT);
	e = read_all(&r, NO_PARENT, s.field_count, 1, &s.fields);
	if (err_is(e))
		return e;
	if (r.at != count)
		return FAIL(CORRUPT, "schema is not listed depth first");
	*out = s;
	return OK;
}
