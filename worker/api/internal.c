#include "common/base.h"

#include "common/clock.h"
#include "common/uuid.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "worker/api/handlers.h"
#include "worker/api/query.h"
#include "worker/api/request.h"

/*
 * Routes for other servers' masters (contract 2.7): a forced fold of a store,
 * and what a master that coordinates merges asks, to which the answer is that
 * this server does it by itself.
 */

#define FOLD_SPAN_NS	(55 * NS_PER_SEC)

struct fold_request {
	struct api_request q;		/* first */
	struct engine_call call;
	uint64_t began_ns;
};

static void
folded(struct engine_call *call, struct err e, uint64_t reclaimed)
{
	struct fold_request *f = CONTAINER_OF(call, struct fold_request, call);
	struct http_request *r = f->q.r;

	/* Too long, or another run held the guard: come again. */
	if (e.kind == ERR_TIMED_OUT)
		e.kind = ERR_BUSY;
	if (err_is(e)) {
		api_reply_err(&f->q, e);
		return;
	}
	shm_metric_observe(METRIC_rollout_wal_merge_request_duration_seconds,
	    0, clock_mono_ns() - f->began_ns);
	http_reply_json(r, 200, slice_of(arena_printf(&r->arena,
	    "{\"reclaimed\":%llu}", (unsigned long long)reclaimed)));
}

static void
fold_then(struct api_request *q)
{
	struct fold_request *f = CONTAINER_OF(q, struct fold_request, q);
	struct shm_command command = { .kind = SHM_MAIL_FOLD,
	    .store = q->store->ref };
	struct err e;

	f->began_ns = clock_mono_ns();
	command.args[0] = 1;
	command.args[1] = f->began_ns + FOLD_SPAN_NS;
	f->call.done = folded;
	e = engine_call(q->store->engine, &f->call, SHM_MAINTAINER, &command,
	    FOLD_SPAN_NS);
	if (err_is(e))
		http_reply_err(q->r, e);
}

static void
store_fold_begin(struct http_request *r)
{
	struct fold_request *f = api_state(r, sizeof(*f));

	if (f != NULL)
		api_open(&f->q, r, api_kind(r), fold_then);
}

const struct http_handler api_store_fold = {
	.begin = store_fold_begin,
	.finish = api_finish,
};

/* ?kind=generic; without it a rollout store (contract 2.7.1). */
static struct err
asked_kind(struct http_request *r, const struct kind **kind)
{
	struct slice name;
	bool found;
	struct err e;

	*kind = kind_get(STORE_ROLLOUT);
	e = query_text(r->head.query, "kind", &r->arena, &name, &found);
	if (err_is(e) || !found)
		return e;
	*kind = kind_find(name);
	return *kind != NULL ? OK : FAIL(BAD_INPUT,
	    "query parameter 'kind' must be rollout, datagen or generic");
}

static void
fold_begin(struct http_request *r)
{
	struct fold_request *f = api_state(r, sizeof(*f));
	const struct kind *kind;
	struct err e;

	if (f == NULL)
		return;
	e = asked_kind(r, &kind);
	if (err_is(e)) {
		http_reply_err(r, e);
		return;
	}
	/* /api/v1/internal/merge-wal/{name}: one segment further than others. */
	r->head.segments[API_SEGMENT_NAME] = r->head.segments[4];
	api_open(&f->q, r, kind, fold_then);
}

const struct http_handler api_internal_fold = {
	.begin = fold_begin,
	.finish = api_finish,
};

static void
executor_begin(struct http_request *r)
{
	static char instance[UUID_TEXT_LEN + 1];
	struct uuid fresh;

	if (instance[0] == '\0') {
		fresh = uuid_random();
		uuid_to_text(&fresh, instance);
	}
	http_reply_json(r, 200, slice_of(arena_printf(&r->arena,
	    "{\"protocol\":2,\"instance\":\"%s\",\"timeout_secs\":3600,"
	    "\"queue_timeout_secs\":600,\"idle_timeout_secs\":600,"
	    "\"progress_protocol\":1,\"owned_targets\":[],"
	    "\"drain_targets\":[]}", instance)));
}

const struct http_handler api_internal_executor = { .begin = executor_begin };

static void
refuse_begin(struct http_request *r)
{
	http_reply_err(r, FAIL(BUSY, "coordinated merges are not served; use "
	    "POST /api/v1/internal/merge-wal/{name}"));
}

const struct http_handler api_internal_refuse = { .begin = refuse_begin };
