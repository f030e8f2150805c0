#include "shm_test.h"
#include "shm_insert.h"
#include "lance_dir.h"

#include "shm/ordinal_table.h"
#include "shm/stray.h"
#include "worker/maintain/explain.h"
#include "worker/object/chain.h"
#include "worker/store/assignment.h"

/* Wants become versions of the chain; the cache follows; of two one wins. */

static struct arena arena;
static uint32_t moves;

static int
begin(void **state)
{
	if (segment_setup(state) != 0 || dir_setup(state) != 0)
		return -1;
	arena_init(&arena, 64u << 20);
	return 0;
}

static int
end(void **state)
{
	arena_free(&arena);
	see_ok(object_delete_tree(dir, "_cluster"));
	dir_teardown(state);
	memcpy(root_path + sizeof(root_path) - 7, "XXXXXX", 6);
	return segment_teardown(state);
}

static void
want(uint32_t index, enum shm_ordinal_state state, const char *instance,
    uint32_t worker, uint64_t from_version)
{
	struct shm_want w;

	memset(&w, 0, sizeof(w));
	w.to.state = state;
	w.to.worker = worker;
	snprintf(w.to.instance, sizeof(w.to.instance), "%s", instance);
	snprintf(w.to.address, sizeof(w.to.address), "%s:1", instance);
	w.from_version = from_version;
	see_ok(shm_ordinal_want(index, &w));
}

static void
bring(uint32_t stand_expected, uint32_t late_expected)
{
	uint32_t stand, late;

	see_ok(assignment_bring(dir, &stand, &late));
	assert_int_equal(stand, stand_expected);
	assert_int_equal(late, late_expected);
}

static struct shm_ordinal
ordinal(uint32_t index)
{
	struct shm_ordinal o;

	see_ok(shm_ordinal_get(index, &o));
	return o;
}

static void
wants_become_the_assignment(void **state)
{
	struct assignment t;
	struct shm_want left;
	struct uuid shard = uuid_named(SLICE("host#1"));

	(void)state;
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.version, 0);
	see_ok(assignment_look(dir));
	bring(0, 0);				/* nothing is wanted: no version */
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.version, 0);

	want(0, SHM_ORDINAL_OWNED, "host", 0, 0);
	want(1, SHM_ORDINAL_MOVING, "peer", 3, 0);
	bring(2, 0);
	assert_false(shm_ordinal_wanted(0, &left));
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.version, 1);
	assert_int_equal(t.count, 2);
	assert_true(slice_eq(t.ordinals[1].name, SLICE("host#1")));
	assert_true(uuid_eq(&t.ordinals[1].shard, &shard));
	assert_int_equal(t.ordinals[1].now.state, SHM_ORDINAL_MOVING);
	assert_int_equal(t.ordinals[1].now.worker, 3);
	assert_true(slice_eq(t.ordinals[1].now.instance, SLICE("peer")));
	assert_true(slice_eq(t.ordinals[1].address, SLICE("peer:1")));
	assert_int_equal(t.ordinals[1].history_count, 0);
	assert_int_equal(ordinal(1).owner, SHM_NOBODY);
	assert_int_equal(ordinal(1).version, 1);
	assert_int_equal(shm_ordinal_version(), 1);
}

static void
history_is_bounded_and_newest_first(void **state)
{
	struct assignment t;
	uint32_t i;

	(void)state;
	for (i = 0; i < 7; i++) {
		want(2, SHM_ORDINAL_OWNED, "host", i, i);
		bring(1, 0);
	}
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.count, 1);
	assert_int_equal(t.ordinals[0].now.version, 7);
	assert_int_equal(t.ordinals[0].history_count, ASSIGNMENT_HISTORY);
	for (i = 0; i < ASSIGNMENT_HISTORY; i++) {
		assert_int_equal(t.ordinals[0].history[i].version, 6 - i);
		assert_int_equal(t.ordinals[0].history[i].worker, 5 - i);
	}
}

/* A mark stays through what is decided without it, until it is taken away. */
static void
a_drain_is_in_the_chain(void **state)
{
	struct shm_want w = { .to = { SHM_ORDINAL_OWNED, 1, "host", "" },
	    .drain = SHM_DRAINED_WORKER };
	struct assignment t;

	(void)state;
	see_ok(shm_ordinal_want(1, &w));
	bring(1, 0);
	see_ok(shm_ordinal_want(1, &w));	/* twice is once */
	bring(1, 0);
	assert_int_equal(ordinal(1).version, 1);
	want(1, SHM_ORDINAL_OWNED, "peer", 0, 1);
	bring(1, 0);
	assert_int_equal(ordinal(1).drained, SHM_DRAINED_WORKER);
	assert_string_equal(ordinal(1).was[0].instance, "host");
	assert_int_equal(ordinal(1).was[0].version, 1);
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.ordinals[0].drained, SHM_DRAINED_WORKER);
	w = (struct shm_want){ .to = w.to, .from_version = 2,
	    .undrain = SHM_DRAINED_WORKER };
	see_ok(shm_ordinal_want(1, &w));
	bring(1, 0);
	assert_int_equal(ordinal(1).drained, 0);
	assert_int_equal(ordinal(1).version, 3);
}

/* Why an ordinal is where it is goes with its owner, into the chain, its history
 * and the segment. */
static void
reasons_go_with_the_owner(void **state)
{
	struct shm_want w = { .to = { SHM_ORDINAL_OWNED, 1, "host", "" },
	    .reason = SHM_ORDINAL_BY_HOME };
	struct assignment t;

	(void)state;
	see_ok(shm_ordinal_want(1, &w));
	bring(1, 0);
	w.to = (struct shm_assignment){ SHM_ORDINAL_OWNED, 0, "peer", "p:1" };
	w.from_version = 1;
	w.reason = SHM_ORDINAL_BY_ORPHAN;
	see_ok(shm_ordinal_want(1, &w));
	bring(1, 0);
	/* Another address, a mark: he is there for the same reason. */
	w.to = (struct shm_assignment){ SHM_ORDINAL_OWNED, 0, "peer", "p:2" };
	w.from_version = 2;
	w.drain = SHM_DRAINED_WORKER;
	w.reason = SHM_ORDINAL_BY_COMMAND;
	see_ok(shm_ordinal_want(1, &w));
	bring(1, 0);
	assert_int_equal(ordinal(1).version, 3);
	assert_int_equal(ordinal(1).reason, SHM_ORDINAL_BY_ORPHAN);
	assert_int_equal(ordinal(1).was[1].reason, SHM_ORDINAL_BY_HOME);
	assert_int_equal(ordinal(1).was[1].version, 1);
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.ordinals[0].now.reason, SHM_ORDINAL_BY_ORPHAN);
	assert_int_equal(t.ordinals[0].history[1].reason,
	    SHM_ORDINAL_BY_HOME);
}

/* Decided on what was not the newest any more: dropped, and told. */
static void
a_late_want_changes_nothing(void **state)
{
	struct shm_want left;

	(void)state;
	want(1, SHM_ORDINAL_ORPHANED, "", 0, 0);
	bring(1, 0);
	want(1, SHM_ORDINAL_OWNED, "host", 1, 0);
	bring(0, 1);
	assert_false(shm_ordinal_wanted(1, &left));
	assert_int_equal(ordinal(1).is.state, SHM_ORDINAL_ORPHANED);
	/* One that stands already is no change, whatever it goes on from. */
	want(1, SHM_ORDINAL_ORPHANED, "", 0, 0);
	bring(1, 0);
	assert_int_equal(shm_ordinal_version(), 1);
}

/* What another instance wrote: its ordinals are known then, by name and by
 * shard, also those that were adopted. */
static void
another_instances_ordinals_are_learned(void **state)
{
	static const char text[] = "{\"version\":9,\"writer\":"
	    "\"00000000-0000-0000-0000-000000000000\",\"ordinals\":["
	    "{\"name\":\"peer#2\",\"shard\":"
	    "\"c4118b9c-7f79-523d-9bad-381e42232c1d\",\"version\":8,"
	    "\"state\":\"owned\",\"instance\":\"peer\",\"worker\":2,"
	    "\"address\":\"p:1\",\"at_ms\":5,\"history\":[],\"newer\":{}}]}";
	struct uuid shard = uuid_named(SLICE("rollout-0"));
	uint32_t index;

	(void)state;
	see_ok(object_put_new(dir,
	    "_cluster/assignment/00000000000000000009.json",
	    slice_of(text)));
	see_ok(assignment_look(dir));
	see_ok(shm_ordinal_find(&shard, &index));
	assert_string_equal(ordinal(index).name, "peer#2");
	assert_string_equal(ordinal(index).is.instance, "peer");
	assert_int_equal(ordinal(index).version, 8);
	assert_int_equal(shm_ordinal_version(), 9);
	/* Ours go on from there and keep it. */
	want(0, SHM_ORDINAL_OWNED, "host", 0, 0);
	bring(1, 0);
	assert_int_equal(ordinal(0).version, 10);
	{
		struct assignment t;

		see_ok(assignment_load(dir, &arena, &t));
		assert_int_equal(t.count, 2);
		assert_true(uuid_eq(&t.ordinals[0].shard, &shard));
	}
}

static struct shm_newcomer
newcomer(const char *name, const struct uuid *shard)
{
	struct shm_newcomer n;

	memset(&n, 0, sizeof(n));
	snprintf(n.name, sizeof(n.name), "%s", name);
	n.shard = *shard;
	n.want.to.state = SHM_ORDINAL_OWNED;
	snprintf(n.want.to.instance, sizeof(n.want.to.instance), "host");
	n.want.reason = SHM_ORDINAL_BY_COMMAND;
	return n;
}

/* A name has one shard, and a shard one name: of two that adopt at the same time
 * one wins, and both know which. */
static void
names_and_shards_go_in_pairs(void **state)
{
	struct uuid shard = uuid_random(), other = uuid_random();
	struct shm_newcomer n = newcomer("adopted#a", &shard), left;
	struct assignment t;
	uint32_t index, stand, late;

	(void)state;
	shm_ordinal_want_new(&n);
	see_error(shm_ordinal_find(&shard, &index), NOT_FOUND);
	bring(1, 0);
	assert_false(shm_ordinal_wanted_new(&left));
	see_ok(shm_ordinal_find(&shard, &index));
	assert_string_equal(ordinal(index).name, "adopted#a");
	assert_int_equal(ordinal(index).owner, SHM_WORKER(0));
	shm_ordinal_want_new(&n);		/* twice is once */
	bring(1, 0);
	n = newcomer("adopted#b", &shard);
	shm_ordinal_want_new(&n);
	bring(0, 1);
	n = newcomer("adopted#a", &other);
	shm_ordinal_want_new(&n);
	bring(0, 1);
	assert_false(shm_ordinal_wanted_new(&left));
	see_error(shm_ordinal_find(&other, &index), NOT_FOUND);
	/* One that a server's own worker has by its name; other wants go on. */
	n = newcomer("host#1", &other);
	shm_ordinal_want_new(&n);
	bring(1, 0);
	want(1, SHM_ORDINAL_OWNED, "host", 1, 0);
	want(2, SHM_ORDINAL_OWNED, "host", 2, 0);
	see_error(assignment_bring(dir, &stand, &late), EXISTS);
	assert_int_equal(stand, 1);
	assert_int_equal(late, 1);
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.version, 3);
	assert_int_equal(t.count, 3);
	bring(0, 0);
}

/* In a store that has these shards only the one of no ordinal is a stray. */
static void
explain_all_but(const struct uuid *none)
{
	struct uuid shards[] = { uuid_named(SLICE("new")),
	    uuid_named(SLICE("old18")), *none, uuid_named(SLICE("old19")) };
	struct shm_ref ref;
	struct shm_stray s;
	uint32_t i, number;

	see_ok(insert_store((struct shm_store_key){ STORE_ROLLOUT,
	    SLICE("st") }, none, &ref));
	for (i = 0; i < ARRAY_LEN(shards); i++)
		see_ok(shm_store_shard_add(ref, &shards[i], &number));
	explain_store(dir, ref);
	i = 0;
	assert_true(shm_stray_next(&i, &s));
	assert_true(uuid_eq(&s.shard, none));
	assert_false(shm_stray_next(&i, &s));
}

/* More than the segment has places for, most of them retired: those that are not
 * are known, the others explain their shards from the chain. */
static void
the_retired_make_room(void **state)
{
	struct uuid last = uuid_named(SLICE("old19")), none = uuid_random(), u;
	char text[8192], shard[UUID_TEXT_LEN + 1], name[16];
	struct assignment t;
	uint32_t i, index;
	size_t n;

	(void)state;
	n = (size_t)snprintf(text, sizeof(text), "{\"version\":1,\"writer\":"
	    "\"00000000-0000-0000-0000-000000000000\",\"ordinals\":[");
	for (i = 0; i < 21; i++) {
		snprintf(name, sizeof(name), i < 20 ? "old%u" : "new", i);
		u = uuid_named(slice_of(name));
		uuid_to_text(&u, shard);
		n += (size_t)snprintf(text + n, sizeof(text) - n,
		    "%s{\"name\":\"%s\",\"shard\":\"%s\",\"version\":1,"
		    "\"state\":\"%s\",\"instance\":\"\",\"worker\":0,"
		    "\"address\":\"\",\"at_ms\":1,\"history\":[]}",
		    i > 0 ? "," : "", name, shard,
		    i < 20 ? "retired" : "orphaned");
	}
	n += (size_t)snprintf(text + n, sizeof(text) - n, "]}");
	assert_true(n < sizeof(text));
	see_ok(object_put_new(dir,
	    "_cluster/assignment/00000000000000000001.json",
	    slice_make(text, n)));
	see_ok(assignment_look(dir));
	assert_true(shm_ordinal_full());
	u = uuid_named(SLICE("new"));
	see_ok(shm_ordinal_find(&u, &index));
	assert_int_equal(ordinal(index).version, 1);
	/* Of those that are retired none made room for another. */
	assert_int_equal(shm_ordinal_moves(index), 1);
	see_error(shm_ordinal_find(&last, &index), NOT_FOUND);
	explain_all_but(&none);
	/* What is not known here stays in the chain. */
	want(1, SHM_ORDINAL_OWNED, "host", 1, 0);
	bring(1, 0);
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.count, 22);
}

static void
who_may_claim(void **state)
{
	(void)state;
	/* The default: its home. */
	see_ok(assignment_check(dir, 1, SHM_WORKER(1), &moves));
	see_error(assignment_check(dir, 1, SHM_WORKER(0), &moves), FENCED);
	want(1, SHM_ORDINAL_MOVING, "host", 0, 0);
	bring(1, 0);
	see_ok(assignment_check(dir, 1, SHM_WORKER(0), &moves));
	see_error(assignment_check(dir, 1, SHM_WORKER(1), &moves), FENCED);
	want(1, SHM_ORDINAL_ORPHANED, "", 0, 1);
	bring(1, 0);
	see_error(assignment_check(dir, 1, SHM_WORKER(0), &moves), FENCED);
	shm_lease_end(SHM_LEASE_LOST, "told so");
	see_error(assignment_check(dir, 0, SHM_WORKER(0), &moves), UNAVAILABLE);
}

/* A worker that was asleep reads the chain before it claims. */
static int
move_away(void)
{
	struct shm_config cfg = test_config();
	uint32_t index, stand, late;

	shm_segment_destroy();
	cfg.instance_id = SLICE("peer");
	MUST(!err_is(shm_segment_create(&cfg)));
	shm_process_refill(SHM_MASTER);
	shm_process_attach(SHM_MASTER);
	MUST(!err_is(shm_ordinal_add(SLICE("host"), &index)));
	want(index, SHM_ORDINAL_OWNED, "peer", 0, 0);
	return assignment_bring(dir, &stand, &late).kind;
}

static void
the_chain_is_read_before_a_claim(void **state)
{
	pid_t pid;

	(void)state;
	see_ok(assignment_check(dir, 0, SHM_WORKER(0), &moves));
	pid = fork();
	if (pid == 0)
		_exit(move_away());
	assert_int_equal(test_wait(pid), 0);
	assert_int_equal(ordinal(0).owner, SHM_WORKER(0));	/* the cache */
	see_error(assignment_check(dir, 0, SHM_WORKER(0), &moves), FENCED);
}

static void
damaged_ones_change_nothing(void **state)
{
	static const char *const bad[] = { "", "{", "[]", "{\"version\":1}",
		"{\"version\":1,\"ordinals\":[{}]}",
		"{\"version\":1,\"ordinals\":[{\"name\":\"a\",\"shard\":\"b\","
		"\"version\":1,\"state\":\"owned\",\"instance\":\"a\","
		"\"worker\":0,\"address\":\"\",\"at_ms\":1,\"history\":[]}]}",
		"{\"version\":1,\"ordinals\":[{\"name\":\"a\",\"shard\":"
		"\"c4118b9c-7f79-523d-9bad-381e42232c1d\",\"version\":1,"
		"\"state\":\"owned\",\"instance\":\"a\",\"worker\":999,"
		"\"address\":\"\",\"at_ms\":1,\"history\":[]}]}" };
	struct assignment t;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		see_error(assignment_parse(slice_of(bad[i]), &arena, &t),
		    CORRUPT);
	see_ok(object_put_new(dir,
	    "_cluster/assignment/00000000000000000001.json", SLICE("{")));
	see_error(assignment_look(dir), CORRUPT);
	see_error(assignment_check(dir, 0, SHM_WORKER(0), &moves), CORRUPT);
	assert_int_equal(shm_ordinal_unread(), 1);
	see_ok(object_delete(dir,
	    "_cluster/assignment/00000000000000000001.json"));
	see_ok(assignment_look(dir));
	assert_int_equal(shm_ordinal_unread(), 0);
}

/* An answer that is lost, none at all, a death: the want stays until its fate
 * is known, and is brought once. */
static int
bring_and_die(void *arg)
{
	uint32_t stand, late;

	(void)arg;
	(void)assignment_bring(dir, &stand, &late).kind;
	return 0;
}

static void
ambiguous_puts_are_brought_once(void **state)
{
	uint32_t stand, late;
	struct shm_want left;
	int status;

	(void)state;
	want(0, SHM_ORDINAL_OWNED, "host", 0, 0);
	see_ok(fault_set("put_assignment=drop:1"));
	bring(1, 0);
	want(0, SHM_ORDINAL_OWNED, "host", 1, 1);
	see_ok(fault_set("assignment_put=fail:5:1"));
	see_error(assignment_bring(dir, &stand, &late), IO);
	assert_true(shm_ordinal_wanted(0, &left));
	bring(1, 0);
	assert_int_equal(ordinal(0).version, 2);
	want(0, SHM_ORDINAL_OWNED, "host", 2, 2);
	see_ok(fault_set("object_linked=die:1"));
	status = test_wait(test_fork(SHM_WORKER(0), bring_and_die, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
	assert_true(shm_ordinal_wanted(0, &left));
	bring(1, 0);				/* it stands: no second version */
	assert_int_equal(ordinal(0).version, 3);
	assert_int_equal(shm_ordinal_version(), 3);
}

/* Two instances decide on the same ordinal at the same time, each on what it
 * has just seen. */
static int
contend(uint32_t number, uint32_t rounds)
{
	struct shm_config cfg = test_config();
	uint32_t index, i, stand, late;

	shm_segment_destroy();
	cfg.instance_id = number == 0 ? SLICE("left") : SLICE("right");
	MUST(!err_is(shm_segment_create(&cfg)));
	shm_process_refill(SHM_MASTER);
	shm_process_attach(SHM_MASTER);
	MUST(!err_is(shm_ordinal_add(SLICE("between"), &index)));
	for (i = 1; i <= rounds; i++) {
		struct shm_ordinal o;

		MUST(!err_is(assignment_look(dir)));
		MUST(!err_is(shm_ordinal_get(index, &o)));
		atomic_fetch_add(&shared->ready, 1);
		while (atomic_load(&shared->ready) < 2 * i)
			sched_yield();
		/* A worker of its own each round: no want stands already. */
		want(index, SHM_ORDINAL_OWNED, shm_instance_id(), i % 200,
		    o.version);
		MUST(!err_is(assignment_bring(dir, &stand, &late)));
		MUST(stand + late == 1);
		atomic_fetch_add(&shared->counts[number], stand);
		/* Both have decided before anybody looks again. */
		atomic_fetch_add(&shared->go, 1);
		while (atomic_load(&shared->go) < 2 * i)
			sched_yield();
	}
	return 0;
}

static void
of_two_one_wins(void **state)
{
	uint32_t rounds = getenv("LONG") != NULL ? 200 : 50, i;
	struct assignment t;
	pid_t pids[2];

	(void)state;
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
			alarm(60);
			_exit(contend(i, rounds));
		}
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(test_wait(pids[i]), 0);
	assert_int_equal(atomic_load(&shared->counts[0]) +
	    atomic_load(&shared->counts[1]), rounds);
	see_ok(assignment_load(dir, &arena, &t));
	assert_int_equal(t.version, rounds);
}

static void
old_versions_go(void **state)
{
	struct chain c = { .root = dir, .prefix = "_cluster/assignment" };
	uint32_t i;
	uint64_t newest;

	(void)state;
	for (i = 0; i < ASSIGNMENT_KEEP + 5; i++) {
		want(0, SHM_ORDINAL_OWNED, "host", i, i);
		bring(1, 0);
		see_ok(assignment_collect(dir));
	}
	see_ok(chain_newest(&c, &newest));
	assert_int_equal(newest, ASSIGNMENT_KEEP + 5);
	see_error(object_exists(dir,
	    "_cluster/assignment/00000000000000000004.json"), NOT_FOUND);
	see_ok(object_exists(dir,
	    "_cluster/assignment/00000000000000000005.json"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
		T(wants_become_the_assignment),
		T(history_is_bounded_and_newest_first),
		T(a_drain_is_in_the_chain),
		T(reasons_go_with_the_owner),
		T(a_late_want_changes_nothing),
		T(another_instances_ordinals_are_learned),
		T(names_and_shards_go_in_pairs),
		T(the_retired_make_room),
		T(who_may_claim),
		T(the_chain_is_read_before_a_claim),
		T(damaged_ones_change_nothing),
		T(ambiguous_puts_are_brought_once),
		T(of_two_one_wins),
		T(old_versions_go),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
