#include "common/base.h"

#include <stdlib.h>

#include "shm/metric.h"
#include "worker/store/read_past.h"

struct past_job {
	struct op op;
	struct store *store;
	uint64_t version;
	struct list waiting;		/* viewers that this run serves */
	struct base *previous;		/* held, or NULL */
	struct snapshot *snapshot;
	struct err err;
};

static void
serve(struct list *waiting, struct snapshot *snapshot, struct err e)
{
	struct list *l;

	while ((l = list_pop(waiting)) != NULL) {
		struct store_wait *w = CONTAINER_OF(l, struct store_wait, link);

		w->snapshot = snapshot;
		w->done(w, e);
	}
}

static int32_t
run(struct op *op)
{
	struct past_job *j = CONTAINER_OF(op, struct past_job, op);
	struct object_dir *dir = j->store->dir;

	j->err = snapshot_take_version(dir, j->store->shape, j->version,
	    j->previous, &j->snapshot);
	/* Its manifest goes first: then a file of it is missing for another
	 * reason, which a second try may find. */
	if (j->err.kind == ERR_NOT_FOUND &&
	    !err_is(table_version_exists(dir, j->version)))
		j->err = FAIL(UNAVAILABLE, "a file of this version is missing");
	return 0;
}

static void open_next(struct store *);

static void
done(struct op *op, int32_t res)
{
	struct past_job *j = CONTAINER_OF(op, struct past_job, op);
	struct store *s = j->store;

	(void)res;
	s->past_opening = false;
	base_drop(j->previous);
	if (!err_is(j->err)) {
		snapshot_drop(s->past);
		s->past = j->snapshot;
		source_cache_used(s, KEPT_VIEW);
	}
	serve(&j->waiting, err_is(j->err) ? NULL : s->past, j->err);
	free(j);
	open_next(s);
	store_close(s);
}

static void
start(struct store *s, uint64_t version, struct list *waiting)
{
	struct past_job *j = calloc(1, sizeof(*j));

	if (j == NULL) {
		serve(waiting, NULL, FAIL(NO_MEMORY, "open a version"));
		return;
	}
	list_init(&j->waiting);
	list_splice(&j->waiting, waiting);
	j->store = store_hold(s);
	j->version = version;
	/* The present and the past have most in common. */
	if (s->snapshot != NULL)
		j->previous = base_hold(s->snapshot->base);
	else if (s->past != NULL)
		j->previous = base_hold(s->past->base);
	j->op.done = done;
	s->past_opening = true;
	shm_metric_add(METRIC_memwald_source_cache_misses_total, 0, 1);
	if (pool_submit(s->engine->pool, &j->op, run))
		return;
	j->err = FAIL(BUSY, "too many reads are waiting");
	done(&j->op, 0);
}

/* The viewers that want the same version as the first. */
static uint64_t
take_alike(struct store *s, struct list *alike)
{
	struct list *l = s->past_viewers.next, *next;
	uint64_t version = CONTAINER_OF(l, struct store_wait, link)->version;

	list_init(alike);
	for (; l != &s->past_viewers; l = next) {
		next = l->next;
		if (CONTAINER_OF(l, struct store_wait, link)->version !=
		    version)
			continue;
		list_remove(l);
		list_append(alike, l);
	}
	return version;
}

static void
open_next(struct store *s)
{
	struct list alike;
	uint64_t version;
	struct err e;

	while (!s->past_opening && !list_empty(&s->past_viewers)) {
		version = take_alike(s, &alike);
		e = table_version_exists(s->dir, version);
		if (err_is(e)) {
			serve(&alike, NULL, e);
		} else if (s->past != NULL &&
		    s->past->base->table->version == version) {
			source_cache_used(s, KEPT_VIEW);
			shm_metric_add(
			    METRIC_memwald_source_cache_hits_total, 0, 1);
			serve(&alike, s->past, OK);
		} else {
			start(s, version, &alike);
		}
	}
}

void
read_past(struct store *s, struct store_wait *w)
{
	list_append(&s->past_viewers, &w->link);
	open_next(s);
}
