#ifndef MEMWALD_TESTS_UNIT_MASTER_TEST_H
#define MEMWALD_TESTS_UNIT_MASTER_TEST_H

/*
 * master_test - the test program as the master: it takes children for living
 * that nobody forked, and knows of ordinals and instances what a test says.
 */

#include "shm_test.h"

#include "common/clock.h"
#include "shm/ordinal_table.h"
#include "master/child.h"

static uint64_t version;		/* of the chain */

static inline void
must(struct err e)
{
	if (err_is(e))
		fail_msg("got %s (%s)", err_name(e), e.what);
}

/* Another process of the server, for a while. */
static inline void
as(uint16_t slot)
{
	shm_process_detach();
	/* Attach wants a life that has just begun. */
	atomic_store(&shm_process_get(slot)->state, SHM_PROCESS_STARTING);
	shm_process_attach(slot);
	shm_process_enter(SHM_PROCESS_RUNNING);
}

static inline void
pretend(uint16_t slot)
{
	struct child *c = child_of_slot(slot);

	shm_process_refill(slot);
	atomic_store(&shm_process_get(slot)->state, SHM_PROCESS_RUNNING);
	atomic_store(&shm_process_get(slot)->heartbeat_ns, clock_mono_ns());
	c->beaten = true;
	c->pid = 10000000 + slot;	/* above the kernel's maximum */
	shm_process_forked(slot, c->pid);
}

static inline void
pretend_all(uint32_t workers)
{
	struct child_plan plan = { .workers = workers };
	uint32_t i;

	child_init(&plan);
	for (i = 0; i < child_count(); i++)
		pretend(child_at(i)->slot);
}

static inline int
master_teardown(void **state)
{
	(void)state;
	shm_process_detach();
	shm_segment_destroy();
	return 0;
}

/* The ordinal is that instance's, as the next version says. */
static inline void
assign_as(uint32_t index, const char *instance, struct shm_news news)
{
	bool changed;

	news.version = ++version;
	snprintf(news.is.instance, sizeof(news.is.instance), "%s", instance);
	must(shm_ordinal_assign(index, &news, &changed));
	assert_true(changed);
	shm_ordinal_version_raise(version);
}

/* Its lease: silent for so much of its span of a second. */
static inline void
see(const char *id, uint64_t at_version, uint64_t silent_ms, bool released)
{
	struct shm_instance_look look = {
	    .id = slice_of(id), .address = slice_of("there:1"),
	    .version = at_version, .span_ns = NS_PER_SEC, .released = released,
	    .before_ns = NS_PER_SEC, .after_ns = NS_PER_SEC };

	must(shm_instance_seen(&look));
	look.before_ns = look.after_ns = NS_PER_SEC + silent_ms * NS_PER_MS;
	must(shm_instance_seen(&look));
}

#endif
