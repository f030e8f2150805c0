#include "common/base.h"

#include <stdlib.h>

#include "common/fault.h"
#include "common/log.h"
#include "worker/api/blob_stream.h"
#include "worker/api/columns.h"
#include "worker/api/handlers.h"
#include "worker/api/query.h"
#include "worker/api/request.h"
#include "worker/api/row_write.h"
#include "worker/object/map.h"

/*
 * Reads of one row: get and blob. What touches mapped files runs as a marked
 * read, so that a file that is cut under us is CORRUPT and not our death.
 */

#define ROW_JSON_MAX	(2048ull << 20)

struct get_request {
	struct api_request q;		/* first */
	struct batch batch;
	uint64_t at;
	bool found;
	enum read_for purpose;
	const bool *columns;
	struct buf reply;
	struct blob_stream blob;
};

static struct err
read_guarded(void *ctx)
{
	struct get_request *g = ctx;

	return read_get(g->q.store, g->q.view,
	    g->q.r->head.segments[API_SEGMENT_ID], g->purpose, &g->q.rows,
	    &g->batch, &g->at, &g->found);
}

static struct err
get_guarded(void *ctx)
{
	struct get_request *g = ctx;
	const char *name = g->q.kind->row;
	struct err e = read_guarded(g);

	if (err_is(e))
		return e;
	if (!g->found && name == NULL)
		return FAIL(NOT_FOUND, "no such row");
	if (!g->found)
		return buf_printf(&g->reply, "{\"%s\":null}", name) ? OK :
		    FAIL(NO_MEMORY, "answer");
	if ((name != NULL && !buf_printf(&g->reply, "{\"%s\":", name)) ||
	    !row_write(&g->reply, g->q.store->shape, &g->batch, g->at,
	    g->columns) ||
	    (name != NULL && !buf_append(&g->reply, "}", 1)))
		return FAIL(NO_MEMORY, "row is too large to answer");
	return OK;
}

static void
get_then(struct api_request *q)
{
	struct get_request *g = CONTAINER_OF(q, struct get_request, q);
	struct err e;

	buf_init(&g->reply, ROW_JSON_MAX);
	e = columns_of_query(q->r->head.query, q->store->shape, &q->r->arena,
	    &g->columns);
	if (!err_is(e))
		e = object_map_guarded(get_guarded, g);
	if (err_is(e))
		api_reply_read_err(q, e);
	else
		http_reply_json(q->r, 200, buf_slice(&g->reply));
}

static void
begin_get(struct http_request *r, void (*then)(struct api_request *))
{
	struct get_request *g = api_state(r, sizeof(*g));
	struct err e;

	if (g == NULL)
		return;
	e = query_served(r->head.query, QUERY_READ, &r->arena);
	if (err_is(e))
		http_reply_err(r, e);
	else
		api_open_view(&g->q, r, api_kind(r), then);
}

static void
get_begin(struct http_request *r)
{
	begin_get(r, get_then);
}

static void
get_finish(struct http_request *r)
{
	if (r->user == NULL)
		return;
	buf_free(&CONTAINER_OF((struct api_request *)r->user,
	    struct get_request, q)->reply);
	api_finish(r);
}

const struct http_handler api_row_get = {
	.begin = get_begin,
	.finish = get_finish,
};

/* A short one as it lies; a long one as a stream. */
static struct err
describe_blob(struct get_request *g, const struct array *blob,
    struct http_reply *reply)
{
	struct err e = OK;

	if (blob->far != NULL) {
		e = blob_stream_far(&g->blob, blob, g->at);
		reply->stream = &g->blob.stream;
		return e;
	}
	reply->body = array_slice(blob, g->at);
	if (reply->body.len >= BLOB_STREAM_MIN &&
	    snapshot_maps(g->q.held, reply->body.ptr)) {
		blob_stream_mapped(&g->blob, reply->body);
		reply->body = slice_make(NULL, 0);
		reply->stream = &g->blob.stream;
	}
	return e;
}

static void
blob_then(struct api_request *q)
{
	struct get_request *g = CONTAINER_OF(q, struct get_request, q);
	struct http_reply reply = { .status = 200,
	    .content_type = SLICE("application/octet-stream") };
	const struct array *blob;
	struct err e;

	g->purpose = READ_TO_KEEP;	/* the reply is sent later */
	e = object_map_guarded(read_guarded, g);
	blob = g->found ? &g->batch.columns[q->store->shape->blob] : NULL;
	if (!err_is(e) && (blob == NULL || array_is_null(blob, g->at)))
		e = FAIL(NOT_FOUND, "no such record, or it has no payload");
	if (err_is(e)) {
		api_reply_read_err(q, e);
		return;
	}
	/* The bytes may lie in a file that a later view leaves out. */
	q->held = snapshot_hold(q->view);
	e = describe_blob(g, blob, &reply);
	if (err_is(e))
		api_reply_read_err(q, e);
	else
		http_reply(q->r, &reply);
}

static void
blob_begin(struct http_request *r)
{
	begin_get(r, blob_then);
}

const struct http_handler api_row_blob = {
	.large_reply = true,
	.begin = blob_begin,
	.finish = get_finish,
};
