#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "worker/api/query.h"

static struct arena arena;

static void
see(const char *query, const char *name, const char *want)
{
	struct slice value = { "old", 3 };
	bool found;

	assert_false(err_is(query_text(slice_of(query), name, &arena, &value,
	    &found)));
	assert_int_equal(found, want != NULL);
	if (!slice_eq(value, slice_of(want == NULL ? "old" : want)))
		fail_msg("%s: %s is \"%.*s\"", query, name, (int)value.len,
		    value.ptr);
}

static void
parameters(void **state)
{
	(void)state;
	see("", "a", NULL);
	see("a", "a", "");
	see("a=", "a", "");
	see("a=1", "a", "1");
	see("a=1", "A", NULL);
	see("aa=1", "a", NULL);
	see("b=1&a=2", "a", "2");
	see("a=1&a=2", "b", NULL);
	see("&&a=1&", "a", "1");
	see("a=1=2", "a", "1=2");
	see("=1", "a", NULL);
	see("=1", "", "1");
	see("a=x+y%20z%2B", "a", "x y z+");
	see("%61=1", "a", "1");
	see("a=%26b%3D1&b=2", "b", "2");
}

static void
what_is_not_encoded_properly(void **state)
{
	static const char *const bad[] = { "a=%", "a=%1", "a=%zz", "%=1&a=2",
	    "a=1&a=2", "a=1&b=2&%61=1" };
	struct slice value = { "old", 3 };
	struct err e;
	bool found;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		e = query_text(slice_of(bad[i]), "a", &arena, &value, &found);
		assert_int_equal(e.kind, ERR_BAD_INPUT);
		assert_non_null(strstr(e.what, "'a'"));
		assert_false(found);
	}
	/* Values of others are not looked at. */
	see("a=1&b=%", "a", "1");
}

static void
whole_numbers(void **state)
{
	static const struct {
		const char *query;
		uint64_t want;
	} good[] = { { "", 7 }, { "n=0", 0 }, { "n=10", 10 }, { "n=007", 7 },
	    { "n=18446744073709551615", UINT64_MAX }, { "m=1&n=2", 2 } };
	static const char *const bad[] = { "n", "n=", "n=-1", "n=+1", "n=1.0",
	    "n=1e3", "n= 1", "n=1x", "n=18446744073709551616",
	    "n=99999999999999999999", "n=0x1" };
	uint64_t n;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++) {
		n = 7;
		assert_false(err_is(query_uint64(slice_of(good[i].query), "n",
		    &arena, &n)));
		assert_true(n == good[i].want);
	}
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e;

		n = 7;
		e = query_uint64(slice_of(bad[i]), "n", &arena, &n);
		if (e.kind != ERR_BAD_INPUT)
			fail_msg("%s is a number", bad[i]);
		assert_non_null(strstr(e.what, "'n'"));
		assert_int_equal(n, 7);
	}
}

static void
flush(void **state)
{
	static const char *const yes[] = { "flush", "flush=true", "flush=TRUE",
	    "flush=True", "flush=1", "a=1&flush", "flush=0&flush=1" };
	static const char *const no[] = { "", "flush=", "flush=0",
	    "flush=false", "flush=2", "flush=truex", "xflush=true",
	    "FLUSH=true", "Flush", "flush=tru", "flush=%74rue", "a=flush",
	    "flush=11" };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(yes); i++) {
		if (!query_flush(slice_of(yes[i])))
			fail_msg("%s is no", yes[i]);
	}
	for (i = 0; i < ARRAY_LEN(no); i++) {
		if (query_flush(slice_of(no[i])))
			fail_msg("%s is yes", no[i]);
	}
}

static void
memory_is_bounded(void **state)
{
	struct slice value;
	struct arena small;
	static char text[70000] = "a=";
	bool found;

	(void)state;
	memset(text + 2, 'x', sizeof(text) - 3);
	arena_init(&small, 4096);
	assert_int_equal(query_text(slice_of(text), "a", &small, &value,
	    &found).kind, ERR_NO_MEMORY);
	arena_free(&small);
}

static int
begin(void **state)
{
	(void)state;
	arena_init(&arena, 1u << 20);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters),
		cmocka_unit_test(what_is_not_encoded_properly),
		cmocka_unit_test(whole_numbers),
		cmocka_unit_test(flush),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
