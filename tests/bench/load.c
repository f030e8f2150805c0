#include "common/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * load - HTTP/1.1 load on one port from one thread, and what it measured.
 *
 *	load PORT CONNECTIONS[@RATE] SECONDS append STORE PREFIX [TRACE]
 *	load PORT CONNECTIONS[@RATE] SECONDS get PATH KEYS [TRACE]
 *
 * Each connection is kept alive and has one request in flight; the next is sent
 * as soon as the answer is complete. With a RATE (requests a second, all
 * connections together) each is sent when it is due, or at once if the answer
 * before it came too late; its latency counts from when it was due, so that a
 * stall is felt by all that it delays. append sends rows of 2 KB with ids
 * PREFIX-CONNECTION-NUMBER; in PATH a "{}" becomes a random number below KEYS.
 * Prints one line of JSON: requests, errors (any status above 299, or a lost
 * connection), rate a second, and latencies in microseconds. Into the file TRACE
 * goes every answer, as two unsigned 64-bit numbers: when its request was sent or
 * due (CLOCK_MONOTONIC, ns) and its latency (us). SIGTERM ends a run early, and
 * well. Exit status 1 if nothing was answered.
 *
 * It is no client of ours but a stand-in for many: no retry, no time-out beyond
 * the end of the run. A reply's head must fit HEAD_BYTES; its body is counted
 * and thrown away.
 */

enum {
	HEAD_BYTES = 8192,
	REQUEST_BYTES = 8192,
	CONNECTIONS_MAX = 4096,
	SAMPLES_MAX = 1 << 24,		/* later ones are counted, not kept */
	ROW_BYTES = 2048
};

struct conn {
	int fd;
	uint32_t index;
	uint32_t number;		/* of its next row */
	uint64_t sent_ns;		/* or due, if there is a rate */
	bool waits;			/* for its next request to be due */
	char request[REQUEST_BYTES];
	size_t request_bytes, written;
	char head[HEAD_BYTES];
	size_t head_bytes;
	bool in_body, chunked;
	uint64_t body_left;		/* without chunks */
	char tail[7];			/* the last bytes of a chunked body */
};

static struct {
	struct sockaddr_in peer;
	uint32_t connections;
	double seconds;
	uint64_t every_ns;		/* a connection's requests; 0: no rate */
	bool append;
	const char *target;		/* store, or path */
	const char *prefix;
	uint32_t keys;
} plan;

static uint32_t *samples;
static size_t sample_count;
static uint64_t requests, errors;
static FILE *trace;
static volatile sig_atomic_t stopped;
static char filler[ROW_BYTES];
static int epoll;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static NORETURN void
die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* A row as a worker sends it: text, tokens, log-probabilities, a reward. */
static size_t
put_row(char *out, size_t cap, const struct conn *c)
{
	int n = snprintf(out, cap,
	    "{\"records\":[{\"id\":\"%s-%04" PRIu32 "-%08" PRIu32 "\","
	    "\"rollout_id\":\"t-%04" PRIu32 "\",\"sequence_order\":0,"
	    "\"reward\":1.0,%s}]}",
	    plan.prefix, c->index, c->number, c->index, filler);

	MUST(n > 0 && (size_t)n < cap);
	return (size_t)n;
}

static void
make_filler(void)
{
	size_t at, i;

	at = (size_t)snprintf(filler, sizeof(filler),
	    "\"content\":\"%0600d\",\"output_tokens\":[", 0);
	for (i = 0; i < 80; i++)
		at += (size_t)snprintf(filler + at, sizeof(filler) - at,
		    "%s%zu", i ? "," : "", 100000 + i * 7);
	at += (size_t)snprintf(filler + at, sizeof(filler) - at,
	    "],\"output_logprobs\":[");
	for (i = 0; i < 80; i++)
		at += (size_t)snprintf(filler + at, sizeof(filler) - at,
		    "%s-0.%03zu", i ? "," : "", i * 11 % 1000);
	snprintf(filler + at, sizeof(filler) - at, "]");
}

static void
make_request(struct conn *c)
{
	char text[ROW_BYTES + 512];
	size_t bytes;
	int n;

	if (plan.append) {
		bytes = put_row(text, sizeof(text), c);
		c->number++;
		n = snprintf(c->request, sizeof(c->request),
		    "POST /api/v1/rollouts/%s/records HTTP/1.1\r\n"
		    "Host: bench\r\nContent-Type: application/json\r\n"
		    "Content-Length: %zu\r\n\r\n%s", plan.target, bytes, text);
	} else {
		const char *hole = strstr(plan.target, "{}");
		int before = hole == NULL ? (int)strlen(plan.target) :
		    (int)(hole - plan.target);

		text[0] = '\0';
		if (hole != NULL)
			snprintf(text, sizeof(text), "%" PRIu32 "%s",
			    (uint32_t)random() % plan.keys, hole + 2);
		n = snprintf(c->request, sizeof(c->request),
		    "GET %.*s%s HTTP/1.1\r\nHost: bench\r\n\r\n",
		    before, plan.target, text);
	}
	MUST(n > 0 && (size_t)n < sizeof(c->request));
	c->request_bytes = (size_t)n;
	c->written = 0;
	c->head_bytes = 0;
	c->in_body = false;
}

static void
watch(struct conn *c, uint32_t events, int how)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (epoll_ctl(epoll, how, c->fd, &e) < 0)
		die("epoll_ctl");
}

static void
open_conn(struct conn *c)
{
	int on = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&plan.peer,
	    sizeof(plan.peer)) < 0)
		die("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0)
		die("fcntl");
	watch(c, EPOLLIN, EPOLL_CTL_ADD);
}

/* A whole request fits every socket buffer; what does not waits for room. */
static bool
send_request(struct conn *c)
{
	while (c->written < c->request_bytes) {
		ssize_t n = send(c->fd, c->request + c->written,
		    c->request_bytes - c->written, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			watch(c, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			return true;
		}
		if (n < 0)
			return false;
		c->written += (size_t)n;
	}
	return true;
}

static void
start(struct conn *c)
{
	make_request(c);
	if (plan.every_ns == 0)
		c->sent_ns = now_ns();
	c->waits = false;
	if (!send_request(c)) {
		errors++;
		close(c->fd);
		open_conn(c);
	}
}

static void
finish(struct conn *c)
{
	uint64_t us = (now_ns() - c->sent_ns) / 1000;

	requests++;
	if (trace != NULL)
		fwrite((uint64_t[]){ c->sent_ns, us }, sizeof(us), 2, trace);
	if (sample_count < SAMPLES_MAX)
		samples[sample_count++] = (uint32_t)MIN(us, UINT32_MAX);
	if (atoi(c->head + 9) > 299)
		errors++;
	if (plan.every_ns == 0) {
		start(c);
		return;
	}
	c->sent_ns += plan.every_ns;
	c->waits = true;
}

/* Starts what is due; the time until the next one is, at most max_ns. */
static uint64_t
start_due(struct conn *conns, uint64_t max_ns)
{
	uint64_t now = now_ns(), left = max_ns;
	uint32_t i;

	for (i = 0; i < plan.connections; i++) {
		struct conn *c = &conns[i];

		if (!c->waits)
			continue;
		if (c->sent_ns <= now)
			start(c);
		else
			left = MIN(left, c->sent_ns - now);
	}
	return left;
}

/* True once the last byte of the body has come. */
static bool
eat_body(struct conn *c, const char *data, size_t bytes)
{
	size_t keep;

	if (!c->chunked) {
		MUST(bytes <= c->body_left);	/* one request in flight */
		c->body_left -= bytes;
		return c->body_left == 0;
	}
	keep = MIN(bytes, sizeof(c->tail));
	memmove(c->tail, c->tail + keep, sizeof(c->tail) - keep);
	memcpy(c->tail + sizeof(c->tail) - keep, data + bytes - keep, keep);
	return memcmp(c->tail, "\r\n0\r\n\r\n", sizeof(c->tail)) == 0;
}

/* The head is complete: how the body is framed. */
static void
read_head(struct conn *c)
{
	const char *at;

	c->head[c->head_bytes - 1] = '\0';
	at = strcasestr(c->head, "\r\ncontent-length:");
	c->chunked = at == NULL;
	c->body_left = at == NULL ? 0 : strtoull(at + 17, NULL, 10);
	memset(c->tail, 0, sizeof(c->tail));
	c->in_body = true;
}

/* False if the connection is lost. */
static bool
receive(struct conn *c)
{
	char data[65536];
	ssize_t n = recv(c->fd, data, sizeof(data), 0);
	size_t at = 0;

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0)
		return false;
	while (!c->in_body && at < (size_t)n) {
		if (c->head_bytes == sizeof(c->head) - 1)
			return false;
		c->head[c->head_bytes++] = data[at++];
		if (c->head_bytes >= 4 && memcmp(c->head + c->head_bytes - 4,
		    "\r\n\r\n", 4) == 0)
			read_head(c);
	}
	if (c->in_body && eat_body(c, data + at, (size_t)n - at))
		finish(c);
	return true;
}

static void
turn(struct conn *c, uint32_t events)
{
	bool ok = true;

	if (events & EPOLLOUT) {
		watch(c, EPOLLIN, EPOLL_CTL_MOD);
		ok = send_request(c);
	}
	if (ok && (events & ~(uint32_t)EPOLLOUT))
		ok = receive(c);
	if (!ok) {
		errors++;
		close(c->fd);
		open_conn(c);
		start(c);
	}
}

static int
by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t
percentile(double share)
{
	size_t at = (size_t)((double)sample_count * share);

	return samples[MIN(at, sample_count - 1)];
}

static void
read_plan(int argc, char **argv)
{
	const char *rate;

	if (argc < 7 || argc > 8 || (strcmp(argv[4], "append") != 0 &&
	    strcmp(argv[4], "get") != 0)) {
		fprintf(stderr, "usage: load PORT CONNECTIONS[@RATE] SECONDS "
		    "append STORE PREFIX | get PATH KEYS [TRACE]\n");
		exit(2);
	}
	plan.peer.sin_family = AF_INET;
	plan.peer.sin_port = htons((uint16_t)atoi(argv[1]));
	plan.peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	plan.connections = (uint32_t)atoi(argv[2]);
	rate = strchr(argv[2], '@');
	if (rate != NULL && atof(rate + 1) > 0)
		plan.every_ns = (uint64_t)(plan.connections * 1e9 /
		    atof(rate + 1));
	plan.seconds = atof(argv[3]);
	plan.append = strcmp(argv[4], "append") == 0;
	plan.target = argv[5];
	plan.prefix = argv[6];
	plan.keys = plan.append ? 1 : (uint32_t)atoi(argv[6]);
	if (plan.connections == 0 || plan.connections > CONNECTIONS_MAX ||
	    plan.keys == 0 || plan.seconds <= 0) {
		fprintf(stderr, "load: a number is out of bounds\n");
		exit(2);
	}
	if (argc == 8 && (trace = fopen(argv[7], "w")) == NULL)
		die(argv[7]);
}

static void
stop(int signal_number)
{
	(void)signal_number;
	stopped = 1;
}

int
main(int argc, char **argv)
{
	struct epoll_event events[256];
	struct conn *conns;
	uint64_t begun, end;
	double took;
	uint32_t i;
	int n;

	read_plan(argc, argv);
	make_filler();
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	conns = calloc(plan.connections, sizeof(*conns));
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (samples == NULL || conns == NULL || epoll < 0)
		die("start");
	for (i = 0; i < plan.connections; i++) {
		conns[i].index = i;
		open_conn(&conns[i]);
	}
	begun = now_ns();
	end = begun + (uint64_t)(plan.seconds * 1e9);
	for (i = 0; i < plan.connections; i++) {
		conns[i].sent_ns = begun + plan.every_ns * i / plan.connections;
		conns[i].waits = true;
	}
	signal(SIGTERM, stop);
	while (!stopped && now_ns() < end) {
		uint64_t left = start_due(conns, 100000000);
		struct timespec wait = { 0, (long)left };

		n = epoll_pwait2(epoll, events, ARRAY_LEN(events), &wait, NULL);
		for (i = 0; n > 0 && i < (uint32_t)n; i++)
			turn(events[i].data.ptr, events[i].events);
	}
	took = (double)(now_ns() - begun) / 1e9;
	if (sample_count == 0) {
		fprintf(stderr, "load: no answer\n");
		return 1;
	}
	if (trace != NULL && fclose(trace) != 0)
		die("trace");
	qsort(samples, sample_count, sizeof(*samples), by_size);
	printf("{\"requests\":%" PRIu64 ",\"errors\":%" PRIu64 ","
	    "\"rate\":%.1f,\"p50_us\":%" PRIu32 ",\"p99_us\":%" PRIu32 ","
	    "\"max_us\":%" PRIu32 "}\n", requests, errors,
	    (double)requests / took, percentile(0.50), percentile(0.99),
	    samples[sample_count - 1]);
	return 0;
}
