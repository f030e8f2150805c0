#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "worker/lance/field.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/mem_wal.h"
#include "worker/lance/next.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"
#include "worker/lance/table.pb-c.h"

#define LIBRARY		"memwald"
#define LIBRARY_VERSION	"0.0.1"

static const struct slice file_magic = { "LANC", 4 };

/* fragments */

static Pb__DeletionFile *
make_deletion(struct arena *a, const struct table_deletion *d)
{
	Pb__DeletionFile *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	pb__deletion_file__init(m);
	m->type = d->kind == TABLE_DELETION_BITMAP;
	m->has_type = m->type != 0;
	m->read_version = d->read_version;
	m->has_read_version = d->read_version != 0;
	m->id = d->id;
	m->has_id = d->id != 0;
	m->row_count = d->row_count;
	m->has_row_count = d->row_count != 0;
	return m;
}

static Pb__DataFile *
make_file(struct arena *a, const struct table_file *f)
{
	Pb__DataFile *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	pb__data_file__init(m);
	m->has_path = 1;
	m->path = proto_bytes(f->path);
	m->n_fields = m->n_column_indices = f->field_count;
	m->fields = (int32_t *)(uintptr_t)f->fields;
	m->column_indices = (int32_t *)(uintptr_t)f->columns;
	m->has_major = 1;
	m->major = 2;
	m->has_size_bytes = f->size_bytes != 0;
	m->size_bytes = f->size_bytes;
	return m;
}

/* Without its id, as a transaction has it. */
static Pb__DataFragment *
make_fragment(struct arena *a, const struct table_fragment *f)
{
	Pb__DataFragment *m = arena_alloc(a, sizeof(*m));
	uint32_t i;

	if (m == NULL)
		return NULL;
	pb__data_fragment__init(m);
	m->files = arena_calloc(a, f->file_count, sizeof(*m->files));
	if (m->files == NULL)
		return NULL;
	m->n_files = f->file_count;
	for (i = 0; i < f->file_count; i++) {
		m->files[i] = make_file(a, &f->files[i]);
		if (m->files[i] == NULL)
			return NULL;
	}
	if (f->deletion.kind != TABLE_DELETION_NONE) {
		m->deletion_file = make_deletion(a, &f->deletion);
		if (m->deletion_file == NULL)
			return NULL;
	}
	m->has_physical_rows = f->row_count != 0;
	m->physical_rows = f->row_count;
	return m;
}

/* The same with an id. */
static Pb__DataFragment *
with_id(struct arena *a, const Pb__DataFragment *from, uint64_t id)
{
	Pb__DataFragment *m = arena_alloc(a, sizeof(*m));

	if (m == NULL)
		return NULL;
	*m = *from;
	m->id = id;
	m->has_id = id != 0;
	return m;
}

/* the file */

/* [u32 length][message] behind what is there. */
static void
put_section(char *file, size_t *at, struct slice message)
{
	uint32_t len = (uint32_t)message.len;

	memcpy(file + *at, &len, sizeof(len));
	memcpy(file + *at + sizeof(len), message.ptr, len);
	*at += sizeof(len) + len;
}

/* Transaction first, then the indices, then the manifest, which is told where
 * the two are. */
static struct err
make_file_bytes(struct arena *a, Pb__Manifest *m, struct slice transaction,
    struct slice indices, struct slice *out)
{
	const uint16_t version[2] = { 0, 2 };
	struct slice manifest;
	uint64_t position;
	size_t at = 0;
	struct err e;
	char *file;

	if (transaction.len > 0) {
		m->has_transaction_section = 1;
		m->transaction_section = 0;
		at = 4 + transaction.len;
	}
	m->has_index_section = indices.len > 0;
	m->index_section = at;
	e = proto_pack(a, &m->base, &manifest);
	if (err_is(e))
		return e;
	if (transaction.len + indices.len + manifest.len + 64 > TABLE_BYTES_MAX)
		return FAIL(NO_MEMORY, "manifest too large");
	file = arena_alloc(a, transaction.len + indices.len + manifest.len + 64);
	if (file == NULL)
		return FAIL(NO_MEMORY, "manifest");
	at = 0;
	if (transaction.len > 0)
		put_section(file, &at, transaction);
	if (indices.len > 0)
		put_section(file, &at, indices);
	position = at;
	put_section(file, &at, manifest);
	memcpy(file + at, &position, 8);
	memcpy(file + at + 8, version, 4);
	memcpy(file + at + 12, file_magic.ptr, 4);
	*out = slice_make(file, at + 16);
	return OK;
}

/* What every version of ours says about itself. */
static struct err
stamp(struct arena *a, Pb__Manifest *m, uint64_t version)
{
	uint64_t now_us = clock_wall_us();

	m->timestamp = arena_alloc(a, sizeof(*m->timestamp));
	m->writer_version = arena_alloc(a, sizeof(*m->writer_version));
	if (m->timestamp == NULL || m->writer_version == NULL)
		return FAIL(NO_MEMORY, "manifest");
	pb__timestamp__init(m->timestamp);
	m->timestamp->has_seconds = m->timestamp->has_nanos = 1;
	m->timestamp->seconds = (int64_t)(now_us / US_PER_SEC);
	m->timestamp->nanos = (int32_t)(now_us % US_PER_SEC * NS_PER_US);
	pb__writer_version__init(m->writer_version);
	m->writer_version->has_library = m->writer_version->has_version = 1;
	m->writer_version->library = proto_bytes(SLICE(LIBRARY));
	m->writer_version->version = proto_bytes(SLICE(LIBRARY_VERSION));
	m->has_version = 1;
	m->version = version;
	m->has_version_aux = m->has_tag = 0;
	m->has_transaction_section = m->has_transaction_file = 0;
	return OK;
}

/* The transaction's bytes and name, and its name in the manifest. */
static struct err
add_transaction(struct arena *a, Pb__Manifest *m, Pb__Transaction *t,
    uint64_t read_version, const struct uuid *uuid, struct next *n)
{
	char text[UUID_TEXT_LEN + 1];
	struct err e;

	uuid_to_text(uuid, text);
	t->has_read_version = read_version != 0;
	t->read_version = read_version;
	t->has_uuid = 1;
	t->uuid = proto_bytes(slice_make(arena_copy(a, slice_of(text)),
	    UUID_TEXT_LEN));
	if (t->uuid.data == NULL)
		return FAIL(NO_MEMORY, "transaction");
	snprintf(n->transaction_name, sizeof(n->transaction_name),
	    "_transactions/%llu-%s.txn", (unsigned long long)read_version, text);
	m->has_transaction_file = 1;
	m->transaction_file = proto_bytes(slice_of(n->transaction_name +
	    sizeof("_transactions/") - 1));
	e = proto_pack(a, &t->base, &n->transaction);
	return e;
}

/* metadata */

static struct err
set_metadata(struct arena *a, Pb__Manifest *m, const struct commit_edit *edit)
{
	size_t count = m->n_table_metadata, k;
	Pb__Pair **list, **fresh;
	struct err e;
	uint32_t i;

	if (edit->metadata_count == 0)
		return OK;
	e = field_pairs_make(a, edit->metadata, edit->metadata_count, &fresh);
	if (err_is(e))
		return e;
	list = arena_calloc(a, count + edit->metadata_count, sizeof(*list));
	if (list == NULL)
		return FAIL(NO_MEMORY, "metadata");
	if (count > 0)
		memcpy(list, m->table_metadata, count * sizeof(*list));
	for (i = 0; i < edit->metadata_count; i++) {
		for (k = 0; k < count && !proto_is(list[k]->key,
		    edit->metadata[i].key); k++)
			;
		list[k] = fresh[i];
		count = MAX(count, k + 1);
	}
	m->table_metadata = list;
	m->n_table_metadata = count;
	return OK;
}

/* an edit */

struct change {				/* of the list of fragments */
	Pb__DataFragment **all;		/* of the next version */
	size_t all_count;
	Pb__DataFragment **updated;
	size_t updated_count;
	Pb__DataFragment **added;	/* without ids */
	Pb__DataFragment **removed;
	size_t removed_count;
};

static const struct commit_deletion *
find_deletion(const struct commit_edit *edit, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < edit->deletion_count; i++) {
		if (edit->deletions[i].fragment_id == id)
			return &edit->deletions[i];
	}
	return NULL;
}

bool
commit_edit_removes(const struct commit_edit *edit, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < edit->removed_count; i++) {
		if (edit->removed[i] == id)
			return true;
	}
	return false;
}

static struct err
change_old(struct arena *a, const Pb__Manifest *m,
    const struct commit_edit *edit, struct change *c)
{
	const struct commit_deletion *d;
	Pb__DataFragment *f;
	size_t i;

	for (i = 0; i < m->n_fragments; i++) {
		f = m->fragments[i];
		if (commit_edit_removes(edit, f->id)) {
			c->removed[c->removed_count++] = f;
			continue;
		}
		d = find_deletion(edit, f->id);
		if (d != NULL) {
			f = with_id(a, f, f->id);
			if (f == NULL)
				return FAIL(NO_MEMORY, "fragments");
			f->deletion_file = make_deletion(a, &d->deletion);
			if (f->deletion_file == NULL)
				return FAIL(NO_MEMORY, "fragments");
			c->updated[c->updated_count++] = f;
		}
		c->all[c->all_count++] = f;
	}
	if (c->removed_count != edit->removed_count ||
	    c->updated_count != edit->deletion_count)
		return FAIL(BAD_INPUT, "the edit names fragments that are gone");
	return OK;
}

static struct err
change_fragments(struct arena *a, const struct table *t,
    const struct commit_edit *edit, struct change *c)
{
	const Pb__Manifest *m = t->manifest;
	struct err e;
	uint32_t i;

	if (t->next_fragment_id + edit->added_count > UINT32_MAX)
		return FAIL(UNSUPPORTED, "no fragment ids left");
	c->all = arena_calloc(a, m->n_fragments + edit->added_count,
	    sizeof(*c->all));
	c->updated = arena_calloc(a, edit->deletion_count, sizeof(*c->updated));
	c->added = arena_calloc(a, edit->added_count, sizeof(*c->added));
	c->removed = arena_calloc(a, m->n_fragments, sizeof(*c->removed));
	if (c->all == NULL || c->updated == NULL || c->added == NULL ||
	    c->removed == NULL)
		return FAIL(NO_MEMORY, "fragments");
	e = change_old(a, m, edit, c);
	if (err_is(e))
		return e;
	for (i = 0; i < edit->added_count; i++) {
		c->added[i] = make_fragment(a, &edit->added[i]);
		if (c->added[i] == NULL)
			return FAIL(NO_MEMORY, "fragments");
		c->all[c->all_count] = with_id(a, c->added[i],
		    t->next_fragment_id + i);
		if (c->all[c->all_count++] == NULL)
			return FAIL(NO_MEMORY, "fragments");
	}
	return OK;
}

/* One group. Other than elsewhere the new fragments have their ids. */
static struct err
fill_rewrite(struct arena *a, Pb__Transaction *txn,
    const struct commit_edit *edit, const struct change *c)
{
	Pb__Rewrite *rewrite = arena_alloc(a, sizeof(*rewrite));
	Pb__RewriteGroup *group = arena_alloc(a, sizeof(*group));
	Pb__RewriteGroup **groups = arena_calloc(a, 1, sizeof(*groups));

	if (rewrite == NULL || group == NULL || groups == NULL)
		return FAIL(NO_MEMORY, "transaction");
	MUST(edit->deletion_count == 0 && edit->progress_count == 0);
	pb__rewrite_group__init(group);
	group->old = c->removed;
	group->n_old = c->removed_count;
	group->added = c->all + c->all_count - edit->added_count;
	group->n_added = edit->added_count;
	groups[0] = group;
	pb__rewrite__init(rewrite);
	rewrite->groups = groups;
	rewrite->n_groups = 1;
	txn->rewrite = rewrite;
	return index_entry_rewritten(a, edit, &rewrite->indices,
	    &rewrite->n_indices);
}

static struct err
fill_operation(struct arena *a, Pb__Transaction *txn,
    const struct commit_edit *edit, const struct change *c)
{
	Pb__Append *append = arena_alloc(a, sizeof(*append));
	Pb__Update *update = arena_alloc(a, sizeof(*update));

	if (append == NULL || update == NULL)
		return FAIL(NO_MEMORY, "transaction");
	if (edit->operation == COMMIT_REWRITE)
		return fill_rewrite(a, txn, edit, c);
	if (edit->operation == COMMIT_APPEND) {
		MUST(edit->removed_count == 0 && edit->deletion_count == 0 &&
		    edit->progress_count == 0);
		pb__append__init(append);
		append->fragments = c->added;
		append->n_fragments = edit->added_count;
		txn->append = append;
		return OK;
	}
	pb__update__init(update);
	update->removed = (uint64_t *)(uintptr_t)edit->removed;
	update->n_removed = edit->removed_count;
	update->updated = c->updated;
	update->n_updated = c->updated_count;
	update->added = c->added;
	update->n_added = edit->added_count;
	update->n_merged = edit->progress_count;
	txn->update = update;
	return mem_wal_merged(a, edit->progress, edit->progress_count,
	    &update->merged);
}

static void
set_flags(Pb__Manifest *m)
{
	uint64_t bit = 0;
	size_t i;

	for (i = 0; i < m->n_fragments; i++) {
		if (m->fragments[i]->deletion_file != NULL)
			bit = TABLE_FLAG_DELETIONS;
	}
	m->reader_flags = (m->reader_flags & ~1ull) | bit;
	m->writer_flags = (m->writer_flags & ~1ull) | bit;
	m->has_reader_flags = m->reader_flags != 0;
	m->has_writer_flags = m->writer_flags != 0;
}

struct err
next_make(struct arena *a, const struct table *t, const struct commit_edit *edit,
    const struct uuid *uuid, struct next *n)
{
	Pb__Manifest m = *t->manifest;
	Pb__Transaction txn = PB__TRANSACTION__INIT;
	struct slice indices = t->index_section;
	struct change c = { 0 };
	struct err e;

	n->version = t->version + 1;
	e = change_fragments(a, t, edit, &c);
	if (err_is(e))
		return e;
	m.fragments = c.all;
	m.n_fragments = c.all_count;
	if (t->next_fragment_id + edit->added_count > 0) {
		m.has_max_fragment_id = 1;
		m.max_fragment_id = (uint32_t)(t->next_fragment_id +
		    edit->added_count - 1);
	}
	set_flags(&m);
	if (edit->operation == COMMIT_CREATE_MEM_WAL)
		e = mem_wal_add(a, t, &txn, &indices);
	else
		e = fill_operation(a, &txn, edit, &c);
	if (!err_is(e) && edit->progress_count > 0)
		e = mem_wal_change(a, t, edit, &indices);
	if (!err_is(e) && edit->segment_count + edit->dropped_count > 0)
		e = index_entry_change(a, edit, n->version, &indices);
	if (!err_is(e))
		e = set_metadata(a, &m, edit);
	if (!err_is(e))
		e = stamp(a, &m, n->version);
	if (!err_is(e))
		e = add_transaction(a, &m, &txn, t->version, uuid, n);
	if (err_is(e))
		return e;
	return make_file_bytes(a, &m, n->transaction, indices, &n->manifest);
}

/* first versions */

static struct err
fill_first(struct arena *a, Pb__Manifest *m, const struct arrow_schema *schema,
    const struct arrow_pair *metadata, uint32_t count)
{
	struct err e;

	e = stamp(a, m, 1);
	if (err_is(e))
		return e;
	m->data_format = arena_alloc(a, sizeof(*m->data_format));
	if (m->data_format == NULL)
		return FAIL(NO_MEMORY, "manifest");
	pb__data_format__init(m->data_format);
	m->data_format->has_file_format = m->data_format->has_version = 1;
	m->data_format->file_format = proto_bytes(SLICE("lance"));
	m->data_format->version = proto_bytes(SLICE("2.0"));
	e = field_list_make(a, schema, &m->fields, &m->n_fields);
	m->n_schema_metadata = schema->pair_count;
	if (!err_is(e))
		e = field_pairs_make(a, schema->pairs, schema->pair_count,
		    &m->schema_metadata);
	m->n_table_metadata = count;
	if (!err_is(e))
		e = field_pairs_make(a, metadata, count, &m->table_metadata);
	return e;
}

/* The schema with ids, and the key column marked as the engine wants it. */
static struct err
mark_key(struct arena *a, const struct commit_create *create,
    struct arrow_schema *out)
{
	struct arrow_field *fields;
	struct arrow_pair *pairs;
	struct err e;
	int key;

	e = field_assign_ids(a, create->schema, 0, out);
	if (err_is(e))
		return e;
	key = arrow_schema_find(out, create->key);
	MUST(key >= 0 && !out->fields[key].nullable);
	fields = arena_calloc(a, out->field_count, sizeof(*fields));
	pairs = arena_calloc(a, out->fields[key].pair_count + 1, sizeof(*pairs));
	if (fields == NULL || pairs == NULL)
		return FAIL(NO_MEMORY, "schema");
	memcpy(fields, out->fields, out->field_count * sizeof(*fields));
	if (fields[key].pair_count > 0)
		memcpy(pairs, fields[key].pairs,
		    fields[key].pair_count * sizeof(*pairs));
	pairs[fields[key].pair_count++] = (struct arrow_pair){
		SLICE(FIELD_KEY_POSITION), SLICE("1")
	};
	fields[key].pairs = pairs;
	out->fields = fields;
	return OK;
}

struct err
next_make_first(struct arena *a, const struct commit_create *create,
    const struct uuid *uuid, struct next *n)
{
	Pb__Manifest m = PB__MANIFEST__INIT;
	Pb__Transaction txn = PB__TRANSACTION__INIT;
	Pb__Overwrite op = PB__OVERWRITE__INIT;
	struct arrow_schema schema;
	struct err e;

	n->version = 1;
	e = mark_key(a, create, &schema);
	if (!err_is(e))
		e = fill_first(a, &m, &schema, create->metadata,
		    create->metadata_count);
	if (err_is(e))
		return e;
	op.fields = m.fields;
	op.n_fields = m.n_fields;
	op.schema_metadata = m.schema_metadata;
	op.n_schema_metadata = m.n_schema_metadata;
	txn.overwrite = &op;
	e = add_transaction(a, &m, &txn, 0, uuid, n);
	if (err_is(e))
		return e;
	return make_file_bytes(a, &m, n->transaction, SLICE(""), &n->manifest);
}

struct err
next_make_generation(struct arena *a, const struct arrow_schema *schema,
    const struct table_fragment *fragment, const struct arrow_pair *metadata,
    uint32_t count, struct next *n)
{
	Pb__Manifest m = PB__MANIFEST__INIT;
	Pb__DataFragment *f;
	struct err e;

	n->version = 1;
	n->transaction_name[0] = '\0';
	e = fill_first(a, &m, schema, metadata, count);
	if (err_is(e))
		return e;
	f = make_fragment(a, fragment);
	if (f == NULL)
		return FAIL(NO_MEMORY, "fragments");
	m.fragments = &f;
	m.n_fragments = 1;
	m.has_max_fragment_id = 1;
	return make_file_bytes(a, &m, SLICE(""), SLICE(""), &n->manifest);
}
