#include "common/base.h"

#include "common/clock.h"
#include "worker/api/columns.h"
#include "worker/api/filters.h"
#include "worker/api/handlers.h"
#include "worker/api/query.h"
#include "worker/api/request.h"
#include "worker/api/row_write.h"
#include "worker/object/map.h"
#include "worker/store/read_list.h"

/*
 * Lists and counts: rows of a store, as a filter, offset and limit want them.
 *
 * A filter may give nothing in a million rows, and an offset may pass over as
 * many, so neither runs to its end: all lists together work SLICE_NS of a turn
 * of the loop, or each its SLICE_MIN_NS, and go on in the next one. A list that has found nothing
 * for HEAD_SPAN_NS begins its answer, so that the route's deadline, which ends
 * with the head, is not one for lists.
 */

#define ROW_JSON_MAX	(2048ull << 20)
#define SLICE_NS	(2 * NS_PER_MS)
#define SLICE_MIN_NS	(NS_PER_MS / 2)
#define HEAD_SPAN_NS	(1 * NS_PER_SEC)

struct list_request {
	struct api_request q;		/* first */
	struct stream stream;
	struct read_want want;
	struct read_list *list;
	uint64_t limit, offset;		/* left */
	uint64_t count;
	bool counts;			/* how many, and not which */
	bool begun, ended, replied;
	bool gone;			/* nobody waits for the answer */
	bool any;			/* a row went out: comma before the next */
	uint64_t began_ns;
	struct op later;
	struct buf first;		/* what was made before the head */
	struct buf *out;
};

static struct list_request *
of(struct api_request *q)
{
	return CONTAINER_OF(q, struct list_request, q);
}

static struct loop *
loop_of(const struct list_request *l)
{
	return l->q.store->engine->loop;
}

static uint64_t
slice_end(const struct list_request *l)
{
	return MAX(loop_now_ns(loop_of(l)) + SLICE_NS,
	    clock_mono_ns() + SLICE_MIN_NS);
}

/* Rows before the first that is wanted. */
static struct err
pass_offset(struct list_request *l, uint64_t until_ns, enum read_step *step)
{
	uint64_t passed;
	struct err e = read_list_pass(l->list, l->offset, until_ns, &passed,
	    step);

	if (!err_is(e))
		l->offset -= passed;
	return e;
}

static struct err
put_row(struct list_request *l, const struct batch *batch, uint64_t at)
{
	if ((l->any && !buf_append(l->out, ",", 1)) ||
	    !row_write(l->out, l->q.store->shape, batch, at, l->want.columns))
		return FAIL(NO_MEMORY, "row is too large to answer");
	l->any = true;
	l->limit--;
	return OK;
}

/* Rows until a piece is full or the slice is over. */
static struct err
fill_guarded(void *ctx)
{
	struct list_request *l = ctx;
	uint64_t until_ns = slice_end(l), at;
	enum read_step step = READ_ROW;
	const struct batch *batch;
	struct err e = OK;

	if (!l->begun && !buf_printf(l->out, "{\"%s\":[", l->q.kind->rows))
		return FAIL(NO_MEMORY, "answer");
	l->begun = true;
	if (l->limit == 0)
		step = READ_END;
	else if (l->offset > 0)
		e = pass_offset(l, until_ns, &step);
	while (!err_is(e) && step == READ_ROW &&
	    l->out->len < STREAM_PIECE_BYTES) {
		e = read_list_next(l->list, until_ns, &step, &batch, &at);
		if (!err_is(e) && step == READ_ROW)
			e = put_row(l, batch, at);
		if (l->limit == 0)
			step = READ_END;
		else if (step == READ_ROW && clock_mono_ns() >= until_ns)
			step = READ_LATER;
	}
	if (!err_is(e) && step == READ_END) {
		l->ended = true;
		if (!buf_append(l->out, "]}", 2))
			e = FAIL(NO_MEMORY, "answer");
	}
	return e;
}

static struct err
count_guarded(void *ctx)
{
	struct list_request *l = ctx;
	enum read_step step;
	uint64_t passed;
	struct err e = read_list_pass(l->list, UINT64_MAX, slice_end(l),
	    &passed, &step);

	if (err_is(e))
		return e;
	l->count += passed;
	l->ended = step == READ_END;
	return OK;
}

/* ---- the answer of a list */

static enum stream_state
list_pull(struct stream *s, struct buf *out, struct err *error)
{
	struct list_request *l = CONTAINER_OF(s, struct list_request, stream);

	if (l->first.len > 0) {
		if (!buf_append_slice(out, buf_slice(&l->first))) {
			*error = FAIL(NO_MEMORY, "answer");
			return STREAM_FAILED;
		}
		buf_free(&l->first);
		return l->ended ? STREAM_END : STREAM_MORE;
	}
	l->out = out;
	*error = object_map_guarded(fill_guarded, l);
	if (err_is(*error))
		return STREAM_FAILED;
	if (l->ended)
		return STREAM_END;
	if (out->len > 0)
		return STREAM_MORE;
	loop_later(loop_of(l), &l->later, 0);
	return STREAM_WAIT;
}

static void
list_closed(struct stream *s, bool complete)
{
	(void)s;
	(void)complete;
}

static void
reply_list(struct list_request *l)
{
	struct http_reply reply = { .status = 200,
	    .content_type = SLICE("application/json") };

	if (l->ended) {
		/* A short list has a length, and no chunks. */
		reply.body = buf_slice(&l->first);
	} else {
		l->stream.pull = list_pull;
		l->stream.close = list_closed;
		reply.stream = &l->stream;
	}
	http_reply(l->q.r, &reply);
}

static void
reply_count(struct list_request *l)
{
	if (buf_printf(&l->first, "{\"count\":%llu}",
	    (unsigned long long)l->count))
		http_reply_json(l->q.r, 200, buf_slice(&l->first));
	else
		http_reply_err(l->q.r, FAIL(NO_MEMORY, "answer"));
}

/* ---- before there is an answer */

static bool
is_due(const struct list_request *l)
{
	return l->ended || (!l->counts &&
	    (l->first.len >= STREAM_PIECE_BYTES ||
	    loop_now_ns(loop_of(l)) - l->began_ns >= HEAD_SPAN_NS));
}

static void
work(struct list_request *l)
{
	struct err e;

	l->out = &l->first;
	e = object_map_guarded(l->counts ? count_guarded : fill_guarded, l);
	if (!err_is(e) && l->gone)
		e = FAIL(TIMED_OUT, "deadline passed");
	if (!err_is(e) && !is_due(l)) {
		loop_later(loop_of(l), &l->later, 0);
		return;
	}
	l->replied = true;
	if (err_is(e))
		api_reply_read_err(&l->q, e);
	else if (l->counts)
		reply_count(l);
	else
		reply_list(l);
}

static void
go_on(struct op *op, int32_t res)
{
	struct list_request *l = CONTAINER_OF(op, struct list_request, later);

	(void)res;
	if (l->replied)
		http_stream_ready(l->q.r);
	else
		work(l);
}

static void
list_then(struct api_request *q)
{
	struct list_request *l = of(q);
	struct slice query = q->r->head.query;
	struct err e;

	e = filters_of_query(query, q->kind, q->store->shape, &q->r->arena,
	    &l->want.filter);
	if (!err_is(e))
		e = columns_of_query(query, q->store->shape, &q->r->arena,
		    &l->want.columns);
	if (!err_is(e))
		e = read_list_open(q->store, q->view, &l->want, &l->list);
	if (err_is(e)) {
		api_reply_read_err(q, e);
		return;
	}
	l->began_ns = loop_now_ns(loop_of(l));
	work(l);
}

static void
begin(struct http_request *r, bool counts)
{
	struct list_request *l = api_state(r, sizeof(*l));
	struct err e = OK;

	if (l == NULL)
		return;
	l->counts = counts;
	l->limit = UINT64_MAX;
	l->later.done = go_on;
	buf_init(&l->first, ROW_JSON_MAX);
	if (!counts)
		e = query_uint64(r->head.query, "limit", &r->arena, &l->limit);
	if (!counts && !err_is(e))
		e = query_uint64(r->head.query, "offset", &r->arena,
		    &l->offset);
	if (!err_is(e))
		e = query_served(r->head.query, QUERY_READ, &r->arena);
	if (err_is(e)) {
		http_reply_err(r, e);
		return;
	}
	api_open_view(&l->q, r, api_kind(r), list_then);
}

static void
list_begin(struct http_request *r)
{
	begin(r, false);
}

static void
count_begin(struct http_request *r)
{
	begin(r, true);
}

static void
list_gone(struct http_request *r)
{
	if (r->user != NULL)
		of(r->user)->gone = true;
}

static void
list_finish(struct http_request *r)
{
	struct list_request *l;

	if (r->user == NULL)
		return;
	l = of(r->user);
	read_list_close(l->list);
	buf_free(&l->first);
	api_finish(r);
}

const struct http_handler api_row_list = {
	.begin = list_begin,
	.gone = list_gone,
	.finish = list_finish,
};

const struct http_handler api_row_count = {
	.begin = count_begin,
	.gone = list_gone,
	.finish = list_finish,
};
