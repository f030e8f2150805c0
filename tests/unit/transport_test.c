#include "common/base.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/transport.h"

/* A peer that answers each test's one request with these bytes, or not at all;
 * what it was asked goes into a pipe. */

#define LONG_NS (20 * NS_PER_SEC)
#define AT_ONCE 4u			/* who ask together */

static struct peer {
	pid_t pid;
	int asked;			/* read end */
	char url[64];
} peer;

static _Atomic bool stop;
static struct transport_reply reply;

static void
serve(int listener, int asked, const char *answer, size_t len)
{
	char text[4096];
	size_t n = 0;
	ssize_t got;
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		_exit(1);
	do {
		got = read(fd, text + n, sizeof(text) - 1 - n);
		if (got <= 0)
			_exit(2);
		n += (size_t)got;
		text[n] = '\0';
	} while (strstr(text, "\r\n\r\n") == NULL);
	if (write(asked, text, n) != (ssize_t)n)
		_exit(3);
	if (answer == NULL)
		pause();
	while (len > 0) {
		ssize_t sent = send(fd, answer, len, MSG_NOSIGNAL);

		if (sent <= 0)
			_exit(0);	/* it has enough */
		answer += sent;
		len -= (size_t)sent;
	}
	_exit(0);
}

static void
answer_with(const char *answer, size_t len)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pipes[2];

	assert_int_equal(bind(listener, (struct sockaddr *)&a, size), 0);
	assert_int_equal(listen(listener, AT_ONCE), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &size), 0);
	assert_int_equal(pipe(pipes), 0);
	snprintf(peer.url, sizeof(peer.url), "http://127.0.0.1:%u/x",
	    ntohs(a.sin_port));
	peer.asked = pipes[0];
	peer.pid = fork();
	if (peer.pid == 0) {
		MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		serve(listener, pipes[1], answer, len);
	}
	assert_true(peer.pid > 0);
	close(pipes[1]);
	close(listener);
}

static int
setup(void **state)
{
	(void)state;
	alarm(60);
	atomic_store(&stop, false);
	peer = (struct peer){ .asked = -1 };
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	if (peer.pid > 0) {
		kill(peer.pid, SIGKILL);
		waitpid(peer.pid, NULL, 0);
		close(peer.asked);
	}
	return 0;
}

static struct err
post(const char *url, struct slice bearer, uint64_t span_ns)
{
	struct transport_request q = { url, bearer, span_ns, &stop };

	return transport_post(&q, &reply);
}

static void
kind_is(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

#define ANSWER(text) answer_with(text, sizeof(text) - 1)

static void
it_asks_and_is_answered(void **state)
{
	char text[4096];
	ssize_t n;

	(void)state;
	ANSWER("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
	kind_is(post(peer.url, SLICE("s3cret"), LONG_NS), ERR_OK);
	assert_int_equal(reply.status, 503);
	assert_int_equal(reply.body_len, 4);
	assert_memory_equal(reply.body, "busy", 4);
	n = read(peer.asked, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_memory_equal(text, "POST /x HTTP/1.1\r\n", 18);
	assert_non_null(strstr(text, "\r\nAuthorization: Bearer s3cret\r\n"));
	assert_non_null(strstr(text, "\r\nContent-Length: 0\r\n"));
}

/* A redirect is an answer like any other: nobody is asked for it. */
static void
it_goes_nowhere_else(void **state)
{
	(void)state;
	assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
	ANSWER("HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/\r\n"
	    "Content-Length: 0\r\n\r\n");
	kind_is(post(peer.url, SLICE(""), LONG_NS), ERR_OK);
	assert_int_equal(reply.status, 302);
	assert_int_equal(unsetenv("http_proxy"), 0);
}

static void
bodies_are_bounded(void **state)
{
	static char bytes[TRANSPORT_BODY_MAX + 200];
	int n = snprintf(bytes, sizeof(bytes), "HTTP/1.1 200 OK\r\n"
	    "Content-Length: %u\r\n\r\n", TRANSPORT_BODY_MAX);

	(void)state;
	memset(bytes + n, 'x', sizeof(bytes) - (size_t)n);
	answer_with(bytes, (size_t)n + TRANSPORT_BODY_MAX);
	kind_is(post(peer.url, SLICE(""), LONG_NS), ERR_OK);
	assert_int_equal(reply.body_len, TRANSPORT_BODY_MAX);
	teardown(state);
	n = snprintf(bytes, sizeof(bytes), "HTTP/1.1 200 OK\r\n\r\n");
	memset(bytes + n, 'x', sizeof(bytes) - (size_t)n);
	answer_with(bytes, (size_t)n + TRANSPORT_BODY_MAX + 1);
	kind_is(post(peer.url, SLICE(""), LONG_NS), ERR_TOO_LARGE);
}

static void
no_answer_is_an_error(void **state)
{
	static const char *const bad[] = { "", "HTTP/1.1 200 OK\r\n"
	    "Content-Length: 9\r\n\r\nshort", "SSH-2.0-nobody\r\n" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		answer_with(bad[i], strlen(bad[i]));
		kind_is(post(peer.url, SLICE(""), LONG_NS), ERR_IO);
		teardown(state);
	}
	peer.pid = 0;
	/* Nobody listens there any more. */
	kind_is(post(peer.url, SLICE(""), LONG_NS), ERR_UNAVAILABLE);
	kind_is(post("https://127.0.0.1:1/", SLICE(""), LONG_NS),
	    ERR_BAD_INPUT);
	kind_is(post("http://127.0.0.1:notaport/", SLICE(""), LONG_NS),
	    ERR_BAD_INPUT);
}

static void
it_waits_for_so_long(void **state)
{
	(void)state;
	answer_with(NULL, 0);
	kind_is(post(peer.url, SLICE(""), 50 * NS_PER_MS), ERR_TIMED_OUT);
	atomic_store(&stop, true);
	kind_is(post(peer.url, SLICE(""), LONG_NS), ERR_UNAVAILABLE);
}

static void *
ask_alone(void *arg)
{
	struct err *e = arg;
	struct transport_reply own;
	struct transport_request q = { peer.url, SLICE("s3cret"), LONG_NS,
	    &stop };

	*e = transport_post(&q, &own);
	return NULL;
}

/* As many as the maintainer asks together: each has handles of its own, and one
 * word tells all to leave. */
static void
several_ask_at_once(void **state)
{
	struct err ends[AT_ONCE];
	pthread_t threads[AT_ONCE];
	char text[1];
	uint32_t i;

	(void)state;
	answer_with(NULL, 0);
	for (i = 0; i < AT_ONCE; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_alone,
		    &ends[i]), 0);
	assert_int_equal(read(peer.asked, text, 1), 1);
	atomic_store(&stop, true);
	for (i = 0; i < AT_ONCE; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		kind_is(ends[i], ERR_UNAVAILABLE);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(it_asks_and_is_answered),
		T(it_goes_nowhere_else),
		T(bodies_are_bounded),
		T(no_answer_is_an_error),
		T(it_waits_for_so_long),
		T(several_ask_at_once),
#undef T
	};

	transport_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
