#ifndef MEMWALD_TESTS_UNIT_STORE_MOVED_H
#define MEMWALD_TESTS_UNIT_STORE_MOVED_H

/*
 * store_moved - a store and ordinals that move: 0 is this worker's own, "far" is
 * of another instance, which wrote to its shard.
 */

#include "store_engine.h"

static uint32_t far;			/* the ordinal's index */
/* What the segment of the other instance knows of its shard. */
static struct shm_shard_state elsewhere;

/* As the next version of the chain has it. */
static inline void
assign(uint32_t ordinal, const char *instance, uint32_t worker)
{
	static uint64_t version;
	struct shm_news news = { .version = ++version, .is = {
	    .state = SHM_ORDINAL_OWNED, .worker = worker } };
	bool changed;

	snprintf(news.is.instance, sizeof(news.is.instance), "%s", instance);
	see_ok(shm_ordinal_assign(ordinal, &news, &changed));
	assert_true(changed);
}

static inline void
add_far(const char *instance)
{
	see_ok(shm_ordinal_add(SLICE("far"), &far));
	assign(0, shm_instance_id(), 0);
	assign(far, instance, 0);
	shm_shard_init(&elsewhere);
}

/* Of the other instance: durable, and known there alone. */
static inline struct owner
claim_elsewhere(void)
{
	struct owner o = { .ordinal = far, .shard = shm_ordinal_shard(far),
	    .state = &elsewhere, .entry.fd = -1 };

	child_ok(own_take(&o));
	return o;
}

#endif
