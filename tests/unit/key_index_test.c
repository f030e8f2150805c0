#include "common/base.h"

#include <time.h>

#include "tests/unit/lance_dir.h"
#include "worker/arrow/column.h"
#include "worker/lance/bloom.h"
#include "worker/lance/fragment.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/key_write.h"

#define GENERATION "memwal_v20.lance/_mem_wal/" \
	"aa48498d-ac91-59e2-8452-69f46010ace2/c0f5d344_gen_1"
#define CAP (1u << 30)

static struct arena arena;

static const struct arrow_field key_field = { .name = { "id", 2 },
	.type = ARROW_UTF8, .id = 0 };
static const struct arrow_schema key_schema = { 1, &key_field, 0, NULL };

static int
setup(void **state)
{
	arena_init(&arena, 64u << 20);
	return dir_setup(state);
}

static int
teardown(void **state)
{
	arena_free(&arena);
	return dir_teardown(state);
}

static uint32_t
random_below(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % below;
}

/* Keys of one test, in row order. */
struct keys {
	struct builder builder;
	struct batch batch;
};

static void
keys_start(struct keys *k)
{
	see_ok(builder_init(&k->builder, &key_schema, CAP));
}

static void
keys_add(struct keys *k, const void *ptr, size_t len)
{
	assert_true(column_bytes(&k->builder.columns[0], slice_make(ptr, len)));
	builder_end_row(&k->builder);
	k->batch = builder_batch(&k->builder);
}

static struct slice
keys_at(const struct keys *k, uint64_t row)
{
	return array_slice(&k->batch.columns[0], row);
}

static struct key_index *
build(const struct keys *k)
{
	struct key_index *ix = NULL;
	struct key_build *b;

	see_ok(key_build_start(CAP, &b));
	if (k->builder.row_count > 0)
		see_ok(key_build_add(b, &k->batch.columns[0]));
	see_ok(key_build_end(b, &ix));
	return ix;
}

/* Every key is found with all of its rows, in order; what is between keys is
 * not; seek goes where it must. Quadratic: for few keys. */
static void
see_index(const struct key_index *ix, const struct keys *k)
{
	uint64_t n = k->builder.row_count, i, row, below, equal;
	struct slice key;
	struct span at;
	bool found;

	assert_int_equal(key_index_count(ix), n);
	for (i = 0; i < n; i++) {
		key = keys_at(k, i);
		below = equal = 0;
		for (row = 0; row < n; row++) {
			below += slice_cmp(keys_at(k, row), key) < 0;
			equal += slice_eq(keys_at(k, row), key);
		}
		found = key_index_find(ix, key, bloom_hash(key), &at);
		assert_true(found);
		assert_int_equal(at.first, below);
		assert_int_equal(at.count, equal);
		assert_int_equal(key_index_seek(ix, key), below);
		assert_true(equal == 1 || !key_index_unique(ix));
		for (row = 0; row < at.count; row++) {
			assert_true(slice_eq(key_index_key(ix, at.first + row), key));
			assert_true(slice_eq(keys_at(k,
			    key_index_row(ix, at.first + row)), key));
			assert_true(row == 0 || key_index_row(ix, at.first + row) >
			    key_index_row(ix, at.first + row - 1));
		}
	}
}

static void
see_absent(const struct key_index *ix, const struct keys *k, struct slice key)
{
	uint64_t n = k->builder.row_count, row, below = 0;
	struct span at;

	for (row = 0; row < n; row++) {
		if (slice_eq(keys_at(k, row), key))
			return;
		below += slice_cmp(keys_at(k, row), key) < 0;
	}
	assert_false(key_index_find(ix, key, bloom_hash(key), &at));
	assert_int_equal(key_index_seek(ix, key), below);
}

static void
drop_files(void)
{
	see_ok(object_delete_tree(dir, "_pk_index"));
	see_ok(object_delete(dir, "bloom_filter.bin"));
}

static void
see_both_ways(const struct keys *k)
{
	struct key_index *built = build(k), *read;
	struct key_index_paths paths;

	see_index(built, k);
	key_index_paths_generation(&paths, &key_field);
	see_ok(key_index_write(built, dir, &paths, NULL));
	see_error(key_index_write(built, dir, &paths, NULL), EXISTS);
	see_ok(key_index_open(dir, &paths, k->builder.row_count, &read));
	assert_null(read->own_filter);
	see_index(read, k);
	assert_int_equal(key_index_unique(read), key_index_unique(built));
	see_absent(read, k, SLICE(""));
	see_absent(read, k, SLICE("run-1"));
	see_absent(read, k, SLICE("run-12345678-"));
	see_absent(read, k, SLICE("zzz"));
	key_index_close(read);
	see_error(key_index_open(dir, &paths, k->builder.row_count + 1, &read),
	    CORRUPT);
	key_index_close(built);
	drop_files();
}

static void
test_shapes_of_keys(void **state)
{
	uint64_t seed = 1, i, round;
	struct keys k;
	char key[32];
	int len;

	(void)state;
	for (round = 0; round < 6; round++) {
		keys_start(&k);
		for (i = 0; i < (round == 0 ? 1 : 300); i++) {
			switch (round) {
			case 1:		/* a long common head, unique */
				len = snprintf(key, sizeof(key), "run-12345678-%08x",
				    (uint32_t)(i * 0x9e3779b9u));
				break;
			case 2:		/* many of a key */
				len = snprintf(key, sizeof(key), "k%u",
				    random_below(&seed, 20));
				break;
			case 3:		/* short, with NULs, one is the head of another */
				len = (int)random_below(&seed, 5);
				memset(key, (int)random_below(&seed, 2), sizeof(key));
				key[0] = 'a';
				break;
			case 4:		/* equal but for the length */
				memset(key, 'x', sizeof(key));
				len = (int)random_below(&seed, 32);
				break;
			default:	/* all alike, or differ behind eight bytes */
				len = snprintf(key, sizeof(key), "%s%u",
				    round == 0 ? "" : "run-aaaaaaaaaaaaaaaa",
				    random_below(&seed, 1000));
			}
			keys_add(&k, key, (size_t)len);
		}
		see_both_ways(&k);
		builder_free(&k.builder);
	}
}

static void
test_no_keys(void **state)
{
	struct key_index_paths paths;
	struct key_index *ix;
	struct keys k;
	struct span at;

	(void)state;
	keys_start(&k);
	ix = build(&k);
	assert_false(key_index_find(ix, SLICE("a"), bloom_hash(SLICE("a")), &at));
	assert_int_equal(key_index_seek(ix, SLICE("a")), 0);
	key_index_paths_generation(&paths, &key_field);
	see_ok(key_index_write(ix, dir, &paths, NULL));
	key_index_close(ix);
	see_ok(key_index_open(dir, &paths, 0, &ix));
	assert_int_equal(key_index_count(ix), 0);
	key_index_close(ix);
	drop_files();
	builder_free(&k.builder);
}

static void
test_null_key_and_cap(void **state)
{
	static const uint8_t none = 0;
	struct array nulls = { .field = &key_field, .length = 1, .null_count = 1,
		.validity = &none };
	struct key_build *b;
	struct keys k;

	(void)state;
	see_ok(key_build_start(CAP, &b));
	see_error(key_build_add(b, &nulls), CORRUPT);
	key_build_abort(b);
	keys_start(&k);
	keys_add(&k, "abc", 3);
	see_ok(key_build_start(64, &b));
	see_error(key_build_add(b, &k.batch.columns[0]), NO_MEMORY);
	key_build_abort(b);
	builder_free(&k.builder);
}

static void
test_hash_and_filter(void **state)
{
	uint8_t bits[64 * BLOOM_BLOCK_BYTES] = { 0 };
	uint64_t i, wrong = 0;
	char key[16];

	(void)state;
	assert_int_equal(bloom_hash(SLICE("k0")), 0x639cdf62600596bf);
	for (i = 0; i < 2000; i++) {
		if (i == 1000)
			assert_true(bloom_suits(sizeof(bits), i));
		struct slice s = slice_make(key, (size_t)snprintf(key, sizeof(key),
		    "%llu", (unsigned long long)i));

		if (i < 1000)
			bloom_add(bits, sizeof(bits), bloom_hash(s));
		else
			wrong += bloom_may_have(bits, sizeof(bits), bloom_hash(s));
	}
	for (i = 0; i < 1000; i++)
		assert_true(bloom_may_have(bits, sizeof(bits), bloom_hash(
		    slice_make(key, (size_t)snprintf(key, sizeof(key), "%llu",
		    (unsigned long long)i)))));
	assert_true(wrong < 20);
	assert_false(bloom_suits(0, 0));
	assert_false(bloom_suits(33, 1));
	assert_false(bloom_suits(BLOOM_LANCE_BYTES, 100000));
	assert_true(bloom_suits(bloom_size_bytes(100000), 100000));
}

/* Equal but for what stands between the buffers: the engine pads with 'H'. */
static void
see_same_file(struct object_dir *theirs, const char *name)
{
	struct slice a, b;
	size_t i;

	see_ok(object_get(theirs, name, 1u << 20, &arena, &a));
	see_ok(object_get(dir, name, 1u << 20, &arena, &b));
	assert_int_equal(a.len, b.len);
	for (i = 0; i < a.len; i++) {
		if (a.ptr[i] != b.ptr[i] && !(a.ptr[i] == 'H' && b.ptr[i] == 0))
			fail_msg("%s: byte %zu differs", name, i);
	}
}

/* The engine orders metadata as it likes, and we have a pair more: what both
 * say is the same. */
static void
see_same_lookup(struct object_dir *theirs, const struct key_index_paths *paths,
    const char *batch_size)
{
	static const char *const keys[] = { "batch_size", "range_partitioned" };
	struct object_dir *const dirs[2] = { theirs, dir };
	struct data_file *files[2];
	uint32_t i, c, n;

	for (i = 0; i < 2; i++) {
		see_ok(data_file_open(dirs[i], paths->lookup, NULL, &files[i]));
		assert_int_equal(files[i]->column_count, 4);
		for (n = 0; n < 2; n++) {
			struct slice value;

			assert_true(data_file_pair(files[i], slice_of(keys[n]),
			    &value));
			assert_true(slice_eq(value, slice_of(n == 0 ?
			    batch_size : "false")));
		}
	}
	assert_int_equal(files[0]->row_count, files[1]->row_count);
	for (c = 0; c < 4; c++) {
		const struct data_page *a = &files[0]->columns[c].pages[0];
		const struct data_page *b = &files[1]->columns[c].pages[0];

		assert_int_equal(files[0]->columns[c].page_count, 1);
		assert_int_equal(files[1]->columns[c].page_count, 1);
		assert_int_equal(a->form, b->form);
		assert_int_equal(a->count, b->count);
		if (a->form == PAGE_BINARY) {
			assert_int_equal(a->bytes_len, b->bytes_len);
			assert_memory_equal(a->bytes, b->bytes, a->bytes_len);
			assert_memory_equal(a->offsets, b->offsets, 8 * a->count);
		} else {
			assert_int_equal(a->bits, 32);
			assert_memory_equal(a->values, b->values, 4 * a->count);
		}
	}
	data_file_close(files[0]);
	data_file_close(files[1]);
}

/* The engine's own index of a generation is opened, and made again it is the
 * same file byte for byte, the filter too. */
static void
test_engine_generation(void **state)
{
	struct object_dir *fixtures, *generation;
	struct key_index_paths paths;
	struct key_index *theirs, *ours;
	struct fragment *f;
	struct span at;

	(void)state;
	see_ok(object_root_open("tests/data/lance", &fixtures));
	see_ok(object_dir_open(fixtures, GENERATION, false, &generation));
	see_ok(fragment_open_generation(generation, &arena, &f));
	key_index_paths_generation(&paths, &key_field);
	see_ok(key_index_open(generation, &paths, f->row_count, &theirs));
	assert_int_equal(key_index_count(theirs), 6);
	assert_false(key_index_unique(theirs));
	assert_true(key_index_find(theirs, SLICE("k8"), bloom_hash(SLICE("k8")), &at));
	assert_int_equal(at.count, 2);
	assert_true(key_index_row(theirs, at.first) <
	    key_index_row(theirs, at.first + 1));
	assert_false(key_index_find(theirs, SLICE("k5"), bloom_hash(SLICE("k5")),
	    &at));

	see_ok(key_index_build(f, &f->table->schema.fields[f->table->key_column],
	    CAP, &ours));
	see_ok(key_index_write(ours, dir, &paths, NULL));
	see_same_file(generation, paths.data);
	see_same_file(generation, paths.filter);
	see_same_lookup(generation, &paths, "8192");
	drop_files();
	key_index_close(ours);
	key_index_close(theirs);
	fragment_close(f);
	object_dir_close(generation);
	object_dir_close(fixtures);
}

/* The engine's own BTREE of the first fragment of a table, the same way. */
static void
test_engine_segment(void **state)
{
	struct object_dir *fixtures, *theirs;
	struct key_index_paths paths;
	struct key_fragment wanted;
	struct key_written written;
	struct key_index *ix;
	struct key_input input;
	struct fragment *f;
	struct table *t;
	struct uuid uuid = { { 0 } };
	uint32_t id, i;

	(void)state;
	see_ok(object_root_open("tests/data/lance", &fixtures));
	see_ok(object_dir_open(fixtures, "indexed_v20.lance", false, &theirs));
	see_ok(table_load(theirs, &arena, &t));
	for (i = 0; i < t->index_count; i++) {
		if (index_entry_is_segment(t, &t->schema.fields[t->key_column],
		    &t->indices[i]))
			uuid = t->indices[i].uuid;
	}
	see_ok(fragment_open(theirs, &t->fragments[0], &f));
	id = (uint32_t)f->id;
	wanted = (struct key_fragment){ id, f->row_count };
	key_index_paths_segment(&paths, &t->schema.fields[t->key_column], &uuid);
	see_ok(key_index_open_segment(theirs, &paths, &wanted, 1, &ix));
	assert_int_equal(key_index_count(ix), f->row_count);
	key_index_close(ix);

	see_ok(key_index_build(f, &t->schema.fields[t->key_column], CAP, &ix));
	input = (struct key_input){ ix, 1, &id };
	see_ok(key_merge(&input, 1, dir, &paths, NULL, &written));
	see_same_file(theirs, paths.data);
	see_same_lookup(theirs, &paths, "4096");
	key_index_close(ix);
	fragment_close(f);
	table_free(t);
	object_dir_close(theirs);
	object_dir_close(fixtures);
}

/* Three indexes become one, which is opened for two of its fragments; one of
 * these was left out. */
static void
test_merge(void **state)
{
	static const uint32_t ids[3] = { 7, 9, KEY_NO_FRAGMENT };
	struct key_fragment wanted[2] = { { 7, 6000 }, { 9, 5 } };
	struct uuid uuid = uuid_random();
	struct key_index_paths paths;
	struct key_written written;
	struct key_input inputs[3], again;
	struct key_index *parts[3], *ix;
	struct keys k;
	char key[32];
	uint64_t i, n;
	uint32_t p;

	(void)state;
	for (p = 0; p < 3; p++) {
		keys_start(&k);
		for (i = 0; i < (p == 0 ? 6000 : 5); i++)
			keys_add(&k, key, (size_t)snprintf(key, sizeof(key),
			    "k%06llu", (unsigned long long)(i * (p + 1))));
		parts[p] = build(&k);
		inputs[p] = (struct key_input){ parts[p], 1, &ids[p] };
		builder_free(&k.builder);
	}
	key_index_paths_segment(&paths, &key_field, &uuid);
	see_ok(key_merge(inputs, 3, dir, &paths, NULL, &written));
	see_ok(key_index_open_segment(dir, &paths, wanted, 2, &ix));
	assert_int_equal(key_index_count(ix), 6005);
	for (i = n = 0; i < 6005; i++) {
		assert_true(i == 0 || slice_cmp(key_index_key(ix, i - 1),
		    key_index_key(ix, i)) <= 0);
		n += key_index_place(ix, i);
		assert_true(key_index_place(ix, i) < 2);
	}
	assert_int_equal(n, 5);
	/* k000008 is row 8 of the first, row 4 of the second. */
	{
		struct slice s = SLICE("k000008");
		struct span at;

		assert_true(key_index_find(ix, s, bloom_hash(s), &at));
		assert_int_equal(at.count, 2);
		assert_int_equal(key_index_row(ix, at.first) +
		    key_index_row(ix, at.first + 1), 12);
		assert_false(key_index_unique(ix));
	}
	/* Merged again, a fragment that is gone leaves no key. */
	{
		const uint32_t left[2] = { KEY_NO_FRAGMENT, 9 };

		uuid = uuid_random();
		key_index_paths_segment(&paths, &key_field, &uuid);
		again = (struct key_input){ ix, 2, left };
		see_ok(key_merge(&again, 1, dir, &paths, NULL, &written));
		key_index_close(ix);
		see_ok(key_index_open_segment(dir, &paths, wanted, 2, &ix));
		assert_int_equal(key_index_count(ix), 5);
		assert_int_equal(key_index_place(ix, 0), 1);
		key_index_close(ix);
		see_ok(key_index_open_segment(dir, &paths, wanted + 1, 1, &ix));
		assert_null(ix->places);
		key_index_close(ix);
		see_ok(key_index_open_segment(dir, &paths, wanted, 1, &ix));
		assert_int_equal(key_index_place(ix, 4), KEY_NO_PLACE);
		key_index_close(ix);
		wanted[1].row_count = 4;
		see_error(key_index_open_segment(dir, &paths, wanted, 2, &ix),
		    CORRUPT);
	}
	for (p = 0; p < 3; p++)
		key_index_close(parts[p]);
}

/* A damaged index is refused: each byte of both files counts, but for those of
 * the lookup that only the engine reads. */
static void
test_damage(void **state)
{
	struct key_index_paths paths;
	struct key_index *ix;
	struct slice files[2];
	struct keys k;
	char key[32], *copy;
	const char *name;
	uint32_t f, refused;
	uint64_t i;
	size_t byte;

	(void)state;
	keys_start(&k);
	for (i = 0; i < 20; i++)
		keys_add(&k, key, (size_t)snprintf(key, sizeof(key), "k%llu",
		    (unsigned long long)(i * 7)));
	ix = build(&k);
	key_index_paths_generation(&paths, &key_field);
	see_ok(key_index_write(ix, dir, &paths, NULL));
	key_index_close(ix);
	see_ok(object_get(dir, paths.data, 1u << 20, &arena, &files[0]));
	see_ok(object_get(dir, paths.lookup, 1u << 20, &arena, &files[1]));
	for (f = refused = 0; f < 2; f++) {
		name = f == 0 ? paths.data : paths.lookup;
		copy = arena_copy(&arena, files[f]);
		assert_non_null(copy);
		for (byte = 0; byte < files[f].len; byte += 3) {
			copy[byte] ^= 0x10;
			see_ok(object_delete(dir, name));
			see_ok(object_put_new(dir, name,
			    slice_make(copy, files[f].len)));
			copy[byte] ^= 0x10;
			if (err_is(key_index_open(dir, &paths, 20, &ix))) {
				refused++;
				continue;
			}
			assert_int_equal(f, 1);
			see_index(ix, &k);
			key_index_close(ix);
		}
		see_ok(object_delete(dir, name));
		see_ok(object_put_new(dir, name, files[f]));
	}
	assert_true(refused > files[0].len / 3);
	/* A filter that lacks a key is replaced, as one that is not there. */
	see_ok(object_delete(dir, paths.filter));
	see_ok(key_index_open(dir, &paths, 20, &ix));
	assert_non_null(ix->own_filter);
	see_index(ix, &k);
	key_index_close(ix);
	copy = arena_calloc(&arena, 1, BLOOM_LANCE_BYTES);
	assert_non_null(copy);
	see_ok(object_put_new(dir, paths.filter,
	    slice_make(copy, BLOOM_LANCE_BYTES)));
	see_ok(key_index_open(dir, &paths, 20, &ix));
	assert_non_null(ix->own_filter);
	see_index(ix, &k);
	key_index_close(ix);
	see_ok(object_delete(dir, paths.lookup));
	see_error(key_index_open(dir, &paths, 20, &ix), NOT_FOUND);
	see_ok(object_put_new(dir, paths.lookup, files[1]));
	see_ok(object_delete(dir, paths.data));
	see_error(key_index_open(dir, &paths, 20, &ix), NOT_FOUND);
	drop_files();
	builder_free(&k.builder);
}

/* Of this thread: the machine may be busy. */
static uint64_t
cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double
ms_since(uint64_t from)
{
	return (double)(cpu_ns() - from) / 1e6;
}

/* Many pages; with LONG=1 a million keys, and the times are printed. */
static void
test_many_keys(void **state)
{
	uint64_t n = getenv("LONG") != NULL ? 1000000 : 150000, i, seed = 7, from;
	uint64_t found = 0, looks = 200000, row;
	static const uint32_t fragment = 3;
	struct key_input input = { NULL, 1, &fragment };
	struct key_fragment wanted = { 3, 0 };
	struct uuid uuid = uuid_random();
	struct key_written written;
	struct key_index_paths paths;
	struct key_index *ix;
	struct keys k;
	struct slice s;
	struct span at;
	char key[48];

	(void)state;
	keys_start(&k);
	for (i = 0; i < n; i++)
		keys_add(&k, key, (size_t)snprintf(key, sizeof(key),
		    "run-2026-11-29/%08x-%08llx", (uint32_t)(i * 0x9e3779b9u),
		    (unsigned long long)i));
	from = cpu_ns();
	ix = build(&k);
	print_message("build %.0f ms\n", ms_since(from));
	input.index = ix;
	wanted.row_count = n;
	key_index_paths_segment(&paths, &key_field, &uuid);
	from = cpu_ns();
	see_ok(key_merge(&input, 1, dir, &paths, NULL, &written));
	print_message("write %.0f ms\n", ms_since(from));
	key_index_close(ix);
	from = cpu_ns();
	see_ok(key_index_open_segment(dir, &paths, &wanted, 1, &ix));
	print_message("open %.0f ms, %zu bytes\n", ms_since(from),
	    key_index_bytes(ix));
	assert_true(ix->page_count > 1);
	assert_true(key_index_unique(ix));

	from = cpu_ns();
	for (i = 0; i < looks; i++) {
		row = random_below(&seed, (uint32_t)n);
		s = keys_at(&k, row);
		found += key_index_find(ix, s, bloom_hash(s), &at) &&
		    key_index_row(ix, at.first) == row;
	}
	print_message("find %.0f ns\n", ms_since(from) * 1e6 / (double)looks);
	assert_int_equal(found, looks);
	from = cpu_ns();
	for (i = 0; i < looks; i++) {
		s = keys_at(&k, i % 4096 * 37);
		found += key_index_find(ix, s, bloom_hash(s), &at);
	}
	print_message("find warm %.0f ns\n", ms_since(from) * 1e6 / (double)looks);
	from = cpu_ns();
	for (i = found = 0; i < looks; i++) {
		s = slice_make(key, (size_t)snprintf(key, sizeof(key),
		    "run-2026-11-29/%08x+", random_below(&seed, UINT32_MAX)));
		found += key_index_find(ix, s, bloom_hash(s), &at);
	}
	print_message("miss %.0f ns, with snprintf\n",
	    ms_since(from) * 1e6 / (double)looks);
	assert_int_equal(found, 0);
	for (i = 1; i < n; i++)
		assert_true(slice_cmp(key_index_key(ix, i - 1),
		    key_index_key(ix, i)) < 0);
	key_index_close(ix);
	builder_free(&k.builder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes_of_keys),
		cmocka_unit_test(test_no_keys),
		cmocka_unit_test(test_null_key_and_cap),
		cmocka_unit_test(test_hash_and_filter),
		cmocka_unit_test(test_engine_generation),
		cmocka_unit_test(test_engine_segment),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_many_keys),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
