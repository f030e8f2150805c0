#include "store_dir.h"

#include "worker/store/match.h"

/*
 * A merge with a filter beside it, over base, generations and tails: which keys
 * are given, and how often a piece of a source had to be looked at.
 */

#define MANY		10000u		/* three pieces of a file */

struct outcome {
	char keys[256];			/* of those given */
	uint32_t given, looked;
};

static struct outcome
run(const char *text)
{
	struct outcome out = { .keys = "" };
	const struct filter *filter;
	struct reading r;
	struct arena arena;
	struct merge_row row;
	struct merge *m;
	struct match *match;
	bool found, given, looked;

	arena_init(&arena, 1u << 20);
	see_ok(filter_parse(shape_of(), slice_of(text), &arena, &filter));
	reading_begin(&r);
	m = reading_merge(&r);
	see_ok(match_new(filter, m, &match));
	for (;;) {
		see_ok(merge_next(m, &row, &found));
		if (!found)
			break;
		see_ok(match_row(match, &row, &given, &looked));
		out.looked += looked;
		out.given += given;
		if (given && strlen(out.keys) + row.key.len + 2 <
		    sizeof(out.keys))
			snprintf(out.keys + strlen(out.keys),
			    sizeof(out.keys) - strlen(out.keys), "%.*s ",
			    (int)row.key.len, row.key.ptr);
	}
	match_free(match);
	merge_free(m);
	reading_end(&r);
	arena_free(&arena);
	return out;
}

static void
see_keys(const char *text, const char *want)
{
	struct outcome out = run(text);

	assert_string_equal(out.keys, want);
}

/* An older version that matches is not given for a newest that does not. */
static void
winners_only(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);

	(void)state;
	generation_with(&a, "k1", "yes");
	generation_with(&a, "k2", "yes");
	generation_with(&a, "k3", "no");
	fold_now(0);
	see_keys("content = 'yes'", "k1 k2 ");
	generation_with(&b, "k1", "no");
	see_keys("content = 'yes'", "k2 ");
	see_ok(own_rotate(&a, "k2", "no"));
	see_ok(own_put(&a, "k3", "yes"));
	see_keys("content = 'yes'", "k3 ");
	see_keys("content = 'no'", "k1 k2 ");
	see_keys("NOT content = 'no' OR id = 'k1'", "k1 k3 ");
	see_ok(own_rotate(&b, "k3", "no"));
	see_keys("content = 'yes'", "");
	fold_now(1);
	own_close(&a);
	seal_now(0);
	see_keys("content = 'no'", "k1 k2 k3 ");
	own_close(&b);
	seal_now(1);
	fold_now(0);
	fold_now(1);
	see_keys("content = 'no'", "k1 k2 k3 ");
	own_end(&a);
	own_end(&b);
}

/* One commit, in an order that has nothing to do with the keys. */
static void
write_many(struct owner *o)
{
	struct wal_start start = { .position = o->entry.position + 1,
	    .epoch = o->claim.manifest.epoch,
	    .closes = { o->entry.position, o->entry.end },
	    .size_bytes = 8u << 20 };
	struct wal_writer next;
	struct buf message;
	struct builder b;
	uint32_t i;

	rows_begin(&b);
	for (i = 0; i < MANY; i++) {
		uint32_t n = i * 7919u % MANY;
		char key[32], text[32];

		snprintf(key, sizeof(key), "k%05u", n);
		snprintf(text, sizeof(text), "v%u", n % 100);
		add_row(&b, key, text, 1);
	}
	buf_init(&message, 64u << 20);
	o->sequence = shm_sequence_next();
	message_of(&b, o->sequence, &message);
	builder_free(&b);
	start.first = buf_slice(&message);
	see_ok(wal_entry_start(dir, &o->shard, &shape_of()->schema, &start,
	    &next));
	buf_free(&message);
	wal_writer_close(&o->entry);
	o->entry = next;
	o->written = 0;
	see_ok(own_acknowledge(o));
}

static void
see_many(uint32_t looks_min, uint32_t looks_max)
{
	struct outcome out = run("content = 'v7'");

	assert_int_equal(out.given, MANY / 100);
	assert_memory_equal(out.keys, "k00007 k00107 k00207 ", 21);
	assert_in_range(out.looked, looks_min, looks_max);
	assert_int_equal(run("content = 'v7' AND content = 'v8'").given, 0);
	assert_int_equal(run("id >= 'k09990'").given, 10);
}

static void
each_piece_once(void **state)
{
	struct owner o = own_claim(0);

	(void)state;
	write_many(&o);
	see_many(1, 1);			/* a commit is one */
	own_close(&o);
	seal_now(0);
	see_many(MANY / MATCH_PIECE_ROWS + 1, MANY / MATCH_PIECE_ROWS + 1);
	fold_now(0);
	see_many(MANY / MATCH_PIECE_ROWS + 1, MANY / MATCH_PIECE_ROWS + 1);
	own_end(&o);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(winners_only, fresh_store,
		    store_gone),
		cmocka_unit_test_setup_teardown(each_piece_once, fresh_store,
		    store_gone),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
