#include "common/base.h"

#include <stdio.h>

#include "shm/home.h"
#include "shm/process.h"
#include "master/candidate.h"

static void
add(struct candidates *c, const char *instance, const char *address,
    uint32_t worker, bool ours)
{
	struct candidate *one = &c->all[c->count++];

	*one = (struct candidate){ .worker = worker, .ours = ours };
	snprintf(one->instance, sizeof(one->instance), "%s", instance);
	snprintf(one->address, sizeof(one->address), "%s", address);
}

struct candidate *
candidates_get(struct candidates *c, const char *instance, uint32_t worker)
{
	uint32_t i;

	for (i = 0; i < c->count; i++) {
		struct candidate *one = &c->all[i];

		if (one->worker == worker &&
		    strcmp(one->instance, instance) == 0)
			return one;
	}
	return NULL;
}

/* Another instance's worker, if that lives: by the address of its lease. */
static struct candidate *
add_other(struct candidates *c, const char *instance, uint32_t worker)
{
	struct shm_instance other;

	if (c->count == CANDIDATES_MAX ||
	    strcmp(instance, shm_instance_id()) == 0 ||
	    !shm_instance_find(instance, &other) ||
	    !shm_instance_lives(&other))
		return NULL;
	add(c, other.id, other.address, worker, false);
	return &c->all[c->count - 1];
}

static void
count_owner(struct candidates *c, const struct shm_assignment *is)
{
	struct candidate *one = candidates_get(c, is->instance, is->worker);

	if (one == NULL)
		one = add_other(c, is->instance, is->worker);
	if (one != NULL)
		one->load++;
}

/* An instance that owns nothing just now: of its workers only the first is sure
 * to be there. */
static void
add_first(struct candidates *c, const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);

	if (home.worker == 0 && candidates_get(c, home.instance, 0) == NULL)
		(void)add_other(c, home.instance, 0);
}

static void
drop(struct candidates *c, const struct shm_home *home, bool all)
{
	uint32_t i, kept = 0;

	for (i = 0; i < c->count; i++) {
		const struct candidate *one = &c->all[i];

		if (strcmp(one->instance, home->instance) == 0 &&
		    (all || one->worker == home->worker))
			continue;
		if (kept != i)
			c->all[kept] = c->all[i];
		kept++;
	}
	c->count = kept;
}

/* What an operator drains gets nothing. */
static void
drop_drained(struct candidates *c)
{
	uint32_t i, count = shm_ordinal_count();
	struct shm_ordinal o;
	struct shm_home home;

	for (i = 0; i < count; i++) {
		if (err_is(shm_ordinal_get(i, &o)) || o.drained == 0)
			continue;
		home = shm_home_of(&o);
		drop(c, &home, (o.drained & SHM_DRAINED_INSTANCE) != 0);
	}
}

void
candidates_find(struct candidates *c, uint32_t workers)
{
	uint32_t i, count = shm_ordinal_count();
	struct shm_ordinal o;

	c->count = 0;
	for (i = 0; i < MIN(workers, CANDIDATES_MAX); i++)
		add(c, shm_instance_id(), shm_instance_address(), i, true);
	for (i = 0; i < count; i++) {
		if (!err_is(shm_ordinal_get(i, &o)) && o.version != 0 &&
		    (o.is.state == SHM_ORDINAL_OWNED ||
		    o.is.state == SHM_ORDINAL_MOVING))
			count_owner(c, &o.is);
	}
	for (i = 0; i < count; i++) {
		if (!err_is(shm_ordinal_get(i, &o)) && o.version != 0)
			add_first(c, &o);
	}
	drop_drained(c);
}

struct candidate *
candidates_least(struct candidates *c, const char *instance)
{
	struct candidate *least = NULL;
	uint32_t i;

	/* Ours are in front, so of equals one of them is met first. */
	for (i = 0; i < c->count; i++) {
		struct candidate *one = &c->all[i];

		if ((instance == NULL ||
		    strcmp(one->instance, instance) == 0) &&
		    (least == NULL || one->load < least->load))
			least = one;
	}
	return least;
}

struct shm_assignment
candidate_take(struct candidate *one)
{
	struct shm_assignment to = { .state = SHM_ORDINAL_OWNED,
	    .worker = one->worker };

	one->load++;
	snprintf(to.instance, sizeof(to.instance), "%s", one->instance);
	snprintf(to.address, sizeof(to.address), "%s", one->address);
	return to;
}
