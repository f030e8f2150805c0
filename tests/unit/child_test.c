#include "master_test.h"

#include "shm/budget.h"
#include "shm/mailbox.h"
#include "master/cover.h"
#include "master/problem.h"

/* What the master decides; that it really forks and kills is for e2e. */

#define MS NS_PER_MS

/* Field fault D.4. */
static void
delays_double_and_are_capped(void **state)
{
	uint32_t failures = 0, i;
	uint64_t sum_ns = 0, delay_ns = 0;

	(void)state;
	/* A long life is replaced at once, however it ended. */
	assert_int_equal(child_delay_ns(true, 5000 * MS, &failures), 0);
	assert_int_equal(failures, 0);
	/* Dead before the first heartbeat. */
	assert_int_equal(child_delay_ns(false, 5 * MS, &failures), 100 * MS);
	assert_int_equal(child_delay_ns(false, 5 * MS, &failures), 200 * MS);
	for (i = 0; i < 100; i++) {
		delay_ns = child_delay_ns(false, 5 * MS, &failures);
		sum_ns += delay_ns;
	}
	assert_int_equal(delay_ns, 10000 * MS);
	assert_true(sum_ns > 90 * 10000 * MS);
	/* One that hung before its first heartbeat is throttled as well. */
	assert_int_equal(child_delay_ns(false, 60000 * MS, &failures),
	    10000 * MS);
	/* Short lives after it: service is back within the second. */
	failures = 0;
	assert_int_equal(child_delay_ns(true, 200 * MS, &failures), 10 * MS);
	for (i = 0; i < 100; i++)
		delay_ns = child_delay_ns(true, 200 * MS, &failures);
	assert_int_equal(delay_ns, 320 * MS);
	assert_int_equal(child_delay_ns(true, 1000 * MS, &failures), 0);
	assert_int_equal(child_delay_ns(false, 0, &failures), 100 * MS);
}

static void
pretend_dead(uint16_t slot)
{
	struct child *c = child_of_slot(slot);

	shm_process_clear(slot);
	c->pid = 0;
	c->beaten = false;
	c->empty_ns = shm_lock_now_ns();
}

/* The next command in a slot's mailbox, or SHM_MAIL_NONE. */
static struct shm_command
mail_of(uint16_t slot)
{
	struct shm_command m = { .kind = SHM_MAIL_NONE };

	as(slot);
	if (!shm_mailbox_receive(&m))
		m.kind = SHM_MAIL_NONE;
	as(SHM_MASTER);
	return m;
}

static int
setup(void **state)
{
	struct shm_config c = { .workers = 3, .workers_max = 3, .slots = 4,
	    .shard_records = 16, .ordinals = 8, .instance_id = SLICE("me"),
	    .budget_limits = { [SHM_BUDGET_REQUEST_BYTES] = 1000 } };

	(void)state;
	test_segment(&c);
	shm_process_enter(SHM_PROCESS_RUNNING);
	pretend_all(3);
	return 0;
}

static void
an_empty_slot_is_covered_and_given_back(void **state)
{
	struct shm_command m;
	uint64_t now_ns;

	(void)state;
	pretend_dead(SHM_WORKER(1));
	cover_look(shm_lock_now_ns());
	assert_int_equal(mail_of(SHM_WORKER(2)).kind, SHM_MAIL_NONE);
	/* As if it had been empty for long. */
	child_of_slot(SHM_WORKER(1))->empty_ns -= 150 * MS;
	now_ns = shm_lock_now_ns();
	cover_look(now_ns);
	cover_look(now_ns);		/* told once */
	m = mail_of(SHM_WORKER(2));
	assert_int_equal(m.kind, SHM_MAIL_ACCEPT_FOR);
	assert_int_equal(m.args[0], SHM_WORKER(1));
	assert_int_equal(mail_of(SHM_WORKER(2)).kind, SHM_MAIL_NONE);

	/* The one that covers dies: another is told, at once. */
	pretend_dead(SHM_WORKER(2));
	cover_look(shm_lock_now_ns() + 10 * MS);
	m = mail_of(SHM_WORKER(0));
	assert_int_equal(m.kind, SHM_MAIL_ACCEPT_FOR);
	assert_int_equal(m.args[0], SHM_WORKER(1));

	pretend(SHM_WORKER(1));
	pretend(SHM_WORKER(2));
	cover_look(now_ns);
	cover_look(now_ns);
	m = mail_of(SHM_WORKER(0));
	assert_int_equal(m.kind, SHM_MAIL_STOP_ACCEPT_FOR);
	assert_int_equal(m.args[0], SHM_WORKER(1));
	assert_int_equal(mail_of(SHM_WORKER(0)).kind, SHM_MAIL_NONE);
}

static uint32_t
problems(void)
{
	static struct problems ps;
	uint32_t index = 0;

	while (!problems_find(&ps, &index))
		continue;
	return ps.count;
}

static void
status_is_clean_until_something_is_wrong(void **state)
{
	(void)state;
	assert_int_equal(problems(), 0);

	/* Budget of a slot where nobody lives: a walk forgot it. */
	as(SHM_WORKER(0));
	assert_true(shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 10));
	as(SHM_MASTER);
	assert_int_equal(problems(), 0);
	pretend_dead(SHM_WORKER(0));
	assert_int_equal(problems(), 2);
	shm_budget_reap(SHM_BUDGET_REQUEST_BYTES, SHM_WORKER(0));
	assert_int_equal(problems(), 1);
	pretend(SHM_WORKER(0));
	assert_int_equal(problems(), 0);

	/* A loop that stands still. */
	atomic_store(&shm_process_get(SHM_WORKER(1))->heartbeat_ns,
	    clock_mono_ns() - 4000 * MS);
	assert_int_equal(problems(), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_double_and_are_capped),
		cmocka_unit_test_setup_teardown(
		    an_empty_slot_is_covered_and_given_back, setup, master_teardown),
		cmocka_unit_test_setup_teardown(
		    status_is_clean_until_something_is_wrong, setup, master_teardown),
	};

	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
