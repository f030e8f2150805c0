#include "common/base.h"

#include <unistd.h>

#include "tests/unit/arrow_rows.h"
#include "worker/lance/commit.h"
#include "worker/lance/fragment.h"
#include "worker/lance/index_entry.h"
#include "worker/lance/key_write.h"
#include "worker/lance/page_write.h"

/*
 * pages_write write DIR: makes DIR/pages.lance, all types, in three fragments:
 * rows of any kind; rows whose lists are all null or empty; rows so wide that
 * the file has many pages, a third of them deleted. And a key index of two.
 *
 * pages_write read DIR: reads the table, whoever wrote it last, and sees that
 * every row is the one that its id names. Prints how many there are.
 */

#define WIDE_BYTES	(300u << 10)
#define RUN_ROWS	37u
#define FRAGMENTS	3u

#define OK_OR_DIE(call) do { \
	struct err ok_or_die_ = (call); \
	if (err_is(ok_or_die_)) { \
		fprintf(stderr, "%s: %s\n", err_name(ok_or_die_), ok_or_die_.what); \
		exit(1); \
	} \
} while (0)

static struct arena arena;
static struct object_dir *dir;
static struct arrow_schema table_schema;
static char blob[WIDE_BYTES];

enum { ID = ARRAY_LEN(fields), BLOB, COLUMN_COUNT };

struct part {
	uint64_t first, step, count;	/* which rows */
	bool is_wide;
	char path[64];
	struct page_written written;
	int32_t *fields, *columns;
	struct table_file file;
};

static struct part parts[FRAGMENTS] = {
	{ .first = 0, .step = 1, .count = 1000, .path = "any.lance" },
	{ .first = 1000, .step = 4, .count = 20, .path = "empty.lance" },
	{ .first = 2000, .step = 1, .count = 30, .is_wide = true,
	    .path = "wide.lance" },
};

/* The columns of arrow_rows.h, a key and a blob. */
static void
make_schema(void)
{
	static struct arrow_field all[COLUMN_COUNT];

	memcpy(all, fields, sizeof(fields));
	all[ID] = (struct arrow_field){ .name = SLICE("id"), .type = ARROW_UTF8,
		.id = -1 };
	all[BLOB] = (struct arrow_field){ .name = SLICE("blob"),
		.type = ARROW_LARGE_BINARY, .nullable = true, .id = -1 };
	table_schema = (struct arrow_schema){ COLUMN_COUNT, all, 0, NULL };
}

static void
put(struct builder *b, const struct part *p, uint64_t i)
{
	char id[32];
	uint32_t k;

	for (k = 0; k < ID; k++)
		MUST(is_null_at(k, i) ? column_null(&b->columns[k]) :
		    put_value(&b->columns[k], i));
	MUST(column_bytes(&b->columns[ID], slice_make(id,
	    (size_t)snprintf(id, sizeof(id), "row-%06d", (int)i))));
	memset(blob, (int)i, sizeof(blob));
	MUST(p->is_wide ? column_bytes(&b->columns[BLOB], slice_make(blob,
	    WIDE_BYTES - i)) : column_null(&b->columns[BLOB]));
	builder_end_row(b);
}

static void
write_part(struct part *p, const struct arrow_schema *with_ids)
{
	struct page_writer *w;
	struct builder b;
	struct batch batch;
	char name[80];
	uint32_t n, i;
	uint64_t r;

	OK_OR_DIE(builder_init(&b, with_ids, 64u << 20));
	for (r = 0; r < p->count; r++)
		put(&b, p, p->first + r * p->step);
	batch = builder_batch(&b);
	snprintf(name, sizeof(name), "data/%s", p->path);
	OK_OR_DIE(page_write_open(dir, name, with_ids, NULL, &w));
	OK_OR_DIE(page_write_batch(w, &batch));
	OK_OR_DIE(page_write_finish(w, &p->written));
	builder_free(&b);

	n = page_write_column_count(with_ids);
	p->fields = arena_calloc(&arena, n, sizeof(*p->fields));
	p->columns = arena_calloc(&arena, n, sizeof(*p->columns));
	MUST(p->fields != NULL && p->columns != NULL);
	page_write_field_ids(with_ids, p->fields);
	for (i = 0; i < n; i++)
		p->columns[i] = (int32_t)i;
	p->file = (struct table_file){ slice_of(p->path), n, p->fields, p->columns,
		p->written.size_bytes };
}

static struct err
add_parts(const struct table *newest, struct arena *memory,
    struct commit_edit *edit, void *ctx)
{
	struct table_fragment *added = arena_calloc(memory, FRAGMENTS,
	    sizeof(*added));
	uint32_t i;

	(void)newest;
	(void)ctx;
	MUST(added != NULL);
	for (i = 0; i < FRAGMENTS; i++)
		added[i] = (struct table_fragment){ .row_count = parts[i].count,
			.file_count = 1, .files = &parts[i].file };
	edit->operation = COMMIT_APPEND;
	edit->added_count = FRAGMENTS;
	edit->added = added;
	return OK;
}

/* The last fragment loses rows 0, 3, 6, ... of it. */
static struct err
delete_rows(const struct table *newest, struct arena *memory,
    struct commit_edit *edit, void *ctx)
{
	const struct table_fragment *last =
	    &newest->fragments[newest->fragment_count - 1];
	struct commit_deletion *out = arena_calloc(memory, 1, sizeof(*out));
	struct deletion *d;
	uint32_t row;

	(void)ctx;
	MUST(out != NULL);
	OK_OR_DIE(deletion_new(&d));
	for (row = 0; row < last->row_count; row += 3)
		deletion_add(d, row);
	out->fragment_id = last->id;
	OK_OR_DIE(deletion_write(dir, last->id, newest->version, d,
	    &out->deletion));
	deletion_free(d);
	edit->operation = COMMIT_UPDATE;
	edit->deletion_count = 1;
	edit->deletions = out;
	return OK;
}

/* A segment of the key's index for the first two fragments. */
static struct err
add_segment(const struct table *t, struct arena *a, struct commit_edit *edit,
    void *ctx)
{
	const struct arrow_field *key = &t->schema.fields[t->key_column];
	static struct commit_segment segment;
	struct key_index_paths paths;
	struct key_written written;
	struct key_input inputs[2];
	struct fragment *f[2];
	struct key_index *ix[2];
	struct deletion *set;
	uint32_t ids[2], i;

	(void)ctx;
	OK_OR_DIE(deletion_new(&set));
	for (i = 0; i < 2; i++) {
		OK_OR_DIE(fragment_open(dir, &t->fragments[i], &f[i]));
		OK_OR_DIE(key_index_build(f[i], key, 64u << 20, &ix[i]));
		ids[i] = (uint32_t)f[i]->id;
		deletion_add(set, ids[i]);
		inputs[i] = (struct key_input){ ix[i], 1, &ids[i] };
	}
	segment = (struct commit_segment){ .uuid = uuid_random(),
	    .field = key->id };
	key_index_paths_segment(&paths, key, &segment.uuid);
	OK_OR_DIE(key_merge(inputs, 2, dir, &paths, NULL, &written));
	segment.data_bytes = written.data_bytes;
	segment.lookup_bytes = written.lookup_bytes;
	OK_OR_DIE(index_entry_name(t, key, a, &segment.name));
	OK_OR_DIE(deletion_encode(set, a, &segment.fragments));
	edit->operation = COMMIT_UPDATE;
	edit->segments = &segment;
	edit->segment_count = 1;
	for (i = 0; i < 2; i++) {
		key_index_close(ix[i]);
		fragment_close(f[i]);
	}
	deletion_free(set);
	return OK;
}

static void
write_table(void)
{
	struct commit_create create = { .schema = &table_schema,
		.key = SLICE("id") };
	struct commit_result result;
	struct table *t;
	uint32_t i;

	OK_OR_DIE(commit_create_table(dir, &create, &arena));
	OK_OR_DIE(table_load(dir, &arena, &t));
	for (i = 0; i < FRAGMENTS; i++)
		write_part(&parts[i], &t->schema);
	table_free(t);
	OK_OR_DIE(commit_run(dir, add_parts, NULL, &arena, &result));
	OK_OR_DIE(commit_run(dir, delete_rows, NULL, &arena, &result));
	OK_OR_DIE(commit_run(dir, add_segment, NULL, &arena, &result));
}

static void
see_table_row(const struct batch *b, uint64_t at)
{
	struct slice id = array_slice(&b->columns[ID], at);
	uint64_t i = strtoull(id.ptr + 4, NULL, 10);
	struct slice bytes;

	MUST(id.len == 10);
	see_row(b, at, i);
	if (i < 2000) {
		MUST(array_is_null(&b->columns[BLOB], at));
		return;
	}
	bytes = array_slice(&b->columns[BLOB], at);
	memset(blob, (int)i, sizeof(blob));
	MUST(slice_eq(bytes, slice_make(blob, WIDE_BYTES - i)));
}

static uint64_t
read_fragment(const struct fragment *f, const struct arrow_schema *s)
{
	struct span run = { 0, 0 };
	struct batch b;
	uint64_t i, live = 0;

	for (; run.first < f->row_count; run.first += run.count) {
		run.count = MIN(RUN_ROWS, f->row_count - run.first);
		arena_reset(&arena);
		OK_OR_DIE(fragment_read(f, s, run, &arena, &b));
		for (i = 0; i < run.count; i++) {
			if (fragment_is_deleted(f, (uint32_t)(run.first + i)))
				continue;
			see_table_row(&b, i);
			live++;
		}
	}
	MUST(live == fragment_live_count(f));
	return live;
}

static void
read_table(void)
{
	struct fragment *f;
	struct table *t;
	uint64_t live = 0;
	uint32_t i;

	OK_OR_DIE(table_load(dir, &arena, &t));
	for (i = 0; i < t->fragment_count; i++) {
		OK_OR_DIE(fragment_open(dir, &t->fragments[i], &f));
		live += read_fragment(f, &t->schema);
		fragment_close(f);
	}
	printf("%llu\n", (unsigned long long)live);
	table_free(t);
}

int
main(int argc, char **argv)
{
	struct object_dir *root;

	if (argc != 3) {
		fprintf(stderr, "usage: pages_write write|read DIR\n");
		return 2;
	}
	arena_init(&arena, 256u << 20);
	OK_OR_DIE(object_root_open(argv[2], &root));
	OK_OR_DIE(object_dir_open(root, "pages.lance", true, &dir));
	make_schema();
	if (strcmp(argv[1], "write") == 0)
		write_table();
	else
		read_table();
	object_dir_close(dir);
	object_dir_close(root);
	arena_free(&arena);
	return 0;
}
