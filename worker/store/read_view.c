#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/metric.h"
#include "worker/store/pressure.h"
#include "worker/store/read.h"
#include "worker/store/read_past.h"
#include "worker/store/reload.h"

/* A view that vanishes under us each time: then 503 (contract 4.3). */
#define VIEW_TRIES	3
/* A directory's time of change moves with the kernel's ticks. */
#define SETTLED_NS	(20 * NS_PER_MS)
/* What the loop reads by itself, without a thread. */
#define FOLLOW_INLINE_MAX (256u << 10)

struct view_job {
	struct op op;
	struct store *store;
	struct list waiting;		/* viewers that this run serves */
	struct snapshot *snapshot;	/* taken now, or the store's, held */
	uint32_t tail_count;
	struct tail **tails;		/* the store's, meanwhile */
	bool tails_only, strong;
	uint64_t began_ns;
	struct err err;
};

static void
free_tails(struct tail **tails, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		tail_free(tails[i]);
	free(tails);
}

void
read_close(struct store *s)
{
	snapshot_drop(s->snapshot);
	snapshot_drop(s->past);
	free_tails(s->tails, s->tail_count);
	s->snapshot = s->past = NULL;
	s->tails = NULL;
	s->tail_count = 0;
	source_cache_gone(s, KEPT_VIEW);
}

/* Tails in the order of the snapshot's shards; those that were there stay. */
static struct err
match_tails(struct view_job *j)
{
	const struct snapshot *s = j->snapshot;
	struct tail **tails = calloc(MAX(s->shard_count, 1u), sizeof(*tails));
	struct err e = OK;
	uint32_t i, k;

	if (tails == NULL)
		return FAIL(NO_MEMORY, "follow shards");
	for (i = 0; i < s->shard_count; i++) {
		for (k = 0; k < j->tail_count && tails[i] == NULL; k++) {
			if (j->tails[k] != NULL && uuid_eq(
			    tail_shard(j->tails[k]), &s->shards[i].uuid)) {
				tails[i] = j->tails[k];
				j->tails[k] = NULL;
			}
		}
		if (tails[i] == NULL)
			e = tail_new(j->store->shape, &s->shards[i].uuid,
			    &tails[i]);
		if (err_is(e))
			break;
	}
	free_tails(j->tails, j->tail_count);
	j->tails = tails;
	j->tail_count = s->shard_count;
	return e;
}

/* The end to follow a shard to: what its owner has published. */
static struct shm_point
published(const struct snapshot *s, uint32_t i)
{
	return shm_shard_commit(shm_store_shard(s->view.ref,
	    s->shards[i].shard));
}

static struct err
follow_tails(const struct snapshot *s, struct tail **tails,
    struct object_dir *dir)
{
	struct err e = OK;
	uint32_t i;

	for (i = 0; !err_is(e) && i < s->shard_count; i++) {
		uint64_t from = s->shards[i].manifest.replay_after;

		tail_trim(tails[i], from);
		e = tail_follow(tails[i], dir, from, published(s, i));
	}
	return e;
}

static int32_t
run_view(struct op *op)
{
	struct view_job *j = CONTAINER_OF(op, struct view_job, op);
	struct store *s = j->store;
	int tries = 0;

	do {
		if (!j->tails_only || tries > 0) {
			struct snapshot *taken;

			j->err = j->strong ? reload_tails(s->dir, s->kind,
			    s->ref) : OK;
			if (!err_is(j->err))
				j->err = reload_others(s->dir, s->kind, s->ref);
			if (!err_is(j->err))
				j->err = pressure_read(s->engine->config,
				    s->ref);
			if (!err_is(j->err))
				j->err = snapshot_take(s->dir, s->shape,
				    s->ref, &s->readers, j->snapshot, &taken);
			if (err_is(j->err))
				continue;
			snapshot_drop(j->snapshot);
			j->snapshot = taken;
			j->err = match_tails(j);
		}
		if (!err_is(j->err) && j->snapshot->view.pinned_version == 0)
			j->err = follow_tails(j->snapshot, j->tails, s->dir);
	} while (j->err.kind == ERR_NOT_FOUND && ++tries < VIEW_TRIES);
	return 0;
}

static void
serve(const struct store *s, struct list *waiting, struct err e)
{
	struct list *l;

	while ((l = list_pop(waiting)) != NULL) {
		struct store_wait *w = CONTAINER_OF(l, struct store_wait, link);

		w->snapshot = s->snapshot;
		w->done(w, e);
	}
}

static void
count_refused(const struct store *s, const struct list *waiting)
{
	struct shm_slot *slot = shm_store_slot(s->ref);
	struct list *l;

	LIST_FOREACH(l, waiting) {
		if (slot != NULL)
			atomic_fetch_add_explicit(&slot->reads_refused, 1,
			    memory_order_relaxed);
	}
}

/* The version that it is pinned to is not there any more: who waits is told
 * which one that is. */
static bool
pin_is_gone(const struct store *s, const struct list *waiting)
{
	uint64_t pinned = store_pinned(s);
	struct list *l;

	if (pinned == 0 || table_version_exists(s->dir, pinned).kind !=
	    ERR_NOT_FOUND)
		return false;
	LIST_FOREACH(l, waiting) {
		struct store_wait *w = CONTAINER_OF(l, struct store_wait, link);

		w->past = true;
		w->version = pinned;
	}
	return true;
}

static void view_or_job(struct store *);

static bool
any_strong(const struct list *waiting)
{
	struct list *l;

	LIST_FOREACH(l, waiting) {
		if (CONTAINER_OF(l, struct store_wait, link)->strong)
			return true;
	}
	return false;
}

static void
view_done(struct op *op, int32_t res)
{
	struct view_job *j = CONTAINER_OF(op, struct view_job, op);
	struct store *s = j->store;
	struct err e = j->err;

	(void)res;
	s->viewing = false;
	snapshot_drop(s->snapshot);
	s->snapshot = j->snapshot;
	s->tails = j->tails;
	s->tail_count = j->tail_count;
	if (e.kind == ERR_NOT_FOUND &&
	    (shm_store_flags(s->ref) & SHM_FLAG_DELETED) == 0 &&
	    !pin_is_gone(s, &j->waiting))
		e = FAIL(UNAVAILABLE, "the store changed during the read");
	if (!err_is(e) && !j->tails_only)
		s->listed_ns = j->began_ns;
	if (err_is(e) && s->snapshot != NULL) {
		/* What was half followed is followed anew. */
		read_close(s);
	}
	if (s->snapshot != NULL)
		source_cache_used(s, KEPT_VIEW);
	if (e.kind == ERR_BACKLOG)
		count_refused(s, &j->waiting);
	serve(s, &j->waiting, e);
	free(j);
	if (!list_empty(&s->viewers) && !s->viewing)
		view_or_job(s);
	store_close(s);
}

static void
start_job(struct store *s, bool tails_only)
{
	struct view_job *j = calloc(1, sizeof(*j));

	if (j == NULL) {
		serve(s, &s->viewers, FAIL(NO_MEMORY, "take a view"));
		return;
	}
	list_init(&j->waiting);
	list_splice(&j->waiting, &s->viewers);
	j->store = store_hold(s);
	j->snapshot = s->snapshot == NULL ? NULL : snapshot_hold(s->snapshot);
	j->tails = s->tails;
	j->tail_count = s->tail_count;
	j->strong = any_strong(&j->waiting);
	j->tails_only = tails_only;
	j->began_ns = loop_now_ns(s->engine->loop);
	shm_metric_add(tails_only ? METRIC_memwald_source_cache_hits_total :
	    METRIC_memwald_source_cache_misses_total, 0, 1);
	j->op.done = view_done;
	s->tails = NULL;
	s->tail_count = 0;
	s->viewing = true;
	if (pool_submit(s->engine->pool, &j->op, run_view))
		return;
	j->err = FAIL(BUSY, "too many reads are waiting");
	view_done(&j->op, 0);
}

/* Then the next version may have been collected, and so not be found missing. */
static bool
is_old(const struct store *s)
{
	return loop_now_ns(s->engine->loop) - s->listed_ns >=
	    s->engine->config->grace_secs * NS_PER_SEC / 2;
}

/*
 * Whether others moved on without telling us: the next base version, the next
 * manifest of a shard that is not ours, a shard that was made. A look each; on
 * the pool it is then found by listing, as it is without a look when half the
 * grace is over.
 */
static bool
others_moved(struct store *s)
{
	const struct snapshot *snap = s->snapshot;
	uint64_t changed;
	uint32_t i;

	if (is_old(s))
		return true;
	if (!err_is(table_version_exists(s->dir,
	    snap->view.base_version + 1)))
		return true;
	if (!err_is(object_dir_changed(s->dir, "_mem_wal", &changed)) &&
	    changed != s->shards_seen_ns) {
		/* A change within the tick of its clock could be missed, so
		 * it is believed only when it is older. */
		if (changed + SETTLED_NS < clock_wall_us() * NS_PER_US)
			s->shards_seen_ns = changed;
		return true;
	}
	for (i = 0; i < snap->shard_count; i++) {
		char name[SHARD_NAME_MAX];

		if (!reload_is_others(s->ref, snap->shards[i].shard))
			continue;
		shard_manifest_name(&snap->shards[i].uuid,
		    snap->shards[i].manifest.version + 1, name);
		if (!err_is(object_exists(s->dir, name)))
			return true;
	}
	return false;
}

/* Whether a strong read has anybody to ask. */
static bool
has_others(const struct store *s)
{
	const struct snapshot *snap = s->snapshot;
	uint32_t i;

	for (i = 0; i < snap->shard_count; i++) {
		if (reload_is_others(s->ref, snap->shards[i].shard))
			return true;
	}
	return false;
}

static uint64_t
bytes_behind(const struct store *s)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < s->snapshot->shard_count; i++) {
		struct shm_point p = published(s->snapshot, i);

		if (p.position > s->snapshot->shards[i].manifest.replay_after)
			bytes += tail_behind(s->tails[i], p);
	}
	return bytes;
}

static void
found_open(struct store *s)
{
	source_cache_used(s, KEPT_VIEW);
	shm_metric_add(METRIC_memwald_source_cache_hits_total, 0, 1);
}

/*
 * Serves all viewers now if what is open is current and the tails are close,
 * else on the pool. Last commits are looked at before the serial is compared:
 * if it is still ours, what they name lies in this snapshot or behind it.
 */
static void
view_or_job(struct store *s)
{
	struct list waiting;
	uint64_t behind;
	struct err e;

	if (s->snapshot == NULL) {
		start_job(s, false);
		return;
	}
	behind = bytes_behind(s);
	if (!snapshot_is_current(s->snapshot) || others_moved(s) ||
	    (any_strong(&s->viewers) && has_others(s))) {
		start_job(s, false);
	} else if (s->snapshot->view.pinned_version != 0) {
		list_init(&waiting);
		list_splice(&waiting, &s->viewers);
		found_open(s);
		serve(s, &waiting, OK);
	} else if (behind > FOLLOW_INLINE_MAX) {
		start_job(s, true);
	} else {
		e = behind == 0 ? OK :
		    follow_tails(s->snapshot, s->tails, s->dir);
		if (e.kind == ERR_NOT_FOUND) {
			start_job(s, false);
			return;
		}
		list_init(&waiting);
		list_splice(&waiting, &s->viewers);
		found_open(s);
		serve(s, &waiting, e);
	}
}

void
read_view(struct store *s, struct store_wait *w)
{
	if (w->past) {
		read_past(s, w);
		return;
	}
	list_append(&s->viewers, &w->link);
	if (!s->viewing)
		view_or_job(s);
}
