#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/budget.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "worker/api/route.h"
#include "worker/door.h"
#include "worker/engine.h"
#include "worker/http/http.h"
#include "worker/process.h"
#include "worker/worker.h"

#define POOL_THREADS 4

static const struct child_start *start;

static bool
reserve(void *arg, uint64_t bytes)
{
	(void)arg;
	if (shm_budget_take(SHM_BUDGET_REQUEST_BYTES, bytes))
		return true;
	shm_metric_add(METRIC_memwald_request_memory_rejections_total, 0, 1);
	return false;
}

static void
release(void *arg, uint64_t bytes)
{
	(void)arg;
	shm_budget_give(SHM_BUDGET_REQUEST_BYTES, bytes);
}

/* Contract 7, "Blob budget". More than all of it is taken as all of it: both
 * run alone. */
static bool
take_large(void *arg, uint64_t length, uint64_t *taken)
{
	uint64_t limit = shm_budget_limit(SHM_BUDGET_BLOB_BYTES);

	(void)arg;
	*taken = 0;
	if (limit == 0)
		return true;
	length = MIN(length, limit);
	if (!shm_budget_take_alone(SHM_BUDGET_BLOB_BYTES, length)) {
		shm_metric_add(METRIC_rollout_blob_budget_rejections_total, 0,
		    1);
		return false;
	}
	*taken = length;
	return true;
}

static void
give_large(void *arg, uint64_t bytes)
{
	(void)arg;
	shm_budget_give(SHM_BUDGET_BLOB_BYTES, bytes);
}

static void
count_event(void *arg, enum http_event event)
{
	(void)arg;
	switch (event) {
	case HTTP_EVENT_ACCEPTED:
		shm_metric_add(METRIC_memwald_connections, 0, 1);
		break;
	case HTTP_EVENT_CLOSED:
		shm_metric_sub(METRIC_memwald_connections, 0, 1);
		break;
	case HTTP_EVENT_REFUSED_FULL:
		shm_metric_add(METRIC_memwald_connections_refused_total, 0, 1);
		break;
	case HTTP_EVENT_ACCEPT_PAUSED:
		shm_metric_add(METRIC_memwald_accept_pauses_total, 0, 1);
		break;
	case HTTP_EVENT_HEAD_TIMEOUT:
		shm_metric_add(METRIC_memwald_head_timeouts_total, 0, 1);
		break;
	case HTTP_EVENT_BODY_CUT:
		shm_metric_add(METRIC_memwald_bodies_cut_total, 0, 1);
		break;
	case HTTP_EVENT_BODY_TIMEOUT:
		shm_metric_add(METRIC_http_request_body_timeouts_total, 0, 1);
		break;
	case HTTP_EVENT_SHUTDOWN_IDLE_RESPONSE:
		shm_metric_add(METRIC_http_shutdown_idle_responses_total, 0, 1);
		break;
	default:
		break;
	}
}

static bool
reply_closes(void *arg)
{
	(void)arg;
	return shm_server_replies_close();
}

static struct http_server *http;

static void
start_http(void)
{
	static char name[16];
	const struct config *c = start->config;
	struct http_settings s;
	struct err e;

	http_settings_default(&s);
	s.router = api_router;
	s.sample = api_sample;
	s.event = count_event;
	s.body_reserve = reserve;
	s.body_release = release;
	s.large_take = take_large;
	s.large_give = give_large;
	s.reply_closes = reply_closes;
	s.connections_max = c->connections_max;
	s.keep_alive_timeout_ns = c->keepalive_secs * NS_PER_SEC;
	s.body_idle_timeout_ns = c->request_body_idle_timeout_secs * NS_PER_SEC;
	s.shutdown_response_idle_ns =
	    c->http_shutdown_response_idle_secs * NS_PER_SEC;
	snprintf(name, sizeof(name), "%u", start->slot - SHM_WORKER(0));
	s.worker_name = c->worker_header ? name : NULL;
	e = http_create(process_loop(), &s, &http);
	if (err_is(e))
		process_fail(e, "no HTTP server");
	door_init(process_loop(), http);
}

/* The listening socket of a process slot; -1: it has none. */
static int
socket_of(uint64_t slot)
{
	uint64_t k = slot - SHM_WORKER(0);

	return slot >= SHM_WORKER(0) && k < start->listen_count ?
	    start->listen_fds[k] : -1;
}

static void
mail(const struct shm_command *m)
{
	int fd;

	FAULT_HERE(worker_mail);
	switch (m->kind) {
	case SHM_MAIL_ACCEPT_FOR:
		fd = socket_of(m->args[0]);
		if (fd >= 0 && !process_leaves_alone())
			door_open(fd);
		break;
	case SHM_MAIL_STOP_ACCEPT_FOR:
		fd = socket_of(m->args[0]);
		if (fd >= 0)
			door_shut(fd);
		break;
	default:
		engine_worker_mail(m);
	}
}

/* Each turn: two stores on our own page. */
static void
before_wait(void *arg)
{
	engine_worker_before_wait(arg);
	shm_metric_set(METRIC_memwald_requests_in_flight, 0,
	    http_requests_active(http));
	shm_metric_set(METRIC_memwald_recv_buffers_free, 0,
	    loop_bufs_free(process_loop()));
}

static void
drain(bool orphaned)
{
	(void)orphaned;
	if (shm_server_is(SHM_SERVER_UPGRADING))
		door_hand_over();
	else
		door_retire(process_leaves_alone());
}

/* First every request has its answer, then the stores are told to end. */
static bool
idle(void)
{
	static bool told;

	if (!door_retired())
		return false;
	if (!told)
		engine_worker_drain();
	told = true;
	return engine_worker_idle();
}

static uint32_t
old(uint64_t before_ns)
{
	return http_requests_older(http, before_ns);
}

void
worker_main(const struct child_start *s)
{
	struct process_plan plan = {
		.start = s,
		.pool_threads = POOL_THREADS,
		.mail = mail,
		.drain = drain,
		.idle = idle,
		.old = old,
	};
	struct engine_env env;
	struct err e;

	start = s;
	process_start(&plan);
	e = FAULT(worker_start);
	if (err_is(e))
		process_fail(e, "told so by a test");
	env = (struct engine_env){ s, process_loop(), process_pool() };
	e = engine_worker_start(&env);
	if (err_is(e))
		process_fail(e, "no stores");
	start_http();
	loop_set_before_wait(process_loop(), before_wait, NULL);
	if (!s->hold)
		door_open(socket_of(s->slot));
	process_run();
}
