#ifndef MEMWALD_WORKER_API_ROUTE_H
#define MEMWALD_WORKER_API_ROUTE_H

/*
 * route - method and path to handler, by the table route.def.
 *
 * Literal segments must be equal, {x} takes any one that is not empty, {*x} all
 * that the rest of the template leaves it, at least one and none empty; so a
 * trailing slash is another path. Templates are tried in the table's order.
 *
 * Lifetime:	static.
 * Errors:	unknown path: 404. Known path, other method: 405 with Allow.
 */

#include "common/base.h"
#include "shm/metric.h"
#include "worker/http/http.h"

/* For struct http_settings. */
struct http_match api_router(void *arg, const struct http_head *);
void api_sample(void *arg, const struct http_sample *);

/* The names of the endpoints, for shm_metric_print. */
const struct shm_metric_endpoint *api_endpoints(uint32_t *count);

#endif
