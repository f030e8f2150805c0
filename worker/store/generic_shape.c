#include "common/base.h"

#include "worker/store/generic_parts.h"
#include "worker/store/kind_field.h"

#define META_SPEC	"lance-context:schema_spec"
#define META_SEAL	"lance-context:seal_on_add"
#define META_METRIC	"lance-context:distance_metric:"
#define META_BLOB	"lance-context:blob"
#define SPEC_BYTES_MAX	(8u << 20)

static const struct arrow_pair blob_pairs[] = {
	{ { META_BLOB, sizeof(META_BLOB) - 1 }, { "true", 4 } },
};

struct maker {
	struct arena *arena;
	struct arrow_field *fields;
	struct rule *rules;
	struct arrow_pair *pairs;
	uint32_t count, pair_count;
	int32_t next_id;
	bool full;			/* the arena is */
};

static struct slice
keep(struct maker *m, struct slice s)
{
	char *copy = arena_copy(m->arena, s);

	m->full = m->full || copy == NULL;
	return slice_make(copy, copy == NULL ? 0 : s.len);
}

static void
add_pair(struct maker *m, struct slice key, struct slice value)
{
	m->pairs[m->pair_count++] = (struct arrow_pair){ key, value };
}

static const struct arrow_field *
make_item(struct maker *m, const struct generic_column *c)
{
	struct arrow_field *item = arena_alloc(m->arena, sizeof(*item));

	m->full = m->full || item == NULL;
	if (item != NULL)
		*item = (struct arrow_field){ .name = SLICE("item"),
		    .type = c->item, .nullable = true, .id = m->next_id++ };
	return item;
}

static void
add_column(struct maker *m, const struct generic_column *c)
{
	struct arrow_field *f = &m->fields[m->count];
	struct rule *r = &m->rules[m->count];

	m->count++;
	*f = (struct arrow_field){ .name = keep(m, c->name), .type = c->type,
	    .nullable = c->nullable, .dim = c->dim, .id = m->next_id++ };
	*r = (struct rule){ .presence = c->nullable ? RULE_OPTIONAL :
	    RULE_REQUIRED };
	if (c->type == ARROW_LIST) {
		f->children = make_item(m, c);
		f->child_count = f->children != NULL;
	}
	if (c->blob) {
		r->form = FORM_BLOB;
		f->pair_count = ARRAY_LEN(blob_pairs);
		f->pairs = blob_pairs;
	}
	if (c->type == ARROW_FIXED_LIST)
		add_pair(m, slice_of(arena_printf(m->arena, META_METRIC "%.*s",
		    (int)c->name.len, c->name.ptr)), c->metric.ptr == NULL ?
		    SLICE("l2") : keep(m, c->metric));
}

static void
add_key(struct maker *m, const struct generic_column *c)
{
	add_column(m, c);
	m->fields[0].pair_count = KIND_KEY_PAIRS;
	m->fields[0].pairs = kind_key_pairs;
	m->rules[0].form = FORM_KEY;
}

static void
add_seq(struct maker *m)
{
	m->fields[m->count] = (struct arrow_field){ .name = SLICE("_seq"),
	    .type = ARROW_INT64, .nullable = true, .id = m->next_id++ };
	m->rules[m->count++] = (struct rule){ .presence = RULE_INTERNAL,
	    .fill = FILL_ZERO };
}

static bool
is_key(const struct generic_column *c)
{
	return slice_eq(c->name, SLICE("id"));
}

static void
add_columns(struct maker *m, const struct generic_columns *all)
{
	uint32_t i;

	for (i = 0; i < all->count; i++) {
		if (is_key(&all->columns[i]))
			add_key(m, &all->columns[i]);
	}
	for (i = 0; i < all->count; i++) {
		if (!is_key(&all->columns[i]))
			add_column(m, &all->columns[i]);
	}
	add_seq(m);
}

/* The schema as text, in the arena. */
static struct err
make_spec(struct maker *m, const struct generic_columns *all,
    struct slice *spec)
{
	struct buf text;

	buf_init(&text, SPEC_BYTES_MAX);
	if (generic_columns_write(all, &text))
		*spec = keep(m, buf_slice(&text));
	else
		m->full = true;
	buf_free(&text);
	return m->full ? FAIL(NO_MEMORY, "schema") : OK;
}

static struct err
make(struct arena *a, const struct generic_columns *all, bool seal_on_add,
    struct store_shape *out)
{
	struct maker m = { .arena = a };
	struct slice spec;
	struct err e;

	m.fields = arena_calloc(a, all->count + 1, sizeof(*m.fields));
	m.rules = arena_calloc(a, all->count + 1, sizeof(*m.rules));
	m.pairs = arena_calloc(a, all->count + 2, sizeof(*m.pairs));
	if (m.fields == NULL || m.rules == NULL || m.pairs == NULL)
		return FAIL(NO_MEMORY, "schema");
	e = make_spec(&m, all, &spec);
	if (err_is(e))
		return e;
	add_pair(&m, SLICE(META_SPEC), spec);
	add_pair(&m, SLICE(META_SEAL), seal_on_add ? SLICE("true") :
	    SLICE("false"));
	add_columns(&m, all);
	if (m.full)
		return FAIL(NO_MEMORY, "schema");
	*out = (struct store_shape){
		.schema = { .field_count = m.count, .fields = m.fields },
		.rules = m.rules,
		.flags = SHAPE_STRICT_NAMES | SHAPE_EMPTY_BODY |
		    SHAPE_TYPED_BODY | SHAPE_RAW_TIMES | SHAPE_WIDE_FLOATS |
		    SHAPE_BYTE_ARRAYS | (seal_on_add ? SHAPE_READ_STRONG : 0),
		.pair_count = m.pair_count,
		.pairs = m.pairs,
		.spec = spec,
		.key = 0,
		.blob = -1,
		.created_at = -1,
		.payload_size = -1,
		.seq = (int16_t)(m.count - 1),
	};
	return OK;
}

/* A row of few bytes must not become one of gigabytes. */
static struct err
check_width(const struct generic_columns *all)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < all->count; i++) {
		if (all->columns[i].type == ARROW_FIXED_LIST)
			bytes += (uint64_t)all->columns[i].dim * sizeof(float);
	}
	return bytes <= GENERIC_ROW_BYTES_MAX ? OK : FAIL(BAD_INPUT,
	    "schema: the vectors of a row have more than 16 MiB");
}

struct err
generic_shape_make(struct arena *a, const struct json *schema,
    bool seal_on_add, struct store_shape *out)
{
	struct generic_columns all;
	struct err e = generic_columns_read(a, schema, &all);

	if (!err_is(e))
		e = check_width(&all);
	return err_is(e) ? e : make(a, &all, seal_on_add, out);
}

/* ---- from a table */

/* Same ids as well: by them the files of the table are read. */
static bool
ids_same(const struct arrow_field *a, const struct arrow_field *b)
{
	return a->id == b->id && (a->child_count == 0 ||
	    a->children[0].id == b->children[0].id);
}

/* Other engines may have added columns, but ours must be as they were. */
static struct err
check_columns(struct arena *a, const struct table *t,
    const struct store_shape *shape)
{
	const struct arrow_schema *have = &t->schema;
	uint32_t i;
	int at;

	for (i = 0; i < shape->schema.field_count; i++) {
		const struct arrow_field *f = &shape->schema.fields[i];

		at = i < have->field_count && slice_eq(have->fields[i].name,
		    f->name) ? (int)i : arrow_schema_find(have, f->name);
		if (at < 0 || !arrow_field_same(&have->fields[at], f) ||
		    !ids_same(&have->fields[at], f))
			return FAIL(UNSUPPORTED, arena_printf(a, "column "
			    "\"%.*s\" of the table is not that of the store's "
			    "schema", (int)f->name.len, f->name.ptr));
	}
	return OK;
}

static struct err
read_spec(struct arena *tree, struct arena *a, const struct table *t,
    struct store_shape *out)
{
	struct generic_columns all;
	const struct json *schema;
	struct err e;

	e = json_parse(tree, table_metadata_get(t, SLICE(META_SPEC)),
	    META_SPEC, &schema);
	if (!err_is(e))
		e = generic_columns_read(tree, schema, &all);
	if (!err_is(e))
		e = make(a, &all, slice_eq(table_metadata_get(t,
		    SLICE(META_SEAL)), SLICE("true")), out);
	if (e.kind == ERR_BAD_INPUT || e.kind == ERR_SHAPE)
		e.kind = ERR_CORRUPT;	/* nobody's request */
	if (err_is(e))
		e.what = arena_printf(a, "%s", e.what);
	return e;
}

struct err
generic_shape_read(struct arena *a, const struct table *t,
    struct store_shape *out)
{
	struct arena tree;
	struct err e;

	arena_init(&tree, 64u << 20);
	e = read_spec(&tree, a, t, out);
	arena_free(&tree);
	return err_is(e) ? e : check_columns(a, t, out);
}
