#include "store_base.h"
#include "store_foreign.h"

static uint32_t
pending(uint32_t ordinal)
{
	struct uuid shard = shm_ordinal_shard(ordinal);

	return manifest_of(&shard).generation_count;
}

static uint64_t
progress_of(const struct uuid *shard)
{
	struct arena arena;
	struct table *t;
	uint64_t p;

	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	p = table_progress_of(t, shard);
	table_free(t);
	arena_free(&arena);
	return p;
}

static void
generations_become_a_fragment(void **state)
{
	struct owner o = own_claim(0);
	struct fold_result r;
	struct shm_manifest_marks marks;
	char key[META_MAX_SEQ_KEY_MAX];
	struct arena arena;
	struct table *t;

	(void)state;
	generation_with(&o, "k1", "a");
	generation_with(&o, "k2", "b");
	generation_with(&o, "k1", "c");
	r = fold_now(0);
	assert_int_equal(r.reclaimed, 3);
	assert_int_equal(r.rows, 2);
	assert_false(r.more);
	see_base("k1=c k2=b");
	see_store("k1=c k2=b");
	assert_int_equal(pending(0), 0);
	assert_int_equal(progress_of(&o.shard), 3);
	marks = shm_shard_marks(o.state);
	assert_int_equal(marks.pending_generations, 0);
	assert_int_equal(marks.pending_bytes, 0);
	assert_int_equal(atomic_load(&shm_store_slot(ref)->base_version),
	    base_version());
	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	reload_max_seq_key(&o.shard, key);
	assert_int_equal(reload_sequence(t, slice_of(key)), o.sequence);
	table_free(t);
	arena_free(&arena);
	/* The epoch is not touched. */
	assert_int_equal(manifest_of(&o.shard).epoch, 1);
	forget_all();
	see_store("k1=c k2=b");
	see_ok(own_rotate(&o, "k9", "z"));
	own_end(&o);
}

static void
newer_rows_replace_those_of_the_base(void **state)
{
	struct owner o = own_claim(0);

	(void)state;
	generation_with(&o, "k1", "a");
	generation_with(&o, "k2", "a");
	fold_now(0);
	generation_with(&o, "k1", "b");
	generation_with(&o, "k3", "b");
	assert_int_equal(fold_now(0).rows, 2);
	see_base("k2=a k1=b k3=b");
	/* A fragment that loses its last row goes. */
	generation_with(&o, "k2", "c");
	fold_now(0);
	see_base("k1=b k3=b k2=c");
	assert_int_equal(fragments(), 2);
	see_store("k1=b k2=c k3=b");
}

/* Two shards write one key; whichever is folded first, the later write
 * stands. */
static void
across_shards(uint32_t first, uint32_t second)
{
	struct owner a = own_claim(0), b = own_claim(1);

	generation_with(&a, "k1", "old");
	generation_with(&a, "k2", "new");
	generation_with(&b, "k1", "new");
	see_ok(own_rotate(&a, "k3", "old"));
	see_ok(own_rotate(&b, "k3", "new"));
	own_close(&a);
	own_close(&b);
	seal_now(0);
	seal_now(1);
	see_store("k1=new k2=new k3=new");
	fold_now(first);
	see_store("k1=new k2=new k3=new");
	fold_now(second);
	see_store("k1=new k2=new k3=new");
	see_base(first == 0 ? "k2=new k1=new k3=new" :
	    "k1=new k3=new k2=new");
	assert_int_equal(pending(0) + pending(1), 0);
}

static void
older_shard_first(void **state)
{
	(void)state;
	across_shards(0, 1);
}

static void
newer_shard_first(void **state)
{
	(void)state;
	across_shards(1, 0);
}

/* Every row is overtaken: progress is noted, no fragment is added. */
static void
all_rows_overtaken(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);

	(void)state;
	generation_with(&a, "k1", "old");
	generation_with(&b, "k1", "new");
	fold_now(1);
	assert_int_equal(fold_now(0).reclaimed, 1);
	see_base("k1=new");
	assert_int_equal(fragments(), 1);
	assert_int_equal(progress_of(&a.shard), 1);
	assert_int_equal(pending(0), 0);
}

static int
fold_it(void *arg)
{
	struct fold_result r;
	uint64_t token = shm_store_guard_try(ref, UINT64_MAX);
	bool bad;

	if (token == 0)
		return 2;
	bad = err_is(fold_shard(&aged, *(uint32_t *)arg, &r));
	shm_store_guard_release(ref, token);
	return bad;
}

static void
killed_at(const char *fault)
{
	struct owner a = own_claim(0), b = own_claim(1);
	uint32_t ordinal = 0;

	generation_with(&a, "k1", "old");
	generation_with(&a, "k2", "a");
	generation_with(&b, "k1", "new");
	fold_now(1);
	generation_with(&a, "k3", "a");
	die_in(SHM_MAINTAINER, fault, fold_it, &ordinal);
	see_store("k1=new k2=a k3=a");
	/* Sealed after the fold began. */
	generation_with(&a, "k4", "late");
	see_store("k1=new k2=a k3=a k4=late");
	while (pending(0) > 0)
		fold_now(0);
	see_base("k1=new k2=a k3=a k4=late");
	see_store("k1=new k2=a k3=a k4=late");
	assert_int_equal(shm_shard_marks(a.state).pending_generations, 0);
	forget_all();
	see_store("k1=new k2=a k3=a k4=late");
}

static void
killed_while_it_prepares(void **state)
{
	(void)state;
	killed_at("fold_prepare=die:1");
}

static void
killed_before_it_writes(void **state)
{
	(void)state;
	killed_at("fold_write=die:1");
}

static void
killed_before_the_base(void **state)
{
	(void)state;
	killed_at("fold_commit=die:1");
}

static void
killed_behind_the_base(void **state)
{
	(void)state;
	killed_at("table_committed=die:1");
}

static void
killed_before_the_drain(void **state)
{
	struct owner a;
	uint64_t version;
	uint32_t ordinal = 0;

	(void)state;
	killed_at("fold_drain=die:1");
	/* What the base bears is not written again. */
	a = own_claim(0);
	generation_with(&a, "k5", "a");
	die_in(SHM_MAINTAINER, "fold_drain=die:1", fold_it, &ordinal);
	version = base_version();
	assert_int_equal(pending(0), 1);
	see_text("k5", "a");
	assert_int_equal(fold_now(0).reclaimed, 1);
	assert_int_equal(base_version(), version);
	assert_int_equal(pending(0), 0);
}

/* Nobody was told; what the segment knows is put right by the next. */
static void
killed_before_it_publishes(void **state)
{
	struct owner a = own_claim(0);
	uint32_t ordinal = 0;
	uint64_t version;

	(void)state;
	generation_with(&a, "k1", "a");
	die_in(SHM_MAINTAINER, "fold_publish=die:1", fold_it, &ordinal);
	assert_int_equal(pending(0), 0);
	assert_int_equal(shm_shard_marks(a.state).pending_generations, 1);
	version = manifest_of(&a.shard).version;
	assert_int_equal(fold_now(0).reclaimed, 0);
	assert_int_equal(manifest_of(&a.shard).version, version);
	assert_int_equal(shm_shard_marks(a.state).pending_generations, 0);
	assert_int_equal(atomic_load(&shm_store_slot(ref)->base_version),
	    base_version());
	see_store("k1=a");
	see_base("k1=a");
}

/* Before it says what it has drained, somebody else publishes that manifest:
 * with the base that bears it, or the rows would be in neither. */
static void
a_drained_manifest_comes_with_its_base(void **state)
{
	struct owner a = own_claim(0);
	uint32_t ordinal = 0;

	(void)state;
	generation_with(&a, "k1", "a");
	die_in(SHM_MAINTAINER, "fold_publish=die:1", fold_it, &ordinal);
	generation_with(&a, "k2", "b");
	assert_int_equal(atomic_load(&shm_store_slot(ref)->base_version),
	    base_version());
	see_store("k1=a k2=b");
}

/* ---- others at the same time */

static pid_t
stop_at(const char *fault, uint32_t *ordinal)
{
	return test_fork_stopped(SHM_MAINTAINER, fold_it, ordinal, fault);
}

static void
go_on(pid_t pid)
{
	assert_int_equal(test_go_on(SHM_MAINTAINER, pid), 0);
}

/* Without the guard, as another instance would. */
static void
fold_beside(uint32_t ordinal)
{
	struct fold_result r;

	see_ok(fold_shard(&aged, ordinal, &r));
}

/* While the first is between its edit and its put another replaced the same
 * keys: what loses now is masked, in its own fragment. */
static void
lost_race_is_looked_up_again(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);
	uint32_t ordinal = 0;
	pid_t pid;

	(void)state;
	generation_with(&a, "k1", "base");
	fold_now(0);
	generation_with(&a, "k1", "old");
	generation_with(&a, "k2", "a");
	generation_with(&b, "k1", "new");
	generation_with(&b, "k3", "b");
	pid = stop_at("table_commit=stop:1", &ordinal);
	fold_beside(1);
	see_base("k1=new k3=b");
	go_on(pid);
	see_base("k1=new k3=b k2=a");
	see_store("k1=new k2=a k3=b");
	assert_int_equal(pending(0) + pending(1), 0);
}

static void
lost_race_against_an_older_row(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);
	uint32_t ordinal = 1;
	pid_t pid;

	(void)state;
	generation_with(&a, "k1", "base");
	fold_now(0);
	generation_with(&a, "k1", "old");
	generation_with(&b, "k1", "new");
	pid = stop_at("table_commit=stop:1", &ordinal);
	fold_beside(0);
	see_base("k1=old");
	go_on(pid);
	see_base("k1=new");
	see_store("k1=new");
}

/* Two fold the same shard: the second finds the progress and only drains. */
static void
two_fold_one_shard(void **state)
{
	struct owner a = own_claim(0);
	uint32_t ordinal = 0;
	uint64_t version;
	pid_t pid;

	(void)state;
	generation_with(&a, "k1", "a");
	generation_with(&a, "k2", "b");
	pid = stop_at("fold_commit=stop:1", &ordinal);
	fold_beside(0);
	version = base_version();
	go_on(pid);
	assert_int_equal(base_version(), version);
	see_base("k1=a k2=b");
	see_store("k1=a k2=b");
	assert_int_equal(pending(0), 0);
}

static void
sealed_meanwhile_survives_the_drain(void **state)
{
	struct owner a = own_claim(0);
	uint32_t ordinal = 0;
	pid_t pid;

	(void)state;
	generation_with(&a, "k1", "a");
	pid = stop_at("fold_drain=stop:1", &ordinal);
	generation_with(&a, "k1", "b");
	generation_with(&a, "k2", "b");
	see_store("k1=b k2=b");
	go_on(pid);
	assert_int_equal(pending(0), 2);
	assert_int_equal(shm_shard_marks(a.state).pending_generations, 2);
	see_base("k1=a");
	see_store("k1=b k2=b");
	fold_now(0);
	see_base("k1=b k2=b");
}

/* ---- caps, rows of other engines, errors */

static void
passes_keep_to_their_caps(void **state)
{
	struct owner a = own_claim(0);
	struct fold_result r;
	uint64_t one;
	int i;

	(void)state;
	for (i = 0; i < 5; i++)
		generation_with(&a, "k1", i == 4 ? "last" : "x");
	one = shm_shard_marks(a.state).pending_bytes / 5;
	config.rollout_merge_max_generations = 2;
	r = fold_now(0);
	assert_int_equal(r.reclaimed, 2);
	assert_true(r.more);
	assert_true(shm_shard_marks(a.state).pending_bytes < one * 4);
	assert_true(shm_shard_marks(a.state).pending_bytes > one * 2);
	config.rollout_merge_max_generations = 8;
	config.rollout_merge_max_bytes = one * 2 + one / 2;
	r = fold_now(0);
	assert_int_equal(r.reclaimed, 2);
	assert_true(r.more);
	config.rollout_merge_max_bytes = 1;
	r = fold_now(0);
	assert_int_equal(r.reclaimed, 1);
	assert_false(r.more);
	see_base("k1=last");
	/* 0: no cap. */
	config.rollout_merge_max_generations = 0;
	config.rollout_merge_max_bytes = 0;
	generation_with(&a, "k2", "x");
	generation_with(&a, "k2", "y");
	assert_int_equal(fold_now(0).reclaimed, 2);
	config.rollout_merge_max_generations = 8;
	config.rollout_merge_max_bytes = 1ull << 30;
}

static void
rows_of_another_engine_are_oldest(void **state)
{
	struct owner a = own_claim(0);
	struct builder b;

	(void)state;
	rows_begin(&b);
	add_row(&b, "k1", "foreign", 9);
	add_row(&b, "k1", "foreign again", 9);
	add_row(&b, "k2", "foreign", 9);
	sequences_are(&b, NULL);
	foreign_rows(&b);
	see_store("k1=foreign again k2=foreign");
	see_ok(own_rotate(&a, "k1", "a"));
	see_store("k1=a k2=foreign");
	own_close(&a);
	seal_now(0);
	see_store("k1=a k2=foreign");
	fold_now(0);
	see_base("k2=foreign k1=a");
	see_store("k1=a k2=foreign");
}

/* What another engine rewrote into one fragment: the highest sequence counts
 * there too, not the later row. */
static void
twice_in_one_fragment(void **state)
{
	struct owner a = own_claim(0);
	struct builder b;
	const int64_t sequences[] = { 1000, NO_SEQUENCE, 1000, 1000 };

	(void)state;
	rows_begin(&b);
	add_row(&b, "k1", "ours", 1);
	add_row(&b, "k1", "none", 9);
	add_row(&b, "k2", "first", 1);
	add_row(&b, "k2", "second", 1);
	sequences_are(&b, sequences);
	foreign_rows(&b);
	see_store("k1=ours k2=second");
	generation_with(&a, "k2", "third");
	fold_now(0);
	see_store("k1=ours k2=third");
}

static void
errors_leave_nothing(void **state)
{
	static const char *const faults[] = { "fold_write=fail:5:1",
	    "fold_prepare=fail:5:1", "fold_commit=fail:5:1",
	    "fold_drain=fail:5:1", "object_write=fail:28:1",
	    "object_sync=fail:5:1", "object_sync=fail:5:1@1",
	    "object_sync=fail:5:1@2", "object_link=fail:5:1",
	    "table_commit=fail:5:1", "shard_commit=fail:5:1" };
	struct owner a = own_claim(0);
	struct fold_result r;
	uint32_t before, files;
	uint64_t version;
	size_t i;

	(void)state;
	generation_with(&a, "k1", "a");
	fold_now(0);
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		fold_now(0);
		generation_with(&a, "k1", "b");
		before = descriptors();
		files = count_in("data", "");
		version = base_version();
		see_ok(fault_set(faults[i]));
		if (!err_is(fold_shard(&aged, 0, &r)))
			fail_msg("%s was not met", faults[i]);
		assert_int_equal(count_in("data", "") - files,
		    base_version() - version);
		see_store("k1=b");
		assert_int_equal(descriptors(), before);
	}
	fold_now(0);
	see_base("k1=b");
}

static void
a_deleted_store_is_left_alone(void **state)
{
	struct owner a = own_claim(0);
	struct fold_result r;
	uint64_t version = base_version();

	(void)state;
	generation_with(&a, "k1", "a");
	see_ok(shm_store_delete(ref));
	see_error(fold_shard(&aged, 0, &r), NOT_FOUND);
	assert_int_equal(base_version(), version);
	assert_int_equal(pending(0), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(generations_become_a_fragment),
		store_test(newer_rows_replace_those_of_the_base),
		store_test(older_shard_first),
		store_test(newer_shard_first),
		store_test(all_rows_overtaken),
		store_test(killed_while_it_prepares),
		store_test(killed_before_it_writes),
		store_test(killed_before_the_base),
		store_test(killed_behind_the_base),
		store_test(killed_before_the_drain),
		store_test(killed_before_it_publishes),
		store_test(a_drained_manifest_comes_with_its_base),
		store_test(lost_race_is_looked_up_again),
		store_test(lost_race_against_an_older_row),
		store_test(two_fold_one_shard),
		store_test(sealed_meanwhile_survives_the_drain),
		store_test(passes_keep_to_their_caps),
		store_test(rows_of_another_engine_are_oldest),
		store_test(twice_in_one_fragment),
		store_test(errors_leave_nothing),
		store_test(a_deleted_store_is_left_alone),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
