#include "store_dir.h"

#include <sys/stat.h>

#include "worker/lance/own.h"
#include "worker/lance/table_names.h"
#include "worker/maintain/collect_parts.h"
#include "worker/maintain/merged_file.h"
#include "worker/store/pin.h"

/* ---- what is there */

static bool
has_entry(const struct owner *o, uint64_t position)
{
	return !err_is(wal_exists(dir, &o->shard, position));
}

static uint64_t
entry_blocks(const struct owner *o, uint64_t position)
{
	int fd = open_wal(&o->shard, position);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return (uint64_t)st.st_blocks;
}

/* What a store at rest has, however it came there. */
struct rest {
	uint32_t versions, aside, data, deletions, indices, transactions;
	uint32_t manifests, generations;
};

static struct rest
rest_of(const struct owner *o)
{
	return (struct rest){
		.versions = count_in("_versions", ".manifest"),
		.aside = count_in("_collect", ".manifest"),
		.data = count_in("data", ""),
		.deletions = count_in("_deletions", ""),
		.indices = count_in("_indices", ""),
		.transactions = count_in("_transactions", ""),
		.manifests = shard_has(&o->shard, "/manifest", ".binpb"),
		.generations = shard_has(&o->shard, "", "_gen_"),
	};
}

static void
see_rest(const struct owner *o, struct rest want)
{
	struct rest is = rest_of(o);

	assert_int_equal(is.versions, want.versions);
	assert_int_equal(is.aside, want.aside);
	assert_int_equal(is.data, want.data);
	assert_int_equal(is.deletions, want.deletions);
	assert_int_equal(is.indices, want.indices);
	assert_int_equal(is.transactions, want.transactions);
	assert_int_equal(is.manifests, want.manifests);
	assert_int_equal(is.generations, want.generations);
}

/* One fragment, one segment of its keys. */
static const struct rest AT_REST = { .versions = 1, .data = 1, .indices = 1,
    .transactions = 1, .manifests = 1 };

/* ---- what is done */

static struct err
try_collect(uint64_t *again_ns)
{
	uint64_t token = shm_store_guard_try(ref, UINT64_MAX);
	struct err e;

	assert_true(token != 0);
	e = collect_store(&aged, again_ns);
	shm_store_guard_release(ref, token);
	return e;
}

static uint64_t
collect_now(void)
{
	uint64_t again_ns;

	see_ok(try_collect(&again_ns));
	return again_ns;
}

static bool
is_clean(void)
{
	struct slot_words { uint64_t collected, serial; } w = {
		atomic_load(&shm_store_slot(ref)->collected_serial),
		atomic_load(&shm_store_slot(ref)->serial) };

	return w.collected == w.serial;
}

/* As if that much time had passed since what is known. */
static void
pass(uint64_t ns)
{
	struct collect_mark *m = collect_mark_get(ref);
	uint32_t i;

	assert_non_null(m);
	m->since_ns -= ns;
	for (i = 0; i < m->unnamed_count; i++)
		m->unnamed[i].since_ns -= ns;
}

static int
fresh(void **state)
{
	int r = fresh_store(state);

	config.grace_secs = 0;
	own_set(0x7e57u);
	return r;
}

#define collect_test(f) \
	cmocka_unit_test_setup_teardown(f, fresh, store_gone)

/* Rows a to d, each sealed and folded by itself; all of one key but d. */
static struct owner
folded(void)
{
	struct owner o = own_claim(0);

	generation_with(&o, "a", "1");
	fold_now(0);
	generation_with(&o, "a", "2");
	fold_now(0);
	generation_with(&o, "a", "3");
	generation_with(&o, "d", "4");
	fold_now(0);
	return o;
}

static void
put_file(const char *name)
{
	see_ok(object_put_new(dir, name, SLICE("x")));
}

static void
put_aged(const char *name)
{
	put_file(name);
}

/* ---- tests */

static void
what_is_folded_goes(void **state)
{
	struct owner o = folded();

	(void)state;
	assert_true(rest_of(&o).versions > 3);
	assert_int_equal(rest_of(&o).generations, 4);
	assert_int_equal(collect_now(), 0);
	assert_true(is_clean());
	see_rest(&o, AT_REST);
	see_store("a=3 d=4");
	forget_all();
	see_store("a=3 d=4");
	own_end(&o);
}

/* A clean store is not looked at again until its view changes. */
static void
a_clean_store_costs_nothing(void **state)
{
	struct owner o = folded();

	(void)state;
	collect_now();
	assert_true(is_clean());
	assert_null(collect_mark_get(ref));
	put_file("data/00007e57-x.lance");
	assert_int_equal(collect_now(), 0);
	assert_null(collect_mark_get(ref));
	generation_with(&o, "e", "5");
	assert_false(is_clean());
	assert_true(collect_now() != 0);
	own_end(&o);
}

/* Positions 1: sentinel, 2: the claim's first entry, then one a row. */
static void
entries_go_by_the_rules(void **state)
{
	struct owner o = own_claim(0), p;

	(void)state;
	see_ok(own_put(&o, "a", "1"));		/* 2 */
	see_ok(own_rotate(&o, "b", "2"));	/* 3 */
	see_ok(own_rotate(&o, "c", "3"));	/* 4 */
	p = own_claim(0);			/* 5, 6 */
	see_ok(own_put(&p, "d", "4"));		/* 6 */
	see_ok(own_rotate(&p, "e", "5"));	/* 7 */
	see_ok(own_rotate(&p, "f", "6"));	/* 8, not sealed */
	assert_true(seal_now(0).rows >= 5);
	assert_int_equal(manifest_of(&p.shard).replay_after, 7);
	collect_now();
	assert_true(has_entry(&o, 1));		/* a sentinel */
	assert_false(has_entry(&o, 2));
	assert_false(has_entry(&o, 3));
	assert_true(has_entry(&o, 4));		/* below a sentinel */
	assert_true(has_entry(&o, 5));
	assert_false(has_entry(&o, 6));
	assert_false(has_entry(&o, 7));
	assert_true(has_entry(&o, 8));
	/* Punched, unless the file system cannot. */
	assert_true(entry_blocks(&o, 4) <= entry_blocks(&o, 8));
	see_store("a=1 b=2 c=3 d=4 e=5 f=6");
	own_close(&p);
	assert_int_equal(seal_now(0).generations, 1);
	collect_now();
	assert_true(has_entry(&o, 8));		/* the last one */
	forget_all();
	o = own_claim(0);			/* goes on behind it */
	assert_int_equal(o.entry.position, 10);
	see_ok(own_put(&o, "g", "7"));
	see_store("a=1 b=2 c=3 d=4 e=5 f=6 g=7");
	own_end(&o);
	own_end(&p);
}

static void
entries_put_whole_go_by_the_rules(void **state)
{
	struct owner o = own_claim(0);
	uint64_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		see_ok(own_rotate(&o, "a", "1"));
	own_close(&o);
	seal_now(0);
	collect_now();
	for (i = 2; i < 6; i++)
		assert_false(has_entry(&o, i));
	assert_true(has_entry(&o, 6));
	own_end(&o);
}

/* Of a view that is still read nothing goes, whatever came since. */
static void
a_reader_keeps_its_view(void **state)
{
	struct owner o = own_claim(0);
	struct reading r;
	struct seen seen;

	(void)state;
	generation_with(&o, "a", "1");
	see_ok(own_rotate(&o, "b", "2"));
	reading_begin(&r);
	own_close(&o);
	seal_now(0);
	fold_now(0);
	assert_true(collect_now() != 0);
	assert_false(is_clean());
	assert_int_equal(rest_of(&o).generations, 2);
	reading_rows(&r, &seen);
	assert_string_equal(text_in(&seen, "a"), "1");
	assert_string_equal(text_in(&seen, "b"), "2");
	reading_end(&r);
	collect_now();
	see_rest(&o, AT_REST);
	own_end(&o);
}

/* What was garbage before a reader came goes while he reads. */
static void
a_later_reader_holds_nothing_up(void **state)
{
	struct owner o = folded();
	struct reading r;

	(void)state;
	config.grace_secs = 3600;
	collect_now();				/* makes the mark */
	reading_begin(&r);
	generation_with(&o, "e", "5");
	fold_now(0);
	config.grace_secs = 0;
	collect_now();
	assert_int_equal(rest_of(&o).generations, 1);
	reading_end(&r);
	collect_now();
	see_rest(&o, (struct rest){ .versions = 1, .data = 2, .indices = 2,
	    .transactions = 1, .manifests = 1 });
	own_end(&o);
}

/* Both the mark and each file must be as old as that. */
static void
grace_is_waited_for(void **state)
{
	struct owner o = folded();
	struct rest before = rest_of(&o);
	uint64_t again_ns;

	(void)state;
	config.grace_secs = 3600;
	again_ns = collect_now();
	assert_true(again_ns > clock_mono_ns());
	see_rest(&o, before);
	pass(2 * 3600 * NS_PER_SEC);		/* the files are young */
	assert_true(collect_now() > clock_mono_ns());
	assert_false(is_clean());
	see_rest(&o, before);
	own_end(&o);
}

/* A restart forgets the marks, and begins to wait anew. */
static void
a_restart_deletes_nothing_early(void **state)
{
	struct owner o = folded();
	struct rest before = rest_of(&o);

	(void)state;
	config.grace_secs = 3600;
	collect_now();
	pass(2 * 3600 * NS_PER_SEC);
	collect_mark_put(ref, NULL);
	collect_now();
	see_rest(&o, before);
	config.grace_secs = 0;
	forget_all();
	collect_now();
	see_rest(&o, AT_REST);
	see_store("a=3 d=4");
	own_end(&o);
}

static void
put_tag(const char *name, uint64_t version)
{
	char path[128], text[128];

	snprintf(path, sizeof(path), "_refs/tags/%s.json", name);
	snprintf(text, sizeof(text), "{\"branch\":null,\"version\":%llu,"
	    "\"manifestSize\":1}", (unsigned long long)version);
	see_ok(object_put_new(dir, path, slice_of(text)));
}

static uint64_t
newest_version(void)
{
	uint64_t v;

	see_ok(table_newest(dir, &v));
	return v;
}

static struct err
look_there(const char *name, void *ctx)
{
	(void)ctx;
	return object_exists(dir, name);
}

/* The version and every file that it names. */
static void
see_version(uint64_t version)
{
	struct arena arena;
	struct table *t;

	arena_init(&arena, 16u << 20);
	see_ok(table_load_version(dir, version, &arena, &t));
	see_ok(table_names(t, look_there, NULL));
	table_free(t);
	arena_free(&arena);
}

static void
what_is_tagged_stays(void **state)
{
	struct owner o = own_claim(0);
	uint64_t version;

	(void)state;
	generation_with(&o, "a", "1");
	fold_now(0);
	generation_with(&o, "b", "2");
	fold_now(0);
	version = newest_version();
	put_tag("t", version);
	put_tag("u", 1);			/* a table without rows */
	generation_with(&o, "a", "3");
	fold_now(0);
	generation_with(&o, "b", "4");
	fold_now(0);
	collect_now();
	assert_int_equal(count_in("_versions", ".manifest"), 3);
	see_version(version);
	see_version(1);
	see_version(newest_version());
	see_store("a=3 b=4");
	own_end(&o);
}

static void
a_tag_that_cannot_be_read_may_name_any_version(void **state)
{
	struct owner o = folded();
	uint32_t versions = count_in("_versions", ".manifest");
	uint64_t again_ns;

	(void)state;
	see_ok(object_put_new(dir, "_refs/tags/t.json", SLICE("{\"version\"")));
	assert_true(err_is(try_collect(&again_ns)));
	assert_true(again_ns != 0);
	assert_int_equal(count_in("_versions", ".manifest"), versions);
	own_end(&o);
}

static void
a_table_with_branches_is_left_alone(void **state)
{
	struct owner o = folded();
	uint32_t versions = count_in("_versions", ".manifest");

	(void)state;
	put_file("_refs/branches/b.json");
	collect_now();
	assert_int_equal(count_in("_versions", ".manifest"), versions);
	assert_int_equal(rest_of(&o).generations, 0);
	own_end(&o);
}

static void
change_pin(uint64_t version)
{
	struct arena arena;
	uint64_t base;

	arena_init(&arena, 16u << 20);
	see_ok(pin_change(dir, ref, version, &arena, &base));
	arena_free(&arena);
}

static void
a_pinned_store_is_left_alone(void **state)
{
	struct owner o = folded();
	uint64_t version = newest_version() - 1, again_ns;
	struct rest before;

	(void)state;
	change_pin(version);
	before = rest_of(&o);
	see_error(try_collect(&again_ns), NOT_FOUND);
	see_rest(&o, before);
	see_version(version);
	change_pin(0);
	collect_now();				/* its mark was of the pin */
	collect_now();
	assert_int_equal(count_in("_versions", ".manifest"), 1);
	see_store("a=3 d=4");
	own_end(&o);
}

/* A run moved them aside and died; then a tag named one of them. */
static void
what_is_named_again_comes_back(void **state)
{
	struct owner o = folded();
	uint64_t version = newest_version() - 1;
	char manifest[TABLE_NAME_MAX], aside[TABLE_NAME_MAX];
	uint64_t v;

	(void)state;
	for (v = version - 1; v <= version; v++) {
		table_manifest_name(v, manifest);
		snprintf(aside, sizeof(aside), "_collect/%s",
		    strchr(manifest, '/') + 1);
		see_ok(object_rename(dir, manifest, dir, aside));
	}
	put_tag("t", version);
	collect_now();
	assert_int_equal(count_in("_versions", ".manifest"), 2);
	assert_int_equal(count_in("_collect", ".manifest"), 0);
	see_version(version);
	own_end(&o);
}

/* What a fold that died left, and nothing of another instance or engine. */
static void
own_files_that_nobody_names_go(void **state)
{
	static const char *const ours[] = { "data/00007e57-f.lance",
	    "_transactions/3-00007e57-1111-4111-8111-111111111111.txn",
	    "_indices/00007e57-1111-4111-8111-111111111111/page_data.lance",
	    "_deletions/0-3-138916085760000.bin" };
	static const char *const others[] = { "data/00007e58-f.lance",
	    "data/0123.lance", "_indices/10007e57-1111-4111-8111-111111111111/x",
	    "_transactions/3-10007e57-1111-4111-8111-111111111111.txn",
	    "_deletions/0-3-7.bin" };
	struct owner o = folded();
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(ours); i++)
		put_aged(ours[i]);
	for (i = 0; i < ARRAY_LEN(others); i++)
		put_aged(others[i]);
	assert_true(collect_now() != 0);
	assert_false(is_clean());
	pass(COLLECT_ABANDONED_NS / 2);
	assert_true(collect_now() != 0);
	for (i = 0; i < ARRAY_LEN(ours); i++)
		see_ok(object_exists(dir, ours[i]));
	pass(COLLECT_ABANDONED_NS / 2);
	assert_int_equal(collect_now(), 0);
	for (i = 0; i < ARRAY_LEN(ours); i++)
		see_error(object_exists(dir, ours[i]), NOT_FOUND);
	for (i = 0; i < ARRAY_LEN(others); i++)
		see_ok(object_exists(dir, others[i]));
	see_store("a=3 d=4");
	/* A maintainer that is started anew sees it, though no view changed. */
	assert_false(collect_look(dir, ref));
	put_aged(ours[0]);
	assert_true(collect_look(dir, ref));
	collect_now();
	pass(COLLECT_ABANDONED_NS);
	collect_now();
	see_error(object_exists(dir, ours[0]), NOT_FOUND);
	own_end(&o);
}

/* A seal that died leaves a directory; one that is under way owns one. */
static void
a_directory_of_a_seal_goes(void **state)
{
	struct owner o = folded();
	struct uuid shard = o.shard;
	char path[SHARD_NAME_MAX], name[SHARD_NAME_MAX + 32];
	uint64_t token;

	(void)state;
	shard_directory_name(&shard, path);
	snprintf(name, sizeof(name), "%s/0badcafe_gen_9/data/x", path);
	put_aged(name);
	collect_now();
	pass(COLLECT_ABANDONED_NS);
	token = shm_store_seal_try(ref, 0, UINT64_MAX);
	assert_true(token != 0);
	collect_now();
	see_ok(object_exists(dir, name));
	shm_store_seal_release(ref, 0, token);
	assert_false(is_clean());
	collect_now();
	see_error(object_exists(dir, name), NOT_FOUND);
	assert_true(is_clean());
	own_end(&o);
}

/* Deleted between two steps: nothing more is touched. */
static void
a_deleted_store_is_left_alone(void **state)
{
	struct owner o = folded();
	struct rest before = rest_of(&o);
	uint64_t again_ns;

	(void)state;
	see_ok(shm_store_delete(ref));
	see_error(try_collect(&again_ns), NOT_FOUND);
	see_rest(&o, before);
	own_end(&o);
}

static void
time_runs_out(void **state)
{
	struct owner o = folded();
	uint64_t again_ns;

	(void)state;
	aged.deadline_ns = 1;
	see_error(try_collect(&again_ns), TIMED_OUT);
	assert_true(again_ns != 0);
	aged.deadline_ns = UINT64_MAX;
	collect_now();
	see_rest(&o, AT_REST);
	own_end(&o);
}

/* The hint names the newest before older versions go, whatever it said. */
static void
hints_name_the_newest(void **state)
{
	struct owner o = folded();
	char path[SHARD_NAME_MAX + 32], want[64];
	struct arena arena;
	struct slice text;

	(void)state;
	arena_init(&arena, 1u << 20);
	see_ok(object_put_hint(dir, "_versions/latest_version_hint.json",
	    SLICE("{\"version\":1}")));
	shard_directory_name(&o.shard, path);
	strcat(path, "/manifest/version_hint.json");
	see_ok(object_delete(dir, path));
	collect_now();
	see_ok(object_get(dir, path, 100, &arena, &text));
	snprintf(want, sizeof(want), "{\"version\":%llu}",
	    (unsigned long long)manifest_of(&o.shard).version);
	assert_true(slice_eq(text, slice_of(want)));
	see_ok(object_get(dir, "_versions/latest_version_hint.json", 100,
	    &arena, &text));
	snprintf(want, sizeof(want), "{\"version\":%llu}",
	    (unsigned long long)newest_version());
	assert_true(slice_eq(text, slice_of(want)));
	arena_free(&arena);
	own_end(&o);
}

/* Half of the time after which collection could take its file. */
static void
a_fold_that_waited_too_long_starts_again(void **state)
{
	struct merged_file f = { .fragment.row_count = 1 };

	(void)state;
	config.grace_secs = 600;
	f.finished_ns = clock_mono_ns() - 250 * NS_PER_SEC;
	see_ok(merged_file_check(&aged, &f));
	f.finished_ns = clock_mono_ns() - 301 * NS_PER_SEC;
	see_error(merged_file_check(&aged, &f), CONFLICT);
	config.grace_secs = 1;			/* abandoned after 60 s */
	f.finished_ns = clock_mono_ns() - 20 * NS_PER_SEC;
	see_ok(merged_file_check(&aged, &f));
	f.finished_ns = clock_mono_ns() - 31 * NS_PER_SEC;
	see_error(merged_file_check(&aged, &f), CONFLICT);
	f.fragment.row_count = 0;		/* there is none */
	see_ok(merged_file_check(&aged, &f));
}

static int
collect_it(void *arg)
{
	uint64_t again_ns, token = shm_store_guard_try(ref, UINT64_MAX);

	(void)arg;
	return token == 0 || err_is(collect_store(&aged, &again_ns));
}

static bool
dies_at(const char *point, int pass_number)
{
	char fault[64];
	int status;
	pid_t pid;

	snprintf(fault, sizeof(fault), "%s=die:1@%d", point, pass_number);
	see_ok(fault_set(fault));
	pid = test_fork(SHM_MAINTAINER, collect_it, NULL);
	status = test_wait(pid);
	snprintf(fault, sizeof(fault), "%s=off", point);
	see_ok(fault_set(fault));
	test_reap(SHM_MAINTAINER);
	if (!WIFSIGNALED(status))
		assert_int_equal(status, 0);
	return WIFSIGNALED(status);
}

/* Killed at each step, again and again: what is there is served, and the next
 * run goes on. */
static void
a_death_at_any_step_is_gone_on_from(void **state)
{
	static const char *const points[] = { "collect_generation",
	    "collect_wal", "collect_manifest", "collect_version",
	    "collect_aside", "collect_file", "collect_forget" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(points); i++) {
		struct owner o = folded();
		struct rest want = rest_of(&o);
		int deaths = 0;

		/* From the second on each run does one step before it. */
		while (deaths < 4 && dies_at(points[i], MIN(deaths, 1))) {
			deaths++;
			see_store("a=3 d=4");
		}
		assert_true(deaths > 0);
		see_store("a=3 d=4");
		collect_now();
		want = AT_REST;
		want.data = rest_of(&o).data;
		want.deletions = rest_of(&o).deletions;
		want.indices = rest_of(&o).indices;
		see_rest(&o, want);
		see_version(newest_version());
		own_end(&o);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		collect_test(what_is_folded_goes),
		collect_test(a_clean_store_costs_nothing),
		collect_test(entries_go_by_the_rules),
		collect_test(entries_put_whole_go_by_the_rules),
		collect_test(a_reader_keeps_its_view),
		collect_test(a_later_reader_holds_nothing_up),
		collect_test(grace_is_waited_for),
		collect_test(a_restart_deletes_nothing_early),
		collect_test(what_is_tagged_stays),
		collect_test(a_tag_that_cannot_be_read_may_name_any_version),
		collect_test(a_table_with_branches_is_left_alone),
		collect_test(a_pinned_store_is_left_alone),
		collect_test(what_is_named_again_comes_back),
		collect_test(own_files_that_nobody_names_go),
		collect_test(a_directory_of_a_seal_goes),
		collect_test(a_deleted_store_is_left_alone),
		collect_test(time_runs_out),
		collect_test(hints_name_the_newest),
		collect_test(a_fold_that_waited_too_long_starts_again),
		collect_test(a_death_at_any_step_is_gone_on_from),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
