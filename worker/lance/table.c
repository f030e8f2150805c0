#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/lance/manifest.h"

#define DIGITS		20		/* of a manifest's name */

/* Parsed, a manifest takes several times its size: a fragment of one column is
 * 40 bytes on the disk and 400 in memory. */
#define MEMORY_MAX	((size_t)TABLE_BYTES_MAX * 8)

#define WRITER_FLAGS (TABLE_FLAG_DELETIONS | TABLE_FLAG_V2 | TABLE_FLAG_CONFIG)

/* names */

void
table_manifest_name(uint64_t version, char *name)
{
	snprintf(name, TABLE_NAME_MAX, "_versions/%020llu.manifest",
	    (unsigned long long)(UINT64_MAX - version));
}

void
table_deletion_name(uint64_t fragment_id, const struct table_deletion *d,
    char *name)
{
	snprintf(name, TABLE_NAME_MAX, "_deletions/%llu-%llu-%llu.%s",
	    (unsigned long long)fragment_id, (unsigned long long)d->read_version,
	    (unsigned long long)d->id,
	    d->kind == TABLE_DELETION_ARROW ? "arrow" : "bin");
}

bool
table_manifest_parse(struct slice name, uint64_t *version)
{
	const struct slice suffix = SLICE(".manifest");
	uint64_t n = 0;
	size_t i;

	if (name.len != DIGITS + suffix.len ||
	    memcmp(name.ptr + DIGITS, suffix.ptr, suffix.len) != 0)
		return false;
	for (i = 0; i < DIGITS; i++) {
		unsigned digit = (unsigned char)name.ptr[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit, &n))
			return false;
	}
	*version = UINT64_MAX - n;
	return true;
}

static bool
take_newest(const struct object_info *info, void *ctx)
{
	uint64_t *newest = ctx, version;

	if (table_manifest_parse(info->name, &version) && version > *newest)
		*newest = version;
	return true;
}

struct err
table_newest(struct object_dir *dir, uint64_t *version)
{
	uint64_t newest = 0;
	struct err e;

	e = object_list_names(dir, "_versions", take_newest, &newest);
	if (err_is(e))
		return e;
	if (newest == 0)
		return FAIL(NOT_FOUND, "table has no version");
	*version = newest;
	return OK;
}

struct err
table_version_exists(struct object_dir *dir, uint64_t version)
{
	char name[TABLE_NAME_MAX];

	table_manifest_name(version, name);
	return object_exists(dir, name);
}

static struct table *
table_new(void)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t != NULL)
		arena_init(&t->arena, MEMORY_MAX);
	return t;
}

void
table_free(struct table *t)
{
	arena_free(&t->arena);
	free(t);
}

/* The error's text may lie in the arena that dies with the table. */
static struct err
give_up(struct table *t, struct arena *errors, struct err e)
{
	char *text = arena_copy(errors, slice_of(e.what));

	e.what = text != NULL ? text : "table refused";
	table_free(t);
	return e;
}

struct err
table_parse(struct slice file, struct arena *errors, struct table **out)
{
	struct table *t = table_new();
	const char *copy;
	struct err e;

	if (t == NULL)
		return FAIL(NO_MEMORY, "table");
	copy = arena_copy(&t->arena, file);
	if (copy == NULL)
		return give_up(t, errors, FAIL(NO_MEMORY, "table"));
	e = manifest_read(t, slice_make(copy, file.len));
	if (err_is(e))
		return give_up(t, errors, e);
	*out = t;
	return OK;
}

struct err
table_load_version(struct object_dir *dir, uint64_t version,
    struct arena *errors, struct table **out)
{
	struct table *t = table_new();
	char name[TABLE_NAME_MAX];
	struct slice file;
	struct err e;

	if (t == NULL)
		return FAIL(NO_MEMORY, "table");
	table_manifest_name(version, name);
	e = object_get(dir, name, TABLE_BYTES_MAX, &t->arena, &file);
	if (!err_is(e))
		e = manifest_read(t, file);
	if (!err_is(e) && t->version != version)
		e = FAIL(CORRUPT, "manifest of another version than its name");
	if (err_is(e))
		return give_up(t, errors, e);
	*out = t;
	return OK;
}

struct err
table_load(struct object_dir *dir, struct arena *errors, struct table **out)
{
	uint64_t version, again = 0;
	struct err e;

	/* Collected between the listing and the read: then a newer one is
	 * there. Twice in a row would take two folds in between. */
	do {
		e = table_newest(dir, &version);
		if (err_is(e) || version == again)
			return err_is(e) ? e :
			    FAIL(NOT_FOUND, "newest version of the table");
		again = version;
		e = table_load_version(dir, version, errors, out);
	} while (e.kind == ERR_NOT_FOUND);
	return e;
}

struct err
table_writable(const struct table *t)
{
	if (t->writer_flags & TABLE_FLAG_STABLE_ROW_IDS ||
	    t->reader_flags & TABLE_FLAG_STABLE_ROW_IDS)
		return FAIL(UNSUPPORTED,
		    "tables with stable row ids can only be read");
	if ((t->writer_flags & ~(uint64_t)WRITER_FLAGS) != 0)
		return FAIL(UNSUPPORTED,
		    "the table has writer feature flags that are not supported");
	return OK;
}

uint64_t
table_progress_of(const struct table *t, const struct uuid *shard)
{
	uint64_t generation = 0;
	uint32_t i;

	for (i = 0; i < t->progress_count; i++) {
		if (uuid_eq(&t->progress[i].shard, shard))
			generation = MAX(generation, t->progress[i].generation);
	}
	return generation;
}

struct slice
table_metadata_get(const struct table *t, struct slice key)
{
	uint32_t i;

	for (i = 0; i < t->metadata_count; i++) {
		if (slice_eq(t->metadata[i].key, key))
			return t->metadata[i].value;
	}
	return SLICE("");
}

const struct table_fragment *
table_fragment_find(const struct table *t, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < t->fragment_count; i++) {
		if (t->fragments[i].id == id)
			return &t->fragments[i];
	}
	return NULL;
}
