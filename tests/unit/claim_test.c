#include "store_dir.h"

/* What the closes of the entry at this position say. */
static struct wal_end
closes_at(const struct uuid *shard, uint64_t position)
{
	struct wal_list list = wal_of(shard, position - 1);

	assert_true(list.count > 0);
	assert_int_equal(list.spans[0].position, position);
	return list.spans[0].closes;
}

static void
first_claim_starts_a_shard(void **state)
{
	struct owner o = owner_of(0);
	struct wal_list list;

	(void)state;
	see_ok(own_take(&o));
	list = wal_of(&o.shard, 0);
	assert_int_equal(list.count, 2);
	assert_true(list.spans[0].sentinel);
	assert_int_equal(list.spans[0].epoch, 1);
	assert_false(list.spans[1].sentinel);
	assert_int_equal(list.spans[1].epoch, 1);
	assert_int_equal(list.spans[1].closes.position, 0);
	assert_int_equal(o.claim.manifest.epoch, 1);
	assert_int_equal(o.claim.tail.position, 0);
	assert_int_equal(o.claim.sequence, 0);
	assert_int_equal(o.entry.position, 2);
	assert_int_equal(manifest_of(&o.shard).epoch, 1);
	own_end(&o);
}

static void
next_claim_records_the_end_that_it_read(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	struct wal_end closes;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_put(&a, "k2", "b"));
	see_ok(own_take(&b));
	closes = closes_at(&b.shard, b.entry.position);
	assert_int_equal(b.entry.position, a.entry.position + 2);
	assert_int_equal(closes.position, a.entry.position);
	assert_int_equal(closes.end, a.entry.end);
	assert_int_equal(b.claim.tail.position, a.entry.position);
	assert_int_equal(b.claim.tail.end, a.entry.end);
	assert_int_equal(b.claim.sequence, a.sequence);
	own_announce(&b);
	see_store("k1=a k2=b");
	own_end(&a);
	own_end(&b);
}

/* The one that was claimed without a batch is closed too; the last batch lies
 * below it. */
static void
claims_without_commits_follow_each_other(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0), c = owner_of(0);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_take(&b));
	see_ok(own_take(&c));
	assert_int_equal(closes_at(&c.shard, c.entry.position).position,
	    b.entry.position);
	assert_int_equal(closes_at(&c.shard, c.entry.position).end,
	    b.entry.head_bytes);
	assert_int_equal(c.claim.tail.position, a.entry.position);
	assert_int_equal(c.claim.tail.end, a.entry.end);
	assert_int_equal(c.claim.sequence, a.sequence);
	own_announce(&c);
	see_store("k1=a");
	see_ok(own_put(&c, "k1", "c"));
	see_store("k1=c");
	own_end(&a);
	own_end(&b);
	own_end(&c);
}

/* A row behind an end that was recorded before it: neither the next claimer nor
 * who loads the store takes its entry for the last one with rows. */
static void
late_rows_of_an_empty_entry_do_not_count(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0), c = owner_of(0);
	struct owner d = owner_of(0);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_take(&b));
	see_ok(own_take(&c));
	see_ok(own_write(&b, "k2", "late"));
	see_error(own_acknowledge(&b), FENCED);
	forget_all();
	see_store("k1=a");
	see_ok(own_take(&d));
	assert_int_equal(d.claim.tail.position, a.entry.position);
	assert_int_equal(d.claim.tail.end, a.entry.end);
	assert_true(d.claim.sequence >= b.sequence);
	own_end(&a);
	own_end(&b);
	own_end(&c);
	own_end(&d);
}

/* A paused owner wakes: what it writes is not acknowledged, whether or not the
 * new one has got as far as its entry. */
static void
a_fenced_owner_acknowledges_nothing(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_take(&b));
	see_ok(own_write(&a, "k2", "late"));
	see_error(own_acknowledge(&a), FENCED);
	see_error(own_rotate(&a, "k3", "late"), FENCED);
	own_announce(&b);
	/* Written past a recorded end. */
	see_store("k1=a");
	see_ok(own_put(&b, "k2", "b"));
	see_store("k1=a k2=b");
	own_end(&a);
	own_end(&b);
}

/* What it had written before, but not acknowledged, appears and stays. */
static void
written_before_the_claim_stays(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);

	(void)state;
	see_ok(own_write(&a, "k1", "a"));
	see_ok(own_take(&b));
	see_error(own_acknowledge(&a), FENCED);
	own_announce(&b);
	see_store("k1=a");
	forget_all();
	see_store("k1=a");
	own_end(&a);
	own_end(&b);
}

static int
claim_it(void *arg)
{
	struct owner o = owner_of(*(uint32_t *)arg);

	return err_is(own_take(&o));
}

/* Whoever dies on the way leaves a shard that the next one claims, and no
 * acknowledged row is lost; the old owner is fenced as soon as there is a
 * sentinel, and not before. */
static void
killed_at(const char *fault, bool fences)
{
	struct owner a = own_claim(0), b = owner_of(0);
	uint32_t ordinal = 0;

	see_ok(own_put(&a, "k1", "a"));
	die_in(SHM_WORKER(0), fault, claim_it, &ordinal);
	if (fences) {
		see_ok(own_write(&a, "k2", "late"));
		see_error(own_acknowledge(&a), FENCED);
	} else {
		see_ok(own_put(&a, "k2", "b"));
	}
	see_ok(own_take(&b));
	assert_int_equal(closes_at(&b.shard, b.entry.position).position,
	    a.entry.position);
	own_announce(&b);
	see_ok(own_put(&b, "k3", "c"));
	see_text("k1", "a");
	see_text("k3", "c");
	if (!fences)
		see_text("k2", "b");
	forget_all();
	see_text("k1", "a");
	see_text("k3", "c");
	own_end(&a);
	own_end(&b);
}

static void
killed_before_the_epoch(void **state)
{
	(void)state;
	killed_at("claim_epoch=die:1", false);
}

static void
killed_before_the_sentinel(void **state)
{
	(void)state;
	killed_at("claim_sentinel=die:1", false);
}

static void
killed_before_the_entry(void **state)
{
	(void)state;
	killed_at("claim_entry=die:1", true);
}

/* Both get an epoch of their own; who is first to lose says so, and the rest
 * of the tail is read by who claims last. */
struct racer {
	pid_t pid;
	const char *stop;
};

static void
stop_in(struct racer *r, uint16_t slot)
{
	static uint32_t ordinal;

	r->pid = test_fork_stopped(slot, claim_it, &ordinal, r->stop);
}

static void
overtaken_at(const char *stop)
{
	struct racer r = { .stop = stop };
	struct owner a = own_claim(0), b = owner_of(0), c = owner_of(0);

	see_ok(own_put(&a, "k1", "a"));
	stop_in(&r, SHM_WORKER(0));
	see_ok(own_take(&b));
	own_announce(&b);
	see_ok(own_put(&b, "k2", "b"));
	assert_int_equal(test_go_on(SHM_WORKER(0), r.pid), 1);
	/* The loser's sentinel may stand in the winner's way; then he was
	 * refused, and claims again. */
	if (err_is(own_put(&b, "k3", "b"))) {
		see_ok(own_take(&c));
		own_announce(&c);
		see_ok(own_put(&c, "k3", "b"));
	}
	see_store("k1=a k2=b k3=b");
	forget_all();
	see_store("k1=a k2=b k3=b");
	own_end(&a);
	own_end(&b);
	own_end(&c);
}

static void
overtaken_before_its_sentinel(void **state)
{
	(void)state;
	overtaken_at("claim_sentinel=stop:1");
}

static void
overtaken_before_its_entry(void **state)
{
	(void)state;
	overtaken_at("claim_entry=stop:1");
}

/* Its sentinel went to a position that a seal has passed meanwhile: what it
 * would record lies behind it already. */
static void
given_up_when_the_seal_passed_it(void **state)
{
	struct racer r = { .stop = "claim_sentinel=stop:1" };
	struct owner a = own_claim(0);
	struct shard_manifest m;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	own_close(&a);
	/* By hand what collection and a seal may do: an entry gone whose
	 * position is below replay_after. */
	stop_in(&r, SHM_WORKER(0));
	see_error(seal_shard(&aged, 0, &(struct seal_result){ 0 }), FENCED);
	m = manifest_of(&a.shard);
	assert_int_equal(m.replay_after, 0);
	assert_int_equal(test_go_on(SHM_WORKER(0), r.pid), 0);
	/* Its entry records the end, so that now it may be sealed. */
	assert_int_equal(seal_now(0).generations, 1);
	see_store("k1=a");
}

static struct err
pass_all(struct shard_manifest *m, struct arena *arena, bool *stands,
    void *ctx)
{
	(void)arena;
	*stands = false;
	m->replay_after = *(uint64_t *)ctx;
	return OK;
}

/* The claimer's sentinel is the second name that it links. */
#define STOP_BEHIND_SENTINEL "object_link_sync=stop:1@1"

/* Behind its sentinel the claimer slept, while a seal took up the first entry
 * and collection took it away: the tail is what lies behind that. */
static void
sealed_and_collected_meanwhile(void **state)
{
	struct racer r = { .stop = STOP_BEHIND_SENTINEL };
	struct owner a = own_claim(0);
	uint64_t first = a.entry.position;
	struct shard_manifest m;
	char path[WAL_PATH_MAX];
	struct arena arena;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_rotate(&a, "k2", "b"));
	stop_in(&r, SHM_WORKER(0));
	arena_init(&arena, 1u << 20);
	see_ok(shard_manifest_change(dir, &a.shard, pass_all, &first, &arena,
	    &m));
	arena_free(&arena);
	wal_path(&a.shard, first, path);
	see_ok(object_delete(dir, path));
	assert_int_equal(test_go_on(SHM_WORKER(0), r.pid), 0);
	assert_int_equal(closes_at(&a.shard, a.entry.position + 2).position,
	    a.entry.position);
	own_end(&a);
}

static void
passed_by(uint64_t positions)
{
	struct racer r = { .stop = STOP_BEHIND_SENTINEL };
	struct owner a = own_claim(0), o = owner_of(0);
	uint64_t replay_after = a.entry.position + positions;
	struct shard_manifest m;
	struct arena arena;

	see_ok(own_put(&a, "k1", "a"));
	stop_in(&r, SHM_WORKER(0));
	arena_init(&arena, 1u << 20);
	see_ok(shard_manifest_change(dir, &a.shard, pass_all, &replay_after,
	    &arena, &m));
	arena_free(&arena);
	assert_int_equal(test_go_on(SHM_WORKER(0), r.pid), 1);
	/* Nothing but the sentinel was put. */
	assert_int_equal(wal_of(&a.shard, a.entry.position).count, 1);
	see_ok(own_take(&o));
	assert_int_equal(o.entry.position, replay_after + 2);
	own_end(&a);
	own_end(&o);
}

static void
given_up_when_replay_after_passed_the_sentinel(void **state)
{
	(void)state;
	passed_by(1);
}

static void
given_up_when_replay_after_is_far_ahead(void **state)
{
	(void)state;
	passed_by(100);
}

static struct err
raise_it(struct shard_manifest *m, struct arena *arena, bool *stands,
    void *ctx)
{
	(void)arena;
	(void)ctx;
	*stands = false;
	m->epoch++;
	return OK;
}

static void
given_up_when_another_has_the_epoch(void **state)
{
	struct racer r = { .stop = STOP_BEHIND_SENTINEL };
	struct owner a = own_claim(0), o = owner_of(0);
	struct shard_manifest m;
	struct arena arena;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	stop_in(&r, SHM_WORKER(0));
	arena_init(&arena, 1u << 20);
	see_ok(shard_manifest_change(dir, &a.shard, raise_it, NULL, &arena,
	    &m));
	arena_free(&arena);
	assert_int_equal(test_go_on(SHM_WORKER(0), r.pid), 1);
	assert_int_equal(wal_of(&a.shard, a.entry.position).count, 1);
	see_ok(own_take(&o));
	own_announce(&o);
	see_store("k1=a");
	own_end(&a);
	own_end(&o);
}

/* Another has claimed, with rows, when the first one comes to its tail. */
static void
overtaken_behind_its_sentinel(void **state)
{
	(void)state;
	overtaken_at(STOP_BEHIND_SENTINEL);
}

/* A torn commit at the end was never acknowledged: it is stepped over. */
static void
torn_commit_is_not_in_the_end(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	char half[] = "\xff\xff\xff\xff half a message";

	(void)state;
	log_set_level(LOG_ERROR);
	see_ok(own_put(&a, "k1", "a"));
	see_ok(object_write_sync(a.entry.fd, half, sizeof(half),
	    a.entry.end));
	see_ok(own_take(&b));
	assert_int_equal(closes_at(&b.shard, b.entry.position).end,
	    a.entry.end);
	own_announce(&b);
	see_store("k1=a");
	own_end(&a);
	own_end(&b);
}

/* The last entry is cut to nothing: it closes at 0, rows below it stay. */
static void
cut_to_nothing_is_claimed(void **state)
{
	struct owner a = own_claim(0), b;
	int fd;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_rotate(&a, "k2", "b"));
	fd = open_wal(&a.shard, a.entry.position);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	forget_all();
	see_store("k1=a");
	b = own_claim(0);
	assert_int_equal(b.claim.tail.position, a.entry.position - 1);
	see_ok(own_put(&b, "k3", "c"));
	see_store("k1=a k3=c");
	assert_int_equal(seal_now(0).generations, 1);
	see_store("k1=a k3=c");
	own_end(&a);
	own_end(&b);
}

static void
errors_leave_no_descriptor(void **state)
{
	static const char *const faults[] = { "claim_epoch=fail:5:1",
	    "claim_sentinel=fail:5:1", "claim_entry=fail:5:1",
	    "wal_rotate=fail:5:1", "object_put=fail:5:1",
	    "object_sync=fail:5:1", "object_link=fail:28:1",
	    "object_write=fail:28:2" };	/* a small one is tried, too */
	struct owner a = own_claim(0), o = owner_of(0);
	uint32_t before;
	size_t i;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	own_end(&a);
	before = descriptors();
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		see_ok(fault_set(faults[i]));
		if (!err_is(own_take(&o)))
			fail_msg("%s was not met", faults[i]);
		assert_int_equal(descriptors(), before);
	}
	see_ok(own_take(&o));
	own_announce(&o);
	see_store("k1=a");
	own_end(&o);
	assert_int_equal(descriptors(), before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(first_claim_starts_a_shard),
		store_test(next_claim_records_the_end_that_it_read),
		store_test(claims_without_commits_follow_each_other),
		store_test(late_rows_of_an_empty_entry_do_not_count),
		store_test(a_fenced_owner_acknowledges_nothing),
		store_test(written_before_the_claim_stays),
		store_test(killed_before_the_epoch),
		store_test(killed_before_the_sentinel),
		store_test(killed_before_the_entry),
		store_test(overtaken_before_its_sentinel),
		store_test(overtaken_before_its_entry),
		store_test(given_up_when_the_seal_passed_it),
		store_test(given_up_when_replay_after_passed_the_sentinel),
		store_test(given_up_when_replay_after_is_far_ahead),
		store_test(sealed_and_collected_meanwhile),
		store_test(given_up_when_another_has_the_epoch),
		store_test(overtaken_behind_its_sentinel),
		store_test(torn_commit_is_not_in_the_end),
		store_test(cut_to_nothing_is_claimed),
		store_test(errors_leave_no_descriptor),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
