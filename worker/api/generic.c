#include "common/base.h"

#include "common/clock.h"
#include "common/json.h"
#include "shm/process.h"
#include "worker/api/columns.h"
#include "worker/api/handlers.h"
#include "worker/api/request.h"
#include "worker/api/row_write.h"
#include "worker/object/map.h"

/*
 * Routes that only generic stores have (contract 2.6.4, 2.6.5): rows by a list
 * of ids, and a seal on demand. What they share with other kinds is in rows.c,
 * rollouts.c (append) and stores.c.
 */

#define IDS_MAX		1024u
#define ROWS_JSON_MAX	(2048ull << 20)

/* ---- get-rows */

struct rows_request {
	struct api_request q;		/* first */
	uint32_t count;
	struct slice *ids;		/* each once */
	const struct json *names;	/* "columns", or NULL */
	const bool *columns;
	struct arena row;		/* of one row, while it is written */
	struct buf reply;
};

static struct rows_request *
of(struct http_request *r)
{
	return CONTAINER_OF((struct api_request *)r->user, struct rows_request,
	    q);
}

/* An id in the order of its first mention; 1024 of them are few. */
static void
add_id(struct rows_request *g, struct slice id)
{
	uint32_t i;

	for (i = 0; i < g->count; i++) {
		if (slice_eq(g->ids[i], id))
			return;
	}
	g->ids[g->count++] = id;
}

static struct err
parse_ids(struct rows_request *g, struct slice body)
{
	const struct json *object, *ids, *id;
	struct arena *arena = &g->q.r->arena;
	struct err e;

	e = json_parse(arena, body, "body", &object);
	if (!err_is(e))
		e = json_get_array(arena, object, "ids", JSON_REQUIRED, &ids);
	if (!err_is(e))
		e = json_get_array(arena, object, "columns", JSON_OPTIONAL,
		    &g->names);
	if (err_is(e))
		return e;
	JSON_FOREACH(id, ids) {
		if (id->type != JSON_TEXT)
			return FAIL(SHAPE, "ids: expected strings");
	}
	if (ids->count > IDS_MAX)
		return FAIL(BAD_INPUT, "ids: at most 1024");
	g->ids = arena_calloc(arena, MAX(ids->count, 1u), sizeof(*g->ids));
	if (g->ids == NULL)
		return FAIL(NO_MEMORY, "get rows");
	JSON_FOREACH(id, ids)
		add_id(g, id->text);
	return OK;
}

static struct err
write_row(struct rows_request *g, struct slice id, bool *any)
{
	struct batch batch;
	uint64_t at;
	bool found;
	struct err e;

	arena_reset(&g->row);
	e = read_get(g->q.store, g->q.view, id, READ_FOR_NOW, &g->row, &batch,
	    &at, &found);
	if (err_is(e) || !found)
		return e;
	if ((*any && !buf_append(&g->reply, ",", 1)) ||
	    !row_write(&g->reply, g->q.store->shape, &batch, at, g->columns))
		return FAIL(NO_MEMORY, "rows are too large to answer");
	*any = true;
	return OK;
}

static struct err
rows_guarded(void *ctx)
{
	struct rows_request *g = ctx;
	struct err e = OK;
	bool any = false;
	uint32_t i;

	if (!buf_append_slice(&g->reply, SLICE("{\"rows\":[")))
		return FAIL(NO_MEMORY, "answer");
	for (i = 0; !err_is(e) && i < g->count; i++)
		e = write_row(g, g->ids[i], &any);
	if (!err_is(e) && !buf_append(&g->reply, "]}", 2))
		e = FAIL(NO_MEMORY, "answer");
	return e;
}

static void
rows_then(struct api_request *q)
{
	struct rows_request *g = CONTAINER_OF(q, struct rows_request, q);
	struct err e;

	e = columns_of_list(g->names, q->store->shape, &q->r->arena,
	    &g->columns);
	if (err_is(e)) {
		http_reply_err(q->r, e);
		return;
	}
	e = object_map_guarded(rows_guarded, g);
	if (err_is(e))
		api_reply_read_err(q, e);
	else
		http_reply_json(q->r, 200, buf_slice(&g->reply));
}

static void
rows_begin(struct http_request *r)
{
	struct rows_request *g = api_json_state(r, sizeof(*g));

	if (g == NULL)
		return;
	g->q.r = r;
	arena_init(&g->q.rows, API_ROWS_BYTES_MAX);
	arena_init(&g->row, API_ROWS_BYTES_MAX);
	buf_init(&g->reply, ROWS_JSON_MAX);
	r->user = &g->q;
}

/* Ids are counted before the store is looked for (contract 2.6.4). */
static enum http_flow
rows_body(struct http_request *r, struct slice body, bool last)
{
	struct rows_request *g = of(r);
	struct err e = parse_ids(g, body);

	MUST(last);
	if (err_is(e))
		http_reply_err(r, e);
	else
		api_open_view(&g->q, r, api_kind(r), rows_then);
	return HTTP_CONTINUE;
}

static void
rows_finish(struct http_request *r)
{
	struct rows_request *g;

	if (r->user == NULL)
		return;
	g = of(r);
	buf_free(&g->reply);
	arena_free(&g->row);
	api_finish(r);
}

const struct http_handler api_row_get_many = {
	.begin = rows_begin,
	.body = rows_body,
	.finish = rows_finish,
};

/* ---- flush */

struct flush_request {
	struct api_request q;		/* first */
	struct engine_call call;
};

static void
flushed(struct engine_call *call, struct err e, uint64_t arg0)
{
	struct flush_request *f =
	    CONTAINER_OF(call, struct flush_request, call);
	struct http_reply sealed = { .status = 204 };

	(void)arg0;
	if (err_is(e))
		api_reply_err(&f->q, e);
	else
		http_reply(f->q.r, &sealed);
}

static void
flush_then(struct api_request *q)
{
	struct flush_request *f = CONTAINER_OF(q, struct flush_request, q);

	f->call.done = flushed;
	api_ask_seal(q, &f->call);
}

static void
flush_begin(struct http_request *r)
{
	struct flush_request *f = api_state(r, sizeof(*f));

	if (f != NULL)
		api_open(&f->q, r, api_kind(r), flush_then);
}

const struct http_handler api_store_seal = {
	.begin = flush_begin,
	.finish = api_finish,
};
