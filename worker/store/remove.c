#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/fault.h"
#include "worker/store/registry.h"
#include "worker/store/remove.h"

static struct err
rename_away(struct object_dir *root, const struct kind *kind,
    const char *name, const struct uuid *store)
{
	char directory[REGISTRY_DIRECTORY_MAX], uuid[UUID_TEXT_LEN + 1];
	char trash[128];
	struct object_dir *to;
	struct err e;

	registry_directory(kind, name, directory);
	uuid_to_text(store, uuid);
	snprintf(trash, sizeof(trash), "%s-%llu", uuid,
	    (unsigned long long)(clock_wall_us() / 1000));
	e = object_dir_open(root, REMOVE_TRASH, true, &to);
	if (err_is(e))
		return e;
	e = FAULT(store_rename);
	if (!err_is(e))
		e = object_rename(root, directory, to, trash);
	object_dir_close(to);
	if (e.kind == ERR_NOT_FOUND)
		e = OK;		/* a removal before us got as far as here */
	return e;
}

static struct err
remove_locked(struct object_dir *root, const struct kind *kind,
    const char *name, const struct uuid *store)
{
	struct err e = registry_check(root, kind, name, store);

	/* Removed before, and maybe created anew: what lies there is not what
	 * we were sent for. */
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	if (!err_is(e))
		e = rename_away(root, kind, name, store);
	if (!err_is(e))
		e = FAULT(store_unregister);
	if (!err_is(e))
		e = registry_remove(root, kind, name);
	return e;
}

struct err
remove_store(struct object_dir *root, const struct kind *kind,
    const char *name, const struct uuid *store)
{
	struct err e;
	int lock;

	e = registry_lock(root, kind, name, &lock);
	if (err_is(e))
		return e;
	e = remove_locked(root, kind, name, store);
	registry_unlock(lock);
	return e;
}

struct trash {
	struct arena arena;
	uint64_t before_ms;
	const char *names[256];		/* a round; the next finds more */
	uint32_t count;
};

static bool
note_trash(const struct object_info *info, void *ctx)
{
	struct trash *t = ctx;
	const char *copy, *dash;

	copy = arena_copy(&t->arena, info->name);
	dash = copy == NULL ? NULL : strrchr(copy, '-');
	if (dash != NULL && strtoull(dash + 1, NULL, 10) < t->before_ms)
		t->names[t->count++] = copy;
	return t->count < ARRAY_LEN(t->names);
}

struct err
remove_trash(struct object_dir *root, uint64_t grace_us,
    struct object_pace *pace, struct object_gone *gone, uint32_t *removed)
{
	struct trash t = { .before_ms = (clock_wall_us() - grace_us) / 1000 };
	char path[OBJECT_NAME_MAX];
	struct err e;
	uint32_t i;

	arena_init(&t.arena, 1u << 20);
	*removed = 0;
	e = object_list(root, REMOVE_TRASH, note_trash, &t);
	if (e.kind == ERR_NOT_FOUND)
		e = OK;
	for (i = 0; !err_is(e) && i < t.count; i++) {
		snprintf(path, sizeof(path), REMOVE_TRASH "/%s", t.names[i]);
		e = object_delete_paced(root, path, pace, gone);
		*removed += !err_is(e);
	}
	arena_free(&t.arena);
	return e;
}
