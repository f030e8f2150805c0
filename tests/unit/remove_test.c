#include "store_dir.h"

#include "common/clock.h"
#include "worker/store/remove.h"

static struct uuid
store_uuid(const char *name)
{
	struct registry_entry e;

	see_ok(registry_get(root, kind, name, &e));
	return e.store;
}

static bool
count_name(const struct object_info *info, void *ctx)
{
	(void)info;
	++*(uint32_t *)ctx;
	return true;
}

static uint32_t
in_trash(void)
{
	uint32_t n = 0;
	struct err e = object_list(root, REMOVE_TRASH, count_name, &n);

	if (e.kind != ERR_NOT_FOUND)
		see_ok(e);
	return n;
}

static void
empty_trash(void)
{
	struct object_gone gone = { 0 };
	uint32_t removed;

	/* Of this very millisecond is not yet older than no grace at all. */
	while (in_trash() > 0)
		see_ok(remove_trash(root, 0, NULL, &gone, &removed));
}

static void
a_store_goes(void **state)
{
	struct uuid store;

	(void)state;
	see_ok(store_create(root, kind, kind->shape, "gone"));
	store = store_uuid("gone");
	see_ok(remove_store(root, kind, "gone", &store));
	see_error(registry_exists(root, kind, "gone"), NOT_FOUND);
	see_error(object_exists(root, "gone.rollout.lance"), NOT_FOUND);
	assert_int_equal(in_trash(), 1);
	/* Again is fine. */
	see_ok(remove_store(root, kind, "gone", &store));
	empty_trash();
}

/* One of that name that was created since is not what was to go. */
static void
another_of_that_name_stays(void **state)
{
	struct uuid store;

	(void)state;
	see_ok(store_create(root, kind, kind->shape, "anew"));
	store = store_uuid("anew");
	see_ok(remove_store(root, kind, "anew", &store));
	see_ok(store_create(root, kind, kind->shape, "anew"));
	see_ok(remove_store(root, kind, "anew", &store));
	see_ok(registry_exists(root, kind, "anew"));
	see_ok(object_exists(root, "anew.rollout.lance"));
	store = store_uuid("anew");
	see_ok(remove_store(root, kind, "anew", &store));
	empty_trash();
}

static int
remove_it(void *arg)
{
	return err_is(remove_store(root, kind, "half", arg));
}

static void
killed_on_the_way_is_completed(void **state)
{
	static const char *const faults[] = { "store_rename=die:1",
	    "store_unregister=die:1" };
	struct uuid store;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(faults); i++) {
		see_ok(store_create(root, kind, kind->shape, "half"));
		store = store_uuid("half");
		die_in(SHM_MAINTAINER, faults[i], remove_it, &store);
		see_ok(registry_exists(root, kind, "half"));
		see_ok(remove_store(root, kind, "half", &store));
		see_error(registry_exists(root, kind, "half"), NOT_FOUND);
		see_error(object_exists(root, "half.rollout.lance"),
		    NOT_FOUND);
	}
	empty_trash();
}

/* Whoever still has the directory works on the dead tree. */
static void
late_work_hits_the_dead_tree(void **state)
{
	struct owner o = own_claim(0);
	struct uuid store = store_uuid(store_name);
	struct seal_result sealed;
	uint64_t version;

	(void)state;
	see_ok(own_put(&o, "k1", "a"));
	see_ok(remove_store(root, kind, store_name, &store));
	see_ok(store_create(root, kind, kind->shape, store_name));
	see_ok(own_put(&o, "k2", "late"));
	own_close(&o);
	see_ok(table_newest(dir, &version));
	see_error(seal_shard(&aged, 0, &sealed), NOT_FOUND);
	/* Nothing of it in the new one. */
	forget_all();
	see_store("");
	empty_trash();
}

static void
trash_waits_for_the_grace(void **state)
{
	struct uuid store;
	struct object_gone gone = { 0 };
	uint32_t removed;
	uint64_t hour = 3600 * US_PER_SEC;

	(void)state;
	see_ok(remove_trash(root, hour, NULL, &gone, &removed));
	assert_int_equal(removed, 0);
	see_ok(store_create(root, kind, kind->shape, "waits"));
	store = store_uuid("waits");
	see_ok(remove_store(root, kind, "waits", &store));
	/* What is no name of ours is nobody's to delete. */
	see_ok(object_put_new(root, REMOVE_TRASH "/strange/x", SLICE("x")));
	see_ok(remove_trash(root, hour, NULL, &gone, &removed));
	assert_int_equal(removed, 0);
	assert_int_equal(in_trash(), 2);
	do {
		see_ok(remove_trash(root, 0, NULL, &gone, &removed));
	} while (removed == 0);
	assert_int_equal(removed, 1);
	assert_int_equal(in_trash(), 1);
	see_ok(object_delete_tree(root, REMOVE_TRASH "/strange"));
}

/* ---- creating, which is the other end */

static int
create_it(void *arg)
{
	(void)arg;
	return err_is(store_create(root, kind, kind->shape, "begun"));
}

static void
a_creation_is_repeated(void **state)
{
	struct registry_entry e;
	struct object_dir *d;
	struct shm_ref r;

	(void)state;
	die_in(SHM_WORKER(0), "store_create=die:1", create_it, NULL);
	see_error(registry_exists(root, kind, "begun"), NOT_FOUND);
	see_ok(object_exists(root, "begun.rollout.lance"));
	see_ok(store_create(root, kind, kind->shape, "begun"));
	/* The directory's uuid was taken over: it can be opened. */
	see_ok(reload_open(root, kind, "begun", &r, &d));
	object_dir_close(d);
	see_ok(registry_get(root, kind, "begun", &e));
	see_error(store_create(root, kind, kind->shape, "begun"), EXISTS);
	see_ok(shm_store_evict(r));
	see_ok(remove_store(root, kind, "begun", &e.store));
	empty_trash();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trash_waits_for_the_grace),
		cmocka_unit_test(a_store_goes),
		cmocka_unit_test(another_of_that_name_stays),
		cmocka_unit_test(killed_on_the_way_is_completed),
		store_test(late_work_hits_the_dead_tree),
		cmocka_unit_test(a_creation_is_repeated),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
