#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/merge_target.h"

static void
lists(void **state)
{
	static const char *const good[] = { "", "a", "a,generic:b", "A-1_.x" };
	static const char *const bad[] = { ",", "a,", "a,,b", "*", "datagen:a",
	    "generic:", "generic:*", "a b", "a, b" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++)
		assert_false(err_is(merge_target_check("", good[i])));
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(merge_target_check("", bad[i]).kind,
		    ERR_BAD_INPUT);
	/* That it cannot serve it says, whatever it is. */
	assert_int_equal(merge_target_check("a", "").kind, ERR_BAD_INPUT);
}

static void
targets(void **state)
{
	const char *list = "a,generic:b,generic";

	(void)state;
	assert_true(merge_target_has(list, "rollout", "a"));
	assert_false(merge_target_has(list, "generic", "a"));
	assert_false(merge_target_has(list, "datagen", "a"));
	assert_true(merge_target_has(list, "generic", "b"));
	assert_false(merge_target_has(list, "rollout", "b"));
	assert_true(merge_target_has(list, "rollout", "generic"));
	assert_false(merge_target_has("", "rollout", "a"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
