#include "store_dir.h"

#include "worker/store/pin.h"

static struct shm_readers readers;

static struct snapshot *
take(struct snapshot *previous)
{
	struct snapshot *s;

	see_ok(snapshot_take(dir, shape_of(), ref, &readers, previous, &s));
	return s;
}

static int
begin(void **state)
{
	shm_readers_init(&readers);
	return fresh_store(state);
}

static int
end(void **state)
{
	/* Whoever forgets to drop one is found here. */
	shm_readers_free(&readers);
	return store_gone(state);
}

static void
an_empty_store(void **state)
{
	struct snapshot *s = take(NULL);

	(void)state;
	assert_int_equal(s->shard_count, 0);
	assert_int_equal(s->base->source_count, 0);
	assert_true(snapshot_is_current(s));
	assert_int_equal(shm_view_oldest(ref), s->view.serial);
	snapshot_drop(s);
	snapshot_drop(NULL);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

static void
the_view_is_held_once(void **state)
{
	struct snapshot *s = take(NULL);
	uint64_t serial = s->view.serial;

	(void)state;
	snapshot_hold(s);
	snapshot_drop(s);
	assert_int_equal(shm_view_oldest(ref), serial);
	see_error(shm_store_evict(ref), BUSY);
	snapshot_drop(s);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

static void
what_is_still_named_is_taken_over(void **state)
{
	struct owner a = own_claim(0);
	struct snapshot *first, *second, *third;

	(void)state;
	generation_with(&a, "k1", "a");
	fold_now(0);
	generation_with(&a, "k2", "b");
	first = take(NULL);
	assert_true(snapshot_is_current(first));
	generation_with(&a, "k3", "c");
	assert_false(snapshot_is_current(first));
	second = take(first);
	assert_ptr_equal(second->base, first->base);
	assert_int_equal(second->shards[0].source_count, 2);
	assert_ptr_equal(second->shards[0].sources[0],
	    first->shards[0].sources[0]);
	assert_ptr_not_equal(second->shards[0].sources[1],
	    first->shards[0].sources[0]);
	assert_int_equal(snapshot_pending(second).most, 2);
	assert_int_equal(snapshot_pending(second).sum, 2);
	snapshot_drop(first);
	/* After a fold the old fragment is, and the generations are gone. */
	fold_now(0);
	third = take(second);
	assert_ptr_not_equal(third->base, second->base);
	assert_int_equal(third->base->source_count, 2);
	assert_ptr_equal(third->base->sources[0], second->base->sources[0]);
	assert_int_equal(third->shards[0].source_count, 0);
	snapshot_drop(second);
	snapshot_drop(third);
}

/* A fragment that lost rows is another one. */
static void
new_deletions_are_seen(void **state)
{
	struct owner a = own_claim(0);
	struct snapshot *first, *second;

	(void)state;
	generation_with(&a, "k1", "a");
	see_ok(own_rotate(&a, "k2", "a"));
	see_ok(own_put(&a, "k3", "a"));
	own_close(&a);
	seal_now(0);
	fold_now(0);
	first = take(NULL);
	generation_with(&a, "k2", "b");
	fold_now(0);
	second = take(first);
	assert_ptr_not_equal(second->base->sources[0],
	    first->base->sources[0]);
	assert_int_equal(deletion_count(
	    second->base->sources[0]->fragment->deletion), 1);
	assert_null(first->base->sources[0]->fragment->deletion);
	snapshot_drop(first);
	snapshot_drop(second);
}

/* Another engine overwrote the table: the id comes again, with other files. */
static void
the_same_id_with_other_files(void **state)
{
	struct owner a = own_claim(0);
	struct table *was, *is;
	struct table_fragment f;
	struct table_file file;
	struct base *first, *second;
	struct arena arena;

	(void)state;
	generation_with(&a, "k1", "a");
	fold_now(0);
	generation_with(&a, "k2", "b");
	fold_now(0);
	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &was));
	see_ok(table_load(dir, &arena, &is));
	assert_int_equal(is->fragment_count, 2);
	f = is->fragments[0];
	file = f.files[0];
	file.path = is->fragments[1].files[0].path;
	file.size_bytes = is->fragments[1].files[0].size_bytes;
	f.files = &file;
	is->fragments = &f;
	is->fragment_count = 1;
	see_ok(base_open(dir, shape_of(), was, NULL, &first));
	see_ok(base_open(dir, shape_of(), is, first, &second));
	assert_ptr_not_equal(second->sources[0], first->sources[0]);
	base_drop(first);
	base_drop(second);
	base_drop(NULL);
	arena_free(&arena);
}

/* A manifest that named a generation was taken back, and another sealed that
 * number. */
static struct err
rename_generation(struct shard_manifest *m, struct arena *arena, bool *stands,
    void *ctx)
{
	struct shard_generation *g = arena_calloc(arena, 1, sizeof(*g));

	*stands = false;
	assert_non_null(g);
	*g = m->generations[0];
	g->directory = slice_of(ctx);
	m->generations = g;
	m->generation_count = 1;
	return OK;
}

static void
the_same_number_in_another_directory(void **state)
{
	struct owner a = own_claim(0);
	struct snapshot *first, *second;
	struct shard_manifest m;
	struct arena arena;
	char *other;

	(void)state;
	generation_with(&a, "k1", "a");
	generation_with(&a, "k2", "b");
	m = manifest_of(&a.shard);
	other = strndup(m.generations[1].directory.ptr,
	    m.generations[1].directory.len);
	first = take(NULL);
	arena_init(&arena, 1u << 20);
	see_ok(shard_manifest_change(dir, &a.shard, rename_generation, other,
	    &arena, &m));
	{
		struct shm_view_mark mark = { 0, shm_shard_marks(a.state) };

		mark.marks.version = m.version;
		see_ok(shm_view_raise(ref, 0, &mark, 1, NULL));
	}
	second = take(first);
	assert_int_equal(second->shards[0].source_count, 1);
	assert_ptr_not_equal(second->shards[0].sources[0],
	    first->shards[0].sources[0]);
	snapshot_drop(first);
	snapshot_drop(second);
	arena_free(&arena);
	free(other);
}

/* In the base already, not yet drained: left out. */
static void
folded_generations_are_left_out(void **state)
{
	struct owner a = own_claim(0);
	struct snapshot *s;

	(void)state;
	generation_with(&a, "k1", "a");
	die_in(SHM_MAINTAINER, "fold_drain=die:1", fold_first_shard, NULL);
	see_ok(reload_others(dir, kind, ref));
	s = take(NULL);
	assert_int_equal(s->base->source_count, 1);
	assert_int_equal(s->shards[0].source_count, 0);
	assert_int_equal(s->shards[0].manifest.generation_count, 1);
	snapshot_drop(s);
	see_store("k1=a");
}

static void
a_pinned_version_is_read_alone(void **state)
{
	struct owner a = own_claim(0);
	struct snapshot *s;
	uint64_t version, base;
	struct arena arena;

	(void)state;
	arena_init(&arena, 1u << 20);
	generation_with(&a, "k1", "a");
	fold_now(0);
	see_ok(table_newest(dir, &version));
	generation_with(&a, "k2", "b");
	fold_now(0);
	generation_with(&a, "k3", "c");
	see_ok(pin_change(dir, ref, version, &arena, &base));
	assert_int_equal(base, version + 2);
	s = take(NULL);
	assert_int_equal(s->base->table->version, version);
	assert_int_equal(s->base->source_count, 1);
	assert_int_equal(s->shard_count, 0);
	snapshot_drop(s);
	see_error(pin_change(dir, ref, base + 1, &arena, &base), NOT_FOUND);
	see_ok(pin_change(dir, ref, 0, &arena, &base));
	see_store("k1=a k2=b k3=c");
	arena_free(&arena);
}

static void
a_stale_or_gone_file(void **state)
{
	struct owner a = own_claim(0);
	struct snapshot *s;
	struct shard_manifest m;
	char path[512], directory[128];
	uint32_t before;

	(void)state;
	see_ok(shm_store_stale(ref));
	see_error(snapshot_take(dir, shape_of(), ref, &readers, NULL, &s),
	    UNAVAILABLE);
	see_ok(reload_slot(dir, kind, ref));
	generation_with(&a, "k1", "a");
	fold_now(0);
	generation_with(&a, "k2", "b");
	m = manifest_of(&a.shard);
	shard_directory_name(&a.shard, directory);
	snprintf(path, sizeof(path), "%s/%.*s", directory,
	    (int)m.generations[0].directory.len,
	    m.generations[0].directory.ptr);
	/* What is open is not needed again. */
	s = take(NULL);
	see_ok(object_delete_tree(dir, path));
	before = descriptors();
	see_error(snapshot_take(dir, shape_of(), ref, &readers, NULL,
	    &(struct snapshot *){ NULL }), NOT_FOUND);
	assert_int_equal(descriptors(), before);
	assert_int_equal(shm_view_oldest(ref), s->view.held);
	snapshot_drop(s);
	assert_true(shm_view_oldest(ref) == UINT64_MAX);
}

/* Views grow with other instances' shards. */
static void
more_shards_than_a_first_guess(void **state)
{
	struct snapshot *s;
	struct uuid shard;
	uint32_t number;
	int i;

	(void)state;
	for (i = 0; i < 50; i++) {
		struct shm_view_mark mark = { 0 };
		struct shard_manifest m;
		struct arena arena;
		struct claim c;

		shard = uuid_random();
		see_ok(shm_store_shard_add(ref, &shard, &number));
		arena_init(&arena, 1u << 20);
		if (i == 0 || i == 49) {
			see_ok(claim_shard(dir, &shard, &shape_of()->schema,
			    &c));
			wal_writer_close(&c.entry);
			see_ok(shard_manifest_load(dir, &shard, &arena, &m));
			mark.shard = number;
			mark.marks.version = m.version;
			see_ok(shm_view_raise(ref, 0, &mark, 1, NULL));
		} else {
			shm_shard_raise(shm_store_shard(ref, number),
			    (struct shm_point){ 1, 8 });
		}
		arena_free(&arena);
	}
	s = take(NULL);
	assert_int_equal(s->shard_count, 50);
	snapshot_drop(s);
}

#define snapshot_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		snapshot_test(an_empty_store),
		snapshot_test(the_view_is_held_once),
		snapshot_test(what_is_still_named_is_taken_over),
		snapshot_test(new_deletions_are_seen),
		snapshot_test(the_same_id_with_other_files),
		snapshot_test(the_same_number_in_another_directory),
		snapshot_test(folded_generations_are_left_out),
		snapshot_test(a_pinned_version_is_read_alone),
		snapshot_test(a_stale_or_gone_file),
		snapshot_test(more_shards_than_a_first_guess),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
