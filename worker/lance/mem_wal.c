#include "common/base.h"

#include "common/clock.h"
#include "worker/lance/manifest.h"
#include "worker/lance/mem_wal.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"
#include "worker/lance/table.pb-c.h"

#define MEM_WAL_DETAILS	"/lance.table.MemWalIndexDetails"

/* No fragment, as a portable roaring set. LanceDB's own entry lacks it, and
 * optimize panics on it. */
static const struct slice empty_set = { "\x3a\x30\0\0\0\0\0\0", 8 };

static Pb__Uuid *
make_uuid(struct arena *a, const struct uuid *u)
{
	Pb__Uuid *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	pb__uuid__init(m);
	m->has_uuid = 1;
	m->uuid = proto_bytes(slice_make(u->bytes, sizeof(u->bytes)));
	return m;
}

/* An unsharded MemWAL, as LanceDB writes it, and the bitmap that it forgot. */
static Pb__IndexMetadata *
make_mem_wal(struct arena *a, uint64_t dataset_version)
{
	static const char details[] = "\x10\x01\x3a\x1e\x08\x01\x12\x1a"
	    "\x0a\x06" "bucket" "\x1a\x09" "unsharded" "\x2a\x05" "int32";
	Pb__IndexMetadata *m = arena_alloc(a, sizeof(*m));
	struct uuid *uuid = arena_alloc(a, sizeof(*uuid));

	if (m == NULL || uuid == NULL)
		return NULL;
	*uuid = uuid_random();
	pb__index_metadata__init(m);
	m->uuid = make_uuid(a, uuid);
	m->details = arena_alloc(a, sizeof(*m->details));
	if (m->uuid == NULL || m->details == NULL)
		return NULL;
	m->has_name = m->has_dataset_version = m->has_fragment_bitmap = 1;
	m->name = proto_bytes(SLICE(MEM_WAL_NAME));
	m->dataset_version = dataset_version;
	m->fragment_bitmap = proto_bytes(empty_set);
	pb__any__init(m->details);
	m->details->has_type_url = m->details->has_value = 1;
	m->details->type_url = proto_bytes(SLICE(MEM_WAL_DETAILS));
	m->details->value = proto_bytes(SLICE(details));
	m->has_index_version = m->has_created_ms = 1;
	m->created_ms = clock_wall_us() / 1000;
	return m;
}

static struct err
read_indices(struct arena *a, struct slice raw, Pb__IndexSection **out)
{
	void *m;
	struct err e;

	e = proto_unpack(a, &pb__index_section__descriptor, raw, "index section",
	    &m);
	if (!err_is(e))
		*out = m;
	return e;
}

struct err
mem_wal_merged(struct arena *a, const struct table_progress *p, uint32_t count,
    struct Pb__MergedGeneration ***out)
{
	Pb__MergedGeneration **list = arena_calloc(a, count, sizeof(*list));
	Pb__MergedGeneration *room = arena_calloc(a, count, sizeof(*room));
	uint32_t i;

	if (list == NULL || room == NULL)
		return FAIL(NO_MEMORY, "merged generations");
	for (i = 0; i < count; i++) {
		pb__merged_generation__init(&room[i]);
		room[i].shard = make_uuid(a, &p[i].shard);
		if (room[i].shard == NULL)
			return FAIL(NO_MEMORY, "merged generations");
		room[i].has_generation = 1;
		room[i].generation = p[i].generation;
		list[i] = &room[i];
	}
	*out = list;
	return OK;
}

/* Progress never falls: a lower one than what is there is a bug upstairs. */
static struct err
merge_progress(struct arena *a, const struct table *t,
    const struct commit_edit *edit, Pb__MemWalIndexDetails *details)
{
	struct table_progress *all;
	uint32_t n = 0, i, k;

	all = arena_calloc(a, t->progress_count + edit->progress_count,
	    sizeof(*all));
	if (all == NULL)
		return FAIL(NO_MEMORY, "merged generations");
	for (i = 0; i < t->progress_count; i++)
		all[n++] = t->progress[i];
	for (i = 0; i < edit->progress_count; i++) {
		const struct table_progress *p = &edit->progress[i];

		for (k = 0; k < n && !uuid_eq(&all[k].shard, &p->shard); k++)
			;
		MUST(k == n || all[k].generation <= p->generation);
		all[k] = *p;
		n = MAX(n, k + 1);
	}
	details->n_merged = n;
	return mem_wal_merged(a, all, n, &details->merged);
}

struct err
mem_wal_change(struct arena *a, const struct table *t,
    const struct commit_edit *edit, struct slice *section)
{
	Pb__IndexSection *m = NULL;
	Pb__IndexMetadata *x = NULL;
	struct slice value;
	struct err e;
	void *details;
	size_t i;

	if (!t->has_mem_wal)
		return FAIL(UNSUPPORTED, "the table has no MemWAL entry");
	e = read_indices(a, t->index_section, &m);
	if (err_is(e))
		return e;
	for (i = 0; i < m->n_indices && x == NULL; i++) {
		if (proto_is(m->indices[i]->name, SLICE(MEM_WAL_NAME)))
			x = m->indices[i];
	}
	MUST(x != NULL);
	if (x->details == NULL)
		return FAIL(CORRUPT, "MemWAL entry without details");
	e = proto_unpack(a, &pb__mem_wal_index_details__descriptor,
	    proto_slice(x->details->value),
	    "MemWAL index details", &details);
	if (!err_is(e))
		e = merge_progress(a, t, edit, details);
	if (!err_is(e))
		e = proto_pack(a, details, &value);
	if (err_is(e))
		return e;
	x->details->has_value = 1;
	x->details->value = proto_bytes(value);
	if (!x->has_fragment_bitmap) {
		x->has_fragment_bitmap = 1;
		x->fragment_bitmap = proto_bytes(empty_set);
	}
	return proto_pack(a, &m->base, section);
}

struct err
mem_wal_add(struct arena *a, const struct table *t, struct Pb__Transaction *txn,
    struct slice *section)
{
	Pb__IndexSection fresh = PB__INDEX_SECTION__INIT, *m = &fresh;
	Pb__IndexMetadata *entry, **list;
	Pb__CreateIndex *op = arena_alloc(a, sizeof(*op));
	struct err e = OK;

	if (t->index_section.len > 0)
		e = read_indices(a, t->index_section, &m);
	if (err_is(e))
		return e;
	entry = make_mem_wal(a, t->version);
	list = arena_calloc(a, m->n_indices + 1, sizeof(*list));
	if (op == NULL || entry == NULL || list == NULL)
		return FAIL(NO_MEMORY, "index section");
	if (m->n_indices > 0)
		memcpy(list, m->indices, m->n_indices * sizeof(*list));
	list[m->n_indices++] = entry;
	m->indices = list;
	pb__create_index__init(op);
	op->n_added = 1;
	op->added = list + m->n_indices - 1;
	txn->create_index = op;
	return proto_pack(a, &m->base, section);
}
