#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "worker/api/handlers.h"
#include "worker/api/route.h"

static const struct route {
	enum http_method method;
	const char *method_name;
	struct http_route http;
} routes[] = {
#define ROUTE(method, template, handler, body, bytes_max, secs, help) \
	{ HTTP_##method, #method, { template, &api_##handler, \
	    HTTP_BODY_##body, bytes_max, secs * NS_PER_SEC } },
#include "worker/api/route.def"
#undef ROUTE
};

#define ROUTE_COUNT ARRAY_LEN(routes)

/* Endpoint 0 is what no route is for. */
static_assert(ROUTE_COUNT < METRIC_ENDPOINT_COUNT, "room for every endpoint");

const struct shm_metric_endpoint *
api_endpoints(uint32_t *count)
{
	static struct shm_metric_endpoint names[ROUTE_COUNT + 1];
	size_t i;

	names[0] = (struct shm_metric_endpoint){ "OTHER", "unknown" };
	for (i = 0; i < ROUTE_COUNT; i++)
		names[i + 1] = (struct shm_metric_endpoint){
		    routes[i].method_name, routes[i].http.name };
	*count = ROUTE_COUNT + 1;
	return names;
}

/* How many segments from at on a {*x} takes, if the template goes on with rest:
 * 0 if it does not match. */
static uint32_t
count_rest(const char *rest, const struct http_head *head, uint32_t at)
{
	uint32_t after = 0, i;

	for (; *rest != '\0'; rest++)
		after += *rest == '/';
	if (head->segment_count <= at + after)
		return 0;
	for (i = at; i < head->segment_count - after; i++) {
		if (head->segments[i].len == 0)
			return 0;
	}
	return head->segment_count - after - at;
}

static bool
matches(const char *template, const struct http_head *head)
{
	uint32_t i;

	for (i = 0; *template == '/'; i++) {
		const char *end = strchrnul(++template, '/');
		struct slice want = slice_make(template,
		    (size_t)(end - template));

		if (i >= head->segment_count)
			return false;
		if (template[0] == '{' && template[1] == '*') {
			uint32_t taken = count_rest(end, head, i);

			if (taken == 0)
				return false;
			i += taken - 1;
			template = end;
			continue;
		}
		if (*template == '{' ? head->segments[i].len == 0 :
		    (head->escaped >> i & 1) != 0 ||
		    !slice_eq(want, head->segments[i]))
			return false;
		template = end;
	}
	return i == head->segment_count;
}

static bool
serves(const struct route *r, enum http_method m)
{
	return r->method == m || (r->method == HTTP_GET && m == HTTP_HEAD);
}

/* "GET, HEAD, POST": of all rows with this template. */
static const char *
allow_of(const char *template)
{
	static char text[80];
	size_t i, at = 0;

	for (i = 0; i < ROUTE_COUNT; i++) {
		if (strcmp(routes[i].http.name, template) != 0)
			continue;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s%s",
		    at > 0 ? ", " : "", routes[i].method_name,
		    routes[i].method == HTTP_GET ? ", HEAD" : "");
		MUST(at < sizeof(text));
	}
	return text;
}

struct http_match
api_router(void *arg, const struct http_head *head)
{
	const char *known = NULL;
	size_t i;

	(void)arg;
	for (i = 0; i < ROUTE_COUNT; i++) {
		if (!matches(routes[i].http.name, head))
			continue;
		if (serves(&routes[i], head->method))
			return (struct http_match){ &routes[i].http, NULL };
		if (known == NULL)
			known = routes[i].http.name;
	}
	return (struct http_match){ NULL,
	    known != NULL ? allow_of(known) : NULL };
}

static uint32_t
endpoint_of(const struct http_sample *s)
{
	uint32_t i;

	/* The same pointer: names come out of this table. */
	for (i = 0; i < ROUTE_COUNT; i++) {
		if (routes[i].http.name == s->route &&
		    serves(&routes[i], s->method))
			return i + 1;
	}
	return 0;
}

void
api_sample(void *arg, const struct http_sample *s)
{
	uint32_t label;

	(void)arg;
	if (s->status == 0)
		return;		/* nobody was answered */
	label = SHM_LABEL2(STATUS, endpoint_of(s), shm_metric_status(s->status));
	shm_metric_add(METRIC_http_requests_total, label, 1);
	shm_metric_observe(METRIC_http_request_duration_seconds, label,
	    s->duration_ns);
}
