#ifndef MEMWALD_TESTS_STORE_BASE_H
#define MEMWALD_TESTS_STORE_BASE_H

/*
 * store_base - what the base table of the test's store holds, seen without the
 * generations and tails.
 */

#include "store_dir.h"

/* Rows of the base table alone, the deleted ones left out: each key as often
 * as it is there. */
static inline void
see_base(const char *want)
{
	char got[4096] = "";
	struct arena arena;
	struct table *t;
	struct base *b;
	uint32_t i, row;

	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	see_ok(base_open(dir, shape_of(), t, NULL, &b));
	for (i = 0; i < b->source_count; i++) {
		struct source *s = b->sources[i];

		for (row = 0; row < s->fragment->row_count; row++) {
			char key[TEXT_MAX_BYTES], text[TEXT_MAX_BYTES];
			struct batch batch;

			if (fragment_is_deleted(s->fragment, row))
				continue;
			see_ok(source_read(s, (struct span){ row, 1 }, &arena,
			    &batch));
			copy_text(key, array_slice(&batch.columns[ROLLOUT_id],
			    0));
			copy_text(text, array_slice(
			    &batch.columns[ROLLOUT_content], 0));
			snprintf(got + strlen(got), sizeof(got) - strlen(got),
			    "%s%s=%s", got[0] == '\0' ? "" : " ", key, text);
		}
	}
	base_drop(b);
	arena_free(&arena);
	assert_string_equal(got, want);
}

static inline uint64_t
base_version(void)
{
	uint64_t v;

	see_ok(table_newest(dir, &v));
	return v;
}

static inline uint32_t
fragments(void)
{
	struct arena arena;
	struct table *t;
	uint32_t n;

	arena_init(&arena, 16u << 20);
	see_ok(table_load(dir, &arena, &t));
	n = t->fragment_count;
	table_free(t);
	arena_free(&arena);
	return n;
}

#endif
