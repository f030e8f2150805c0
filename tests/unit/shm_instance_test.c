#include "shm_test.h"

#include "common/clock.h"

/* The table of other instances: places are used again, and who reads meanwhile
 * sees one instance or none. */

static void
see(const char *id, uint64_t version)
{
	struct shm_instance_look look = { .id = slice_of(id),
	    .address = slice_of(id), .version = version, .span_ns = version,
	    .before_ns = 1, .after_ns = 1 };
	struct err e = shm_instance_seen(&look);

	MUST(!err_is(e));
}

static void
places_are_used_again(void **state)
{
	struct shm_instance i;
	char id[16];
	uint32_t n;

	(void)state;
	for (n = 0; n < SHM_INSTANCES_MAX; n++) {
		snprintf(id, sizeof(id), "i%u", n);
		see(id, 1);
	}
	assert_int_equal(shm_instance_seen(&(struct shm_instance_look){
	    .id = SLICE("more"), .version = 1 }).kind, ERR_NO_MEMORY);
	assert_true(shm_instance_find("i7", &i));
	shm_instance_forget(7);
	assert_false(shm_instance_find("i7", &i));
	assert_false(shm_instance_get(7, &i));
	see("more", 3);
	assert_true(shm_instance_get(7, &i));
	assert_string_equal(i.id, "more");
	assert_int_equal(i.version, 3);
	assert_int_equal(i.silent_ns, 0);
	assert_false(shm_instance_find("i7", &i));
	assert_int_equal(shm_instance_count(), SHM_INSTANCES_MAX);
}

static int
change_places(void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 0; i < 20000; i++) {
		see(i % 2 == 0 ? "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" :
		    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", i % 2 + 1);
		sched_yield();
		shm_instance_forget(0);
	}
	atomic_store(&shared->stop, 1);
	return 0;
}

static void
a_copy_is_of_one_instance(void **state)
{
	struct shm_instance i;
	pid_t pid;

	(void)state;
	see("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 1);
	shm_instance_forget(0);
	pid = test_fork(SHM_MAINTAINER, change_places, NULL);
	while (atomic_load(&shared->stop) == 0) {
		if (!shm_instance_get(0, &i))
			continue;
		assert_string_equal(i.id, i.address);
		assert_int_equal(i.span_ns, i.id[0] - 'a' + 1);
		assert_int_equal(i.version, i.span_ns);
	}
	assert_left_well(pid);
	test_reap(SHM_MAINTAINER);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, segment_setup, \
	segment_teardown)
		T(places_are_used_again),
		T(a_copy_is_of_one_instance),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
