#include "common/base.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/sequence.h"
#include "shm/view.h"
#include "worker/store/append.h"
#include "worker/store/claim.h"
#include "worker/store/wal.h"

/* Inline syncs are worth it while they are shorter than a hand-over and what
 * could be served meanwhile; beyond this the ring writes (design 4). */
#define INLINE_SYNC_MAX_NS	NS_PER_MS
/* One slow sync in many is the disk's, and says little about the next. */
#define SYNC_SAMPLE_MAX_NS	(4 * INLINE_SYNC_MAX_NS)
#define KEEP_BYTES		(8u << 20)	/* of buffers between commits */
#define ROTATES_MAX		8u
#define SAY_AGAIN_NS		(10 * NS_PER_SEC)
/* From this size on an entry's successor is made as soon as it is begun: when
 * half of it is used it may be full before that is on the disk. */
#define BUSY_ENTRY_BYTES	(1u << 20)
/* An entry that was not made ahead holds this many commits like its first, up
 * to what one sync writes at once: a commit waits for it. */
#define LATE_ENTRY_COMMITS	4u
#define LATE_ENTRY_MAX		(256u << 10)

enum writer_state {
	WRITER_UNCLAIMED,
	WRITER_CLAIMING,	/* a job on the pool */
	WRITER_READY,		/* nothing in flight */
	WRITER_WRITING,		/* a write and sync, in the ring or inline */
	WRITER_ROTATING		/* a job on the pool */
};

struct writer {
	struct store *store;
	struct shm_shard_state *state;
	struct uuid shard;
	enum writer_state at;
	uint64_t epoch;
	struct wal_writer entry;
	bool closed;			/* never touch that entry again */
	uint64_t next_bytes;		/* of the next entry, being made */
	struct object_entry next;
	bool has_next, making_next;

	struct builder builders[2];
	struct builder *pending, *flight;
	struct list waiting, in_flight;	/* struct append */
	struct buf message;
	uint64_t sequence;
	uint64_t began_ns;
	uint64_t said_ns;		/* when a failure was last logged */
	uint32_t failed_count;		/* since then */
	struct wal_layout layout;
	struct arena layout_arena;

	struct list due_link;
	uint32_t rotate_count;
	struct shm_command rotates[ROTATES_MAX];

	/* The job or write in flight. */
	struct op op;
	struct err job_err;
	struct claim claim;
	struct wal_start start;
	struct wal_writer started;
	struct op next_op;
	struct object_entry next_made;
	struct err next_err;
};

static void step(struct writer *);

static struct err
writer_new(struct store *s)
{
	struct writer *w = calloc(1, sizeof(*w));
	struct err e = shm_store_pin(s->ref);

	if (w == NULL || err_is(e)) {
		free(w);
		return err_is(e) ? e : FAIL(NO_MEMORY, "write to a store");
	}
	w->store = s;
	w->shard = shm_store_shard_uuid(s->ref, s->engine->ordinal);
	w->state = shm_store_shard(s->ref, s->engine->ordinal);
	w->entry.fd = -1;
	list_init(&w->waiting);
	list_init(&w->in_flight);
	list_init(&w->due_link);
	w->pending = &w->builders[0];
	w->flight = &w->builders[1];
	buf_init(&w->message, SHM_END_MAX);
	arena_init(&w->layout_arena, 4u << 20);
	s->writer = w;
	e = wal_layout_init(&w->layout, &s->shape->schema, &w->layout_arena);
	if (!err_is(e))
		e = builder_init(w->pending, &s->shape->schema,
		    APPEND_COMMIT_MAX);
	if (!err_is(e))
		e = builder_init(w->flight, &s->shape->schema,
		    APPEND_COMMIT_MAX);
	if (err_is(e))
		append_close(s);
	return e;
}

bool
append_busy(const struct store *s)
{
	const struct writer *w = s->writer;

	return w != NULL && (w->at == WRITER_CLAIMING ||
	    w->at == WRITER_WRITING || w->at == WRITER_ROTATING ||
	    w->making_next || !list_empty(&w->waiting));
}

/* Unless another claim of this life stands there by now: of the handle that
 * came after ours. */
static void
unclaim(struct writer *w)
{
	if (shm_shard_claimed(w->state).epoch == w->epoch)
		shm_shard_unclaim(w->state);
}

void
append_close(struct store *s)
{
	struct writer *w = s->writer;

	if (w == NULL)
		return;
	MUST(!append_busy(s) && w->rotate_count == 0);
	if (!list_empty(&w->due_link)) {
		list_remove(&w->due_link);
		s->engine->due_count--;
	}
	if (w->at == WRITER_READY)
		unclaim(w);
	wal_writer_close(&w->entry);
	if (w->has_next)
		object_entry_abandon(s->dir, &w->next);
	builder_free(&w->builders[0]);
	builder_free(&w->builders[1]);
	buf_free(&w->message);
	arena_free(&w->layout_arena);
	shm_store_unpin(s->ref);
	s->writer = NULL;
	free(w);
}

static void
make_due(struct writer *w)
{
	if (!list_empty(&w->due_link))
		return;
	list_append(&w->store->engine->due, &w->due_link);
	w->store->engine->due_count++;
}

struct err
append_builder(struct store *s, struct builder **builder)
{
	struct shm_slot *slot = shm_store_slot(s->ref);
	struct err e = OK;

	if (slot == NULL)
		return FAIL(UNAVAILABLE, "store has moved, try again");
	if ((shm_store_flags(s->ref) & SHM_FLAG_DELETED) != 0)
		return FAIL(BAD_INPUT, "store is being deleted");
	if (atomic_load_explicit(&slot->pinned_version,
	    memory_order_acquire) != 0)
		return FAIL(BAD_INPUT, "store is pinned to an old version");
	if (s->writer == NULL)
		e = writer_new(s);
	if (err_is(e))
		return e;
	if (builder_bytes(s->writer->pending) > APPEND_COMMIT_MAX)
		return FAIL(BUSY, "too many appends are waiting for the disk");
	*builder = s->writer->pending;
	return OK;
}

void
append_submit(struct store *s, struct append *a)
{
	store_hold(s);
	list_append(&s->writer->waiting, &a->link);
	make_due(s->writer);
}

static void
answer(struct writer *w, struct list *appends, struct err e)
{
	struct store *s = w->store;
	struct list done, *l;

	/* A request may submit the next one from its done. */
	list_init(&done);
	list_splice(&done, appends);
	while ((l = list_pop(&done)) != NULL) {
		struct append *a = CONTAINER_OF(l, struct append, link);

		if (a->own != NULL) {
			builder_free(a->own);
			free(a->own);
			a->own = NULL;
		}
		a->done(a, e);
		store_close(s);
	}
}

/* Between two commits: a quiet store keeps no buffers, since there may be ten
 * thousand of them. */
static void
give_back_buffers(struct writer *w)
{
	builder_clear(w->flight, 0);
	if (w->pending->row_count == 0)
		builder_clear(w->pending, 0);
	buf_free(&w->message);
}

/* Closes the entry: its end is the last acknowledged one, for good. */
static void
close_entry(struct writer *w)
{
	if (w->closed || w->entry.end <= w->entry.head_bytes)
		return;
	shm_shard_close(w->state, (struct shm_point){ w->entry.position,
	    w->entry.end });
	w->closed = true;
	wal_writer_close(&w->entry);
	give_back_buffers(w);
}

void
append_leave(struct store *s)
{
	if (s->writer != NULL && s->writer->at == WRITER_READY)
		close_entry(s->writer);
}

static void
answer_rotates(struct writer *w, struct err e)
{
	uint32_t i;

	for (i = 0; i < w->rotate_count; i++)
		shm_mailbox_reply(&w->rotates[i], e, 0);
	w->rotate_count = 0;
}

/* Nothing more comes of this claim. */
static void
lose_claim(struct writer *w)
{
	unclaim(w);
	wal_writer_close(&w->entry);
	if (w->has_next)
		object_entry_abandon(w->store->dir, &w->next);
	w->has_next = false;
	w->at = WRITER_UNCLAIMED;
}

/* The entry may hold anything now: it is not written to again. Its last
 * acknowledged end is what its successor records and what a seal goes by. */
static void
give_up_entry(struct writer *w)
{
	close_entry(w);
	w->closed = true;	/* also one without a commit */
	wal_writer_close(&w->entry);
}

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
	say_failed(w, e);
	if (e.kind == ERR_FENCED) {
		shm_metric_add(METRIC_memwald_wal_fenced_total, 0, 1);
		lose_claim(w);
	} else {
		give_up_entry(w);
		w->at = WRITER_READY;
	}
	builder_clear(w->flight, KEEP_BYTES);
	answer(w, &w->in_flight, e);
	step(w);
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
make_next_done(struct op *op, int32_t res)
{
	struct writer *w = CONTAINER_OF(op, struct writer, next_op);
	struct store *s = w->store;

	(void)res;
	w->making_next = false;
	if (err_is(w->next_err)) {
		log_err(LOG_WARN, w->next_err, "next wal entry not prepared, "
		    "the rotation makes a small one store=%s", s->name);
	} else if (w->at == WRITER_UNCLAIMED) {
		object_entry_abandon(s->dir, &w->next_made);
	} else {
		w->next = w->next_made;
		w->has_next = true;
	}
	store_close(s);
}

static int32_t
make_next(struct op *op)
{
	struct writer *w = CONTAINER_OF(op, struct writer, next_op);
	char prefix[WAL_PATH_MAX];

	wal_path(&w->shard, 1, prefix);
	*strrchr(prefix, '/') = '\0';
	w->next_err = object_entry_create(w->store->dir, prefix,
	    w->next_bytes, &w->next_made);
	return 0;
}

/* Ahead of need, and only where writes go on. */
static void
prepare_next(struct writer *w)
{
	if (w->has_next || w->making_next || w->closed ||
	    (w->entry.size_bytes < BUSY_ENTRY_BYTES &&
	    w->entry.end < w->entry.size_bytes / 2))
		return;
	w->next_bytes = MIN(MAX(w->entry.size_bytes * 2,
	    (uint64_t)WAL_ENTRY_MIN), (uint64_t)WAL_ENTRY_MAX);
	w->next_op.done = make_next_done;
	store_hold(w->store);
	w->making_next = pool_submit(w->store->engine->pool, &w->next_op,
	    make_next);
	if (!w->making_next)
		store_close(w->store);
}

static void
commit_done(struct writer *w)
{
	FAULT_HERE(wal_publish);
	shm_shard_publish(w->state, (struct shm_point){ w->entry.position,
	    w->entry.end }, w->sequence);
	shm_store_touch(w->store->ref);
	shm_metric_add(METRIC_memwald_wal_commits_total, 0, 1);
	shm_metric_add(METRIC_memwald_wal_commit_bytes_total, 0,
	    w->message.len);
	shm_metric_observe(METRIC_memwald_wal_commit_requests, 0,
	    count_appends(&w->in_flight));
	shm_metric_observe(METRIC_rollout_add_duration_seconds, 0,
	    clock_mono_ns() - w->began_ns);
	w->at = WRITER_READY;
	builder_clear(w->flight, KEEP_BYTES);
	if (w->message.room > KEEP_BYTES)
		buf_free(&w->message);
	prepare_next(w);
	answer(w, &w->in_flight, OK);
	step(w);
}

/* The fence: whatever memory says, the position behind must be absent. */
static struct err
check_fence(struct writer *w, uint64_t position)
{
	struct err e = wal_exists(w->store->dir, &w->shard, position + 1);

	if (e.kind == ERR_NOT_FOUND)
		return OK;
	return err_is(e) ? e : FAIL(FENCED, "next wal position is taken");
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
		e = check_fence(w, w->entry.position);
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
		shm_metric_add(METRIC_memwald_wal_rotations_total, 0, 1);
		e = check_fence(w, w->entry.position);
	}
	if (err_is(e))
		commit_failed(w, e);
	else
		commit_done(w);
	store_close(s);
}

static int32_t
run_rotate(struct op *op)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);

	w->job_err = wal_entry_start(w->store->dir, &w->shard,
	    &w->store->shape->schema, &w->start, &w->started);
	return 0;
}

static uint64_t
late_entry_bytes(const struct writer *w)
{
	return MIN(MAX((uint64_t)w->message.len * LATE_ENTRY_COMMITS,
	    (uint64_t)WAL_ENTRY_MIN), (uint64_t)LATE_ENTRY_MAX);
}

/* The commit begins a new entry, which records where this one ends. */
static void
rotate(struct writer *w)
{
	w->start = (struct wal_start){
		.position = w->entry.position + 1,
		.epoch = w->epoch,
		.closes = { w->entry.position, w->entry.end },
		.first = buf_slice(&w->message),
		.size_bytes = late_entry_bytes(w),
		.prepared = w->has_next ? &w->next : NULL,
	};
	w->has_next = false;
	w->at = WRITER_ROTATING;
	w->op.done = rotate_done;
	store_hold(w->store);
	/* Bounded by itself: one a writer. */
	pool_submit_first(w->store->engine->pool, &w->op, run_rotate);
}

static bool
add_batch(struct writer *w, struct builder *b)
{
	struct batch batch = builder_batch(b);
	int64_t *sequences;
	size_t bytes;
	uint64_t i;

	if (batch.row_count == 0)
		return true;
	sequences = (int64_t *)(void *)
	    b->columns[w->store->shape->seq].values.ptr;
	for (i = 0; i < batch.row_count; i++)
		sequences[i] = (int64_t)w->sequence;
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
	w->pending = w->flight;
	w->flight = swap;
}

static bool
build_message(struct writer *w)
{
	struct list *l;

	w->sequence = shm_sequence_next();
	w->message.len = 0;
	if (!add_batch(w, w->flight))
		return false;
	LIST_FOREACH(l, &w->in_flight) {
		struct append *a = CONTAINER_OF(l, struct append, link);

		if (a->own != NULL && !add_batch(w, a->own))
			return false;
	}
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
	if (w->closed || w->entry.end + w->message.len > w->entry.size_bytes) {
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

static void
claim_done(struct op *op, int32_t res)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);
	struct store *s = w->store;
	struct shm_view_mark mark;
	struct err e = w->job_err;

	(void)res;
	w->at = WRITER_UNCLAIMED;
	if (!err_is(e)) {
		const struct shard_manifest *m = &w->claim.manifest;

		mark.shard = s->engine->ordinal;
		mark.marks = shm_shard_marks(w->state);
		mark.marks.version = m->version;
		mark.marks.epoch = m->epoch;
		mark.marks.replay_after = m->replay_after;
		mark.marks.pending_generations = m->generation_count;
		/* We hold a pin: the slot is there. */
		e = shm_view_raise(s->ref, 0, &mark, 1, NULL);
		MUST(!err_is(e));
	}
	shm_metric_add(METRIC_memwald_wal_claims_total, err_is(e) ?
	    METRIC_SUCCESS_FAILED : METRIC_SUCCESS_SUCCESS, 1);
	if (err_is(e)) {
		log_err(LOG_WARN, e, "shard not claimed, the next append "
		    "tries again store=%s", s->name);
		builder_clear(w->pending, KEEP_BYTES);
		answer_rotates(w, e);
		answer(w, &w->waiting, e);
	} else {
		w->entry = w->claim.entry;
		w->epoch = w->claim.manifest.epoch;
		w->closed = false;
		w->at = WRITER_READY;
		/* Our ordinal's, whatever the wall clock says by now. */
		shm_sequence_raise(w->claim.sequence);
		/* The new entry holds nothing yet: named as the last commit it
		 * would be a tail that no seal ever takes up. */
		shm_shard_claim(w->state, w->epoch, (struct shm_point){
		    w->claim.tail.position, w->claim.tail.end });
		shm_store_touch(s->ref);
		step(w);
	}
	store_close(s);
}

static int32_t
run_claim(struct op *op)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);

	w->job_err = claim_shard(w->store->dir, &w->shard,
	    &w->store->shape->schema, &w->claim);
	return 0;
}

static void
claim(struct writer *w)
{
	w->at = WRITER_CLAIMING;
	w->op.done = claim_done;
	store_hold(w->store);
	pool_submit_first(w->store->engine->pool, &w->op, run_claim);
}

/* Whether the shard has commits that no generation covers. */
static bool
has_tail(const struct writer *w)
{
	return shm_shard_commit(w->state).position >
	    shm_shard_marks(w->state).replay_after;
}

/* What can be done now: rotations that were asked for before the next commit,
 * since they close what was acknowledged. */
static void
step(struct writer *w)
{
	if (w->at == WRITER_READY && w->rotate_count > 0) {
		close_entry(w);
		answer_rotates(w, OK);
	}
	if (w->at == WRITER_UNCLAIMED && w->rotate_count > 0) {
		if (has_tail(w))
			claim(w);
		else
			answer_rotates(w, OK);
	}
	if (!list_empty(&w->waiting))
		make_due(w);
}

static void
start_due(struct engine *en, struct list *due, bool alone)
{
	struct list *l;

	while ((l = list_pop(due)) != NULL) {
		struct writer *w = CONTAINER_OF(l, struct writer, due_link);

		en->due_count--;
		if (list_empty(&w->waiting))
			continue;
		if (w->at == WRITER_UNCLAIMED)
			claim(w);
		else if (w->at == WRITER_READY)
			commit(w, alone);
		/* Else it is stepped when what is in flight has ended. */
	}
}

/* Until nothing is due: what an inline commit left for the next one must not
 * sleep with the loop. Each pass takes at least one request of each writer. */
void
append_start_due(struct engine *en)
{
	while (!list_empty(&en->due)) {
		bool alone = en->due_count == 1 &&
		    loop_idle_otherwise(en->loop);
		struct list due;

		list_init(&due);
		list_splice(&due, &en->due);
		start_due(en, &due, alone);
	}
}

struct rotate_job {		/* a store that this worker has not open yet */
	struct store_wait wait;
	struct shm_command command;
};

static void
rotate_store(struct store *s, const struct shm_command *command)
{
	struct err e = s->writer == NULL ? writer_new(s) : OK;
	struct writer *w = s->writer;

	if (!err_is(e) && w->rotate_count == ROTATES_MAX)
		e = FAIL(BUSY, "too many rotations of one store");
	if (err_is(e)) {
		shm_mailbox_reply(command, e, 0);
		return;
	}
	w->rotates[w->rotate_count++] = *command;
	step(w);
}

static void
rotate_opened(struct store_wait *wait, struct err e)
{
	struct rotate_job *j = CONTAINER_OF(wait, struct rotate_job, wait);

	if (err_is(e)) {
		shm_mailbox_reply(&j->command, e, 0);
	} else {
		rotate_store(wait->store, &j->command);
		store_close(wait->store);
	}
	free(j);
}

void
append_rotate(struct engine *en, const struct shm_command *command)
{
	struct store *s = store_by_ref(en, command->store);
	struct shm_store_info info;
	struct rotate_job *j;

	if (s != NULL) {
		rotate_store(s, command);
		return;
	}
	if (!shm_store_peek(command->store, &info) ||
	    kind_get(info.kind) == NULL) {
		shm_mailbox_reply(command, FAIL(NOT_FOUND,
		    "store is not resident any more"), 0);
		return;
	}
	j = calloc(1, sizeof(*j));
	if (j == NULL) {
		shm_mailbox_reply(command, FAIL(NO_MEMORY, "rotate"), 0);
		return;
	}
	j->command = *command;
	j->wait.done = rotate_opened;
	store_open(en, kind_get(info.kind), info.name, &j->wait);
}
