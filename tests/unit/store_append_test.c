#include "store_engine.h"

#include <sched.h>

/* Appends, and reads of what was appended, through a worker's engine. */

static struct store *store;

static void
engine_begin(bool ring)
{
	engine_up(ring);
	see_ok(open_it(store_name, &store));
}

static void
engine_end(void)
{
	uint64_t began = clock_mono_ns();

	while (!engine_idle(&engine) || store->uses > 1)
		assert_true(turn(began));
	store_forget(store);
	store_close(store);
	engine_down();
}

/* Nothing of before is known any more. */
static void
restart(void)
{
	engine_end();
	forget_all();
	engine_begin(false);
}

static int
begin_with(void **state, bool ring)
{
	if (fresh_store(state) != 0)
		return -1;
	engine_begin(ring);
	return 0;
}

static int
begin(void **state)
{
	return begin_with(state, false);
}

static int
begin_ring(void **state)
{
	return begin_with(state, true);
}

static int
end(void **state)
{
	engine_end();
	return store_gone(state);
}

static void
submit_own(struct request *r, const char *key, const char *text)
{
	struct builder *b;

	*r = (struct request){ .append.done = appended,
	    .append.row_count = 1 };
	see_ok(append_builder(store, &texts, &b));
	b = malloc(sizeof(*b));
	assert_non_null(b);
	see_ok(builder_init(b, &shape_of()->schema, APPEND_COMMIT_MAX));
	add_row(b, key, text, 1);
	r->append.own = b;
	append_submit(store, &r->append);
}

static struct err
append(const char *key, const char *text)
{
	struct request r;

	submit(store, &r, key, text);
	return await(&r);
}

/* As the maintainer asks; its reply. */
static struct err
rotate(void)
{
	struct shm_command c = { .kind = SHM_MAIL_ROTATE, .store = store->ref,
	    .shard = shm_ordinal_shard(0), .token = shm_mailbox_token(),
	    .from = shm_life_self() }, reply;
	uint64_t began = clock_mono_ns();

	assert_true(engine_command(&engine, &c));
	while (!shm_mailbox_receive(&reply))
		assert_true(turn(began));
	assert_int_equal(reply.kind, SHM_MAIL_REPLY);
	return (struct err){ (uint16_t)reply.err, 0, "reply" };
}

static struct shm_point
published(void)
{
	return shm_shard_commit(shm_store_shard(ref, 0));
}

static void
see_get(const char *key, const char *want)
{
	struct batch batch;
	struct arena arena;
	char text[TEXT_MAX_BYTES];
	uint64_t at;
	bool found;

	view(store);
	arena_init(&arena, 1u << 20);
	see_ok(read_get(store, store->snapshot, slice_of(key), READ_FOR_NOW, &arena, &batch,
	    &at, &found));
	assert_int_equal(found, want != NULL);
	if (found) {
		copy_text(text, array_slice(&batch.columns[ROLLOUT_content],
		    at));
		assert_string_equal(text, want);
	}
	arena_free(&arena);
}

static void
rows_are_answered_and_read(void **state)
{
	(void)state;
	see_ok(append("k1", "a"));
	see_ok(append("k2", "b"));
	see_ok(append("k1", "c"));
	see_store("k1=c k2=b");
	see_get("k1", "c");
	see_get("k2", "b");
	see_get("k3", NULL);
	restart();
	see_store("k1=c k2=b");
}

/* Of those that the filter gives: how often the time was over meanwhile. */
static uint32_t
see_list(const struct read_want *want, uint64_t until_ns, uint64_t offset,
    uint32_t rows)
{
	enum read_step step = READ_LATER;
	const struct batch *batch;
	struct read_list *l;
	uint32_t later = 0, seen = 0;
	uint64_t passed, at;

	view(store);
	see_ok(read_list_open(store, store->snapshot, want, &l));
	while (step == READ_LATER) {
		see_ok(read_list_pass(l, offset, until_ns, &passed, &step));
		later += step == READ_LATER;
		offset -= passed;
	}
	while (step != READ_END) {
		see_ok(read_list_next(l, until_ns, &step, &batch, &at));
		later += step == READ_LATER;
		seen += step == READ_ROW;
	}
	assert_int_equal(seen, rows);
	read_list_close(l);
	return later;
}

/* However little time there is, it comes to its end, and to the same one. */
static void
lists_go_on_later(void **state)
{
	struct read_want all = { NULL, NULL }, some = { NULL, NULL };
	struct request r[200];
	struct arena arena;
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		submit(store, &r[i], key, i < 199 ? "no" : "yes");
	}
	for (i = 0; i < 200; i++)
		see_ok(await(&r[i]));
	arena_init(&arena, 1u << 20);
	see_ok(filter_parse(shape_of(), SLICE("content = 'yes'"), &arena,
	    &some.filter));
	assert_int_equal(see_list(&all, UINT64_MAX, 50, 150), 0);
	assert_int_equal(see_list(&some, UINT64_MAX, 0, 1), 0);
	assert_int_equal(see_list(&some, UINT64_MAX, 5, 0), 0);
	assert_in_range(see_list(&all, 0, 150, 50), 3, 10);
	assert_in_range(see_list(&some, 0, 0, 1), 3, 10);
	assert_in_range(see_list(&some, 0, 1, 0), 3, 10);
	arena_free(&arena);
}

/* All that waits becomes one commit, in the order in which it came. */
static void
group_commit(void **state)
{
	struct request r[20];
	struct shm_point before;
	char key[16], text[16];
	int i;

	(void)state;
	see_ok(append("warm", "x"));
	before = published();
	for (i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "k%d", i % 5);
		snprintf(text, sizeof(text), "%d", 99 - i);
		/* Pending rows are one batch of the commit, and those that
		 * bring their own come behind it. */
		if (i >= 15)
			submit_own(&r[i], key, text);
		else
			submit(store, &r[i], key, text);
	}
	for (i = 0; i < 20; i++)
		see_ok(await(&r[i]));
	assert_int_equal(published().position, before.position);
	/* They have one sequence, so the later row of the entry counts, in a
	 * list, in a get, and in a generation. */
	see_store("k0=84 k1=83 k2=82 k3=81 k4=80 warm=x");
	see_get("k0", "84");
	see_ok(rotate());
	seal_now(0);
	see_store("k0=84 k1=83 k2=82 k3=81 k4=80 warm=x");
}

/* Longer than an entry, and many of them: rotations, prepared entries. */
static void
entries_are_rotated(void **state)
{
	static char large[3u << 20];
	struct uuid shard = shm_ordinal_shard(0);
	struct request r;
	struct shm_point first;
	struct wal_list list;
	char key[16];
	uint32_t k;
	int i;

	(void)state;
	see_ok(append("k", "x"));
	first = published();
	for (i = 0; i < 60; i++) {
		snprintf(key, sizeof(key), "k%02d", i % 10);
		see_ok(append(key, "x"));
	}
	assert_true(published().position > first.position);
	memset(large, 'y', sizeof(large) - 1);
	first = published();
	submit_own(&r, "large", large);
	see_ok(await(&r));
	assert_true(published().position > first.position);
	see_ok(append("after", "x"));
	list = wal_of(&shard, 0);
	assert_int_equal(list.spans[list.count - 1].position,
	    published().position);
	for (k = 1; k < list.count; k++) {
		if (!list.spans[k - 1].sentinel)
			assert_int_equal(list.spans[k].closes.position,
			    list.spans[k - 1].position);
	}
	see_get("k09", "x");
	see_get("after", "x");
}

static void
rotation_closes_and_the_seal_takes_it(void **state)
{
	(void)state;
	see_ok(rotate());		/* nothing is there */
	see_ok(append("k1", "a"));
	see_ok(rotate());
	assert_int_equal(shm_shard_closed(shm_store_shard(ref, 0)).end,
	    published().end);
	assert_int_equal(seal_now(0).generations, 1);
	see_store("k1=a");
	see_ok(rotate());
	see_ok(append("k1", "b"));
	see_store("k1=b");
	see_ok(rotate());
	assert_int_equal(seal_now(0).generations, 1);
	fold_now(0);
	see_get("k1", "b");
	/* What was claimed and not written to is no tail. */
	see_store("k1=b");
}

/* After a failed write or sync the entry is left alone; what it acknowledged
 * can be sealed, and the next commit begins another. */
static void
errors_give_the_entry_up(void **state)
{
	static const char *const faults[] = { "wal_write=fail:5:1",
	    "wal_sync=fail:5:1", "wal_sync=fail:28:1" };
	struct shm_point before;
	char key[16];
	size_t i;

	(void)state;
	see_ok(append("k", "a"));
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		before = published();
		see_ok(fault_set(faults[i]));
		assert_true(err_is(append("lost", "x")));
		assert_int_equal(published().end, before.end);
		see_text("lost", NULL);
		snprintf(key, sizeof(key), "k%zu", i);
		see_ok(append(key, "b"));
		assert_int_equal(published().position, before.position + 1);
		see_text("lost", NULL);
	}
	see_store("k=a k0=b k1=b k2=b");
	see_ok(fault_set("wal_sync=fail:5:1"));
	assert_true(err_is(append("lost", "x")));
	see_ok(rotate());
	assert_int_equal(seal_now(0).generations, 1);
	see_store("k=a k0=b k1=b k2=b");
	see_ok(append("k3", "c"));
	restart();
	see_store("k=a k0=b k1=b k2=b k3=c");
}

static void
a_rotation_that_fails(void **state)
{
	(void)state;
	see_ok(append("k1", "a"));
	see_ok(rotate());
	see_ok(fault_set("wal_rotate=fail:5:1"));
	assert_true(err_is(append("k2", "lost")));
	see_ok(append("k2", "b"));
	/* The outcome of the link is unknown twice: the position is taken by
	 * us, and the claim finds it. */
	see_ok(rotate());
	see_ok(fault_set("object_link_sync=fail:5:2"));
	assert_true(err_is(append("k3", "maybe")));
	see_ok(fault_set("object_link_sync=off"));
	if (err_is(append("k4", "c")))
		see_ok(append("k4", "c"));
	see_text("k1", "a");
	see_text("k2", "b");
	see_text("k4", "c");
}

/* Another has claimed: nothing more is acknowledged, and the next append
 * claims again. */
static void
fenced(void **state)
{
	struct owner other = owner_of(0);

	(void)state;
	see_ok(append("k1", "a"));
	see_ok(own_take(&other));
	see_error(append("k2", "lost"), FENCED);
	assert_false(shm_shard_claimed(shm_store_shard(ref, 0)).live);
	see_ok(append("k3", "b"));
	assert_true(shm_shard_claimed(shm_store_shard(ref, 0)).live);
	see_text("k1", "a");
	see_text("k3", "b");
	own_end(&other);
}

static void
a_claim_that_fails(void **state)
{
	struct request a, b;

	(void)state;
	see_ok(fault_set("claim_entry=fail:5:1"));
	submit(store, &a, "k1", "lost");
	submit_own(&b, "k2", "lost");
	assert_true(err_is(await(&a)));
	assert_true(err_is(await(&b)));
	see_ok(append("k3", "a"));
	see_store("k3=a");
}

/* A tail whose owner died is claimed when the maintainer asks, so that it can
 * be sealed. */
static void
an_old_tail_is_claimed_for_the_seal(void **state)
{
	struct owner o = owner_of(0);

	(void)state;
	see_ok(own_take(&o));
	see_ok(own_write(&o, "k1", "a"));
	own_end(&o);
	see_ok(reload_slot(dir, kind, ref));
	assert_int_equal(published().position, o.entry.position);
	assert_int_equal(seal_now(0).generations, 0);
	see_ok(rotate());
	assert_int_equal(seal_now(0).generations, 1);
	see_store("k1=a");
	/* Then nothing is left that a tick would ask for. */
	assert_true(published().position <=
	    shm_shard_marks(o.state).replay_after);
}

static void
what_may_not_be_written_to(void **state)
{
	struct builder *b;

	(void)state;
	see_ok(append("k1", "a"));
	see_ok(shm_view_raise_base(ref, 1000, 1));
	see_error(append_builder(store, &texts, &b), BAD_INPUT);
	see_ok(shm_view_raise_base(ref, 1001, 0));
	see_ok(append("k2", "a"));
	see_ok(shm_store_delete(ref));
	see_error(append_builder(store, &texts, &b), BAD_INPUT);
}

static void
more_than_a_commit_waits(void **state)
{
	static char large[1u << 20];
	struct request r[80];
	struct builder *b;
	struct err e = OK;
	int i, n;

	(void)state;
	memset(large, 'x', sizeof(large) - 1);
	for (n = 0; n < 80; n++) {
		e = append_builder(store, &texts, &b);
		if (err_is(e))
			break;
		submit(store, &r[n], "k", large);
	}
	see_error(e, BUSY);
	for (i = 0; i < n; i++)
		see_ok(await(&r[i]));
	see_ok(append("k", "small"));
}

/* Two handles of one process, one after the other: the old one's end does not
 * take the new one's claim away. */
static void
a_handle_that_came_after(void **state)
{
	struct store *old = store;
	struct shm_shard_state *s = shm_store_shard(ref, 0);

	(void)state;
	see_ok(append("k1", "a"));
	store_hold(old);
	store_forget(old);
	see_ok(open_it(store_name, &store));
	assert_ptr_not_equal(store, old);
	see_ok(append("k2", "b"));
	assert_true(shm_shard_claimed(s).live);
	store_close(old);
	store_close(old);
	assert_true(shm_shard_claimed(s).live);
	see_ok(append("k3", "c"));
	see_store("k1=a k2=b k3=c");
}

static void
descriptors_do_not_grow(void **state)
{
	uint32_t before;
	char key[16];
	int i;

	(void)state;
	see_ok(append("k", "x"));
	see_get("k", "x");
	before = descriptors();
	for (i = 0; i < 12; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		see_ok(append(key, "x"));
		see_get(key, "x");
		see_ok(rotate());
		seal_now(0);
		see_get(key, "x");
		if (i % 4 == 3)
			fold_now(0);
	}
	see_get("k", "x");
	/* The prepared entry and the one that is open may be there or not. */
	assert_true(descriptors() <= before + 2);
}

static void
with_a_ring(void **state)
{
	struct request r[8];
	int i;

	(void)state;
	for (i = 0; i < 8; i++)
		submit(store, &r[i], "k", "x");
	for (i = 0; i < 8; i++)
		see_ok(await(&r[i]));
	/* Never inline: the last ones were slow. */
	engine.sync_ns = UINT64_MAX / 2;
	see_ok(append("k1", "a"));
	see_ok(append("k2", "b"));
	see_store("k=x k1=a k2=b");
}

#define append_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		append_test(rows_are_answered_and_read),
		append_test(lists_go_on_later),
		append_test(group_commit),
		append_test(entries_are_rotated),
		append_test(rotation_closes_and_the_seal_takes_it),
		append_test(errors_give_the_entry_up),
		append_test(a_rotation_that_fails),
		append_test(fenced),
		append_test(a_claim_that_fails),
		append_test(an_old_tail_is_claimed_for_the_seal),
		append_test(what_may_not_be_written_to),
		append_test(more_than_a_commit_waits),
		append_test(a_handle_that_came_after),
		append_test(descriptors_do_not_grow),
		cmocka_unit_test_setup_teardown(with_a_ring, begin_ring, end),
		cmocka_unit_test_setup_teardown(with_a_ring, begin, end),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
