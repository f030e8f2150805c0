#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "shm/metric.h"
#include "shm/server_state.h"
#include "worker/api/handlers.h"
#include "worker/api/route.h"

/* health, ready and metrics: answers that touch no store. */

#define METRICS_BYTES_MAX (8u << 20)

static void
health_begin(struct http_request *r)
{
	http_reply_json(r, 200, SLICE("{\"status\":\"ok\"}"));
}

const struct http_handler api_health = { .begin = health_begin };

/* Asked every second or so: a refusal is no line in the log. */
static void
ready_begin(struct http_request *r)
{
	struct http_reply refusal = {
		.status = 503,
		.retry_after_secs = 1,
		.content_type = SLICE("application/json"),
	};
	const char *why = shm_server_not_ready();
	size_t bytes = 128;
	char *body;

	if (why == NULL) {
		http_reply_json(r, 200, SLICE("{\"status\":\"ready\"}"));
		return;
	}
	body = arena_alloc(&r->arena, bytes);
	if (body == NULL) {
		http_reply_err(r, FAIL(NO_MEMORY, "say why not ready"));
		return;
	}
	refusal.body = slice_make(body, (size_t)snprintf(body, bytes,
	    "{\"error\":{\"code\":\"%s\",\"message\":\"not ready: %s\"}}",
	    err_code(FAIL(UNAVAILABLE, "")), why));
	http_reply(r, &refusal);
}

const struct http_handler api_ready = { .begin = ready_begin };

static void
metrics_begin(struct http_request *r)
{
	struct buf *b = malloc(sizeof(*b));
	const struct shm_metric_endpoint *endpoints;
	struct http_reply reply = {
		.status = 200,
		.content_type = SLICE("text/plain; version=0.0.4"),
	};
	uint32_t count;
	struct err e;

	MUST(b != NULL);
	buf_init(b, METRICS_BYTES_MAX);
	r->user = b;
	endpoints = api_endpoints(&count);
	e = shm_metric_print(b, endpoints, count);
	if (err_is(e)) {
		http_reply_err(r, e);
		return;
	}
	reply.body = buf_slice(b);
	http_reply(r, &reply);
}

static void
metrics_finish(struct http_request *r)
{
	buf_free(r->user);
	free(r->user);
}

const struct http_handler api_metrics = {
	.begin = metrics_begin,
	.finish = metrics_finish,
};
