#include "common/base.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/uuid.h"

#include "worker/http/conn.h"

/* Of the descriptors that are free at start some are for what is opened for a
 * moment, and of the others half for stores that are kept open, which have
 * their own bound (worker/store/source_cache.c): the two together never reach
 * the limit, so that whoever comes too late is told so. Where there are few,
 * connections come first. */
#define DESCRIPTORS_KEPT	20
#define CONNECTIONS_MIN		12

void
http_settings_default(struct http_settings *s)
{
	*s = (struct http_settings){
		.connections_max = 10000,
		.head_bytes_max = 16 * 1024,
		.whole_body_bytes = 256 * 1024,
		.arena_bytes_max = 64ull << 20,
		.head_timeout_ns = 20 * NS_PER_SEC,
		.keep_alive_timeout_ns = 75 * NS_PER_SEC,
		.body_idle_timeout_ns = 120 * NS_PER_SEC,
		.body_rate_min = 1024,
		.body_rate_grace_ns = 10 * NS_PER_SEC,
		.write_idle_timeout_ns = 120 * NS_PER_SEC,
		.drain_timeout_ns = 2 * NS_PER_SEC,
		.drain_idle_ns = NS_PER_SEC,
		.shutdown_response_idle_ns = 120 * NS_PER_SEC,
		.accept_pause_ns = 100 * NS_PER_MS,
	};
}

/* 0 if that cannot be told. */
static uint64_t
descriptors_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 3;		/* ".", ".." and that of the listing */
}

/* The WAL and the sources of reads need some when clients have opened all they
 * can, or nobody is served any more (field fault D.8). */
static void
bound_by_descriptors(struct http_settings *s)
{
	struct rlimit files;
	uint64_t open, left, most = 1;

	MUST(getrlimit(RLIMIT_NOFILE, &files) == 0);
	if (files.rlim_cur == RLIM_INFINITY)
		return;
	open = descriptors_open();
	left = files.rlim_cur > open ? files.rlim_cur - open : 0;
	if (left > DESCRIPTORS_KEPT) {
		left -= DESCRIPTORS_KEPT;
		most = MIN(left, MAX(left / 2, (uint64_t)CONNECTIONS_MIN));
	}
	if (most >= s->connections_max)
		return;
	log_warn("fewer connections, by the limit of descriptors wanted=%u "
	    "connections_max=%llu limit=%llu open=%llu", s->connections_max,
	    (unsigned long long)most, (unsigned long long)files.rlim_cur,
	    (unsigned long long)open);
	s->connections_max = (uint32_t)most;
}

struct err
http_create(struct loop *l, const struct http_settings *s,
    struct http_server **out)
{
	struct http_server *h = calloc(1, sizeof(*h));
	struct uuid seed = uuid_random();

	MUST(s->router != NULL);
	MUST((s->body_reserve == NULL) == (s->body_release == NULL));
	MUST((s->large_take == NULL) == (s->large_give == NULL));
	MUST(s->arena_bytes_max > 2 * s->head_bytes_max);
	if (h == NULL)
		return FAIL(NO_MEMORY, "allocate the HTTP server");
	h->loop = l;
	h->set = *s;
	bound_by_descriptors(&h->set);
	list_init(&h->conns);
	memcpy(&h->id_seed, seed.bytes, sizeof(h->id_seed));
	*out = h;
	return OK;
}

void
http_destroy(struct http_server *h)
{
	struct request *r;

	MUST(h->conn_count == 0);
	while ((r = h->free_requests) != NULL) {
		h->free_requests = r->next_free;
		arena_free(&r->pub.arena);
		free(r);
	}
	free(h);
}

void
http_announce(struct http_server *h)
{
	h->announced = true;
}

bool
http_listening(const struct http_server *h)
{
	for (size_t i = 0; i < ACCEPTORS_MAX; i++) {
		if (h->acceptors[i].server != NULL && h->acceptors[i].fd >= 0)
			return true;
	}
	return false;
}

void
http_close_idle(struct http_server *h)
{
	struct list *l;

	LIST_FOREACH(l, &h->conns)
		conn_close_idle(CONTAINER_OF(l, struct conn, link));
}

void
http_cut(struct http_server *h)
{
	struct list *l;

	h->cutting = true;
	LIST_FOREACH(l, &h->conns)
		conn_cut(CONTAINER_OF(l, struct conn, link));
}

void
http_drain(struct http_server *h)
{
	struct list *l;

	h->draining = true;
	for (size_t i = 0; i < ACCEPTORS_MAX; i++) {
		if (h->acceptors[i].server != NULL && h->acceptors[i].fd >= 0)
			http_unlisten(h, h->acceptors[i].fd);
	}
	LIST_FOREACH(l, &h->conns)
		conn_drain(CONTAINER_OF(l, struct conn, link));
}

uint32_t
http_connections(const struct http_server *h)
{
	return h->conn_count;
}

uint32_t
http_requests_active(const struct http_server *h)
{
	return h->active_count;
}

uint32_t
http_requests_older(const struct http_server *h, uint64_t before_ns)
{
	struct list *l;
	uint32_t n = 0;

	LIST_FOREACH(l, &h->conns) {
		const struct conn *c = CONTAINER_OF(l, struct conn, link);

		n += c->req != NULL && c->req->pub.began_ns < before_ns;
	}
	return n;
}
