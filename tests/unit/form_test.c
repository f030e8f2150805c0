#include "common/base.h"

#include "tests/unit/row_helper.h"

#include "worker/api/form.h"

#define TYPE	SLICE("multipart/form-data; boundary=Q")
#define PART(name, bytes) \
	"--Q\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" \
	bytes "\r\n"
#define META(rows)	PART("metadata", "{\"records\":[" rows "]}")
#define ROW(id)		"{\"id\":\"" id "\",\"rollout_id\":\"t\"}"
#define SIZED(id, n) \
	"{\"id\":\"" id "\",\"rollout_id\":\"t\",\"payload_size\":" n "}"
#define INLINE(id, base64) \
	"{\"id\":\"" id "\",\"rollout_id\":\"t\",\"binary_payload\":\"" base64 "\"}"
#define END		"--Q--\r\n"

/* In pieces of step bytes, from memory that ends with each. */
static struct err
read_form(struct rows *r, struct slice body, size_t step)
{
	struct form *f;
	struct err e;
	size_t at, n;
	bool later;
	char *piece;

	rows_init(r);
	e = form_new(&r->arena, TYPE, &f);
	assert_false(err_is(e));
	e = form_open(f, shape(), "records", NOW_US, &r->builder);
	for (at = 0; at < body.len && !err_is(e); at += n) {
		n = MIN(step, body.len - at);
		piece = malloc(n);
		memcpy(piece, body.ptr + at, n);
		e = form_feed(f, slice_make(piece, n));
		free(piece);
	}
	if (!err_is(e))
		e = form_finish(f, &r->result, &later);
	if (!err_is(e) && later)
		e = form_reorder(f);
	form_free(f);
	return e;
}

/* "bytes|-|bytes": the payloads of all rows; null is "-". */
static void
print_payloads(struct rows *r, struct buf *out)
{
	struct batch batch = builder_batch(&r->builder);
	const struct array *blob = &batch.columns[shape()->blob];

	for (uint64_t i = 0; i < batch.row_count; i++) {
		if (i > 0)
			assert_true(buf_append(out, "|", 1));
		if (array_is_null(blob, i))
			assert_true(buf_append(out, "-", 1));
		else
			assert_true(buf_append_slice(out,
			    array_slice(blob, i)));
	}
}

static void
takes_as(struct slice body, struct slice want)
{
	for (size_t step = 1; step <= 65; step++) {
		struct rows r;
		struct buf got;
		struct err e = read_form(&r, body, step == 65 ? SIZE_MAX :
		    step);

		if (err_is(e))
			fail_msg("step %zu: %s: %s", step, e.what, body.ptr);
		buf_init(&got, ROOM);
		print_payloads(&r, &got);
		if (!slice_eq(buf_slice(&got), want))
			fail_msg("step %zu: \"%.*s\" is not \"%s\"", step,
			    (int)got.len, got.ptr, want.ptr);
		assert_int_equal(r.result.first_row, 0);
		assert_int_equal(r.result.count, r.builder.row_count);
		buf_free(&got);
		rows_free(&r);
	}
}

static void
takes(const char *body, const char *want)
{
	takes_as(slice_of(body), slice_of(want));
}

static void
refuses(const char *body, const char *why)
{
	for (size_t step = 1; step <= 65; step++) {
		struct rows r;
		struct err e = read_form(&r, slice_of(body),
		    step == 65 ? SIZE_MAX : step);

		if (e.kind != ERR_BAD_INPUT || strstr(e.what, why) == NULL)
			fail_msg("step %zu: \"%s\" is not \"%s\": %s", step,
			    e.what, why, body);
		rows_free(&r);
	}
}

/* Contract 2.4.1, the rules in their order. */
static void
test_rules(void **state)
{
	(void)state;
	takes(META(ROW("a")) END, "-");
	refuses(END, "no part \"metadata\"");
	refuses(PART("0", "x") META(ROW("a")) END, "must be \"metadata\"");
	refuses(PART("", "x") END, "must be \"metadata\"");
	refuses(PART("metadata", "{\"records\":[]}") END, "is empty");
	refuses(PART("metadata", "") END, "body: ends early");
	refuses(PART("metadata", "{\"records\":[{}]}") END,
	    "records[0].id: required");
	refuses(META("{\"id\":1}") PART("0", "x") END, "records[0].id");

	takes(META(ROW("a") "," ROW("b")) PART("0", "xyz") PART("1", "") END,
	    "xyz|");
	takes(META(ROW("a") "," ROW("b") "," ROW("c")) PART("02", "x") END,
	    "-|-|x");
	refuses(META(ROW("a")) PART("metadata", "{}") END, "\"metadata\": its");
	refuses(META(ROW("a")) PART("", "x") END, "\"\": its name");
	refuses(META(ROW("a")) PART("-0", "x") END, "\"-0\": its name");
	refuses(META(ROW("a")) PART("0x0", "x") END, "\"0x0\": its name");
	refuses(META(ROW("a")) PART("0 ", "x") END, "\"0 \": its name");
	refuses(META(ROW("a")) PART("99999999999999999999", "x") END,
	    "\"99999999999999999999\": its name");

	refuses(META(ROW("a")) PART("1", "x") END, "no such record");
	refuses(META(ROW("a")) PART("0", "x") PART("0", "x") END,
	    "part \"0\": comes twice");
	refuses(META(ROW("a")) PART("0", "x") PART("00", "") END,
	    "part \"00\": comes twice");

	takes(META(SIZED("a", "3")) PART("0", "xyz") END, "xyz");
	takes(META(SIZED("a", "0")) PART("0", "") END, "");
	refuses(META(SIZED("a", "3")) PART("0", "xy") END,
	    "payload_size of the record is 3, but 2 bytes came");
	refuses(META(SIZED("a", "3")) PART("0", "wxyz") END, "4 bytes came");
	refuses(META(SIZED("a", "-1")) PART("0", "x") END, "is -1");

	refuses(META(ROW("a") "," SIZED("b", "0")) END,
	    "records[1].payload_size: there is neither");
	refuses(META(SIZED("a", "1") "," SIZED("b", "1")) PART("1", "x") END,
	    "records[0].payload_size: there is neither");
	takes(META("{\"id\":\"a\",\"rollout_id\":\"t\",\"payload_size\":9,"
	    "\"binary_payload\":\"eHl6\"}") END, "xyz");

	takes(META(INLINE("a", "eHl6") "," INLINE("b", "eHl6"))
	    PART("1", "part") END, "xyz|part");
	takes(META(INLINE("a", "eHl6")) PART("0", "") END, "");

	/* 7: any order, with and without inline ones between. */
	takes(META(ROW("a") "," ROW("b") "," ROW("c")) PART("2", "third")
	    PART("0", "first") END, "first|-|third");
	takes(META(ROW("a") "," INLINE("b", "eHl6") "," ROW("c") ","
	    INLINE("d", "eHl6")) PART("3", "fourth") PART("2", "third")
	    PART("0", "") END, "|xyz|third|fourth");
	takes(META(INLINE("a", "eHl6") "," ROW("b")) PART("1", "2") END,
	    "xyz|2");

	/* A body that is cut has nothing. */
	refuses(META(ROW("a")) PART("0", "x"), "without the last boundary");
	refuses(META(ROW("a")), "without the last boundary");
}

/* Field fault G.9. */
static void
test_bytes(void **state)
{
	(void)state;
	takes(META(ROW("a") "," ROW("b") "," ROW("c") "," ROW("d"))
	    PART("0", "a --Q in a line") PART("1", "\r") PART("2", "\r\n--")
	    PART("3", "") END, "a --Q in a line|\r|\r\n--|");
	takes_as(SLICE(META(ROW("a")) PART("0", "\0\xff\r\n-\0") END),
	    SLICE("\0\xff\r\n-\0"));
}

static void
test_content_type(void **state)
{
	struct arena a;
	struct form *f;

	(void)state;
	arena_init(&a, ROOM);
	assert_int_equal(form_new(&a, SLICE("multipart/form-data"), &f).kind,
	    ERR_BAD_INPUT);
	arena_free(&a);
}

/* Payloads of several pages, last row first: each is where it belongs. */
static void
test_large_out_of_order(void **state)
{
	const size_t bytes = 100 * 1000;
	const int rows = 20;
	struct buf body, want, got;
	struct rows r;
	struct err e;

	(void)state;
	buf_init(&body, ROOM);
	buf_init(&want, ROOM);
	buf_init(&got, ROOM);
	assert_true(buf_printf(&body, "--Q\r\nContent-Disposition: form-data; "
	    "name=metadata\r\n\r\n{\"records\":["));
	for (int i = 0; i < rows; i++)
		assert_true(buf_printf(&body, "%s{\"id\":\"r%d\","
		    "\"rollout_id\":\"t\",\"payload_size\":%zu}",
		    i > 0 ? "," : "", i, bytes + (size_t)i));
	assert_true(buf_printf(&body, "]}\r\n"));
	for (int i = rows - 1; i >= 0; i--) {
		assert_true(buf_printf(&body, "--Q\r\nContent-Disposition: "
		    "form-data; name=%d\r\n\r\n", i));
		assert_true(buf_reserve(&body, bytes + (size_t)i));
		memset(body.ptr + body.len, 'a' + i, bytes + (size_t)i);
		body.len += bytes + (size_t)i;
		assert_true(buf_printf(&body, "\r\n"));
	}
	assert_true(buf_printf(&body, END));
	for (int i = 0; i < rows; i++) {
		assert_true(buf_reserve(&want, bytes + (size_t)i + 1));
		memset(want.ptr + want.len, 'a' + i, bytes + (size_t)i);
		want.len += bytes + (size_t)i;
		if (i + 1 < rows)
			assert_true(buf_append(&want, "|", 1));
	}
	e = read_form(&r, buf_slice(&body), 65536);
	assert_false(err_is(e));
	print_payloads(&r, &got);
	assert_true(slice_eq(buf_slice(&got), buf_slice(&want)));
	rows_free(&r);
	buf_free(&body);
	buf_free(&want);
	buf_free(&got);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_content_type),
		cmocka_unit_test(test_large_out_of_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
