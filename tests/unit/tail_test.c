#include "store_dir.h"

#include "common/hash.h"
#include "worker/store/row.h"
#include "worker/store/tail_cache.h"

static struct tail *
new_tail(const struct owner *o)
{
	struct tail *t;

	see_ok(tail_new(shape_of(), &o->shard, &t));
	return t;
}

static struct shm_point
end_of(const struct owner *o)
{
	return (struct shm_point){ o->entry.position, o->entry.end };
}

static void
follow(struct tail *t, uint64_t after, const struct owner *o)
{
	see_ok(tail_follow(t, dir, after, end_of(o)));
}

static const char *
find(const struct tail *t, const char *key, uint64_t after)
{
	static char text[TEXT_MAX_BYTES];
	struct slice k = slice_of(key);
	struct tail_row row;
	struct batch batch;
	struct arena arena;

	if (!tail_find(t, k, hash_bytes(k.ptr, k.len), after, &row))
		return "none";
	assert_true(slice_eq(row.key, k));
	arena_init(&arena, 1u << 20);
	see_ok(tail_read(row.batch, shape_of(), &arena, &batch));
	assert_true(slice_eq(array_slice(&batch.columns[ROLLOUT_id], row.row),
	    k));
	assert_int_equal(array_int(&batch.columns[ROLLOUT__seq], row.row),
	    row.batch->sequence);
	copy_text(text, array_slice(&batch.columns[ROLLOUT_content], row.row));
	arena_free(&arena);
	return text;
}

/* What a list makes of it. */
static void
list_of(const struct tail_sorted *s, struct seen *seen)
{
	struct merge *m;

	*seen = (struct seen){ 0 };
	see_ok(merge_new(shape_of(), s->run_count, &m));
	merge_add_tail(m, s);
	see_rows(m, seen);
	merge_free(m);
}

/* "k1=a k2=b" */
static void
see_sorted(const struct tail_sorted *s, const char *want)
{
	char got[2048] = "";
	struct seen seen;
	uint32_t i;

	list_of(s, &seen);
	for (i = 0; i < seen.count; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got),
		    "%s%s=%s", i > 0 ? " " : "", seen.rows[i].key,
		    seen.rows[i].text);
	assert_string_equal(got, want);
}

static void
see_tail(const struct tail *t, uint64_t after, const char *want)
{
	struct tail_sorted s;

	see_ok(tail_sort(t, after, &s));
	see_sorted(&s, want);
	tail_sorted_free(&s);
}

static void
empty_tail(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);

	(void)state;
	see_ok(tail_follow(t, dir, 0, (struct shm_point){ 0, 0 }));
	assert_string_equal(find(t, "k1", 0), "none");
	see_tail(t, 0, "");
	tail_trim(t, 7);
	assert_int_equal(tail_behind(t, (struct shm_point){ 0, 0 }), 0);
	tail_free(t);
	tail_free(NULL);
	own_end(&o);
}

static void
follows_what_is_published_and_no_more(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	struct shm_point first;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	first = end_of(&o);
	see_ok(own_write(&o, "k2", "written"));
	see_ok(tail_follow(t, dir, 0, first));
	see_tail(t, 0, "k1=a");
	see_ok(own_acknowledge(&o));
	assert_int_equal(tail_behind(t, end_of(&o)),
	    o.entry.end - first.end);
	see_ok(own_put(&o, "k1", "b"));
	follow(t, 0, &o);
	assert_int_equal(tail_behind(t, end_of(&o)), 0);
	see_tail(t, 0, "k1=b k2=written");
	assert_string_equal(find(t, "k1", 0), "b");
	assert_string_equal(find(t, "k2", 0), "written");
	assert_string_equal(find(t, "k3", 0), "none");
	assert_int_equal(tail_rows(t), 3);
	/* Again, and to an older point: nothing. */
	follow(t, 0, &o);
	see_ok(tail_follow(t, dir, 0, first));
	assert_int_equal(tail_rows(t), 3);
	tail_free(t);
	own_end(&o);
}

static void
rotations_and_sentinels_between(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0), c = owner_of(0);
	struct tail *late = new_tail(&a), *t = new_tail(&a);

	(void)state;
	see_ok(own_put(&a, "k1", "1"));
	follow(t, 0, &a);
	see_ok(own_put(&a, "k2", "2"));
	see_ok(own_rotate(&a, "k3", "3"));
	see_ok(own_rotate(&a, "k1", "4"));
	follow(t, 0, &a);
	see_tail(t, 0, "k1=4 k2=2 k3=3");
	/* Two claims without a row, then one with some. */
	see_ok(own_take(&b));
	see_ok(own_take(&c));
	own_announce(&c);
	see_ok(own_put(&c, "k2", "5"));
	follow(t, 0, &c);
	see_tail(t, 0, "k1=4 k2=5 k3=3");
	/* Who begins now sees the same. */
	follow(late, 0, &c);
	see_tail(late, 0, "k1=4 k2=5 k3=3");
	assert_int_equal(tail_rows(late), tail_rows(t));
	tail_free(t);
	tail_free(late);
	own_end(&a);
	own_end(&b);
	own_end(&c);
}

/* What the old owner wrote behind the end that its successor recorded. */
static void
nothing_behind_a_recorded_end(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	struct tail *t = new_tail(&a);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	see_ok(own_take(&b));
	own_announce(&b);
	see_ok(own_write(&a, "k2", "late"));
	see_ok(own_put(&b, "k3", "b"));
	follow(t, 0, &b);
	see_tail(t, 0, "k1=a k3=b");
	tail_free(t);
	own_end(&a);
	own_end(&b);
}

/* A tail that followed an entry to the published end goes on to the recorded
 * one, which may be more. */
static void
a_recorded_end_may_be_more_than_the_published(void **state)
{
	struct owner a = own_claim(0), b = owner_of(0);
	struct tail *t = new_tail(&a);

	(void)state;
	see_ok(own_put(&a, "k1", "a"));
	follow(t, 0, &a);
	see_ok(own_write(&a, "k2", "not answered"));
	see_ok(own_take(&b));
	own_announce(&b);
	see_ok(own_put(&b, "k3", "b"));
	follow(t, 0, &b);
	see_tail(t, 0, "k1=a k2=not answered k3=b");
	tail_free(t);
	own_end(&a);
	own_end(&b);
}

static void
trimmed_entries_are_forgotten(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	uint64_t first;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k2", "a"));
	first = o.entry.position;
	see_ok(own_rotate(&o, "k2", "b"));
	see_ok(own_put(&o, "k3", "b"));
	follow(t, 0, &o);
	/* Of an older view as well as of its own. */
	see_tail(t, first, "k2=b k3=b");
	assert_string_equal(find(t, "k1", first), "none");
	assert_string_equal(find(t, "k1", 0), "a");
	tail_trim(t, first - 1);
	assert_int_equal(tail_rows(t), 4);
	tail_trim(t, first);
	assert_int_equal(tail_rows(t), 2);
	see_tail(t, first, "k2=b k3=b");
	assert_string_equal(find(t, "k1", 0), "none");
	assert_string_equal(find(t, "k2", first), "b");
	see_ok(own_put(&o, "k1", "c"));
	follow(t, first, &o);
	see_tail(t, first, "k1=c k2=b k3=b");
	tail_trim(t, o.entry.position);
	see_tail(t, o.entry.position, "");
	assert_int_equal(tail_rows(t), 0);
	/* A view of before is behind it now, and starts again from there. */
	follow(t, first, &o);
	see_tail(t, first, "k1=c k2=b k3=b");
	tail_free(t);
	own_end(&o);
}

/* A list goes on with what it has, whatever is trimmed or comes meanwhile. */
static void
sorted_lists_hold_their_entries(void **state)
{
	uint32_t before = descriptors();
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	struct tail_sorted s;
	char key[16];
	int i;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_rotate(&o, "k2", "b"));
	follow(t, 0, &o);
	see_ok(tail_sort(t, 0, &s));
	for (i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "n%d", i);
		see_ok(own_put(&o, key, "n"));
		follow(t, 0, &o);
	}
	tail_trim(t, o.entry.position);
	see_sorted(&s, "k1=a k2=b");
	tail_free(t);
	see_sorted(&s, "k1=a k2=b");
	tail_sorted_free(&s);
	own_end(&o);
	assert_int_equal(descriptors(), before);
}

/* Each list sorts what came since the last one: the older ones stay as they
 * were, and a key's rows stand in the order in which they were written. */
static void
lists_one_after_the_other(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	struct tail_sorted s[4];

	(void)state;
	see_ok(own_put(&o, "k2", "1"));
	follow(t, 0, &o);
	see_ok(tail_sort(t, 0, &s[0]));
	see_ok(own_put(&o, "k1", "2"));
	see_ok(own_put(&o, "k2", "2"));
	follow(t, 0, &o);
	see_ok(tail_sort(t, 0, &s[1]));
	see_ok(tail_sort(t, 0, &s[2]));
	assert_ptr_equal(s[1].runs[0], s[2].runs[0]);
	see_ok(own_put(&o, "k2", "0"));
	see_ok(own_put(&o, "k0", "3"));
	see_ok(own_put(&o, "k3", "3"));
	follow(t, 0, &o);
	see_ok(tail_sort(t, 0, &s[3]));
	tail_free(t);
	see_sorted(&s[0], "k2=1");
	see_sorted(&s[1], "k1=2 k2=2");
	see_sorted(&s[2], "k1=2 k2=2");
	see_sorted(&s[3], "k0=3 k1=2 k2=0 k3=3");
	tail_sorted_free(&s[0]);
	tail_sorted_free(&s[1]);
	tail_sorted_free(&s[2]);
	tail_sorted_free(&s[3]);
	own_end(&o);
}

/* The table grows, keys come again: each stands once, with its newest row. */
static void
many_keys(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	static struct seen seen;
	struct tail_sorted s;
	char key[16], text[16];
	struct builder b;
	uint64_t k;
	int i, round;

	(void)state;
	for (round = 0; round < 3; round++) {
		rows_begin(&b);
		for (i = 0; i < 300; i++) {
			snprintf(key, sizeof(key), "k%03d",
			    i / (round + 1));
			snprintf(text, sizeof(text), "%d.%d", round, i);
			add_row(&b, key, text, 1);
		}
		if (round > 0) {
			struct wal_start start = {
			    .position = o.entry.position + 1,
			    .epoch = 1, .size_bytes = 1u << 20,
			    .closes = { o.entry.position, o.entry.end } };

			own_end(&o);
			see_ok(wal_entry_start(dir, &o.shard,
			    &shape_of()->schema, &start, &o.entry));
		} else {
			o.entry.size_bytes = UINT64_MAX;
		}
		see_ok(own_write_rows(&o, &b));
		builder_free(&b);
		see_ok(own_acknowledge(&o));
		follow(t, 0, &o);
	}
	assert_int_equal(tail_rows(t), 900);
	see_ok(tail_sort(t, 0, &s));
	assert_int_equal(s.run_count, 3);
	list_of(&s, &seen);
	assert_int_equal(seen.count, 300);
	for (k = 1; k < seen.count; k++)
		assert_true(strcmp(seen.rows[k - 1].key, seen.rows[k].key) <
		    0);
	tail_sorted_free(&s);
	assert_string_equal(find(t, "k000", 0), "2.2");
	assert_string_equal(find(t, "k099", 0), "2.299");
	assert_string_equal(find(t, "k100", 0), "1.201");
	assert_string_equal(find(t, "k299", 0), "0.299");
	assert_true(tail_bytes(t) > 900 * 4);
	tail_trim(t, o.entry.position - 1);
	assert_int_equal(tail_rows(t), 300);
	assert_string_equal(find(t, "k099", 0), "2.299");
	assert_string_equal(find(t, "k299", 0), "none");
	tail_free(t);
	own_end(&o);
}

static void
spoil(const struct owner *o, uint64_t position, uint64_t offset)
{
	int fd = open_wal(&o->shard, position);

	assert_int_equal(pwrite(fd, "XXXX", 4, (off_t)offset), 4);
	close(fd);
}

static void
damaged_commits_cost_their_rows_alone(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	uint64_t second;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	second = o.entry.end;
	see_ok(own_put(&o, "k2", "b"));
	see_ok(own_put(&o, "k3", "c"));
	spoil(&o, o.entry.position, second + 1000);
	follow(t, 0, &o);
	see_tail(t, 0, "k1=a k3=c");
	/* It is not read again and again. */
	follow(t, 0, &o);
	assert_int_equal(tail_rows(t), 2);
	see_ok(own_put(&o, "k4", "d"));
	follow(t, 0, &o);
	see_tail(t, 0, "k1=a k3=c k4=d");
	tail_free(t);
	own_end(&o);
}

static void
cut_entries_are_served_as_far_as_they_go(void **state)
{
	static const uint64_t cuts[] = { 0, 1, 100 };
	struct owner o = own_claim(0);
	uint64_t first;
	size_t i;
	int fd;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	first = o.entry.end;
	see_ok(own_put(&o, "k2", "b"));
	see_ok(own_rotate(&o, "k3", "c"));
	for (i = 0; i < ARRAY_LEN(cuts); i++) {
		struct tail *t = new_tail(&o);

		fd = open_wal(&o.shard, o.entry.position - 1);
		assert_int_equal(ftruncate(fd, (off_t)(first + cuts[i])), 0);
		close(fd);
		follow(t, 0, &o);
		see_tail(t, 0, "k1=a k3=c");
		tail_free(t);
	}
	/* In the middle of the head: nothing of it is left. */
	fd = open_wal(&o.shard, o.entry.position - 1);
	assert_int_equal(ftruncate(fd, 100), 0);
	close(fd);
	see_store("k3=c");
	forget_all();
	see_store("k3=c");
	own_end(&o);
}

/* Its head is not to be read, but whole batches lie behind it. */
static void
without_a_head_the_batches_are_found(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(own_put(&o, "k2", "b"));
	spoil(&o, o.entry.position, 8);
	follow(t, 0, &o);
	see_tail(t, 0, "k1=a k2=b");
	tail_free(t);
	own_end(&o);
	forget_all();
	see_store("k1=a k2=b");
}

/* The entry before it had an end that cannot be read now. */
static void
a_head_with_closes_is_damaged(void **state)
{
	struct owner o = own_claim(0);
	uint64_t end;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	end = o.entry.end;
	see_ok(own_rotate(&o, "k2", "b"));
	spoil(&o, o.entry.position, 8);
	assert_int_equal(wal_of(&o.shard, o.entry.position - 2).spans[0].end,
	    end);
	see_store("k1=a k2=b");
	forget_all();
	see_store("k1=a k2=b");
	own_end(&o);
}

static void
a_missing_entry_asks_for_a_newer_view(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o), *late = new_tail(&o);
	char path[WAL_PATH_MAX];

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	follow(t, 0, &o);
	see_ok(own_rotate(&o, "k2", "b"));
	wal_path(&o.shard, o.entry.position - 1, path);
	see_ok(object_delete(dir, path));
	see_error(tail_follow(late, dir, 0, end_of(&o)), NOT_FOUND);
	see_error(tail_follow(t, dir, 0, end_of(&o)), NOT_FOUND);
	tail_free(t);
	tail_free(late);
	own_end(&o);
}

/* A point in the entry that is being made: its file must be there. */
static void
a_point_beyond_all_entries(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_error(tail_follow(t, dir, 0, (struct shm_point){
	    o.entry.position + 3, 8 }), NOT_FOUND);
	tail_free(t);
	own_end(&o);
}

/* Many at once: none pushes another out. */
static void
a_kept_batch_is_not_read_again(void **state)
{
	struct owner o = own_claim(0);
	struct tail *t = new_tail(&o);
	const struct batch *batch;
	struct tail_row rows[20];
	struct tail_cache *c;
	char key[16];
	uint32_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		snprintf(key, sizeof(key), "k%u", i);
		see_ok(own_put(&o, key, "a"));
	}
	follow(t, 0, &o);
	see_ok(tail_cache_new(&c));
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct slice k;

		snprintf(key, sizeof(key), "k%u", i);
		k = slice_of(key);
		assert_true(tail_find(t, k, hash_bytes(k.ptr, k.len), 0,
		    &rows[i]));
		see_ok(tail_cache_read(c, rows[i].batch, shape_of(), &batch));
	}
	for (i = 0; i < ARRAY_LEN(rows); i++)
		spoil(&o, rows[i].batch->position, rows[i].batch->offset);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		see_ok(tail_cache_read(c, rows[i].batch, shape_of(), &batch));
		assert_true(slice_eq(array_slice(&batch->columns[ROLLOUT_id],
		    rows[i].row), rows[i].key));
	}
	tail_cache_clear(c);
	see_error(tail_cache_read(c, rows[0].batch, shape_of(), &batch),
	    CORRUPT);
	tail_cache_free(c);
	tail_free(t);
	own_end(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(empty_tail),
		store_test(follows_what_is_published_and_no_more),
		store_test(rotations_and_sentinels_between),
		store_test(nothing_behind_a_recorded_end),
		store_test(a_recorded_end_may_be_more_than_the_published),
		store_test(trimmed_entries_are_forgotten),
		store_test(sorted_lists_hold_their_entries),
		store_test(lists_one_after_the_other),
		store_test(many_keys),
		store_test(damaged_commits_cost_their_rows_alone),
		store_test(cut_entries_are_served_as_far_as_they_go),
		store_test(without_a_head_the_batches_are_found),
		store_test(a_head_with_closes_is_damaged),
		store_test(a_missing_entry_asks_for_a_newer_view),
		store_test(a_point_beyond_all_entries),
		store_test(a_kept_batch_is_not_read_again),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
