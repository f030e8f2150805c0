#include "shm_test.h"
#include "shm_insert.h"

#include <pthread.h>

#include "common/fault.h"
#include "shm/view.h"

static struct shm_ref ref;
static struct shm_readers readers;
static struct shm_view_shard room[20];

static void
assert_err(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

static struct shm_view
view_with(uint32_t shard_room)
{
	return (struct shm_view){ .shard_room = shard_room, .shards = room };
}

static struct shm_view_mark
mark(uint32_t shard, uint64_t version, uint64_t replay_after)
{
	return (struct shm_view_mark){ shard, { .version = version,
	    .epoch = 1, .replay_after = replay_after,
	    .pending_bytes = version * 100,
	    .pending_generations = (uint32_t)version } };
}

/* A slot that is loaded, in each test its own. */
static int
fresh(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("store") };
	struct uuid u = uuid_random();
	uint64_t serial;

	(void)state;
	reset_shared();
	shm_readers_init(&readers);
	if (err_is(insert_store(key, &u, &ref)) ||
	    err_is(shm_view_load_begin(ref, &serial)) ||
	    err_is(shm_view_load_end(ref, serial, 1, 0, NULL, 0)))
		return -1;
	return 0;
}

static int
gone(void **state)
{
	(void)state;
	shm_readers_free(&readers);
	return err_is(shm_store_evict(ref)) ? -1 : 0;
}

static void
absent_is_not_read(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("absent") };
	struct uuid u = uuid_random();
	struct shm_view v = view_with(20);
	struct shm_ref absent;
	uint64_t serial;

	(void)state;
	assert_err(insert_store(key, &u, &absent), ERR_OK);
	assert_err(shm_view_take(absent, &readers, &v), ERR_UNAVAILABLE);
	assert_true(shm_store_load_begin(absent));
	assert_false(shm_store_load_begin(absent));
	assert_int_equal(shm_store_load_state(absent), SHM_LOAD_LOADING);
	assert_err(shm_view_take(absent, &readers, &v), ERR_UNAVAILABLE);
	assert_err(shm_view_load_begin(absent, &serial), ERR_OK);
	assert_err(shm_view_load_end(absent, serial, 3, 0, NULL, 0), ERR_OK);
	assert_int_equal(shm_store_load_state(absent), SHM_LOAD_READY);
	assert_err(shm_view_take(absent, &readers, &v), ERR_OK);
	assert_int_equal(v.base_version, 3);
	assert_int_equal(v.shard_count, 0);
	assert_true(uuid_eq(&v.store, &u));
	shm_view_drop(&readers, &v);
	assert_err(shm_store_evict(absent), ERR_OK);
	assert_err(shm_view_take(absent, &readers, &v), ERR_NOT_FOUND);
	assert_err(shm_view_raise(absent, 5, NULL, 0, NULL), ERR_NOT_FOUND);
}

static void
copies_all_that_is_known(void **state)
{
	struct uuid foreign = uuid_named(SLICE("other#3")), own;
	struct shm_view v = view_with(20);
	struct shm_view_mark marks[2];
	uint32_t shard;

	(void)state;
	assert_err(shm_store_shard_add(ref, &foreign, &shard), ERR_OK);
	marks[0] = mark(2, 4, 10);
	marks[1] = mark(shard, 6, 20);
	assert_err(shm_view_raise(ref, 7, marks, 2, NULL), ERR_OK);
	shm_shard_raise(shm_store_shard(ref, 2), (struct shm_point){ 11, 64 });
	shm_shard_raise(shm_store_shard(ref, 0), (struct shm_point){ 1, 8 });
	assert_err(shm_view_raise_base(ref, 8, 6), ERR_OK);

	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.shard_count, 3);
	assert_int_equal(v.base_version, 8);
	assert_int_equal(v.pinned_version, 6);
	assert_int_equal(room[0].shard, 0);
	assert_int_equal(room[0].marks.version, 0);
	assert_int_equal(room[0].commit.end, 8);
	own = uuid_named(SLICE("host"));
	assert_true(uuid_eq(&room[0].uuid, &own));
	assert_int_equal(room[1].shard, 2);
	assert_int_equal(room[1].marks.replay_after, 10);
	assert_int_equal(room[1].marks.pending_generations, 4);
	assert_int_equal(room[1].commit.position, 11);
	assert_int_equal(room[1].claim.slot, SHM_NOBODY);
	own = uuid_named(SLICE("host#2"));
	assert_true(uuid_eq(&room[1].uuid, &own));
	assert_int_equal(room[2].shard, shard);
	assert_int_equal(room[2].marks.version, 6);
	assert_true(uuid_eq(&room[2].uuid, &foreign));
	shm_view_drop(&readers, &v);

	v = view_with(2);
	assert_err(shm_view_take(ref, &readers, &v), ERR_TOO_LARGE);
	assert_int_equal(v.shard_count, 3);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
	assert_err(shm_view_raise_base(ref, 9, 0), ERR_OK);
}

static void
raise_is_a_maximum(void **state)
{
	struct shm_view_mark m = mark(1, 5, 50);
	struct shm_view v = view_with(20);
	uint64_t first, second;

	(void)state;
	assert_err(shm_view_raise(ref, 9, &m, 1, &first), ERR_OK);
	m = mark(1, 4, 99);
	assert_err(shm_view_raise(ref, 8, &m, 1, &second), ERR_OK);
	assert_int_equal(first, second);
	assert_err(shm_view_raise(ref, 0, NULL, 0, &second), ERR_OK);
	assert_int_equal(first, second);
	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.base_version, 9);
	assert_int_equal(room[0].marks.replay_after, 50);
	assert_int_equal(v.serial, first);
	shm_view_drop(&readers, &v);
	m = mark(1, 6, 60);
	assert_err(shm_view_raise(ref, 8, &m, 1, &second), ERR_OK);
	assert_true(second > first);
	/* A load with older marks is a maximum as well. */
	m = mark(1, 5, 50);
	assert_err(shm_view_load_begin(ref, &first), ERR_OK);
	assert_err(shm_view_load_end(ref, first, 2, 0, &m, 1), ERR_OK);
	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.base_version, 9);
	assert_int_equal(room[0].marks.replay_after, 60);
	shm_view_drop(&readers, &v);
}

/* A pin comes and goes with the base version that bears it, never with older
 * news. */
static void
a_pin_belongs_to_its_base(void **state)
{
	struct shm_view v = view_with(20);
	uint64_t serial;

	(void)state;
	assert_err(shm_view_raise_base(ref, 20, 12), ERR_OK);
	assert_err(shm_view_raise_base(ref, 19, 0), ERR_OK);
	assert_err(shm_view_raise(ref, 18, NULL, 0, NULL), ERR_OK);
	assert_err(shm_view_load_begin(ref, &serial), ERR_OK);
	assert_err(shm_view_load_end(ref, serial, 19, 0, NULL, 0), ERR_OK);
	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.base_version, 20);
	assert_int_equal(v.pinned_version, 12);
	serial = v.serial;
	shm_view_drop(&readers, &v);
	assert_err(shm_view_raise_base(ref, 21, 0), ERR_OK);
	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.pinned_version, 0);
	assert_true(v.serial > serial);
	shm_view_drop(&readers, &v);
	assert_err(shm_view_raise_base(ref, 22, 12), ERR_OK);
	/* Who commits one makes it from one without a pin. */
	assert_err(shm_view_raise(ref, 23, NULL, 0, NULL), ERR_OK);
	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.pinned_version, 0);
	shm_view_drop(&readers, &v);
}

static void
oldest_serial_is_kept(void **state)
{
	struct shm_view a = view_with(20), b = view_with(20), c = view_with(20);
	uint64_t serial;

	(void)state;
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
	assert_err(shm_view_take(ref, &readers, &a), ERR_OK);
	assert_err(shm_view_raise(ref, 2, NULL, 0, &serial), ERR_OK);
	assert_true(serial > a.serial);
	assert_err(shm_view_take(ref, &readers, &b), ERR_OK);
	assert_err(shm_view_take(ref, &readers, &c), ERR_OK);
	assert_int_equal(b.serial, serial);
	assert_true(shm_view_oldest(ref) == a.serial);
	shm_view_drop(&readers, &c);
	assert_true(shm_view_oldest(ref) == a.serial);
	shm_view_drop(&readers, &a);
	assert_true(shm_view_oldest(ref) == serial);
	assert_err(shm_store_evict(ref), ERR_BUSY);
	shm_view_drop(&readers, &b);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

/* More serials than the book has lines: held under an older one. */
static void
full_book_holds_longer(void **state)
{
	struct shm_view views[SHM_READERS_SERIALS + 8];
	size_t i, n = ARRAY_LEN(views);

	(void)state;
	for (i = 0; i < n; i++) {
		views[i] = view_with(20);
		assert_err(shm_view_raise(ref, 10 + i, NULL, 0, NULL), ERR_OK);
		assert_err(shm_view_take(ref, &readers, &views[i]), ERR_OK);
		assert_true(views[i].held <= views[i].serial);
	}
	for (i = 0; i < n; i++) {
		assert_true(shm_view_oldest(ref) <= views[i].serial);
		shm_view_drop(&readers, &views[i]);
	}
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

static int
raise_it(void *arg)
{
	struct shm_view_mark m = mark(0, 50, 500);

	(void)arg;
	return shm_view_raise(ref, 50, &m, 1, NULL).kind;
}

/* A writer that dies inside: nothing it wrote is believed, and a load that
 * began before it died is not either. */
static void
dead_writer_leaves_a_stale_slot(void **state)
{
	struct shm_view v = view_with(20);
	uint64_t early, serial;
	int status;

	(void)state;
	assert_err(shm_view_load_begin(ref, &early), ERR_OK);
	assert_err(fault_set("shm_raise=die:1"), ERR_OK);
	status = test_wait(test_fork(SHM_WORKER(0), raise_it, NULL));
	assert_true(WIFSIGNALED(status));
	assert_int_equal(test_reap(SHM_WORKER(0)).writers, 1);
	assert_true((shm_store_flags(ref) & SHM_FLAG_STALE) != 0);
	assert_err(shm_view_take(ref, &readers, &v), ERR_UNAVAILABLE);
	assert_err(shm_view_load_end(ref, early, 1, 0, NULL, 0), ERR_CONFLICT);
	assert_err(shm_view_take(ref, &readers, &v), ERR_UNAVAILABLE);
	assert_true(shm_store_load_begin(ref));
	assert_err(shm_view_load_begin(ref, &serial), ERR_OK);
	assert_err(shm_view_load_end(ref, serial, 2, 0, NULL, 0), ERR_OK);
	assert_err(shm_view_take(ref, &readers, &v), ERR_OK);
	assert_int_equal(v.base_version, 2);
	assert_int_equal(v.shard_count, 0);
	shm_view_drop(&readers, &v);
}

static int
take_and_wait(void *arg)
{
	struct shm_view v = view_with(20);

	(void)arg;
	shm_readers_init(&readers);
	if (err_is(shm_view_take(ref, &readers, &v)))
		return 1;
	await_death();
	return 1;
}

static void
dead_reader_keeps_nothing(void **state)
{
	uint64_t serial;

	(void)state;
	test_fork(SHM_WORKER(0), take_and_wait, NULL);
	meet(&shared->ready, 1);
	assert_err(shm_view_raise(ref, 2, NULL, 0, &serial), ERR_OK);
	assert_true(shm_view_oldest(ref) < serial);
	test_kill(SHM_WORKER(0));
	assert_true(shm_view_oldest(ref) < serial);
	assert_int_equal(test_reap(SHM_WORKER(0)).serials, 1);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

static int
load_and_wait(void *arg)
{
	(void)arg;
	if (!shm_store_load_begin(ref))
		return 1;
	await_death();
	return 1;
}

static void
dead_loader_leaves_an_absent_slot(void **state)
{
	uint64_t serial;

	(void)state;
	assert_err(shm_store_stale(ref), ERR_OK);
	test_fork(SHM_WORKER(0), load_and_wait, NULL);
	meet(&shared->ready, 1);
	assert_false(shm_store_load_begin(ref));
	test_kill(SHM_WORKER(0));
	assert_int_equal(test_reap(SHM_WORKER(0)).loads, 1);
	assert_true(shm_store_load_begin(ref));
	assert_err(shm_view_load_begin(ref, &serial), ERR_OK);
	assert_err(shm_view_load_end(ref, serial, 2, 0, NULL, 0), ERR_OK);
	assert_int_equal(shm_store_flags(ref), 0);
}

/* Base and marks move together; no reader may see one without the other, and
 * what was left behind at a serial is not read once nobody holds an older. */
static int
swap_many(void *arg)
{
	struct shm_view_mark m[2];
	uint64_t i, serial;

	(void)arg;
	for (i = 100; i < 20100; i++) {
		m[0] = mark(0, i, i);
		m[1] = mark(3, i, i);
		MUST(!err_is(shm_view_raise(ref, i, m, 2, &serial)));
		if (shm_view_oldest(ref) >= serial)
			atomic_store(&shared->counts[0], serial);
	}
	atomic_store(&shared->stop, 1);
	return 0;
}

static int
read_many(void *arg)
{
	struct shm_view v = view_with(20);

	(void)arg;
	shm_readers_init(&readers);
	while (atomic_load(&shared->stop) == 0) {
		struct err e = shm_view_take(ref, &readers, &v);

		MUST(!err_is(e));
		if (v.base_version >= 100) {
			MUST(v.shard_count == 2);
			MUST(room[0].marks.version == v.base_version);
			MUST(room[0].marks.replay_after == v.base_version);
			MUST(room[1].marks.pending_bytes ==
			    v.base_version * 100);
		}
		/* Nobody called files of this view unread meanwhile. */
		MUST(atomic_load(&shared->counts[0]) <= v.serial);
		shm_view_drop(&readers, &v);
	}
	return 0;
}

static void
views_are_whole(void **state)
{
	pid_t pids[4];
	int i;

	(void)state;
	for (i = 1; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), read_many, NULL);
	pids[0] = test_fork(SHM_WORKER(0), swap_many, NULL);
	for (i = 0; i < 4; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
}

static void *
take_and_drop(void *arg)
{
	struct shm_view_shard shards[8];
	struct shm_view held = { .shard_room = 8, .shards = shards };
	int i;

	for (i = 0; i < 5000; i++) {
		MUST(!err_is(shm_view_take(ref, arg, &held)));
		MUST(shm_view_oldest(ref) <= held.serial);
		shm_view_drop(arg, &held);
	}
	return NULL;
}

/* Threads of one process share a book. */
static void
threads_share_the_book(void **state)
{
	pthread_t threads[3];
	uint64_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
		    take_and_drop, &readers), 0);
	for (i = 2; i < 2000; i++)
		assert_err(shm_view_raise(ref, i, NULL, 0, NULL), ERR_OK);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(absent_is_not_read),
		TEST(copies_all_that_is_known),
		TEST(raise_is_a_maximum),
		TEST(a_pin_belongs_to_its_base),
		TEST(oldest_serial_is_kept),
		TEST(full_book_holds_longer),
		TEST(dead_writer_leaves_a_stale_slot),
		TEST(dead_reader_keeps_nothing),
		TEST(dead_loader_leaves_an_absent_slot),
		TEST(views_are_whole),
		TEST(threads_share_the_book),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
