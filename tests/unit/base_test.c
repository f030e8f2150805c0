#include "store_dir.h"
#include "store_foreign.h"

#include "shm/metric.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/key_write.h"

static struct arena arena;

static struct base *
open_base(const struct base *previous)
{
	struct base *b = NULL;
	struct table *t;

	see_ok(table_load(dir, &arena, &t));
	see_ok(base_open(dir, shape_of(), t, previous, &b));
	return b;
}

/* Each live row is found by its key, once, and so is nothing else. */
static void
see_keys(const struct base *b, uint64_t live)
{
	uint64_t found = 0, i;
	uint32_t k, s, row;

	for (k = 0; k < b->keys_count; k++) {
		for (i = 0; i < key_index_count(b->keys[k].index); i++) {
			struct batch batch;

			if (!base_row(b, &b->keys[k], i, &s, &row))
				continue;
			see_ok(source_read(b->sources[s],
			    (struct span){ row, 1 }, &arena, &batch));
			assert_true(slice_eq(key_index_key(b->keys[k].index, i),
			    array_slice(&batch.columns[ROLLOUT_id], 0)));
			found++;
		}
	}
	assert_int_equal(found, live);
}

static uint32_t
segments(const struct base *b)
{
	uint32_t k, n = 0;

	for (k = 0; k < b->keys_count; k++)
		n += b->keys[k].is_segment;
	return n;
}

static uint64_t
written_bytes(void)
{
	return shm_metric_sum(METRIC_memwald_maintain_written_bytes_total, 0);
}

/* A fragment of another engine, with keys from first on. */
static void
append_rows(uint32_t first, uint32_t count)
{
	struct builder b;
	char key[32];
	uint32_t i;

	rows_begin(&b);
	for (i = 0; i < count; i++) {
		snprintf(key, sizeof(key), "run-%08u", first + i);
		add_row(&b, key, "a", 1);
	}
	sequences_are(&b, NULL);
	foreign_rows(&b);
}

static struct table_index
only_segment(void)
{
	const struct arrow_field *key = &shape_of()->schema.fields[
	    shape_of()->key];
	struct table_index found = { .field_count = 0 };
	struct table *t;
	uint32_t i;

	see_ok(table_load(dir, &arena, &t));
	for (i = 0; i < t->index_count; i++) {
		if (!index_entry_is_segment(t, key, &t->indices[i]))
			continue;
		assert_int_equal(found.field_count, 0);
		found = t->indices[i];
	}
	assert_int_equal(found.field_count, 1);
	table_free(t);
	return found;
}

static void
a_fold_indexes_what_it_adds_and_what_nobody_has(void **state)
{
	struct owner o = own_claim(0);
	struct base *b, *later;

	(void)state;
	append_rows(0, 3);
	b = open_base(NULL);
	assert_int_equal(segments(b), 0);
	see_keys(b, 3);
	generation_with(&o, "k1", "a");
	fold_now(0);
	later = open_base(b);
	assert_int_equal(later->keys_count, 1);
	assert_int_equal(segments(later), 1);
	see_keys(later, 4);
	base_drop(b);

	/* A row goes: the fragment is opened again, its keys are not. */
	generation_with(&o, "run-00000001", "b");
	fold_now(0);
	b = open_base(later);
	assert_int_equal(segments(b), 2);
	assert_ptr_equal(b->keys[0].index, later->keys[0].index);
	see_keys(b, 4);
	/* What was opened lives as long as a base that uses it. */
	base_drop(later);
	see_keys(b, 4);
	base_drop(b);
	see_store("k1=a run-00000000=a run-00000001=b run-00000002=a");
}

/* As if another engine had built it: of all fragments of the newest version,
 * from the keys of one index. */
static const struct key_index *segment_keys;

static struct err
add_segment(const struct table *t, struct arena *a, struct commit_edit *edit,
    void *ctx)
{
	const struct arrow_field *key = &shape_of()->schema.fields[
	    shape_of()->key];
	struct commit_segment *segment = arena_calloc(a, 1, sizeof(*segment));
	uint32_t id = (uint32_t)t->fragments[0].id, copies = *(uint32_t *)ctx, i;
	struct key_input inputs[2];
	struct key_index_paths paths;
	struct key_written written;
	struct deletion *set;

	assert_non_null(segment);
	assert_int_equal(t->fragment_count, 1);
	for (i = 0; i < copies; i++)
		inputs[i] = (struct key_input){ segment_keys, 1, &id };
	segment->uuid = uuid_random();
	segment->field = key->id;
	key_index_paths_segment(&paths, key, &segment->uuid);
	see_ok(key_merge(inputs, copies, dir, &paths, NULL, &written));
	see_ok(index_entry_name(t, key, a, &segment->name));
	see_ok(deletion_new(&set));
	deletion_add(set, id);
	see_ok(deletion_encode(set, a, &segment->fragments));
	deletion_free(set);
	edit->operation = COMMIT_UPDATE;
	edit->segments = segment;
	edit->segment_count = 1;
	return OK;
}

static void
commit_segment(const struct key_index *keys, uint32_t copies)
{
	struct commit_result result;

	segment_keys = keys;
	see_ok(commit_run(dir, add_segment, &copies, &arena, &result));
}

/* The keys of the first rows of the only fragment, as a segment that claims to
 * have all of them. */
static void
commit_keys_of(uint32_t rows, uint32_t copies)
{
	const struct arrow_field *key = &shape_of()->schema.fields[
	    shape_of()->key];
	struct key_build *build;
	struct key_index *ix;
	struct array keys;
	struct base *b = open_base(NULL);

	see_ok(fragment_read_field(b->sources[0]->fragment, key,
	    (struct span){ 0, rows }, &arena, &keys));
	see_ok(key_build_start(1u << 20, &build));
	see_ok(key_build_add(build, &keys));
	see_ok(key_build_end(build, &ix));
	commit_segment(ix, copies);
	key_index_close(ix);
	base_drop(b);
}

static void
a_segment_that_lacks_a_row_is_not_believed(void **state)
{
	struct owner o = own_claim(0);
	struct base *b;

	(void)state;
	append_rows(0, 3);
	commit_keys_of(2, 1);
	b = open_base(NULL);
	assert_int_equal(b->keys_count, 2);	/* one is of no use */
	see_keys(b, 3);
	base_drop(b);
	see_store("run-00000000=a run-00000001=a run-00000002=a");
	generation_with(&o, "k1", "a");
	fold_now(0);
	only_segment();
	b = open_base(NULL);
	assert_int_equal(b->keys_count, 1);
	see_keys(b, 4);
	base_drop(b);
}

static void
a_segment_with_a_row_twice_is_not_believed(void **state)
{
	struct base *b;

	(void)state;
	append_rows(0, 3);
	commit_keys_of(3, 2);
	b = open_base(NULL);
	assert_int_equal(b->useless_count, 1);
	assert_int_equal(segments(b), 0);
	see_keys(b, 3);
	base_drop(b);
}

static struct err
delete_row(const struct table *t, struct arena *a, struct commit_edit *edit,
    void *row)
{
	struct commit_deletion *d = arena_calloc(a, 1, sizeof(*d));
	struct deletion *set;

	assert_non_null(d);
	see_ok(deletion_new(&set));
	deletion_add(set, *(uint32_t *)row);
	d->fragment_id = t->fragments[0].id;
	see_ok(deletion_write(dir, d->fragment_id, t->version, set,
	    &d->deletion));
	deletion_free(set);
	edit->operation = COMMIT_UPDATE;
	edit->deletions = d;
	edit->deletion_count = 1;
	return OK;
}

/* The engine leaves deleted rows out. More may be deleted later; should one
 * come back, the segment is looked at again. */
static void
deleted_rows_may_be_left_out(void **state)
{
	struct owner o = own_claim(0);
	struct commit_result result;
	struct base *b, *later;
	uint32_t row = 2;

	(void)state;
	append_rows(0, 3);
	see_ok(commit_run(dir, delete_row, &row, &arena, &result));
	commit_keys_of(2, 1);
	b = open_base(NULL);
	assert_int_equal(b->keys_count, 1);
	assert_int_equal(segments(b), 1);
	see_keys(b, 2);
	generation_with(&o, "run-00000001", "b");
	fold_now(0);
	later = open_base(b);
	assert_int_equal(later->keys_count, 2);
	assert_ptr_equal(later->keys[0].index, b->keys[0].index);
	see_keys(later, 2);
	see_store("run-00000000=a run-00000001=b");
	base_drop(later);
	row = 0;
	see_ok(commit_run(dir, delete_row, &row, &arena, &result));
	later = open_base(b);
	assert_int_equal(later->keys_count, 3);
	assert_int_equal(segments(later), 2);	/* one is of no use */
	see_keys(later, 3);
	base_drop(b);
	base_drop(later);
}

static void
damage_is_mended_by_the_next_fold(void **state)
{
	static const char *const names[] = { "page_data.lance",
	    "page_lookup.lance" };
	struct owner o = own_claim(0);
	char path[128], text[UUID_TEXT_LEN + 1], key[8];
	struct table_index segment;
	struct base *b;
	uint32_t i, way, rows = 0;
	int fd;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (way = 0; way < 3; way++) {
			snprintf(key, sizeof(key), "k%u", rows++);
			generation_with(&o, key, "a");
			fold_now(0);
			b = open_base(NULL);
			assert_int_equal(b->useless_count, 0);
			see_keys(b, rows);
			segment = b->table->indices[b->table->index_count - 1];
			uuid_to_text(&segment.uuid, text);
			base_drop(b);
			snprintf(path, sizeof(path), "_indices/%s/%s", text,
			    names[i]);
			fd = open_file(path);
			if (way == 0)
				see_ok(object_delete(dir, path));
			else
				assert_int_equal(way == 1 ? ftruncate(fd, 60) :
				    pwrite(fd, "\x7f\x7f", 2, 0) - 2, 0);
			close(fd);
			b = open_base(NULL);
			assert_int_equal(b->useless_count, way == 2 && i == 1 ?
			    0 : 1);
			see_keys(b, rows);
			base_drop(b);
		}
	}
	snprintf(key, sizeof(key), "k%u", rows++);
	generation_with(&o, key, "a");
	fold_now(0);
	b = open_base(NULL);
	assert_int_equal(b->useless_count, 0);
	assert_int_equal(segments(b), b->keys_count);
	see_keys(b, rows);
	base_drop(b);
}

static void
segments_stay_few(void **state)
{
	struct owner o = own_claim(0);
	struct base *b = NULL, *before;
	char key[8];
	uint32_t i;

	(void)state;
	for (i = 0; i < 33; i++) {
		snprintf(key, sizeof(key), "k%02u", i);
		generation_with(&o, key, "a");
		fold_now(0);
		before = b;
		b = open_base(before);
		base_drop(before);
		assert_true(segments(b) <= 6);
		assert_int_equal(b->keys_count, segments(b));
	}
	see_keys(b, 33);
	base_drop(b);
}

/* With LONG=1 up to a million rows, and printed. */
static void
a_fold_does_not_grow_with_the_base(void **state)
{
	uint32_t most = getenv("LONG") != NULL ? 1000000 : 20000, size, i;
	struct owner o = own_claim(0);
	uint64_t before, first, bytes;
	uint32_t rows = 0;
	char key[16];

	(void)state;
	for (size = 10000; size <= most; size *= size == 10000 &&
	    most == 20000 ? 2 : 10) {
		for (; rows < size; rows += 10000)
			append_rows(rows, 10000);
		snprintf(key, sizeof(key), "k%u", size);
		before = written_bytes();
		generation_with(&o, key, "a");
		fold_now(0);
		first = written_bytes() - before;
		for (i = 0; i < 3; i++) {
			before = written_bytes();
			snprintf(key, sizeof(key), "k%u-%u", size, i);
			generation_with(&o, key, "a");
			fold_now(0);
			bytes = written_bytes() - before;
			assert_true(bytes < 100000);
		}
		print_message("base %u rows: fold that indexes what another "
		    "engine added %llu bytes, fold of one row %llu bytes\n",
		    size, (unsigned long long)first, (unsigned long long)bytes);
	}
}

static int
group(void **state)
{
	arena_init(&arena, 1u << 30);
	return store_group(state);
}

static int
group_end(void **state)
{
	arena_free(&arena);
	return store_group_end(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(a_fold_indexes_what_it_adds_and_what_nobody_has),
		store_test(a_segment_that_lacks_a_row_is_not_believed),
		store_test(a_segment_with_a_row_twice_is_not_believed),
		store_test(deleted_rows_may_be_left_out),
		store_test(damage_is_mended_by_the_next_fold),
		store_test(segments_stay_few),
		store_test(a_fold_does_not_grow_with_the_base),
	};

	return cmocka_run_group_tests(tests, group, group_end);
}
