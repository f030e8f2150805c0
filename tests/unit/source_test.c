#include "store_dir.h"
#include "store_foreign.h"

#include "worker/lance/bloom.h"

static struct source *
generation(const struct owner *o, uint32_t i)
{
	struct shard_manifest m = manifest_of(&o->shard);
	struct source *s;

	see_ok(source_open_generation(dir, shape_of(), &o->shard,
	    &m.generations[i], &s));
	return s;
}

static void
see_row_by(const struct source *s, const struct key_index *index,
    const char *key, const char *text, int64_t sequence)
{
	struct slice k = slice_of(key);
	struct batch batch;
	struct arena arena;
	struct span at;
	int64_t is;

	arena_init(&arena, 1u << 20);
	assert_true(key_index_find(index, k, bloom_hash(k), &at));
	assert_int_equal(at.count, 1);
	see_ok(source_sequence(s, key_index_row(index, at.first), &arena,
	    &is));
	assert_int_equal(is, sequence);
	see_ok(source_read(s, (struct span){ key_index_row(index, at.first), 1 },
	    &arena, &batch));
	assert_int_equal(batch.schema->field_count,
	    shape_of()->schema.field_count);
	assert_true(slice_eq(array_slice(&batch.columns[ROLLOUT_id], 0), k));
	assert_true(slice_eq(array_slice(&batch.columns[ROLLOUT_content], 0),
	    slice_of(text)));
	arena_free(&arena);
}

static void
see_row(const struct source *s, const char *key, const char *text,
    int64_t sequence)
{
	see_row_by(s, s->index, key, text, sequence);
}

static void
a_generation(void **state)
{
	struct owner o = own_claim(0);
	struct source *s;

	(void)state;
	generation_with(&o, "k1", "a");
	s = generation(&o, 0);
	assert_true(s->is_generation);
	assert_int_equal(s->number, 1);
	see_row(s, "k1", "a", (int64_t)o.sequence);
	assert_ptr_equal(source_hold(s), s);
	source_drop(s);
	/* Unlinked files stay readable while it is open. */
	{
		char path[512];
		struct shard_manifest m = manifest_of(&o.shard);

		shard_directory_name(&o.shard, path);
		snprintf(path + strlen(path), sizeof(path) - strlen(path),
		    "/%.*s", (int)m.generations[0].directory.len,
		    m.generations[0].directory.ptr);
		see_ok(object_delete_tree(dir, path));
		see_row(s, "k1", "a", (int64_t)o.sequence);
		source_drop(s);
		see_error(source_open_generation(dir, shape_of(), &o.shard,
		    &m.generations[0], &s), NOT_FOUND);
	}
	source_drop(NULL);
}

/* Every byte of each file of a generation's index, damaged in turn: the row is
 * found all the same. */
static void
an_index_is_made_when_there_is_none(void **state)
{
	static const char *const names[] = { "_pk_index/page_data.lance",
	    "_pk_index/page_lookup.lance", "bloom_filter.bin" };
	struct owner o = own_claim(0);
	struct shard_manifest m;
	char folder[256], path[512], byte;
	uint32_t before, i;
	struct source *s;
	off_t at, size;
	int fd;

	(void)state;
	generation_with(&o, "k1", "a");
	m = manifest_of(&o.shard);
	shard_directory_name(&o.shard, folder);
	before = descriptors();
	for (i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%.*s/%s", folder,
		    (int)m.generations[0].directory.len,
		    m.generations[0].directory.ptr, names[i]);
		fd = open_file(path);
		size = lseek(fd, 0, SEEK_END);
		for (at = 0; at < size; at += i == 2 ? 1 : 7) {
			assert_int_equal(pread(fd, &byte, 1, at), 1);
			if (i == 2 && byte == 0)
				continue;
			byte ^= (char)0xff;
			assert_int_equal(pwrite(fd, &byte, 1, at), 1);
			s = generation(&o, 0);
			see_row(s, "k1", "a", (int64_t)o.sequence);
			source_drop(s);
			byte ^= (char)0xff;
			assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		}
		assert_int_equal(ftruncate(fd, 50), 0);
		close(fd);
		s = generation(&o, 0);
		see_row(s, "k1", "a", (int64_t)o.sequence);
		source_drop(s);
		see_ok(object_delete(dir, path));
		s = generation(&o, 0);
		see_row(s, "k1", "a", (int64_t)o.sequence);
		source_drop(s);
	}
	assert_int_equal(descriptors(), before);
}

static void
rows_without_a_sequence(void **state)
{
	struct arena arena;
	struct builder b;
	struct table *t;
	struct base *base;

	(void)state;
	rows_begin(&b);
	add_row(&b, "k1", "a", 1);
	sequences_are(&b, NULL);
	foreign_rows(&b);
	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	see_ok(base_open(dir, shape_of(), t, NULL, &base));
	assert_int_equal(base->keys_count, 1);
	assert_false(base->keys[0].is_segment);
	see_row_by(base->sources[0], base->keys[0].index, "k1", "a", INT64_MIN);
	base_drop(base);
	arena_free(&arena);
}

static void
a_fragment_that_cannot_be_opened(void **state)
{
	struct table_fragment f = { .row_count = 1 };
	struct table_file file = { .path = SLICE("absent.lance") };
	static const int32_t no_key[] = { 7 }, columns[] = { 0 };
	static const int32_t key[] = { 0 };
	struct shard_generation g = { 1, SLICE("absent") };
	struct uuid shard = shm_ordinal_shard(0);
	uint32_t before = descriptors();
	static char name[600];
	struct source *s;

	(void)state;
	f.file_count = 1;
	f.files = &file;
	see_error(source_open_fragment(dir, shape_of(), &f, &s), CORRUPT);
	file.field_count = 1;
	file.fields = no_key;
	file.columns = columns;
	see_error(source_open_fragment(dir, shape_of(), &f, &s), CORRUPT);
	file.fields = key;
	see_error(source_open_fragment(dir, shape_of(), &f, &s), NOT_FOUND);
	memset(name, 'x', sizeof(name));
	see_error(source_open_generation(dir, shape_of(), &shard, &g, &s),
	    NOT_FOUND);
	g.directory = slice_make(name, sizeof(name));
	see_error(source_open_generation(dir, shape_of(), &shard, &g, &s),
	    CORRUPT);
	assert_int_equal(descriptors(), before);
}

/* A file that is cut while it is mapped: an error in a marked read, which is
 * all that ever looks at it. */
static struct arena marked;		/* whoever is left in the middle frees
					 * nothing */

static struct err
read_first(void *ctx)
{
	struct batch batch;

	return source_read(ctx, (struct span){ 0, 1 }, &marked, &batch);
}

static void
a_file_is_cut_under_us(void **state)
{
	struct owner o = own_claim(0);
	struct arena arena;
	struct table *t;
	struct key_index *index;
	struct source *s;
	char path[256];
	int fd;

	(void)state;
	generation_with(&o, "k1", "a");
	fold_now(0);
	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	see_ok(source_open_fragment(dir, shape_of(), &t->fragments[0], &s));
	arena_init(&marked, 1u << 20);
	object_map_install();	/* cmocka has its own */
	see_ok(object_map_guarded(read_first, s));
	snprintf(path, sizeof(path), "data/%.*s",
	    (int)t->fragments[0].files[0].path.len,
	    t->fragments[0].files[0].path.ptr);
	fd = open_file(path);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	see_error(object_map_guarded(read_first, s), CORRUPT);
	/* So it is when its index has to be built. */
	see_error(key_index_build(s->fragment, &shape_of()->schema.fields[
	    shape_of()->key], 1u << 30, &index), CORRUPT);
	arena_free(&marked);
	source_drop(s);
	table_free(t);
	arena_free(&arena);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(a_generation),
		store_test(an_index_is_made_when_there_is_none),
		store_test(rows_without_a_sequence),
		store_test(a_fragment_that_cannot_be_opened),
		store_test(a_file_is_cut_under_us),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
