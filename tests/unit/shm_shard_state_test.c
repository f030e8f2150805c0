#include "shm_test.h"

#include "shm/shard_state.h"

static struct shm_shard_state *shard;

static int
setup(void **state)
{
	if (segment_setup(state) < 0)
		return -1;
	shard = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shard == MAP_FAILED)
		return -1;
	return 0;
}

static int
teardown(void **state)
{
	munmap(shard, 4096);
	return segment_teardown(state);
}

static void
assert_point(struct shm_point p, uint64_t position, uint64_t end)
{
	assert_true(p.position == position);
	assert_true(p.end == end);
}

static void
points_pack_and_order(void **state)
{
	struct shm_point max = { SHM_POSITION_MAX, SHM_END_MAX };

	(void)state;
	assert_int_equal(shm_point_pack((struct shm_point){ 0, 0 }), 0);
	assert_point(shm_point_unpack(0), 0, 0);
	assert_true(shm_point_pack(max) == UINT64_MAX);
	assert_point(shm_point_unpack(UINT64_MAX), max.position, max.end);
	assert_point(shm_point_unpack(shm_point_pack(
	    (struct shm_point){ 5, 4096 })), 5, 4096);
	assert_true(shm_point_before((struct shm_point){ 5, SHM_END_MAX },
	    (struct shm_point){ 6, 8 }));
	assert_true(shm_point_before((struct shm_point){ 5, 8 },
	    (struct shm_point){ 5, 16 }));
	assert_false(shm_point_before((struct shm_point){ 5, 16 },
	    (struct shm_point){ 5, 16 }));
}

static int
pack_it(void *arg)
{
	shm_point_pack(*(struct shm_point *)arg);
	return 0;
}

static void
bad_points_are_refused(void **state)
{
	struct shm_point bad[] = {
		{ SHM_POSITION_MAX + 1, 8 }, { 1, SHM_END_MAX + 8 },
		{ 1, 12 }, { 1, 0 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		int status = test_wait(test_fork(SHM_WORKER(0), pack_it,
		    &bad[i]));

		assert_true(WIFSIGNALED(status));
		test_reap(SHM_WORKER(0));
	}
}

static int
claim_and_publish(void *arg)
{
	(void)arg;
	shm_shard_claim(shard, 0, 7, (struct shm_point){ 3, 64 });
	shm_shard_publish(shard, 7, (struct shm_point){ 4, 128 }, 1000);
	shm_shard_publish(shard, 7, (struct shm_point){ 4, 256 }, 900);
	MUST(shm_shard_claimed(shard).own);
	await_death();
	return 1;
}

static void
claim_dies_with_its_life(void **state)
{
	struct shm_claim c;

	(void)state;
	reset_shared();
	shm_shard_init(shard);
	c = shm_shard_claimed(shard);
	assert_int_equal(c.slot, SHM_NOBODY);
	test_fork(SHM_WORKER(1), claim_and_publish, NULL);
	meet(&shared->ready, 1);
	c = shm_shard_claimed(shard);
	assert_int_equal(c.slot, SHM_WORKER(1));
	assert_int_equal(c.epoch, 7);
	assert_true(c.live);
	assert_false(c.own);
	assert_point(shm_shard_commit(shard), 4, 256);
	assert_int_equal(shm_shard_max_seq(shard), 1000);

	test_kill(SHM_WORKER(1));
	test_reap(SHM_WORKER(1));
	assert_false(shm_shard_claimed(shard).live);
	/* The next life of the same slot, even with the same pid, has none. */
	reset_shared();
	shm_process_refill(SHM_WORKER(1));
	assert_false(shm_shard_claimed(shard).live);
	assert_int_equal(shm_shard_claimed(shard).epoch, 7);
	assert_point(shm_shard_commit(shard), 4, 256);
	test_reap(SHM_WORKER(1));
}

static void
raise_never_lowers(void **state)
{
	(void)state;
	shm_shard_init(shard);
	shm_shard_raise(shard, (struct shm_point){ 2, 80 });
	assert_point(shm_shard_commit(shard), 2, 80);
	shm_shard_raise(shard, (struct shm_point){ 2, 72 });
	shm_shard_raise(shard, (struct shm_point){ 1, 800 });
	shm_shard_raise(shard, (struct shm_point){ 0, 0 });
	assert_point(shm_shard_commit(shard), 2, 80);
	shm_shard_raise(shard, (struct shm_point){ 3, 8 });
	assert_point(shm_shard_commit(shard), 3, 8);
	shm_shard_close(shard, (struct shm_point){ 3, 8 });
	assert_point(shm_shard_closed(shard), 3, 8);
	/* A new claim has closed nothing yet. */
	shm_shard_claim(shard, 0, 1, (struct shm_point){ 0, 0 });
	assert_point(shm_shard_closed(shard), 0, 0);
	assert_point(shm_shard_commit(shard), 3, 8);
	shm_shard_unclaim(shard);
	assert_int_equal(shm_shard_claimed(shard).slot, SHM_NOBODY);
}

static int
publish_lower(void *arg)
{
	(void)arg;
	shm_shard_claim(shard, 0, 1, (struct shm_point){ 0, 0 });
	shm_shard_publish(shard, 1, (struct shm_point){ 3, 8 }, 1);
	return 0;
}

static int
publish_late(void *arg)
{
	uint64_t bytes = shm_shard_tail_bytes(shard);

	(void)arg;
	shm_shard_claim(shard, 0, 1, (struct shm_point){ 0, 0 });
	MUST(shm_shard_claimed(shard).live);
	shm_lease_end(SHM_LEASE_LOST, "told so");
	MUST(!shm_shard_claimed(shard).live && shm_shard_claimed(shard).own);
	/* Others read the tail to its end meanwhile, and beyond. */
	shm_shard_raise(shard, (struct shm_point){ 5, 16 });
	shm_shard_publish(shard, 1, (struct shm_point){ 5, 8 }, 1);
	MUST(shm_shard_commit(shard).end == 16);
	MUST(shm_shard_tail_bytes(shard) == bytes);
	/* Got anew, it is another term. */
	shm_lease_hold(2, UINT64_MAX);
	MUST(!shm_shard_claimed(shard).live);
	shm_shard_claim(shard, 0, 2, (struct shm_point){ 0, 0 });
	MUST(shm_shard_claimed(shard).live);
	return 0;
}

/* A claim ends with the term of the lease in which it was made. */
static void
claims_end_with_the_lease(void **state)
{
	(void)state;
	shm_shard_init(shard);
	assert_left_well(test_fork(SHM_WORKER(0), publish_late, NULL));
	test_reap(SHM_WORKER(0));
}

static void
publish_must_rise(void **state)
{
	int status;

	(void)state;
	shm_shard_init(shard);
	shm_shard_raise(shard, (struct shm_point){ 3, 8 });
	status = test_wait(test_fork(SHM_WORKER(0), publish_lower, NULL));
	assert_true(WIFSIGNALED(status));
	test_reap(SHM_WORKER(0));
}

static int
publish_after_another(void *arg)
{
	(void)arg;
	shm_shard_claim(shard, 1, 1, (struct shm_point){ 0, 0 });
	MUST(shm_shard_claimed(shard).live);
	atomic_fetch_add(&shared->ready, 1);
	meet(&shared->go, 1);
	MUST(shm_shard_claimed(shard).live && !shm_shard_claimed(shard).own);
	shm_shard_publish(shard, 1, (struct shm_point){ 3, 8 }, 1);
	return 0;
}

static int
claim_what_is_there(void *arg)
{
	(void)arg;
	shm_shard_claim(shard, 1, 2, (struct shm_point){ 3, 8 });
	shm_shard_raise(shard, (struct shm_point){ 4, 8 });
	atomic_fetch_add(&shared->go, 1);
	await_death();
	return 1;
}

/* Its fence passed; before its word another worker claimed, and read it. */
static void
a_later_claim_may_have_raised_it(void **state)
{
	pid_t pid;

	(void)state;
	reset_shared();
	shm_shard_init(shard);
	pid = test_fork(SHM_WORKER(1), publish_after_another, NULL);
	meet(&shared->ready, 1);
	test_fork(SHM_WORKER(0), claim_what_is_there, NULL);
	assert_left_well(pid);
	test_reap(SHM_WORKER(1));
	assert_point(shm_shard_commit(shard), 4, 8);
	test_kill(SHM_WORKER(0));
	test_reap(SHM_WORKER(0));
}

static int
publish_many(void *arg)
{
	uint64_t i;

	(void)arg;
	for (i = 1; i <= 100000; i++) {
		/* Bytes before the word that makes them readable. */
		shared->plain[i % 16] = i;
		shm_shard_publish(shard, 1, (struct shm_point){ i / 100 + 1,
		    (i % 100 + 1) * 8 }, i);
	}
	return 0;
}

static int
follow(void *arg)
{
	struct shm_point last = { 0, 0 }, p;
	uint64_t i, byte;

	(void)arg;
	for (;;) {
		p = shm_shard_commit(shard);
		if (p.end == 0)
			continue;
		MUST(!shm_point_before(p, last));
		i = (p.position - 1) * 100 + p.end / 8 - 1;
		byte = __atomic_load_n(&shared->plain[i % 16],
		    __ATOMIC_RELAXED);
		MUST(byte >= i);
		last = p;
		if (i == 100000)
			return 0;
	}
}

static void
readers_see_whole_points(void **state)
{
	pid_t pids[4];
	int i;

	(void)state;
	reset_shared();
	shm_shard_init(shard);
	for (i = 1; i < 4; i++)
		pids[i] = test_fork(SHM_WORKER(i), follow, NULL);
	pids[0] = test_fork(SHM_WORKER(0), publish_many, NULL);
	for (i = 0; i < 4; i++) {
		assert_left_well(pids[i]);
		test_reap(SHM_WORKER(i));
	}
}

static void
marks_are_a_maximum(void **state)
{
	struct shm_manifest_marks a = { 5, 1, 10, 100, 2 };
	struct shm_manifest_marks b = { 6, 1, 11, 50, 1 }, seen;

	(void)state;
	shm_shard_init(shard);
	assert_true(shm_shard_raise_marks(shard, &b));
	assert_false(shm_shard_raise_marks(shard, &a));
	assert_false(shm_shard_raise_marks(shard, &b));
	seen = shm_shard_marks(shard);
	assert_int_equal(seen.version, 6);
	assert_int_equal(seen.replay_after, 11);
	assert_int_equal(seen.pending_bytes, 50);
	assert_int_equal(seen.pending_generations, 1);
	assert_int_equal(seen.epoch, 1);
}

static void
seal_to(uint64_t version, uint64_t position, uint64_t bytes)
{
	struct shm_manifest_marks m = { .version = version,
	    .replay_after = position };

	assert_true(shm_shard_raise_marks(shard, &m));
	shm_shard_tail_sealed(shard, bytes);
}

static void
the_tail_has_a_size(void **state)
{
	(void)state;
	shm_shard_init(shard);
	assert_int_equal(shm_shard_tail_bytes(shard), 0);
	shm_shard_publish(shard, 1, (struct shm_point){ 2, 80 }, 1);
	shm_shard_publish(shard, 1, (struct shm_point){ 2, 200 }, 2);
	shm_shard_publish(shard, 1, (struct shm_point){ 3, 64 }, 3);
	assert_int_equal(shm_shard_tail_bytes(shard), 264);
	seal_to(1, 2, 200);
	assert_int_equal(shm_shard_tail_bytes(shard), 64);
	shm_shard_publish(shard, 1, (struct shm_point){ 4, 40 }, 4);
	/* A sealer that died before it counted: right again without a tail. */
	seal_to(2, 3, 0);
	assert_int_equal(shm_shard_tail_bytes(shard), 104);
	seal_to(3, 4, 40);
	assert_int_equal(shm_shard_tail_bytes(shard), 0);
	shm_shard_publish(shard, 1, (struct shm_point){ 5, 48 }, 5);
	assert_int_equal(shm_shard_tail_bytes(shard), 48);
	/* What was read back is there at least, and not once more. */
	shm_shard_tail_found(shard, 100);
	shm_shard_tail_found(shard, 90);
	assert_int_equal(shm_shard_tail_bytes(shard), 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_pack_and_order),
		cmocka_unit_test(bad_points_are_refused),
		cmocka_unit_test(claim_dies_with_its_life),
		cmocka_unit_test(raise_never_lowers),
		cmocka_unit_test(publish_must_rise),
		cmocka_unit_test(a_later_claim_may_have_raised_it),
		cmocka_unit_test(claims_end_with_the_lease),
		cmocka_unit_test(readers_see_whole_points),
		cmocka_unit_test(marks_are_a_maximum),
		cmocka_unit_test(the_tail_has_a_size),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
