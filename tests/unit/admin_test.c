#include "common/base.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "shm/mutex.h"
#include "shm/instance.h"
#include "shm/process.h"
#include "shm/segment.h"
#include "master/admin.h"
#include "master/call.h"
#include "master/child.h"
#include "shm_insert.h"

/* Stores of the list that is long. */
#define MANY 3000

static char root[64], path[100];
static bool shut;

static void
on_shutdown(void)
{
	shut = true;
}

static struct status_server server = { "me", "127.0.0.1", 1, "running", 0 };

static void
reloaded(void)
{
}

static bool
is_draining(void)
{
	return shut;
}

static struct admin_plan
plan_at(const char *p)
{
	return (struct admin_plan){ p, &server, on_shutdown,
	    is_draining, is_draining, reloaded, NULL };
}

static int
setup(void **state)
{
	struct admin_plan plan;

	(void)state;
	snprintf(root, sizeof(root), "/tmp/admin_test.XXXXXX");
	if (mkdtemp(root) == NULL)
		return 1;
	snprintf(path, sizeof(path), "%s/admin.sock", root);
	plan = plan_at(path);
	return err_is(admin_open(&plan));
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	admin_close(false);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static int
connect_client(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Turns of the master's loop until there is nothing to do. */
static void
turn(uint64_t now_ns)
{
	struct pollfd polls[ADMIN_POLLS_MAX];
	uint32_t n = admin_polls(polls, true);

	while (poll(polls, n, 0) > 0) {
		admin_serve(polls, n, now_ns);
		n = admin_polls(polls, true);
	}
	admin_serve(polls, 0, now_ns);
}

/* All that came, as text; *closed: and then the end. */
static const char *
receive(int fd, bool *closed)
{
	static char text[1u << 16];
	size_t got = 0;
	ssize_t n;

	*closed = false;
	while ((n = recv(fd, text + got, sizeof(text) - 1 - got, 0)) > 0)
		got += (size_t)n;
	*closed = n == 0;
	text[got] = '\0';
	return text;
}

/* The last line, then the body, put together from its pieces. */
static const char *
decode(const char *answer)
{
	static char plain[1u << 16];
	char body[1u << 16];
	size_t got = 0, n;
	int at;

	while (sscanf(answer, "BODY %zu%n", &n, &at) == 1) {
		memcpy(body + got, answer + at + 1, n);
		got += n;
		answer += at + 1 + n;
	}
	body[got] = '\0';
	snprintf(plain, sizeof(plain), "%s%s", answer, body);
	return plain;
}

static const char *
ask(const char *request)
{
	const char *answer;
	bool closed;
	int fd = connect_client();

	assert_int_equal(send(fd, request, strlen(request), 0),
	    strlen(request));
	turn(shm_lock_now_ns());
	answer = receive(fd, &closed);
	assert_true(closed);
	close(fd);
	return decode(answer);
}

static void
assert_begins(const char *text, const char *want)
{
	if (strncmp(text, want, strlen(want)) != 0)
		fail_msg("\"%.200s\" does not begin with \"%s\"", text, want);
}

static void
commands_are_answered(void **state)
{
	(void)state;
	assert_begins(ask("status\n"), "OK\ninstance me on 127.0.0.1 port 1: "
	    "running, not clean\n" "not ready: starting\n");
	assert_begins(ask("status --check\n"), "UNHEALTHY\n");
	assert_begins(ask("status --json\r\n"), "OK\n{\"clean\":false,");
	assert_begins(ask("status --xml\n"), "ERROR status: has no option");
	assert_begins(ask("status --json=1\n"), "ERROR status: --json takes");
	assert_begins(ask("status --json --json\n"), "ERROR status: --json is");
	assert_begins(ask("status now\n"), "ERROR status: one word too many");
	assert_begins(ask("stores --kind\n"), "ERROR stores: --kind takes");
	assert_begins(ask("stores --kind=roll\n"), "ERROR stores: --kind is");
	assert_begins(ask("stores --kind=generic --json\n"),
	    "OK\n{\"stores\":[]}\n");
	assert_begins(ask("log-level\n"), "ERROR log-level: needs error|warn");
	assert_begins(ask("  workers  \n"), "OK\nSLOT");
	assert_begins(ask("stores\n"), "OK\nKIND");
	assert_begins(ask("shards\n"), "OK\nKIND");
	assert_begins(ask("ordinals\n"), "OK\nORDINAL");
	assert_begins(ask("log-level error\n"), "OK\n");
	assert_begins(ask("log-level loud\n"), "ERROR log-level:");
	assert_begins(ask("fault wal_sync=off\n"), "OK\n");
	assert_begins(ask("fault nonsense\n"), "ERROR ");
	assert_begins(ask("fault\n"), "OK\nwal_write=0\nwal_sync=0\n");
	assert_begins(ask("dance\n"), "ERROR no such command");
	assert_begins(ask("\n"), "ERROR no such command");
	assert_false(shut);
	assert_begins(ask("shutdown --no-wait\n"), "OK\ndraining");
	assert_true(shut);
}

static void
a_request_may_come_in_pieces_but_not_be_long(void **state)
{
	char big[1024];
	bool closed;
	int fd = connect_client();

	(void)state;
	assert_int_equal(send(fd, "work", 4, 0), 4);
	turn(shm_lock_now_ns());
	assert_int_equal(send(fd, "ers\n", 4, 0), 4);
	turn(shm_lock_now_ns());
	assert_begins(decode(receive(fd, &closed)), "OK\n");
	close(fd);
	memset(big, 'x', sizeof(big));
	fd = connect_client();
	assert_int_equal(send(fd, big, sizeof(big), 0), sizeof(big));
	turn(shm_lock_now_ns());
	assert_begins(receive(fd, &closed), "ERROR the request line is too");
	assert_true(closed);
	close(fd);
}

static void
slow_clients_are_bounded_in_number_and_time(void **state)
{
	int slow[ADMIN_CLIENTS_MAX], fd;
	uint64_t now_ns = shm_lock_now_ns();
	bool closed;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(slow); i++) {
		slow[i] = connect_client();
		assert_int_equal(send(slow[i], "s", 1, 0), 1);
		turn(now_ns);
	}
	fd = connect_client();
	assert_int_equal(send(fd, "workers\n", 8, 0), 8);
	turn(now_ns);
	receive(fd, &closed);
	assert_false(closed);		/* it waits in the kernel's queue */
	assert_true(admin_next_ns() > now_ns);
	now_ns = admin_next_ns();
	turn(now_ns);
	for (i = 0; i < ARRAY_LEN(slow); i++) {
		receive(slow[i], &closed);
		assert_true(closed);
		close(slow[i]);
	}
	turn(now_ns);
	assert_begins(decode(receive(fd, &closed)), "OK\n");
	close(fd);
	assert_int_equal(admin_next_ns(), UINT64_MAX);
}

static void
insert_stores(uint32_t count)
{
	char name[32];
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct shm_store_key key = { STORE_GENERIC, { NULL, 0 } };
		struct uuid store = { .bytes = { (uint8_t)i,
		    (uint8_t)(i >> 8), 1 } };
		struct shm_ref ref;

		snprintf(name, sizeof(name), "s%u", i);
		key.name = slice_of(name);
		assert_false(err_is(insert_store(key, &store, &ref)));
	}
}

/* All of an answer, the master's loop being turned meanwhile. */
static size_t
receive_all(int fd, char *to, size_t room)
{
	size_t got = 0;
	ssize_t n;

	while ((n = recv(fd, to + got, room - got, 0)) != 0) {
		if (n > 0)
			got += (size_t)n;
		turn(shm_lock_now_ns());
	}
	assert_true(got < room);
	to[got] = '\0';
	return got;
}

/* A client that does not read holds up nobody; the list waits for him, in
 * pieces of a bounded size, and has every store once. */
static void
long_lists_come_in_pieces(void **state)
{
	enum { ROOM = 8 << 20 };
	char *text = malloc(ROOM), *at = text;
	uint32_t pieces = 0, stores = 0;
	int fd = connect_client(), skip;
	size_t length;

	(void)state;
	assert_non_null(text);
	insert_stores(MANY);
	assert_int_equal(send(fd, "stores --json\n", 14, 0), 14);
	turn(shm_lock_now_ns());
	assert_begins(ask("stores --json s7\n"),
	    "OK\n{\"stores\":[{\"kind\":\"generic\",\"name\":\"s7\"");
	receive_all(fd, text, ROOM);
	while (sscanf(at, "BODY %zu%n", &length, &skip) == 1) {
		char *end = at + skip + 1 + length;

		assert_true(length < 2 * CALL_PIECE_BYTES);
		pieces++;
		for (at += skip + 1; at < end; at++)
			stores += strncmp(at, "\"name\":", 7) == 0;
	}
	assert_string_equal(at, "OK\n");
	assert_int_equal(stores, MANY);
	assert_true(pieces > 10);
	close(fd);
	free(text);
}

/* A client who was taken, and whose line nobody looked at: another binary takes
 * over now, and he is answered all the same. */
static void
who_was_taken_is_answered_at_the_end(void **state)
{
	int fd = connect_client(), silent = connect_client();
	bool closed;

	(void)state;
	turn(shm_lock_now_ns());
	assert_int_equal(send(fd, "workers\n", 8, 0), 8);
	admin_farewell(shm_lock_now_ns(), true);
	assert_begins(decode(receive(fd, &closed)), "OK\nSLOT");
	assert_true(closed);
	assert_begins(receive(silent, &closed), "");
	assert_false(closed);
	close(fd);
	close(silent);
	turn(shm_lock_now_ns());
}

static void
who_leaves_is_forgotten(void **state)
{
	int fd = connect_client();

	(void)state;
	turn(shm_lock_now_ns());
	assert_true(admin_next_ns() != UINT64_MAX);
	close(fd);
	turn(shm_lock_now_ns());
	assert_int_equal(admin_next_ns(), UINT64_MAX);
}

static void
the_file_is_private_and_goes(void **state)
{
	struct admin_plan plan = plan_at(path);
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	admin_close(false);
	assert_int_equal(stat(path, &st), -1);
	assert_false(err_is(admin_open(&plan)));
}

/* A server that was killed leaves its file; one that lives answers there. */
static void
stale_files_are_replaced_living_ones_not(void **state)
{
	struct admin_plan plan = plan_at(path);
	struct err e = admin_open(&plan);
	char moved[120];

	(void)state;
	assert_int_equal(e.kind, ERR_EXISTS);
	assert_non_null(strstr(e.what, "--admin-socket"));
	/* The file of the dead: under a name that close does not remove. */
	snprintf(moved, sizeof(moved), "%s.moved", path);
	assert_int_equal(rename(path, moved), 0);
	admin_close(false);
	assert_int_equal(rename(moved, path), 0);
	assert_false(err_is(admin_open(&plan)));
	assert_begins(ask("workers\n"), "OK\n");
}

static void
paths_that_cannot_be(void **state)
{
	struct admin_plan plan;
	char name[300];
	struct err e;
	FILE *f;

	(void)state;
	admin_close(false);
	snprintf(name, sizeof(name), "%s/file", root);
	f = fopen(name, "w");
	assert_non_null(f);
	fclose(f);
	plan = plan_at(name);
	e = admin_open(&plan);
	assert_int_equal(e.kind, ERR_BAD_INPUT);
	snprintf(name, sizeof(name), "%s/none/a.sock", root);
	e = admin_open(&plan);
	assert_int_equal(e.kind, ERR_IO);
	assert_non_null(strstr(e.what, name));
	memset(name, 'x', 200);
	name[200] = '\0';
	e = admin_open(&plan);
	assert_int_equal(e.kind, ERR_BAD_INPUT);
	plan = plan_at(path);
	assert_false(err_is(admin_open(&plan)));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(commands_are_answered),
		T(a_request_may_come_in_pieces_but_not_be_long),
		T(slow_clients_are_bounded_in_number_and_time),
		T(who_leaves_is_forgotten),
		T(who_was_taken_is_answered_at_the_end),
		T(long_lists_come_in_pieces),
		T(the_file_is_private_and_goes),
		T(stale_files_are_replaced_living_ones_not),
		T(paths_that_cannot_be),
#undef T
	};
	struct shm_config c = { .workers = 2, .workers_max = 2, .slots = MANY + 4,
	    .shard_records = 16, .ordinals = 8, .instance_id = SLICE("me") };
	struct child_plan children = { .workers = 2 };
	static struct config config;
	static char *argv[] = { NULL }, *no_env[] = { NULL };
	enum config_ask ask;

	if (err_is(config_read(1, argv, no_env, &config, &ask)))
		return 1;
	log_set_level(LOG_ERROR);
	if (err_is(shm_segment_create(&c)))
		return 1;
	shm_process_refill(SHM_MASTER);
	shm_process_attach(SHM_MASTER);
	shm_lease_hold(1, UINT64_MAX);
	child_init(&children);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
