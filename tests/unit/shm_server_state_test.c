#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "shm/instance.h"
#include "shm/segment.h"
#include "shm/server_state.h"

static int
setup(void **state)
{
	struct shm_config cfg = {
		.workers = 1, .workers_max = 1, .slots = 1, .ordinals = 1,
		.instance_id = SLICE("test"),
	};

	(void)state;
	assert_int_equal(shm_segment_create(&cfg).kind, ERR_OK);
	shm_lease_hold(1, UINT64_MAX);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	shm_segment_destroy();
	return 0;
}

static void
test_starts_unready(void **state)
{
	(void)state;
	assert_string_equal(shm_server_not_ready(), "starting");
	assert_false(shm_server_replies_close());
	shm_server_clear(SHM_SERVER_STARTING);
	shm_server_clear(SHM_SERVER_STARTING);
	assert_null(shm_server_not_ready());
	shm_lease_end(SHM_LEASE_LOST, "told so");
	assert_string_equal(shm_server_not_ready(), "no lease");
}

static void
test_the_first_reason_is_told(void **state)
{
	(void)state;
	shm_server_set(SHM_SERVER_DRAINING);
	assert_string_equal(shm_server_not_ready(), "starting");
	shm_server_clear(SHM_SERVER_STARTING);
	assert_string_equal(shm_server_not_ready(), "draining");
	assert_true(shm_server_replies_close());
}

static void
test_handing_over_is_ready(void **state)
{
	(void)state;
	shm_server_clear(SHM_SERVER_STARTING);
	shm_server_set(SHM_SERVER_HANDING_OVER);
	assert_true(shm_server_is(SHM_SERVER_HANDING_OVER));
	assert_null(shm_server_not_ready());
	assert_true(shm_server_replies_close());
	shm_server_clear(SHM_SERVER_HANDING_OVER);
	assert_false(shm_server_replies_close());
	assert_false(shm_server_is(SHM_SERVER_HANDING_OVER));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_starts_unready),
		TEST(test_the_first_reason_is_told),
		TEST(test_handing_over_is_ready),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
