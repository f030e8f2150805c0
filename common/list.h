#ifndef MEMWALD_COMMON_LIST_H
#define MEMWALD_COMMON_LIST_H

/*
 * list - an intrusive, doubly linked, circular list.
 *
 * The link is embedded in its owner (CONTAINER_OF finds it again), so nothing
 * is allocated to be in a list. A link that is in no list points to itself;
 * list_remove may be called on it.
 */

#include "common/base.h"

struct list {
	struct list *next, *prev;
};

static inline void
list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool
list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void
list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

/* Behind the last. */
static inline void
list_append(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Takes the first out, or NULL. */
static inline struct list *
list_pop(struct list *head)
{
	struct list *l = head->next;

	if (l == head)
		return NULL;
	list_remove(l);
	return l;
}

/* Moves all of from behind the last of to. */
static inline void
list_splice(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define LIST_FOREACH(l, head) \
	for ((l) = (head)->next; (l) != (head); (l) = (l)->next)

#endif
