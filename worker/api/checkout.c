#include "common/base.h"

#include "common/json.h"
#include "worker/api/handlers.h"
#include "worker/api/request.h"
#include "worker/store/pin.h"

/*
 * POST .../checkout: pins a store to a version of its base table, or, with
 * null, releases it (contract 2.4.5). The answer says which version is read
 * from now on.
 */

struct checkout_request {
	struct api_request q;		/* first; its rows: texts of the job */
	uint64_t version;		/* 0: released */
	bool none;			/* version 0 was asked for */
	uint64_t base_version;		/* the newest one, afterwards */
	struct op op;			/* the job */
	struct err err;
};

static struct checkout_request *
of(struct http_request *r)
{
	return CONTAINER_OF((struct api_request *)r->user,
	    struct checkout_request, q);
}

static int32_t
run(struct op *op)
{
	struct checkout_request *c =
	    CONTAINER_OF(op, struct checkout_request, op);

	c->err = pin_change(c->q.store->dir, c->q.store->ref, c->version,
	    &c->q.rows, &c->base_version);
	return 0;
}

static void
done(struct op *op, int32_t res)
{
	struct checkout_request *c =
	    CONTAINER_OF(op, struct checkout_request, op);
	struct http_request *r = c->q.r;

	(void)res;
	if (c->err.kind == ERR_NOT_FOUND &&
	    (shm_store_flags(c->q.store->ref) & SHM_FLAG_DELETED) == 0)
		api_reply_no_version(&c->q, c->version);
	else if (err_is(c->err))
		api_reply_err(&c->q, c->err);
	else
		http_reply_json(r, 200, slice_of(arena_printf(&r->arena,
		    "{\"version\":%llu}", (unsigned long long)
		    (c->version != 0 ? c->version : c->base_version))));
}

static void
checkout_then(struct api_request *q)
{
	struct checkout_request *c = of(q->r);

	if (c->none) {
		api_reply_no_version(q, 0);
		return;
	}
	c->op.done = done;
	if (!pool_submit(api_engine()->pool, &c->op, run))
		http_reply_err(q->r, FAIL(BUSY, "too many jobs are waiting"));
}

/* null is an answer, nothing is not. */
static bool
has_version(const struct json *object)
{
	const struct json *child;

	JSON_FOREACH(child, object) {
		if (slice_eq(child->name, SLICE("version")))
			return true;
	}
	return false;
}

static struct err
parse(struct checkout_request *c, struct arena *arena, struct slice body)
{
	const struct json *object, *version = NULL;
	struct err e;

	e = json_parse(arena, body, "body", &object);
	if (!err_is(e))
		e = json_get(arena, object, "version", JSON_OPTIONAL, &version);
	if (!err_is(e) && version == NULL && !has_version(object))
		e = FAIL(SHAPE, "version: required, a number or null");
	if (!err_is(e) && version != NULL) {
		e = json_get_uint64(arena, object, "version", JSON_REQUIRED,
		    &c->version);
		c->none = c->version == 0;
	}
	return e;
}

static enum http_flow
checkout_body(struct http_request *r, struct slice body, bool last)
{
	struct checkout_request *c = of(r);
	struct err e = parse(c, &r->arena, body);

	MUST(last);
	if (err_is(e))
		http_reply_err(r, e);
	else
		api_open(&c->q, r, api_kind(r), checkout_then);
	return HTTP_CONTINUE;
}

static void
checkout_begin(struct http_request *r)
{
	struct checkout_request *c = api_json_state(r, sizeof(*c));

	if (c == NULL)
		return;
	c->q.r = r;
	arena_init(&c->q.rows, API_ROWS_BYTES_MAX);
	r->user = &c->q;
}

const struct http_handler api_store_checkout = {
	.begin = checkout_begin,
	.body = checkout_body,
	.finish = api_finish,
};
