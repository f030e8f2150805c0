#include "common/base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "master/signal.h"
#include "master/socket.h"

static int
client(uint32_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Each of the sockets gets some of many connections. */
static void
connections_are_spread(void **state)
{
	struct socket_ask ask = { "127.0.0.1", 0, 4, 0, 0 };
	int fds[4], got[4] = { 0 }, conns[64], fd;
	uint32_t port, i;

	(void)state;
	assert_false(err_is(socket_listen(&ask, fds, &port)));
	assert_true(port > 0);
	for (i = 0; i < 64; i++) {
		conns[i] = client(port);
		assert_true(conns[i] >= 0);
	}
	for (i = 0; i < 4; i++) {
		while ((fd = accept(fds[i], NULL, NULL)) >= 0) {
			got[i]++;
			close(fd);
		}
		assert_true(got[i] > 0);
	}
	assert_int_equal(got[0] + got[1] + got[2] + got[3], 64);
	for (i = 0; i < 64; i++)
		close(conns[i]);
	socket_close_all(fds, 4);
	assert_int_equal(client(port), -1);
}

static void
a_port_in_use_is_noticed(void **state)
{
	struct socket_ask ask = { "127.0.0.1", 0, 2, 0, 0 };
	int fds[2], more[2];
	uint32_t port, again;
	struct err e;

	(void)state;
	assert_false(err_is(socket_listen(&ask, fds, &port)));
	ask.port = port;
	ask.wait_ns = 100 * NS_PER_MS;
	e = socket_listen(&ask, more, &again);
	assert_int_equal(e.kind, ERR_EXISTS);
	assert_non_null(strstr(e.what, "in use"));
	/* A stop is heard in the wait. */
	ask.wait_ns = 60 * NS_PER_SEC;
	kill(getpid(), SIGTERM);
	assert_int_equal(socket_listen(&ask, more, &again).kind,
	    ERR_TIMED_OUT);
	socket_close_all(fds, 2);
	assert_false(err_is(socket_listen(&ask, more, &again)));
	assert_int_equal(again, port);
	socket_close_all(more, 2);
}

/* Connections that the last server closed first sit in TIME_WAIT. */
static void
time_wait_does_not_keep_the_port(void **state)
{
	struct socket_ask ask = { "127.0.0.1", 0, 1, 0, 0 };
	int fds[1], c, s;
	uint32_t port, again;

	(void)state;
	assert_false(err_is(socket_listen(&ask, fds, &port)));
	c = client(port);
	while ((s = accept(fds[0], NULL, NULL)) < 0)
		continue;
	close(s);
	close(c);
	socket_close_all(fds, 1);
	ask.port = port;
	assert_false(err_is(socket_listen(&ask, fds, &again)));
	socket_close_all(fds, 1);
}

static void
addresses(void **state)
{
	struct socket_ask ask = { "localhost", 0, 1, 0, 0 };
	int fds[1];
	uint32_t port;
	struct err e;

	(void)state;
	e = socket_listen(&ask, fds, &port);
	assert_int_equal(e.kind, ERR_BAD_INPUT);
	assert_non_null(strstr(e.what, "localhost"));
	ask.host = "192.0.2.1";		/* nobody's */
	e = socket_listen(&ask, fds, &port);
	assert_int_equal(e.kind, ERR_IO);
	assert_non_null(strstr(e.what, "192.0.2.1"));
}

/* What a resize does: a spare one begins to listen, one that was ended begins
 * again, and its connections carry bytes. */
static void
spare_ones_listen_when_they_are_revived(void **state)
{
	struct socket_ask ask = { "127.0.0.1", 0, 1, 0, 1 };
	int fds[2], round, c, a;
	uint32_t port;
	char byte;

	(void)state;
	assert_false(err_is(socket_listen(&ask, fds, &port)));
	socket_end(fds[0]);
	assert_int_equal(client(port), -1);	/* the spare one gets nothing */
	for (round = 0; round < 3; round++) {
		assert_false(err_is(socket_revive(fds[1])));
		assert_false(err_is(socket_revive(fds[1])));
		c = client(port);
		assert_true(c >= 0);
		a = accept(fds[1], NULL, NULL);
		assert_true(a >= 0);
		assert_int_equal(send(c, "x", 1, 0), 1);
		assert_int_equal(recv(a, &byte, 1, 0), 1);
		close(a);
		close(c);
		socket_end(fds[1]);
		socket_end(fds[1]);
		assert_int_equal(client(port), -1);
	}
	socket_close_all(fds, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spare_ones_listen_when_they_are_revived),
		cmocka_unit_test(connections_are_spread),
		cmocka_unit_test(a_port_in_use_is_noticed),
		cmocka_unit_test(time_wait_does_not_keep_the_port),
		cmocka_unit_test(addresses),
	};

	log_set_level(LOG_ERROR);
	signal_open();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
