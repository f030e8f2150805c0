#include "shm_test.h"

#include <poll.h>

#include "common/fault.h"
#include "shm/mailbox.h"

static void
assert_err(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

static bool
wait_mail(void)
{
	struct pollfd p = { .fd = shm_mailbox_fd(), .events = POLLIN };

	return poll(&p, 1, 10000) == 1;
}

/* A wake may be an old one: then there is nothing yet. */
static void
await_command(struct shm_command *c)
{
	do {
		assert_true(wait_mail());
		shm_mailbox_drain();
	} while (!shm_mailbox_receive(c));
}

static void
empty_own(void)
{
	struct shm_command c;

	shm_mailbox_drain();
	while (shm_mailbox_receive(&c))
		;
}

static int
answer_all(void *arg)
{
	struct shm_command c;

	(void)arg;
	for (;;) {
		MUST(wait_mail());
		shm_mailbox_drain();
		while (shm_mailbox_receive(&c)) {
			if (c.kind == SHM_MAIL_DRAIN)
				return 0;
			shm_mailbox_reply(&c, FAIL(BUSY, ""), c.args[0] * 2);
		}
	}
}

static void
reply_finds_its_request(void **state)
{
	struct shm_command c = { .kind = SHM_MAIL_FOLD, .args = { 21 } }, r;
	uint64_t tokens[10];
	pid_t pid;
	int i, seen = 0;

	(void)state;
	pid = test_fork(SHM_WORKER(0), answer_all, NULL);
	for (i = 0; i < 10; i++) {
		tokens[i] = c.token = shm_mailbox_token();
		c.args[0] = (uint64_t)i;
		assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_OK);
	}
	while (seen < 10) {
		assert_true(wait_mail());
		shm_mailbox_drain();
		while (shm_mailbox_receive(&r)) {
			assert_int_equal(r.kind, SHM_MAIL_REPLY);
			assert_true(r.token == tokens[seen]);
			assert_int_equal(r.err, ERR_BUSY);
			assert_int_equal(r.args[0], 2 * seen);
			assert_int_equal(shm_life_slot(r.from), SHM_WORKER(0));
			seen++;
		}
	}
	c = (struct shm_command){ .kind = SHM_MAIL_DRAIN };
	assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_OK);
	assert_left_well(pid);
	test_reap(SHM_WORKER(0));
}

static int
sleep_on_it(void *arg)
{
	struct pollfd p = { .fd = shm_mailbox_fd(), .events = POLLIN };

	(void)arg;
	atomic_fetch_add(&shared->ready, 1);
	/* Takes nothing: wakes, and sleeps again. */
	while (poll(&p, 1, -1) >= 0)
		;
	return 1;
}

/* E.3: full, then dead: senders are refused, never blocked; the next life
 * starts with an empty box that works; who waits for a reply is told. */
static void
full_and_dead_receivers_stop_nobody(void **state)
{
	struct shm_command c = { .kind = SHM_MAIL_SEAL }, r;
	struct shm_reaped reaped;
	uint32_t aborted;
	int round, sent;
	pid_t pid;

	(void)state;
	for (round = 0; round < 100; round++) {
		empty_own();
		reset_shared();
		test_fork(SHM_WORKER(0), sleep_on_it, NULL);
		meet(&shared->ready, 1);
		c.token = shm_mailbox_token();
		for (sent = 0; sent <= (int)SHM_MAILBOX_ROOM; sent++) {
			if (err_is(shm_mailbox_send(SHM_WORKER(0), &c)))
				break;
		}
		assert_int_equal(sent, SHM_MAILBOX_ROOM);
		test_kill(SHM_WORKER(0));
		assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_BUSY);
		reaped = test_reap(SHM_WORKER(0));
		assert_int_equal(reaped.commands, SHM_MAILBOX_ROOM);
		assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_BUSY);
		for (aborted = 0; shm_mailbox_receive(&r); aborted++) {
			assert_int_equal(r.kind, SHM_MAIL_ABORTED);
			assert_true(r.token == c.token);
		}
		assert_int_equal(aborted, SHM_MAILBOX_ROOM);
	}
	pid = test_fork(SHM_WORKER(0), answer_all, NULL);
	c.token = shm_mailbox_token();
	assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_OK);
	await_command(&r);
	assert_int_equal(r.kind, SHM_MAIL_REPLY);
	assert_true(r.token == c.token);
	c = (struct shm_command){ .kind = SHM_MAIL_DRAIN };
	assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_OK);
	assert_left_well(pid);
	test_reap(SHM_WORKER(0));
	empty_own();
}

static int
check_empty(void *arg)
{
	struct pollfd p = { .fd = shm_mailbox_fd(), .events = POLLIN };
	struct shm_command c;

	(void)arg;
	MUST(poll(&p, 1, 0) == 0);
	MUST(!shm_mailbox_receive(&c));
	return 0;
}

static void
next_life_starts_empty(void **state)
{
	struct shm_command c = { .kind = SHM_MAIL_SEAL };

	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(0), sleep_on_it, NULL);
	meet(&shared->ready, 1);
	assert_err(shm_mailbox_send(SHM_WORKER(0), &c), ERR_OK);
	test_kill(SHM_WORKER(0));
	test_reap(SHM_WORKER(0));
	assert_left_well(test_fork(SHM_WORKER(0), check_empty, NULL));
	test_reap(SHM_WORKER(0));
}

static int
send_one(void *arg)
{
	struct shm_command c = { .kind = SHM_MAIL_FOLD, .token =
	    shm_mailbox_token() };

	(void)arg;
	return shm_mailbox_send(SHM_MASTER, &c).kind;
}

/* A reply goes to the life that asked, not to the next one in its slot. */
static void
late_reply_is_dropped(void **state)
{
	struct shm_command c;

	(void)state;
	empty_own();
	assert_left_well(test_fork(SHM_WORKER(0), send_one, NULL));
	test_reap(SHM_WORKER(0));
	assert_true(shm_mailbox_receive(&c));
	reset_shared();
	test_fork(SHM_WORKER(0), sleep_on_it, NULL);
	meet(&shared->ready, 1);
	shm_mailbox_reply(&c, OK, 1);
	test_kill(SHM_WORKER(0));
	assert_int_equal(test_reap(SHM_WORKER(0)).commands, 0);
}

/* A sender dies with half a command: it is not there, the box works. */
static void
half_a_command_is_dropped(void **state)
{
	struct shm_command c;
	int status;

	(void)state;
	empty_own();
	assert_err(fault_set("shm_send=die:1"), ERR_OK);
	status = test_wait(test_fork(SHM_WORKER(0), send_one, NULL));
	assert_true(WIFSIGNALED(status));
	assert_false(shm_mailbox_receive(&c));
	test_reap(SHM_WORKER(0));
	assert_left_well(test_fork(SHM_WORKER(0), send_one, NULL));
	test_reap(SHM_WORKER(0));
	assert_true(shm_mailbox_receive(&c));
	assert_int_equal(c.kind, SHM_MAIL_FOLD);
	assert_false(shm_mailbox_receive(&c));
}

/* The wake comes before the command: who looks in between waits for it, and
 * one wake is enough. */
static void
early_wake_finds_the_command(void **state)
{
	struct shm_command c;
	pid_t sender;

	(void)state;
	empty_own();
	assert_err(fault_set("shm_send=delay:100:1"), ERR_OK);
	sender = test_fork(SHM_WORKER(0), send_one, NULL);
	assert_true(wait_mail());
	shm_mailbox_drain();
	assert_true(shm_mailbox_receive(&c));
	assert_left_well(sender);
	test_reap(SHM_WORKER(0));
}

static int
send_numbers(void *arg)
{
	struct shm_command c = { .kind = SHM_MAIL_JOB };
	uint64_t i;

	(void)arg;
	for (i = 1; i <= 5000; i++) {
		memset(c.args, 0, sizeof(c.args));
		c.args[0] = c.args[1] = c.args[3] = i;
		while (err_is(shm_mailbox_send(SHM_MASTER, &c)))
			sched_yield();
	}
	return 0;
}

/* Each sender's commands arrive all, whole and in order; polling the eventfd
 * alone is enough to find them. */
static void
nothing_is_lost_or_torn(void **state)
{
	uint64_t last[4] = { 0 }, total = 0;
	struct shm_command c;
	pid_t pids[4];
	int i;

	(void)state;
	empty_own();
	for (i = 0; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), send_numbers, NULL);
	while (total < 4 * 5000) {
		assert_true(wait_mail());
		shm_mailbox_drain();
		while (shm_mailbox_receive(&c)) {
			uint32_t w = shm_life_slot(c.from) - SHM_WORKER(0);

			assert_true(w < 4);
			assert_true(c.args[0] == ++last[w]);
			assert_true(c.args[1] == c.args[0]);
			assert_true(c.args[3] == c.args[0]);
			total++;
		}
	}
	for (i = 0; i < 4; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
	assert_false(shm_mailbox_receive(&c));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reply_finds_its_request),
		cmocka_unit_test(full_and_dead_receivers_stop_nobody),
		cmocka_unit_test(next_life_starts_empty),
		cmocka_unit_test(late_reply_is_dropped),
		cmocka_unit_test(half_a_command_is_dropped),
		cmocka_unit_test(early_wake_finds_the_command),
		cmocka_unit_test(nothing_is_lost_or_torn),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
