#include "shm_test.h"
#include "lance_dir.h"

#include "worker/object/chain.h"

/* Compare and set, holes, ambiguous puts, collection. */

static struct arena arena;
static struct chain chain;

static int
group(void **state)
{
	return segment_setup(state) != 0 ? -1 : dir_setup(state);
}

static int
group_end(void **state)
{
	dir_teardown(state);
	return segment_teardown(state);
}

static int
begin(void **state)
{
	(void)state;
	arena_init(&arena, 16u << 20);
	chain = (struct chain){ .root = dir };
	snprintf(chain.prefix, sizeof(chain.prefix), "%s", new_name("/c"));
	return 0;
}

static int
end(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

static void
put(uint64_t version, const char *text, bool expected)
{
	bool stands = !expected;

	see_ok(chain_put(&chain, version, slice_of(text), &arena, &stands));
	assert_int_equal(stands, expected);
}

static void
newest_is(uint64_t expected, const char *text)
{
	struct slice bytes;
	uint64_t version;

	see_ok(chain_load(&chain, &arena, &version, &bytes));
	assert_int_equal(version, expected);
	assert_true(slice_eq(bytes, slice_of(text)));
}

static bool
is_there(uint64_t version)
{
	char name[CHAIN_PREFIX_MAX + 32];

	snprintf(name, sizeof(name), "%s/%020llu.json", chain.prefix,
	    (unsigned long long)version);
	return !err_is(object_exists(dir, name));
}

static void
versions_follow_each_other(void **state)
{
	(void)state;
	newest_is(0, "");
	put(1, "one", true);
	newest_is(1, "one");
	put(2, "two", true);
	newest_is(2, "two");
}

static void
a_taken_version_is_another_one(void **state)
{
	(void)state;
	put(1, "one", true);
	put(1, "also one", false);
	newest_is(1, "one");
}

/* Who slept while others went on and collected. */
static void
a_hole_is_not_filled(void **state)
{
	uint64_t v;

	(void)state;
	for (v = 1; v <= 9; v++)
		put(v, "v", true);
	see_ok(chain_collect(&chain, 9, 2));
	assert_false(is_there(6));
	assert_true(is_there(7));
	put(3, "asleep", false);
	assert_false(is_there(3));
	newest_is(9, "v");
}

static void
old_ones_go_and_the_newest_stay(void **state)
{
	uint64_t v;

	(void)state;
	see_ok(chain_collect(&chain, 0, 2));
	put(1, "v", true);
	see_ok(chain_collect(&chain, 1, 2));
	newest_is(1, "v");
	for (v = 2; v <= 200; v++)
		put(v, "v", true);
	/* At most so many at once: nobody waits for long. */
	while (is_there(1) || is_there(197))
		see_ok(chain_collect(&chain, 200, 2));
	assert_true(is_there(198));
	newest_is(200, "v");
}

/* I.1: stored, but the answer was lost. */
static void
a_lost_answer_is_read_back(void **state)
{
	(void)state;
	see_ok(fault_set("put_other=drop:1"));
	put(1, "ours", true);
	newest_is(1, "ours");
}

/* Neither stored nor refused: it is put again under its name. */
static void
an_answer_of_nothing_is_tried_again(void **state)
{
	(void)state;
	see_ok(fault_set("put_other=answer:UNKNOWN:1"));
	put(1, "ours", true);
	see_ok(fault_set("put_other=answer:UNKNOWN"));
	{
		bool stands = true;

		see_error(chain_put(&chain, 2, SLICE("ours too"), &arena,
		    &stands), UNKNOWN);
		assert_false(stands);
	}
	see_ok(fault_set("put_other=off"));
	newest_is(1, "ours");
}

/* It comes when the next put does, and that finds its own. */
static void
a_late_put_is_ones_own(void **state)
{
	(void)state;
	see_ok(fault_set("put_other=late:1"));
	put(1, "ours", true);
	newest_is(1, "ours");
}

/* I.2: a conflict is neither "exists" nor a success. */
static void
a_conflict_is_tried_again(void **state)
{
	(void)state;
	see_ok(fault_set("put_other=answer:CONFLICT:2"));
	put(1, "ours", true);
	newest_is(1, "ours");
}

static void
other_names_are_no_versions(void **state)
{
	char name[CHAIN_PREFIX_MAX + 32];
	static const char *const names[] = { "00000000000000000000.json",
		"99999999999999999999.json", "5.json", "x",
		"0000000000000000000a.json", "00000000000000000007.tmp" };
	size_t i;

	(void)state;
	put(1, "one", true);
	for (i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(name, sizeof(name), "%s/%s", chain.prefix, names[i]);
		see_ok(object_put_new(dir, name, SLICE("no")));
	}
	newest_is(1, "one");
}

/* Four processes add one each to a number, by compare and set. */
static int
count_up(void *arg)
{
	char text[64];
	int i;

	(void)arg;
	for (i = 0; i < 25; i++) {
		bool stands = false;

		while (!stands) {
			struct slice bytes;
			uint64_t version;

			arena_reset(&arena);
			MUST(!err_is(chain_load(&chain, &arena, &version,
			    &bytes)));
			snprintf(text, sizeof(text), "%d by %d.%d",
			    atoi(bytes.len > 0 ? bytes.ptr : "0") + 1,
			    (int)getpid(), i);
			MUST(!err_is(chain_put(&chain, version + 1,
			    slice_of(text), &arena, &stands)));
			MUST(!err_is(chain_collect(&chain, version, 3)));
		}
	}
	return 0;
}

/* A writer whose version was gone on from before it listed adds again: so the
 * number is what was added or more, but every version is one more than the one
 * before, and each stands once. */
static void
compare_and_set_is_one(void **state)
{
	struct slice bytes;
	uint64_t version;
	pid_t pids[4];
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		pids[i] = test_fork((uint16_t)SHM_WORKER(i), count_up, NULL);
	for (i = 0; i < 4; i++) {
		assert_int_equal(test_wait(pids[i]), 0);
		test_reap((uint16_t)SHM_WORKER(i));
	}
	see_ok(chain_load(&chain, &arena, &version, &bytes));
	assert_int_equal(atoi(bytes.ptr), (int)version);
	assert_true(version >= 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
		T(versions_follow_each_other),
		T(a_taken_version_is_another_one),
		T(a_hole_is_not_filled),
		T(old_ones_go_and_the_newest_stay),
		T(a_lost_answer_is_read_back),
		T(an_answer_of_nothing_is_tried_again),
		T(a_late_put_is_ones_own),
		T(a_conflict_is_tried_again),
		T(other_names_are_no_versions),
		T(compare_and_set_is_one),
#undef T
	};

	return cmocka_run_group_tests(tests, group, group_end);
}
