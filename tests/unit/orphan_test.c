#include "master_test.h"

#include "shm/home.h"
#include "master/backoff.h"
#include "master/candidate.h"
#include "master/member.h"

static void
assign(uint32_t index, const char *instance, uint32_t worker,
    enum shm_ordinal_state state, uint32_t drained)
{
	assign_as(index, instance, (struct shm_news){
	    .is = { .state = state, .worker = worker }, .drained = drained });
}

static void
give(const char *ordinal, const char *instance, uint32_t worker,
    enum shm_ordinal_state state)
{
	uint32_t index;

	must(shm_ordinal_add(slice_of(ordinal), &index));
	assign(index, instance, worker, state, 0);
}

static struct candidates found;

static void
assert_least(const char *instance, uint32_t worker)
{
	struct candidate *least = candidates_least(&found, NULL);

	assert_non_null(least);
	assert_string_equal(least->instance, instance);
	assert_int_equal(least->worker, worker);
}

static void
the_least_loaded_is_chosen(void **state)
{
	struct shm_assignment to;

	(void)state;
	give("host", "host", 0, SHM_ORDINAL_OWNED);
	give("host#1", "host", 1, SHM_ORDINAL_OWNED);
	give("host#2", "host", 0, SHM_ORDINAL_OWNED);
	give("host#3", "", 0, SHM_ORDINAL_ORPHANED);
	candidates_find(&found, 2);
	assert_int_equal(found.count, 2);
	assert_least("host", 1);
	/* What is decided counts at once. */
	to = candidate_take(candidates_least(&found, NULL));
	assert_int_equal(to.state, SHM_ORDINAL_OWNED);
	assert_int_equal(to.worker, 1);
	assert_string_equal(to.instance, "host");
	assert_least("host", 0);
	/* Nobody runs: nobody gets it. */
	candidates_find(&found, 0);
	assert_null(candidates_least(&found, NULL));
}

static void
others_count_while_they_live(void **state)
{
	struct shm_assignment to;

	(void)state;
	give("host", "host", 0, SHM_ORDINAL_OWNED);
	give("near", "near", 0, SHM_ORDINAL_OWNED);
	give("late", "late", 0, SHM_ORDINAL_OWNED);
	give("left", "left", 0, SHM_ORDINAL_OWNED);
	give("never seen", "never seen", 0, SHM_ORDINAL_OWNED);
	see("near", 1, 500, false);
	see("late", 1, 1500, false);
	see("left", 1, 0, true);
	candidates_find(&found, 1);
	assert_int_equal(found.count, 2);
	/* Of equals ours; then the one of another instance. */
	assert_least("host", 0);
	candidate_take(candidates_least(&found, NULL));
	assert_least("near", 0);
	to = candidate_take(candidates_least(&found, NULL));
	assert_string_equal(to.address, "there:1");
	assert_null(candidates_get(&found, "late", 0));
}

static bool
is_gone(const char *id)
{
	struct shm_instance i;

	assert_true(shm_instance_find(id, &i));
	return member_is_gone(&i);
}

/* One that is started again may hold its lease before we look again. */
static void
who_left_is_gone_after_its_span(void **state)
{
	(void)state;
	see("restarts", 1, 900, true);
	see("left", 1, 1000, true);
	assert_false(is_gone("restarts"));
	assert_true(is_gone("left"));
}

static void
who_is_drained_gets_nothing(void **state)
{
	uint32_t near;

	(void)state;
	give("host#2", "host", 0, SHM_ORDINAL_OWNED);
	must(shm_ordinal_add(SLICE("near"), &near));
	assign(near, "near", 0, SHM_ORDINAL_OWNED, 0);
	give("near#1", "near", 1, SHM_ORDINAL_OWNED);
	see("near", 1, 0, false);
	assign(1, "host", 0, SHM_ORDINAL_OWNED, SHM_DRAINED_WORKER);
	candidates_find(&found, 3);
	assert_int_equal(found.count, 4);
	assert_null(candidates_get(&found, "host", 1));
	assert_non_null(candidates_get(&found, "near", 1));
	assign(near, "host", 0, SHM_ORDINAL_OWNED, SHM_DRAINED_INSTANCE);
	candidates_find(&found, 3);
	assert_int_equal(found.count, 2);
	assert_least("host", 2);
}

static void
assert_home(const char *name, const char *instance, uint32_t worker)
{
	struct shm_ordinal o = { .version = 0 };
	struct shm_home home;

	snprintf(o.name, sizeof(o.name), "%s", name);
	home = shm_home_of(&o);
	assert_string_equal(home.instance, instance);
	assert_int_equal(home.worker, worker);
}

static bool
left(const char *ordinal)
{
	struct shm_ordinal o;
	uint32_t index;

	must(shm_ordinal_add(slice_of(ordinal), &index));
	must(shm_ordinal_get(index, &o));
	return shm_home_left(&o);
}

static void
names_tell_the_home(void **state)
{
	char name[SHM_ORDINAL_NAME_MAX + 1];
	struct uuid shard = uuid_random();
	struct shm_ordinal o;
	uint32_t index;

	(void)state;
	assert_home("a", "a", 0);
	assert_home("a#3", "a", 3);
	assert_home("a#0", "a#0", 0);
	assert_home("a#03", "a#03", 0);
	assert_home("a#3x", "a#3x", 0);
	assert_home("a#999", "a#999", 0);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_home(name, "", 0);

	assert_false(left("host"));	/* in no chain */
	give("host", "host", 0, SHM_ORDINAL_OWNED);
	give("host#1", "host", 0, SHM_ORDINAL_OWNED);
	give("host#2", "near", 2, SHM_ORDINAL_OWNED);
	give("host#3", "", 0, SHM_ORDINAL_ORPHANED);
	assert_false(left("host"));
	assert_true(left("host#1"));
	assert_true(left("host#2"));
	assert_false(left("host#3"));
	/* Another's shard under a name that is at home. */
	must(shm_ordinal_adopt(SLICE("host#x"), &shard, &index));
	assign(index, "host", 0, SHM_ORDINAL_OWNED, 0);
	must(shm_ordinal_get(index, &o));
	assert_true(shm_home_left(&o));
}

static void
waits_grow_and_differ(void **state)
{
	struct backoff b = { 100, 1000 };
	uint64_t waited, least, most;
	uint32_t failures, i;
	bool differ = false;

	(void)state;
	for (failures = 1; failures < 100; failures++) {
		most = MIN(100ull << MIN(failures - 1, 20u), 1000ull);
		least = most / 2;
		for (i = 0; i < 100; i++) {
			waited = backoff_ns(&b, failures);
			assert_in_range(waited, least, most);
			differ |= waited != least;
		}
	}
	assert_true(differ);
	b = (struct backoff){ 1, UINT64_MAX };
	assert_true(backoff_ns(&b, UINT32_MAX) > 0);
	assert_int_equal(backoff_jitter_ns(0), 0);
	for (i = 0; i < 100; i++)
		assert_true(backoff_jitter_ns(7) < 7);
}

#define T(f) cmocka_unit_test_setup_teardown(f, segment_setup, segment_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_least_loaded_is_chosen),
		T(others_count_while_they_live),
		T(who_is_drained_gets_nothing),
		T(who_left_is_gone_after_its_span),
		T(names_tell_the_home),
		cmocka_unit_test(waits_grow_and_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
