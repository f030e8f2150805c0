#include "shm_test.h"

#include "common/fault.h"
#include "shm/ordinal_table.h"

static void
assert_err(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

static void
own_ordinals_are_there(void **state)
{
	struct shm_ordinal o;
	struct uuid u;
	uint32_t index;

	(void)state;
	assert_int_equal(shm_ordinal_count(), 4);
	assert_err(shm_ordinal_get(0, &o), ERR_OK);
	assert_string_equal(o.name, "host");
	assert_int_equal(o.owner, SHM_WORKER(0));
	assert_int_equal(o.is.state, SHM_ORDINAL_OWNED);
	assert_int_equal(o.version, 0);
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_string_equal(o.name, "host#3");
	assert_int_equal(o.owner, SHM_WORKER(3));
	u = uuid_named(SLICE("host#3"));
	assert_true(uuid_eq(&o.shard, &u));
	assert_err(shm_ordinal_find(&u, &index), ERR_OK);
	assert_int_equal(index, 3);
	u = shm_ordinal_shard(3);
	assert_true(uuid_eq(&o.shard, &u));
	assert_true(slice_eq(shm_ordinal_name(3), SLICE("host#3")));
	assert_err(shm_ordinal_get(4, &o), ERR_NOT_FOUND);
}

static struct err
assign_to(uint32_t index, uint32_t worker, enum shm_ordinal_state state,
    uint64_t version, bool *changed)
{
	struct shm_news news = { .is = { state, worker, "host", "" },
	    .version = version };

	return shm_ordinal_assign(index, &news, changed);
}

/* The contract's examples: the shard of an instance id (5.4). */
static void
shard_ids_are_the_contracts(void **state)
{
	char text[UUID_TEXT_LEN + 1];
	struct uuid u = uuid_named(SLICE("rollout-0"));

	(void)state;
	uuid_to_text(&u, text);
	assert_string_equal(text, "c4118b9c-7f79-523d-9bad-381e42232c1d");
}

static void
others_are_added_once(void **state)
{
	struct shm_ordinal o;
	uint32_t index, again;
	char name[32];
	int i;

	(void)state;
	assert_err(shm_ordinal_add(SLICE("peer#7"), &index), ERR_OK);
	assert_int_equal(index, 5);
	assert_err(shm_ordinal_add(SLICE("peer#7"), &again), ERR_OK);
	assert_int_equal(again, index);
	assert_err(shm_ordinal_get(index, &o), ERR_OK);
	assert_string_equal(o.name, "peer#7");
	assert_int_equal(o.owner, SHM_NOBODY);
	assert_int_equal(o.is.state, SHM_ORDINAL_ORPHANED);
	assert_err(shm_ordinal_add(SLICE(""), &again), ERR_BAD_INPUT);
	for (i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "peer %d", i);
		assert_err(shm_ordinal_add(slice_of(name), &index), ERR_OK);
	}
	assert_err(shm_ordinal_add(SLICE("one more"), &index), ERR_NO_MEMORY);
	assert_true(shm_ordinal_full());
}

static int
add_one_more(void *arg)
{
	uint32_t index;

	(void)arg;
	return shm_ordinal_add(SLICE("third"), &index).kind;
}

/* Of a full table; whoever dies in the middle, it is one or the other. */
static void
what_is_retired_makes_room(void **state)
{
	struct uuid first = uuid_named(SLICE("peer 0")), u;
	struct shm_news news = { .is = { .state = SHM_ORDINAL_RETIRED },
	    .version = 1, .drained = SHM_DRAINED_WORKER };
	uint32_t index, moves, retired;
	struct shm_ordinal o;
	bool changed;
	int status;

	(void)state;
	assert_err(shm_ordinal_find(&first, &retired), ERR_OK);
	assert_err(shm_ordinal_assign(retired, &news, &changed), ERR_OK);
	assert_err(shm_ordinal_add(SLICE("next"), &index), ERR_NO_MEMORY);
	news.version = 2;
	news.drained = 0;
	assert_err(shm_ordinal_assign(retired, &news, &changed), ERR_OK);
	moves = shm_ordinal_moves(retired);
	assert_err(shm_ordinal_add(SLICE("next"), &index), ERR_OK);
	assert_int_equal(index, retired);
	assert_err(shm_ordinal_find(&first, &index), ERR_NOT_FOUND);
	assert_err(shm_ordinal_get(retired, &o), ERR_OK);
	assert_string_equal(o.name, "next");
	assert_int_equal(o.version, 0);
	assert_int_equal(o.is.state, SHM_ORDINAL_ORPHANED);
	assert_int_not_equal(shm_ordinal_moves(retired), moves);
	assert_err(shm_ordinal_add(SLICE("second"), &index), ERR_NO_MEMORY);
	assert_err(shm_ordinal_assign(retired, &news, &changed), ERR_OK);
	assert_err(fault_set("shm_insert=die:1"), ERR_OK);
	status = test_wait(test_fork(SHM_WORKER(0), add_one_more, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
	assert_err(shm_ordinal_get(retired, &o), ERR_OK);
	u = uuid_named(slice_of(o.name));
	assert_string_equal(o.name, "third");
	assert_true(uuid_eq(&o.shard, &u));
	assert_int_equal(o.version, 0);
	/* One of ours is never another's. */
	assert_err(assign_to(2, 0, SHM_ORDINAL_RETIRED, 3, &changed), ERR_OK);
	assert_err(shm_ordinal_add(SLICE("fourth"), &index), ERR_NO_MEMORY);
}

static void
newest_assignment_wins(void **state)
{
	struct shm_ordinal o;
	bool changed;

	(void)state;
	assert_err(assign_to(1, 0, SHM_ORDINAL_ORPHANED, 5,
	    &changed), ERR_OK);
	assert_true(changed);
	assert_err(assign_to(1, 2, SHM_ORDINAL_OWNED, 5,
	    &changed), ERR_OK);
	assert_false(changed);
	assert_err(shm_ordinal_get(1, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_NOBODY);
	assert_int_equal(o.version, 5);
	assert_err(assign_to(1, 2, SHM_ORDINAL_MOVING, 6,
	    &changed), ERR_OK);
	assert_true(changed);
	assert_err(shm_ordinal_get(1, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_WORKER(2));
	assert_int_equal(o.is.state, SHM_ORDINAL_MOVING);
}

/* A stay ends with each change of hands, also with one that nobody here saw;
 * not with news that leave the owner where he was. */
static void
stays_are_counted(void **state)
{
	struct shm_news news = { .is = { SHM_ORDINAL_OWNED, 3, "host", "" },
	    .version = 60 };
	uint32_t moves = shm_ordinal_moves(3);
	bool changed;

	(void)state;
	assert_false(shm_ordinal_guest(3));
	assert_err(shm_ordinal_assign(3, &news, &changed), ERR_OK);
	assert_int_equal(shm_ordinal_moves(3), moves);
	news.version = 63;
	news.was[0] = (struct shm_past){ .version = 60 };
	assert_err(shm_ordinal_assign(3, &news, &changed), ERR_OK);
	assert_int_equal(shm_ordinal_moves(3), moves);
	news.version = 66;		/* 65: who knows whose */
	news.was[0].version = 65;
	assert_err(shm_ordinal_assign(3, &news, &changed), ERR_OK);
	assert_int_equal(shm_ordinal_moves(3), moves + 1);
	assert_err(assign_to(3, 1, SHM_ORDINAL_OWNED, 67, &changed), ERR_OK);
	assert_int_equal(shm_ordinal_moves(3), moves + 2);
	assert_true(shm_ordinal_guest(3));
	assert_int_equal(shm_ordinal_owner(3), SHM_WORKER(1));
	/* Nobody's: of its own ordinals the instance ages what is there. */
	assert_err(assign_to(3, 1, SHM_ORDINAL_ORPHANED, 68, &changed), ERR_OK);
	assert_int_equal(shm_ordinal_moves(3), moves + 3);
	assert_true(shm_ordinal_aged(3));
	assert_false(shm_ordinal_here(3) || shm_ordinal_guest(3));
	news.version = 69;
	snprintf(news.is.instance, sizeof(news.is.instance), "other");
	news.was[0].version = 68;
	assert_err(shm_ordinal_assign(3, &news, &changed), ERR_OK);
	assert_int_equal(shm_ordinal_moves(3), moves + 4);
	assert_false(shm_ordinal_aged(3) || shm_ordinal_here(3));
}

static int
assign(void *arg)
{
	bool changed;

	return assign_to(2, 0, SHM_ORDINAL_RETIRED,
	    *(uint64_t *)arg, &changed).kind;
}

static void
half_a_change_is_undone(void **state)
{
	struct shm_ordinal before = { 0 }, after = { 0 };
	uint64_t version = 9;
	int status, round;

	(void)state;
	for (round = 0; round < 3; round++) {
		assert_err(shm_ordinal_get(2, &before), ERR_OK);
		assert_err(fault_set("shm_assign=die:1"), ERR_OK);
		status = test_wait(test_fork(SHM_WORKER(0), assign, &version));
		assert_true(WIFSIGNALED(status));
		test_reap(SHM_WORKER(0));
		assert_err(shm_ordinal_get(2, &after), ERR_OK);
		assert_memory_equal(&before, &after, sizeof(before));
	}
	assert_left_well(test_fork(SHM_WORKER(0), assign, &version));
	test_reap(SHM_WORKER(0));
	assert_err(shm_ordinal_get(2, &after), ERR_OK);
	assert_int_equal(after.is.state, SHM_ORDINAL_RETIRED);
	assert_int_equal(after.version, 9);
}

static int
add(void *arg)
{
	uint32_t index;

	(void)arg;
	return shm_ordinal_add(SLICE("half"), &index).kind;
}

/* A death with the mutex, but outside of any change, undoes none; and a half
 * added ordinal is not there. */
static void
whole_changes_are_not_undone(void **state)
{
	struct uuid u = uuid_named(SLICE("half"));
	struct shm_ordinal o;
	uint32_t index;
	bool changed;
	int status;

	(void)state;
	assert_err(assign_to(0, 3, SHM_ORDINAL_MOVING, 50,
	    &changed), ERR_OK);
	assert_err(fault_set("shm_insert=die:1"), ERR_OK);
	status = test_wait(test_fork(SHM_WORKER(0), add, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
	assert_err(shm_ordinal_get(0, &o), ERR_OK);
	assert_int_equal(o.version, 50);
	assert_int_equal(o.owner, SHM_WORKER(3));
	assert_err(shm_ordinal_find(&u, &index), ERR_NOT_FOUND);
}

/* A later whole change is not undone by the note of an earlier one. */
static int
assign_many(void *arg)
{
	uint64_t version = *(uint64_t *)arg, i;
	bool changed;

	for (i = 0; i < 20000; i++) {
		/* Owner and version agree: readers check. */
		MUST(!err_is(assign_to(3,
		    (uint32_t)((version + i) % 1000), SHM_ORDINAL_OWNED,
		    version + i, &changed)));
	}
	return 0;
}

static void
changes_are_whole(void **state)
{
	uint64_t version = 100;
	struct shm_ordinal o;
	pid_t pids[3];
	int i, round;

	(void)state;
	for (i = 0; i < 3; i++)
		pids[i] = test_fork(SHM_WORKER(i), assign_many, &version);
	for (round = 0; round < 20000; round++) {
		assert_err(shm_ordinal_get(3, &o), ERR_OK);
		/* Before it is what another test left. */
		if (o.version >= 100)
			assert_int_equal(o.is.worker, o.version % 1000);
	}
	for (i = 0; i < 3; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_int_equal(o.version, 20099);
}

/* Of a host elsewhere, or of nobody: here no process owns it. */
static void
owners_are_of_this_instance(void **state)
{
	struct shm_news news = { .version = 30000, .at_ms = 7,
	    .is = { SHM_ORDINAL_OWNED, 1, "peer", "peer:1" },
	    .drained = SHM_DRAINED_WORKER,
	    .reason = SHM_ORDINAL_BY_COMMAND,
	    .was = { { SHM_ORDINAL_OWNED, 2, 29999, 6, "before",
	    SHM_ORDINAL_BY_HOME }, { SHM_ORDINAL_ORPHANED, 0, 9, 1, "", 0 } } };
	struct shm_ordinal o;
	uint32_t index;
	bool changed;

	(void)state;
	assert_err(shm_ordinal_find(&(struct uuid){ { 0 } }, &index),
	    ERR_NOT_FOUND);
	assert_err(shm_ordinal_assign(3, &news, &changed), ERR_OK);
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_NOBODY);
	assert_string_equal(o.is.instance, "peer");
	assert_string_equal(o.is.address, "peer:1");
	assert_int_equal(o.at_ms, 7);
	assert_int_equal(o.drained, SHM_DRAINED_WORKER);
	assert_int_equal(o.reason, SHM_ORDINAL_BY_COMMAND);
	assert_string_equal(o.was[0].instance, "before");
	assert_int_equal(o.was[0].version, 29999);
	assert_int_equal(o.was[0].reason, SHM_ORDINAL_BY_HOME);
	assert_int_equal(o.was[1].version, 9);
	assert_err(assign_to(3, 1, SHM_ORDINAL_OWNED, 30001, &changed), ERR_OK);
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_WORKER(1));
	assert_err(assign_to(3, 4, SHM_ORDINAL_OWNED, 30002, &changed), ERR_OK);
	assert_err(shm_ordinal_get(3, &o), ERR_OK);
	assert_int_equal(o.owner, SHM_NOBODY);
}

static void
a_newcomer_is_replaced_and_ended(void **state)
{
	struct shm_newcomer a, b, got;

	(void)state;
	memset(&a, 0, sizeof(a));
	snprintf(a.name, sizeof(a.name), "adopted#a");
	b = a;
	b.shard = uuid_named(SLICE("b"));
	assert_false(shm_ordinal_wanted_new(&got));
	shm_ordinal_want_new(&a);
	shm_ordinal_want_new(&b);
	shm_ordinal_want_new_end(&a);
	assert_true(shm_ordinal_wanted_new(&got));
	assert_memory_equal(&got, &b, sizeof(got));
	shm_ordinal_want_new_end(&b);
	assert_false(shm_ordinal_wanted_new(&got));
}

static void
wants_are_replaced_and_ended(void **state)
{
	struct shm_want a = { { SHM_ORDINAL_MOVING, 1, "host", "" }, 7,
	    0, 0, 0 };
	struct shm_want b = { { SHM_ORDINAL_ORPHANED, 0, "", "" }, 8,
	    SHM_DRAINED_WORKER, 0, 0 };
	struct shm_want got;
	struct shm_ordinal o;

	(void)state;
	assert_false(shm_ordinal_wanted(1, &got));
	assert_err(shm_ordinal_want(1, &a), ERR_OK);
	assert_true(shm_ordinal_wanted(1, &got));
	assert_memory_equal(&got, &a, sizeof(a));
	assert_err(shm_ordinal_get(1, &o), ERR_OK);
	assert_true(o.wanted);
	assert_err(shm_ordinal_want(1, &b), ERR_OK);
	shm_ordinal_want_end(1, &a);	/* done, but decided anew meanwhile */
	assert_true(shm_ordinal_wanted(1, &got));
	shm_ordinal_want_end(1, &b);
	assert_false(shm_ordinal_wanted(1, &got));
	assert_err(shm_ordinal_want(999, &b), ERR_NOT_FOUND);
}

static void
versions_of_the_chain_rise(void **state)
{
	(void)state;
	assert_int_equal(shm_ordinal_version(), 0);
	shm_ordinal_version_raise(5);
	shm_ordinal_version_raise(3);
	assert_int_equal(shm_ordinal_version(), 5);
}

/* One that a name does not explain, and no second ordinal for one shard. */
static void
shards_are_adopted(void **state)
{
	struct uuid stray = { { 1, 2, 3 } }, other = { { 9 } };
	uint32_t index, again;

	(void)state;
	assert_err(shm_ordinal_adopt(SLICE("adopted"), &stray, &index), ERR_OK);
	assert_err(shm_ordinal_find(&stray, &again), ERR_OK);
	assert_int_equal(index, again);
	assert_err(shm_ordinal_adopt(SLICE("adopted"), &stray, &again),
	    ERR_OK);
	assert_err(shm_ordinal_adopt(SLICE("another"), &stray, &again),
	    ERR_EXISTS);
	assert_err(shm_ordinal_adopt(SLICE("adopted"), &other, &again),
	    ERR_EXISTS);
	other = uuid_named(SLICE("host#1"));
	assert_err(shm_ordinal_adopt(SLICE("thief"), &other, &again),
	    ERR_EXISTS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_ordinals_are_there),
		cmocka_unit_test(shard_ids_are_the_contracts),
		cmocka_unit_test(whole_changes_are_not_undone),
		cmocka_unit_test(wants_are_replaced_and_ended),
		cmocka_unit_test(a_newcomer_is_replaced_and_ended),
		cmocka_unit_test(versions_of_the_chain_rise),
		cmocka_unit_test(shards_are_adopted),
		cmocka_unit_test(others_are_added_once),
		cmocka_unit_test(what_is_retired_makes_room),
		cmocka_unit_test(newest_assignment_wins),
		cmocka_unit_test(stays_are_counted),
		cmocka_unit_test(half_a_change_is_undone),
		cmocka_unit_test(changes_are_whole),
		cmocka_unit_test(owners_are_of_this_instance),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
