#include "common/base.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/loop.h"
#include "common/pool.h"

#define BUFS 16

struct probe {
	struct op op;
	uint32_t count;
	int32_t res;		/* the last */
	void *bytes;
};

static struct loop *loop;
static struct pool *pool;
static uint32_t done_count;

static void
note(struct op *op, int32_t res)
{
	struct probe *p = CONTAINER_OF(op, struct probe, op);

	p->count++;
	p->res = res;
	p->bytes = op->bytes;
	done_count++;
}

static int
setup(void **state)
{
	struct loop_settings s = { .ring = *(bool *)*state, .entries = 64,
	    .recv_buf_bytes = 4096, .recv_buf_count = BUFS };

	done_count = 0;
	assert_false(err_is(loop_create(&s, &loop)));
	assert_int_equal(loop_kind(loop), s.ring ? LOOP_RING : LOOP_EPOLL);
	assert_false(err_is(pool_create(loop, 2, 16, &pool)));
	loop_set_pool(loop, pool);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	pool_destroy(pool);
	loop_destroy(loop);
	return 0;
}

static void
turn_until(uint32_t count)
{
	uint64_t deadline = clock_mono_ns() + 5 * NS_PER_SEC;

	while (done_count < count) {
		assert_true(clock_mono_ns() < deadline);
		loop_turn(loop, NS_PER_SEC);
	}
}

/* Some turns in which nothing may happen. */
static void
turn_idle(void)
{
	uint32_t before = done_count;

	for (int i = 0; i < 5; i++)
		loop_turn(loop, NS_PER_MS);
	assert_int_equal(done_count, before);
}

static void
pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static void
test_receive_in_a_pooled_buffer(void **state)
{
	struct probe p = { .op.done = note };
	int fds[2];

	(void)state;
	pair(fds);
	loop_recv_pooled(loop, &p.op, fds[0]);
	turn_idle();
	assert_int_equal(loop_bufs_free(loop), BUFS);
	assert_int_equal(write(fds[1], "hello", 5), 5);
	turn_until(1);
	assert_int_equal(p.res, 5);
	assert_memory_equal(p.bytes, "hello", 5);
	assert_int_equal(loop_bufs_free(loop), BUFS - 1);
	loop_buf_release(loop, p.bytes);

	/* Data and the end may come as one event. */
	assert_int_equal(write(fds[1], "world", 5), 5);
	close(fds[1]);
	loop_recv_pooled(loop, &p.op, fds[0]);
	turn_until(2);
	assert_int_equal(p.res, 5);
	loop_buf_release(loop, p.bytes);
	loop_recv_pooled(loop, &p.op, fds[0]);
	turn_until(3);
	assert_int_equal(p.res, 0);
	assert_int_equal(loop_bufs_free(loop), BUFS);
	loop_close(loop, fds[0]);
}

/* Field fault F.2: more connections than buffers, half of them reset. */
static void
test_buffers_run_dry_and_come_back(void **state)
{
	enum { N = 200 };
	static struct probe probes[N];
	static int fds[N][2];

	(void)state;
	for (int round = 0; round < 20; round++) {
		uint32_t got = 0;

		memset(probes, 0, sizeof(probes));
		done_count = 0;
		for (int i = 0; i < N; i++) {
			pair(fds[i]);
			probes[i].op.done = note;
			loop_recv_pooled(loop, &probes[i].op, fds[i][0]);
		}
		loop_turn(loop, 0);
		for (int i = 0; i < N; i++) {
			if (i % 2 == 0)
				assert_int_equal(write(fds[i][1], "x", 1), 1);
			close(fds[i][1]);
			if (i % 5 == 0)
				loop_cancel(loop, &probes[i].op);
		}
		while (got < N) {
			loop_turn(loop, NS_PER_SEC);
			for (int i = 0; i < N; i++) {
				struct probe *p = &probes[i];

				if (p->count == 0 || p->count == 2)
					continue;
				if (p->res > 0)
					loop_buf_release(loop, p->bytes);
				assert_true(p->res == -ECANCELED ?
				    i % 5 == 0 : p->res == (i % 2 == 0));
				p->count = 2;
				got++;
			}
		}
		assert_int_equal(done_count, N);
		assert_int_equal(loop_bufs_free(loop), BUFS);
		assert_false(loop_bufs_low(loop));
		for (int i = 0; i < N; i++)
			loop_close(loop, fds[i][0]);
	}
}

static void
test_send_more_than_the_socket_takes(void **state)
{
	enum { BYTES = 4 << 20 };
	char *out = malloc(BYTES), *in = malloc(BYTES);
	struct probe s = { .op.done = note }, r = { .op.done = note };
	size_t sent = 0, got = 0;
	int fds[2];

	(void)state;
	assert_true(out != NULL && in != NULL);
	for (int i = 0; i < BYTES; i++)
		out[i] = (char)(i * 31 >> 3);
	pair(fds);
	while (got < BYTES) {
		struct iovec iov[2] = { { out + sent, (BYTES - sent) / 2 },
		    { out + sent + (BYTES - sent) / 2,
		      BYTES - sent - (BYTES - sent) / 2 } };

		if (!s.op.in_flight && sent < BYTES)
			loop_sendv(loop, &s.op, fds[0], iov, 2);
		if (!r.op.in_flight)
			loop_recv(loop, &r.op, fds[1], in + got, BYTES - got);
		/* The array must stay: so wait for one of both here. */
		do {
			s.count = r.count = 0;
			loop_turn(loop, NS_PER_SEC);
			sent += s.count > 0 ? (size_t)s.res : 0;
			got += r.count > 0 ? (size_t)r.res : 0;
			if (r.count > 0 && got < BYTES)
				loop_recv(loop, &r.op, fds[1], in + got,
				    BYTES - got);
		} while (s.op.in_flight);
	}
	assert_int_equal(sent, BYTES);
	assert_memory_equal(in, out, BYTES);
	loop_close(loop, fds[0]);
	loop_close(loop, fds[1]);
	free(out);
	free(in);
}

static void
test_send_to_the_gone(void **state)
{
	struct probe s = { .op.done = note };
	int fds[2];

	(void)state;
	pair(fds);
	close(fds[1]);
	loop_send(loop, &s.op, fds[0], "x", 1);
	turn_until(1);
	assert_int_equal(s.res, -EPIPE);
	loop_close(loop, fds[0]);
}

/* --- accepting --- */

static int accepted[64];
static uint32_t accepted_count;
static struct probe acceptor;

static void
note_accept(struct op *op, int32_t res)
{
	if (res >= 0)
		accepted[accepted_count++] = res;
	note(op, res);
}

static int
listener(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)a, len), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

static int
dial(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof(*a)),
	    0);
	return fd;
}

static void
test_accept_until_cancelled(void **state)
{
	struct sockaddr_in a;
	int fd = listener(&a), peers[10];

	(void)state;
	accepted_count = 0;
	acceptor = (struct probe){ .op.done = note_accept };
	loop_accept(loop, &acceptor.op, fd);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5; i++)
			peers[round * 5 + i] = dial(&a);
		turn_until((uint32_t)(round + 1) * 5);
	}
	assert_int_equal(accepted_count, 10);
	loop_cancel(loop, &acceptor.op);
	loop_cancel(loop, &acceptor.op);
	turn_until(11);
	assert_int_equal(acceptor.res, -ECANCELED);
	turn_idle();

	/* Not ours any more: it waits in the kernel, and is there later. */
	close(peers[0]);
	peers[0] = dial(&a);
	turn_idle();
	loop_accept(loop, &acceptor.op, fd);
	turn_until(12);
	assert_int_equal(accepted_count, 11);
	loop_cancel(loop, &acceptor.op);
	turn_until(13);
	for (int i = 0; i < 10; i++)
		close(peers[i]);
	for (uint32_t i = 0; i < accepted_count; i++)
		loop_close(loop, accepted[i]);
	close(fd);
}

/* Field fault D.8. */
static void
test_accept_without_descriptors(void **state)
{
	struct rlimit before, few;
	struct sockaddr_in a;
	int fd = listener(&a), peer = dial(&a);

	(void)state;
	accepted_count = 0;
	acceptor = (struct probe){ .op.done = note_accept };
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)peer;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	loop_accept(loop, &acceptor.op, fd);
	turn_until(1);
	assert_int_equal(acceptor.res, -EMFILE);
	turn_idle();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	loop_accept(loop, &acceptor.op, fd);
	turn_until(2);
	assert_int_equal(accepted_count, 1);
	loop_cancel(loop, &acceptor.op);
	turn_until(3);
	loop_close(loop, accepted[0]);
	close(peer);
	close(fd);
}

/* --- files --- */

static void
test_write_a_file_durably(void **state)
{
	char path[] = "/tmp/loop_test.XXXXXX", back[12] = { 0 };
	struct probe p = { .op.done = note };
	struct rlimit before, few;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	loop_pwrite_dsync(loop, &p.op, fd, "one commit", 10, 100);
	assert_int_equal(p.count, 0);
	turn_until(1);
	assert_int_equal(p.res, 10);
	assert_int_equal(pread(fd, back, 10, 100), 10);
	assert_memory_equal(back, "one commit", 10);

	/* Cut in the middle by the limit: an error, not a short write. */
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	few = before;
	few.rlim_cur = 204;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	loop_pwrite_dsync(loop, &p.op, fd, "one commit", 10, 200);
	turn_until(2);
	assert_int_equal(p.res, -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	close(fd);
}

/* --- waiting for others --- */

static void
test_watch_an_eventfd(void **state)
{
	struct probe p = { .op.done = note };
	int fd = eventfd(0, EFD_NONBLOCK);
	uint64_t n = 1;

	(void)state;
	for (uint32_t i = 1; i <= 3; i++) {
		loop_readable(loop, &p.op, fd);
		turn_idle();
		assert_int_equal(write(fd, &n, sizeof(n)), sizeof(n));
		turn_until(i);
		assert_int_equal(p.res, 0);
		assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
	}
	loop_readable(loop, &p.op, fd);
	loop_cancel(loop, &p.op);
	turn_until(4);
	assert_int_equal(p.res, -ECANCELED);
	close(fd);
}

static void
restart(struct op *op, int32_t res)
{
	note(op, res);
	loop_readable(loop, op, op->fd);
}

/* A cancellation must not hit the operation that follows on the same op. */
static void
test_cancel_what_is_ready_already(void **state)
{
	struct probe p = { .op.done = restart }, q = { .op.done = note };
	int fds[2];

	(void)state;
	pair(fds);
	assert_int_equal(write(fds[1], "x", 1), 1);
	loop_readable(loop, &p.op, fds[0]);
	turn_until(1);
	loop_post(loop, &q.op, 0);
	turn_until(2);
	loop_cancel(loop, &q.op);
	loop_cancel(loop, &p.op);
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	assert_true(p.op.in_flight);
	p.op.done = note;
	loop_cancel(loop, &p.op);
	while (p.op.in_flight)
		loop_turn(loop, NS_PER_SEC);
	loop_close(loop, fds[0]);
	close(fds[1]);
}

static void
test_more_at_once_than_the_queue_holds(void **state)
{
	enum { N = 1500 };
	static struct probe probes[N];
	static int fds[N];
	uint64_t n = 1;

	(void)state;
	memset(probes, 0, sizeof(probes));
	for (int i = 0; i < N; i++) {
		fds[i] = eventfd(0, EFD_NONBLOCK);
		assert_true(fds[i] >= 0);
		probes[i].op.done = note;
		loop_readable(loop, &probes[i].op, fds[i]);
	}
	loop_turn(loop, 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(write(fds[i], &n, sizeof(n)), sizeof(n));
	turn_until(N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(probes[i].count, 1);
		close(fds[i]);
	}
}

static void *
post_many(void *arg)
{
	struct probe *probes = arg;

	for (int i = 0; i < 1000; i++)
		loop_post(loop, &probes[i].op, i);
	return NULL;
}

static void
test_post_from_threads(void **state)
{
	enum { THREADS = 4, EACH = 1000 };
	static struct probe probes[THREADS][EACH];
	pthread_t threads[THREADS];

	(void)state;
	memset(probes, 0, sizeof(probes));
	for (int t = 0; t < THREADS; t++) {
		for (int i = 0; i < EACH; i++)
			probes[t][i].op.done = note;
		assert_int_equal(pthread_create(&threads[t], NULL, post_many,
		    probes[t]), 0);
	}
	turn_until(THREADS * EACH);
	for (int t = 0; t < THREADS; t++) {
		pthread_join(threads[t], NULL);
		for (int i = 0; i < EACH; i++) {
			assert_int_equal(probes[t][i].count, 1);
			assert_int_equal(probes[t][i].res, i);
		}
	}
}

/* --- the turn --- */

static bool timer_fired;

static void
fire(struct timer *t)
{
	(void)t;
	timer_fired = true;
	loop_stop(loop);
}

static void
test_wait_until_the_next_timer(void **state)
{
	uint64_t start = clock_mono_ns();
	struct timer t;

	(void)state;
	timer_fired = false;
	timer_init(&t, fire);
	timer_set(loop_timers(loop), &t, start + 20 * NS_PER_MS);
	loop_run(loop);
	assert_true(timer_fired);
	assert_true(loop_now_ns(loop) >= start + 20 * NS_PER_MS);
}

static int idle_answer;
static int idle_fd;

static void
ask_idle(void *arg)
{
	(void)arg;
	if (idle_fd >= 0)
		assert_int_equal(write(idle_fd, "x", 1), 1);
	idle_answer = loop_idle_otherwise(loop);
	idle_fd = -1;
}

static void
test_idle_otherwise(void **state)
{
	struct probe p = { .op.done = note };
	int fds[2];

	(void)state;
	pair(fds);
	loop_recv_pooled(loop, &p.op, fds[0]);
	loop_turn(loop, 0);
	loop_set_before_wait(loop, ask_idle, NULL);
	idle_fd = -1;
	loop_turn(loop, 0);
	assert_int_equal(idle_answer, true);
	idle_fd = fds[1];	/* somebody sends while we decide */
	loop_turn(loop, 0);
	assert_int_equal(idle_answer, false);
	turn_until(1);
	assert_int_equal(p.res, 1);
	loop_buf_release(loop, p.bytes);
	loop_close(loop, fds[0]);
	close(fds[1]);
}

/* Field fault F.1: each errno of a refused ring ends in epoll. */
static void
test_refused_ring_is_epoll(void **state)
{
	static const int errnos[] = { EPERM, ENOSYS, EOPNOTSUPP, ENOMEM,
	    EINVAL, EACCES };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++) {
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			    SYS_io_uring_setup, 0, 1),
			BPF_STMT(BPF_RET | BPF_K,
			    SECCOMP_RET_ERRNO | (unsigned)errnos[i]),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog prog = { ARRAY_LEN(code), code };
		struct loop_settings s = { .ring = true };
		struct loop *l;
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
			    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
			    &prog) != 0)
				_exit(2);
			_exit(err_is(loop_create(&s, &l)) ||
			    loop_kind(l) != LOOP_EPOLL);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int
main(void)
{
	static bool ring = true, epoll = false;
#define EACH(test) \
	{ #test " ring", test, setup, teardown, &ring }, \
	{ #test " epoll", test, setup, teardown, &epoll }
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_ring_is_epoll),
		EACH(test_receive_in_a_pooled_buffer),
		EACH(test_buffers_run_dry_and_come_back),
		EACH(test_send_more_than_the_socket_takes),
		EACH(test_send_to_the_gone),
		EACH(test_accept_until_cancelled),
		EACH(test_accept_without_descriptors),
		EACH(test_write_a_file_durably),
		EACH(test_watch_an_eventfd),
		EACH(test_cancel_what_is_ready_already),
		EACH(test_more_at_once_than_the_queue_holds),
		EACH(test_post_from_threads),
		EACH(test_wait_until_the_next_timer),
		EACH(test_idle_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
