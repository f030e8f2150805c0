#include "store_dir.h"

#include "common/clock.h"
#include "common/hash.h"
#include "worker/object/temp.h"

/*
 * Stores that cannot append: entries put whole, what became of a put, and what
 * reads, seals and claims make of many such entries.
 */

#define SPEED 50u		/* of the clock: puts are tried for seconds */
#define MANY 1000u

static int
group(void **state)
{
	clock_set_speed(SPEED);
	return store_group(state);
}

static int
begin(void **state)
{
	int rc;

	object_put_only(root);
	rc = fresh_store(state);
	assert_false(object_can_append(dir));
	return rc;
}

static int
end(void **state)
{
	see_ok(fault_set_all("put_wal=off put_shard=off put_registry=off "
	    "wal_read_back=off"));
	return store_gone(state);
}

/* One commit, as the writer does it; the position it went to. */
static struct err
put_row(struct owner *o, const char *key, const char *text)
{
	struct err e = own_rotate(o, key, text);

	assert_int_equal(o->entry.fd, -1);
	return e;
}

static void
an_entry_says_where_it_ends(void **state)
{
	struct owner o = own_claim(0);
	struct wal_found_end found;
	struct wal_list list;
	const struct wal_span *s;
	char path[WAL_PATH_MAX];
	uint64_t size;
	int fd;

	(void)state;
	assert_true(o.entry.whole);
	see_ok(put_row(&o, "k1", "a"));
	list = wal_of(&o.shard, 0);
	s = wal_list_last(&list);
	assert_int_equal(s->position, o.entry.position);
	assert_true(s->whole);
	assert_true(s->recorded);
	assert_int_equal(s->end, o.entry.end);
	assert_int_equal(s->size_bytes, o.entry.size_bytes);
	assert_int_equal(s->size_bytes, s->end + IPC_END_BYTES);
	see_ok(wal_find_end(dir, &o.shard, s, &found));
	assert_int_equal(found.end, s->end);
	assert_int_equal(found.sequence, o.sequence);
	assert_true(found.any);
	assert_false(found.torn);
	see_store("k1=a");

	/* Cut: what is missing was acknowledged, so this is no torn commit. */
	wal_path(&o.shard, s->position, path);
	fd = openat(object_dir_fd(dir), path, O_WRONLY | O_CLOEXEC);
	size = s->size_bytes;
	assert_int_equal(ftruncate(fd, (off_t)(size - 64)), 0);
	close(fd);
	list = wal_of(&o.shard, 0);
	s = wal_list_last(&list);
	assert_int_equal(s->end, size - IPC_END_BYTES);
	see_ok(wal_find_end(dir, &o.shard, s, &found));
	assert_false(found.any);
	assert_false(found.torn);
	own_end(&o);
}

/* Each of what an object store may do to a put, and one commit after it. */
static void
what_passes_is_stored_once(void **state)
{
	static const char *const faults[] = { "put_wal=drop:1",
	    "put_wal=answer:UNKNOWN:2", "put_wal=late:1",
	    "put_wal=answer:CONFLICT:3", "put_wal=drop:1 wal_read_back=fail:5:1" };
	struct owner o = own_claim(0);
	uint64_t position;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		position = o.entry.position;
		see_ok(fault_set_all(faults[i]));
		see_ok(put_row(&o, "k1", faults[i] + 8));
		assert_int_equal(o.entry.position, position + 1);
		see_text("k1", faults[i] + 8);
		see_ok(put_row(&o, "k2", "x"));
		assert_int_equal(o.entry.position, position + 2);
	}
	own_end(&o);
}

static void
what_is_refused_leaves_its_position(void **state)
{
	struct owner o = own_claim(0);
	uint64_t position = o.entry.position;

	(void)state;
	see_ok(fault_set("put_wal=fail:5"));
	see_error(put_row(&o, "k1", "a"), IO);
	see_ok(fault_set("put_wal=fail:28"));
	see_error(put_row(&o, "k1", "a"), FULL);
	/* For ever: until the deadline. */
	see_ok(fault_set("put_wal=answer:CONFLICT"));
	see_error(put_row(&o, "k1", "a"), UNAVAILABLE);
	see_ok(fault_set("put_wal=answer:UNKNOWN"));
	see_error(put_row(&o, "k1", "a"), UNKNOWN);
	assert_int_equal(wal_of(&o.shard, position).count, 0);
	see_ok(fault_set("put_wal=off"));
	see_ok(put_row(&o, "k1", "b"));
	assert_int_equal(o.entry.position, position + 1);
	see_store("k1=b");
	own_end(&o);
}

static void
an_earlier_commit_is_stepped_over(void **state)
{
	struct owner o = own_claim(0);
	uint64_t position = o.entry.position;

	(void)state;
	see_ok(fault_set_all("put_wal=drop wal_read_back=fail:5"));
	see_error(put_row(&o, "k1", "a"), UNKNOWN);
	see_ok(fault_set_all("put_wal=off wal_read_back=off"));
	/* It was not acknowledged: nobody reads it before the next one is. */
	assert_int_equal(shm_shard_commit(o.state).position, 0);
	see_ok(put_row(&o, "k2", "b"));
	assert_int_equal(o.entry.position, position + 2);
	see_store("k1=a k2=b");
	own_end(&o);
}

static void
anothers_entry_fences(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);

	(void)state;
	see_ok(put_row(&a, "k1", "a"));
	see_ok(own_take(&b));
	see_error(put_row(&a, "k2", "a"), FENCED);
	/* Also where its answer would have been lost. */
	see_ok(fault_set("put_wal=answer:UNKNOWN:1"));
	see_error(put_row(&a, "k2", "a"), FENCED);
	own_announce(&b);
	see_ok(put_row(&b, "k1", "b"));
	see_store("k1=b");
	own_end(&a);
	own_end(&b);
}

/* A claim records no end of what records its own. */
static void
claims_close_nothing(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	struct wal_list list;

	(void)state;
	see_ok(put_row(&a, "k1", "a"));
	see_ok(own_take(&b));
	assert_int_equal(b.claim.tail.position, a.entry.position);
	assert_int_equal(b.claim.tail.end, a.entry.end);
	list = wal_of(&a.shard, 0);
	assert_int_equal(wal_list_last(&list)->closes.position, 0);
	own_announce(&b);
	/* Not closed by anybody, and yet it may be sealed. */
	assert_int_equal(seal_now(0).rows, 1);
	see_ok(put_row(&b, "k2", "b"));
	assert_int_equal(seal_now(0).rows, 1);
	see_store("k1=a k2=b");
	forget_all();
	see_store("k1=a k2=b");
	own_end(&a);
	own_end(&b);
}

/* The same directory, before and after it was told to do as a bucket does. */
static void
both_kinds_of_entries_follow_each_other(void **state)
{
	struct owner a, b = owner_of(0), c = owner_of(0);

	(void)state;
	dir->appends = true;
	a = own_claim(0);
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_put(&a, "k2", "a"));
	dir->appends = false;
	see_ok(own_take(&b));
	own_announce(&b);
	see_ok(put_row(&b, "k2", "b"));
	see_ok(put_row(&b, "k3", "b"));
	dir->appends = true;
	see_ok(own_take(&c));
	own_announce(&c);
	see_ok(own_put(&c, "k3", "c"));
	see_store("k1=a k2=b k3=c");
	own_close(&c);
	assert_int_equal(seal_now(0).rows, 5);
	see_store("k1=a k2=b k3=c");
	forget_all();
	see_store("k1=a k2=b k3=c");
	own_end(&a);
	own_end(&b);
	own_end(&c);
}

/* Neither a descriptor nor a run of each is kept. */
static void
many_commits_make_one_tail(void **state)
{
	struct owner o = own_claim(0);
	uint32_t before = descriptors(), i, half = MANY / 2;
	struct reading r;
	struct seen seen;
	char key[32];

	(void)state;
	for (i = 0; i < MANY; i++) {
		if (i == half)
			assert_int_equal(seal_now(0).rows, half);
		snprintf(key, sizeof(key), "k%03u", i % 100);
		see_ok(put_row(&o, key, i < half ? "old" : "new"));
	}
	reading_begin(&r);
	assert_true(descriptors() < before + 16);
	assert_true(r.sorted[0].run_count < 8);
	reading_rows(&r, &seen);
	assert_int_equal(seen.count, 100);
	for (i = 0; i < seen.count; i++)
		assert_string_equal(seen.rows[i].text, "new");
	reading_end(&r);
	assert_int_equal(seal_now(0).rows, MANY - half);
	read_store(&seen);
	assert_int_equal(seen.count, 100);
	assert_int_equal(descriptors(), before);
	own_end(&o);
}

/* A seal in the midst of entries that are kept as one. */
static void
a_part_of_a_tail_is_sealed(void **state)
{
	struct owner o = own_claim(0);
	struct tail_row found;
	struct tail_sorted sorted;
	struct tail *t;
	uint64_t after;

	(void)state;
	see_ok(put_row(&o, "k1", "a"));
	see_ok(put_row(&o, "k2", "a"));
	after = o.entry.position;
	see_ok(put_row(&o, "k3", "a"));
	see_ok(tail_new(shape_of(), &o.shard, &t));
	see_ok(tail_follow(t, dir, 0, shm_shard_commit(o.state)));
	assert_int_equal(tail_rows(t), 3);
	assert_true(tail_find(t, SLICE("k2"), hash_bytes("k2", 2), 0, &found));
	tail_trim(t, after);
	assert_false(tail_find(t, SLICE("k2"), hash_bytes("k2", 2), after,
	    &found));
	assert_true(tail_find(t, SLICE("k3"), hash_bytes("k3", 2), after,
	    &found));
	see_ok(tail_sort(t, after, &sorted));
	assert_int_equal(sorted.after, after);
	tail_sorted_free(&sorted);
	see_ok(put_row(&o, "k4", "a"));
	see_ok(tail_follow(t, dir, after, shm_shard_commit(o.state)));
	assert_int_equal(tail_rows(t), 4);
	tail_trim(t, o.entry.position);
	assert_int_equal(tail_rows(t), 0);
	tail_free(t);
	own_end(&o);
}

static void
an_unknown_registration_is_read_back(void **state)
{
	static const char *const faults[] = { "drop:1", "late:1",
	    "answer:UNKNOWN:2", "answer:CONFLICT:2" };
	struct registry_entry e = { .created_ms = 1 }, got;
	char spec[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		e.store = uuid_random();
		snprintf(e.name, sizeof(e.name), "name%zu", i);
		snprintf(spec, sizeof(spec), "put_registry=%s", faults[i]);
		see_ok(fault_set(spec));
		see_ok(registry_add(root, kind, &e));
		see_ok(registry_get(root, kind, e.name, &got));
		assert_true(uuid_eq(&got.store, &e.store));
		see_error(registry_add(root, kind, &e), EXISTS);
		/* Another's, though the answer says nothing. */
		snprintf(spec, sizeof(spec), "put_registry=answer:UNKNOWN:1");
		see_ok(fault_set(spec));
		e.store = uuid_random();
		see_error(registry_add(root, kind, &e), EXISTS);
	}
}

/* The manifest that names a generation is stored after it was looked for. */
static void
a_seal_that_lands_late_stands(void **state)
{
	static const char *const faults[] = { "put_shard=drop:1",
	    "put_shard=late:1", "put_shard=answer:UNKNOWN:1",
	    "put_shard=answer:CONFLICT:2" };
	struct owner o = own_claim(0);
	uint32_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		see_ok(put_row(&o, "k1", "a"));
		see_ok(fault_set(faults[i]));
		assert_int_equal(seal_now(0).generations, 1);
		assert_int_equal(manifest_of(&o.shard).generation_count,
		    i + 1);
		see_store("k1=a");
	}
	own_end(&o);
}

/* Given up, and then nothing else came of it either: it may still land. */
static void
a_seal_that_may_land_leaves_its_generation(void **state)
{
	struct owner o = own_claim(0);
	struct seal_result r;

	(void)state;
	see_ok(put_row(&o, "k1", "a"));
	see_ok(fault_set_all("put_shard=late:1 shard_commit=fail:5:1@1"));
	see_error(seal_shard(&aged, 0, &r), UNKNOWN);
	assert_int_equal(shard_has(&o.shard, "", "_gen_"), 1);
	/* With the next put of a manifest it does; it stands, not the next. */
	see_error(seal_shard(&aged, 0, &r), CONFLICT);
	assert_int_equal(manifest_of(&o.shard).generation_count, 1);
	assert_int_equal(shard_has(&o.shard, "", "_gen_"), 1);
	see_store("k1=a");
	own_end(&o);
}

#define put_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		put_test(an_entry_says_where_it_ends),
		put_test(what_passes_is_stored_once),
		put_test(what_is_refused_leaves_its_position),
		put_test(an_earlier_commit_is_stepped_over),
		put_test(anothers_entry_fences),
		put_test(claims_close_nothing),
		put_test(both_kinds_of_entries_follow_each_other),
		put_test(many_commits_make_one_tail),
		put_test(a_part_of_a_tail_is_sealed),
		put_test(an_unknown_registration_is_read_back),
		put_test(a_seal_that_lands_late_stands),
		put_test(a_seal_that_may_land_leaves_its_generation),
	};

	return cmocka_run_group_tests(tests, group, store_group_end);
}
