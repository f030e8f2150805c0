#include "common/base.h"

#include <unistd.h>

#include "common/buf.h"
#include "common/fault.h"
#include "shm/metric.h"
#include "shm/shard_state.h"
#include "worker/object/retry.h"
#include "worker/store/wal_parts.h"

/*
 * An entry by one put if absent, and what became of it.
 *
 * A put that was refused because the position is taken may have been refused
 * for its own first try, whose answer was lost; and one whose outcome is
 * unknown may be stored, may never be, or may be stored later, even after it
 * was looked for in vain. So what is not found is put again, the same bytes
 * under the same name: whichever of the tries lands, it is this entry, once.
 */

struct put {
	struct object_dir *dir;
	const struct uuid *shard;
	uint64_t epoch;
	struct uuid entry;
	uint32_t part_count;
	const struct slice *parts;
	bool sentinel;			/* takes the first position that is free */
	uint64_t position;
};

enum whose { NOBODYS, OURS, EARLIER, OTHERS };

/* What stands at the position. */
static struct err
look(const struct put *p, const char *path, enum whose *whose)
{
	struct wal_head head;
	struct arena arena;
	uint64_t size;
	struct err e = FAULT(wal_read_back);
	int fd;

	shm_metric_add(METRIC_memwald_wal_read_backs_total, 0, 1);
	if (!err_is(e))
		e = object_entry_open(p->dir, path, &fd, &size);
	if (e.kind == ERR_NOT_FOUND)
		*whose = NOBODYS;
	if (err_is(e))
		return e.kind == ERR_NOT_FOUND ? OK : e;
	arena_init(&arena, 4 * WAL_HEAD_MAX);
	e = wal_head_load(fd, size, &arena, &head);
	/* What cannot be read was not written by us. */
	if (e.kind == ERR_CORRUPT || e.kind == ERR_UNSUPPORTED) {
		*whose = OTHERS;
		e = OK;
	} else if (!err_is(e)) {
		*whose = uuid_eq(&head.entry, &p->entry) ? OURS :
		    head.epoch == p->epoch && head.ours && !head.sentinel ?
		    EARLIER : OTHERS;
	}
	arena_free(&arena);
	close(fd);
	return e;
}

/* Once at this position. *settled: the answer is final. */
static struct err
put_once(struct put *p, bool *settled)
{
	enum whose whose = NOBODYS;
	char path[WAL_PATH_MAX];
	struct err e;

	*settled = true;
	wal_path(p->shard, p->position, path);
	/* For the first free one a look is cheaper than a put in vain. */
	e = p->sentinel ? object_exists(p->dir, path) :
	    FAIL(NOT_FOUND, "not looked for");
	if (e.kind == ERR_NOT_FOUND)
		e = object_put_parts(p->dir, path, p->parts, p->part_count);
	else if (!err_is(e))
		e = FAIL(EXISTS, "wal position is taken");
	if (e.kind != ERR_EXISTS && e.kind != ERR_UNKNOWN)
		return e;
	e = look(p, path, &whose);
	*settled = !err_is(e) && (whose == OURS ||
	    (whose == OTHERS && !p->sentinel));
	if (err_is(e))
		return e;
	switch (whose) {
	case NOBODYS:
		return FAIL(UNKNOWN, "wal entry is not there");
	case OURS:
		/* A sync that failed is not tried again: it would succeed over
		 * lost pages. */
		return object_confirm(p->dir, path);
	default:
		p->position += !*settled;
		return *settled ? FAIL(FENCED, "wal position is another's") :
		    FAIL(EXISTS, "wal position is taken");
	}
}

static struct err
put_whole(struct put *p)
{
	struct object_retry r;
	bool settled;
	struct err e;

	object_retry_begin(&r, WAL_PUT_SPAN_NS);
	for (;;) {
		e = put_once(p, &settled);
		if (settled)
			return e;
		/* Others write each entry once and until they are fenced; of
		 * ours there are as many as failed: so this ends. */
		if (e.kind != ERR_EXISTS && !object_retry_wait(&r))
			return FAIL(UNKNOWN, "wal entry neither stored nor "
			    "refused in time");
	}
}

/* Twice, since the head tells the size of all. */
static struct err
write_head(struct buf *bytes, struct wal_head *head, uint64_t batch_bytes)
{
	struct err e;

	head->whole_bytes = 1;
	e = wal_head_write(bytes, head);
	if (err_is(e))
		return e;
	head->whole_bytes = bytes->len + batch_bytes + IPC_END_BYTES;
	bytes->len = 0;
	return wal_head_write(bytes, head);
}

/* Head, batches, large batches, end. */
static struct err
name_parts(struct put *p, struct slice head, const struct wal_start *start,
    struct slice end, struct arena *arena)
{
	struct slice *parts;
	uint32_t i, n = 0, room = 3;

	for (i = 0; i < start->large_count; i++)
		room += start->large[i].count;
	parts = arena_calloc(arena, room, sizeof(*parts));
	if (parts == NULL)
		return FAIL(NO_MEMORY, "put a wal entry");
	parts[n++] = head;
	parts[n++] = start->first;
	for (i = 0; i < start->large_count; i++) {
		memcpy(parts + n, start->large[i].parts,
		    start->large[i].count * sizeof(*parts));
		n += start->large[i].count;
	}
	parts[n++] = end;
	p->parts = parts;
	p->part_count = n;
	return OK;
}

struct err
wal_entry_put(struct object_dir *dir, const struct uuid *shard,
    const struct arrow_schema *schema, const struct wal_start *start,
    struct wal_writer *writer)
{
	struct wal_head head = {
		.epoch = start->epoch, .ours = true, .entry = uuid_random(),
		.closes = start->closes, .schema = *schema,
	};
	struct put p = { .dir = dir, .shard = shard, .epoch = start->epoch,
	    .entry = head.entry, .position = start->position };
	uint64_t batch_bytes = start->first.len + wal_large_bytes(start);
	struct buf bytes, end;
	struct arena arena;
	struct err e;

	MUST(start->prepared == NULL);
	arena_init(&arena, WAL_HEAD_MAX);
	buf_init(&bytes, WAL_HEAD_MAX);
	buf_init(&end, 64);
	e = write_head(&bytes, &head, batch_bytes);
	if (!err_is(e) && (head.whole_bytes > SHM_END_MAX ||
	    !wal_end_write(&end)))
		e = FAIL(NO_MEMORY, "commit is too large");
	if (!err_is(e))
		e = name_parts(&p, buf_slice(&bytes), start, buf_slice(&end),
		    &arena);
	if (!err_is(e) && batch_bytes > 0)
		e = FAULT(wal_sync);
	if (!err_is(e))
		e = FAULT(wal_rotate);
	if (!err_is(e))
		e = put_whole(&p);
	if (!err_is(e))
		*writer = (struct wal_writer){
			.fd = -1, .position = p.position,
			.head_bytes = bytes.len,
			.end = bytes.len + batch_bytes,
			.size_bytes = head.whole_bytes, .whole = true,
		};
	arena_free(&arena);
	buf_free(&end);
	buf_free(&bytes);
	return e;
}

struct err
wal_put_sentinel(struct object_dir *dir, const struct uuid *shard,
    uint64_t epoch, uint64_t *position)
{
	struct put p = { .dir = dir, .shard = shard, .epoch = epoch,
	    .entry = uuid_random(), .sentinel = true, .position = *position };
	struct slice part;
	struct buf bytes;
	struct err e;

	buf_init(&bytes, WAL_HEAD_MAX);
	e = wal_sentinel_write(&bytes, epoch, &p.entry);
	part = buf_slice(&bytes);
	p.parts = &part;
	p.part_count = 1;
	if (!err_is(e))
		e = put_whole(&p);
	if (!err_is(e))
		*position = p.position;
	buf_free(&bytes);
	return e;
}
