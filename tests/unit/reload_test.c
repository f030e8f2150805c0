#include "store_dir.h"
#include "shm_insert.h"

#include "common/clock.h"

static uint64_t
far_ahead(uint64_t us)
{
	return clock_wall_us() + us;
}

/* A commit with a sequence of the past or future, in a shard of anybody. */
static void
commit_to(const struct uuid *shard, uint64_t sequence, const char *key,
    const char *text, struct claim *c)
{
	struct buf message;
	struct builder b;

	see_ok(claim_shard(dir, shard, &shape_of()->schema, c));
	rows_begin(&b);
	add_row(&b, key, text, 1);
	buf_init(&message, 1u << 20);
	message_of(&b, sequence, &message);
	builder_free(&b);
	see_ok(object_write_sync(c->entry.fd, message.ptr, message.len,
	    c->entry.end));
	c->entry.end += message.len;
	buf_free(&message);
}

static void
everything_is_found_again(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);
	struct shm_manifest_marks was, is;
	uint64_t base;

	(void)state;
	generation_with(&a, "k1", "base");
	fold_now(0);
	generation_with(&a, "k2", "generation");
	see_ok(own_rotate(&b, "k3", "tail"));
	was = shm_shard_marks(a.state);
	base = atomic_load(&shm_store_slot(ref)->base_version);
	own_end(&b);
	forget_all();
	is = shm_shard_marks(shm_store_shard(ref, 0));
	assert_int_equal(is.version, was.version);
	assert_int_equal(is.epoch, was.epoch);
	assert_int_equal(is.replay_after, was.replay_after);
	assert_int_equal(is.pending_generations, was.pending_generations);
	assert_true(is.pending_bytes > 0);
	assert_int_equal(atomic_load(&shm_store_slot(ref)->base_version), base);
	assert_int_equal(shm_shard_commit(shm_store_shard(ref, 1)).position,
	    b.entry.position);
	assert_int_equal(shm_shard_commit(shm_store_shard(ref, 1)).end,
	    b.entry.end);
	see_store("k1=base k2=generation k3=tail");
}

/* Claims that nothing was written to are no tail: nobody has to claim the
 * shard again to close them. */
static void
an_empty_entry_is_no_tail(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	struct shm_store_info info;

	(void)state;
	generation_with(&a, "k1", "a");
	see_ok(own_take(&b));
	own_announce(&b);
	assert_true(shm_store_peek(ref, &info));
	assert_int_equal(info.tail_shards, 0);
	own_end(&b);
	forget_all();
	assert_true(shm_store_peek(ref, &info));
	assert_int_equal(info.tail_shards, 0);
	/* One with a row below it is. */
	see_ok(own_take(&a));
	own_announce(&a);
	see_ok(own_put(&a, "k2", "a"));
	see_ok(own_take(&b));
	forget_all();
	assert_true(shm_store_peek(ref, &info));
	assert_int_equal(info.tail_shards, 1);
	assert_int_equal(shm_shard_commit(shm_store_shard(ref, 0)).position,
	    a.entry.position);
	see_store("k1=a k2=a");
	own_end(&a);
	own_end(&b);
}

static void
the_clock_is_raised_to_what_is_stored(void **state)
{
	struct uuid shard = shm_ordinal_shard(0);
	uint64_t sequence = far_ahead(30 * US_PER_SEC);
	struct claim c;
	struct owner o;

	(void)state;
	/* Of a tail. */
	commit_to(&shard, sequence, "k1", "a", &c);
	forget_all();
	assert_true(shm_sequence_last() >= sequence);
	/* Of a generation; then of the base. */
	o = own_claim(0);
	sequence = shm_sequence_last() + US_PER_SEC;
	wal_writer_close(&c.entry);
	commit_to(&shard, sequence, "k1", "b", &c);
	wal_writer_close(&c.entry);
	see_ok(own_take(&o));
	own_announce(&o);
	assert_true(shm_shard_max_seq(o.state) < sequence);
	seal_now(0);
	forget_all();
	assert_true(shm_sequence_last() >= sequence);
	sequence = shm_sequence_last() + US_PER_SEC;
	commit_to(&shard, sequence, "k1", "c", &c);
	wal_writer_close(&c.entry);
	see_ok(own_take(&o));
	own_announce(&o);
	seal_now(0);
	fold_now(0);
	assert_true(shm_sequence_last() < sequence);
	forget_all();
	assert_true(shm_sequence_last() >= sequence);
	own_end(&o);
}

/* The wall clock of this host was set back by a day: our own rows of before
 * must not win over new ones. */
static void
our_own_sequence_is_adopted_in_any_case(void **state)
{
	struct uuid shard = shm_ordinal_shard(0);
	uint64_t sequence = far_ahead(86400 * US_PER_SEC);
	struct claim c;
	struct owner o;

	(void)state;
	assert_true(shm_sequence_last() < sequence);
	commit_to(&shard, sequence, "k1", "before", &c);
	wal_writer_close(&c.entry);
	forget_all();
	assert_true(shm_sequence_last() >= sequence);
	o = own_claim(1);
	see_ok(own_put(&o, "k1", "after"));
	see_store("k1=after");
	own_end(&o);
}

/* Another host's is reported; what is plausible beside it is adopted. */
static void
another_hosts_sequence_is_bounded(void **state)
{
	struct uuid near = uuid_random(), far = uuid_random();
	uint64_t last = shm_sequence_last();
	uint64_t plausible = MAX(last, clock_wall_us()) + 10 * US_PER_SEC;
	struct claim c;

	(void)state;
	/* The test before may have set our own clock ahead. */
	if (last > clock_wall_us())
		plausible = last;
	commit_to(&far, last + 86400 * US_PER_SEC, "k1", "a", &c);
	wal_writer_close(&c.entry);
	commit_to(&near, plausible, "k2", "a", &c);
	wal_writer_close(&c.entry);
	forget_all();
	assert_true(shm_sequence_last() < last + 86400 * US_PER_SEC);
	assert_true(shm_sequence_last() >= MIN(plausible,
	    clock_wall_us() + SHM_SEQUENCE_AHEAD_US));
	see_store("k1=a k2=a");
}

static void
a_stale_slot_is_loaded_as_a_whole(void **state)
{
	struct owner a = own_claim(0);
	struct shm_view_mark lie = { 0, { .version = 1000,
	    .pending_generations = 7, .replay_after = 900 } };

	(void)state;
	generation_with(&a, "k1", "a");
	see_ok(own_rotate(&a, "k2", "b"));
	/* Half written marks, as a writer that died inside leaves them. */
	see_ok(shm_view_raise(ref, 1000, &lie, 1, NULL));
	see_ok(shm_store_stale(ref));
	see_ok(reload_slot(dir, kind, ref));
	assert_int_equal(shm_store_flags(ref) & SHM_FLAG_STALE, 0);
	assert_int_equal(shm_shard_marks(a.state).version,
	    manifest_of(&a.shard).version);
	assert_int_equal(shm_shard_marks(a.state).pending_generations, 1);
	see_store("k1=a k2=b");
	/* Its owner goes on. */
	see_ok(own_put(&a, "k3", "c"));
	see_store("k1=a k2=b k3=c");
	own_end(&a);
}

/* ---- shards of others */

/* As of a claim that began so many seconds ago. */
static void
put_fence(const struct uuid *shard, uint64_t position, int ago)
{
	struct timespec times[2];
	int fd;

	see_ok(wal_put_sentinel(dir, shard, 2, &position));
	fd = open_wal(shard, position);
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= ago;
	times[1] = times[0];
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

/* Who fenced it has died, or found no room: what is there was read after the
 * fence, and counts. What the next claim records counts as well. */
static void
another_instances_fenced_tail_counts(void **state)
{
	struct uuid shard = uuid_random();
	struct claim c, next;

	(void)state;
	commit_to(&shard, 10, "k1", "a", &c);
	see_ok(reload_others(dir, kind, ref));
	see_store("k1=a");
	put_fence(&shard, c.entry.position + 1, 10);
	forget_all();
	see_store("k1=a");
	see_ok(claim_shard(dir, &shard, &shape_of()->schema, &next));
	forget_all();
	see_store("k1=a");
	wal_writer_close(&c.entry);
	wal_writer_close(&next.entry);
}

static int
load_it(void *arg)
{
	(void)arg;
	return err_is(reload_slot(dir, kind, ref));
}

/* Who fenced it is about to record how much of it he has read: less than there
 * is by now. */
static void
another_instances_claim_is_waited_for(void **state)
{
	struct uuid shard = uuid_random();
	struct wal_start start = { .epoch = 2, .size_bytes = WAL_ENTRY_MIN };
	struct wal_writer entry;
	struct claim c;
	pid_t pid;

	(void)state;
	commit_to(&shard, 10, "k1", "a", &c);
	put_fence(&shard, c.entry.position + 1, -3600);
	pid = test_fork_stopped(SHM_WORKER(0), load_it, NULL,
	    "reload_listed=stop:1");
	start.position = c.entry.position + 2;
	start.closes = (struct wal_end){ c.entry.position,
	    c.entry.head_bytes };
	see_ok(wal_entry_start(dir, &shard, &shape_of()->schema, &start,
	    &entry));
	assert_int_equal(test_go_on(SHM_WORKER(0), pid), 0);
	see_store("");
	wal_writer_close(&c.entry);
	wal_writer_close(&entry);
}

/* Our own ordinal's counts in any case: its writer is dead, and who claims it
 * reads at least as much. */
static void
our_own_fenced_tail_counts(void **state)
{
	struct uuid shard = shm_ordinal_shard(0);
	uint64_t sentinel;
	struct claim c;

	(void)state;
	commit_to(&shard, 10, "k1", "a", &c);
	sentinel = c.entry.position + 1;
	see_ok(wal_put_sentinel(dir, &shard, 2, &sentinel));
	forget_all();
	see_store("k1=a");
	wal_writer_close(&c.entry);
}

static void
others_move_on(void **state)
{
	struct uuid shard = uuid_random();
	uint32_t number;
	struct claim c;
	uint64_t version;

	(void)state;
	see_store("");
	commit_to(&shard, 10, "k1", "a", &c);
	see_ok(reload_others(dir, kind, ref));
	number = shm_store_shard_find(ref, &shard);
	assert_true(number != SHM_SHARD_NONE && number >= SHM_SHARD_RECORD);
	version = shm_shard_marks(shm_store_shard(ref, number)).version;
	assert_int_equal(version, 1);
	wal_writer_close(&c.entry);
	/* A newer manifest. */
	see_ok(claim_shard(dir, &shard, &shape_of()->schema, &c));
	see_ok(reload_others(dir, kind, ref));
	assert_int_equal(shm_shard_marks(shm_store_shard(ref,
	    number)).version, 2);
	wal_writer_close(&c.entry);
	see_store("k1=a");
}

/* Its owner goes on to the next entry between the list of entries and the look
 * at what lies behind the last: what that one held does not vanish. */
static void
another_instances_entry_may_rotate_meanwhile(void **state)
{
	struct shm_shard_state elsewhere = { 0 };	/* in its segment */
	struct owner a = owner_of(0);
	struct wal_end end;
	pid_t pid;

	(void)state;
	a.shard = uuid_random();
	a.state = &elsewhere;
	see_ok(own_take(&a));
	see_ok(own_put(&a, "k1", "a"));
	end = (struct wal_end){ a.entry.position, a.entry.end };
	forget_all();
	pid = test_fork_stopped(SHM_WORKER(0), load_it, NULL,
	    "reload_listed=stop:1");
	see_ok(own_rotate(&a, "k2", "b"));
	assert_int_equal(test_go_on(SHM_WORKER(0), pid), 0);
	see_store("k1=a k2=b");
	assert_int_equal(a.entry.position, end.position + 1);
	own_end(&a);
}

/* Whoever saw its folder before its first manifest looks for that one. */
static void
another_instances_first_claim_under_way(void **state)
{
	struct uuid shard = uuid_random();
	struct shm_view_shard room[4];
	struct shm_view view = { .shard_room = ARRAY_LEN(room),
	    .shards = room };
	struct shm_readers readers;
	struct object_dir *made;
	char path[128];

	(void)state;
	shard_directory_name(&shard, path);
	see_ok(object_dir_open(dir, path, true, &made));
	object_dir_close(made);
	see_ok(reload_others(dir, kind, ref));
	shm_readers_init(&readers);
	see_ok(shm_view_take(ref, &readers, &view));
	assert_int_equal(view.shard_count, 1);
	assert_true(uuid_eq(&room[0].uuid, &shard));
	assert_int_equal(room[0].marks.version, 0);
	shm_view_drop(&readers, &view);
	shm_readers_free(&readers);
}

/* A loader read a commit that the owner has written but not yet acknowledged:
 * he must find his own word when he does. */
static void
a_claim_meanwhile_is_not_overtaken(void **state)
{
	struct owner a = own_claim(0);
	struct shm_point before;
	pid_t pid;

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	/* Its claim is announced only once the loader has begun. */
	shm_shard_unclaim(a.state);
	before = shm_shard_commit(a.state);
	see_ok(own_write(&a, "k2", "b"));
	pid = test_fork_stopped(SHM_WORKER(0), load_it, NULL,
	    "reload_commit=stop:1");
	own_announce(&a);
	assert_int_equal(test_go_on(SHM_WORKER(0), pid), 0);
	assert_int_equal(shm_shard_commit(a.state).end, before.end);
	see_ok(own_acknowledge(&a));
	see_store("k1=a k2=b");
	own_end(&a);
}

/* ---- what is not a store */

static void
another_stores_directory_is_refused(void **state)
{
	struct shm_store_key key = { STORE_ROLLOUT, SLICE("impostor") };
	struct uuid other = uuid_random();
	struct shm_ref impostor;

	(void)state;
	see_ok(insert_store(key, &other, &impostor));
	see_error(reload_slot(dir, kind, impostor), NOT_FOUND);
	see_ok(shm_store_evict(impostor));
}

static void
unknown_and_half_stores(void **state)
{
	struct object_dir *d = NULL;
	struct shm_ref r;
	uint32_t before = descriptors();

	(void)state;
	see_error(reload_open(root, kind, "nobody", &r, &d), NOT_FOUND);
	see_ok(store_create(root, kind, kind->shape, "half"));
	see_ok(object_delete_tree(root, "half.rollout.lance"));
	see_error(reload_open(root, kind, "half", &r, &d), NOT_FOUND);
	assert_int_equal(descriptors(), before);
}

/* A generation that was folded and collected since its manifest was read. */
static void
a_manifest_names_what_is_gone(void **state)
{
	struct owner a = own_claim(0);
	struct shard_manifest m;
	char path[512];

	(void)state;
	generation_with(&a, "k1", "a");
	m = manifest_of(&a.shard);
	shard_directory_name(&a.shard, path);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%.*s",
	    (int)m.generations[0].directory.len,
	    m.generations[0].directory.ptr);
	see_ok(object_delete_tree(dir, path));
	see_ok(reload_slot(dir, kind, ref));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(everything_is_found_again),
		store_test(an_empty_entry_is_no_tail),
		store_test(the_clock_is_raised_to_what_is_stored),
		store_test(another_hosts_sequence_is_bounded),
		store_test(our_own_sequence_is_adopted_in_any_case),
		store_test(a_stale_slot_is_loaded_as_a_whole),
		store_test(another_instances_fenced_tail_counts),
		store_test(another_instances_claim_is_waited_for),
		store_test(our_own_fenced_tail_counts),
		store_test(another_instances_entry_may_rotate_meanwhile),
		store_test(others_move_on),
		store_test(another_instances_first_claim_under_way),
		store_test(a_claim_meanwhile_is_not_overtaken),
		store_test(another_stores_directory_is_refused),
		store_test(unknown_and_half_stores),
		store_test(a_manifest_names_what_is_gone),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
