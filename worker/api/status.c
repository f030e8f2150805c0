#include "common/base.h"

#include <stdlib.h>

#include "shm/metric.h"
#include "worker/api/handlers.h"
#include "worker/api/route.h"

/* health and metrics: answers that touch no store. */

#define METRICS_BYTES_MAX (8u << 20)

static void
health_begin(struct http_request *r)
{
	http_reply_json(r, 200, SLICE("{\"status\":\"ok\"}"));
}

const struct http_handler api_health = { .begin = health_begin };

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
