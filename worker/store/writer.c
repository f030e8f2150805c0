#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/instance.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/sequence.h"
#include "shm/view.h"
#include "worker/store/opened.h"
#include "worker/store/reload.h"
#include "worker/store/wal.h"
#include "worker/store/writer.h"

#define SAY_AGAIN_NS		(10 * NS_PER_SEC)
/* From this size on an entry's successor is made as soon as it is begun: when
 * half of it is used it may be full before that is on the disk. */
#define BUSY_ENTRY_BYTES	(1u << 20)

/* Unless another claim of this life stands there by now: of the handle that
 * came after ours. */
static void
unclaim(struct writer *w)
{
	if (shm_shard_claimed(w->state).epoch == w->epoch)
		shm_shard_unclaim(w->state);
}

void
writer_count(struct writer *w)
{
	uint32_t n = (w->entry.fd >= 0) + w->has_next;

	opened_change(OPENED_DESCRIPTORS, w->descriptors, n);
	w->descriptors = n;
	if (n > 0)
		source_cache_used(w->store, KEPT_ENTRY);
	else
		source_cache_gone(w->store, KEPT_ENTRY);
}

static void
abandon_next(struct writer *w)
{
	if (w->has_next)
		object_entry_abandon(w->store->dir, &w->next);
	w->has_next = false;
}

struct err
writer_new(struct store *s)
{
	struct writer *w = calloc(1, sizeof(*w));
	struct err e;

	if (w == NULL)
		return FAIL(NO_MEMORY, "write to a store");
	e = shm_store_pin(s->ref);
	if (err_is(e)) {
		free(w);
		return e;
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
	arena_init(&w->parts, 16u << 20);
	s->writer = w;
	e = wal_layout_init(&w->layout, &s->shape->schema, &w->layout_arena);
	w->pending->schema = w->flight->schema = &s->shape->schema;
	if (err_is(e))
		writer_free(s);
	return e;
}

struct err
writer_builders(struct writer *w)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(w->builders) && !err_is(e); i++) {
		if (w->builders[i].columns == NULL)
			e = builder_init(&w->builders[i],
			    &w->store->shape->schema, APPEND_COMMIT_MAX);
	}
	return e;
}

bool
writer_busy(const struct writer *w)
{
	return w->at == WRITER_CLAIMING || w->at == WRITER_WRITING ||
	    w->at == WRITER_ROTATING || w->making_next ||
	    !list_empty(&w->waiting);
}

void
writer_free(struct store *s)
{
	struct writer *w = s->writer;

	MUST(!writer_busy(w) && w->rotate_count == 0);
	if (!list_empty(&w->due_link)) {
		list_remove(&w->due_link);
		s->engine->due_count--;
	}
	if (w->at == WRITER_READY)
		unclaim(w);
	wal_writer_close(&w->entry);
	abandon_next(w);
	writer_count(w);
	builder_free(&w->builders[0]);
	builder_free(&w->builders[1]);
	buf_free(&w->message);
	arena_free(&w->layout_arena);
	arena_free(&w->parts);
	shm_store_unpin(s->ref);
	s->writer = NULL;
	free(w);
}

void
writer_due(struct writer *w)
{
	if (!list_empty(&w->due_link))
		return;
	list_append(&w->store->engine->due, &w->due_link);
	w->store->engine->due_count++;
}

void
writer_answer(struct writer *w, struct list *appends, struct err e)
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
	if (w->pending->row_count == 0) {
		builder_free(w->flight);
		builder_free(w->pending);
	} else {
		builder_clear(w->flight, 0);
	}
	buf_free(&w->message);
}

/* Closes the entry: its end is the last acknowledged one, for good. */
void
writer_close_entry(struct writer *w)
{
	if (w->closed || w->entry.end <= w->entry.head_bytes)
		return;
	shm_shard_close(w->state, (struct shm_point){ w->entry.position,
	    w->entry.end });
	w->closed = true;
	wal_writer_close(&w->entry);
	writer_count(w);
	give_back_buffers(w);
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
void
writer_lose_claim(struct writer *w)
{
	unclaim(w);
	wal_writer_close(&w->entry);
	abandon_next(w);
	writer_count(w);
	w->at = WRITER_UNCLAIMED;
}

bool
writer_claim_lasts(const struct writer *w)
{
	return shm_lease_term_lasts(w->term) &&
	    shm_ordinal_moves(w->store->engine->ordinal) == w->moves;
}

void
writer_release(struct writer *w)
{
	if (w->at != WRITER_READY || writer_claim_lasts(w))
		return;
	writer_close_entry(w);
	writer_lose_claim(w);
}

/* The entry may hold anything now: it is not written to again. Its last
 * acknowledged end is what its successor records and what a seal goes by. */
void
writer_give_up_entry(struct writer *w)
{
	writer_close_entry(w);
	w->closed = true;	/* also one without a commit */
	wal_writer_close(&w->entry);
	writer_count(w);
}

void
writer_rest(struct writer *w)
{
	if (w->at == WRITER_READY)
		writer_give_up_entry(w);
	abandon_next(w);
	writer_count(w);
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
		writer_count(w);
	}
	store_close(s);
}

static int32_t
make_next(struct op *op)
{
	struct writer *w = CONTAINER_OF(op, struct writer, next_op);
	char prefix[WAL_PATH_MAX];

	wal_folder(&w->shard, prefix);
	w->next_err = object_entry_create(w->store->dir, prefix,
	    w->next_bytes, &w->next_made);
	return 0;
}

/* Ahead of need, and only where writes go on. */
void
writer_prepare_next(struct writer *w)
{
	if (w->has_next || w->making_next || w->closed || w->entry.whole ||
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

bool
writer_is_gone(struct writer *w, struct err *e)
{
	struct err here = store_check_here(w->store);

	if (here.kind != ERR_UNAVAILABLE && here.kind != ERR_BAD_INPUT)
		return false;
	*e = here;
	store_forget(w->store);
	return true;
}

void
writer_refuse(struct writer *w, struct err e)
{
	builder_clear(w->pending, WRITER_KEEP_BYTES);
	answer_rotates(w, e);
	writer_answer(w, &w->waiting, e);
}

/* Each append tries: a server that may not write must not fill its log. */
static void
say_not_claimed(struct writer *w, struct err e)
{
	uint64_t now_ns = clock_mono_ns();

	if (w->said_ns != 0 && now_ns - w->said_ns < SAY_AGAIN_NS)
		return;
	log_err(LOG_WARN, e, "shard not claimed, the next append tries again "
	    "store=%s", w->store->name);
	w->said_ns = now_ns;
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
		(void)writer_is_gone(w, &e);
		say_not_claimed(w, e);
		writer_refuse(w, e);
	} else {
		w->entry = w->claim.entry;
		w->epoch = w->claim.manifest.epoch;
		w->closed = false;
		writer_count(w);
		w->at = WRITER_READY;
		/* Our ordinal's, whatever the wall clock says by now. */
		shm_sequence_raise(w->claim.sequence);
		/* The new entry holds nothing yet: named as the last commit it
		 * would be a tail that no seal ever takes up. */
		shm_shard_claim(w->state, s->engine->ordinal, w->epoch,
		    (struct shm_point){ w->claim.tail.position,
		    w->claim.tail.end });
		shm_store_touch(s->ref);
		if (!writer_claim_lasts(w))
			writer_lose_claim(w);
		writer_step(w);
	}
	store_close(s);
}

static int32_t
run_claim(struct op *op)
{
	struct writer *w = CONTAINER_OF(op, struct writer, op);
	const struct engine *en = w->store->engine;
	struct claim_right right = { .root = en->root, .ordinal = en->ordinal,
	    .owner = (uint16_t)SHM_WORKER(en->ordinal) };

	w->term = shm_lease_term();
	w->job_err = claim_ordinal(&right, w->store->dir, &w->shard,
	    &w->store->shape->schema, &w->claim);
	w->moves = right.moves;
	if (err_is(w->job_err))
		return 0;
	/* What a fold has drained of the manifest that is published with the
	 * claim is to be found in no older base. */
	w->job_err = reload_base(w->store->dir, w->store->ref);
	if (err_is(w->job_err))
		wal_writer_close(&w->claim.entry);
	return 0;
}

void
writer_claim(struct writer *w)
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
void
writer_step(struct writer *w)
{
	writer_release(w);
	if (w->at == WRITER_READY && w->rotate_count > 0) {
		writer_close_entry(w);
		/* Else another has claimed since, and went no further: another
		 * claim of ours records the end of what we closed. */
		if (shm_shard_claimed(w->state).newest)
			answer_rotates(w, OK);
		else
			writer_lose_claim(w);
	}
	if (w->at == WRITER_UNCLAIMED && w->rotate_count > 0) {
		if (has_tail(w))
			writer_claim(w);
		else
			answer_rotates(w, OK);
	}
	if (!list_empty(&w->waiting))
		writer_due(w);
}
