#include "common/base.h"

#include "common/clock.h"
#include "common/json.h"
#include "common/rfc3339.h"
#include "shm/process.h"
#include "worker/api/handlers.h"
#include "worker/api/request.h"
#include "worker/maintain/compact.h"

/*
 * POST .../compact: small fragments of the base table are put together now, by
 * the maintainer; GET .../compact/stats (contract 2.4.6). The counts of the
 * stats are the server's since the store became resident.
 */

#define COMPACT_SPAN_NS	(170 * NS_PER_SEC)
/* So long a fold or a collection may have the store's guard. */
#define GUARD_SPAN_NS	(30 * NS_PER_SEC)

static const struct err already = { ERR_COMPACTING, 0,
	"Compaction already in progress" };

struct compact_request {
	struct api_request q;		/* first */
	struct compact_wish wish;
	struct engine_call call;
};

static struct compact_request *
of(struct http_request *r)
{
	return CONTAINER_OF((struct api_request *)r->user,
	    struct compact_request, q);
}

static bool
is_compacting(const struct store *s, struct shm_store_info *info)
{
	return shm_store_peek(s->ref, info) && info->guarded &&
	    info->guard_phase == TICK_COMPACT;
}

static void
reply_pinned(struct api_request *q)
{
	http_reply_err(q->r, FAIL(BAD_INPUT, arena_printf(&q->r->arena,
	    "store is pinned to version %llu, nothing is compacted before it "
	    "is released", (unsigned long long)store_pinned(q->store))));
}

static void
compacted(struct engine_call *call, struct err e, uint64_t packed)
{
	struct compact_request *c =
	    CONTAINER_OF(call, struct compact_request, call);
	struct compact_result r = compact_unpack(packed);

	/* Too long, or a fold held the guard: come again. */
	if (e.kind == ERR_TIMED_OUT)
		e.kind = ERR_BUSY;
	if (e.kind == ERR_COMPACTING)
		e = already;
	if (e.kind == ERR_NOT_FOUND && store_pinned(c->q.store) != 0)
		reply_pinned(&c->q);
	else if (err_is(e))
		api_reply_err(&c->q, e);
	else
		http_reply_json(c->q.r, 200, slice_of(arena_printf(
		    &c->q.r->arena, "{\"fragments_removed\":%u,"
		    "\"fragments_added\":%u,\"files_removed\":%u,"
		    "\"files_added\":%u}", r.fragments_removed,
		    r.fragments_added, r.files_removed, r.files_added)));
}

static void
compact_then(struct api_request *q)
{
	struct compact_request *c = of(q->r);
	uint64_t now_ns = clock_mono_ns();
	struct shm_command command = { .kind = SHM_MAIL_COMPACT,
	    .store = q->store->ref, .args = { c->wish.target_rows,
	    now_ns + GUARD_SPAN_NS, c->wish.masked, now_ns } };
	struct shm_store_info info;
	struct err e = OK;

	if (store_pinned(q->store) != 0) {
		reply_pinned(q);
		return;
	}
	if (is_compacting(q->store, &info))
		e = already;
	c->call.done = compacted;
	if (!err_is(e))
		e = engine_call(q->store->engine, &c->call, SHM_MAINTAINER,
		    &command, COMPACT_SPAN_NS);
	if (err_is(e))
		http_reply_err(q->r, e);
}

static struct err
parse(struct compact_wish *wish, struct arena *arena, struct slice body)
{
	const struct json *object;
	struct err e;

	*wish = (struct compact_wish){ .target_rows = COMPACT_ROWS,
	    .all = true, .masked = true };
	e = json_parse(arena, body, "body", &object);
	if (!err_is(e))
		e = json_get_uint64(arena, object, "target_rows_per_fragment",
		    JSON_OPTIONAL, &wish->target_rows);
	if (!err_is(e) && wish->target_rows == 0)
		e = FAIL(BAD_INPUT, "target_rows_per_fragment: at least 1");
	if (!err_is(e))
		e = json_get_bool(arena, object, "materialize_deletions",
		    JSON_OPTIONAL, &wish->masked);
	return e;
}

static enum http_flow
compact_body(struct http_request *r, struct slice body, bool last)
{
	struct compact_request *c = of(r);
	struct err e = parse(&c->wish, &r->arena, body);

	MUST(last);
	if (err_is(e))
		http_reply_err(r, e);
	else
		api_open(&c->q, r, api_kind(r), compact_then);
	return HTTP_CONTINUE;
}

static void
compact_begin(struct http_request *r)
{
	struct compact_request *c = api_json_state(r, sizeof(*c));

	if (c == NULL)
		return;
	c->q.r = r;
	r->user = &c->q;
}

const struct http_handler api_store_compact = {
	.begin = compact_begin,
	.body = compact_body,
	.finish = api_finish,
};

/* ---- stats */

static struct err
write_stats(struct api_request *q, struct buf *text)
{
	struct shm_store_info info = { .compactions = 0 };
	bool compacting = is_compacting(q->store, &info);
	struct json_writer w;
	char when[RFC3339_TEXT_MAX];

	json_write_init(&w, text);
	json_write_open(&w, NULL, '{');
	json_write_uint64(&w, "total_fragments",
	    q->store->snapshot->base->source_count);
	json_write_bool(&w, "is_compacting", compacting);
	if (info.compacted_us != 0)
		json_write_text(&w, "last_compaction", slice_make(when,
		    rfc3339_print(when, (int64_t)info.compacted_us)));
	if (info.compact_err_kind != ERR_OK)
		json_write_text(&w, "last_error", slice_of(err_text(
		    (struct err){ (uint16_t)info.compact_err_kind, 0, "" })));
	json_write_uint64(&w, "total_compactions", info.compactions);
	json_write_close(&w, '}');
	return json_write_done(&w) ? OK : FAIL(NO_MEMORY, "stats");
}

static void
stats_then(struct api_request *q)
{
	struct slice copy = SLICE("");
	struct buf text;
	struct err e;

	buf_init(&text, 4096);
	e = write_stats(q, &text);
	if (!err_is(e)) {
		copy.ptr = arena_copy(&q->r->arena, buf_slice(&text));
		copy.len = text.len;
		if (copy.ptr == NULL)
			e = FAIL(NO_MEMORY, "stats");
	}
	buf_free(&text);
	if (err_is(e))
		http_reply_err(q->r, e);
	else
		http_reply_json(q->r, 200, copy);
}

static void
stats_begin(struct http_request *r)
{
	struct api_request *q = api_state(r, sizeof(*q));

	if (q != NULL)
		api_open_view(q, r, api_kind(r), stats_then);
}

const struct http_handler api_store_compact_stats = {
	.begin = stats_begin,
	.finish = api_finish,
};
