#include "store_dir.h"

#include <pthread.h>
#include <sched.h>

/* The generations that the newest manifest names, opened: rows, masked ones
 * included, and how many are masked. */
struct generation {
	uint64_t rows, masked, max_sequence;
	bool deletions;			/* there is a file of them */
};

static struct generation
generation_of(const struct uuid *shard, uint32_t i)
{
	struct shard_manifest m = manifest_of(shard);
	struct generation g = { 0 };
	struct source *s;

	assert_true(i < m.generation_count);
	see_ok(source_open_generation(dir, shape_of(), shard,
	    &m.generations[i], &s));
	g.rows = s->fragment->row_count;
	g.deletions = s->fragment->deletion != NULL;
	g.masked = s->fragment->deletion == NULL ? 0 :
	    deletion_count(s->fragment->deletion);
	g.max_sequence = reload_sequence(s->fragment->table,
	    SLICE(META_MAX_SEQ));
	source_drop(s);
	return g;
}

static void
nothing_to_seal(void **state)
{
	struct owner o;

	(void)state;
	assert_int_equal(seal_now(0).generations, 0);
	o = own_claim(0);
	assert_int_equal(seal_now(0).generations, 0);
	see_ok(own_put(&o, "k1", "a"));
	/* It is being written to. */
	assert_int_equal(seal_now(0).generations, 0);
	assert_int_equal(manifest_of(&o.shard).generation_count, 0);
	see_store("k1=a");
	own_end(&o);
}

static bool
count_generation(const struct object_info *info, void *ctx)
{
	uint32_t *n = ctx;

	*n += info->is_dir && info->name.len > 8 && info->name.ptr[8] == '_';
	return true;
}

/* Recorded, but without a row: not even a folder is made. */
static void
empty_entries_wait(void **state)
{
	struct owner a = owner_of(0), b = owner_of(0);
	char folder[SHARD_NAME_MAX];
	uint32_t n = 0;

	(void)state;
	see_ok(own_take(&a));
	see_ok(own_take(&b));
	assert_int_equal(seal_now(0).generations, 0);
	shard_directory_name(&a.shard, folder);
	see_ok(object_list(dir, folder, count_generation, &n));
	assert_int_equal(n, 0);
	own_end(&a);
	own_end(&b);
}

static void
a_recorded_end_is_sealed(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;
	struct shm_manifest_marks marks;
	struct generation g;
	uint64_t sequence;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k2", "b"));
	sequence = o.sequence;
	see_ok(own_rotate(&o, "k1", "c"));
	r = seal_now(0);
	assert_int_equal(r.generations, 1);
	assert_int_equal(r.rows, 2);
	assert_false(r.more);
	g = generation_of(&o.shard, 0);
	assert_int_equal(g.rows, 2);
	assert_int_equal(g.masked, 0);
	assert_false(g.deletions);
	assert_int_equal(g.max_sequence, sequence);
	assert_int_equal(manifest_of(&o.shard).last_seen,
	    o.entry.position - 1);
	/* The entry that is written to is left, and is the tail. */
	assert_int_equal(manifest_of(&o.shard).replay_after,
	    o.entry.position - 1);
	marks = shm_shard_marks(o.state);
	assert_int_equal(marks.replay_after, o.entry.position - 1);
	assert_int_equal(marks.pending_generations, 1);
	assert_int_equal(marks.version, manifest_of(&o.shard).version);
	assert_true(marks.pending_bytes > 0);
	see_store("k1=c k2=b");
	forget_all();
	see_store("k1=c k2=b");
	own_end(&o);
}

/* Rows behind the recorded end are nobody's. */
static void
what_lies_behind_the_end_is_left(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_take(&b));
	own_announce(&b);
	see_ok(own_write(&a, "k2", "late"));
	assert_int_equal(seal_now(0).rows, 1);
	see_store("k1=a");
	own_end(&a);
	own_end(&b);
}

static void
a_closed_entry_is_sealed(void **state)
{
	struct owner o = own_claim(0);

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	assert_int_equal(seal_now(0).generations, 1);
	assert_int_equal(manifest_of(&o.shard).replay_after,
	    o.entry.position);
	see_store("k1=a");
	/* Again is nothing. */
	assert_int_equal(seal_now(0).generations, 0);
	assert_int_equal(manifest_of(&o.shard).generation_count, 1);
	forget_all();
	see_store("k1=a");
}

/* Only up to where the owner closed it: what lies behind was never
 * acknowledged. */
static void
a_closed_entry_ends_where_its_owner_said(void **state)
{
	struct owner o = own_claim(0);

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_write(&o, "k2", "failed"));
	own_close(&o);
	assert_int_equal(seal_now(0).rows, 1);
	see_store("k1=a");
}

/* The mark is of an owner that another has fenced since: what that one read
 * may be more, so the seal gives up and nothing is lost. */
static void
a_closed_entry_of_another_epoch_is_not_sealed(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	struct shard_manifest m;
	struct seal_result r;
	struct arena arena;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	own_close(&a);
	arena_init(&arena, 1u << 20);
	see_ok(fault_set("claim_entry=fail:5:1"));
	see_error(own_take(&b), IO);
	see_error(seal_shard(&aged, 0, &r), FENCED);
	assert_int_equal(r.generations, 0);
	m = manifest_of(&a.shard);
	assert_int_equal(m.generation_count, 0);
	assert_int_equal(m.replay_after, 0);
	see_store("k1=a");
	/* Once the claim stands the end is recorded. */
	see_ok(own_take(&b));
	own_announce(&b);
	assert_int_equal(seal_now(0).generations, 1);
	see_store("k1=a");
	arena_free(&arena);
	own_end(&b);
}

/* After the owner's death a reader loaded more than was acknowledged: what it
 * has shown must not go again. */
static void
a_closed_entry_that_showed_more_waits_for_a_claim(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_write(&a, "k2", "failed"));
	own_close(&a);
	shm_shard_raise(a.state, (struct shm_point){ a.entry.position,
	    a.entry.end + a.written });
	see_store("k1=a k2=failed");
	assert_int_equal(seal_now(0).generations, 0);
	see_store("k1=a k2=failed");
	see_ok(own_take(&b));
	own_announce(&b);
	assert_int_equal(seal_now(0).rows, 2);
	see_store("k1=a k2=failed");
	own_end(&b);
}

static void
sentinels_at_the_end_are_left(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_rotate(&a, "k2", "b"));
	see_ok(fault_set("claim_entry=fail:5:1"));
	see_error(own_take(&b), IO);
	assert_int_equal(seal_now(0).rows, 1);
	assert_int_equal(manifest_of(&a.shard).replay_after,
	    a.entry.position - 1);
	see_ok(own_take(&b));
	own_announce(&b);
	assert_int_equal(seal_now(0).rows, 1);
	/* Sentinels in between are passed, those behind the last entry stay. */
	assert_int_equal(manifest_of(&a.shard).replay_after,
	    a.entry.position);
	see_store("k1=a k2=b");
	own_end(&a);
	own_end(&b);
}

static void
older_rows_of_a_key_are_masked(void **state)
{
	struct owner o = own_claim(0);
	struct generation g;

	(void)state;
	see_ok(own_put(&o, "k2", "a"));
	see_ok(own_put(&o, "k1", "b"));
	see_ok(own_put(&o, "k2", "c"));
	see_ok(own_rotate(&o, "k2", "d"));
	see_ok(own_rotate(&o, "k3", "e"));
	own_close(&o);
	assert_int_equal(seal_now(0).rows, 5);
	g = generation_of(&o.shard, 0);
	assert_int_equal(g.rows, 5);
	assert_int_equal(g.masked, 2);
	assert_int_equal(g.max_sequence, o.sequence);
	see_store("k1=b k2=d k3=e");
}

/* More than one generation takes up: in order, without a gap. What the bytes
 * are that an entry is said to have does not matter here. */
static void
large_tails_are_sealed_in_pieces(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	o.entry.end = SEAL_BYTES_MAX - 8;
	see_ok(own_rotate(&o, "k2", "b"));
	o.entry.end = 8;
	see_ok(own_rotate(&o, "k3", "c"));
	o.entry.end = SEAL_BYTES_MAX + 8;
	see_ok(own_rotate(&o, "k4", "d"));
	own_close(&o);
	r = seal_now(0);
	assert_int_equal(r.generations, 1);
	assert_int_equal(r.rows, 1);
	assert_true(r.more);
	/* One entry alone may be larger. */
	r = seal_now(0);
	assert_int_equal(r.rows, 1);
	assert_true(r.more);
	r = seal_now(0);
	assert_int_equal(r.rows, 1);
	assert_false(r.more);
	assert_int_equal(manifest_of(&o.shard).generation_count, 3);
	assert_int_equal(manifest_of(&o.shard).replay_after,
	    o.entry.position);
}

/* Nothing can be read of them: they stay, and the tick does not spin. */
static void
entries_without_a_row_are_left(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;

	(void)state;
	o.entry.end = SEAL_BYTES_MAX;
	see_ok(own_rotate(&o, "k1", "a"));
	own_close(&o);
	r = seal_now(0);
	assert_int_equal(r.generations, 0);
	assert_false(r.more);
	assert_int_equal(manifest_of(&o.shard).replay_after, 0);
}

static int
seal_it(void *arg)
{
	struct seal_result r;

	(void)arg;
	return err_is(seal_shard(&aged, 0, &r)) || r.generations != 1;
}

static void
killed_at(const char *fault)
{
	struct owner o = own_claim(0);

	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k1", "b"));
	own_close(&o);
	die_in(SHM_MAINTAINER, fault, seal_it, NULL);
	see_store("k1=b");
	seal_now(0);
	assert_int_equal(manifest_of(&o.shard).generation_count, 1);
	assert_int_equal(generation_of(&o.shard, 0).rows, 2);
	see_store("k1=b");
	forget_all();
	see_store("k1=b");
}

static void
killed_before_it_writes(void **state)
{
	(void)state;
	killed_at("seal_write=die:1");
}

static void
killed_before_the_manifest(void **state)
{
	(void)state;
	killed_at("seal_commit=die:1");
}

/* The generation is there, only nobody was told: the next seal does that. */
static void
killed_before_it_publishes(void **state)
{
	struct shm_shard_state *s = shm_store_shard(ref, 0);

	killed_at("seal_publish=die:1");
	(void)state;
	assert_int_equal(shm_shard_marks(s).pending_generations, 1);
}

static void
published_by_the_next_seal(void **state)
{
	struct owner o = own_claim(0);

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	die_in(SHM_MAINTAINER, "seal_publish=die:1", seal_it, NULL);
	assert_int_equal(shm_shard_marks(o.state).pending_generations, 0);
	assert_int_equal(seal_now(0).generations, 0);
	assert_int_equal(shm_shard_marks(o.state).pending_generations, 1);
	assert_int_equal(shm_shard_marks(o.state).replay_after,
	    o.entry.position);
	see_store("k1=a");
}

/* A sealer that slept while another sealed. */
static void
overtaken_by_another(void **state)
{
	struct owner o = own_claim(0);
	uint64_t token;
	pid_t pid;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	pid = test_fork_stopped(SHM_MAINTAINER, seal_it, NULL,
	    "seal_commit=stop:1");
	see_error(seal_shard(&aged, 0, &(struct seal_result){ 0 }), BUSY);
	/* Of another host, whose guards we do not see. */
	token = atomic_load(&o.state->seal_guard.word);
	shm_store_seal_release(ref, 0, token);
	assert_int_equal(seal_now(0).generations, 1);
	atomic_store(&o.state->seal_guard.word, token);
	assert_int_equal(test_go_on(SHM_MAINTAINER, pid), 1);
	assert_int_equal(manifest_of(&o.shard).generation_count, 1);
	see_store("k1=a");
}

/* Field fault A.1: a seal that fails is not passed by the next. */
static void
a_failed_seal_leaves_no_gap(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;

	(void)state;
	see_ok(own_put(&o, "a", "1"));
	see_ok(own_rotate(&o, "b", "2"));
	see_ok(fault_set("object_put=fail:5"));
	see_error(seal_shard(&aged, 0, &r), IO);
	see_ok(fault_set("object_put=off"));
	see_ok(fault_set("seal_commit=fail:5:1"));
	see_error(seal_shard(&aged, 0, &r), IO);
	own_close(&o);
	assert_int_equal(seal_now(0).rows, 2);
	forget_all();
	see_store("a=1 b=2");
}

static void
damage_below_the_end_costs_its_rows_alone(void **state)
{
	struct owner o = own_claim(0);
	uint64_t first = o.entry.end;
	int fd;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k2", "b"));
	fd = open_wal(&o.shard, o.entry.position);
	assert_int_equal(pwrite(fd, "XXXX", 4, (off_t)first + 900), 4);
	close(fd);
	see_store("k2=b");
	own_close(&o);
	assert_int_equal(seal_now(0).rows, 1);
	see_store("k2=b");
}

static void
a_deleted_store_is_left_alone(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	see_ok(shm_store_delete(ref));
	see_error(seal_shard(&aged, 0, &r), NOT_FOUND);
	assert_int_equal(manifest_of(&o.shard).generation_count, 0);
}

static void
deleted_while_it_seals(void **state)
{
	struct owner o = own_claim(0);
	pid_t pid;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	pid = test_fork_stopped(SHM_MAINTAINER, seal_it, NULL,
	    "seal_commit=stop:1");
	see_ok(shm_store_delete(ref));
	assert_int_equal(test_go_on(SHM_MAINTAINER, pid), 1);
	assert_int_equal(manifest_of(&o.shard).generation_count, 0);
}

static void
a_seal_that_is_late_stops(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	aged.deadline_ns = 1;
	see_error(seal_shard(&aged, 0, &r), TIMED_OUT);
	assert_int_equal(manifest_of(&o.shard).generation_count, 0);
	aged.deadline_ns = UINT64_MAX;
	assert_int_equal(seal_now(0).generations, 1);
}

static void *
seal_beside(void *arg)
{
	struct aged_store other = aged;
	struct seal_result r;
	struct err *e = arg;

	arena_init(&other.errors, 1u << 16);
	*e = seal_shard(&other, 0, &r);
	e->what = "";			/* it was in there */
	arena_free(&other.errors);
	return NULL;
}

/* Others went on from the manifest that names it, before its writer looked
 * whether it stands: folded and drained by then, so the seal fails. Still it is
 * no output of a step that failed: who reads an older view needs it. */
static void
what_others_went_on_from_stays(void **state)
{
	struct owner o = own_claim(0);
	uint64_t until_ns = clock_mono_ns() + 10 * NS_PER_SEC;
	uint32_t before = fault_hits(FAULT_shard_committed);
	struct fold_result folded;
	pthread_t sealer;
	struct err e;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	own_close(&o);
	see_ok(fault_set("shard_committed=hold:1"));
	assert_int_equal(pthread_create(&sealer, NULL, seal_beside, &e), 0);
	while (fault_hits(FAULT_shard_committed) == before) {
		assert_true(clock_mono_ns() < until_ns);
		sched_yield();
	}
	see_ok(fold_shard(&aged, 0, &folded));
	assert_int_equal(folded.reclaimed, 1);
	see_ok(fault_set("shard_committed=off"));
	assert_int_equal(pthread_join(sealer, NULL), 0);
	see_error(e, UNKNOWN);
	assert_int_equal(shard_has(&o.shard, "", "_gen_"), 1);
	see_store("k1=a");
}

static void
errors_leave_nothing(void **state)
{
	static const char *const faults[] = { "seal_write=fail:5:1",
	    "seal_commit=fail:5:1", "object_write=fail:28:1",
	    "object_write=fail:28:1@1", "object_sync=fail:5:1",
	    "object_sync=fail:5:1@1", "object_sync=fail:5:1@2",
	    "object_sync=fail:5:1@3", "object_sync=fail:5:1@4",
	    "object_link=fail:5:1", "object_link=fail:5:1@2",
	    "shard_commit=fail:5:1" };
	struct owner o = own_claim(0);
	struct seal_result r;
	uint32_t before;
	size_t i;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k1", "b"));
	own_close(&o);
	before = descriptors();
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		see_ok(fault_set(faults[i]));
		if (!err_is(seal_shard(&aged, 0, &r)))
			fail_msg("%s was not met", faults[i]);
		assert_int_equal(descriptors(), before);
		assert_int_equal(manifest_of(&o.shard).generation_count, 0);
		assert_int_equal(shard_has(&o.shard, "", "_gen_"), 0);
	}
	assert_int_equal(seal_now(0).generations, 1);
	assert_int_equal(descriptors(), before);
	see_store("k1=b");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(nothing_to_seal),
		store_test(empty_entries_wait),
		store_test(a_recorded_end_is_sealed),
		store_test(what_lies_behind_the_end_is_left),
		store_test(a_closed_entry_is_sealed),
		store_test(a_closed_entry_ends_where_its_owner_said),
		store_test(a_closed_entry_of_another_epoch_is_not_sealed),
		store_test(a_closed_entry_that_showed_more_waits_for_a_claim),
		store_test(sentinels_at_the_end_are_left),
		store_test(older_rows_of_a_key_are_masked),
		store_test(large_tails_are_sealed_in_pieces),
		store_test(entries_without_a_row_are_left),
		store_test(killed_before_it_writes),
		store_test(killed_before_the_manifest),
		store_test(killed_before_it_publishes),
		store_test(published_by_the_next_seal),
		store_test(overtaken_by_another),
		store_test(a_failed_seal_leaves_no_gap),
		store_test(damage_below_the_end_costs_its_rows_alone),
		store_test(a_deleted_store_is_left_alone),
		store_test(deleted_while_it_seals),
		store_test(a_seal_that_is_late_stops),
		store_test(what_others_went_on_from_stays),
		store_test(errors_leave_nothing),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
