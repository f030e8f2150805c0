#include "common/base.h"

#include <stdlib.h>

#include "worker/store/tail_parts.h"

/*
 * Each entry keeps the run that the last list needed: its rows sorted by key.
 * The next list sorts only what came since and merges it in, so that a list of
 * a long tail costs what was written since the list before.
 */

void
tail_run_drop(struct tail_run *r)
{
	if (r != NULL && atomic_fetch_sub_explicit(&r->refs, 1,
	    memory_order_acq_rel) == 1)
		free(r);
}

/* Of one key the order in which they were written. */
static int
by_key(const void *a, const void *b)
{
	const struct tail_row *x = a, *y = b;
	int order = slice_cmp(x->key, y->key);

	if (order != 0)
		return order;
	if (x->batch != y->batch)
		return tail_batch_before(x->batch, y->batch) ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* The rows that came since the last run, sorted behind its place, and then
 * merged with it: what is written never overtakes what is yet to be read. */
static struct tail_run *
make_run(const struct tail_entry *e)
{
	const struct tail_run *old = e->run;
	uint64_t had = old == NULL ? 0 : old->count, n = e->row_count;
	uint64_t i = 0, k = had, to = 0;
	struct tail_run *r = malloc(sizeof(*r) + n * sizeof(r->rows[0]));

	if (r == NULL)
		return NULL;
	atomic_init(&r->refs, 1);
	r->count = n;
	for (; k < n; k++)
		r->rows[k] = tail_row_at(e, (uint32_t)k);
	qsort(r->rows + had, n - had, sizeof(r->rows[0]), by_key);
	for (k = had; i < had; to++) {
		bool is_old = k == n || by_key(&old->rows[i], &r->rows[k]) < 0;

		r->rows[to] = is_old ? old->rows[i++] : r->rows[k++];
	}
	return r;
}

static struct err
add_run(struct tail_entry *e, struct tail_sorted *sorted)
{
	if (e->run == NULL || e->run->count != e->row_count) {
		struct tail_run *r = make_run(e);

		if (r == NULL)
			return FAIL(NO_MEMORY, "sort a tail");
		tail_run_drop(e->run);
		e->run = r;
		tail_entry_count(e);
	}
	atomic_fetch_add_explicit(&e->run->refs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	sorted->runs[sorted->run_count] = e->run;
	sorted->entries[sorted->run_count++] = e;
	return OK;
}

struct err
tail_sort(const struct tail *t, uint64_t replay_after,
    struct tail_sorted *sorted)
{
	struct err e = OK;
	uint32_t n = 0;
	struct list *l;

	*sorted = (struct tail_sorted){ .after = replay_after };
	LIST_FOREACH(l, &t->entries)
		n++;
	if (n == 0)
		return OK;
	sorted->runs = calloc(n, sizeof(*sorted->runs));
	sorted->entries = calloc(n, sizeof(*sorted->entries));
	if (sorted->runs == NULL || sorted->entries == NULL)
		e = FAIL(NO_MEMORY, "sort a tail");
	LIST_FOREACH(l, &t->entries) {
		struct tail_entry *entry =
		    CONTAINER_OF(l, struct tail_entry, link);

		if (!err_is(e) && entry->position > replay_after &&
		    entry->row_count > 0)
			e = add_run(entry, sorted);
	}
	if (err_is(e))
		tail_sorted_free(sorted);
	return e;
}

void
tail_sorted_free(struct tail_sorted *sorted)
{
	uint32_t i;

	for (i = 0; i < sorted->run_count; i++) {
		tail_run_drop(sorted->runs[i]);
		tail_entry_drop(sorted->entries[i]);
	}
	free(sorted->entries);
	free(sorted->runs);
	*sorted = (struct tail_sorted){ 0 };
}
