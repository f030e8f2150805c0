#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "worker/lance/field.h"
#include "worker/lance/manifest.h"
#include "worker/lance/proto.h"
#include "worker/lance/proto_bytes.h"
#include "worker/lance/table.pb-c.h"

#define FOOTER_BYTES	16u
#define MAGIC		"LANC"
#define MAJOR		0
#define MINOR		2
#define FORMAT		"2.0"
#define FILE_MAJOR	2
#define FILE_MINOR	0

#define READER_FLAGS (TABLE_FLAG_DELETIONS | TABLE_FLAG_STABLE_ROW_IDS | \
	TABLE_FLAG_V2 | TABLE_FLAG_CONFIG | TABLE_FLAG_NO_TXN_FILES)

/* the file */

static uint64_t
get_u64(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* [u32 length][message] at a position of the file, before its footer. */
static struct err
section_at(struct slice file, uint64_t at, struct slice *out)
{
	size_t end = file.len - FOOTER_BYTES;
	uint32_t len;

	if (at > end || end - at < sizeof(len))
		return FAIL(CORRUPT, "manifest section outside of its file");
	memcpy(&len, file.ptr + at, sizeof(len));
	at += sizeof(len);
	if (len > end - at)
		return FAIL(CORRUPT, "manifest section longer than its file");
	*out = slice_make(file.ptr + at, len);
	return OK;
}

static struct err
find_manifest(struct slice file, struct slice *out)
{
	const char *foot;
	uint16_t major, minor;

	if (file.len < FOOTER_BYTES)
		return FAIL(CORRUPT, "manifest file too short");
	foot = file.ptr + file.len - FOOTER_BYTES;
	memcpy(&major, foot + 8, 2);
	memcpy(&minor, foot + 10, 2);
	if (memcmp(foot + 12, MAGIC, 4) != 0)
		return FAIL(CORRUPT, "not a manifest file");
	if (major != MAJOR || minor != MINOR)
		return FAIL(UNSUPPORTED, "manifest file of another version");
	return section_at(file, get_u64(foot), out);
}

/* What we cannot read is refused before anything of it is believed. */
static struct err
check_readable(struct arena *a, const Pb__Manifest *m)
{
	uint64_t unknown = m->reader_flags & ~(uint64_t)READER_FLAGS;

	if (m->data_format == NULL)
		return FAIL(UNSUPPORTED, "table of the legacy data format; only "
		    FORMAT " is supported");
	if (!proto_is(m->data_format->version, SLICE(FORMAT)))
		return FAIL(UNSUPPORTED, arena_printf(a, "data format %.*s; only "
		    FORMAT " is supported",
		    (int)MIN(m->data_format->version.len, 32),
		    (const char *)m->data_format->version.data));
	if (unknown != 0)
		return FAIL(UNSUPPORTED, arena_printf(a,
		    "reader feature flags 0x%llx are not supported",
		    (unsigned long long)unknown));
	if (m->n_base_paths > 0)
		return FAIL(UNSUPPORTED, "tables with base paths");
	if (m->has_branch)
		return FAIL(UNSUPPORTED, "branches of tables");
	return OK;
}

/* fragments */

static struct err
read_file(struct arena *a, const Pb__DataFile *m, struct table_file *f)
{
	if (m->major != FILE_MAJOR || m->minor != FILE_MINOR)
		return FAIL(UNSUPPORTED, arena_printf(a,
		    "data file version %u.%u; only " FORMAT " is supported",
		    m->major, m->minor));
	if (m->has_base_id)
		return FAIL(UNSUPPORTED, "data files with base paths");
	if (m->n_fields != m->n_column_indices)
		return FAIL(CORRUPT, "data file whose fields and columns differ");
	if (m->path.len == 0 || memchr(m->path.data, 0, m->path.len) != NULL)
		return FAIL(CORRUPT, "data file without a path");
	f->path = proto_slice(m->path);
	f->field_count = (uint32_t)m->n_fields;
	f->fields = m->fields;
	f->columns = m->column_indices;
	f->size_bytes = m->size_bytes;
	return OK;
}

static struct err
read_deletion(const Pb__DeletionFile *m, struct table_deletion *d)
{
	if (m->has_base_id)
		return FAIL(UNSUPPORTED, "deletion files with base paths");
	if (m->type != 0 && m->type != 1)
		return FAIL(UNSUPPORTED, "deletion file of an unknown type");
	d->kind = m->type == 0 ? TABLE_DELETION_ARROW : TABLE_DELETION_BITMAP;
	d->read_version = m->read_version;
	d->id = m->id;
	d->row_count = m->row_count;
	return OK;
}

static struct err
read_fragment(struct arena *a, const Pb__DataFragment *m,
    struct table_fragment *f)
{
	struct table_file *files;
	struct err e = OK;
	size_t i;

	if (m->n_overlays > 0)
		return FAIL(UNSUPPORTED, "fragments with overlays");
	files = arena_calloc(a, m->n_files, sizeof(*files));
	if (files == NULL)
		return FAIL(NO_MEMORY, "fragments");
	for (i = 0; i < m->n_files && !err_is(e); i++)
		e = read_file(a, m->files[i], &files[i]);
	if (!err_is(e) && m->deletion_file != NULL)
		e = read_deletion(m->deletion_file, &f->deletion);
	if (err_is(e))
		return e;
	/* Row addresses have 32 bits for each of the two. */
	if (m->id > UINT32_MAX || m->physical_rows > UINT32_MAX ||
	    f->deletion.row_count > m->physical_rows)
		return FAIL(CORRUPT, "fragment out of range");
	f->id = m->id;
	f->row_count = m->physical_rows;
	f->file_count = (uint32_t)m->n_files;
	f->files = files;
	return OK;
}

static int
compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* In order of what was used; a fragment twice would be rows twice. */
static struct err
check_fragment_ids(struct table *t)
{
	uint64_t *ids = malloc((t->fragment_count + 1) * sizeof(*ids));
	struct err e = OK;
	uint32_t i;

	if (ids == NULL)
		return FAIL(NO_MEMORY, "fragments");
	for (i = 0; i < t->fragment_count; i++)
		ids[i] = t->fragments[i].id;
	qsort(ids, t->fragment_count, sizeof(*ids), compare_ids);
	for (i = 1; i < t->fragment_count; i++) {
		if (ids[i - 1] == ids[i])
			e = FAIL(CORRUPT, "two fragments of one id");
	}
	if (t->fragment_count > 0)
		t->next_fragment_id = MAX(t->next_fragment_id, ids[i - 1] + 1);
	free(ids);
	return e;
}

static struct err
read_fragments(struct table *t)
{
	const Pb__Manifest *m = t->manifest;
	struct table_fragment *f;
	struct err e = OK;
	size_t i;

	f = arena_calloc(&t->arena, m->n_fragments, sizeof(*f));
	if (f == NULL)
		return FAIL(NO_MEMORY, "fragments");
	for (i = 0; i < m->n_fragments && !err_is(e); i++)
		e = read_fragment(&t->arena, m->fragments[i], &f[i]);
	if (err_is(e))
		return e;
	t->fragments = f;
	t->fragment_count = (uint32_t)m->n_fragments;
	if (m->has_max_fragment_id)
		t->next_fragment_id = (uint64_t)m->max_fragment_id + 1;
	return check_fragment_ids(t);
}

/* indices */

static bool
read_uuid(const Pb__Uuid *m, struct uuid *u)
{
	if (m == NULL || m->uuid.len != sizeof(u->bytes))
		return false;
	memcpy(u->bytes, m->uuid.data, sizeof(u->bytes));
	return true;
}

static struct err
read_progress(struct table *t, struct slice details)
{
	Pb__MemWalIndexDetails *m;
	struct table_progress *p;
	struct err e;
	void *out;
	size_t i;

	e = proto_unpack(&t->arena, &pb__mem_wal_index_details__descriptor,
	    details, "MemWAL index details", &out);
	if (err_is(e))
		return e;
	m = out;
	p = arena_calloc(&t->arena, m->n_merged, sizeof(*p));
	if (p == NULL)
		return FAIL(NO_MEMORY, "MemWAL index details");
	for (i = 0; i < m->n_merged; i++) {
		if (!read_uuid(m->merged[i]->shard, &p[i].shard))
			return FAIL(CORRUPT, "merged generation of no shard");
		p[i].generation = m->merged[i]->generation;
	}
	t->has_mem_wal = true;
	t->progress = p;
	t->progress_count = (uint32_t)m->n_merged;
	return OK;
}

static struct err
read_index(struct table *t, const Pb__IndexMetadata *m, struct table_index *x)
{
	if (!read_uuid(m->uuid, &x->uuid))
		return FAIL(CORRUPT, "index without a uuid");
	x->name = proto_slice(m->name);
	x->dataset_version = m->dataset_version;
	x->index_version = m->index_version;
	x->field_count = (uint32_t)m->n_fields;
	x->fields = m->fields;
	x->fragment_bitmap = proto_slice(m->fragment_bitmap);
	if (m->details != NULL) {
		x->details_type = proto_slice(m->details->type_url);
		x->details = proto_slice(m->details->value);
	}
	if (slice_eq(x->name, SLICE(MEM_WAL_NAME)) && !t->has_mem_wal)
		return read_progress(t, x->details);
	return OK;
}

static struct err
read_indices(struct table *t, struct slice file)
{
	Pb__IndexSection *m;
	struct table_index *x;
	struct err e;
	void *out;
	size_t i;

	if (!t->manifest->has_index_section)
		return OK;
	e = section_at(file, t->manifest->index_section, &t->index_section);
	if (err_is(e))
		return e;
	e = proto_unpack(&t->arena, &pb__index_section__descriptor,
	    t->index_section, "index section", &out);
	if (err_is(e))
		return e;
	m = out;
	x = arena_calloc(&t->arena, m->n_indices, sizeof(*x));
	if (x == NULL)
		return FAIL(NO_MEMORY, "index section");
	for (i = 0; i < m->n_indices && !err_is(e); i++)
		e = read_index(t, m->indices[i], &x[i]);
	t->indices = x;
	t->index_count = (uint32_t)m->n_indices;
	return e;
}

/* the rest */

static struct err
read_schema(struct table *t)
{
	const Pb__Manifest *m = t->manifest;
	struct err e;
	size_t i;

	e = field_list_read(&t->arena, m->fields, m->n_fields, &t->schema);
	if (err_is(e))
		return e;
	t->schema.pair_count = (uint32_t)m->n_schema_metadata;
	e = field_pairs_read(&t->arena, m->schema_metadata, m->n_schema_metadata,
	    &t->schema.pairs);
	t->key_column = -1;
	for (i = 0; i < m->n_fields; i++) {
		if (m->fields[i]->primary_key)
			t->key_column = arrow_schema_find(&t->schema,
			    proto_slice(m->fields[i]->name));
	}
	return e;
}

/* "4-UUID.txn": the commit that made this version. */
static struct slice
transaction_uuid(const Pb__Manifest *m)
{
	struct slice s = proto_slice(m->transaction_file);
	const char *dash = s.len == 0 ? NULL : memchr(s.ptr, '-', s.len);

	if (dash == NULL || s.len - (size_t)(dash + 1 - s.ptr) < UUID_TEXT_LEN)
		return SLICE("");
	return slice_make(dash + 1, UUID_TEXT_LEN);
}

static struct err
fill_in(struct table *t, struct slice file)
{
	const Pb__Manifest *m = t->manifest;
	struct err e;

	t->version = m->version;
	t->reader_flags = m->reader_flags;
	t->writer_flags = m->writer_flags;
	t->transaction_uuid = transaction_uuid(m);
	if (m->timestamp != NULL && m->timestamp->seconds > 0 &&
	    m->timestamp->nanos >= 0)
		t->written_us = (uint64_t)m->timestamp->seconds * US_PER_SEC +
		    (uint64_t)m->timestamp->nanos / NS_PER_US;
	e = read_schema(t);
	if (!err_is(e))
		e = read_fragments(t);
	if (!err_is(e))
		e = read_indices(t, file);
	t->config_count = (uint32_t)m->n_config;
	if (!err_is(e))
		e = field_pairs_read(&t->arena, m->config, m->n_config,
		    &t->config);
	t->metadata_count = (uint32_t)m->n_table_metadata;
	if (!err_is(e))
		e = field_pairs_read(&t->arena, m->table_metadata,
		    m->n_table_metadata, &t->metadata);
	return e;
}

struct err
manifest_read(struct table *t, struct slice file)
{
	struct slice message;
	struct err e;
	void *out;

	e = find_manifest(file, &message);
	if (!err_is(e))
		e = proto_unpack(&t->arena, &pb__manifest__descriptor, message,
		    "table manifest", &out);
	if (err_is(e))
		return e;
	t->manifest = out;
	e = check_readable(&t->arena, t->manifest);
	if (!err_is(e))
		e = fill_in(t, file);
	return e;
}
