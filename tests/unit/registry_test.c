#include "store_dir.h"

#include "common/buf.h"

static void
put(const char *path, const char *text)
{
	see_ok(object_put_new(root, path, slice_of(text)));
}

static void
names_are_checked(void **state)
{
	static const char *const good[] = { "a", "A", "0", "_", "_x",
	    "math.v1-2_3", "a..b" };
	static const char *const bad[] = { "", ".", "..", ".a", "-a", "a/b",
	    "a b", "a\x01", "\xc3\xa4", "a%", "_registry", "_stats", "a\\b" };
	char longest[SHM_STORE_NAME_MAX + 2];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++)
		see_ok(registry_name_check(slice_of(good[i])));
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		if (!err_is(registry_name_check(slice_of(bad[i]))))
			fail_msg("\"%s\" is allowed", bad[i]);
		see_error(registry_name_check(slice_of(bad[i])), BAD_INPUT);
	}
	see_error(registry_name_check(slice_make("a\0b", 3)), BAD_INPUT);
	memset(longest, 'a', sizeof(longest));
	see_ok(registry_name_check(slice_make(longest, SHM_STORE_NAME_MAX)));
	see_error(registry_name_check(slice_make(longest,
	    SHM_STORE_NAME_MAX + 1)), BAD_INPUT);
}

static void
an_entry_comes_back(void **state)
{
	struct registry_entry e = { .store = uuid_random(),
	    .created_ms = 1234567890123 }, got, other;
	char directory[REGISTRY_DIRECTORY_MAX];

	(void)state;
	snprintf(e.name, sizeof(e.name), "math.v1");
	see_error(registry_get(root, kind, "math.v1", &got), NOT_FOUND);
	see_error(registry_exists(root, kind, "math.v1"), NOT_FOUND);
	see_ok(registry_add(root, kind, &e));
	see_ok(registry_exists(root, kind, "math.v1"));
	see_ok(registry_get(root, kind, "math.v1", &got));
	assert_string_equal(got.name, "math.v1");
	assert_true(uuid_eq(&got.store, &e.store));
	assert_int_equal(got.created_ms, e.created_ms);
	/* The second creation is refused, and changes nothing. */
	other = e;
	other.store = uuid_random();
	see_error(registry_add(root, kind, &other), EXISTS);
	see_ok(registry_get(root, kind, "math.v1", &got));
	assert_true(uuid_eq(&got.store, &e.store));
	registry_directory(kind, "math.v1", directory);
	assert_string_equal(directory, "math.v1.rollout.lance");
	see_ok(registry_remove(root, kind, "math.v1"));
	see_error(registry_get(root, kind, "math.v1", &got), NOT_FOUND);
	see_ok(registry_remove(root, kind, "math.v1"));
}

/* The longest name there is, for an entry and its directory. */
static void
the_longest_name(void **state)
{
	struct registry_entry e = { .store = uuid_random() }, got;
	char directory[REGISTRY_DIRECTORY_MAX];

	(void)state;
	memset(e.name, 'n', SHM_STORE_NAME_MAX);
	see_ok(registry_add(root, kind, &e));
	see_ok(registry_get(root, kind, e.name, &got));
	assert_string_equal(got.name, e.name);
	registry_directory(kind, e.name, directory);
	assert_int_equal(strlen(directory), SHM_STORE_NAME_MAX +
	    strlen(kind->suffix));
	see_ok(registry_remove(root, kind, e.name));
}

static void
what_is_no_entry_is_corrupt(void **state)
{
	static const struct {
		const char *path, *name, *text;
	} bad[] = {
		{ "_registry/rollout/b0.json", "b0", "" },
		{ "_registry/rollout/b1.json", "b1", "{" },
		{ "_registry/rollout/b2.json", "b2", "[]" },
		{ "_registry/rollout/b3.json", "b3", "{\"created_at\":1}" },
		{ "_registry/rollout/b4.json", "b4",
		    "{\"uuid\":\"nonsense\",\"created_at\":1}" },
		{ "_registry/rollout/b5.json", "b5", "{\"uuid\":"
		    "\"00000000-0000-0000-0000-000000000000\"}" },
	};
	struct registry_entry got = { .created_ms = 7 };
	char large[8192];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		put(bad[i].path, bad[i].text);
		see_error(registry_get(root, kind, bad[i].name, &got),
		    CORRUPT);
		assert_int_equal(got.created_ms, 7);
		see_ok(registry_remove(root, kind, bad[i].name));
	}
	memset(large, ' ', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	put("_registry/rollout/b6.json", large);
	see_error(registry_get(root, kind, "b6", &got), CORRUPT);
	see_ok(registry_remove(root, kind, "b6"));
}

static void
names_are_listed_in_order(void **state)
{
	struct registry_entry e = { .store = uuid_random() };
	const char **names;
	struct arena arena;
	uint32_t count, i;

	(void)state;
	arena_init(&arena, 1u << 20);
	see_ok(registry_names(root, kind, &arena, &names, &count));
	assert_int_equal(count, 0);
	/* More than the array's first room. */
	for (i = 0; i < 150; i++) {
		snprintf(e.name, sizeof(e.name), "s%03u", (i * 77) % 150);
		see_ok(registry_add(root, kind, &e));
	}
	snprintf(e.name, sizeof(e.name), "S");
	see_ok(registry_add(root, kind, &e));
	/* None of these is one. */
	put("_registry/rollout/no_suffix", "x");
	put("_registry/rollout/.json", "x");
	put("_registry/rollout/bad name.json", "x");
	put("_registry/rollout/folder.json/x", "x");
	see_ok(registry_names(root, kind, &arena, &names, &count));
	assert_int_equal(count, 151);
	assert_string_equal(names[0], "S");
	for (i = 1; i < count; i++)
		assert_true(strcmp(names[i - 1], names[i]) < 0);
	/* A list that is cut would hide stores. */
	arena_free(&arena);
	arena_init(&arena, 2048);
	see_error(registry_names(root, kind, &arena, &names, &count),
	    NO_MEMORY);
	arena_free(&arena);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(an_entry_comes_back),
		cmocka_unit_test(the_longest_name),
		cmocka_unit_test(what_is_no_entry_is_corrupt),
		cmocka_unit_test(names_are_listed_in_order),
	};

	return cmocka_run_group_tests(tests, store_group, store_group_end);
}
