#include "store_engine.h"

#include "shm/metric.h"
#include "worker/store/opened.h"
#include "worker/store/writer.h"

/*
 * A worker's engine over a few stores, whose loop is turned by hand: what it
 * keeps open, in which order that goes, and what never goes.
 */

#define STORES		4

static struct source_cache *cache = &engine.cache;
static char names[STORES][40];

/* In use until store_close. */
static struct store *
use(int k)
{
	struct store *s;

	see_ok(open_it(names[k], &s));
	return s;
}

static void
append(int k, const char *key)
{
	struct request r;
	struct store *s = use(k);

	submit(s, &r, key, "text");
	see_ok(await(&r));
	store_close(s);
}

/* Reads and lets go, as a request does. */
static void
look_at(int k)
{
	struct store *s = use(k);

	view(s);
	store_close(s);
}

static struct read_list *
list(struct store *s)
{
	static const struct read_want all;
	struct read_list *l;

	view(s);
	see_ok(read_list_open(s, s->snapshot, &all, &l));
	return l;
}

static bool
next_row(struct read_list *l)
{
	const struct batch *batch;
	enum read_step step;
	uint64_t at;

	see_ok(read_list_next(l, UINT64_MAX, &step, &batch, &at));
	return step == READ_ROW;
}

static uint64_t
rows_of(int k)
{
	struct store *s = use(k);
	struct read_list *l = list(s);
	uint64_t n = 0;

	while (next_row(l))
		n++;
	read_list_close(l);
	store_close(s);
	return n;
}

static bool
find_slot(int k, struct shm_ref *r)
{
	struct shm_store_key key = { (enum store_kind)kind->id,
	    slice_of(names[k]) };

	return !err_is(shm_store_find(key, r));
}

/* The handle, if there is one. */
static struct store *
handle(int k)
{
	struct shm_ref r;

	return find_slot(k, &r) ? store_by_ref(&engine, r) : NULL;
}

static bool
has_view(int k)
{
	return handle(k) != NULL && handle(k)->snapshot != NULL;
}

static int
begin(void **state)
{
	int k;

	if (fresh_store(state) != 0)
		return -1;
	for (k = 0; k < STORES; k++) {
		snprintf(names[k], sizeof(names[k]), "%s-%d", store_name, k);
		see_ok(store_create(root, kind, shape_of(), names[k]));
	}
	engine_up(false);
	return 0;
}

static int
end(void **state)
{
	uint64_t began = clock_mono_ns();
	int k;

	while (!engine_idle(&engine))
		assert_true(turn(began));
	for (k = 0; k < STORES; k++) {
		struct shm_ref r;

		if (handle(k) != NULL)
			store_forget(handle(k));
		if (find_slot(k, &r))
			see_ok(shm_store_evict(r));
	}
	engine_down();
	/* Whatever was counted has been taken away again. */
	for (k = 0; k < OPENED_COUNT; k++)
		assert_int_equal(opened_now(k), 0);
	return store_gone(state);
}

static void
least_used_goes_first(void **state)
{
	uint64_t two;
	int k;

	(void)state;
	for (k = 0; k < STORES; k++)
		append(k, "k");
	look_at(0);
	look_at(1);
	two = opened_now(OPENED_SOURCE_BYTES) + opened_now(OPENED_TAIL_BYTES);
	assert_true(two > 0);
	cache->bytes_max = two;
	look_at(0);			/* so 1 is the least used */
	look_at(2);
	turn(0);
	assert_true(has_view(0) && !has_view(1) && has_view(2));
	look_at(3);
	turn(0);
	assert_true(!has_view(0) && has_view(2) && has_view(3));
	assert_true(opened_now(OPENED_SOURCE_BYTES) +
	    opened_now(OPENED_TAIL_BYTES) <= two);
	/* Handles and writers are not what bytes are wanted from. */
	assert_non_null(handle(1));
	assert_int_equal(rows_of(1), 1);
}

static void
who_is_in_use_stays(void **state)
{
	struct store *s;

	(void)state;
	append(0, "k");
	append(1, "k");
	s = use(0);
	view(s);
	look_at(1);
	cache->bytes_max = 0;
	cache->descriptors_max = 0;
	turn(0);
	assert_true(has_view(0));
	assert_null(handle(1));
	assert_ptr_equal(handle(0), s);
	store_close(s);
	turn(0);
	assert_null(handle(0));
}

/* A list goes on with a view that the cache has let go, and it is counted. */
static void
what_a_list_holds_is_counted(void **state)
{
	struct read_list *l;
	struct store *s;
	uint64_t held;

	(void)state;
	append(0, "k1");
	append(0, "k2");
	s = use(0);
	l = list(s);
	read_close(s);
	held = opened_now(OPENED_SOURCE_BYTES);
	assert_true(held > 0);
	assert_true(opened_now(OPENED_TAIL_BYTES) > 0);
	cache->bytes_max = 0;
	turn(0);
	assert_int_equal(opened_now(OPENED_SOURCE_BYTES), held);
	assert_true(next_row(l) && next_row(l) && !next_row(l));
	read_list_close(l);
	assert_int_equal(opened_now(OPENED_SOURCE_BYTES), 0);
	assert_int_equal(opened_now(OPENED_TAIL_BYTES), 0);
	store_close(s);
}

/* A handle that goes closes its entry, which then can be sealed without a
 * claim; the next append claims anew. */
static void
handles_go_for_descriptors(void **state)
{
	struct shm_point commit;
	struct shm_shard_state *shard;
	struct shm_ref r;
	struct store *s;

	(void)state;
	append(0, "k1");
	s = handle(0);
	assert_non_null(s);
	r = s->ref;
	see_ok(shm_store_pin(r));
	shard = shm_store_shard(r, 0);
	assert_true(opened_now(OPENED_DESCRIPTORS) >= 2);
	cache->descriptors_max = 1;
	turn(0);
	assert_null(handle(0));
	assert_int_equal(opened_now(OPENED_DESCRIPTORS), 0);
	commit = shm_shard_commit(shard);
	assert_int_equal(shm_shard_closed(shard).position, commit.position);
	assert_int_equal(shm_shard_closed(shard).end, commit.end);
	assert_int_equal(shm_shard_claimed(shard).slot, SHM_NOBODY);
	cache->descriptors_max = 100;
	append(0, "k2");
	assert_true(shm_shard_claimed(shard).own);
	assert_int_equal(rows_of(0), 2);
	shm_store_unpin(r);
}

static void
let_time_pass(int k, enum kept what)
{
	handle(k)->kept[what].used_ns = 1;
	cache->look.fire(&cache->look);
}

static void
idle_ones_go(void **state)
{
	(void)state;
	append(0, "k1");
	look_at(0);
	append(1, "k1");
	look_at(1);
	let_time_pass(0, KEPT_VIEW);
	assert_true(!has_view(0) && has_view(1));
	/* Nobody reads an old serial of it any more. */
	assert_true(shm_view_oldest(handle(0)->ref) == UINT64_MAX);
	assert_int_equal(handle(0)->writer->descriptors, 1);
	let_time_pass(0, KEPT_ENTRY);
	assert_int_equal(handle(0)->writer->descriptors, 0);
	assert_int_equal(handle(1)->writer->descriptors, 1);
	append(0, "k2");		/* under the same claim */
	assert_int_equal(rows_of(0), 2);
	look_at(1);
	let_time_pass(0, KEPT_HANDLE);
	assert_null(handle(0));
	assert_non_null(handle(1));
	assert_int_equal(rows_of(0), 2);
}

/* Slots are short: who is not in use goes, from the least used on. */
static void
relief_spares_who_is_in_use(void **state)
{
	struct shm_command c = { .kind = SHM_MAIL_RELIEVE };
	struct shm_slot *slot;
	struct store *s;

	(void)state;
	look_at(0);
	look_at(1);
	s = use(2);
	slot = shm_store_slot(handle(1)->ref);
	atomic_store(&slot->last_used_ns, clock_mono_ns() + NS_PER_SEC);
	c.args[0] = clock_mono_ns();
	assert_true(engine_command(&engine, &c));
	assert_null(handle(0));
	assert_non_null(handle(1));
	assert_ptr_equal(handle(2), s);
	c.args[0] = UINT64_MAX;
	assert_true(engine_command(&engine, &c));
	assert_null(handle(1));
	assert_ptr_equal(handle(2), s);
	store_close(s);
}

/* A load that finds all slots taken waits, and gets one that is given back. */
static void
a_load_waits_for_a_slot(void **state)
{
	struct waiting w = { .wait.done = waited };
	struct shm_ref taken[64];
	uint64_t began = clock_mono_ns();
	uint32_t n = 0;
	char name[32];

	(void)state;
	for (;; n++) {
		struct uuid store = uuid_random(), gone = { 0 };
		struct shm_store_key key = { STORE_ROLLOUT };

		assert_true(n < ARRAY_LEN(taken));
		snprintf(name, sizeof(name), "taken%u", n);
		key.name = slice_of(name);
		if (err_is(shm_store_insert(key, &store, &gone, &taken[n])))
			break;
		see_ok(shm_store_pin(taken[n]));
	}
	store_open(&engine, kind, names[0], &w.wait);
	while (shm_metric_sum(METRIC_memwald_slots_short_total, 0) == 0)
		assert_true(turn(began));
	assert_false(w.done);
	shm_store_unpin(taken[0]);
	see_ok(wait_for(&w));
	store_close(w.wait.store);
	for (; n > 1; n--) {
		shm_store_unpin(taken[n - 1]);
		see_ok(shm_store_evict(taken[n - 1]));
	}
}

/* With nothing kept from one turn to the next, all of it still works. */
static void
all_goes_all_the_time(void **state)
{
	unsigned seed = 7;
	uint64_t want[STORES] = { 0 };
	char key[16];
	int i, k;

	(void)state;
	cache->bytes_max = cache->maps_max = cache->descriptors_max = 0;
	for (i = 0; i < 60; i++) {
		struct waiting a = { .wait.done = waited }, b = a;
		struct store *s;

		/* No descriptor may be had: so there is one while it loads. */
		cache->descriptors_max = 1;
		k = (int)(rand_r(&seed) % STORES);
		snprintf(key, sizeof(key), "k%d", i);
		append(k, key);
		want[k]++;
		s = use(k);
		list_init(&a.wait.link);
		list_init(&b.wait.link);
		read_view(s, &a.wait);		/* a job on the pool */
		turn(0);
		read_view(s, &b.wait);
		see_ok(wait_for(&a));
		see_ok(wait_for(&b));
		store_close(s);
		turn(0);
		assert_null(handle(k));
	}
	cache->descriptors_max = 100;
	for (k = 0; k < STORES; k++)
		assert_int_equal(rows_of(k), want[k]);
}

#define cache_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cache_test(least_used_goes_first),
		cache_test(who_is_in_use_stays),
		cache_test(what_a_list_holds_is_counted),
		cache_test(handles_go_for_descriptors),
		cache_test(idle_ones_go),
		cache_test(relief_spares_who_is_in_use),
		cache_test(a_load_waits_for_a_slot),
		cache_test(all_goes_all_the_time),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
