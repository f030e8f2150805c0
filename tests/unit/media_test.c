#include "common/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "worker/api/media.h"

static void
test_types(void **state)
{
	static const struct {
		const char *text;
		enum media want;
	} rows[] = {
		{ "", MEDIA_NONE },
		{ "application/json", MEDIA_JSON },
		{ "Application/JSON", MEDIA_JSON },
		{ "application/json; charset=utf-8", MEDIA_JSON },
		{ "application/json \t;charset=utf-8", MEDIA_JSON },
		{ "application/vnd.x+json", MEDIA_JSON_LIKE },
		{ "application/x+JSON;v=1", MEDIA_JSON_LIKE },
		{ "application/+json", MEDIA_OTHER },
		{ "application/jsonl", MEDIA_OTHER },
		{ "application/jso", MEDIA_OTHER },
		{ "text/x+json", MEDIA_OTHER },
		{ "text/plain; x=application/json", MEDIA_OTHER },
		{ ";application/json", MEDIA_OTHER },
		{ "multipart/form-data; boundary=Q", MEDIA_MULTIPART },
		{ "Multipart/Form-Data", MEDIA_MULTIPART },
		{ "multipart/mixed; boundary=Q", MEDIA_OTHER },
		{ "multipart/form-data2", MEDIA_OTHER },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(media_of(slice_of(rows[i].text)),
		    rows[i].want);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
