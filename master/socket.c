#include "common/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "master/signal.h"
#include "master/socket.h"

#define RETRY_NS (50 * NS_PER_MS)
#define BACKLOG	 4096		/* the kernel cuts it to somaxconn */

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

static char text[200];

static struct err
parse_address(const char *host, uint32_t port, struct address *a)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons((uint16_t)port);
		a->len = sizeof(a->v4);
		return OK;
	}
	if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) == 1) {
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons((uint16_t)port);
		a->len = sizeof(a->v6);
		return OK;
	}
	snprintf(text, sizeof(text), "--host %s: not an IPv4 or IPv6 address",
	    host);
	return FAIL(BAD_INPUT, text);
}

/* A bound socket; EADDRINUSE is EXISTS. */
static struct err
bind_one(const struct address *a, bool reuse_port, int *fd)
{
	int one = 1, f;
	struct err e = OK;

	f = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (f < 0)
		return FAIL_OS(IO, "make a listening socket");
	/* Connections of the last server in TIME_WAIT must not keep the port;
	 * a socket that listens does, in spite of this. */
	MUST(setsockopt(f, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	MUST(!reuse_port ||
	    setsockopt(f, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0);
	/* Inherited by what is accepted. */
	MUST(setsockopt(f, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	if (bind(f, &a->any, a->len) < 0) {
		e = errno == EADDRINUSE ? FAIL(EXISTS, "address in use") :
		    FAIL_OS(IO, "bind");
		close(f);
		return e;
	}
	*fd = f;
	return OK;
}

static void
learn_port(int fd, struct address *a, uint32_t *port)
{
	socklen_t len = sizeof(a->v6);

	MUST(getsockname(fd, &a->any, &len) == 0);
	*port = ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port :
	    a->v6.sin6_port);
}

static struct err
name_failure(struct err e, const struct socket_ask *ask)
{
	snprintf(text, sizeof(text), e.kind == ERR_EXISTS ?
	    "port %2$u on %1$s is in use: stop who listens there, or choose "
	    "another --port" : "cannot listen on %s port %u", ask->host,
	    ask->port);
	e.what = text;
	return e;
}

/* Bound alone, once, then given up: nobody else listens here. */
static struct err
probe(const struct socket_ask *ask, struct address *a, uint32_t *port)
{
	uint64_t tried_ns;
	struct err e;
	int fd;

	for (tried_ns = 0; ; tried_ns += RETRY_NS) {
		e = bind_one(a, false, &fd);
		if (e.kind != ERR_EXISTS || tried_ns >= ask->wait_ns)
			break;
		if (tried_ns == 0)
			log_warn("port is in use, waiting for it port=%u",
			    ask->port);
		if (signal_pause(RETRY_NS))
			return FAIL(TIMED_OUT, "asked to stop");
	}
	if (err_is(e))
		return name_failure(e, ask);
	learn_port(fd, a, port);
	close(fd);
	return OK;
}

struct err
socket_listen(const struct socket_ask *ask, int *fds, uint32_t *port)
{
	struct address a;
	struct err e = parse_address(ask->host, ask->port, &a);
	uint32_t i = 0;

	if (!err_is(e))
		e = probe(ask, &a, port);
	if (err_is(e))
		return e;
	for (; i < ask->count + ask->spare; i++) {
		e = bind_one(&a, true, &fds[i]);
		if (!err_is(e) && i < ask->count && listen(fds[i], BACKLOG) < 0) {
			e = errno == EADDRINUSE ?
			    FAIL(EXISTS, "address in use") :
			    FAIL_OS(IO, "listen");
			close(fds[i]);
		}
		if (err_is(e))
			goto out;
	}
out:
	if (err_is(e)) {
		socket_close_all(fds, i);
		e = name_failure(e, ask);
	}
	return e;
}

struct err
socket_revive(int fd)
{
	int unused = 0;

	/* A worker that left has barred it (door.c); mostly none has. */
	(void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused,
	    sizeof(unused));
	return listen(fd, BACKLOG) < 0 ? FAIL_OS(IO, "listen again") : OK;
}

static bool
listens(int fd)
{
	socklen_t len = sizeof(int);
	int yes = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) == 0 &&
	    yes != 0;
}

void
socket_end(int fd)
{
	/* One that does not listen would keep the mark of the shutdown, and what
	 * it accepts once it listens again would inherit that: no bytes. */
	if (listens(fd))
		shutdown(fd, SHUT_RD);
}

static bool
same_address(const struct address *want, const struct address *is)
{
	if (want->any.sa_family != is->any.sa_family)
		return false;
	if (want->any.sa_family == AF_INET)
		return want->v4.sin_addr.s_addr == is->v4.sin_addr.s_addr;
	return memcmp(&want->v6.sin6_addr, &is->v6.sin6_addr,
	    sizeof(want->v6.sin6_addr)) == 0;
}

struct err
socket_adopt(const struct socket_ask *ask, const int *fds, uint32_t *port)
{
	struct address want, is;
	struct err e = parse_address(ask->host, ask->port, &want);
	uint32_t i;

	for (i = 0; i < ask->count && !err_is(e); i++) {
		if (!listens(fds[i])) {
			e = FAIL(BAD_INPUT, "what the old master passed on is no "
			    "listening socket");
			continue;
		}
		learn_port(fds[i], &is, port);
		if (!same_address(&want, &is) ||
		    (ask->port != 0 && ask->port != *port))
			e = FAIL(BAD_INPUT, "an upgrade keeps --host and --port: "
			    "restart to change them");
	}
	return e;
}

void
socket_defer(const int *fds, uint32_t count, bool on)
{
	int secs = on ? 1 : 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		MUST(setsockopt(fds[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs,
		    sizeof(secs)) == 0);
}

void
socket_close_all(int *fds, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}
