#include "shm_test.h"
#include "lance_dir.h"

#include <pthread.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/host.h"
#include "shm/ordinal_table.h"
#include "worker/maintain/lease.h"
#include "worker/object/chain.h"

/*
 * The rules of lease.h, one after the other. Other holders are versions that
 * the test puts itself. Spans are long where nothing may run out, and a few
 * milliseconds where it shall: then the test waits until it has.
 */

#define LONG_NS	(600 * NS_PER_SEC)
#define SHORT_NS (20 * NS_PER_MS)
#define OTHER	"11111111-2222-3333-4444-555555555555"

static struct arena arena;
static struct lease lease;
static char boot[64];

static int
begin(void **state)
{
	if (segment_setup(state) != 0 || dir_setup(state) != 0)
		return -1;
	arena_init(&arena, 64u << 20);
	shm_segment_destroy();		/* another one, where nothing is held */
	{
		struct shm_config cfg = test_config();

		cfg.address = SLICE("here:1");
		see_ok(shm_segment_create(&cfg));
	}
	shm_process_refill(SHM_MASTER);
	shm_process_attach(SHM_MASTER);
	host_boot_id(boot, sizeof(boot));
	lease_init(&lease, dir, LONG_NS, false);
	return 0;
}

static int
end(void **state)
{
	see_ok(fault_set("lease_renew=off"));
	arena_free(&arena);
	see_ok(object_delete_tree(dir, "_cluster"));
	dir_teardown(state);
	memcpy(root_path + sizeof(root_path) - 7, "XXXXXX", 6);
	return segment_teardown(state);
}

static struct chain
chain_of_id(const char *id)
{
	struct uuid u = uuid_named(slice_of(id));
	struct chain c = { .root = dir };
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(&u, text);
	snprintf(c.prefix, sizeof(c.prefix), "_cluster/lease/%s", text);
	return c;
}

static uint64_t
newest_of(const char *id)
{
	struct chain c = chain_of_id(id);
	uint64_t version;

	see_ok(chain_newest(&c, &version));
	return version;
}

/* The next version of an id's lease, of a holder that is not us. */
static void
put_other(const char *id, const char *state, const char *on_boot,
    uint64_t span_ms)
{
	struct chain c = chain_of_id(id);
	uint64_t version = newest_of(id) + 1;
	struct uuid writer = uuid_random();
	char text[UUID_TEXT_LEN + 1], bytes[1024];
	bool stands;

	uuid_to_text(&writer, text);
	snprintf(bytes, sizeof(bytes), "{\"version\":%llu,\"writer\":\"%s\","
	    "\"holder\":\"" OTHER "\",\"state\":\"%s\",\"instance\":\"%s\","
	    "\"address\":\"there:2\",\"boot\":\"%s\",\"pid\":77,"
	    "\"span_ms\":%llu,\"at_ms\":1}", (unsigned long long)version,
	    text, state, id, on_boot, (unsigned long long)span_ms);
	see_ok(chain_put(&c, version, slice_of(bytes), &arena, &stands));
	assert_true(stands);
}

static struct shm_lease
seen(void)
{
	struct shm_lease l;

	shm_lease_get(&l);
	assert_int_equal(shm_lease_held(), l.state == SHM_LEASE_HELD);
	return l;
}

static void
state_is(enum shm_lease_state state)
{
	if (seen().state != state)
		fail_msg("state is %s (%s)", shm_lease_state_name(seen().state),
		    seen().why);
}

static void
round_to(enum shm_lease_state state)
{
	see_ok(lease_round(&lease));
	state_is(state);
}

static void
it_is_taken_and_renewed(void **state)
{
	uint64_t left_ns;

	(void)state;
	state_is(SHM_LEASE_NONE);
	round_to(SHM_LEASE_HELD);
	assert_int_equal(seen().version, 1);
	assert_int_equal(seen().terms, 1);
	left_ns = seen().left_ns;
	/* Less than the span, by what clocks may go apart. */
	assert_true(left_ns <= LONG_NS - LONG_NS / 8);
	assert_true(left_ns > LONG_NS / 2);
	round_to(SHM_LEASE_HELD);
	assert_int_equal(seen().version, 2);
	assert_int_equal(seen().terms, 1);	/* the same one, renewed */
	assert_int_equal(newest_of("host"), 2);
}

static void
old_versions_go(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 10; i++)
		round_to(SHM_LEASE_HELD);
	assert_int_equal(newest_of("host"), 10);
	{
		struct chain c = chain_of_id("host");
		char name[CHAIN_PREFIX_MAX + 32];

		snprintf(name, sizeof(name), "%s/%020u.json", c.prefix, 5u);
		see_error(object_exists(dir, name), NOT_FOUND);
		snprintf(name, sizeof(name), "%s/%020u.json", c.prefix, 6u);
		see_ok(object_exists(dir, name));
	}
}

/* Nobody has to find it out: the word in the segment has its own end. */
static void
it_ends_by_itself(void **state)
{
	(void)state;
	lease_init(&lease, dir, SHORT_NS, false);
	see_ok(lease_round(&lease));
	while (shm_lease_held())
		sched_yield();
	state_is(SHM_LEASE_LOST);
	assert_int_equal(seen().losses, 0);
	lease_expire();
	assert_int_equal(seen().losses, 1);
	assert_string_equal(seen().why, "not renewed in time");
	lease_expire();
	assert_int_equal(seen().losses, 1);
	/* And comes back by itself, as a new term. */
	lease_init(&lease, dir, LONG_NS, false);
	round_to(SHM_LEASE_HELD);
	assert_int_equal(seen().terms, 2);
}

/* The span is counted from before the put began: a slow store makes it shorter,
 * not longer. */
static void
a_slow_put_is_not_held_for_long(void **state)
{
	(void)state;
	lease_init(&lease, dir, SHORT_NS, false);
	see_ok(fault_set("put_lease=delay:40:1"));
	see_ok(lease_round(&lease));
	state_is(SHM_LEASE_LOST);
	assert_false(shm_lease_held());
}

static void
a_failure_leaves_it_as_it_was(void **state)
{
	(void)state;
	round_to(SHM_LEASE_HELD);
	see_ok(fault_set("lease_renew=fail:5:1"));
	see_error(lease_round(&lease), IO);
	state_is(SHM_LEASE_HELD);
	round_to(SHM_LEASE_HELD);
}

static void
a_living_one_refuses_a_start(void **state)
{
	(void)state;
	put_other("host", "held", "elsewhere", 600000);
	round_to(SHM_LEASE_WATCHED);
	round_to(SHM_LEASE_WATCHED);
	put_other("host", "held", "elsewhere", 600000);
	round_to(SHM_LEASE_REFUSED);
	assert_non_null(strstr(seen().why, "there:2"));
	assert_int_equal(newest_of("host"), 2);	/* nothing of ours */
}

static void
a_silent_one_is_dead_after_its_span(void **state)
{
	uint64_t began_ns = clock_boot_ns();

	(void)state;
	/* Its own span counts, not ours. */
	put_other("host", "held", "elsewhere", 60);
	round_to(SHM_LEASE_WATCHED);
	while (seen().state == SHM_LEASE_WATCHED)
		see_ok(lease_round(&lease));
	state_is(SHM_LEASE_HELD);
	assert_true(clock_boot_ns() - began_ns >= 60 * NS_PER_MS);
	assert_int_equal(newest_of("host"), 2);
}

static void
a_released_one_is_free(void **state)
{
	(void)state;
	put_other("host", "held", "elsewhere", 600000);
	put_other("host", "released", "elsewhere", 600000);
	round_to(SHM_LEASE_HELD);
}

/* We hold the lock file: no process of that server is left. */
static void
one_of_this_boot_is_dead_at_start(void **state)
{
	(void)state;
	put_other("host", "held", boot, 600000);
	round_to(SHM_LEASE_HELD);
	assert_int_equal(newest_of("host"), 2);
}

/* But not later: then somebody runs beside us, whatever the lock says. */
static void
taken_by_another_is_lost(void **state)
{
	(void)state;
	round_to(SHM_LEASE_HELD);
	put_other("host", "held", boot, 100);
	round_to(SHM_LEASE_LOST);
	assert_int_equal(seen().losses, 1);
	assert_non_null(strstr(seen().why, "77"));
	put_other("host", "held", boot, 100);
	round_to(SHM_LEASE_LOST);		/* never REFUSED: it goes on */
	while (seen().state == SHM_LEASE_LOST)
		see_ok(lease_round(&lease));
	state_is(SHM_LEASE_HELD);
	assert_int_equal(seen().terms, 2);
	assert_int_equal(seen().losses, 1);
	assert_int_equal(newest_of("host"), 4);
}

/* C.5: somebody cleans up what he should not. */
static void
a_deleted_lease_is_put_again(void **state)
{
	struct chain c = chain_of_id("host");

	(void)state;
	round_to(SHM_LEASE_HELD);
	round_to(SHM_LEASE_HELD);
	see_ok(object_delete_tree(dir, c.prefix));
	round_to(SHM_LEASE_HELD);
	assert_int_equal(seen().terms, 1);
	assert_int_equal(newest_of("host"), 1);
}

/* I.1 */
static void
ambiguous_puts_are_read_back(void **state)
{
	(void)state;
	see_ok(fault_set("put_lease=drop:1"));
	round_to(SHM_LEASE_HELD);
	see_ok(fault_set("put_lease=late:1"));
	round_to(SHM_LEASE_HELD);
	see_ok(fault_set("put_lease=answer:CONFLICT:1"));
	round_to(SHM_LEASE_HELD);
	assert_int_equal(newest_of("host"), 3);
}

static void
a_damaged_lease_is_an_error(void **state)
{
	struct chain c = chain_of_id("host");
	bool stands;

	(void)state;
	see_ok(chain_put(&c, 1, SLICE("{\"version\":1}"), &arena, &stands));
	see_error(lease_round(&lease), CORRUPT);
	state_is(SHM_LEASE_NONE);
}

static void
leaving_frees_it(void **state)
{
	(void)state;
	see_ok(lease_release(&lease));		/* never had it */
	assert_int_equal(newest_of("host"), 0);
	round_to(SHM_LEASE_HELD);
	see_ok(lease_release(&lease));
	state_is(SHM_LEASE_RELEASED);
	assert_int_equal(newest_of("host"), 2);
	/* One that is another's by now is not released for him. */
	put_other("host", "held", "elsewhere", 600000);
	see_ok(lease_release(&lease));
	assert_int_equal(newest_of("host"), 3);
}

static struct shm_instance
other(const char *id)
{
	struct shm_instance i;

	assert_true(shm_instance_find(id, &i));
	return i;
}

static void
others_are_seen(void **state)
{
	(void)state;
	see_ok(lease_look(&lease));
	assert_int_equal(shm_instance_count(), 0);
	round_to(SHM_LEASE_HELD);
	put_other("peer", "held", "elsewhere", 60);
	put_other("leaver", "released", "elsewhere", 60);
	see_ok(lease_look(&lease));
	assert_int_equal(shm_instance_count(), 2);	/* not ourselves */
	assert_string_equal(other("peer").address, "there:2");
	assert_true(other("peer").released == false);
	assert_int_equal(other("peer").silent_ns, 0);
	assert_true(shm_instance_lives(&(struct shm_instance){
	    .span_ns = 1 }));
	assert_false(shm_instance_lives(&(struct shm_instance){
	    .span_ns = 1, .released = true }));
	assert_true(other("leaver").released);
	/* As long as nothing changes it gets older, by our looks. */
	do {
		see_ok(lease_look(&lease));
	} while (other("peer").silent_ns < other("peer").span_ns);
	put_other("peer", "held", "elsewhere", 60000);
	see_ok(lease_look(&lease));
	assert_int_equal(other("peer").silent_ns, 0);
	assert_int_equal(other("peer").span_ns, 60000 * NS_PER_MS);
	assert_int_equal(other("peer").version, 2);
}

static void
own_one(const char *ordinal, const char *instance, uint64_t version)
{
	struct shm_news news = { .is = { .state = SHM_ORDINAL_OWNED },
	    .version = version };
	uint32_t index;
	bool changed;

	snprintf(news.is.instance, sizeof(news.is.instance), "%s", instance);
	see_ok(shm_ordinal_add(slice_of(ordinal), &index));
	see_ok(shm_ordinal_assign(index, &news, &changed));
	assert_true(changed);
}

static void
who_is_gone_for_good_is_forgotten(void **state)
{
	(void)state;
	put_other("owner", "released", "elsewhere", 1);
	put_other("gone", "held", "elsewhere", 1);
	put_other("gone", "held", "elsewhere", 1);
	put_other("alive", "held", "elsewhere", 600000);
	own_one("owner", "owner", 1);
	own_one("gone", "owner", 2);
	see_ok(lease_look(&lease));
	see_ok(lease_forget(&lease, 0));
	assert_int_equal(newest_of("gone"), 2);	/* not yet for its span */
	do {
		see_ok(lease_look(&lease));
	} while (other("gone").silent_ns < 2 * NS_PER_MS ||
	    other("owner").silent_ns < 2 * NS_PER_MS);
	see_ok(lease_forget(&lease, LONG_NS));
	assert_int_equal(newest_of("gone"), 2);
	see_ok(lease_forget(&lease, 0));
	assert_int_equal(newest_of("gone"), 0);
	assert_int_equal(newest_of("owner"), 1);
	assert_int_equal(newest_of("alive"), 1);
	/* It is no more, not even as a folder; and may come again. */
	see_ok(lease_look(&lease));
	see_ok(lease_forget(&lease, 0));
	put_other("gone", "held", "elsewhere", 600000);
	see_ok(lease_look(&lease));
	assert_true(shm_instance_lives(&(struct shm_instance){
	    .span_ns = other("gone").span_ns,
	    .silent_ns = other("gone").silent_ns }));
	/* What it owned has gone to others. */
	own_one("owner", "gone", 3);
	own_one("gone", "gone", 4);
	see_ok(lease_forget(&lease, 0));
	assert_int_equal(newest_of("owner"), 0);
	assert_int_equal(newest_of("gone"), 1);
}

/* Another instance was quicker: what it removed is as silent as it was; the place
 * in the segment is the next one's. */
static void
what_others_removed_is_forgotten(void **state)
{
	struct chain c = chain_of_id("gone");
	struct shm_instance i;

	(void)state;
	put_other("gone", "held", "elsewhere", 1);
	see_ok(lease_look(&lease));
	see_ok(object_delete_tree(dir, c.prefix));
	see_ok(lease_look(&lease));	/* ours is not listed: it tells nothing */
	assert_int_equal(other("gone").silent_ns, 0);
	round_to(SHM_LEASE_HELD);
	do {
		see_ok(lease_look(&lease));
	} while (other("gone").silent_ns < 2 * NS_PER_MS);
	see_ok(lease_forget(&lease, 0));
	assert_false(shm_instance_find("gone", &i));
	put_other("next", "held", "elsewhere", 60000);
	see_ok(lease_look(&lease));
	assert_true(shm_instance_lives(&(struct shm_instance){
	    .span_ns = other("next").span_ns }));
	assert_int_equal(shm_instance_count(), 1);
}

static void
a_damaged_one_hides_no_other(void **state)
{
	struct chain c = chain_of_id("broken");
	bool stands;

	(void)state;
	see_ok(chain_put(&c, 1, SLICE("{"), &arena, &stands));
	put_other("peer", "held", "elsewhere", 60000);
	see_ok(lease_look(&lease));
	assert_int_equal(shm_instance_count(), 1);
}

/* Of one that lived until then it says so once more. */
static void
a_damaged_newest_one_grows_silent(void **state)
{
	struct chain c = chain_of_id("peer");
	bool stands;

	(void)state;
	put_other("peer", "held", "elsewhere", 1);
	see_ok(lease_look(&lease));
	see_ok(chain_put(&c, 2, SLICE("{"), &arena, &stands));
	see_ok(lease_look(&lease));
	assert_int_equal(other("peer").silent_ns, 0);
	assert_int_equal(other("peer").version, 2);
	assert_string_equal(other("peer").address, "there:2");
	do {
		see_ok(lease_look(&lease));
	} while (other("peer").silent_ns < other("peer").span_ns);
	put_other("peer", "held", "elsewhere", 60000);
	see_ok(lease_look(&lease));
	assert_int_equal(other("peer").span_ns, 60000 * NS_PER_MS);
}

/* What could not be read once is read at the next look. */
static void
a_failed_read_is_read_again(void **state)
{
	struct chain c = chain_of_id("peer");
	char name[200];

	(void)state;
	put_other("peer", "held", "elsewhere", 600000);
	see_ok(lease_look(&lease));
	snprintf(name, sizeof(name), "%s/test/%s/%020u.json", root_path,
	    c.prefix, 2u);
	/* Which nobody can open. */
	assert_int_equal(mknod(name, S_IFSOCK | 0600, 0), 0);
	see_ok(lease_look(&lease));
	assert_int_equal(unlink(name), 0);
	put_other("peer", "released", "elsewhere", 600000);
	see_ok(lease_look(&lease));
	assert_int_equal(other("peer").version, 2);
	assert_true(other("peer").released);
}

/* C.4 */
static void
the_nameless_go_alone_or_not_at_all(void **state)
{
	(void)state;
	put_other("peer", "held", "elsewhere", 600000);
	lease_init(&lease, dir, LONG_NS, true);
	see_ok(lease_look(&lease));
	round_to(SHM_LEASE_WATCHED);
	put_other("peer", "held", "elsewhere", 600000);
	see_ok(lease_look(&lease));
	round_to(SHM_LEASE_REFUSED);
	assert_non_null(strstr(seen().why, "--instance-id"));
	assert_int_equal(newest_of("host"), 0);
}

static void
the_nameless_outlive_the_dead(void **state)
{
	(void)state;
	put_other("peer", "held", "elsewhere", 30);
	put_other("leaver", "released", "elsewhere", 600000);
	lease_init(&lease, dir, LONG_NS, true);
	do {
		see_ok(lease_look(&lease));
		see_ok(lease_round(&lease));
	} while (seen().state == SHM_LEASE_WATCHED);
	state_is(SHM_LEASE_HELD);
}

#define ROUNDS	40u

static _Atomic bool rounds_over;

/* The maintainer's loop, and others who look, beside rounds on its pool. */
static void *
keep_looking(void *arg)
{
	struct shm_lease l;

	(void)arg;
	while (!atomic_load(&rounds_over)) {
		lease_expire();
		shm_lease_get(&l);
	}
	return NULL;
}

static void
rounds_beside_looks(void **state)
{
	pthread_t thread;
	uint32_t i;

	(void)state;
	atomic_store(&rounds_over, false);
	assert_int_equal(pthread_create(&thread, NULL, keep_looking, NULL), 0);
	for (i = 0; i < ROUNDS; i++) {
		/* One in four lasts so short that it is found to be over. */
		lease.span_ns = i % 4 == 3 ? NS_PER_MS : LONG_NS;
		see_ok(lease_look(&lease));
		see_ok(lease_round(&lease));
		if (lease.span_ns == LONG_NS)
			state_is(SHM_LEASE_HELD);
	}
	atomic_store(&rounds_over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
		T(it_is_taken_and_renewed),
		T(old_versions_go),
		T(it_ends_by_itself),
		T(a_slow_put_is_not_held_for_long),
		T(a_failure_leaves_it_as_it_was),
		T(a_living_one_refuses_a_start),
		T(a_silent_one_is_dead_after_its_span),
		T(a_released_one_is_free),
		T(one_of_this_boot_is_dead_at_start),
		T(taken_by_another_is_lost),
		T(a_deleted_lease_is_put_again),
		T(ambiguous_puts_are_read_back),
		T(a_damaged_lease_is_an_error),
		T(leaving_frees_it),
		T(others_are_seen),
		T(who_is_gone_for_good_is_forgotten),
		T(what_others_removed_is_forgotten),
		T(a_damaged_one_hides_no_other),
		T(a_damaged_newest_one_grows_silent),
		T(a_failed_read_is_read_again),
		T(the_nameless_go_alone_or_not_at_all),
		T(the_nameless_outlive_the_dead),
		T(rounds_beside_looks),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
