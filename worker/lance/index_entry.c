#include "common/base.h"

#include "common/clock.h"
#include "worker/lance/deletion.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"
#include "worker/lance/table.pb-c.h"

#define BTREE_DETAILS	"/lance.table.BTreeIndexDetails"
#define FRAGMENT_IDS	(1ull << 32)

static bool
is_key_btree(const struct arrow_field *key, const struct table_index *x)
{
	return x->field_count == 1 && x->fields[0] == key->id &&
	    slice_eq(x->details_type, SLICE(BTREE_DETAILS));
}

struct err
index_entry_name(const struct table *t, const struct arrow_field *key,
    struct arena *a, struct slice *name)
{
	const char *text;
	uint32_t i;

	for (i = 0; i < t->index_count; i++) {
		if (is_key_btree(key, &t->indices[i])) {
			*name = t->indices[i].name;
			return OK;
		}
	}
	text = arena_printf(a, "%.*s_idx", (int)key->name.len, key->name.ptr);
	for (i = 0; text != NULL && i < t->index_count; i++) {
		if (slice_eq(t->indices[i].name, slice_of(text))) {
			text = arena_printf(a, "memwald_%.*s_idx",
			    (int)key->name.len, key->name.ptr);
			break;
		}
	}
	if (text == NULL)
		return FAIL(NO_MEMORY, "name of an index");
	*name = slice_of(text);
	return OK;
}

bool
index_entry_is_segment(const struct table *t, const struct arrow_field *key,
    const struct table_index *x)
{
	uint32_t i;

	if (!is_key_btree(key, x) || x->index_version != 0)
		return false;
	/* Of the first name, which index_entry_name answers. */
	for (i = 0; !is_key_btree(key, &t->indices[i]); i++)
		;
	return slice_eq(x->name, t->indices[i].name);
}

struct err
index_entry_fragments(const struct table_index *x, struct deletion **set)
{
	return deletion_decode(x->fragment_bitmap, FRAGMENT_IDS, set);
}

static bool
is_dropped(const struct commit_edit *edit, const Pb__IndexMetadata *m)
{
	uint32_t i;

	for (i = 0; m->uuid != NULL && i < edit->dropped_count; i++) {
		if (proto_is(m->uuid->uuid, slice_make(edit->dropped[i].bytes,
		    sizeof(edit->dropped[i].bytes))))
			return true;
	}
	return false;
}

static Pb__IndexFile *
make_file(struct arena *a, struct slice name, uint64_t size_bytes)
{
	Pb__IndexFile *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	pb__index_file__init(m);
	m->has_path = m->has_size_bytes = 1;
	m->path = proto_bytes(name);
	m->size_bytes = size_bytes;
	return m;
}

static Pb__Uuid *
make_uuid(struct arena *a, const struct uuid *uuid)
{
	Pb__Uuid *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	pb__uuid__init(m);
	m->has_uuid = 1;
	m->uuid = proto_bytes(slice_make(uuid->bytes, sizeof(uuid->bytes)));
	return m;
}

static Pb__Any *
make_details(struct arena *a)
{
	Pb__Any *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	pb__any__init(m);
	m->has_type_url = 1;
	m->type_url = proto_bytes(SLICE(BTREE_DETAILS));
	return m;
}

/* Two of them, or NULL. */
static Pb__IndexFile **
make_files(struct arena *a, const struct commit_segment *s)
{
	Pb__IndexFile **files = arena_calloc(a, 2, sizeof(*files));

	if (files == NULL)
		return NULL;
	files[0] = make_file(a, SLICE("page_data.lance"), s->data_bytes);
	files[1] = make_file(a, SLICE("page_lookup.lance"), s->lookup_bytes);
	return files[0] == NULL || files[1] == NULL ? NULL : files;
}

static struct err
make_entry(struct arena *a, const struct commit_segment *s, uint64_t version,
    Pb__IndexMetadata **out)
{
	Pb__IndexMetadata *m = arena_alloc(a, sizeof(*m));
	int32_t *field = arena_alloc(a, sizeof(*field));

	if (m == NULL || field == NULL)
		return FAIL(NO_MEMORY, "index section");
	pb__index_metadata__init(m);
	*field = s->field;
	m->uuid = make_uuid(a, &s->uuid);
	m->fields = field;
	m->n_fields = 1;
	m->has_name = m->has_dataset_version = m->has_fragment_bitmap = 1;
	m->name = proto_bytes(s->name);
	m->dataset_version = version;
	m->fragment_bitmap = proto_bytes(s->fragments);
	m->details = make_details(a);
	m->has_index_version = m->has_created_ms = 1;
	m->created_ms = clock_wall_us() / 1000;
	m->files = make_files(a, s);
	m->n_files = 2;
	if (m->uuid == NULL || m->details == NULL || m->files == NULL)
		return FAIL(NO_MEMORY, "index section");
	*out = m;
	return OK;
}

struct err
index_entry_rewritten(struct arena *a, const struct commit_edit *edit,
    struct Pb__RewrittenIndex ***out, size_t *count)
{
	uint32_t n = edit->segment_count == 0 ? 0 : edit->dropped_count, i;
	Pb__RewrittenIndex **list = arena_calloc(a, n, sizeof(*list));
	Pb__RewrittenIndex *room = arena_calloc(a, n, sizeof(*room));

	if (list == NULL || room == NULL)
		return FAIL(NO_MEMORY, "transaction");
	for (i = 0; i < n; i++) {
		Pb__RewrittenIndex *m = list[i] = &room[i];

		pb__rewritten_index__init(m);
		m->old = make_uuid(a, &edit->dropped[i]);
		m->added = make_uuid(a, &edit->segments[0].uuid);
		m->details = make_details(a);
		m->files = make_files(a, &edit->segments[0]);
		m->n_files = 2;
		if (m->old == NULL || m->added == NULL || m->details == NULL ||
		    m->files == NULL)
			return FAIL(NO_MEMORY, "transaction");
	}
	*out = list;
	*count = n;
	return OK;
}

struct err
index_entry_change(struct arena *a, const struct commit_edit *edit,
    uint64_t version, struct slice *section)
{
	Pb__IndexSection fresh = PB__INDEX_SECTION__INIT, *m = &fresh;
	Pb__IndexMetadata **list;
	struct err e = OK;
	void *had;
	size_t i, n = 0;

	if (section->len > 0) {
		e = proto_unpack(a, &pb__index_section__descriptor, *section,
		    "index section", &had);
		if (err_is(e))
			return e;
		m = had;
	}
	list = arena_calloc(a, m->n_indices + edit->segment_count,
	    sizeof(*list));
	if (list == NULL)
		return FAIL(NO_MEMORY, "index section");
	for (i = 0; i < m->n_indices; i++) {
		if (!is_dropped(edit, m->indices[i]))
			list[n++] = m->indices[i];
	}
	for (i = 0; !err_is(e) && i < edit->segment_count; i++)
		e = make_entry(a, &edit->segments[i], version, &list[n++]);
	if (err_is(e))
		return e;
	m->indices = list;
	m->n_indices = n;
	return proto_pack(a, &m->base, section);
}
