#include "store_base.h"
#include "store_foreign.h"

#include "worker/maintain/compact.h"
#include "worker/store/pin.h"

static const struct compact_wish everything = {
	.target_rows = COMPACT_ROWS, .all = true, .masked = true,
};

static struct compact_result
compact_with(const struct compact_wish *wish)
{
	uint64_t token = shm_store_guard_try(ref, UINT64_MAX);
	struct compact_result r;

	assert_true(token != 0);
	see_ok(compact_store(&aged, wish, &r));
	shm_store_guard_release(ref, token);
	return r;
}

static struct compact_result
compact_all(void)
{
	return compact_with(&everything);
}

/* A fragment of one row. */
static void
fragment_with(struct owner *o, const char *key, const char *text)
{
	generation_with(o, key, text);
	fold_now(o->ordinal);
}

/* Rows key0 ... in a fragment of another engine. */
static void
foreign_many(const char *key, uint32_t first, uint32_t count)
{
	char text[16];
	struct builder b;
	uint32_t i;

	rows_begin(&b);
	for (i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%s%05u", key, first + i);
		add_row(&b, text, "foreign", 1);
	}
	sequences_are(&b, NULL);
	foreign_rows(&b);
}

static void
see_count(uint32_t want)
{
	struct arena arena;
	struct table *t;
	struct base *b;
	uint64_t rows = 0;
	uint32_t i;

	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	see_ok(base_open(dir, shape_of(), t, NULL, &b));
	for (i = 0; i < b->source_count; i++)
		rows += fragment_live_count(b->sources[i]->fragment);
	base_drop(b);
	arena_free(&arena);
	assert_int_equal(rows, want);
}

static void
small_fragments_become_one(void **state)
{
	struct owner o = own_claim(0);
	struct compact_result r;
	struct reading old;
	struct seen seen;
	char key[8];
	int i;

	(void)state;
	for (i = 0; i < 7; i++) {
		snprintf(key, sizeof(key), "k%d", 8 - i);
		fragment_with(&o, key, "a");
	}
	/* Too few. */
	assert_int_equal(compact_with(&compact_by_itself).passes, 0);
	fragment_with(&o, "k1", "a");
	assert_int_equal(fragments(), 8);
	reading_begin(&old);
	r = compact_with(&compact_by_itself);
	assert_int_equal(r.passes, 1);
	assert_int_equal(r.fragments_removed, 8);
	assert_int_equal(r.fragments_added, 1);
	assert_int_equal(r.files_removed, 8);
	assert_int_equal(r.files_added, 1);
	assert_int_equal(fragments(), 1);
	see_base("k1=a k2=a k3=a k4=a k5=a k6=a k7=a k8=a");
	see_store("k1=a k2=a k3=a k4=a k5=a k6=a k7=a k8=a");
	assert_int_equal(atomic_load(&shm_store_slot(ref)->base_version),
	    base_version());
	/* What holds the old view goes on. */
	reading_rows(&old, &seen);
	reading_end(&old);
	assert_int_equal(seen.count, 8);
	/* A row that is folded now replaces the one that moved. */
	fragment_with(&o, "k3", "b");
	see_base("k1=a k2=a k4=a k5=a k6=a k7=a k8=a k3=b");
	forget_all();
	see_store("k1=a k2=a k3=b k4=a k5=a k6=a k7=a k8=a");
	own_end(&o);
}

static uint64_t
bytes_of_newest(void)
{
	struct arena arena;
	struct table *t;
	uint64_t bytes;

	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	bytes = t->fragments[t->fragment_count - 1].files[0].size_bytes;
	table_free(t);
	arena_free(&arena);
	return bytes;
}

/* Bytes that are written again, for each that is there: a logarithm. */
static void
rows_are_rewritten_a_logarithm_of_times(void **state)
{
	uint32_t i, most = 0, n = 40;
	uint64_t written = 0, last = 0;
	struct compact_result r;

	(void)state;
	for (i = 0; i < n; i++) {
		foreign_many("k", i * 64, 64);
		r = compact_with(&compact_by_itself);
		if (r.passes > 0)
			last = bytes_of_newest();
		written += r.passes > 0 ? last : 0;
		most = MAX(most, fragments());
	}
	see_count(64 * n);
	/* Tiers of 4 to 1, of 64 times the size of a fold; the least has 8. */
	assert_in_range(most, 2, COMPACT_FRAGMENTS + 3 * 3);
	assert_true(written > 0);
	compact_all();
	assert_int_equal(fragments(), 1);
	/* 8 thrice, 32, and 8 for these 40; all of it each time would be
	 * 110. */
	assert_in_range(written * 10 / bytes_of_newest(), 10, 20);
}

static void
masked_rows_go(void **state)
{
	struct compact_wish by_itself = compact_by_itself, rows_only =
	    everything;
	struct owner o = own_claim(0);
	struct compact_result r;
	char key[16];
	uint32_t i;

	(void)state;
	foreign_many("k", 0, 10);
	fragment_with(&o, "k00000", "new");
	assert_int_equal(compact_with(&by_itself).passes, 0);
	rows_only.masked = false;
	rows_only.target_rows = 1;
	assert_int_equal(compact_with(&rows_only).passes, 0);
	fragment_with(&o, "k00001", "new");
	r = compact_with(&by_itself);
	assert_int_equal(r.passes, 1);
	assert_int_equal(r.fragments_removed, 1);
	assert_int_equal(r.files_removed, 2);
	assert_int_equal(r.files_added, 1);
	assert_int_equal(fragments(), 3);
	see_count(10);
	for (i = 0; i < 10; i++) {
		snprintf(key, sizeof(key), "k%05u", i);
		see_text(key, i < 2 ? "new" : "foreign");
	}
}

static void
fragments_are_as_large_as_asked(void **state)
{
	struct compact_wish wish = { .target_rows = 5, .all = true };
	uint32_t i;

	(void)state;
	for (i = 0; i < 6; i++)
		foreign_many("k", 2 * i, 2);
	foreign_many("k", 100, 6);
	assert_int_equal(compact_with(&wish).passes, 3);
	assert_int_equal(fragments(), 4);
	see_count(18);
	assert_int_equal(compact_with(&wish).passes, 0);
}

/* Other engines may append keys twice: they see the same rows afterwards, and
 * what counts for us does not change. */
static void
keys_that_are_there_twice_stay(void **state)
{
	const int64_t sequences[] = { 1000, NO_SEQUENCE, NO_SEQUENCE,
	    NO_SEQUENCE };
	struct builder b;

	(void)state;
	rows_begin(&b);
	add_row(&b, "k1", "ours", 1);
	add_row(&b, "k1", "none", 9);
	add_row(&b, "k2", "late", 1);
	add_row(&b, "k2", "later", 1);
	sequences_are(&b, sequences);
	foreign_rows(&b);
	rows_begin(&b);
	add_row(&b, "k2", "greater", 2);
	add_row(&b, "k3", "only", 1);
	sequences_are(&b, NULL);
	foreign_rows(&b);
	see_store("k1=ours k2=greater k3=only");
	compact_all();
	assert_int_equal(fragments(), 1);
	see_base("k1=none k1=ours k2=late k2=later k2=greater k3=only");
	see_store("k1=ours k2=greater k3=only");
}

/* ---- death */

static int
compact_it(void *arg)
{
	uint64_t token = shm_store_guard_try(ref, UINT64_MAX);
	struct compact_result r;
	struct err e;

	(void)arg;
	if (token == 0)
		return 2;
	e = compact_store(&aged, &everything, &r);
	shm_store_guard_release(ref, token);
	return e.kind == ERR_CONFLICT ? 3 : err_is(e);
}

static void
killed_anywhere(void **state)
{
	static const char *const points[] = { "compact_prepare", "fold_index",
	    "table_commit", "table_committed", "compact_publish" };
	struct owner o = own_claim(0);
	char fault[48];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(points); i++) {
		fragment_with(&o, "k1", "a");
		fragment_with(&o, "k2", "b");
		fragment_with(&o, "k1", "c");
		snprintf(fault, sizeof(fault), "%s=die:1", points[i]);
		die_in(SHM_MAINTAINER, fault, compact_it, NULL);
		see_store(i == 0 ? "k1=c k2=b" : "k1=c k2=b k3=d");
		fragment_with(&o, "k3", "d");
		compact_all();
		see_base("k1=c k2=b k3=d");
		see_store("k1=c k2=b k3=d");
		assert_int_equal(fragments(), 1);
	}
	forget_all();
	see_store("k1=c k2=b k3=d");
}

/* ---- others at the same time */

static pid_t
stop_at(const char *fault)
{
	return test_fork_stopped(SHM_MAINTAINER, compact_it, NULL, fault);
}

static void
go_on(pid_t pid, int status)
{
	assert_int_equal(test_go_on(SHM_MAINTAINER, pid), status);
}

/* Without the guard, as another instance would. */
static void
fold_beside(uint32_t ordinal)
{
	struct fold_result r;

	see_ok(fold_shard(&aged, ordinal, &r));
}

static struct compact_result
compact_beside(void)
{
	struct compact_result r;

	see_ok(compact_store(&aged, &everything, &r));
	return r;
}

/* Once while it reads, once when it lost the race for the version. */
static void
deletions_meanwhile_stay(const char *fault)
{
	struct owner a = own_claim(0);
	pid_t pid;

	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "a");
	fragment_with(&a, "k3", "a");
	fragment_with(&a, "k4", "a");
	foreign_many("f", 0, 3);
	generation_with(&a, "k2", "b");
	generation_with(&a, "k5", "b");
	generation_with(&a, "f00001", "b");
	pid = stop_at(fault);
	fold_beside(0);
	go_on(pid, 0);
}

static void
see_after_race(void)
{
	see_store("f00000=foreign f00001=b f00002=foreign k1=a k2=b k3=a k4=a "
	    "k5=b");
	see_count(8);
}

static void
deletions_while_it_reads(void **state)
{
	(void)state;
	deletions_meanwhile_stay("compact_prepare=stop:1");
	see_after_race();
}

static void
deletions_before_its_version(void **state)
{
	(void)state;
	deletions_meanwhile_stay("table_commit=stop:1");
	see_after_race();
	compact_all();
	assert_int_equal(fragments(), 1);
	see_after_race();
}

/* A fold that had found a row where it was finds it where it went. */
static void
a_fold_finds_what_moved(void **state)
{
	static const char *const points[] = { "fold_prepare=stop:1",
	    "fold_commit=stop:1", "table_commit=stop:1" };
	struct owner a = own_claim(0);
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(points); i++) {
		pid_t pid;

		fragment_with(&a, "k1", "a");
		fragment_with(&a, "k2", "a");
		fragment_with(&a, "k3", "a");
		generation_with(&a, "k2", "b");
		pid = test_fork_stopped(SHM_MAINTAINER, fold_first_shard, NULL,
		    points[i]);
		assert_int_equal(compact_beside().fragments_added, 1);
		go_on(pid, 0);
		see_base("k1=a k3=a k2=b");
		see_store("k1=a k2=b k3=a");
	}
}

/* The second finds nothing of what it rewrote, and gives up. */
static void
two_compact_the_same(void **state)
{
	struct owner a = own_claim(0);
	uint64_t version;
	pid_t pid;

	(void)state;
	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "a");
	fragment_with(&a, "k3", "a");
	pid = stop_at("compact_commit=stop:1");
	assert_int_equal(compact_beside().passes, 1);
	version = base_version();
	go_on(pid, 3);
	assert_int_equal(base_version(), version);
	see_base("k1=a k2=a k3=a");
	see_store("k1=a k2=a k3=a");
}

static void
rows_that_are_appended_meanwhile_stay(void **state)
{
	struct owner a = own_claim(0);
	pid_t pid;

	(void)state;
	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "a");
	pid = stop_at("table_commit=stop:1");
	foreign_many("k", 3, 2);
	go_on(pid, 0);
	see_base("k00003=foreign k00004=foreign k1=a k2=a");
	see_store("k00003=foreign k00004=foreign k1=a k2=a");
	/* The later pass of the same run put them together. */
	assert_int_equal(fragments(), 1);
}

/* ---- errors */

static void
errors_leave_nothing(void **state)
{
	static const char *const faults[] = { "compact_write=fail:5:1",
	    "compact_prepare=fail:5:1", "compact_commit=fail:5:1",
	    "fold_index=fail:5:1", "object_write=fail:28:1",
	    "object_sync=fail:5:1", "object_sync=fail:5:1@1",
	    "object_sync=fail:5:1@2", "object_sync=fail:5:1@3",
	    "object_link=fail:5:1", "table_commit=fail:5:1" };
	struct owner a = own_claim(0);
	struct compact_result r;
	uint64_t version;
	uint32_t before;
	size_t i;

	(void)state;
	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "b");
	version = base_version();
	before = descriptors();
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		see_ok(fault_set(faults[i]));
		if (!err_is(compact_store(&aged, &everything, &r)))
			fail_msg("%s was not met", faults[i]);
		assert_int_equal(r.passes, 0);
		assert_int_equal(base_version(), version);
		see_store("k1=a k2=b");
		assert_int_equal(descriptors(), before);
		assert_int_equal(count_in("data", ""), 2);
	}
	compact_all();
	see_base("k1=a k2=b");
}

static void
stores_to_be_left_alone(void **state)
{
	struct owner a = own_claim(0);
	struct compact_result r;
	struct arena errors;
	uint64_t version;

	(void)state;
	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "a");
	arena_init(&errors, 1u << 20);
	see_ok(pin_change(dir, ref, base_version(), &errors, &version));
	see_error(compact_store(&aged, &everything, &r), NOT_FOUND);
	see_ok(pin_change(dir, ref, 0, &errors, &version));
	arena_free(&errors);
	see_ok(shm_store_delete(ref));
	see_error(compact_store(&aged, &everything, &r), NOT_FOUND);
	assert_int_equal(base_version(), version);
}

/* Another instance pins it while it is compacted. */
static void
pinned_meanwhile(void **state)
{
	struct owner a = own_claim(0);
	struct arena errors;
	uint64_t version;
	pid_t pid;

	(void)state;
	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "a");
	arena_init(&errors, 1u << 20);
	pid = stop_at("table_commit=stop:1");
	see_ok(pin_change(dir, ref, base_version(), &errors, &version));
	go_on(pid, 1);
	assert_int_equal(base_version(), version);
	see_ok(pin_change(dir, ref, 0, &errors, &version));
	arena_free(&errors);
	assert_int_equal(fragments(), 2);
}

/* The time that is left bounds what is begun. */
static void
no_time_left(void **state)
{
	struct owner a = own_claim(0);

	(void)state;
	fragment_with(&a, "k1", "a");
	fragment_with(&a, "k2", "a");
	config.maintain_write_rate = 1;
	aged.deadline_ns = clock_mono_ns() + 3600 * NS_PER_SEC;
	assert_int_equal(compact_all().passes, 0);
	config.maintain_write_rate = 32u << 20;
	assert_int_equal(compact_all().passes, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(small_fragments_become_one),
		store_test(rows_are_rewritten_a_logarithm_of_times),
		store_test(masked_rows_go),
		store_test(fragments_are_as_large_as_asked),
		store_test(keys_that_are_there_twice_stay),
		store_test(killed_anywhere),
		store_test(deletions_while_it_reads),
		store_test(deletions_before_its_version),
		store_test(a_fold_finds_what_moved),
		store_test(two_compact_the_same),
		store_test(rows_that_are_appended_meanwhile_stay),
		store_test(errors_leave_nothing),
		store_test(stores_to_be_left_alone),
		store_test(pinned_meanwhile),
		store_test(no_time_left),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
