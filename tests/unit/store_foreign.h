#ifndef MEMWALD_TESTS_STORE_FOREIGN_H
#define MEMWALD_TESTS_STORE_FOREIGN_H

/*
 * store_foreign - rows that another engine appended to the base table.
 */

#include "store_dir.h"

#include "worker/lance/commit.h"
#include "worker/lance/page_write.h"

/* A fragment as another engine appends it: keys may be there, even twice. */
static struct {
	struct table_file file;
	struct table_fragment fragment;
	int32_t ids[128], numbers[128];
	char name[32];
} foreign;

static inline struct err
append_foreign(const struct table *newest, struct arena *arena,
    struct commit_edit *edit, void *ctx)
{
	(void)newest;
	(void)arena;
	(void)ctx;
	edit->operation = COMMIT_APPEND;
	edit->added = &foreign.fragment;
	edit->added_count = 1;
	return OK;
}

#define NO_SEQUENCE INT64_MIN

/* The column that no client sees: of each row, or none at all. */
static inline void
sequences_are(struct builder *b, const int64_t *sequences)
{
	struct column *c = &b->columns[shape_of()->seq];
	uint64_t i;

	column_cut(c, 0);
	for (i = 0; i < b->row_count; i++)
		assert_true(sequences == NULL || sequences[i] == NO_SEQUENCE ?
		    column_null(c) : column_int64(c, sequences[i]));
}

/* Appends the rows as a fragment of their own, and frees them. */
static inline void
foreign_rows(struct builder *b)
{
	const struct arrow_schema *s = &shape_of()->schema;
	struct commit_result result;
	struct page_written written;
	struct page_writer *w;
	struct batch batch;
	struct arena arena;
	char path[48];
	static int number;
	uint32_t i;

	snprintf(foreign.name, sizeof(foreign.name), "foreign%d.lance",
	    number++);
	snprintf(path, sizeof(path), "data/%s", foreign.name);
	batch = builder_batch(b);
	see_ok(page_write_open(dir, path, s, NULL, &w));
	see_ok(page_write_batch(w, &batch));
	see_ok(page_write_finish(w, &written));
	foreign.file = (struct table_file){ .path = slice_of(foreign.name),
	    .field_count = page_write_column_count(s), .fields = foreign.ids,
	    .columns = foreign.numbers, .size_bytes = written.size_bytes };
	page_write_field_ids(s, foreign.ids);
	for (i = 0; i < foreign.file.field_count; i++)
		foreign.numbers[i] = (int32_t)i;
	foreign.fragment = (struct table_fragment){
	    .row_count = b->row_count, .file_count = 1,
	    .files = &foreign.file };
	arena_init(&arena, 16u << 20);
	see_ok(commit_run(dir, append_foreign, NULL, &arena, &result));
	arena_free(&arena);
	builder_free(b);
}

#endif
