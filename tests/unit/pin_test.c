#include "store_dir.h"

#include <pthread.h>
#include <unistd.h>

#include "worker/store/pin.h"

static struct arena texts;

static int
begin(void **state)
{
	arena_init(&texts, 1u << 20);
	return fresh_store(state);
}

static int
end(void **state)
{
	arena_free(&texts);
	return store_gone(state);
}

static uint64_t
pinned(void)
{
	return atomic_load(&shm_store_slot(ref)->pinned_version);
}

static uint64_t
newest(void)
{
	uint64_t version;

	see_ok(table_newest(dir, &version));
	return version;
}

static uint64_t
pin(uint64_t version)
{
	uint64_t base;

	see_ok(pin_change(dir, ref, version, &texts, &base));
	assert_int_equal(base, newest());
	assert_int_equal(pinned(), version);
	return base;
}

static void
it_lasts_until_it_is_released(void **state)
{
	uint64_t first = newest(), base;

	(void)state;
	base = pin(first);
	assert_int_equal(base, first + 1);
	forget_all();
	assert_int_equal(pinned(), first);
	/* Again is nothing new. */
	assert_int_equal(pin(first), base);
	/* To the pin itself, which says something else. */
	assert_int_equal(pin(base), base + 1);
	forget_all();
	assert_int_equal(pinned(), base);
	(void)shm_store_untouch(ref);
	assert_int_equal(pin(0), base + 2);
	assert_true(shm_store_untouch(ref));	/* the next tick looks */
	assert_int_equal(pin(0), base + 2);
	forget_all();
	assert_int_equal(pinned(), 0);
}

static void
there_is_no_such_version(void **state)
{
	uint64_t versions[] = { newest() + 1, UINT64_MAX }, base, was = newest();
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(versions); i++)
		see_error(pin_change(dir, ref, versions[i], &texts, &base),
		    NOT_FOUND);
	assert_int_equal(newest(), was);
	assert_int_equal(pinned(), 0);
}

/* News of another instance come with the base, in the order of its versions. */
static void
another_instance_pins(void **state)
{
	struct shm_ref nobody = { 0, 0 };
	uint64_t first = newest(), base;

	(void)state;
	see_error(pin_change(dir, nobody, first, &texts, &base), NOT_FOUND);
	assert_int_equal(newest(), first + 1);
	assert_int_equal(pinned(), 0);
	see_ok(reload_others(dir, kind, ref));
	assert_int_equal(pinned(), first);
	see_error(pin_change(dir, nobody, 0, &texts, &base), NOT_FOUND);
	see_ok(reload_base(dir, ref));
	assert_int_equal(pinned(), 0);
}

static void
a_fold_leaves_it_alone(void **state)
{
	struct owner a = own_claim(0);
	struct shm_ref nobody = { 0, 0 };
	struct fold_result result;
	uint64_t first = newest(), base;

	(void)state;
	generation_with(&a, "k1", "a");
	/* The slot does not know yet. */
	see_error(pin_change(dir, nobody, first, &texts, &base), NOT_FOUND);
	see_error(fold_shard(&aged, 0, &result), NOT_FOUND);
	assert_int_equal(newest(), first + 1);
	assert_int_equal(pinned(), first);
	pin(0);
	fold_now(0);
	see_store("k1=a");
}

struct late {
	uint64_t version;
	struct err err;
};

static void *
pin_late(void *arg)
{
	struct late *l = arg;
	uint64_t base;

	l->err = pin_change(dir, ref, l->version, &texts, &base);
	return NULL;
}

/* Collection has looked before the pin came, and deletes the version: it is
 * pinned as it was, or, if that is gone as well, not at all. */
static void
its_version_goes_meanwhile(void **state)
{
	uint64_t old = newest(), going = pin(old);
	char name[TABLE_NAME_MAX], older[TABLE_NAME_MAX];
	struct late l = { .version = going };
	pthread_t thread;
	uint32_t before;
	int round;

	(void)state;
	table_manifest_name(old, older);
	for (round = 0; round < 2; round++) {
		table_manifest_name(l.version, name);
		before = fault_hits(FAULT_table_committed);
		see_ok(fault_set("table_committed=hold:1"));
		assert_int_equal(pthread_create(&thread, NULL, pin_late, &l),
		    0);
		while (fault_hits(FAULT_table_committed) == before)
			usleep(1000);
		see_ok(object_delete(dir, name));
		if (round == 1)
			see_ok(object_delete(dir, older));
		see_ok(fault_set("table_committed=off"));
		assert_int_equal(pthread_join(thread, NULL), 0);
		see_error(l.err, NOT_FOUND);
		assert_int_equal(pinned(), round == 0 ? old : 0);
		forget_all();
		assert_int_equal(pinned(), round == 0 ? old : 0);
		/* One that is there, and pins what it is pinned to. */
		l.version = newest() - 1;
	}
}

#define pin_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		pin_test(it_lasts_until_it_is_released),
		pin_test(there_is_no_such_version),
		pin_test(another_instance_pins),
		pin_test(a_fold_leaves_it_alone),
		pin_test(its_version_goes_meanwhile),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
