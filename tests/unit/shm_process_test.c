#include "shm_test.h"

#include "common/panic.h"
#include "shm/order.h"

static void
slots_and_roles(void **state)
{
	(void)state;
	assert_int_equal(shm_process_count(), 6);
	assert_int_equal(shm_workers_max(), 4);
	assert_int_equal(shm_role_of(0), SHM_ROLE_MASTER);
	assert_int_equal(shm_role_of(1), SHM_ROLE_MAINTAINER);
	assert_int_equal(shm_role_of(SHM_WORKER(3)), SHM_ROLE_WORKER);
	assert_string_equal(shm_role_name(SHM_ROLE_WORKER), "worker");
	assert_string_equal(shm_process_state_name(SHM_PROCESS_DRAINING),
	    "draining");
	assert_string_equal(shm_loop_name(SHM_LOOP_RING), "ring");
	assert_int_equal(shm_self(), SHM_MASTER);
	assert_false(shm_process_lives(SHM_WORKER(0)));
	assert_true(shm_process_lives(SHM_MASTER));
}

static int
live(void *arg)
{
	(void)arg;
	MUST(shm_self() == SHM_WORKER(2));
	MUST(shm_who().slot == SHM_WORKER(2));
	MUST(shm_who().thread == 0);
	shm_thread_number(3);
	MUST(shm_who().thread == 3);
	shm_process_loop(SHM_LOOP_EPOLL);
	shm_process_beat(3);
	shm_process_enter(SHM_PROCESS_DRAINING);
	atomic_store(&shared->counts[0], shm_life_self());
	await_death();
	return 1;
}

static void
a_life_is_slot_and_incarnation(void **state)
{
	struct shm_process *p = shm_process_get(SHM_WORKER(2));
	uint64_t first, second;
	uint32_t incarnation;

	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(2), live, NULL);
	meet(&shared->ready, 1);
	first = atomic_load(&shared->counts[0]);
	incarnation = atomic_load(&p->incarnation);
	assert_int_equal(shm_life_slot(first), SHM_WORKER(2));
	assert_true(shm_life_goes_on(first));
	assert_true(first == shm_life_of(SHM_WORKER(2)));
	assert_int_equal(p->loop, SHM_LOOP_EPOLL);
	assert_true(p->heartbeat_ns != 0);
	assert_int_equal(p->busy, 3);
	assert_true(p->started_us != 0);
	assert_int_equal(p->restarts, 0);
	test_kill(SHM_WORKER(2));
	test_reap(SHM_WORKER(2));
	assert_false(shm_life_goes_on(first));
	assert_int_equal(p->pid, 0);

	reset_shared();
	test_fork(SHM_WORKER(2), live, NULL);
	meet(&shared->ready, 1);
	second = atomic_load(&shared->counts[0]);
	assert_int_equal(p->incarnation, incarnation + 1);
	assert_int_equal(p->restarts, 1);
	assert_false(shm_life_goes_on(first));
	assert_true(shm_life_goes_on(second));
	assert_false(shm_life_goes_on(0));
	test_kill(SHM_WORKER(2));
	test_reap(SHM_WORKER(2));
}

static int
panic_now(void *arg)
{
	(void)arg;
	panic("the reason is %d", 42);
}

static int
leave(void *arg)
{
	(void)arg;
	return 0;
}

static void
panic_text_is_found_and_cleared(void **state)
{
	int status;

	(void)state;
	status = test_wait(test_fork(SHM_WORKER(0), panic_now, NULL));
	assert_true(WIFSIGNALED(status));
	assert_string_equal(shm_process_get(SHM_WORKER(0))->panic_text,
	    "the reason is 42");
	test_reap(SHM_WORKER(0));
	assert_left_well(test_fork(SHM_WORKER(0), leave, NULL));
	assert_string_equal(shm_process_get(SHM_WORKER(0))->panic_text, "");
	test_reap(SHM_WORKER(0));
}

/* What the last life held is released before the slot is refilled. */
static int
refill_full(void *arg)
{
	(void)arg;
	shm_process_refill(SHM_WORKER(0));
	return 0;
}

static void
a_slot_is_emptied_before_it_is_refilled(void **state)
{
	int status;

	(void)state;
	status = test_wait(test_fork(SHM_WORKER(0), refill_full, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
}

struct locks {
	enum shm_lock first, second;
};

static int
take_both(void *arg)
{
	struct locks *l = arg;

	shm_order_acquire(l->first);
	shm_order_acquire(l->second);
	shm_order_release(l->first);
	shm_order_release(l->second);
	MUST(!shm_order_holds_any());
	return 0;
}

/* Of every two locks: allowed exactly if the rank rises. */
static void
ranks_only_rise(void **state)
{
	struct locks l;
	int a, b, status;

	(void)state;
	for (a = 0; a < SHM_LOCK_COUNT; a++) {
		for (b = 0; b < SHM_LOCK_COUNT; b++) {
			l = (struct locks){ (enum shm_lock)a,
			    (enum shm_lock)b };
			status = test_wait(test_fork(SHM_WORKER(0), take_both,
			    &l));
			test_reap(SHM_WORKER(0));
			assert_int_equal(WIFEXITED(status),
			    shm_lock_rank(l.second) > shm_lock_rank(l.first));
		}
	}
}

/* README.md shows the table of lock.def. */
static void
readme_has_the_lock_table(void **state)
{
	static const struct {
		const char *name, *kind, *protects, *taken_by, *death;
		uint32_t rank;
	} rows[] = {
#define LOCK(name, rank, kind, repair, protects, taken_by, death) \
	{ #name, #kind, protects, taken_by, death, rank },
#include "shm/lock.def"
#undef LOCK
	};
	static char text[1 << 16];
	char want[512];
	size_t i, n;
	FILE *f = fopen("shm/README.md", "r");

	(void)state;
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		snprintf(want, sizeof(want), "\n| %u | %s | %s | %s | %s | "
		    "%s |\n", rows[i].rank, rows[i].name, rows[i].kind,
		    rows[i].protects, rows[i].taken_by, rows[i].death);
		if (strstr(text, want) == NULL)
			fail_msg("shm/README.md lacks: %s", want);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_and_roles),
		cmocka_unit_test(a_life_is_slot_and_incarnation),
		cmocka_unit_test(panic_text_is_found_and_cleared),
		cmocka_unit_test(a_slot_is_emptied_before_it_is_refilled),
		cmocka_unit_test(ranks_only_rise),
		cmocka_unit_test(readme_has_the_lock_table),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
