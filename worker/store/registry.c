#include "common/base.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "common/json.h"
#include "worker/object/local.h"
#include "worker/object/retry.h"
#include "worker/store/registry.h"

#define ENTRY_BYTES_MAX	4096u
#define SUFFIX		".json"
#define LOCKS		64u
#define LOCK_SPAN_NS	(10 * NS_PER_SEC)

static void
entry_path(const struct kind *kind, const char *name, char *path)
{
	snprintf(path, OBJECT_NAME_MAX, "_registry/%s/%s" SUFFIX, kind->name,
	    name);
}

void
registry_directory(const struct kind *kind, const char *name, char *directory)
{
	snprintf(directory, REGISTRY_DIRECTORY_MAX, "%s%s", name, kind->suffix);
}

struct err
registry_name_check(struct slice name)
{
	size_t i;

	if (name.len < 1 || name.len > SHM_STORE_NAME_MAX)
		return FAIL(BAD_INPUT, "store name must be 1 to 128 bytes");
	for (i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.ptr[i];

		if (c < 0x80 && (isalnum(c) || c == '_'))
			continue;
		if (i == 0)
			return FAIL(BAD_INPUT, "store name must begin with a "
			    "letter, a digit or '_'");
		if (c != '.' && c != '-')
			return FAIL(BAD_INPUT, "store name may hold letters, "
			    "digits, '.', '-' and '_' only");
	}
	if (slice_eq(name, SLICE("_registry")) ||
	    slice_eq(name, SLICE("_stats")))
		return FAIL(BAD_INPUT, "store name is reserved");
	return OK;
}

/* The put's answer was lost: is what is there ours? Two creates at once may
 * have adopted one table, so its uuid alone does not tell. Not there: it may
 * still come. */
static struct err
read_back(struct object_dir *root, const struct kind *kind, const char *path,
    const struct registry_entry *entry)
{
	struct registry_entry there;
	struct err e = registry_get(root, kind, entry->name, &there);

	if (err_is(e))
		return (struct err){ ERR_UNKNOWN, e.os, e.what };
	return uuid_eq(&there.store, &entry->store) &&
	    there.created_ms == entry->created_ms ?
	    object_confirm(root, path) : FAIL(EXISTS, "store exists already");
}

static struct err
put_entry(struct object_dir *root, const struct kind *kind, const char *path,
    const struct registry_entry *entry, struct slice bytes)
{
	struct err e = object_put_new(root, path, bytes);
	struct object_retry r;

	object_retry_begin(&r, OBJECT_PUT_SPAN_NS);
	while (e.kind == ERR_UNKNOWN) {
		e = read_back(root, kind, path, entry);
		if (e.kind != ERR_UNKNOWN || !object_retry_wait(&r))
			break;
		e = object_put_new(root, path, bytes);
		if (e.kind == ERR_EXISTS)
			e.kind = ERR_UNKNOWN;	/* by the try before, maybe */
	}
	return e;
}

struct err
registry_add(struct object_dir *root, const struct kind *kind,
    const struct registry_entry *entry)
{
	char path[OBJECT_NAME_MAX], directory[REGISTRY_DIRECTORY_MAX];
	char uuid[UUID_TEXT_LEN + 1];
	struct json_writer w;
	struct buf out;
	struct err e;

	entry_path(kind, entry->name, path);
	registry_directory(kind, entry->name, directory);
	uuid_to_text(&entry->store, uuid);
	buf_init(&out, ENTRY_BYTES_MAX);
	json_write_init(&w, &out);
	json_write_open(&w, NULL, '{');
	json_write_text(&w, "name", slice_of(entry->name));
	json_write_text(&w, "uuid", slice_of(uuid));
	json_write_uint64(&w, "created_at", entry->created_ms);
	json_write_text(&w, "directory", slice_of(directory));
	json_write_close(&w, '}');
	e = json_write_done(&w) ?
	    put_entry(root, kind, path, entry, buf_slice(&out)) :
	    FAIL(NO_MEMORY, "register a store");
	buf_free(&out);
	return e;
}

static struct err
entry_parse(struct arena *arena, struct slice text,
    struct registry_entry *entry)
{
	struct slice uuid = { "", 0 };
	const struct json *object;
	struct err e;

	e = json_parse(arena, text, "registry entry", &object);
	if (!err_is(e))
		e = json_get_text(arena, object, "uuid", JSON_REQUIRED, &uuid);
	if (!err_is(e))
		e = json_get_uint64(arena, object, "created_at",
		    JSON_REQUIRED, &entry->created_ms);
	if (err_is(e) || !uuid_from_text(uuid, &entry->store))
		return FAIL(CORRUPT, "registry entry cannot be read");
	return OK;
}

struct err
registry_get(struct object_dir *root, const struct kind *kind,
    const char *name, struct registry_entry *entry)
{
	char path[OBJECT_NAME_MAX];
	struct registry_entry got;
	struct arena arena;
	struct slice text;
	struct err e;

	entry_path(kind, name, path);
	arena_init(&arena, 16 * ENTRY_BYTES_MAX);
	e = object_get(root, path, ENTRY_BYTES_MAX, &arena, &text);
	if (!err_is(e))
		e = entry_parse(&arena, text, &got);
	arena_free(&arena);
	if (err_is(e))
		return e;
	snprintf(got.name, sizeof(got.name), "%s", name);
	*entry = got;
	return OK;
}

struct err
registry_check(struct object_dir *root, const struct kind *kind,
    const char *name, const struct uuid *store)
{
	struct registry_entry entry;
	struct err e = registry_get(root, kind, name, &entry);

	return !err_is(e) && !uuid_eq(&entry.store, store) ?
	    FAIL(NOT_FOUND, "store was created anew") : e;
}

struct err
registry_here(struct object_dir *root, const struct kind *kind,
    const char *name, const struct object_dir *dir)
{
	char directory[REGISTRY_DIRECTORY_MAX];

	registry_directory(kind, name, directory);
	return object_dir_here(root, directory, dir);
}

struct err
registry_exists(struct object_dir *root, const struct kind *kind,
    const char *name)
{
	char path[OBJECT_NAME_MAX];

	entry_path(kind, name, path);
	return object_exists(root, path);
}

struct err
registry_remove(struct object_dir *root, const struct kind *kind,
    const char *name)
{
	char path[OBJECT_NAME_MAX];

	entry_path(kind, name, path);
	return object_delete(root, path);
}

struct err
registry_lock(struct object_dir *root, const struct kind *kind,
    const char *name, int *lock)
{
	char path[OBJECT_NAME_MAX];

	snprintf(path, sizeof(path), "_registry/%s/.lock-%02u", kind->name,
	    (unsigned)(hash_bytes(name, strlen(name)) % LOCKS));
	return object_lock(root, path, LOCK_SPAN_NS, lock);
}

void
registry_unlock(int lock)
{
	object_unlock(lock);
}

struct names {
	struct arena *arena;
	const char **names;
	uint32_t count, room;
	bool full;
};

static bool
add_name(const struct object_info *info, void *ctx)
{
	struct names *n = ctx;
	size_t suffix = sizeof(SUFFIX) - 1;
	struct slice name = info->name;

	if (info->is_dir || name.len <= suffix ||
	    memcmp(name.ptr + name.len - suffix, SUFFIX, suffix) != 0)
		return true;
	name.len -= suffix;
	if (err_is(registry_name_check(name)))
		return true;
	if (n->count == n->room) {
		uint32_t room = MAX(n->room * 2, 64u);
		const char **more = arena_alloc(n->arena,
		    room * sizeof(*more));

		if (more == NULL) {
			n->full = true;
			return false;
		}
		if (n->count > 0)
			memcpy(more, n->names, n->count * sizeof(*more));
		n->names = more;
		n->room = room;
	}
	n->names[n->count] = arena_copy(n->arena, name);
	n->full = n->names[n->count] == NULL;
	n->count += !n->full;
	return !n->full;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct err
registry_names(struct object_dir *root, const struct kind *kind,
    struct arena *arena, const char ***names, uint32_t *count)
{
	struct names n = { .arena = arena };
	char prefix[64];
	struct err e;

	snprintf(prefix, sizeof(prefix), "_registry/%s", kind->name);
	e = object_list(root, prefix, add_name, &n);
	if (e.kind == ERR_NOT_FOUND)
		e = OK;			/* nothing was ever created */
	if (!err_is(e) && n.full)
		e = FAIL(NO_MEMORY, "list stores");
	if (err_is(e))
		return e;
	if (n.count > 1)
		qsort(n.names, n.count, sizeof(*n.names), by_name);
	*names = n.names;
	*count = n.count;
	return OK;
}
