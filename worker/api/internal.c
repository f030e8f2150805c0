#include "common/base.h"

#include <stdio.h>
#include <strings.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/merge_target.h"
#include "common/secret.h"
#include "common/uuid.h"
#include "shm/instance.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "worker/api/handlers.h"
#include "worker/api/query.h"
#include "worker/api/request.h"

/*
 * Routes for other servers' masters (contract 2.7): a forced fold of a store, or
 * of one ordinal's shard in it, and what a master that coordinates merges asks,
 * to which the answer is that this server does it by itself.
 *
 * Who asks for all of a store that is to be folded by others is refused
 * (--merge-drain-targets).
 *
 * Who asks must know the secret (common/secret.h): 401 without it, 403 with a
 * wrong one. Where there is none he must be on this machine, else 403.
 */

#define FOLD_SPAN_NS	(55 * NS_PER_SEC)
#define CAPABILITY_BYTES_MAX (16u << 10)
#define BEARER		"Bearer "
#define BEARER_LEN	(sizeof(BEARER) - 1)

struct fold_request {
	struct api_request q;		/* first */
	struct engine_call call;
	uint64_t began_ns;
	bool one;			/* only this shard: */
	struct uuid shard;
};

static struct err
check_peer(const struct http_request *r)
{
	const struct slice *given;
	struct slice token;

	if (secret_get().len == 0)
		return http_peer_is_local(r) ? OK : FAIL(FORBIDDEN, "internal "
		    "routes answer only peers on this machine, unless the "
		    "server has an --internal-token-file");
	given = http_head_header(&r->head, "authorization");
	if (given == NULL || given->len < BEARER_LEN ||
	    strncasecmp(given->ptr, BEARER, BEARER_LEN) != 0)
		return FAIL(UNAUTHORIZED, "internal routes want "
		    "'Authorization: Bearer' with the internal token");
	token = slice_make(given->ptr + BEARER_LEN, given->len - BEARER_LEN);
	return secret_is(token) ? OK : FAIL(FORBIDDEN,
	    "the internal token is another");
}

/* False: he was told so. */
static bool
may_ask(struct http_request *r)
{
	struct err e = check_peer(r);

	if (err_is(e))
		http_reply_err(r, e);
	return !err_is(e);
}

/* A reply of the maintainer has no words of its own. */
static struct err
explain(const struct fold_request *f, struct err e)
{
	if (f->one && e.kind == ERR_BAD_INPUT)
		e.what = "query parameter 'ordinal': there is none of that "
		    "name in the assignment";
	else if (f->one && e.kind == ERR_FENCED)
		e.what = "the ordinal is not this server's";
	return e;
}

static void
folded(struct engine_call *call, struct err e, uint64_t reclaimed)
{
	struct fold_request *f = CONTAINER_OF(call, struct fold_request, call);
	struct http_request *r = f->q.r;

	/* Too long, or another run held the guard: come again. */
	if (e.kind == ERR_TIMED_OUT)
		e.kind = ERR_BUSY;
	if (err_is(e)) {
		api_reply_err(&f->q, explain(f, e));
		return;
	}
	shm_metric_observe(METRIC_rollout_wal_merge_request_duration_seconds,
	    0, clock_mono_ns() - f->began_ns);
	http_reply_json(r, 200, slice_of(arena_printf(&r->arena,
	    "{\"reclaimed\":%llu}", (unsigned long long)reclaimed)));
}

/* Also if it was begun for nobody else. */
static uint64_t
work_span_ns(void)
{
	return api_engine()->config->merge_execution_timeout_secs * NS_PER_SEC;
}

static bool
is_handed_over(const struct fold_request *f)
{
	return !f->one && merge_target_has(
	    api_engine()->config->merge_drain_targets,
	    store_kind_name(f->q.kind->id), f->q.store->name);
}

static void
fold_then(struct api_request *q)
{
	struct fold_request *f = CONTAINER_OF(q, struct fold_request, q);
	struct shm_command command = { .kind = SHM_MAIL_FOLD,
	    .store = q->store->ref };
	struct err e;

	if (is_handed_over(f)) {
		http_reply_err(q->r, FAIL(UNAVAILABLE, "merges of this store "
		    "are handed over (--merge-drain-targets)"));
		return;
	}
	f->began_ns = clock_mono_ns();
	command.args[0] = 1;
	if (f->one) {
		command.kind = SHM_MAIL_FOLD_SHARD;
		command.shard = f->shard;
		command.args[0] = q->kind->id;
		command.args[2] = f->began_ns + FOLD_SPAN_NS + work_span_ns();
		snprintf(command.text, sizeof(command.text), "%s",
		    q->store->name);
	}
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

/* One that is not known here has the shard of its name; if it has adopted
 * another, that is known when the maintainer has looked for it, and the next
 * call finds it. */
static struct uuid
shard_of(struct slice ordinal)
{
	uint32_t i, count = shm_ordinal_count();

	for (i = 0; i < count; i++) {
		if (slice_eq(shm_ordinal_name(i), ordinal))
			return shm_ordinal_shard(i);
	}
	return uuid_named(ordinal);
}

/* ?ordinal=NAME */
static struct err
asked_ordinal(struct http_request *r, struct fold_request *f)
{
	struct slice name;
	struct err e;

	e = query_text(r->head.query, "ordinal", &r->arena, &name, &f->one);
	if (err_is(e) || !f->one)
		return e;
	if (name.len == 0 || name.len > SHM_ORDINAL_NAME_MAX)
		return FAIL(BAD_INPUT,
		    "query parameter 'ordinal' must have 1 to 279 bytes");
	f->shard = shard_of(name);
	return OK;
}

static void
fold_begin(struct http_request *r)
{
	struct fold_request *f;
	const struct kind *kind;
	struct err e;

	if (!may_ask(r))
		return;
	f = api_state(r, sizeof(*f));
	if (f == NULL)
		return;
	e = asked_kind(r, &kind);
	if (!err_is(e))
		e = asked_ordinal(r, f);
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

static bool
write_capability(struct buf *to)
{
	const struct config *c = api_engine()->config;
	const char *drain = c->merge_drain_targets;
	/* Of this run of the server: whichever worker answers. */
	struct uuid run = shm_instance_holder();
	char instance[UUID_TEXT_LEN + 1];
	struct json_writer w;
	struct slice target;

	uuid_to_text(&run, instance);
	json_write_init(&w, to);
	json_write_open(&w, NULL, '{');
	json_write_uint64(&w, "protocol", 2);
	json_write_text(&w, "instance", slice_of(instance));
	json_write_uint64(&w, "timeout_secs", c->merge_execution_timeout_secs);
	json_write_uint64(&w, "queue_timeout_secs",
	    c->merge_queue_timeout_secs);
	json_write_uint64(&w, "idle_timeout_secs", c->merge_idle_timeout_secs);
	json_write_uint64(&w, "progress_protocol", 1);
	json_write_open(&w, "owned_targets", '[');
	json_write_close(&w, ']');
	json_write_open(&w, "drain_targets", '[');
	while (merge_target_next(&drain, &target))
		json_write_text(&w, NULL, target);
	json_write_close(&w, ']');
	json_write_close(&w, '}');
	return json_write_done(&w);
}

static void
executor_begin(struct http_request *r)
{
	char *copy = NULL;
	struct buf body;

	if (!may_ask(r))
		return;
	buf_init(&body, CAPABILITY_BYTES_MAX);
	if (write_capability(&body))
		copy = arena_copy(&r->arena, buf_slice(&body));
	buf_free(&body);
	if (copy != NULL)
		http_reply_json(r, 200, slice_of(copy));
	else
		http_reply_err(r, FAIL(NO_MEMORY, "merge executor"));
}

const struct http_handler api_internal_executor = { .begin = executor_begin };

static void
refuse_begin(struct http_request *r)
{
	if (!may_ask(r))
		return;
	http_reply_err(r, FAIL(BUSY, "coordinated merges are not served; use "
	    "POST /api/v1/internal/merge-wal/{name}"));
}

const struct http_handler api_internal_refuse = { .begin = refuse_begin };
