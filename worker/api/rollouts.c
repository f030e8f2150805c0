#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pool.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "worker/api/form.h"
#include "worker/api/handlers.h"
#include "worker/api/media.h"
#include "worker/api/query.h"
#include "worker/api/request.h"
#include "worker/api/row_event.h"
#include "worker/api/row_check.h"
#include "worker/api/row_read.h"
#include "worker/store/append.h"

/*
 * POST /api/v1/rollouts/{name}/records, and the appends of other kinds that are
 * one list of rows.
 *
 * A body that came whole is parsed into the writer's pending batch and cut
 * back if it is bad; a longer one goes piece by piece into a builder of its
 * own, which becomes a batch of its own; so does a multipart body, whatever its
 * length, since payloads come after all rows. Nothing is written before the
 * last byte was good.
 */

#define REPLY_BYTES_MAX	(256u << 20)
#define ID_LOGGED_MAX	((size_t)100)

struct append_request {
	struct api_request q;		/* first: r->user is one, too */
	struct row_read *reader;	/* of JSON */
	struct form *form;		/* of multipart; NULL: JSON */
	struct builder *own;		/* this request's, until submitted */
	struct op reorder;		/* of a form's payloads, on the pool */
	struct err reorder_err;
	struct row_read_result rows;
	struct append append;
	struct engine_call call;
	struct buf reply;
	bool flush;
	bool checkpoint;		/* of events */
	struct row_check check;		/* asked for */
	uint64_t began_ns;
};

static struct append_request *
of(struct http_request *r)
{
	return r->user == NULL ? NULL :
	    CONTAINER_OF((struct api_request *)r->user, struct append_request,
	    q);
}

static void
reply_done(struct append_request *a)
{
	enum metric_flush flush = a->flush ? METRIC_FLUSH_YES : METRIC_FLUSH_NO;

	shm_metric_add(METRIC_rollout_appends_total, flush, 1);
	shm_metric_add(METRIC_rollout_records_appended_total, 0,
	    a->append.row_count);
	shm_metric_observe(METRIC_rollout_add_request_duration_seconds, flush,
	    clock_mono_ns() - a->began_ns);
	http_reply_json(a->q.r, 201, buf_slice(&a->reply));
}

static void
sealed(struct engine_call *call, struct err e, uint64_t arg0)
{
	struct append_request *a =
	    CONTAINER_OF(call, struct append_request, call);

	(void)arg0;
	if (err_is(e)) {
		/* The rows are durable; only the seal is missing. */
		api_reply_err(&a->q, e);
		return;
	}
	shm_metric_add(METRIC_rollout_appends_flushed_total, 0, 1);
	reply_done(a);
}

static void
appended(struct append *append, struct err e)
{
	struct append_request *a =
	    CONTAINER_OF(append, struct append_request, append);

	if (err_is(e)) {
		shm_metric_add(METRIC_rollout_add_errors_total, 0, 1);
		http_reply_err(a->q.r, e);
		return;
	}
	if (!a->flush) {
		reply_done(a);
		return;
	}
	a->call.done = sealed;
	api_ask_seal(&a->q, &a->call);
}

/* The answer's text, made while the ids are still in the builder. */
static struct err
make_reply(struct append_request *a, const struct builder *b,
    const struct row_read_result *rows)
{
	struct json_writer w;
	uint64_t i;

	buf_init(&a->reply, REPLY_BYTES_MAX);
	json_write_init(&w, &a->reply);
	json_write_open(&w, NULL, '{');
	json_write_uint64(&w, "version", store_version(a->q.store));
	if (a->q.kind->append_ids) {
		json_write_open(&w, "ids", '[');
		for (i = 0; i < rows->count; i++)
			json_write_text(&w, NULL, row_read_key(b,
			    a->q.store->shape, rows->first_row + i));
		json_write_close(&w, ']');
	}
	json_write_uint64(&w, "count", rows->count);
	if (rows->ignored_count > 0) {
		json_write_open(&w, "ignored", '[');
		for (i = 0; i < rows->ignored_count; i++)
			json_write_text(&w, NULL, rows->ignored[i]);
		json_write_close(&w, ']');
	}
	json_write_close(&w, '}');
	return json_write_done(&w) ? OK :
	    FAIL(NO_MEMORY, "answer is too large");
}

static void
note_blobs(const struct append_request *a, const struct builder *b,
    const struct row_read_result *rows)
{
	const struct store *s = a->q.store;
	const struct store_shape *shape = s->shape;
	struct batch batch = builder_batch((struct builder *)b);
	uint64_t i, large = CONFIG_NOW(s->engine->config, rollout_large_blob_log_bytes);

	if (shape->blob < 0)
		return;

	for (i = rows->first_row; i < rows->first_row + rows->count; i++) {
		const struct array *blob = &batch.columns[shape->blob];
		struct slice id;
		uint64_t bytes;

		if (array_is_null(blob, i))
			continue;
		bytes = array_slice(blob, i).len;
		shm_metric_observe(METRIC_rollout_blob_bytes, 0, bytes);
		if (large == 0 || bytes < large)
			continue;
		id = row_read_key(b, shape, i);
		log_warn("large payload appended store=%s id=\"%.*s\" "
		    "bytes=%llu", s->name, (int)MIN(id.len, ID_LOGGED_MAX),
		    id.ptr, (unsigned long long)bytes);
	}
}

/* Rules across the rows of a request, where the kind has such. */
static struct err
check_rows(struct append_request *a, struct builder *b,
    const struct row_read_result *rows)
{
	struct batch batch = builder_batch(b);
	struct err e = row_check_rows(&a->check, &a->q.r->arena, &batch, rows);

	if (err_is(e) || (a->q.store->shape->flags & SHAPE_EVENTS) == 0)
		return e;
	return row_event_check(&a->q.r->arena, &batch,
	    (struct span){ rows->first_row, rows->count }, a->checkpoint);
}

/* The rows are in the builder. */
static void
submit_rows(struct append_request *a, struct builder *b, struct err e)
{
	if (!err_is(e))
		e = check_rows(a, b, &a->rows);
	if (!err_is(e))
		e = make_reply(a, b, &a->rows);
	if (err_is(e)) {
		http_reply_err(a->q.r, e);
		return;
	}
	note_blobs(a, b, &a->rows);
	if (a->rows.count == 0) {
		reply_done(a);		/* there is nothing to wait for */
		return;
	}
	a->append.done = appended;
	a->append.row_count = a->rows.count;
	a->append.own = a->own;
	a->own = NULL;
	append_submit(a->q.store, &a->append);
}

static int32_t
run_reorder(struct op *op)
{
	struct append_request *a =
	    CONTAINER_OF(op, struct append_request, reorder);

	a->reorder_err = form_reorder(a->form);
	return 0;
}

static void
reordered(struct op *op, int32_t res)
{
	struct append_request *a =
	    CONTAINER_OF(op, struct append_request, reorder);

	(void)res;
	submit_rows(a, a->own, a->reorder_err);
}

static void
submit_form(struct append_request *a)
{
	bool later;
	struct err e = form_finish(a->form, &a->rows, &later);

	if (err_is(e) || !later) {
		submit_rows(a, a->own, e);
		return;
	}
	a->reorder.done = reordered;
	if (!pool_submit(a->q.store->engine->pool, &a->reorder, run_reorder))
		http_reply_err(a->q.r, FAIL(BUSY, "too much to do at once"));
}

static void
submit(struct append_request *a, struct builder *b)
{
	struct err e;

	if (a->form != NULL) {
		submit_form(a);
		return;
	}
	e = row_read_finish(a->reader, &a->rows);
	submit_rows(a, b, e);
}

/* A whole body: into the batch that all short requests share. */
static void
take_whole(struct append_request *a, struct slice body)
{
	struct builder *b;
	uint64_t mark;
	struct err e;

	e = append_builder(a->q.store, &a->q.r->arena, &b);
	if (err_is(e)) {
		http_reply_err(a->q.r, e);
		return;
	}
	mark = b->row_count;
	e = row_read_open(&a->q.r->arena, a->q.store->shape,
	    a->q.kind->rows, (int64_t)clock_wall_us(), b, &a->reader);
	if (!err_is(e))
		e = row_read_feed(a->reader, body);
	if (err_is(e))
		http_reply_err(a->q.r, e);
	else
		submit(a, b);
	if (list_empty(&a->append.link))
		builder_cut(b, mark);	/* it was not submitted */
}

/* Begins a body that comes in pieces. */
static struct err
begin_pieces(struct append_request *a)
{
	struct builder *pending;
	struct err e;

	/* Refuses early, before a long body was read in vain. */
	e = append_builder(a->q.store, &a->q.r->arena, &pending);
	if (err_is(e))
		return e;
	a->own = malloc(sizeof(*a->own));
	if (a->own == NULL)
		return FAIL(NO_MEMORY, "append");
	e = builder_init(a->own, &a->q.store->shape->schema,
	    a->q.r->route->body_bytes_max);
	if (err_is(e)) {
		free(a->own);
		a->own = NULL;
		return e;
	}
	if (a->form != NULL)
		return form_open(a->form, a->q.store->shape, a->q.kind->rows,
		    (int64_t)clock_wall_us(), a->own);
	return row_read_open(&a->q.r->arena, a->q.store->shape,
	    a->q.kind->rows, (int64_t)clock_wall_us(), a->own, &a->reader);
}

static void
take_piece(struct append_request *a, struct slice piece, bool last)
{
	struct err e = OK;

	if (a->own == NULL && a->form == NULL && last) {
		take_whole(a, piece);
		return;
	}
	if (a->own == NULL)
		e = begin_pieces(a);
	if (!err_is(e))
		e = a->form != NULL ? form_feed(a->form, piece) :
		    row_read_feed(a->reader, piece);
	if (err_is(e))
		http_reply_err(a->q.r, e);
	else if (last)
		submit(a, a->own);
}

static void
store_is_open(struct api_request *q)
{
	http_resume(q->r);
}

/* *form stays NULL for JSON. */
static struct err
check_media(struct http_request *r, struct form **form)
{
	enum media media = media_of(r->head.content_type);
	bool any_body = api_kind(r)->any_body;

	if (media == MEDIA_MULTIPART && any_body)
		return form_new(&r->arena, r->head.content_type, form);
	if (media == MEDIA_JSON || (media == MEDIA_JSON_LIKE && !any_body))
		return OK;
	return any_body ?
	    FAIL(BAD_INPUT, "Content-Type must be application/json or "
	    "multipart/form-data") :
	    FAIL(MEDIA_TYPE, "Content-Type must be application/json");
}

static void
append_begin(struct http_request *r)
{
	struct err e = query_served(r->head.query, QUERY_APPEND,
	    &r->arena);
	struct append_request *a;
	struct form *form = NULL;
	struct row_check check;
	bool checkpoint = false;

	if (!err_is(e))
		e = row_check_read(r->head.query, api_kind(r), &r->arena,
		    &check);
	if (!err_is(e) && api_kind(r)->id == STORE_DATAGEN)
		e = query_bool(r->head.query, "checkpoint", &r->arena,
		    &checkpoint);
	if (!err_is(e))
		e = check_media(r, &form);
	if (err_is(e)) {
		http_reply_err(r, e);
		return;
	}
	a = api_state(r, sizeof(*a));
	if (a == NULL)
		return;
	list_init(&a->append.link);
	a->form = form;
	a->checkpoint = checkpoint;
	a->check = check;
	a->flush = query_flush(r->head.query);
	a->began_ns = clock_mono_ns();
	/* Held first: what must be looked up may take a job on the pool, and
	 * nobody is to send a body for a store that is not there. */
	http_hold(r);
	api_open(&a->q, r, api_kind(r), store_is_open);
}

static enum http_flow
append_body(struct http_request *r, struct slice piece, bool last)
{
	take_piece(of(r), piece, last);
	return HTTP_CONTINUE;
}

static void
append_finish(struct http_request *r)
{
	struct append_request *a = of(r);

	if (a == NULL)
		return;
	if (a->own != NULL) {
		builder_free(a->own);
		free(a->own);
	}
	form_free(a->form);
	buf_free(&a->reply);
	api_close(&a->q);
}

const struct http_handler api_rollout_append = {
	.begin = append_begin,
	.body = append_body,
	.finish = append_finish,
};
