#include "common/base.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/hash.h"
#include "common/list.h"
#include "common/log.h"
#include "shm/metric.h"
#include "worker/store/opened.h"
#include "worker/store/tail_parts.h"
#include "worker/store/wal.h"
#include "worker/store/wal_walk.h"

/*
 * Entries are a list, oldest first; each owns its batches and the copies of
 * its keys. The table maps a key to its newest row by open addressing: slots
 * hold the row's number in its entry's rows. It is rebuilt when it grows and
 * when entries are trimmed.
 */

#define TABLE_MIN	64u
/* Entries put whole that are kept as one: they go together, when the last of
 * them is sealed. */
#define WHOLE_MAX	256u
#define ROW_BYTES_MIN	128u	/* about; of a row in its entry */

struct err
tail_new(const struct store_shape *shape, const struct uuid *shard,
    struct tail **out)
{
	struct tail *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return FAIL(NO_MEMORY, "follow a shard");
	t->shape = shape;
	t->shard = *shard;
	list_init(&t->entries);
	*out = t;
	return OK;
}

void
tail_entry_drop(struct tail_entry *e)
{
	uint32_t i;

	if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (i = 0; i < e->batch_count; i++)
		free(e->batches[i]);
	free(e->batches);
	free(e->rows);
	tail_run_drop(e->run);
	arena_free(&e->keys);
	if (e->fd >= 0) {
		close(e->fd);
		opened_sub(OPENED_DESCRIPTORS, 1);
	}
	opened_sub(OPENED_TAIL_BYTES, e->bytes);
	free(e);
}

static size_t
entry_bytes(const struct tail_entry *e)
{
	size_t bytes = sizeof(*e) + e->keys.total_bytes +
	    e->row_room * sizeof(*e->rows) +
	    e->batch_count * sizeof(struct tail_batch);

	if (e->run != NULL)
		bytes += sizeof(*e->run) +
		    e->run->count * sizeof(struct tail_row);
	return bytes;
}

void
tail_entry_count(struct tail_entry *e)
{
	uint64_t bytes = entry_bytes(e);

	opened_change(OPENED_TAIL_BYTES, e->bytes, bytes);
	e->bytes = bytes;
}

static void
count_table(struct tail *t)
{
	uint64_t bytes = t->room * sizeof(struct tail_slot);

	opened_change(OPENED_TAIL_BYTES, t->table_bytes, bytes);
	t->table_bytes = bytes;
}

void
tail_free(struct tail *t)
{
	struct list *l;

	if (t == NULL)
		return;
	while ((l = list_pop(&t->entries)) != NULL)
		tail_entry_drop(CONTAINER_OF(l, struct tail_entry, link));
	free(t->table);
	t->room = 0;
	count_table(t);
	free(t);
}

const struct uuid *
tail_shard(const struct tail *t)
{
	return &t->shard;
}

static struct tail_entry *
newest_entry(const struct tail *t)
{
	return list_empty(&t->entries) ? NULL :
	    CONTAINER_OF(t->entries.prev, struct tail_entry, link);
}

/* The slot of a key, or the free one where it would go. */
static struct tail_slot *
find_slot(const struct tail *t, struct slice key, uint32_t hash)
{
	uint64_t i = hash & (t->room - 1);

	for (;; i = (i + 1) & (t->room - 1)) {
		struct tail_slot *s = &t->table[i];

		if (s->entry == NULL || (s->hash == hash &&
		    slice_eq(tail_row_key(&s->entry->rows[s->row]), key)))
			return s;
	}
}

/* Later rows of a shard are newer: sequences rise with the commits. */
static void
put_row(struct tail *t, struct tail_entry *e, uint32_t row)
{
	const struct key_row *r = &e->rows[row];
	struct tail_slot *s = find_slot(t, tail_row_key(r), r->hash);

	if (s->entry == NULL)
		t->used++;
	*s = (struct tail_slot){ e, row, r->hash };
}

/* A table for at least so many keys, filled from the entries. */
static struct err
rebuild(struct tail *t, uint64_t keys)
{
	uint64_t room = TABLE_MIN;
	struct tail_slot *table;
	struct list *l;
	uint32_t i;

	while (room < keys * 2)
		room *= 2;
	table = calloc(room, sizeof(*table));
	if (table == NULL)
		return FAIL(NO_MEMORY, "follow a shard");
	free(t->table);
	t->table = table;
	t->room = room;
	t->used = 0;
	count_table(t);
	LIST_FOREACH(l, &t->entries) {
		struct tail_entry *e =
		    CONTAINER_OF(l, struct tail_entry, link);

		for (i = 0; i < e->row_count; i++)
			put_row(t, e, i);
	}
	return OK;
}

/* The newest entry, if what was put whole at the span can be kept with it, else
 * a new one. */
static struct err
take_entry(struct tail *t, struct object_dir *dir, const struct wal_span *span,
    struct tail_entry **out)
{
	struct tail_entry *e = newest_entry(t);

	bool stays = !span->whole || span->size_bytes > WAL_FAR_MIN;

	if (e != NULL && !stays && !e->stays_open &&
	    e->whole_count < WHOLE_MAX) {
		*out = e;
		return OK;
	}
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return FAIL(NO_MEMORY, "follow a shard");
	atomic_init(&e->refs, 1);
	arena_init(&e->keys, SIZE_MAX);
	list_init(&e->link);
	e->fd = -1;
	e->whole = span->whole;
	e->stays_open = stays;
	e->dir = dir;
	e->shard = t->shard;
	list_append(&t->entries, &e->link);
	*out = e;
	return OK;
}

static struct err
open_at(struct object_dir *dir, const struct uuid *shard, uint64_t position,
    int *fd, uint64_t *size)
{
	char path[WAL_PATH_MAX];

	wal_path(shard, position, path);
	return object_entry_open(dir, path, fd, size);
}

static struct err
open_entry(struct tail *t, struct object_dir *dir, const struct wal_span *span,
    struct tail_entry **out)
{
	struct tail_entry *e;
	uint64_t size;
	struct err err;
	int fd;

	err = open_at(dir, &t->shard, span->position, &fd, &size);
	if (err_is(err))
		return err;
	err = take_entry(t, dir, span, &e);
	if (err_is(err)) {
		close(fd);
		return err;
	}
	e->fd = fd;
	e->position = span->position;
	e->ours = span->ours;
	e->offset = span->head_bytes;
	e->size_bytes = size;
	opened_add(OPENED_DESCRIPTORS, 1);
	*out = e;
	return OK;
}

/* Doubles an array of the entry when it is full. */
static bool
make_room(void **array, uint32_t count, uint32_t *room, size_t each)
{
	uint32_t more = MAX(*room * 2, 16u);
	void *p;

	if (count < *room)
		return true;
	p = realloc(*array, more * each);
	if (p == NULL)
		return false;
	*array = p;
	*room = more;
	return true;
}

static bool
add_key(struct tail_entry *e, struct slice key, uint32_t batch, uint32_t row)
{
	char *copy = arena_copy(&e->keys, key);

	if (copy == NULL || !make_room((void **)&e->rows, e->row_count,
	    &e->row_room, sizeof(*e->rows)))
		return false;
	e->rows[e->row_count++] = (struct key_row){
		.key = copy, .key_len = (uint32_t)key.len,
		.hash = (uint32_t)hash_bytes(key.ptr, key.len),
		.batch = batch, .row = row,
	};
	return true;
}

static struct err
add_batch(struct tail *t, struct tail_entry *e, const struct wal_walk *walk,
    const struct wal_batch *from, struct arena *arena)
{
	const struct array *keys;
	struct tail_batch *b;
	const bool *far;
	struct batch batch;
	struct err err;
	uint64_t i;

	far = wal_far_all(t->shape, arena);
	if (far == NULL)
		return FAIL(NO_MEMORY, "follow a shard");
	err = wal_walk_read(walk, from, &t->shape->schema, far, arena, &batch);
	if (err_is(err))
		return err;
	b = malloc(sizeof(*b));
	if (b == NULL || !make_room((void **)&e->batches, e->batch_count,
	    &e->batch_room, sizeof(struct tail_batch *))) {
		free(b);
		return FAIL(NO_MEMORY, "follow a shard");
	}
	*b = (struct tail_batch){
		.entry = e, .position = e->position, .offset = from->offset,
		.bytes = (uint32_t)from->bytes,
		.row_count = (uint32_t)batch.row_count,
		.sequence = (int64_t)from->sequence,
	};
	e->batches[e->batch_count++] = b;
	keys = &batch.columns[t->shape->key];
	for (i = 0; i < batch.row_count; i++) {
		if (!add_key(e, array_slice(keys, i), e->batch_count - 1,
		    (uint32_t)i))
			return FAIL(NO_MEMORY, "follow a shard");
		if (t->row_count++ * 2 >= t->room) {
			err = rebuild(t, t->row_count * 2);
			if (err_is(err))
				return err;
		} else {
			put_row(t, e, e->row_count - 1);
		}
	}
	return OK;
}

/* A batch that fails its check below an end that was published: its rows are
 * lost, the rest is served. */
static void
report_corrupt(const struct tail *t, const struct tail_entry *e,
    uint64_t offset, uint64_t bytes)
{
	char shard[UUID_TEXT_LEN + 1];

	uuid_to_text(&t->shard, shard);
	shm_metric_add(METRIC_memwald_wal_corrupt_batches_total, 0, 1);
	log_error("wal batch is damaged, its rows are lost, the rest is "
	    "served; check the disk and restore the file from a copy "
	    "shard=%s position=%llu offset=%llu bytes=%llu", shard,
	    (unsigned long long)e->position, (unsigned long long)offset,
	    (unsigned long long)bytes);
}

static struct err
read_to(struct tail *t, struct tail_entry *e, uint64_t end)
{
	enum wal_found what;
	struct wal_batch batch;
	struct wal_walk walk;
	struct arena arena;
	struct err err;

	if (end <= e->offset)
		return OK;
	arena_init(&arena, SIZE_MAX);
	/* Somebody may have cut the file: what is left of it is served. */
	wal_walk_init(&walk, e->fd, e->ours, e->offset,
	    MIN(end, e->size_bytes));
	wal_walk_set_end(&walk, end);
	for (;;) {
		err = wal_walk_next(&walk, &what, &batch);
		if (err_is(err) || what == WAL_END)
			break;
		arena_reset(&arena);
		if (what == WAL_BATCH)
			err = add_batch(t, e, &walk, &batch, &arena);
		if (what != WAL_BATCH || err.kind == ERR_CORRUPT)
			report_corrupt(t, e, batch.offset, batch.bytes);
		else if (err_is(err))
			break;
	}
	if (!err_is(err))
		e->offset = end;
	wal_walk_free(&walk);
	arena_free(&arena);
	tail_entry_count(e);
	return err;
}

/*
 * Of another instance's last entry we read what was written: some of it may not
 * have been acknowledged, and not be part of it when its successor records where
 * it ends (design 4: nobody reads past that). Rows cannot be taken out again.
 */
static bool
is_past_end(const struct tail_entry *e, const struct wal_span *s)
{
	return e != NULL && !e->whole && e->position == s->position &&
	    s->recorded && s->end < e->offset;
}

/* A large one stays open, and is one for itself: its blobs are read from it. */
static void
close_whole(struct tail_entry *e, struct err read)
{
	if (e->stays_open)
		return;
	close(e->fd);
	opened_sub(OPENED_DESCRIPTORS, 1);
	e->fd = -1;
	e->whole_count += !err_is(read);
}

static struct err
follow_entries(struct tail *t, struct object_dir *dir, uint64_t after,
    struct shm_point point, struct arena *arena)
{
	struct wal_list list;
	struct err err;
	uint32_t i;

	err = wal_list_read(dir, &t->shard, after, arena, &list);
	if (err_is(err))
		return err;
	if (list.count == 0 ||
	    list.spans[list.count - 1].position < point.position)
		return FAIL(NOT_FOUND, "wal entry is gone");
	for (i = 0; i < list.count; i++) {
		const struct wal_span *s = &list.spans[i];
		struct tail_entry *e = newest_entry(t);

		if (s->position > point.position)
			break;
		if (is_past_end(e, s)) {
			tail_trim(t, s->position);
			return FAIL(CONFLICT, "a wal entry ended before");
		}
		if (s->sentinel || (s->whole && s->position <= t->position))
			continue;
		if (e == NULL || e->position != s->position || s->whole)
			err = open_entry(t, dir, s, &e);
		if (err_is(err))
			return err;
		err = read_to(t, e, s->position == point.position ?
		    point.end : s->end);
		if (s->whole)
			close_whole(e, err);
		if (err_is(err))
			return err;
		t->position = s->position;
	}
	return OK;
}

struct err
tail_follow(struct tail *t, struct object_dir *dir, uint64_t replay_after,
    struct shm_point point)
{
	struct tail_entry *e = newest_entry(t);
	bool whole = e != NULL && e->whole;
	struct arena arena;
	struct err err;

	if (point.position <= replay_after || point.position < t->position)
		return OK;
	if (point.position == t->position)
		return whole ? OK : read_to(t, e, point.end);
	arena_init(&arena, 16u << 20);
	/* One that is appended to may have got more. */
	err = follow_entries(t, dir, t->position > replay_after ?
	    t->position - !whole : replay_after, point, &arena);
	if (err.kind == ERR_CONFLICT)
		err = follow_entries(t, dir, replay_after, point, &arena);
	arena_free(&arena);
	return err;
}

uint64_t
tail_behind(const struct tail *t, struct shm_point point)
{
	const struct tail_entry *e = newest_entry(t);
	uint64_t bytes;

	if (point.position > t->position)	/* whole entries: at least this */
		bytes = point.end +
		    (point.position - t->position - 1) * WAL_ENTRY_MIN;
	else if (e == NULL || point.end <= e->offset)
		return 0;
	else
		bytes = point.end - e->offset;
	if ((t->row_count + bytes / ROW_BYTES_MIN) * 2 >= t->room)
		bytes += t->room * sizeof(struct tail_slot);
	return bytes;
}

void
tail_trim(struct tail *t, uint64_t replay_after)
{
	bool changed = false;

	while (!list_empty(&t->entries)) {
		struct tail_entry *e = CONTAINER_OF(t->entries.next,
		    struct tail_entry, link);

		if (e->position > replay_after)
			break;
		t->row_count -= e->row_count;
		list_remove(&e->link);
		tail_entry_drop(e);
		changed = true;
	}
	if (!changed)
		return;
	if (list_empty(&t->entries)) {
		t->position = 0;
		free(t->table);
		t->table = NULL;
		t->room = t->used = 0;
		count_table(t);
		return;
	}
	/* Without memory for a smaller one the old table would point to what
	 * is gone: nothing can be kept then, and it is followed anew. */
	if (err_is(rebuild(t, t->row_count))) {
		free(t->table);
		t->table = NULL;
		t->room = t->used = t->row_count = 0;
		t->position = 0;
		count_table(t);
		while (!list_empty(&t->entries))
			tail_entry_drop(CONTAINER_OF(list_pop(&t->entries),
			    struct tail_entry, link));
	}
}

bool
tail_find(const struct tail *t, struct slice key, uint64_t hash,
    uint64_t replay_after, struct tail_row *row)
{
	const struct tail_slot *s;

	if (t->room == 0)
		return false;
	s = find_slot(t, key, (uint32_t)hash);
	if (s->entry == NULL)
		return false;
	*row = tail_row_at(s->entry, s->row);
	/* The newest lies in a generation of this view: older ones as well. */
	return row->batch->position > replay_after;
}

size_t
tail_bytes(const struct tail *t)
{
	size_t bytes = t->room * sizeof(struct tail_slot);
	const struct list *l;

	LIST_FOREACH(l, &t->entries)
		bytes += entry_bytes(CONTAINER_OF(l, struct tail_entry, link));
	return bytes;
}

uint64_t
tail_rows(const struct tail *t)
{
	return t->row_count;
}

struct err
tail_read(const struct tail_batch *b, const struct store_shape *shape,
    struct arena *arena, struct batch *batch)
{
	const bool *far = wal_far_blobs(shape, arena);
	int32_t fd = b->entry->fd;
	uint64_t size;
	struct err err;

	if (far == NULL)
		return FAIL(NO_MEMORY, "read a tail");
	/* A follower may have it open for an entry that lies behind. */
	if (b->entry->stays_open)
		return wal_batch_read(fd, b->offset, b->bytes, &shape->schema,
		    far, arena, batch);
	err = open_at(b->entry->dir, &b->entry->shard, b->position, &fd, &size);
	if (err_is(err))
		return err;
	MUST(b->bytes <= WAL_FAR_MIN);	/* nothing of it stays there */
	err = wal_batch_read(fd, b->offset, b->bytes, &shape->schema, far,
	    arena, batch);
	close(fd);
	return err;
}
