#include "common/base.h"

#include <sys/resource.h>

#include "tests/unit/http_peer.h"

/*
 * Slow peers, peers that leave, and the server that leaves: field faults D.2,
 * D.3, D.8, F.2, F.4, G.6 and G.7. Time runs SPEED times faster here.
 */

#define HOST	"Host: x\r\n"
#define SPEED	20

static int
setup(void **state)
{
	serve(*(bool *)*state);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	close_server();
	return 0;
}

static struct peer p, q;

/* As a process that dies with unread data does. */
static void
peer_reset(struct peer *peer)
{
	struct linger l = { 1, 0 };

	setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(peer->fd);
}

static void
pass(uint64_t span_ns)
{
	uint64_t until = clock_mono_ns() + span_ns;

	while (clock_mono_ns() < until)
		loop_turn(loop, until - MIN(until, clock_mono_ns()));
}

/* --- slow peers --- */

static void
test_head_has_a_total_deadline(void **state)
{
	(void)state;
	settings.head_timeout_ns = 4 * NS_PER_SEC;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n");
	for (int i = 0; i < 40 && !peer_ended(&p); i++) {
		peer_say(&p, "a");	/* never idle for long */
		pass(500 * NS_PER_MS);
	}
	assert_true(peer_ended(&p));
	assert_int_equal(strncmp(p.got, "HTTP/1.1 408 ", 13), 0);
	assert_int_equal(events[HTTP_EVENT_HEAD_TIMEOUT], 1);
	peer_close(&p);
}

static void
test_idle_is_closed_late_and_silently(void **state)
{
	(void)state;
	settings.keep_alive_timeout_ns = 5 * NS_PER_SEC;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	pass(4 * NS_PER_SEC);
	peer_look(&p);
	assert_false(p.ended);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(peer_has(&p, "\r\n\r\nok", 2));
	p.len = 0;
	TURN_UNTIL(peer_ended(&p));
	assert_int_equal(p.len, 0);
	peer_close(&p);
}

static void
test_body_that_stops(void **state)
{
	(void)state;
	settings.body_idle_timeout_ns = 3 * NS_PER_SEC;
	open_server();
	peer_open(&p);
	peer_say(&p, "POST /pieces HTTP/1.1\r\n" HOST
	    "Content-Length: 10\r\n\r\nabc");
	PEER_UNTIL(&p, "}}");
	assert_int_equal(strncmp(p.got, "HTTP/1.1 408 ", 13), 0);
	assert_non_null(strstr(p.got, "\"code\":\"TIMEOUT\",\"message\":"
	    "\"request body idle timeout\""));
	TURN_UNTIL(peer_ended(&p));
	assert_int_equal(events[HTTP_EVENT_BODY_TIMEOUT], 1);
	assert_int_equal(gone, 1);
	peer_close(&p);
}

static void
drip(struct peer *peer, size_t step, uint64_t every_ns, uint32_t times)
{
	static char bytes[1 << 16];

	memset(bytes, 'd', sizeof(bytes));
	for (uint32_t i = 0; i < times && !peer_ended(peer); i++) {
		peer_write(peer, bytes, step);
		pass(every_ns);
	}
}

static void
test_body_has_a_minimum_rate(void **state)
{
	(void)state;
	settings.body_rate_min = 1000;
	settings.body_rate_grace_ns = 3 * NS_PER_SEC;
	open_server();
	peer_open(&p);
	peer_say(&p, "POST /whole HTTP/1.1\r\n" HOST
	    "Content-Length: 200000\r\n\r\n");
	drip(&p, 100, NS_PER_SEC, 20);
	assert_int_equal(strncmp(p.got, "HTTP/1.1 408 ", 13), 0);
	peer_close(&p);

	/* An honest one passes. */
	peer_open(&p);
	peer_say(&p, "POST /whole HTTP/1.1\r\n" HOST
	    "Content-Length: 200000\r\n\r\n");
	drip(&p, 20000, NS_PER_SEC, 10);
	PEER_UNTIL(&p, "HTTP/1.1 201 ");
	peer_close(&p);
}

static void
test_reader_that_stops(void **state)
{
	(void)state;
	settings.write_idle_timeout_ns = 3 * NS_PER_SEC;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /large HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(http_connections(server) == 1);
	TURN_UNTIL(http_connections(server) == 0);
	assert_int_equal(events[HTTP_EVENT_WRITE_TIMEOUT], 1);
	assert_int_equal(finished, 1);
	peer_close(&p);
}

static void
test_handler_past_its_deadline(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "POST /later HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx");
	PEER_UNTIL(&p, "HTTP/1.1 503 ");
	TURN_UNTIL(peer_has(&p, "}}", 1));
	assert_int_equal(gone, 1);
	pass(NS_PER_SEC);
	assert_int_equal(http_connections(server), 1);	/* its memory stays */
	assert_int_equal(finished, 0);
	later_reply();
	TURN_UNTIL(http_connections(server) == 0);
	assert_int_equal(finished, 1);
	peer_close(&p);
}

/* Slow heads and bodies hold none of the shared buffers. */
static void
test_slow_ones_do_not_hold_up_others(void **state)
{
	enum { N = 4 * BUFS };
	static struct peer slow[N];

	(void)state;
	open_server();
	for (int i = 0; i < N; i++) {
		peer_open(&slow[i]);
		peer_say(&slow[i], i % 2 == 0 ? "GET /ok HTT" :
		    "POST /whole HTTP/1.1\r\n" HOST
		    "Content-Length: 100\r\n\r\nabc");
	}
	TURN_UNTIL(http_connections(server) == N);
	for (int i = 0; i < 10; i++)
		loop_turn(loop, 0);
	assert_int_equal(loop_bufs_free(loop), BUFS);
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "\r\n\r\nok");
	peer_close(&p);
	for (int i = 0; i < N; i++)
		peer_close(&slow[i]);
}

/* Nor do handlers that wait, however many. */
static void
test_more_in_flight_than_buffers(void **state)
{
	enum { N = 5 * BUFS };
	static struct peer peers[N];

	(void)state;
	open_server();
	for (int i = 0; i < N; i++) {
		peer_open(&peers[i]);
		peer_say(&peers[i], "POST /later HTTP/1.1\r\n" HOST
		    "Content-Length: 1\r\n\r\nx");
	}
	TURN_UNTIL(http_requests_active(server) == N && begun == N);
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "\r\n\r\nok");
	peer_close(&p);
	while (later != NULL)
		later_reply();
	for (int i = 0; i < N; i++) {
		PEER_UNTIL(&peers[i], "HTTP/1.1 201 ");
		peer_close(&peers[i]);
	}
}

/* --- peers that leave --- */

static void
test_body_cut_off(void **state)
{
	static const char *const starts[] = {
		"POST /pieces HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nab",
		"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\n",
		"POST /whole HTTP/1.1\r\n" HOST
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"POST /pieces HTTP/1.1\r\n" HOST
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
		"POST /paused HTTP/1.1\r\n" HOST
		"Content-Length: 1000000\r\n\r\nab",
	};
	uint32_t n = 0;

	(void)state;
	open_server();
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
			peer_open(&p);
			peer_say(&p, starts[i]);
			n++;
			TURN_UNTIL(begun == n);
			if (round % 2 == 0)
				peer_close(&p);
			else
				peer_reset(&p);
			TURN_UNTIL(http_connections(server) == 0);
			assert_int_equal(gone, n);
			assert_int_equal(finished, n);
		}
	}
	assert_int_equal(events[HTTP_EVENT_BODY_CUT], n);
	assert_int_equal(last_sample.status, 0);
}

/* F.2 and F.4: many at once, half of them reset, at every stage. */
static void
test_storm_of_resets(void **state)
{
	enum { N = 8 * BUFS };
	static struct peer peers[N];
	static char bytes[100000];
	static const char *const requests[] = {
		"GET /ok HTTP/1.1\r\n" HOST "\r\n",
		"GET /list?3000 HTTP/1.1\r\n" HOST "\r\n",
		"GET /large HTTP/1.1\r\n" HOST "\r\n",
		"POST /pieces HTTP/1.1\r\n" HOST
		"Content-Length: 100000\r\n\r\n",
		"POST /paused HTTP/1.1\r\n" HOST
		"Transfer-Encoding: chunked\r\n\r\n186a0\r\n",
		"POST /refuse HTTP/1.1\r\n" HOST
		"Content-Length: 100000\r\n\r\n",
		"GET /o",
	};

	(void)state;
	open_server();
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < N; i++) {
			size_t kind = (size_t)(i + round) % ARRAY_LEN(requests);

			peer_open(&peers[i]);
			peer_say(&peers[i], requests[kind]);
			if (kind >= 3 && kind <= 5)
				peer_write(&peers[i], bytes, i % 4 == 1 ?
				    sizeof(bytes) : (size_t)i * 100);
			if (i % 3 == 0)
				loop_turn(loop, 0);
			if (i % 2 == 0)
				peer_reset(&peers[i]);
		}
		for (int i = 1; i < N; i += 2) {
			size_t kind = (size_t)(i + round) % ARRAY_LEN(requests);

			if (kind <= 1)
				PEER_UNTIL(&peers[i], "HTTP/1.1 200 ");
			if (kind == 3 && i % 4 == 1)
				PEER_UNTIL(&peers[i], "HTTP/1.1 201 ");
			peer_close(&peers[i]);
		}
		TURN_UNTIL(http_connections(server) == 0);
		assert_int_equal(loop_bufs_free(loop), BUFS);
		assert_int_equal(reserved, 0);
		assert_int_equal(finished, begun);
	}
}

/* A peer that says no more may still listen. */
static void
test_half_closed(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "POST /later HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx");
	shutdown(p.fd, SHUT_WR);
	TURN_UNTIL(later != NULL);
	later_reply();
	TURN_UNTIL(peer_ended(&p));
	assert_non_null(strstr(p.got, "\r\n\r\n1 78 1"));
	peer_close(&p);
}

/* --- admission --- */

static void
test_too_many_connections(void **state)
{
	static struct peer peers[5];

	(void)state;
	settings.connections_max = 3;
	open_server();
	for (int i = 0; i < 3; i++) {
		peer_open(&peers[i]);
		peer_say(&peers[i], "GET /ok HTTP/1.1\r\n" HOST "\r\n");
		PEER_UNTIL(&peers[i], "ok");
	}
	for (int i = 3; i < 5; i++) {
		peer_open(&peers[i]);
		TURN_UNTIL(peer_ended(&peers[i]));
		assert_int_equal(strncmp(peers[i].got, "HTTP/1.1 503 ", 13), 0);
		assert_int_equal(strlen(strstr(peers[i].got, "\r\n\r\n") + 4),
		    atoi(strstr(peers[i].got, "Length: ") + 8));
	}
	assert_int_equal(events[HTTP_EVENT_REFUSED_FULL], 2);
	peer_close(&peers[0]);
	TURN_UNTIL(http_connections(server) == 2);
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	peer_close(&p);
	for (int i = 1; i < 5; i++)
		peer_close(&peers[i]);
}

static void
test_out_of_descriptors(void **state)
{
	struct rlimit before, few;
	int taken[64], count = 0, fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	peer_open(&q);
	peer_say(&q, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	while ((fd = dup(0)) >= 0)
		taken[count++] = fd;
	TURN_UNTIL(events[HTTP_EVENT_ACCEPT_PAUSED] > 0);
	pass(NS_PER_SEC);

	/* No spinning, and who is there is served. */
	assert_true(events[HTTP_EVENT_ACCEPT_PAUSED] < 20);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(peer_has(&p, "\r\n\r\nok", 2));
	while (count > 0)
		close(taken[--count]);
	PEER_UNTIL(&q, "ok");
	peer_close(&p);
	peer_close(&q);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void
test_another_socket_for_a_while(void **state)
{
	struct sockaddr_in first = address;
	int first_fd = listen_fd;

	(void)state;
	open_server();
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	peer_close(&p);
	http_listen(server, listen_fd);		/* twice is once */
	for (int i = 0; i < 3; i++) {
		int second_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		socklen_t len = sizeof(address);

		address.sin_port = 0;
		assert_int_equal(bind(second_fd, (struct sockaddr *)&address,
		    len), 0);
		assert_int_equal(listen(second_fd, 10), 0);
		getsockname(second_fd, (struct sockaddr *)&address, &len);
		http_listen(server, second_fd);
		peer_open(&p);
		peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
		PEER_UNTIL(&p, "ok");
		peer_close(&p);
		http_unlisten(server, second_fd);
		http_unlisten(server, second_fd);
		loop_turn(loop, 0);
		loop_turn(loop, 0);

		/* In the queue of the socket, for whoever comes. */
		peer_open(&q);
		peer_say(&q, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
		pass(100 * NS_PER_MS);
		peer_look(&q);
		assert_int_equal(q.len, 0);
		http_listen(server, second_fd);
		PEER_UNTIL(&q, "ok");
		peer_close(&q);
		http_unlisten(server, second_fd);
		loop_turn(loop, 0);
		loop_turn(loop, 0);
		close(second_fd);
	}
	address = first;
	listen_fd = first_fd;
	peer_open(&p);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	peer_close(&p);
}

/* --- the server leaves --- */

static void
test_announce(void **state)
{
	(void)state;
	open_server();
	peer_open(&p);
	peer_open(&q);
	TURN_UNTIL(http_connections(server) == 2);
	http_announce(server);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	TURN_UNTIL(peer_ended(&p));
	assert_non_null(strstr(p.got, "\r\nConnection: close\r\n\r\nok"));
	assert_false(peer_ended(&q));
	peer_close(&p);
	peer_close(&q);
}

static void
test_drain(void **state)
{
	static struct peer in_flight, reader, fresh;

	(void)state;
	settings.shutdown_response_idle_ns = 4 * NS_PER_SEC;
	open_server();
	peer_open(&p);			/* idle, and stays so */
	peer_open(&q);			/* idle, asks once more */
	peer_open(&in_flight);
	peer_open(&reader);
	peer_say(&p, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	peer_say(&q, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	peer_say(&in_flight, "POST /later HTTP/1.1\r\n" HOST
	    "Content-Length: 1\r\n\r\nx");
	peer_say(&reader, "GET /large HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&p, "ok");
	PEER_UNTIL(&q, "ok");
	TURN_UNTIL(later != NULL && begun == 4);
	http_drain(server);
	peer_open(&fresh);
	peer_say(&q, "GET /ok HTTP/1.1\r\n" HOST "\r\n");
	PEER_UNTIL(&q, "HTTP/1.1 503 ");
	PEER_UNTIL(&q, "\"UNAVAILABLE\",\"message\":\"worker is draining\"");
	assert_non_null(strstr(q.got, "Retry-After: 1\r\n"));
	assert_non_null(strstr(q.got, "Connection: close"));
	TURN_UNTIL(peer_ended(&p));
	assert_false(p.reset);
	TURN_UNTIL(http_connections(server) <= 2);

	/* Who was admitted gets his answer. */
	later_reply();
	PEER_UNTIL(&in_flight, "HTTP/1.1 201 ");
	TURN_UNTIL(peer_ended(&in_flight));
	TURN_UNTIL(http_connections(server) == 0);
	assert_int_equal(events[HTTP_EVENT_SHUTDOWN_IDLE_RESPONSE], 1);
	assert_int_equal(events[HTTP_EVENT_ACCEPTED], 4);
	peer_close(&p);
	peer_close(&q);
	peer_close(&in_flight);
	peer_close(&reader);
	peer_close(&fresh);
}

int
main(void)
{
	static bool ring = true, epoll = false;
#define EACH(test) \
	{ #test " ring", test, setup, teardown, &ring }, \
	{ #test " epoll", test, setup, teardown, &epoll }
	const struct CMUnitTest tests[] = {
		EACH(test_head_has_a_total_deadline),
		EACH(test_idle_is_closed_late_and_silently),
		EACH(test_body_that_stops),
		EACH(test_body_has_a_minimum_rate),
		EACH(test_reader_that_stops),
		EACH(test_handler_past_its_deadline),
		EACH(test_slow_ones_do_not_hold_up_others),
		EACH(test_more_in_flight_than_buffers),
		EACH(test_body_cut_off),
		EACH(test_storm_of_resets),
		EACH(test_half_closed),
		EACH(test_too_many_connections),
		EACH(test_out_of_descriptors),
		EACH(test_another_socket_for_a_while),
		EACH(test_announce),
		EACH(test_drain),
	};

	clock_set_speed(SPEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
