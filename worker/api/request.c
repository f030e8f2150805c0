#include "common/base.h"

#include "common/clock.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "worker/api/media.h"
#include "worker/api/query.h"
#include "worker/api/request.h"
#include "worker/store/registry.h"

#define PENDING_RETRY_SECS 5
#define SEAL_SPAN_NS	(60 * NS_PER_SEC)

static struct engine *engine;

void
api_init(struct engine *en)
{
	engine = en;
}

struct engine *
api_engine(void)
{
	return engine;
}

void *
api_state(struct http_request *r, size_t bytes)
{
	void *p = arena_calloc(&r->arena, 1, bytes);

	if (p == NULL)
		http_reply_err(r, FAIL(NO_MEMORY, "request state"));
	return p;
}

void *
api_json_state(struct http_request *r, size_t bytes)
{
	struct err e = media_need_json(r->head.content_type);

	if (err_is(e)) {
		http_reply_err(r, e);
		return NULL;
	}
	return api_state(r, bytes);
}

static struct slice
name_of(const struct api_request *q)
{
	return q->r->head.segments[API_SEGMENT_NAME];
}

void
api_reply_err(struct api_request *q, struct err e)
{
	if (e.kind == ERR_NOT_FOUND)
		e.what = arena_printf(&q->r->arena, "%s '%.*s' does not exist",
		    q->kind->title, (int)name_of(q).len, name_of(q).ptr);
	http_reply_err(q->r, e);
}

void
api_reply_no_version(struct api_request *q, uint64_t version)
{
	http_reply_err(q->r, FAIL(NOT_FOUND, arena_printf(&q->r->arena,
	    "%s '%.*s' has no version %llu", q->kind->title,
	    (int)name_of(q).len, name_of(q).ptr,
	    (unsigned long long)version)));
}

void
api_reply_read_err(struct api_request *q, struct err e)
{
	if (e.kind == ERR_BUSY)
		http_reply_err_as(q->r, e, NULL, PENDING_RETRY_SECS);
	else
		http_reply_err(q->r, e);
}

void
api_ask_seal(struct api_request *q, struct engine_call *call)
{
	struct shm_command seal = { .kind = SHM_MAIL_SEAL,
	    .store = q->store->ref };
	struct err e = engine_call(engine, call, SHM_MAINTAINER, &seal,
	    SEAL_SPAN_NS);

	if (err_is(e))
		http_reply_err(q->r, e);
}

static void
viewed(struct store_wait *w, struct err e)
{
	struct api_request *q = CONTAINER_OF(w, struct api_request, wait);

	if (e.kind == ERR_NOT_FOUND && w->past &&
	    (shm_store_flags(q->store->ref) & SHM_FLAG_DELETED) == 0) {
		api_reply_no_version(q, w->version);
	} else if (err_is(e)) {
		api_reply_err(q, e);
	} else {
		q->view = w->snapshot;
		q->then(q);
	}
}

const struct kind *
api_kind(const struct http_request *r)
{
	const struct kind *kind = kind_find(r->head.segments[API_SEGMENT_KIND]);

	MUST(kind != NULL);	/* routes are for kinds that there are */
	return kind;
}

static void
opened(struct store_wait *w, struct err e)
{
	struct api_request *q = CONTAINER_OF(w, struct api_request, wait);

	if (err_is(e)) {
		api_reply_err(q, e);
		return;
	}
	q->store = w->store;
	q->then(q);
}

static void
opened_view(struct store_wait *w, struct err e)
{
	struct api_request *q = CONTAINER_OF(w, struct api_request, wait);

	if (err_is(e)) {
		api_reply_err(q, e);
		return;
	}
	q->store = w->store;
	w->done = viewed;
	w->strong |= (q->store->shape->flags & SHAPE_READ_STRONG) != 0;
	read_view(q->store, w);
}

static void
start(struct api_request *q, struct http_request *r, const struct kind *kind,
    void (*done)(struct store_wait *, struct err),
    void (*then)(struct api_request *))
{
	struct err e;
	char *name;

	q->r = r;
	q->kind = kind;
	q->then = then;
	q->wait.done = done;
	arena_init(&q->rows, API_ROWS_BYTES_MAX);
	r->user = q;
	e = registry_name_check(name_of(q));
	if (err_is(e)) {
		http_reply_err(r, e);
		return;
	}
	name = arena_copy(&r->arena, name_of(q));
	if (name == NULL) {
		http_reply_err(r, FAIL(NO_MEMORY, "request state"));
		return;
	}
	shm_metric_add(METRIC_memwald_store_requests_total, 0, 1);
	store_open(engine, kind, name, &q->wait);
}

void
api_open(struct api_request *q, struct http_request *r,
    const struct kind *kind, void (*then)(struct api_request *))
{
	start(q, r, kind, opened, then);
}

void
api_open_view(struct api_request *q, struct http_request *r,
    const struct kind *kind, void (*then)(struct api_request *))
{
	struct err e = query_strong(r->head.query, &r->arena,
	    &q->wait.strong);

	if (!err_is(e))
		e = query_version(r->head.query, &r->arena, &q->wait.past,
		    &q->wait.version);
	if (err_is(e))
		http_reply_err(r, e);
	else
		start(q, r, kind, opened_view, then);
}

void
api_close(struct api_request *q)
{
	snapshot_drop(q->held);
	arena_free(&q->rows);
	if (q->store != NULL)
		store_close(q->store);
	q->held = NULL;
	q->store = NULL;
}

void
api_finish(struct http_request *r)
{
	if (r->user != NULL)
		api_close(r->user);
}
