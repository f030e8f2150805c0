#include "shm_test.h"
#include "shm_insert.h"

#include "common/fault.h"
#include "shm/store_table.h"

static struct shm_store_key
key(const char *name)
{
	return (struct shm_store_key){ STORE_ROLLOUT, slice_of(name) };
}

static struct uuid
store_uuid(const char *name)
{
	return uuid_named(slice_of(name));
}

static struct err
insert(const char *name, struct shm_ref *ref)
{
	struct uuid u = store_uuid(name);

	return insert_store(key(name), &u, ref);
}

static struct shm_ref
must_insert(const char *name)
{
	struct shm_ref ref = { 0 };
	struct err e = insert(name, &ref);

	if (err_is(e))
		fail_msg("%s: %s", name, e.what);
	return ref;
}

static void
assert_err(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

static void
find_what_was_inserted(void **state)
{
	struct shm_store_key generic = { STORE_GENERIC, SLICE("a") };
	struct shm_ref a, b, again;
	struct uuid u = store_uuid("generic a");
	struct shm_store_info info;

	(void)state;
	assert_err(shm_store_find(key("a"), &a), ERR_NOT_FOUND);
	a = must_insert("a");
	assert_err(shm_store_find(generic, &b), ERR_NOT_FOUND);
	assert_err(insert_store(generic, &u, &b), ERR_OK);
	assert_false(shm_ref_eq(a, b));
	assert_err(shm_store_find(key("a"), &again), ERR_OK);
	assert_true(shm_ref_eq(a, again));
	assert_true(shm_ref_eq(must_insert("a"), a));
	assert_true(shm_store_peek(b, &info));
	assert_int_equal(info.kind, STORE_GENERIC);
	assert_string_equal(info.name, "a");
	assert_true(uuid_eq(&info.store, &u));
	assert_int_equal(info.load, SHM_LOAD_ABSENT);
	assert_true(shm_store_table_sound());
	assert_err(shm_store_evict(a), ERR_OK);
	assert_err(shm_store_evict(b), ERR_OK);
	assert_err(shm_store_find(key("a"), &again), ERR_NOT_FOUND);
}

static void
long_names_fit(void **state)
{
	char name[SHM_STORE_NAME_MAX + 1];
	struct shm_store_info info;
	struct shm_ref ref;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ref = must_insert(name);
	assert_true(shm_store_peek(ref, &info));
	assert_string_equal(info.name, name);
	assert_err(shm_store_evict(ref), ERR_OK);
}

/* A slot used anew is another one, for each function that takes a ref. */
static void
old_refs_are_refused(void **state)
{
	struct shm_ref old = must_insert("old"), now;
	struct shm_store_info info;
	uint32_t shard;
	struct uuid u = store_uuid("shard");

	(void)state;
	assert_err(shm_store_evict(old), ERR_OK);
	now = must_insert("new");
	assert_int_equal(now.index, old.index);
	assert_true(now.incarnation != old.incarnation);
	assert_null(shm_store_slot(old));
	assert_err(shm_store_pin(old), ERR_NOT_FOUND);
	assert_err(shm_store_delete(old), ERR_NOT_FOUND);
	assert_err(shm_store_stale(old), ERR_NOT_FOUND);
	assert_err(shm_store_evict(old), ERR_NOT_FOUND);
	assert_err(shm_store_shard_add(old, &u, &shard), ERR_NOT_FOUND);
	assert_false(shm_store_load_begin(old));
	assert_int_equal(shm_store_guard_try(old, 0), 0);
	assert_int_equal(shm_store_seal_try(old, 0, 0), 0);
	assert_int_equal(shm_store_flags(old), SHM_FLAG_DELETED);
	assert_false(shm_store_peek(old, &info));
	assert_false(shm_store_untouch(old));
	shm_store_touch(old);
	assert_false(shm_store_untouch(now));
	assert_int_equal(shm_store_flags(now), 0);
	assert_false(shm_slot_is(shm_slot_at(0), (struct shm_ref){ 0, 0 }));
	assert_err(shm_store_evict(now), ERR_OK);
}

static void
fill_table(struct shm_ref *refs)
{
	char name[16];
	uint32_t i;

	for (i = 0; i < shm_store_slots(); i++) {
		snprintf(name, sizeof(name), "s%u", i);
		refs[i] = must_insert(name);
		/* Slot 5 is the oldest, neither the first nor the last. */
		atomic_store(&shm_slot_at(refs[i].index)->last_used_ns,
		    i == 5 ? 1 : 100 + i);
	}
}

static void
empty_table(void)
{
	struct shm_ref ref;
	uint32_t at = 0;

	while (shm_store_next(&at, &ref)) {
		if (shm_store_slot(ref) == NULL)
			continue;
		shm_store_untouch(ref);
		assert_err(shm_store_evict(ref), ERR_OK);
	}
	assert_true(shm_store_table_sound());
}

static void
full_table_evicts_the_least_used(void **state)
{
	struct shm_ref refs[8], extra;

	(void)state;
	fill_table(refs);
	extra = must_insert("extra");
	assert_int_equal(extra.index, refs[5].index);
	assert_null(shm_store_slot(refs[5]));
	assert_non_null(shm_store_slot(refs[0]));
	assert_err(shm_store_find(key("s5"), &extra), ERR_NOT_FOUND);
	assert_err(shm_store_find(key("s6"), &extra), ERR_OK);
	empty_table();
}

/* Each reason to stay, one a slot; the table is full of them: BUSY. */
static void
needed_slots_stay(void **state)
{
	struct shm_ref refs[8], extra;
	uint64_t guard, seal;
	int i;

	(void)state;
	fill_table(refs);
	assert_err(shm_store_pin(refs[0]), ERR_OK);
	shm_store_touch(refs[1]);
	guard = shm_store_guard_try(refs[2], 0);
	assert_true(guard != 0);
	seal = shm_store_seal_try(refs[3], 1, 0);
	assert_true(seal != 0);
	shm_store_touch(refs[4]);
	assert_true(shm_store_load_begin(refs[5]));
	atomic_store(&shm_slot_serials(shm_slot_at(refs[6].index))[2], 1);
	shm_store_touch(refs[7]);
	assert_err(insert("extra", &extra), ERR_BUSY);
	for (i = 0; i < 8; i++)
		assert_non_null(shm_store_slot(refs[i]));
	assert_err(shm_store_evict(refs[0]), ERR_BUSY);
	assert_err(shm_store_evict(refs[2]), ERR_BUSY);
	assert_err(shm_store_evict(refs[3]), ERR_BUSY);
	assert_err(shm_store_evict(refs[5]), ERR_BUSY);
	assert_err(shm_store_evict(refs[6]), ERR_BUSY);

	shm_store_unpin(refs[0]);
	extra = must_insert("extra");
	assert_int_equal(extra.index, refs[0].index);
	shm_store_guard_release(refs[2], guard);
	shm_store_seal_release(refs[3], 1, seal);
	shm_store_load_failed(refs[5]);
	assert_int_equal(shm_store_load_state(refs[5]), SHM_LOAD_ABSENT);
	atomic_store(&shm_slot_serials(shm_slot_at(refs[6].index))[2], 0);
	empty_table();
}

static void
new_store_of_a_name_replaces_the_old(void **state)
{
	struct shm_ref old = must_insert("name"), now, found;
	struct uuid other = store_uuid("another store");

	(void)state;
	shm_store_touch(old);		/* a deleted tail keeps nobody */
	assert_err(insert_store(key("name"), &other, &now), ERR_OK);
	assert_null(shm_store_slot(old));
	assert_int_equal(shm_store_flags(now), 0);
	assert_false(shm_store_untouch(now));
	assert_err(shm_store_find(key("name"), &found), ERR_OK);
	assert_true(shm_ref_eq(found, now));
	assert_err(shm_store_evict(now), ERR_OK);
}

/* Who is late with what he read of the registry takes nothing from the newer
 * store of that name, in use or not. */
static void
late_opener_takes_nothing(void **state)
{
	struct uuid newer = store_uuid("newer"), older = store_uuid("older");
	struct uuid gone = { 0 };
	struct shm_ref now, late;

	(void)state;
	assert_err(insert_store(key("name"), &newer, &now), ERR_OK);
	assert_err(shm_store_insert(key("name"), &older, &gone, &late),
	    ERR_CONFLICT);
	assert_true(uuid_eq(&gone, &newer));
	assert_non_null(shm_store_slot(now));
	assert_err(shm_store_pin(now), ERR_OK);
	gone = (struct uuid){ 0 };
	assert_err(shm_store_insert(key("name"), &older, &gone, &late),
	    ERR_CONFLICT);
	assert_int_equal(shm_store_flags(now), 0);

	/* Nor is a store opened whose deletion has begun. */
	assert_err(shm_store_delete(now), ERR_OK);
	assert_err(shm_store_insert(key("name"), &newer, &gone, &late),
	    ERR_NOT_FOUND);
	shm_store_unpin(now);
	assert_err(shm_store_evict(now), ERR_OK);
}

/* A slow reader of a deleted store does not keep its name. */
static void
old_store_in_use_stays_beside_the_new(void **state)
{
	struct shm_ref old = must_insert("name"), now, again, third;
	struct uuid other = store_uuid("another store");
	struct uuid next = store_uuid("a third store");

	(void)state;
	assert_err(shm_store_pin(old), ERR_OK);
	assert_err(insert_store(key("name"), &other, &now), ERR_OK);
	assert_false(shm_ref_eq(old, now));
	assert_non_null(shm_store_slot(old));
	assert_int_equal(shm_store_flags(old), SHM_FLAG_DELETED);
	assert_int_equal(shm_store_flags(now), 0);
	assert_err(shm_store_find(key("name"), &again), ERR_OK);
	assert_true(shm_ref_eq(again, now));
	assert_err(insert_store(key("name"), &other, &again), ERR_OK);
	assert_true(shm_ref_eq(again, now));
	assert_true(shm_store_table_sound());

	/* Two of the old in use, and each goes when it may. */
	assert_err(shm_store_pin(now), ERR_OK);
	assert_err(insert_store(key("name"), &next, &third), ERR_OK);
	assert_err(shm_store_evict(old), ERR_BUSY);
	shm_store_unpin(old);
	assert_err(shm_store_evict(old), ERR_OK);
	assert_err(shm_store_find(key("name"), &again), ERR_OK);
	assert_true(shm_ref_eq(again, third));
	shm_store_unpin(now);
	assert_err(insert_store(key("name"), &next, &again), ERR_OK);
	assert_true(shm_ref_eq(again, third));
	assert_null(shm_store_slot(now));
	assert_true(shm_store_table_sound());
	assert_err(shm_store_evict(third), ERR_OK);
	assert_err(shm_store_find(key("name"), &again), ERR_NOT_FOUND);
}

static void
records_come_and_go(void **state)
{
	struct shm_ref a = must_insert("a"), b = must_insert("b"), c;
	uint32_t shard, first, i;
	struct shm_point p = { 1, 8 };
	char name[16];
	struct uuid u, own;

	(void)state;
	assert_err(shm_store_pin(a), ERR_OK);
	for (i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "shard %u", i);
		u = store_uuid(name);
		assert_err(shm_store_shard_add(a, &u, &shard), ERR_OK);
		assert_true(shard >= SHM_SHARD_RECORD);
		if (i == 0)
			first = shard;
		own = shm_store_shard_uuid(a, shard);
		assert_true(uuid_eq(&own, &u));
		shm_shard_raise(shm_store_shard(a, shard), p);
	}
	u = store_uuid("shard 0");
	assert_err(shm_store_shard_add(a, &u, &shard), ERR_OK);
	assert_int_equal(shard, first);
	assert_int_equal(shm_store_shard_find(b, &u), SHM_SHARD_NONE);
	own = store_uuid("host#1");
	assert_int_equal(shm_store_shard_find(a, &own), 1);

	/* Full: b's are taken, since nobody needs b; a is pinned. */
	for (i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "shard %u", i);
		u = store_uuid(name);
		assert_err(shm_store_shard_add(b, &u, &shard), ERR_OK);
	}
	c = must_insert("c");
	assert_err(shm_store_pin(c), ERR_OK);
	assert_err(shm_store_shard_add(c, &u, &shard), ERR_OK);
	assert_null(shm_store_slot(b));
	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "c %u", i);
		u = store_uuid(name);
		assert_err(shm_store_shard_add(c, &u, &shard), ERR_OK);
	}
	u = store_uuid("one more");
	assert_err(shm_store_shard_add(c, &u, &shard), ERR_BUSY);
	shm_store_unpin(a);
	assert_err(shm_store_shard_add(c, &u, &shard), ERR_OK);
	for (i = 5; i < 14; i++) {
		snprintf(name, sizeof(name), "c %u", i);
		u = store_uuid(name);
		assert_err(shm_store_shard_add(c, &u, &shard), ERR_OK);
	}
	u = store_uuid("too many");
	assert_err(shm_store_shard_add(c, &u, &shard), ERR_NO_MEMORY);
	assert_true(shm_store_table_sound());
	shm_store_unpin(c);
	/* The record was another's: nothing of it is left. */
	shard = shm_store_shard_find(c, &u);
	assert_int_equal(shard, SHM_SHARD_NONE);
	for (i = 0; i < 14; i++) {
		snprintf(name, sizeof(name), "c %u", i);
		u = store_uuid(name);
		shard = shm_store_shard_find(c, &u);
		assert_int_equal(shm_shard_commit(shm_store_shard(c,
		    shard)).end, 0);
	}
	empty_table();
}

static void
dirty_mark_and_iteration(void **state)
{
	struct shm_ref a = must_insert("a"), b = must_insert("b"), ref;
	uint32_t at = 0, seen = 0;

	(void)state;
	assert_false(shm_store_untouch(a));
	shm_store_touch(a);
	shm_store_touch(a);
	assert_false(shm_store_untouch(b));
	assert_true(shm_store_untouch(a));
	assert_false(shm_store_untouch(a));
	while (shm_store_next(&at, &ref))
		seen += shm_ref_eq(ref, a) || shm_ref_eq(ref, b);
	assert_int_equal(seen, 2);
	empty_table();
}

struct death {
	const char *fault;
	enum { DO_INSERT, DO_EVICT, DO_ADD, DO_FULL } what;
	bool there;		/* whether "x" is resident afterwards */
};

static int
die_in_it(void *arg)
{
	struct death *d = arg;
	struct shm_ref ref;
	struct uuid u = store_uuid("a shard");
	uint32_t shard;
	struct err e;

	switch (d->what) {
	case DO_INSERT:
		e = insert("x", &ref);
		break;
	case DO_EVICT:
		e = shm_store_find(key("x"), &ref);
		if (!err_is(e))
			e = shm_store_evict(ref);
		break;
	default:
		e = shm_store_find(key("x"), &ref);
		if (!err_is(e))
			e = shm_store_shard_add(ref, &u, &shard);
		break;
	}
	return e.kind;
}

/* A dead holder, at each place where the tables disagree for a moment. */
static void
table_survives_its_holder(void **state)
{
	struct death deaths[] = {
		{ "shm_insert=die:1", DO_INSERT, false },
		{ "shm_inserted=die:1", DO_INSERT, true },
		{ "shm_evict=die:1", DO_EVICT, false },
		{ "shm_record=die:1", DO_ADD, true },
		{ "shm_writing=die:1", DO_ADD, true },
		{ "shm_writing=die:1", DO_EVICT, true },
	};
	struct uuid u = store_uuid("a shard"), v = store_uuid("another");
	struct shm_ref ref, y = must_insert("y");
	uint32_t shard;
	size_t i;
	int status;

	(void)state;
	for (i = 0; i < ARRAY_LEN(deaths); i++) {
		struct death *d = &deaths[i];

		if (d->what != DO_INSERT) {
			ref = must_insert("x");
			assert_err(shm_store_shard_add(ref, &v, &shard),
			    ERR_OK);
		}
		assert_err(fault_set(d->fault), ERR_OK);
		status = test_wait(test_fork(SHM_WORKER(0), die_in_it, d));
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		test_reap(SHM_WORKER(0));

		assert_true(shm_store_table_sound());
		assert_err(shm_store_find(key("y"), &ref), ERR_OK);
		assert_true(shm_ref_eq(ref, y));
		assert_int_equal(shm_store_find(key("x"), &ref).kind ==
		    ERR_OK, d->there);
		ref = must_insert("x");
		assert_err(shm_store_shard_add(ref, &u, &shard), ERR_OK);
		assert_true(shm_store_table_sound());
		assert_err(shm_store_evict(ref), ERR_OK);
		assert_true(shm_store_table_sound());
	}
	empty_table();
}

static int
storm(void *arg)
{
	unsigned seed = (unsigned)shm_life_self() + shm_self();
	char name[16], shard_name[16];
	struct shm_ref ref;
	uint32_t shard;
	struct uuid u;

	(void)arg;
	for (;;) {
		snprintf(name, sizeof(name), "s%d", rand_r(&seed) % 12);
		snprintf(shard_name, sizeof(shard_name), "f%d",
		    rand_r(&seed) % 5);
		u = store_uuid(shard_name);
		if (!err_is(insert(name, &ref)) &&
		    !err_is(shm_store_pin(ref))) {
			struct err e = shm_store_shard_add(ref, &u, &shard);

			if (!err_is(e)) {
				struct uuid v = shm_store_shard_uuid(ref,
				    shard);

				if (!uuid_eq(&u, &v))
					_exit(1);
			} else if (e.kind != ERR_BUSY)
				_exit(2);
			shm_store_unpin(ref);
			/* Busy or gone: the others are at it as well. */
			if (rand_r(&seed) % 4 == 0 &&
			    shm_store_evict(ref).kind == ERR_INTERNAL)
				_exit(3);
		}
		atomic_fetch_add(&shared->counts[shm_self()], 1);
	}
}

static void
table_survives_random_deaths(void **state)
{
	int rounds = getenv("LONG") != NULL ? 2000 : 60, round, status;
	uint64_t seen;
	uint16_t slot;
	int i;

	(void)state;
	reset_shared();
	srand(3);
	for (i = 0; i < 4; i++)
		test_fork(SHM_WORKER(i), storm, NULL);
	for (round = 0; round < rounds; round++) {
		slot = (uint16_t)SHM_WORKER(rand() % 4);
		seen = atomic_load(&shared->counts[slot]);
		while (atomic_load(&shared->counts[slot]) < seen + 10)
			sched_yield();
		kill(atomic_load(&shm_process_get(slot)->pid), SIGKILL);
		status = test_wait(atomic_load(&shm_process_get(slot)->pid));
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		test_reap(slot);
		assert_true(shm_store_table_sound());
		test_fork(slot, storm, NULL);
	}
	for (i = 0; i < 4; i++) {
		test_kill(SHM_WORKER(i));
		test_reap(SHM_WORKER(i));
	}
	empty_table();
}

static void
slot_fits_in_4_kib(void **state)
{
	(void)state;
	assert_true(shm_slot_size(16) <= 4096);
	assert_int_equal(shm_slot_size(4) % CACHELINE, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find_what_was_inserted),
		cmocka_unit_test(long_names_fit),
		cmocka_unit_test(old_refs_are_refused),
		cmocka_unit_test(full_table_evicts_the_least_used),
		cmocka_unit_test(needed_slots_stay),
		cmocka_unit_test(new_store_of_a_name_replaces_the_old),
		cmocka_unit_test(late_opener_takes_nothing),
		cmocka_unit_test(old_store_in_use_stays_beside_the_new),
		cmocka_unit_test(records_come_and_go),
		cmocka_unit_test(dirty_mark_and_iteration),
		cmocka_unit_test(table_survives_its_holder),
		cmocka_unit_test(table_survives_random_deaths),
		cmocka_unit_test(slot_fits_in_4_kib),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
