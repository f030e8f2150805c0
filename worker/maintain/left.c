#include "common/base.h"

#include <stdio.h>

#include "worker/lance/shard_manifest.h"
#include "worker/maintain/left.h"
#include "worker/store/kind.h"
#include "worker/store/registry.h"
#include "worker/store/wal.h"

#define NAMES_BYTES_MAX	(64u << 20)
#define SHARD_BYTES_MAX	(64u << 20)

struct left_search {
	const struct uuid *shard;
	enum left_what what;
};

static struct err
look_at_entries(struct object_dir *dir, const struct uuid *shard,
    uint64_t replay_after, struct arena *a, bool *found)
{
	struct wal_found_end end;
	struct wal_list list;
	struct err e = wal_list_read(dir, shard, replay_after, a, &list);
	uint32_t i;

	for (i = 0; !err_is(e) && i < list.count && !*found; i++) {
		if (list.spans[i].sentinel)
			continue;
		e = wal_find_end(dir, shard, &list.spans[i], &end);
		*found = !err_is(e) &&
		    wal_span_end(&list.spans[i], &end).position != 0;
	}
	return e;
}

static struct err
look_at_shard(struct object_dir *dir, const struct left_search *s,
    bool *found)
{
	struct shard_manifest m;
	struct arena arena;
	struct err e;

	arena_init(&arena, SHARD_BYTES_MAX);
	e = shard_manifest_load(dir, s->shard, &arena, &m);
	if (!err_is(e) && (s->what == LEFT_SHARD || m.generation_count > 0)) {
		*found = true;
	} else if (!err_is(e)) {
		e = look_at_entries(dir, s->shard, m.replay_after, &arena,
		    found);
		/* It was sealed and collected since the manifest was read. */
		if (e.kind == ERR_NOT_FOUND)
			e.kind = ERR_UNAVAILABLE;
	}
	if (err_is(e))
		e.what = "look at a shard";	/* its text is in the arena */
	arena_free(&arena);
	return e;
}

/* No shard there, or no store any more: nothing is left. */
static struct err
look_at_store(struct object_dir *root, const struct kind *kind,
    const char *name, const struct left_search *s, bool *found)
{
	char directory[REGISTRY_DIRECTORY_MAX];
	struct object_dir *dir;
	struct err e;

	registry_directory(kind, name, directory);
	e = object_dir_open(root, directory, false, &dir);
	if (!err_is(e)) {
		e = look_at_shard(dir, s, found);
		object_dir_close(dir);
	}
	return e.kind == ERR_NOT_FOUND ? OK : e;
}

/* *count falls by each store that was looked at. */
static struct err
look_at_kind(struct object_dir *root, const struct left_search *s,
    struct left_at *at, uint32_t *count, bool *found)
{
	const struct kind *kind = kind_get((enum store_kind)at->kind);
	const char **names;
	struct arena arena;
	uint32_t i, n = 0;
	struct err e;

	arena_init(&arena, NAMES_BYTES_MAX);
	e = registry_names(root, kind, &arena, &names, &n);
	if (err_is(e))
		at->name[0] = '\0';
	for (i = 0; !err_is(e) && i < n && *count > 0 && !*found; i++) {
		if (strcmp(names[i], at->name) <= 0)
			continue;
		--*count;
		e = look_at_store(root, kind, names[i], s, found);
		snprintf(at->name, sizeof(at->name), "%s", names[i]);
	}
	if (!err_is(e) && !*found && *count > 0)
		*at = (struct left_at){ .kind = at->kind + 1 };
	arena_free(&arena);
	return e;
}

struct err
left_look(struct object_dir *root, const struct uuid *shard,
    enum left_what what, struct left_at *at, bool *found)
{
	const struct left_search s = { shard, what };
	uint32_t count = LEFT_STORES_A_LOOK;
	struct err e = OK;

	*found = false;
	while (!err_is(e) && !*found && count > 0 &&
	    at->kind < STORE_KIND_COUNT) {
		if (kind_get((enum store_kind)at->kind) == NULL)
			*at = (struct left_at){ .kind = at->kind + 1 };
		else
			e = look_at_kind(root, &s, at, &count, found);
	}
	return e;
}
