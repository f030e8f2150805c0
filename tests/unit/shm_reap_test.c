#include "shm_test.h"
#include "shm_insert.h"

#include "common/fault.h"
#include "shm/mailbox.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "shm/sequence.h"
#include "shm/view.h"

static struct shm_ref ref;

static void
assert_err(struct err e, enum err_kind kind)
{
	if (e.kind != kind)
		fail_msg("got %s (%s)", err_name(e), e.what);
}

static struct err
load(struct shm_ref r, uint64_t base_version)
{
	uint64_t serial;
	struct err e = shm_view_load_begin(r, &serial);

	if (!err_is(e))
		e = shm_view_load_end(r, serial, base_version, 0, NULL,
		    0);
	return e;
}

static int
fresh(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("store") };
	struct uuid u = uuid_named(SLICE("store"));

	(void)state;
	reset_shared();
	return err_is(insert_store(key, &u, &ref)) ||
	    err_is(load(ref, 1)) ? -1 : 0;
}

/* Holds one of everything that a death must give back. */
static int
hold_everything(void *arg)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("loading") };
	struct uuid u = uuid_named(SLICE("loading")), v =
	    uuid_named(SLICE("foreign"));
	struct shm_command c = { .kind = SHM_MAIL_SEAL, .token = 1 };
	struct shm_view_shard room[8];
	struct shm_view view = { .shard_room = 8, .shards = room };
	struct shm_readers readers;
	struct shm_ref loading;
	uint32_t shard;

	(void)arg;
	shm_readers_init(&readers);
	MUST(!err_is(insert_store(key, &u, &loading)));
	MUST(shm_store_load_begin(loading));
	MUST(!err_is(shm_store_pin(ref)));
	MUST(!err_is(shm_store_pin(ref)));
	MUST(!err_is(shm_view_take(ref, &readers, &view)));
	MUST(!err_is(shm_store_shard_add(ref, &v, &shard)));
	MUST(shm_store_guard_try(ref, 0) != 0);
	MUST(shm_store_seal_try(ref, 0, 0) != 0);
	MUST(shm_store_seal_try(ref, shard, 0) != 0);
	shm_shard_claim(shm_store_shard(ref, 0), 0, 4,
	    (struct shm_point){ 2, 64 });
	MUST(shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 700));
	MUST(shm_budget_take(SHM_BUDGET_FOLD_SLOTS, 1));
	shm_metric_add(METRIC_memwald_connections, 0, 3);
	MUST(!err_is(shm_mailbox_send(shm_self(), &c)));
	/* Last, since no other lock may be taken while it is held. */
	MUST(shm_slot_read(ref) != NULL);
	await_death();
	return 1;
}

static void
everything_comes_back(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("loading") };
	struct shm_store_info info;
	struct shm_reaped r;
	struct shm_ref loading;
	uint64_t token;
	int round;

	(void)state;
	for (round = 0; round < 5; round++) {
		reset_shared();
		test_fork(SHM_WORKER(0), hold_everything, NULL);
		meet(&shared->ready, 1);
		assert_true(shm_store_peek(ref, &info));
		assert_true(info.guarded);
		assert_int_equal(info.guard_holder.slot, SHM_WORKER(0));
		assert_int_equal(info.pins, 2);
		assert_true(info.oldest_serial != 0);
		assert_int_equal(info.tail_shards, 1);
		test_kill(SHM_WORKER(0));
		r = test_reap(SHM_WORKER(0));
		assert_int_equal(r.guards, 1);
		assert_int_equal(r.seal_guards, 2);
		assert_int_equal(r.readers, 1);
		assert_int_equal(r.writers, 0);
		assert_int_equal(r.serials, 1);
		assert_int_equal(r.pins, 2);
		assert_int_equal(r.loads, 1);
		assert_int_equal(r.claims, 1);
		assert_int_equal(r.commands, 1);
		assert_int_equal(r.budget, 701);
		shm_reap_log(SHM_WORKER(0), &r);

		assert_int_equal(shm_store_flags(ref), 0);
		assert_true(shm_view_oldest(ref) == UINT64_MAX);
		assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 0);
		assert_int_equal(shm_metric_sum(METRIC_memwald_connections, 0),
		    0);
		assert_false(shm_shard_claimed(shm_store_shard(ref, 0)).live);
		assert_int_equal(shm_shard_commit(shm_store_shard(ref, 0)).end,
		    64);
		token = shm_store_guard_try(ref, 0);
		assert_true(token != 0);
		shm_store_guard_release(ref, token);
		assert_err(shm_store_stale(ref), ERR_OK);	/* write lock */
		assert_err(load(ref, 1), ERR_OK);
		assert_err(shm_store_find(key, &loading), ERR_OK);
		assert_int_equal(shm_store_load_state(loading),
		    SHM_LOAD_ABSENT);
		/* A second walk finds nothing. */
		shm_process_refill(SHM_WORKER(0));
		r = test_reap(SHM_WORKER(0));
		assert_int_equal(r.guards + r.seal_guards + r.readers +
		    r.serials + r.pins + r.loads + r.claims + r.commands +
		    r.budget, 0);
		assert_err(shm_store_evict(ref), ERR_OK);
		assert_int_equal(fresh(NULL), 0);
	}
}

/* What the others hold stays theirs. */
static void
the_living_keep_what_they_hold(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("loading") };
	struct shm_store_info info;
	struct shm_ref loading;
	struct shm_reaped r;

	(void)state;
	reset_shared();
	test_fork(SHM_WORKER(1), hold_everything, NULL);
	meet(&shared->ready, 1);
	shm_process_refill(SHM_WORKER(0));
	r = test_reap(SHM_WORKER(0));
	assert_int_equal(r.guards + r.seal_guards + r.readers + r.pins, 0);
	shm_process_refill(SHM_WORKER(2));
	test_reap(SHM_WORKER(2));
	assert_true(shm_store_peek(ref, &info));
	assert_true(info.guarded);
	assert_int_equal(info.pins, 2);
	assert_true(info.oldest_serial != 0);
	assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 700);
	assert_true(shm_shard_claimed(shm_store_shard(ref, 0)).live);
	assert_err(shm_store_find(key, &loading), ERR_OK);
	assert_int_equal(shm_store_load_state(loading), SHM_LOAD_LOADING);
	test_kill(SHM_WORKER(1));
	r = test_reap(SHM_WORKER(1));
	assert_int_equal(r.guards, 1);
	assert_err(shm_store_evict(ref), ERR_OK);
	assert_int_equal(fresh(NULL), 0);
}

static struct shm_view_shard view_room[64];

/* One round of what the processes of a server do with the segment. */
static void
work(struct shm_readers *readers)
{
	struct shm_view v = { .shard_room = 64, .shards = view_room };
	struct shm_command c = { .kind = SHM_MAIL_SEAL }, got;
	struct shm_view_mark m = { 0 };
	struct shm_ordinal o;
	uint64_t token, n;
	bool changed;
	struct err e;

	n = shm_sequence_next();
	e = shm_view_take(ref, readers, &v);
	if (!err_is(e)) {
		if (v.base_version > 1)
			MUST(v.shards[0].marks.version == v.base_version);
		shm_view_drop(readers, &v);
	} else if (e.kind == ERR_UNAVAILABLE && shm_store_load_begin(ref)) {
		if (err_is(load(ref, 1)))
			shm_store_load_failed(ref);
	}
	m = (struct shm_view_mark){ 0, { .version = n, .replay_after = n } };
	MUST(!err_is(shm_view_raise(ref, n, &m, 1, NULL)));
	token = shm_store_guard_try(ref, 0);
	if (token != 0) {
		shared->plain[0]++;
		shm_store_guard_release(ref, token);
	}
	if (shm_budget_take(SHM_BUDGET_REQUEST_BYTES, 300))
		shm_budget_give(SHM_BUDGET_REQUEST_BYTES, 300);
	/* Busy is fine: full, or dead. */
	e = shm_mailbox_send((uint16_t)SHM_WORKER(n % 4), &c);
	MUST(!err_is(e) || e.kind == ERR_BUSY);
	while (shm_mailbox_receive(&got))
		MUST(got.kind == SHM_MAIL_SEAL);
	MUST(!err_is(shm_ordinal_assign(1, &(struct shm_news){
	    .is = { SHM_ORDINAL_OWNED, (uint32_t)(n % 1000), "host", "" },
	    .version = n }, &changed)));
	MUST(!err_is(shm_ordinal_get(1, &o)));
	MUST(o.version == 0 || o.is.worker == o.version % 1000);
	shm_metric_add(METRIC_memwald_wal_commits_total, 0, 1);
	shm_metric_add(METRIC_memwald_requests_in_flight, 0, 1);
	shm_metric_sub(METRIC_memwald_requests_in_flight, 0, 1);
}

static int
storm(void *arg)
{
	struct shm_readers readers;

	(void)arg;
	shm_readers_init(&readers);
	for (;;) {
		work(&readers);
		atomic_fetch_add(&shared->counts[shm_self()], 1);
	}
	return 1;
}

/* E.1: kills at random; after each one everything works within a second. */
static void
server_survives_random_deaths(void **state)
{
	int rounds = getenv("LONG") != NULL ? 500 : 40, round, i, status;
	struct shm_readers readers;
	uint64_t seen, commits = 0, now;
	uint16_t slot;

	(void)state;
	reset_shared();
	srand(4);
	shm_readers_init(&readers);
	for (i = 0; i < 4; i++)
		test_fork(SHM_WORKER(i), storm, NULL);
	for (round = 0; round < rounds; round++) {
		slot = (uint16_t)SHM_WORKER(rand() % 4);
		seen = atomic_load(&shared->counts[slot]);
		while (atomic_load(&shared->counts[slot]) < seen + 5) {
			for (i = 0; i < 4; i++)
				MUST(waitpid(atomic_load(&shm_process_get(
				    (uint16_t)SHM_WORKER(i))->pid), &status,
				    WNOHANG) == 0);
			sched_yield();
		}
		kill(atomic_load(&shm_process_get(slot)->pid), SIGKILL);
		status = test_wait(atomic_load(&shm_process_get(slot)->pid));
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		test_reap(slot);
		work(&readers);
		assert_true(shm_store_table_sound());
		now = shm_metric_sum(METRIC_memwald_wal_commits_total, 0);
		assert_true(now > commits);
		commits = now;
		test_fork(slot, storm, NULL);
	}
	for (i = 0; i < 4; i++) {
		test_kill(SHM_WORKER(i));
		test_reap(SHM_WORKER(i));
	}
	assert_int_equal(shm_budget_used(SHM_BUDGET_REQUEST_BYTES), 0);
	assert_int_equal(shm_metric_sum(METRIC_memwald_requests_in_flight, 0),
	    0);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
	shm_readers_free(&readers);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(everything_comes_back, fresh),
		cmocka_unit_test_setup(the_living_keep_what_they_hold, fresh),
		cmocka_unit_test_setup(server_survives_random_deaths, fresh),
	};

	return cmocka_run_group_tests(tests, segment_setup, segment_teardown);
}
