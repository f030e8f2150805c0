#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/base64.h"

/* Decodes in pieces of step characters; false if it is not base64. */
static bool
decode(struct slice text, size_t step, char *out, size_t *len)
{
	struct base64 s = { 0 };
	size_t at, n;

	*len = 0;
	for (at = 0; at < text.len; at += n) {
		n = MIN(step, text.len - at);
		if (base64_decode(&s, slice_make(text.ptr + at, n), out, len) != n)
			return false;
	}
	return base64_finish(&s);
}

static void
known_pairs(void **state)
{
	static const char *const pairs[][2] = {	/* RFC 4648 10 */
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" }, { "\xff\xfe\xfd", "//79" },
		{ "\xfb\xef\xbe", "++++" },
	};
	char out[64];
	size_t i, step, len;

	(void)state;
	for (i = 0; i < ARRAY_LEN(pairs); i++) {
		for (step = 1; step <= 9; step++) {
			assert_true(decode(slice_of(pairs[i][1]), step, out, &len));
			assert_true(slice_eq(slice_make(out, len),
			    slice_of(pairs[i][0])));
		}
		base64_encode(slice_of(pairs[i][0]), out);
		len = BASE64_LENGTH(strlen(pairs[i][0]));
		assert_true(slice_eq(slice_make(out, len),
		    slice_of(pairs[i][1])));
	}
}

static void
everything_else_is_refused(void **state)
{
	static const char *const bad[] = {
		"Z", "Zg", "Zg=", "Zm8", "Zg===", "Zm8==", "Zm9v=", "=", "====",
		"Z===", "Zh==", "Zm9=", "Zg==Zg==", "Zg=Z", "Zm 9v", "Zm9v\n",
		"Zm-_", "Zm9\xc3\xa9", "Z\"9v", "*m9v",
	};
	char out[64];
	size_t i, step, len;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		for (step = 1; step <= 9; step++)
			assert_false(decode(slice_of(bad[i]), step, out, &len));
	}
}

static void
all_bytes_there_and_back(void **state)
{
	char bytes[1024], text[BASE64_LENGTH(1024)], out[BASE64_ROOM(sizeof(text))];
	size_t i, n, len;

	(void)state;
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 167 + i / 256);
	for (n = 0; n <= sizeof(bytes); n += 1 + n / 16) {
		base64_encode(slice_make(bytes, n), text);
		for (i = 1; i < 70; i += 11) {
			assert_true(decode(slice_make(text, BASE64_LENGTH(n)), i,
			    out, &len));
			assert_int_equal(len, n);
			assert_memory_equal(out, bytes, n);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_pairs),
		cmocka_unit_test(everything_else_is_refused),
		cmocka_unit_test(all_bytes_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
