#include "common/base.h"

#include <stdlib.h>

#include "common/hash.h"
#include "worker/object/local.h"
#include "worker/store/wal_digits.h"
#include "worker/store/wal_walk.h"

#define PIECE_BYTES	(256u << 10)

void
wal_walk_init(struct wal_walk *w, int fd, bool ours, uint64_t offset,
    uint64_t size)
{
	*w = (struct wal_walk){
		.fd = fd, .ours = ours, .offset = offset, .whole_end = offset,
		.size = MAX(size, offset), .end = MAX(size, offset),
		.end_recorded = !ours,
	};
}

void
wal_walk_set_end(struct wal_walk *w, uint64_t end)
{
	w->end = MAX(end, w->offset);
	w->end_recorded = true;
}

void
wal_walk_free(struct wal_walk *w)
{
	free(w->bytes);
	w->bytes = NULL;
	w->room = 0;
}

static uint64_t
limit_of(const struct wal_walk *w)
{
	return MIN(w->end, w->size);
}

/* So many bytes of the entry in place of those that were there. */
static struct err
load(struct wal_walk *w, uint64_t bytes)
{
	if (w->bytes == NULL || bytes > w->room) {
		wal_walk_free(w);
		w->bytes = malloc(MAX(bytes, 1ull));
		if (w->bytes == NULL)
			return FAIL(NO_MEMORY, "read a wal entry");
		w->room = bytes;
	}
	return object_read_at(w->fd, w->bytes, bytes, w->offset);
}

/* A scan of them. */
static struct err
start_scan(struct wal_walk *w, uint64_t bytes)
{
	struct err e = load(w, bytes);

	if (err_is(e))
		return e;
	wal_scan_init(&w->scan, slice_make(w->bytes, bytes), w->ours,
	    w->offset);
	w->scan.sequence = w->sequence;
	return OK;
}

static struct err
hash_body(const struct wal_walk *w, struct hash_stream *hash,
    const struct ipc_message *m)
{
	uint64_t at = w->offset + m->bytes - m->body.len;
	uint64_t left = m->body.len;
	char *piece = malloc(PIECE_BYTES);
	struct err e = OK;

	if (piece == NULL)
		return FAIL(NO_MEMORY, "check a wal batch");
	while (!err_is(e) && left > 0) {
		size_t n = MIN(left, (uint64_t)PIECE_BYTES);

		e = object_read_at(w->fd, piece, n, at);
		if (!err_is(e))
			hash_stream_add(hash, slice_make(piece, n));
		at += n;
		left -= n;
	}
	free(piece);
	return e;
}

static struct err
check_hash(const struct wal_walk *w, const struct wal_look *l, bool *whole)
{
	size_t head = l->message.bytes - l->message.body.len;
	size_t at = (size_t)(l->digits.ptr - w->bytes);
	struct hash_stream *hash;
	struct err e;

	*whole = true;
	if (l->digits.len == 0)
		return OK;
	hash = hash_stream_new();
	if (hash == NULL)
		return FAIL(NO_MEMORY, "check a wal batch");
	hash_stream_add(hash, slice_make(w->bytes, at));
	hash_stream_add(hash, SLICE("0000000000000000"));
	at += l->digits.len;
	hash_stream_add(hash, slice_make(w->bytes + at, head - at));
	e = hash_body(w, hash, &l->message);
	*whole = wal_hash_is(hash_stream_end(hash), l->digits);
	return e;
}

/* The batch at the offset, if it is whole in the window, which moves there if
 * that ends before it. */
static struct err
take_near(struct wal_walk *w, struct wal_batch *b, bool *taken)
{
	struct err e;

	/* Behind a large one it still stands before that: then it finds none. */
	*taken = wal_scan_take(&w->scan, b);
	if (*taken)
		return OK;
	e = start_scan(w, WAL_WINDOW);
	*taken = !err_is(e) && wal_scan_take(&w->scan, b);
	return e;
}

/* The batch at the offset, where the window begins, if it is whole; its body
 * is left where it is. */
static struct err
take_large(struct wal_walk *w, struct wal_batch *b, bool *taken)
{
	struct wal_look l;
	struct err e;

	if (err_is(ipc_message_read_head(w->scan.bytes,
	    limit_of(w) - w->offset, &l.message)) || !wal_look_fits(&l, w->ours))
		return OK;
	e = check_hash(w, &l, taken);
	if (err_is(e) || !*taken)
		return e;
	*b = (struct wal_batch){
		.offset = w->offset, .bytes = l.message.bytes,
		.sequence = l.sequence, .message = l.message,
	};
	return OK;
}

/* The next batch while there is more than a window; not taken: it is not whole,
 * or the rest is to be looked at in memory. */
static struct err
take(struct wal_walk *w, struct wal_batch *b, bool *taken)
{
	struct err e;

	if (w->scanning || limit_of(w) - w->offset <= WAL_WINDOW)
		return OK;
	e = take_near(w, b, taken);
	if (!err_is(e) && !*taken)
		e = take_large(w, b, taken);
	if (err_is(e) || !*taken)
		return e;
	w->offset += b->bytes;
	w->whole_end = w->offset;
	w->sequence = b->sequence;
	return OK;
}

struct err
wal_walk_next(struct wal_walk *w, enum wal_found *what, struct wal_batch *b)
{
	bool taken = false;
	struct err e = take(w, b, &taken);

	if (!err_is(e) && !w->scanning && !taken) {
		e = start_scan(w, w->size - w->offset);
		if (w->end_recorded)
			wal_scan_set_end(&w->scan, w->end);
		w->scanning = !err_is(e);
	}
	if (err_is(e))
		return e;
	if (taken) {
		*what = WAL_BATCH;
		return OK;
	}
	*what = wal_scan_next(&w->scan, b);
	w->whole_end = w->scan.whole_end;
	w->sequence = w->scan.sequence;
	return OK;
}

static struct err
read_far(int fd, const struct ipc_message *m, uint64_t body_at,
    const struct arrow_schema *schema, const bool *columns, struct arena *arena,
    struct batch *batch)
{
	const struct ipc_far far = { .fetch = object_read_at, .fd = fd,
	    .body_at = body_at, .bytes_min = WAL_FAR_MIN, .columns = columns };

	return ipc_batch_read_far(m, schema, &far, arena, batch);
}

struct err
wal_walk_read(const struct wal_walk *w, const struct wal_batch *b,
    const struct arrow_schema *schema, const bool *columns, struct arena *arena,
    struct batch *batch)
{
	const struct ipc_message *m = &b->message;

	if (m->body.ptr != NULL)
		return ipc_batch_read(m, schema, arena, batch);
	return read_far(w->fd, m, b->offset + m->bytes - m->body.len, schema,
	    columns, arena, batch);
}

/* How many bytes of a message hold its prefix and metadata. */
static struct err
measure_head(int fd, uint64_t offset, uint64_t *bytes)
{
	uint32_t prefix[2];
	struct err e = object_read_at(fd, prefix, sizeof(prefix), offset);

	if (!err_is(e))
		*bytes = IPC_PREFIX_BYTES + (uint64_t)prefix[1];
	return e;
}

struct err
wal_batch_read(int fd, uint64_t offset, uint64_t bytes,
    const struct arrow_schema *schema, const bool *columns, struct arena *arena,
    struct batch *batch)
{
	bool whole = bytes <= WAL_FAR_MIN;
	struct ipc_message m;
	uint64_t n = bytes;
	struct err e = OK;
	char *to;

	if (!whole)
		e = measure_head(fd, offset, &n);
	if (err_is(e))
		return e;
	if (!whole && n >= bytes)
		return FAIL(CORRUPT, "wal batch has changed");
	to = arena_alloc(arena, n);
	if (to == NULL)
		return FAIL(NO_MEMORY, "read a wal batch");
	e = object_read_at(fd, to, n, offset);
	if (err_is(e))
		return e;
	if (!whole)
		e = ipc_message_read_head(slice_make(to, n), bytes, &m);
	else
		e = ipc_message_read(slice_make(to, n), &m);
	if (err_is(e))
		return e;
	if (whole)
		return ipc_batch_read(&m, schema, arena, batch);
	return read_far(fd, &m, offset + bytes - m.body.len, schema, columns,
	    arena, batch);
}

const bool *
wal_far_all(const struct store_shape *shape, struct arena *arena)
{
	bool *far = arena_alloc(arena, shape->schema.field_count);

	if (far == NULL)
		return NULL;
	memset(far, true, shape->schema.field_count);
	far[shape->key] = false;
	return far;
}

const bool *
wal_far_blobs(const struct store_shape *shape, struct arena *arena)
{
	bool *far = arena_calloc(arena, shape->schema.field_count, 1);
	uint32_t i;

	for (i = 0; far != NULL && i < shape->schema.field_count; i++)
		far[i] = shape->rules[i].form == FORM_BLOB;
	return far;
}
