#include "shm_test.h"

#include "worker/lance/own.h"
#include "worker/lance/table.h"

static void
name_of(const char *form, const struct uuid *u, char *name)
{
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(u, text);
	snprintf(name, TABLE_NAME_MAX, form, text);
}

static void
deletion_of(uint64_t id, char *name)
{
	struct table_deletion d = { .kind = TABLE_DELETION_BITMAP,
	    .read_version = 7, .id = id };

	table_deletion_name(3, &d, name);
}

static void
test_names_of_this_instance_are_known_again(void **state)
{
	static const uint32_t tags[] = { 1, 0x7e57u, 0xfedcba98u };
	char name[TABLE_NAME_MAX];
	struct uuid u;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(tags); i++) {
		own_set(tags[i]);
		u = own_uuid();
		name_of("_indices/%s", &u, name);
		assert_true(own_is(name));
		name_of("_transactions/12-%s.txn", &u, name);
		assert_true(own_is(name));
		snprintf(name, sizeof(name), "data/%08x-x.lance", tags[i]);
		assert_true(own_is(name));
		deletion_of(own_id(), name);
		assert_true(own_is(name));
		assert_true(own_id() != own_id());
	}
}

static void
test_names_of_others_are_not(void **state)
{
	static const char *const names[] = {
		"data/00007e57.lance", "data/x-00007e57.lance", "data/",
		"_indices/x", "_transactions/00007e57-x.txn", "_deletions/1-2",
		"_deletions/1-138916085760000-2.bin", "_versions/1.manifest",
		"00007e57-x", "",
	};
	char name[TABLE_NAME_MAX];
	struct uuid u;
	size_t i;

	(void)state;
	own_set(0x7e57u);
	for (i = 0; i < ARRAY_LEN(names); i++)
		assert_false(own_is(names[i]));
	own_set(0x7e58u);
	u = own_uuid();
	own_set(0x7e57u);
	name_of("_indices/%s", &u, name);
	assert_false(own_is(name));
	name_of("_transactions/12-%s.txn", &u, name);
	assert_false(own_is(name));
	own_set(0);			/* nobody's */
	u = own_uuid();
	name_of("_indices/%s", &u, name);
	assert_false(own_is(name));
	assert_false(own_is("data/00000000-x.lance"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_this_instance_are_known_again),
		cmocka_unit_test(test_names_of_others_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
