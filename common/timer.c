#include "common/base.h"

#include "common/timer.h"

/*
 * A pairing heap. A timer's children are a list through sibling, each of them
 * not earlier than it; prev is the left neighbour, or for the leftmost child
 * the parent, so that any timer can be cut out. Merging two heaps makes the
 * later root the leftmost child of the earlier.
 */

static struct timer *
merge(struct timer *a, struct timer *b)
{
	if (a == NULL)
		return b;
	if (b == NULL)
		return a;
	if (b->deadline_ns < a->deadline_ns) {
		struct timer *t = a;

		a = b;
		b = t;
	}
	b->sibling = a->child;
	if (a->child != NULL)
		a->child->prev = b;
	b->prev = a;
	a->child = b;
	return a;
}

/* Merges a list of siblings in pairs from the left, then the pairs from the
 * right: what makes removing the first O(log n) on average. */
static struct timer *
merge_siblings(struct timer *list)
{
	struct timer *pairs = NULL, *root = NULL;

	while (list != NULL) {
		struct timer *a = list;
		struct timer *b = a->sibling;

		list = b == NULL ? NULL : b->sibling;
		a->sibling = a->prev = NULL;
		if (b != NULL)
			b->sibling = b->prev = NULL;
		a = merge(a, b);
		a->sibling = pairs;
		pairs = a;
	}
	while (pairs != NULL) {
		struct timer *next = pairs->sibling;

		pairs->sibling = NULL;
		root = merge(root, pairs);
		pairs = next;
	}
	return root;
}

static void
take_out(struct timers *ts, struct timer *t)
{
	struct timer *below = merge_siblings(t->child);

	if (t == ts->first) {
		ts->first = below;
	} else {
		if (t->prev->child == t)
			t->prev->child = t->sibling;
		else
			t->prev->sibling = t->sibling;
		if (t->sibling != NULL)
			t->sibling->prev = t->prev;
		ts->first = merge(ts->first, below);
	}
	t->child = t->sibling = t->prev = NULL;
	t->armed = false;
}

void
timers_init(struct timers *ts)
{
	*ts = (struct timers){ 0 };
}

void
timer_init(struct timer *t, void (*fire)(struct timer *))
{
	*t = (struct timer){ .fire = fire };
}

void
timer_set(struct timers *ts, struct timer *t, uint64_t deadline_ns)
{
	if (t->armed)
		take_out(ts, t);
	/* Else a timer that sets itself to a time past would fire for ever. */
	if (ts->firing && deadline_ns <= ts->firing_ns)
		deadline_ns = ts->firing_ns + 1;
	t->deadline_ns = deadline_ns;
	t->armed = true;
	ts->first = merge(ts->first, t);
}

void
timer_cancel(struct timers *ts, struct timer *t)
{
	if (t->armed)
		take_out(ts, t);
}

void
timers_fire(struct timers *ts, uint64_t now_ns)
{
	MUST(!ts->firing);
	ts->firing = true;
	ts->firing_ns = now_ns;
	while (ts->first != NULL && ts->first->deadline_ns <= now_ns) {
		struct timer *t = ts->first;

		take_out(ts, t);
		t->fire(t);
	}
	ts->firing = false;
}

uint64_t
timers_next(const struct timers *ts)
{
	return ts->first == NULL ? UINT64_MAX : ts->first->deadline_ns;
}
