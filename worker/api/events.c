#include "common/base.h"

#include <stdlib.h>

#include "worker/api/handlers.h"
#include "worker/api/query.h"
#include "worker/api/request.h"
#include "worker/api/row_write.h"
#include "worker/object/map.h"
#include "worker/store/kind_datagen.h"
#include "worker/store/read_list.h"

/*
 * Reads of datagen stores (contract 2.5.2): the events of one item, and those
 * of all items of one root.
 *
 * Which rows these are one column says, so only that is read of the others. The
 * events come in key order; they are written as JSON when they come, and sent
 * in the order that was asked for when all are there. Work is done in slices
 * of a turn, as in lists.
 */

#define EVENTS_JSON_MAX	(1024u << 20)
#define KEYS_BYTES_MAX	(256u << 20)
#define SLICE_NS	(2 * NS_PER_MS)
#define OPENING		"{\"events\":["
#define CLOSING		"]}"

struct event {
	struct slice item_id, event_id;
	int64_t item_seq;
	size_t from, len;		/* in json */
};

struct events_request {
	struct api_request q;		/* first */
	struct stream stream;
	enum datagen_column column;
	struct slice id;		/* what it must be */
	struct read_want want;
	struct read_list *list;
	bool ended, gone;
	struct op later;
	struct arena keys;
	uint64_t count, room, sent;
	struct event *events;
	struct buf json;
};

static struct events_request *
of(struct api_request *q)
{
	return CONTAINER_OF(q, struct events_request, q);
}

/* ---- all of them, as they come */

static struct err
add_event(struct events_request *g, const struct batch *batch, uint64_t at)
{
	struct slice item = array_slice(&batch->columns[DATAGEN_item_id], at);
	struct slice id = array_slice(&batch->columns[DATAGEN_event_id], at);
	struct event e = { .from = g->json.len,
	    .item_seq = array_int(&batch->columns[DATAGEN_item_seq], at) };
	struct event *more;

	if (g->count == g->room) {
		g->room = MAX(2 * g->room, (uint64_t)64);
		more = arena_alloc(&g->keys, g->room * sizeof(*more));
		if (more == NULL)
			return FAIL(NO_MEMORY, "too many events to answer");
		if (g->count > 0)
			memcpy(more, g->events, g->count * sizeof(*more));
		g->events = more;
	}
	e.item_id = slice_make(arena_copy(&g->keys, item), item.len);
	e.event_id = slice_make(arena_copy(&g->keys, id), id.len);
	if (e.item_id.ptr == NULL || e.event_id.ptr == NULL)
		return FAIL(NO_MEMORY, "too many events to answer");
	if (!row_write(&g->json, g->q.store->shape, batch, at,
	    g->want.columns))
		return FAIL(NO_MEMORY, "events are too large to answer");
	e.len = g->json.len - e.from;
	g->events[g->count++] = e;
	return OK;
}

static struct err
collect_guarded(void *ctx)
{
	struct events_request *g = ctx;
	uint64_t until = loop_now_ns(g->q.store->engine->loop) + SLICE_NS;
	enum read_step step = READ_ROW;
	const struct batch *batch;
	struct err e = OK;
	uint64_t at;

	while (!err_is(e) && step == READ_ROW) {
		e = read_list_next(g->list, until, &step, &batch, &at);
		if (!err_is(e) && step == READ_ROW)
			e = add_event(g, batch, at);
		if (step == READ_ROW && clock_mono_ns() >= until)
			break;
	}
	g->ended = step == READ_END;
	return e;
}

/* ---- then in order */

static int
by_order(const void *x, const void *y)
{
	const struct event *a = x, *b = y;
	int c = slice_cmp(a->item_id, b->item_id);

	if (c == 0)
		c = (a->item_seq > b->item_seq) - (a->item_seq < b->item_seq);
	return c != 0 ? c : slice_cmp(a->event_id, b->event_id);
}

static enum stream_state
pull(struct stream *s, struct buf *out, struct err *error)
{
	struct events_request *g =
	    CONTAINER_OF(s, struct events_request, stream);
	bool ok = g->sent > 0 || buf_append_slice(out, SLICE(OPENING));

	while (ok && g->sent < g->count && out->len < STREAM_PIECE_BYTES) {
		const struct event *e = &g->events[g->sent];

		ok = (g->sent == 0 || buf_append(out, ",", 1)) &&
		    buf_append(out, g->json.ptr + e->from, e->len);
		g->sent++;
	}
	if (ok && g->sent < g->count)
		return STREAM_MORE;
	if (ok && buf_append_slice(out, SLICE(CLOSING)))
		return STREAM_END;
	*error = FAIL(NO_MEMORY, "answer");
	return STREAM_FAILED;
}

static void
closed(struct stream *s, bool complete)
{
	(void)s;
	(void)complete;
}

static void
reply_events(struct events_request *g)
{
	struct http_reply reply = { .status = 200,
	    .content_type = SLICE("application/json"), .stream = &g->stream };

	if (g->count > 0)
		qsort(g->events, g->count, sizeof(g->events[0]), by_order);
	g->stream.pull = pull;
	g->stream.close = closed;
	g->stream.has_length = true;
	g->stream.length = strlen(OPENING) + g->json.len +
	    (g->count > 0 ? g->count - 1 : 0) + strlen(CLOSING);
	http_reply(g->q.r, &reply);
}

static void
work(struct events_request *g)
{
	struct err e = object_map_guarded(collect_guarded, g);

	if (!err_is(e) && g->gone)
		e = FAIL(TIMED_OUT, "deadline passed");
	if (err_is(e))
		api_reply_read_err(&g->q, e);
	else if (g->ended)
		reply_events(g);
	else
		loop_later(g->q.store->engine->loop, &g->later, 0);
}

static void
go_on(struct op *op, int32_t res)
{
	(void)res;
	work(CONTAINER_OF(op, struct events_request, later));
}

/* ---- the request */

static void
events_then(struct api_request *q)
{
	struct events_request *g = of(q);
	const struct store_shape *shape = q->store->shape;
	bool *columns = arena_calloc(&q->r->arena, shape->schema.field_count,
	    sizeof(*columns));
	struct err e;

	if (columns == NULL) {
		http_reply_err(q->r, FAIL(NO_MEMORY, "list events"));
		return;
	}
	memset(columns, true, shape->schema.field_count);
	columns[shape->blob] = false;
	g->want.columns = columns;
	e = filter_text(shape, g->column, g->id, &q->r->arena,
	    &g->want.filter);
	if (!err_is(e))
		e = read_list_open(q->store, q->view, &g->want, &g->list);
	if (err_is(e))
		api_reply_read_err(q, e);
	else
		work(g);
}

/* All of the path between the collection's name and "events". */
static struct err
take_id(struct events_request *g, const struct http_request *r)
{
	const struct slice *s = &r->head.segments[API_SEGMENT_ID];
	uint32_t count = r->head.segment_count - API_SEGMENT_ID - 1, i;
	size_t len = count - 1, at = 0;
	char *id;

	for (i = 0; i < count; i++)
		len += s[i].len;
	id = arena_alloc(&g->keys, len);
	if (id == NULL)
		return FAIL(NO_MEMORY, "request state");
	for (i = 0; i < count; i++) {
		if (i > 0)
			id[at++] = '/';
		memcpy(id + at, s[i].ptr, s[i].len);
		at += s[i].len;
	}
	g->id = slice_make(id, len);
	return OK;
}

static void
begin(struct http_request *r, enum datagen_column column)
{
	struct events_request *g = api_state(r, sizeof(*g));
	struct err e;

	if (g == NULL)
		return;
	g->column = column;
	g->later.done = go_on;
	arena_init(&g->keys, KEYS_BYTES_MAX);
	buf_init(&g->json, EVENTS_JSON_MAX);
	g->q.r = r;
	r->user = &g->q;
	e = query_served(r->head.query, QUERY_READ, &r->arena);
	if (!err_is(e))
		e = take_id(g, r);
	if (err_is(e))
		http_reply_err(r, e);
	else
		api_open_view(&g->q, r, api_kind(r), events_then);
}

static void
item_begin(struct http_request *r)
{
	begin(r, DATAGEN_item_id);
}

static void
root_begin(struct http_request *r)
{
	begin(r, DATAGEN_root_item_id);
}

static void
events_gone(struct http_request *r)
{
	if (r->user != NULL)
		of(r->user)->gone = true;
}

static void
events_finish(struct http_request *r)
{
	struct events_request *g;

	if (r->user == NULL)
		return;
	g = of(r->user);
	read_list_close(g->list);
	buf_free(&g->json);
	arena_free(&g->keys);
	api_finish(r);
}

const struct http_handler api_event_list_item = {
	.begin = item_begin,
	.gone = events_gone,
	.finish = events_finish,
};

const struct http_handler api_event_list_root = {
	.begin = root_begin,
	.gone = events_gone,
	.finish = events_finish,
};

/* ---- what is folded (contract 3.2.4, 3.2.5) */

static void
unserved_begin(struct http_request *r)
{
	http_reply_err(r, FAIL(UNSUPPORTED, "this route is not served"));
}

const struct http_handler api_unserved = { .begin = unserved_begin };
