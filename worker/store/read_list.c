#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "worker/store/match.h"
#include "worker/store/read_list.h"

/* Keys between two looks at the clock: some microseconds. */
#define KEYS_A_LOOK	32u

struct read_list {
	struct snapshot *snapshot;
	uint32_t tail_count, run_count;
	struct tail_sorted *tails;
	struct merge *merge;
	struct match *match;		/* NULL: there is no filter */
	const bool *columns;
	uint32_t keys;			/* since the last look at the clock */
};

static struct err
sort_tails(struct store *s, struct read_list *l)
{
	struct err e = OK;
	uint32_t i;

	l->tails = calloc(MAX(l->snapshot->shard_count, 1u),
	    sizeof(*l->tails));
	if (l->tails == NULL)
		return FAIL(NO_MEMORY, "list a store");
	for (i = 0; !err_is(e) && i < l->snapshot->shard_count; i++) {
		e = tail_sort(s->tails[i],
		    l->snapshot->shards[i].manifest.replay_after,
		    &l->tails[i]);
		l->tail_count = i + 1;
		l->run_count += l->tails[i].run_count;
	}
	return e;
}

static void
add_sources(struct read_list *l)
{
	const struct snapshot *s = l->snapshot;
	uint32_t i, k;

	for (i = 0; i < l->tail_count; i++)
		merge_add_tail(l->merge, &l->tails[i]);
	for (i = 0; i < s->shard_count; i++) {
		for (k = 0; k < s->shards[i].source_count; k++)
			merge_add_source(l->merge, s->shards[i].sources[k]);
	}
	merge_add_base(l->merge, s->base);
}

struct err
read_list_open(struct store *s, struct snapshot *snapshot,
    const struct read_want *want, struct read_list **out)
{
	struct read_list *l;
	struct err e = OK;

	read_count_pending(snapshot);
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return FAIL(NO_MEMORY, "list a store");
	l->snapshot = snapshot_hold(snapshot);
	l->columns = want->columns;
	e = sort_tails(s, l);
	if (!err_is(e))
		e = merge_new(s->shape, l->run_count +
		    snapshot_pending(snapshot).sum +
		    snapshot->base->keys_count, &l->merge);
	if (!err_is(e) && want->filter != NULL)
		e = match_new(want->filter, l->merge, &l->match);
	if (err_is(e)) {
		read_list_close(l);
		return e;
	}
	add_sources(l);
	*out = l;
	return OK;
}

static bool
is_late(struct read_list *l, uint64_t until_ns, bool looked)
{
	if (!looked && ++l->keys < KEYS_A_LOOK)
		return false;
	l->keys = 0;
	return clock_mono_ns() >= until_ns;
}

/* One key further: END, or whether the filter gives its row. */
static struct err
one_key(struct read_list *l, struct merge_row *row, bool *end, bool *given,
    bool *looked)
{
	bool found;
	struct err e = merge_next(l->merge, row, &found);

	*given = true;
	*looked = false;
	if (err_is(e))
		return e;
	*end = !found;
	return found && l->match != NULL ?
	    match_row(l->match, row, given, looked) : OK;
}

struct err
read_list_pass(struct read_list *l, uint64_t count, uint64_t until_ns,
    uint64_t *passed, enum read_step *step)
{
	struct merge_row row;
	bool end, given, looked;
	struct err e;

	*passed = 0;
	*step = READ_ROW;
	while (*passed < count) {
		e = one_key(l, &row, &end, &given, &looked);
		if (err_is(e))
			return e;
		if (end) {
			*step = READ_END;
			return OK;
		}
		*passed += given;
		if (*passed < count && is_late(l, until_ns, looked)) {
			*step = READ_LATER;
			return OK;
		}
	}
	return OK;
}

struct err
read_list_next(struct read_list *l, uint64_t until_ns, enum read_step *step,
    const struct batch **batch, uint64_t *at)
{
	struct merge_row row;
	bool end, given, looked;
	struct err e;

	for (;;) {
		e = one_key(l, &row, &end, &given, &looked);
		if (err_is(e))
			return e;
		if (end) {
			*step = READ_END;
			return OK;
		}
		if (given)
			break;
		if (is_late(l, until_ns, looked)) {
			*step = READ_LATER;
			return OK;
		}
	}
	*step = READ_ROW;
	return merge_read_columns(l->merge, &row, l->columns, batch, at);
}

void
read_list_close(struct read_list *l)
{
	uint32_t i;

	if (l == NULL)
		return;
	match_free(l->match);
	merge_free(l->merge);
	for (i = 0; i < l->tail_count; i++)
		tail_sorted_free(&l->tails[i]);
	free(l->tails);
	snapshot_drop(l->snapshot);
	free(l);
}
