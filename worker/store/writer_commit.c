#include "common/base.h"

#include <errno.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/sequence.h"
#include "worker/store/wal.h"
#include "worker/store/writer.h"

/* Inline syncs are worth it while they are shorter than a hand-over and what
 * could be served meanwhile; beyond this the ring writes (design 4). */
#define INLINE_SYNC_MAX_NS	NS_PER_MS
/* One slow sync in many is the disk's, and says little about the next. */
#define SYNC_SAMPLE_MAX_NS	(4 * INLINE_SYNC_MAX_NS)
#define SAY_AGAIN_NS		(10 * NS_PER_SEC)
/* An entry that was not made ahead holds this many commits like its first, up
 * to what one sync writes at once: a commit waits for it. */
#define LATE_ENTRY_COMMITS	4u
#define LATE_ENTRY_MAX		(256u << 10)

/* A full disk must not fill the log as well. */
static void
say_failed(struct writer *w, struct err e)
{
	uint64_t now_ns = clock_mono_ns();

	w->failed_count++;
	if (w->said_ns != 0 && now_ns - w->said_ns < SAY_AGAIN_NS)
		return;
	log_err(LOG_WARN, e, "append failed, nothing was acknowledged; the "
	    "next one starts a new entry store=%s position=%llu failed=%u",
	    w->store->name, (unsigned long long)w->entry.position,
	    w->failed_count);
	w->said_ns = now_ns;
	w->failed_count = 0;
}

static void
commit_failed(struct writer *w, struct err e)
{
	bool gone = writer_is_gone(w, &e);

	say_failed(w, e);
	if (e.kind == ERR_FENCED)
		shm_metric_add(METRIC_memwald_wal_fenced_total, 0, 1);
	if (gone || e.kind == ERR_FENCED) {
		writer_lose_claim(w);
	} else {
		writer_give_up_entry(w);
		w->at = WRITER_READY;
	}
	builder_clear(w->flight, WRITER_KEEP_BYTES);
	writer_answer(w, &w->in_flight, e);
	if (gone)
		writer_refuse(w, e);
	writer_step(w);
}

static uint32_t
count_appends(const struct list *appends)
{
	const struct list *l;
	uint32_t n = 0;

	LIST_FOREACH(l, appends)
		n++;
	return n;
}

static void
commit_done(struct writer *w)
{
	FAULT_HERE(wal_publish);
	shm_shard_publish(w->state, w->epoch, (struct shm_point){
	    w->entry.position, w->entry.end }, w->sequence);
	shm_store_touch(w->store->ref);
	shm_metric_add(METRIC_memwald_wal_commits_total, 0, 1);
	shm_metric_add(METRIC_memwald_wal_commit_bytes_total, 0,
	    w->commit_bytes);
	shm_metric_add(METRIC_memwald_wal_row_bytes_total, 0, w->row_bytes);
	shm_metric_observe(METRIC_memwald_wal_commit_requests, 0,
	    count_appends(&w->in_flight));
	shm_metric_observe(METRIC_rollout_add_duration_seconds, 0,
	    clock_mono_ns() - w->began_ns);
	w->at = WRITER_READY;
	writer_count(w);
	builder_clear(w->flight, WRITER_KEEP_BYTES);
	if (w->message.room > WRITER_KEEP_BYTES)
		buf_free(&w->message);
	writer_prepare_next(w);
	writer_answer(w, &w->in_flight, OK);
	writer_step(w);
}

/*
 * The fence: whatever memory says, the position behind must be absent; an entry
 * put whole is its own fence. And the store must still have its name: another
 * instance may have deleted it, and then the rows lie in the dead tree.
 */
static struct err
check_fence(struct writer *w)
{
	struct err e;

	if (!w->entry.whole) {
		e = wal_exists(w->store->dir, &w->shard,
		    w->entry.position + 1);
		if (!err_is(e))
			return FAIL(FENCED, "next wal position is taken");
		if (e.kind != ERR_NOT_FOUND)
			return e;
	}
	return store_check_here(w->store);
}

/* However it was written: else one bad moment would end inline syncs for ever. */
static void
note_sync(struct engine *en, uint64_t took_ns)
{
	en->sync_ns += MIN(took_ns, SYNC_SAMPLE_MAX_NS) / 8 - en->sync_ns / 8;
}

static void
written(struct writer *w, struct err e)
{
	uint64_t took_ns = clock_mono_ns() - w->began_ns;

	note_sync(w->store->engine, took_ns);
	if (!err_is(e))
		e = FAULT(wal_sync);
	if (!err_is(e))
		e = check_fence(w);
	if (err_is(e)) {
		commit_failed(w, e);
		return;
	}
	shm_metric_observe(METRIC_memwald_wal_sync_seconds, 0, took_ns);
	w->entry.end += w->message.len;
	commit_done(w);
}

static void
write_done(struct op *op, int32_t res)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);
	struct store *s = w->store;
	struct err e = OK;

	if (res < 0)
		e = (struct err){ res == -ENOSPC ? ERR_FULL : ERR_IO, -res,
		    "write a wal entry" };
	written(w, e);
	store_close(s);
}

static void
write_inline(struct writer *w)
{
	written(w, object_write_sync(w->entry.fd, w->message.ptr,
	    w->message.len, w->entry.end));
}

static void
rotate_done(struct op *op, int32_t res)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);
	struct store *s = w->store;
	struct err e = w->job_err;

	(void)res;
	if (!err_is(e)) {
		wal_writer_close(&w->entry);
		w->entry = w->started;
		w->closed = false;
	}
	if (!err_is(e) && !w->entry.whole)
		shm_metric_add(METRIC_memwald_wal_rotations_total, 0, 1);
	if (!err_is(e))
		e = check_fence(w);
	if (err_is(e))
		commit_failed(w, e);
	else
		commit_done(w);
	store_close(s);
}

static bool
is_large(const struct append *a)
{
	return a->own != NULL && builder_bytes(a->own) >= APPEND_LARGE_MIN;
}

static void
set_sequences(struct writer *w, struct builder *b)
{
	int64_t *sequences = (int64_t *)(void *)
	    b->columns[w->store->shape->seq].values.ptr;
	uint64_t i;

	for (i = 0; i < b->row_count; i++)
		sequences[i] = (int64_t)w->sequence;
}

/* The large requests' messages: their hash reads all of it, which is not for
 * the loop. */
static struct err
name_parts(struct writer *w)
{
	struct ipc_parts *parts = arena_calloc(&w->parts, w->large_count,
	    sizeof(*parts));
	struct err e = OK;
	struct list *l;

	if (parts == NULL)
		return FAIL(NO_MEMORY, "commit is too large");
	w->start.large = parts;
	LIST_FOREACH(l, &w->in_flight) {
		struct append *a = CONTAINER_OF(l, struct append, link);
		struct batch batch;

		if (err_is(e) || !is_large(a))
			continue;
		set_sequences(w, a->own);
		batch = builder_batch(a->own);
		e = wal_batch_parts(&w->layout, &batch, w->sequence, &w->parts,
		    &parts[w->start.large_count]);
		if (!err_is(e))
			w->commit_bytes +=
			    parts[w->start.large_count++].bytes;
	}
	return e;
}

static int32_t
run_rotate(struct op *op)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);

	w->job_err = w->large_count > 0 ? name_parts(w) : OK;
	if (!err_is(w->job_err))
		w->job_err = wal_entry_start(w->store->dir, &w->shard,
		    &w->store->shape->schema, &w->start, &w->started);
	arena_free(&w->parts);
	return 0;
}

static uint64_t
late_entry_bytes(const struct writer *w)
{
	return MIN(MAX((uint64_t)w->message.len * LATE_ENTRY_COMMITS,
	    (uint64_t)WAL_ENTRY_MIN), (uint64_t)LATE_ENTRY_MAX);
}

/* The commit begins a new entry, which records where this one ends; or is one,
 * where the store cannot append. One with a large request leaves the prepared
 * entry to the next. */
static void
rotate(struct writer *w)
{
	bool take = w->has_next && w->large_count == 0;

	w->start = (struct wal_start){
		.position = w->entry.position + 1,
		.epoch = w->epoch,
		.closes = { w->entry.whole ? 0 : w->entry.position,
		    w->entry.end },
		.first = buf_slice(&w->message),
		.size_bytes = late_entry_bytes(w),
		.prepared = take ? &w->next : NULL,
	};
	w->has_next &= !take;
	w->at = WRITER_ROTATING;
	w->op.done = rotate_done;
	store_hold(w->store);
	/* Bounded by itself: one a writer. */
	pool_submit_first(w->store->engine->pool, &w->op, run_rotate);
}

static bool
add_batch(struct writer *w, struct builder *b)
{
	struct batch batch;
	size_t bytes;

	if (b->row_count == 0)
		return true;
	batch = builder_batch(b);
	set_sequences(w, b);
	bytes = wal_batch_size(&w->layout, &batch, 0, batch.row_count);
	if (!buf_reserve(&w->message, bytes))
		return false;
	wal_batch_write(&w->layout, &batch, 0, batch.row_count, w->sequence,
	    w->message.ptr + w->message.len);
	w->message.len += bytes;
	return true;
}

/* Moves what fits one commit from waiting to in_flight; the sum of its bytes
 * stays below the maximum, unless a larger one goes alone. */
static void
collect(struct writer *w)
{
	struct builder *swap = w->pending;
	/* Without rows it still has bytes, and holds nothing up. */
	size_t total = swap->row_count > 0 ? builder_bytes(swap) : 0;
	struct list rest, *l;

	list_init(&rest);
	while ((l = list_pop(&w->waiting)) != NULL) {
		struct append *a = CONTAINER_OF(l, struct append, link);
		size_t own = a->own == NULL ? 0 : builder_bytes(a->own);

		if (own > 0 && total > 0 && total + own > APPEND_COMMIT_MAX) {
			list_append(&rest, l);
			continue;
		}
		total += own;
		list_append(&w->in_flight, l);
	}
	list_splice(&w->waiting, &rest);
	MUST(!list_empty(&w->in_flight));
	w->row_bytes = total;
	w->pending = w->flight;
	w->flight = swap;
}

static bool
build_message(struct writer *w)
{
	struct list *l;

	w->sequence = shm_sequence_next();
	w->message.len = 0;
	w->large_count = 0;
	if (!add_batch(w, w->flight))
		return false;
	LIST_FOREACH(l, &w->in_flight) {
		struct append *a = CONTAINER_OF(l, struct append, link);

		if (is_large(a))
			w->large_count++;
		else if (a->own != NULL && !add_batch(w, a->own))
			return false;
	}
	w->commit_bytes = w->message.len;
	return true;
}

/* alone: nothing else wants the loop, so the sync may run in it. */
static void
commit(struct writer *w, bool alone)
{
	struct err e;

	collect(w);
	w->began_ns = clock_mono_ns();
	w->at = WRITER_WRITING;
	e = build_message(w) ? FAULT(wal_write) :
	    FAIL(NO_MEMORY, "commit is too large");
	if (err_is(e)) {
		commit_failed(w, e);
		return;
	}
	if (w->closed || w->large_count > 0 || w->entry.whole ||
	    w->entry.end + w->message.len > w->entry.size_bytes) {
		rotate(w);
	} else if (alone && w->store->engine->sync_ns < INLINE_SYNC_MAX_NS) {
		write_inline(w);
	} else {
		w->op.done = write_done;
		store_hold(w->store);
		loop_pwrite_dsync(w->store->engine->loop, &w->op, w->entry.fd,
		    w->message.ptr, w->message.len, w->entry.end);
	}
}

/* What is answered here may hold the last use of a handle that is dead. */
void
writer_commit(struct writer *w, bool alone)
{
	struct store *s = store_hold(w->store);

	commit(w, alone);
	store_close(s);
}
