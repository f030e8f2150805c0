#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fault.h"
#include "shm/shard_state.h"
#include "worker/lance/shard_manifest.h"
#include "worker/store/wal_parts.h"
#include "worker/store/wal_walk.h"

void
wal_path(const struct uuid *shard, uint64_t position, char *path)
{
	shard_wal_name(shard, position, path);
}

void
wal_folder(const struct uuid *shard, char *path)
{
	wal_path(shard, 1, path);
	*strrchr(path, '/') = '\0';
}

struct err
wal_exists(struct object_dir *dir, const struct uuid *shard, uint64_t position)
{
	char path[WAL_PATH_MAX];

	wal_path(shard, position, path);
	return object_exists(dir, path);
}

/* Most fit the first look. */
struct err
wal_head_load(int fd, uint64_t size, struct arena *arena, struct wal_head *head)
{
	size_t want = MIN(size, (uint64_t)WAL_HEAD_PEEK);
	struct err e;
	char *bytes;

	for (;;) {
		bytes = arena_alloc(arena, want);
		if (bytes == NULL)
			return FAIL(NO_MEMORY, "read a wal head");
		e = object_read_at(fd, bytes, want, 0);
		if (err_is(e))
			return e;
		e = wal_head_read(slice_make(bytes, want), arena, head);
		if (e.kind != ERR_CORRUPT || want == size ||
		    want >= WAL_HEAD_MAX)
			return e;
		want = MIN(size, (uint64_t)WAL_HEAD_MAX);
	}
}

struct err
wal_span_read(struct object_dir *dir, const struct uuid *shard, uint64_t position,
    struct arena *arena, struct wal_span *span)
{
	struct wal_head head;
	char path[WAL_PATH_MAX];
	uint64_t size, put_us = 0;
	struct err e;
	int fd;

	wal_path(shard, position, path);
	e = object_entry_open(dir, path, &fd, &size);
	if (err_is(e))
		return e;
	e = wal_head_load(fd, size, arena, &head);
	if (!err_is(e) && head.sentinel)
		e = object_entry_modified(fd, &put_us);
	close(fd);
	if (e.kind == ERR_CORRUPT) {
		/* Cut or overwritten by somebody: what whole batches are left
		 * is served, and whoever reads them reports the damage. */
		*span = (struct wal_span){ .position = position,
		    .size_bytes = size, .ours = true, .damaged = true };
		return OK;
	}
	if (err_is(e))
		return e;
	*span = (struct wal_span){
		.position = position, .epoch = head.epoch,
		.head_bytes = head.bytes, .size_bytes = size,
		.sentinel = head.sentinel, .ours = head.ours,
		.closes = head.closes, .modified_us = put_us,
	};
	if (head.whole_bytes != 0) {
		span->whole = span->recorded = true;
		span->end = head.whole_bytes - IPC_END_BYTES;
	}
	return OK;
}

/*
 * A data entry that was put whole has its end recorded. One that is followed by
 * another has: what that one closes, or its size where it closes nothing
 * (another engine's). If what that one closes cannot be read, it is what whole batches
 * there are, for everybody alike.
 */
static struct err
record_ends(struct object_dir *dir, const struct uuid *shard,
    struct wal_list *list)
{
	const struct wal_span *next = NULL;
	struct wal_found_end found;
	struct err e;
	uint32_t i;

	for (i = list->count; i-- > 0;) {
		struct wal_span *s = &list->spans[i];

		if (s->sentinel)
			continue;
		if (s->whole) {
			next = s;
			continue;
		}
		if (next != NULL && next->damaged) {
			e = wal_find_end(dir, shard, s, &found);
			if (err_is(e))
				return e;
			s->recorded = true;
			s->end = found.end;
		} else if (next != NULL) {
			s->recorded = true;
			s->end = next->closes.position == s->position ?
			    next->closes.end : s->size_bytes;
		}
		next = s;
	}
	return OK;
}

struct err
wal_list_read(struct object_dir *dir, const struct uuid *shard, uint64_t after,
    struct arena *arena, struct wal_list *list)
{
	uint32_t room = 0;
	struct arena scratch;
	struct err e = OK;

	*list = (struct wal_list){ 0, NULL };
	arena_init(&scratch, 4 * WAL_HEAD_MAX);
	for (;;) {
		if (list->count == room) {
			struct wal_span *more;

			room = MAX(room * 2, 16u);
			more = arena_alloc(arena, room * sizeof(*more));
			if (more == NULL) {
				e = FAIL(NO_MEMORY, "list wal entries");
				break;
			}
			if (list->count > 0)
				memcpy(more, list->spans,
				    list->count * sizeof(*more));
			list->spans = more;
		}
		arena_reset(&scratch);
		e = wal_span_read(dir, shard, after + 1 + list->count,
		    &scratch, &list->spans[list->count]);
		if (err_is(e))
			break;
		list->count++;
	}
	arena_free(&scratch);
	if (e.kind != ERR_NOT_FOUND) {
		if (e.kind == ERR_CORRUPT || e.kind == ERR_UNSUPPORTED)
			e.what = "read a wal head";	/* text was in scratch */
		return e;
	}
	return record_ends(dir, shard, list);
}

const struct wal_span *
wal_list_last(const struct wal_list *list)
{
	uint32_t i;

	for (i = list->count; i-- > 0;) {
		if (!list->spans[i].sentinel)
			return &list->spans[i];
	}
	return NULL;
}

struct err
wal_find_end(struct object_dir *dir, const struct uuid *shard,
    const struct wal_span *span, struct wal_found_end *found)
{
	struct wal_found_end f = { .any = false };
	char path[WAL_PATH_MAX];
	struct wal_batch batch;
	enum wal_found what;
	struct wal_walk walk;
	uint64_t size;
	struct err e;
	int fd;

	wal_path(shard, span->position, path);
	e = object_entry_open(dir, path, &fd, &size);
	if (err_is(e))
		return e;
	e = object_sync(fd);
	wal_walk_init(&walk, fd, span->ours, MIN(span->head_bytes, size), size);
	/* What is not whole below it is damage, and no torn commit. */
	if (span->whole)
		wal_walk_set_end(&walk, span->end);
	while (!err_is(e)) {
		e = wal_walk_next(&walk, &what, &batch);
		if (err_is(e) || what == WAL_END)
			break;
		if (what == WAL_BATCH)
			f.any = true;
		else if (what == WAL_TORN)
			f.torn = !batch.zero;
	}
	/* Never 0, which means "none": of a file that was cut to nothing the
	 * first bytes count as damage. */
	f.end = MAX(MAX(walk.whole_end, span->head_bytes), 8ull);
	f.sequence = walk.sequence;
	wal_walk_free(&walk);
	close(fd);
	if (!err_is(e))
		*found = f;
	return e;
}

struct wal_end
wal_span_end(const struct wal_span *span, const struct wal_found_end *found)
{
	uint64_t end = span->recorded ? span->end : found->end;

	end = MIN(end, SHM_END_MAX) / 8 * 8;
	if (!found->any || end <= span->head_bytes)
		return (struct wal_end){ 0, 0 };
	return (struct wal_end){ span->position, end };
}

/* The prepared file if it is there and large enough, else a new one. */
static struct err
take_entry(struct object_dir *dir, const char *prefix,
    const struct wal_start *start, uint64_t need, struct object_entry *entry)
{
	uint64_t least = ROUND_UP(need, 4096);
	struct err e;

	/* Nobody sees it before all of it is written: no zeroes first. */
	if (start->large_count > 0)
		return object_entry_reserve(dir, prefix, least, entry);
	if (start->prepared != NULL) {
		if (start->prepared->size_bytes >= need) {
			*entry = *start->prepared;
			return OK;
		}
		object_entry_abandon(dir, start->prepared);
	}
	e = object_entry_create(dir, prefix, MAX(start->size_bytes, least),
	    entry);
	/* A nearly full disk may still have room for just this commit. */
	if (e.kind == ERR_FULL && start->size_bytes > least)
		e = object_entry_create(dir, prefix, least, entry);
	return e;
}

uint64_t
wal_large_bytes(const struct wal_start *start)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < start->large_count; i++)
		bytes += start->large[i].bytes;
	return bytes;
}

/* Head and first batches in one write; large ones from where they lie. */
static struct err
write_first(const struct object_entry *entry, const struct buf *bytes,
    const struct wal_start *start)
{
	struct err e = object_write_sync(entry->fd, bytes->ptr, bytes->len, 0);
	uint64_t at = bytes->len;
	uint32_t i;

	for (i = 0; !err_is(e) && i < start->large_count; i++) {
		e = object_write_parts(entry->fd, start->large[i].parts,
		    start->large[i].count, at);
		at += start->large[i].bytes;
	}
	return e;
}

/* The put may have happened: the entry that is there says whose it is. */
static struct err
read_back(struct object_dir *dir, const char *path, const struct uuid *entry)
{
	struct wal_head head;
	struct arena arena;
	uint64_t size;
	struct err e;
	int fd;

	e = object_entry_open(dir, path, &fd, &size);
	if (err_is(e))
		return e.kind == ERR_NOT_FOUND ?
		    FAIL(IO, "wal entry was not put") : e;
	arena_init(&arena, 4 * WAL_HEAD_MAX);
	e = wal_head_load(fd, size, &arena, &head);
	if (!err_is(e) && !uuid_eq(&head.entry, entry))
		e = FAIL(FENCED, "wal position is another's");
	else if (err_is(e))
		e.what = "read a wal entry back";
	arena_free(&arena);
	close(fd);
	return err_is(e) ? e : object_confirm(dir, path);
}

struct err
wal_entry_start(struct object_dir *dir, const struct uuid *shard,
    const struct arrow_schema *schema, const struct wal_start *start,
    struct wal_writer *writer)
{
	struct wal_head head = {
		.epoch = start->epoch, .ours = true, .entry = uuid_random(),
		.closes = start->closes, .schema = *schema,
	};
	char path[WAL_PATH_MAX], prefix[WAL_PATH_MAX];
	struct object_entry entry;
	struct buf bytes;
	size_t head_bytes;
	uint64_t end;
	struct err e;

	if (!object_can_append(dir))
		return wal_entry_put(dir, shard, schema, start, writer);
	MUST(start->large_count == 0 || start->prepared == NULL);
	wal_path(shard, start->position, path);
	wal_folder(shard, prefix);
	buf_init(&bytes, WAL_HEAD_MAX + start->first.len);
	e = wal_head_write(&bytes, &head);
	head_bytes = bytes.len;
	if (!err_is(e) && !buf_append_slice(&bytes, start->first))
		e = FAIL(NO_MEMORY, "start a wal entry");
	if (err_is(e)) {
		if (start->prepared != NULL)
			object_entry_abandon(dir, start->prepared);
		goto out;
	}
	end = bytes.len + wal_large_bytes(start);
	e = take_entry(dir, prefix, start, end, &entry);
	if (err_is(e))
		goto out;
	e = write_first(&entry, &bytes, start);
	if (!err_is(e) && end > head_bytes)
		e = FAULT(wal_sync);
	if (!err_is(e))
		e = FAULT(wal_rotate);
	if (!err_is(e))
		e = object_entry_link(dir, &entry, path);
	if (e.kind == ERR_UNKNOWN)
		e = read_back(dir, path, &head.entry);
	if (e.kind == ERR_EXISTS)
		e = FAIL(FENCED, "wal position is taken");
	if (err_is(e)) {
		object_entry_abandon(dir, &entry);
		goto out;
	}
	*writer = (struct wal_writer){
		.fd = entry.fd, .position = start->position,
		.head_bytes = head_bytes, .end = end,
		.size_bytes = entry.size_bytes,
	};
out:
	buf_free(&bytes);
	return e;
}

void
wal_writer_close(struct wal_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}
