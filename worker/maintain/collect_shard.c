#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/fault.h"
#include "worker/lance/shard_manifest.h"
#include "worker/maintain/collect_parts.h"
#include "worker/object/local.h"
#include "worker/store/wal.h"

/*
 * One shard of this host. Nobody but its host seals it, so a directory in it
 * that no manifest names is of a seal of ours that died, or is under way.
 */

struct numbered {		/* a manifest version, or a WAL position */
	uint64_t number;
	uint64_t modified_us;
};

struct shard {
	struct collecting *c;
	uint32_t index;			/* in the mark */
	uint32_t number;
	struct uuid uuid;
	char path[SHARD_NAME_MAX];	/* of its directory */
	struct arena *arena;
	uint64_t version;		/* of the mark */

	uint32_t count, room;		/* manifests, then entries; ascending */
	struct numbered *list;
	struct slice suffix;

	struct collect_names live;	/* generations of the mark's version and
					 * of later ones */
	struct collect_names dead;	/* of those before */
	uint32_t directory_count, directory_room;
	const char **directories;	/* of generations, as listed */
	uint64_t replay_after;		/* of the mark's version */
};

static bool
add_number(const struct object_info *info, void *ctx)
{
	struct shard *s = ctx;
	uint64_t number;

	if (!shard_number_parse(info->name, s->suffix, &number))
		return true;
	if (s->count == s->room) {
		uint32_t room = MAX(s->room * 2, 256u);
		struct numbered *more = arena_alloc(s->arena,
		    room * sizeof(*more));

		/* The oldest may be missing then: what is here is enough. */
		if (more == NULL)
			return false;
		if (s->count > 0)
			memcpy(more, s->list, s->count * sizeof(*more));
		s->list = more;
		s->room = room;
	}
	s->list[s->count++] = (struct numbered){ number, info->modified_us };
	return true;
}

static int
compare_numbers(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static struct err
list_numbers(struct shard *s, const char *folder, const char *suffix)
{
	char path[SHARD_NAME_MAX + 16];
	struct err e;

	snprintf(path, sizeof(path), "%s/%s", s->path, folder);
	s->suffix = slice_of(suffix);
	s->count = s->room = 0;
	e = object_list(s->c->aged->dir, path, add_number, s);
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	if (!err_is(e) && s->count > 0)
		qsort(s->list, s->count, sizeof(*s->list), compare_numbers);
	return e;
}

/* ---- generations */

static bool
add_directory(const struct object_info *info, void *ctx)
{
	struct shard *s = ctx;
	char *name = arena_copy(s->arena, info->name);

	if (!info->is_dir || name == NULL || strstr(name, "_gen_") == NULL)
		return true;
	if (s->directory_count == s->directory_room) {
		uint32_t room = MAX(s->directory_room * 2, 64u);
		const char **more = arena_alloc(s->arena,
		    room * sizeof(*more));

		s->c->waits |= more == NULL;
		if (more == NULL)
			return false;
		if (s->directory_count > 0)
			memcpy(more, s->directories,
			    s->directory_count * sizeof(*more));
		s->directories = more;
		s->directory_room = room;
	}
	s->directories[s->directory_count++] = name;
	return true;
}

static struct err
take_names(struct shard *s, uint64_t version)
{
	struct collect_names *to = version < s->version ? &s->dead : &s->live;
	struct shard_manifest m;
	struct arena arena;
	struct err e;
	uint32_t i;

	arena_init(&arena, COLLECT_ARENA_MAX);
	e = shard_manifest_load_version(s->c->aged->dir, &s->uuid, version,
	    &arena, &m);
	for (i = 0; !err_is(e) && i < m.generation_count; i++) {
		const char *name = arena_copy(&arena,
		    m.generations[i].directory);

		e = name == NULL ? FAIL(NO_MEMORY, "names of a shard") :
		    collect_names_add(to, name);
	}
	if (!err_is(e) && version == s->version)
		s->replay_after = MIN(m.replay_after,
		    s->c->mark->shards[s->index].replay_after);
	/* Taken back meanwhile by who had filled a hole with it. */
	if (e.kind == ERR_NOT_FOUND && version != s->version)
		e = OK;
	e = aged_keep(s->c->aged, e);
	arena_free(&arena);
	return e;
}

/* What each manifest names; of those before the mark's the oldest, up to the
 * bound of a run. The listing is cut to those that may go, and *newest. */
static struct err
read_manifests(struct shard *s, uint64_t *newest)
{
	uint32_t i, dead = 0;
	struct err e = OK;

	if (bsearch(&(struct numbered){ s->version, 0 }, s->list, s->count,
	    sizeof(*s->list), compare_numbers) == NULL)
		return FAIL(CORRUPT, "the shard manifest of the view is gone");
	*newest = s->list[s->count - 1].number;
	for (i = 0; !err_is(e) && i < s->count; i++) {
		const struct numbered *n = &s->list[i];

		if (n->number < s->version && (dead == COLLECT_MANIFESTS_MAX ||
		    !collect_is_old(s->c, n->modified_us))) {
			s->c->waits = true;
			continue;
		}
		e = take_names(s, n->number);
		if (n->number < s->version)
			s->list[dead++] = *n;
	}
	s->count = dead;
	return e;
}

static struct err
delete_generation(struct shard *s, const char *name)
{
	char path[OBJECT_NAME_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", s->path, name) >=
	    sizeof(path))
		return OK;		/* no name of ours */
	return collect_delete(s->c, METRIC_COLLECTED_GENERATION, path);
}

/* Seals that began before have ended, and one that begins makes a directory
 * that is not in our list. What the newest manifest still does not name then,
 * nobody will. */
static struct err
look_again(struct shard *s, struct collect_names *live)
{
	struct shard_manifest m;
	uint64_t token;
	struct err e;
	uint32_t i;

	token = shm_store_seal_try(s->c->aged->ref, s->number,
	    s->c->aged->deadline_ns);
	if (token == 0)
		return FAIL(BUSY, "shard is being sealed");
	e = shard_manifest_load(s->c->aged->dir, &s->uuid, s->arena, &m);
	for (i = 0; !err_is(e) && i < m.generation_count; i++) {
		const char *name = arena_copy(s->arena,
		    m.generations[i].directory);

		e = name == NULL ? FAIL(NO_MEMORY, "names of a shard") :
		    collect_names_add(live, name);
	}
	shm_store_seal_release(s->c->aged->ref, s->number, token);
	return e;
}

static struct err
delete_abandoned(struct shard *s, const char *const *names, uint32_t count)
{
	struct err e = count == 0 ? OK : look_again(s, &s->live);
	uint32_t i;

	if (e.kind == ERR_BUSY) {
		for (i = 0; i < count; i++)
			collect_wait_for(s->c, names[i]);
		return OK;
	}
	for (i = 0; !err_is(e) && i < count; i++) {
		if (collect_names_has(&s->live, names[i]))
			continue;
		e = FAULT(collect_abandoned);
		if (!err_is(e))
			e = delete_generation(s, names[i]);
	}
	return e;
}

static struct err
delete_generations(struct shard *s)
{
	const char **abandoned = arena_calloc(s->arena,
	    MAX(s->directory_count, 1u), sizeof(*abandoned));
	uint32_t i, count = 0;
	struct err e = OK;

	if (abandoned == NULL)
		return FAIL(NO_MEMORY, "generations of a shard");
	for (i = 0; !err_is(e) && i < s->directory_count; i++) {
		const char *name = s->directories[i];

		if (collect_names_has(&s->live, name))
			continue;
		if (collect_names_has(&s->dead, name)) {
			e = FAULT(collect_generation);
			if (!err_is(e))
				e = delete_generation(s, name);
		} else if (collect_is_abandoned(s->c, name)) {
			abandoned[count++] = name;
		}
	}
	return err_is(e) ? e : delete_abandoned(s, abandoned, count);
}

static struct err
delete_manifests(struct shard *s, uint64_t newest)
{
	char name[SHARD_NAME_MAX + 32];
	struct err e;
	uint32_t i;

	if (s->count == 0)
		return OK;
	snprintf(name, sizeof(name), "%s/manifest/version_hint.json", s->path);
	e = collect_hint(s->c, name, newest);
	for (i = 0; !err_is(e) && i < s->count; i++) {
		shard_manifest_name(&s->uuid, s->list[i].number, name);
		e = FAULT(collect_manifest);
		if (!err_is(e))
			e = collect_delete(s->c,
			    METRIC_COLLECTED_SHARD_MANIFEST, name);
	}
	return e;
}

/* ---- WAL entries */

/* Neither a sentinel nor one whose head cannot be read. */
static struct err
look_at_entry(struct shard *s, uint64_t position, struct wal_span *span,
    bool *is_data)
{
	struct arena arena;
	struct err e;

	arena_init(&arena, COLLECT_ARENA_MAX);
	e = wal_span_read(s->c->aged->dir, &s->uuid, position, &arena, span);
	*is_data = !err_is(e) && !span->sentinel && !span->damaged;
	if (e.kind == ERR_NOT_FOUND || e.kind == ERR_UNSUPPORTED)
		e = OK;
	e = aged_keep(s->c->aged, e);
	arena_free(&arena);
	return e;
}

/* Its name has to stay; its bytes do not. */
static struct err
punch(struct shard *s, const struct wal_span *span)
{
	struct object_gone gone = { 0 };
	char path[WAL_PATH_MAX];
	struct err e;

	if (!object_can_append(s->c->aged->dir))
		return OK;
	e = FAULT(collect_wal);
	if (err_is(e))
		return e;
	wal_path(&s->uuid, span->position, path);
	e = object_entry_punch(s->c->aged->dir, path, span->head_bytes,
	    &gone.bytes);
	collect_count(s->c, METRIC_COLLECTED_WAL, &gone);
	return e;
}

static struct err
delete_entry(struct shard *s, const struct wal_span *span)
{
	char path[WAL_PATH_MAX];
	struct err e = FAULT(collect_wal);

	if (err_is(e))
		return e;
	wal_path(&s->uuid, span->position, path);
	return collect_delete(s->c, METRIC_COLLECTED_WAL, path);
}

/*
 * Design 4: a sentinel is never removed, another entry only while its successor
 * exists and holds data, oldest first. So of each claim its sentinel stays and
 * the entry below it, whose owner may be asleep, and of all the last one.
 */
static struct err
delete_entries(struct shard *s)
{
	struct wal_span span = { 0 }, next = { 0 };
	bool data = false, next_data;
	uint64_t looked = 0;		/* span is of this position */
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < s->count &&
	    s->list[i].number <= s->replay_after; i++) {
		uint64_t position = s->list[i].number;

		e = aged_check(s->c->aged);
		if (err_is(e) ||
		    !collect_is_old(s->c, s->list[i].modified_us))
			continue;
		if (looked != position)
			e = look_at_entry(s, position, &span, &data);
		if (!err_is(e))
			e = look_at_entry(s, position + 1, &next, &next_data);
		if (!err_is(e) && data)
			e = next_data ? delete_entry(s, &span) :
			    punch(s, &span);
		span = next;
		data = next_data;
		looked = position + 1;
	}
	return e;
}

static struct err
collect_all(struct shard *s)
{
	uint64_t newest;
	struct err e;

	/* Directories first: one that is listed and named by none of the
	 * manifests that are read after it was made before them. */
	e = object_list_names(s->c->aged->dir, s->path, add_directory, s);
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	if (!err_is(e))
		e = list_numbers(s, "manifest", ".binpb");
	if (!err_is(e))
		e = read_manifests(s, &newest);
	if (!err_is(e))
		e = delete_generations(s);
	if (!err_is(e))
		e = delete_manifests(s, newest);
	if (!err_is(e))
		e = list_numbers(s, "wal", ".arrow");
	return err_is(e) ? e : delete_entries(s);
}

struct err
collect_shard(struct collecting *c, uint32_t index)
{
	uint32_t number = c->mark->shards[index].at.shard;
	struct shard s = { .c = c, .index = index, .number = number,
	    .arena = &c->arena,
	    .uuid = shm_store_shard_uuid(c->aged->ref, number),
	    .version = c->mark->shards[index].version };
	struct err e;

	shard_directory_name(&s.uuid, s.path);
	e = aged_keep(c->aged, collect_all(&s));
	collect_names_free(&s.live);
	collect_names_free(&s.dead);
	arena_reset(&c->arena);
	return e;
}
