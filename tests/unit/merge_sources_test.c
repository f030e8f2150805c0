#include "store_dir.h"
#include "store_foreign.h"

#include "worker/store/row.h"

/* All rows that count, through a merge: "k1=a k2=b"; the same for what a get
 * finds. */

static void
sequence_order_across_sources(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);

	(void)state;
	/* Base, generation and tail of two shards, in an order of their own. */
	generation_with(&b, "k1", "1");
	generation_with(&b, "k2", "1");
	generation_with(&b, "k3", "1");
	fold_now(1);
	generation_with(&a, "k1", "2");
	generation_with(&b, "k2", "2");
	see_ok(own_rotate(&a, "k2", "3"));
	see_ok(own_rotate(&b, "k1", "3"));
	see_ok(own_put(&a, "k4", "3"));
	see_store("k1=3 k2=3 k3=1 k4=3");
	generation_with(&a, "k1", "4");
	see_store("k1=4 k2=3 k3=1 k4=3");
	own_close(&b);
	seal_now(1);
	see_store("k1=4 k2=3 k3=1 k4=3");
	fold_now(0);
	see_store("k1=4 k2=3 k3=1 k4=3");
	fold_now(1);
	see_store("k1=4 k2=3 k3=1 k4=3");
}

/* Two hosts wrote one key under one sequence. */
static void
put_at(struct owner *o, uint64_t sequence, const char *key, const char *text,
    int64_t created_at)
{
	struct buf message;
	struct builder b;

	rows_begin(&b);
	add_row(&b, key, text, created_at);
	buf_init(&message, 1u << 20);
	message_of(&b, sequence, &message);
	builder_free(&b);
	see_ok(object_write_sync(o->entry.fd, message.ptr, message.len,
	    o->entry.end));
	o->written = message.len;
	o->sequence = sequence;
	buf_free(&message);
	see_ok(own_acknowledge(o));
}

static void
ties(void **state)
{
	struct owner a = own_claim(0), b = own_claim(1);

	(void)state;
	/* The greater created_at, whatever the rest says. */
	put_at(&a, 50, "k1", "zzz", 1);
	put_at(&b, 50, "k1", "aaa", 2);
	/* Else the greater row, column by column. */
	put_at(&a, 60, "k2", "greater", 1);
	put_at(&b, 60, "k2", "great", 1);
	/* The sequence before all of it. */
	put_at(&a, 70, "k3", "old", 9);
	put_at(&b, 71, "k3", "new", 1);
	see_store("k1=aaa k2=greater k3=new");
	own_close(&a);
	seal_now(0);
	see_store("k1=aaa k2=greater k3=new");
	fold_now(0);
	see_store("k1=aaa k2=greater k3=new");
	own_close(&b);
	seal_now(1);
	fold_now(1);
	see_store("k1=aaa k2=greater k3=new");
}

static void
null_sequence_is_oldest(void **state)
{
	const int64_t sequences[] = { NO_SEQUENCE, 1, NO_SEQUENCE };
	struct builder b;

	(void)state;
	rows_begin(&b);
	add_row(&b, "k1", "null", 9);
	add_row(&b, "k2", "one", 1);
	add_row(&b, "k3", "null", 1);
	sequences_are(&b, sequences);
	foreign_rows(&b);
	rows_begin(&b);
	add_row(&b, "k1", "one", 1);
	add_row(&b, "k2", "null", 9);
	add_row(&b, "k3", "null, later", 9);
	{
		const int64_t more[] = { 1, NO_SEQUENCE, NO_SEQUENCE };

		sequences_are(&b, more);
	}
	foreign_rows(&b);
	see_store("k1=one k2=one k3=null, later");
}

static void
key_twice_in_one_source(void **state)
{
	const int64_t sequences[] = { 5, 7, 6, NO_SEQUENCE, 3, 3 };
	struct builder b;

	(void)state;
	rows_begin(&b);
	add_row(&b, "k1", "5", 9);
	add_row(&b, "k1", "7", 1);
	add_row(&b, "k1", "6", 9);
	add_row(&b, "k1", "null", 9);
	add_row(&b, "k2", "first", 9);
	add_row(&b, "k2", "later", 1);
	sequences_are(&b, sequences);
	foreign_rows(&b);
	see_store("k1=7 k2=later");
}

static void
deleted_rows_do_not_count(void **state)
{
	struct owner a = own_claim(0);
	struct reading r;
	struct merge *m;
	struct seen seen = { 0 };
	struct base only;
	uint32_t i;

	(void)state;
	generation_with(&a, "k1", "a");
	see_ok(own_rotate(&a, "k2", "a"));
	see_ok(own_put(&a, "k3", "a"));
	own_close(&a);
	seal_now(0);
	fold_now(0);
	generation_with(&a, "k2", "b");
	fold_now(0);
	see_store("k1=a k2=b k3=a");
	/* Of the older fragment alone: k2 is masked there. */
	reading_begin(&r);
	assert_int_equal(r.snapshot->base->source_count, 2);
	assert_int_equal(r.snapshot->base->keys_count, 2);
	see_ok(merge_new(shape_of(), 1, &m));
	for (i = 0; i < 2; i++) {
		only = *r.snapshot->base;
		only.keys += i;
		only.keys_count = 1;
		if (only.sources[only.keys[0].sources[0]]->fragment->deletion !=
		    NULL)
			break;
	}
	merge_add_base(m, &only);
	see_rows(m, &seen);
	assert_int_equal(seen.count, 2);
	assert_string_equal(seen.rows[0].key, "k1");
	assert_string_equal(seen.rows[1].key, "k3");
	merge_free(m);
	merge_free(NULL);
	reading_end(&r);
}

static void
nothing_to_merge(void **state)
{
	struct merge_row row;
	struct merge *m;
	bool found = true;

	(void)state;
	see_ok(merge_new(shape_of(), 0, &m));
	see_ok(merge_next(m, &row, &found));
	assert_false(found);
	see_ok(merge_next(m, &row, &found));
	assert_false(found);
	merge_free(m);
}

/* Many sources, keys in each of them: a heap that is not in order would show
 * here. */
static void
many_sources(void **state)
{
	struct owner a = own_claim(0);
	char key[16], want[4096] = "", text[16];
	int i, k;

	(void)state;
	for (i = 0; i < 9; i++) {
		struct builder b;

		rows_begin(&b);
		for (k = 0; k < 20; k++) {
			if (k % (i + 2) != 0)
				continue;
			snprintf(key, sizeof(key), "k%02d", 19 - k);
			snprintf(text, sizeof(text), "%d", i);
			add_row(&b, key, text, 1);
		}
		see_ok(own_rotate(&a, "k", "x"));
		see_ok(own_write_rows(&a, &b));
		builder_free(&b);
		see_ok(own_acknowledge(&a));
		own_close(&a);
		seal_now(0);
		see_ok(own_rotate(&a, "k", "x"));
	}
	snprintf(want, sizeof(want), "k=x");
	for (k = 19; k >= 0; k--) {
		for (i = 8; i >= 0 && k % (i + 2) != 0; i--)
			;
		if (i < 0)
			continue;
		snprintf(want + strlen(want), sizeof(want) - strlen(want),
		    " k%02d=%d", 19 - k, i);
	}
	see_store(want);
	own_end(&a);
}

/* Batches of tails that are read are kept within bounds, and what was handed
 * out is of the row asked for. */
static void
rows_of_tails_lie_apart(void **state)
{
	struct owner a = own_claim(0);
	char key[16], want[8192] = "", text[16];
	int i;

	(void)state;
	for (i = 0; i < 150; i++) {
		snprintf(key, sizeof(key), "k%03d", (i * 37) % 150);
		snprintf(text, sizeof(text), "%d", i);
		see_ok(own_put(&a, key, text));
	}
	for (i = 0; i < 150; i++) {
		int k = 0;

		while ((k * 37) % 150 != i)
			k++;
		snprintf(want + strlen(want), sizeof(want) - strlen(want),
		    "%sk%03d=%d", i > 0 ? " " : "", i, k);
	}
	see_store(want);
	own_end(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(sequence_order_across_sources),
		store_test(ties),
		store_test(null_sequence_is_oldest),
		store_test(key_twice_in_one_source),
		store_test(deleted_rows_do_not_count),
		store_test(nothing_to_merge),
		store_test(many_sources),
		store_test(rows_of_tails_lie_apart),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
