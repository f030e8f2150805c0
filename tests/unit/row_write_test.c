#include "common/base.h"

#include "tests/unit/row_helper.h"

#include <math.h>

#include <cjson/cJSON.h>

#include "common/json_scan.h"

/* One row of which the test fills what it is about; the rest is filled like an
 * absent field. */
static void
end_row(struct builder *b)
{
	uint32_t i;

	for (i = 0; i < shape()->schema.field_count; i++) {
		struct column *c = &b->columns[i];

		if (c->length > b->row_count)
			continue;
		if (c->field->nullable)
			assert_true(column_null(c));
		else if (c->field->type == ARROW_UTF8)
			assert_true(column_bytes(c, SLICE("x")));
		else if (c->field->type == ARROW_INT32)
			assert_true(column_int32(c, 0));
		else
			assert_true(column_int64(c, 0));
	}
	builder_end_row(b);
}

static void
write_row(struct builder *b, uint64_t row, struct buf *out)
{
	struct batch batch = builder_batch(b);
	cJSON *tree;

	out->len = 0;
	assert_true(row_write(out, shape(), &batch, row, NULL));
	/* Whatever was stored, it is JSON, to us and to others. */
	assert_true(json_is_valid(buf_slice(out)));
	assert_true(buf_append_zero(out, 1));
	tree = cJSON_Parse(out->ptr);
	assert_non_null(tree);
	cJSON_Delete(tree);
}

static void
floats_that_json_cannot_say(void **state)
{
	static const float items[] = { 1, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f,
	    3.4028235e38f, 0.1f };
	struct builder b;
	struct buf out;
	size_t i;

	(void)state;
	buf_init(&out, ROOM);
	assert_false(err_is(builder_init(&b, &shape()->schema, ROOM)));
	for (i = 0; i < ARRAY_LEN(items); i++)
		assert_true(column_float(
		    &b.columns[ROLLOUT_ref_logprobs].children[0], items[i]));
	assert_true(column_end_value(&b.columns[ROLLOUT_ref_logprobs]));
	assert_true(column_float(&b.columns[ROLLOUT_reward], NAN));
	assert_true(column_float(&b.columns[ROLLOUT_score], -INFINITY));
	end_row(&b);
	write_row(&b, 0, &out);
	assert_string_equal(out.ptr, "{\"id\":\"x\",\"rollout_id\":\"x\","
	    "\"problem_id\":\"x\",\"sequence_order\":0,\"role\":\"x\","
	    "\"created_at\":\"1970-01-01T00:00:00Z\",\"content_type\":\"x\","
	    "\"ref_logprobs\":[1,-0,null,null,null,1e-45,3.4028235e+38,0.1],"
	    "\"reward\":null,\"score\":null}");
	builder_free(&b);
	buf_free(&out);
}

/* What other engines may have stored under our columns. */
static void
foreign_values(void **state)
{
	struct builder b;
	struct buf out;
	struct column *items;

	(void)state;
	buf_init(&out, ROOM);
	assert_false(err_is(builder_init(&b, &shape()->schema, ROOM)));
	assert_true(column_bytes(&b.columns[ROLLOUT_id],
	    SLICE("\x01\x1f\x7f\0\xff\xc3\xa9\xe2\x82")));
	assert_true(column_bytes(&b.columns[ROLLOUT_rollout_id],
	    SLICE("\xed\xa0\x80\xc3")));
	assert_true(column_bytes(&b.columns[ROLLOUT_metadata],
	    SLICE("{\"a\":nope}")));
	assert_true(column_int64(&b.columns[ROLLOUT_created_at], -1));
	items = &b.columns[ROLLOUT_relationships].children[0];
	assert_true(column_null(items));
	assert_true(column_null(&items->children[0]));
	assert_true(column_bytes(&items->children[1], SLICE("\"")));
	assert_true(column_float(&items->children[2], NAN));
	assert_true(column_end_value(items));
	assert_true(column_end_value(&b.columns[ROLLOUT_relationships]));
	assert_true(column_null(&b.columns[ROLLOUT_input_tokens].children[0]));
	assert_true(column_end_value(&b.columns[ROLLOUT_input_tokens]));
	end_row(&b);
	write_row(&b, 0, &out);
	assert_string_equal(out.ptr, "{\"id\":\"\\u0001\\u001f\x7f\\u0000"
	    "\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\","
	    "\"rollout_id\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
	    "\"problem_id\":\"x\",\"sequence_order\":0,\"role\":\"x\","
	    "\"created_at\":\"1969-12-31T23:59:59.999999Z\","
	    "\"content_type\":\"x\",\"input_tokens\":[null],"
	    "\"relationships\":[null,{\"relation\":\"\\\"\",\"weight\":null}],"
	    "\"metadata\":\"{\\\"a\\\":nope}\"}");

	assert_true(column_bytes(&b.columns[ROLLOUT_metadata],
	    SLICE(" [1, \"\\u0000\"]\n")));
	end_row(&b);
	write_row(&b, 1, &out);
	assert_non_null(strstr(out.ptr, "\"metadata\": [1, \"\\u0000\"]\n}"));
	assert_true(column_bytes(&b.columns[ROLLOUT_metadata], SLICE("")));
	end_row(&b);
	write_row(&b, 2, &out);
	assert_non_null(strstr(out.ptr, "\"metadata\":\"\"}"));
	builder_free(&b);
	buf_free(&out);
}

/* Internal and blob columns never, also when they are asked for. */
static void
columns_that_are_wanted(void **state)
{
	bool columns[ROLLOUT_COLUMN_COUNT] = {
		[ROLLOUT_id] = true, [ROLLOUT_reward] = true,
		[ROLLOUT_binary_payload] = true, [ROLLOUT__seq] = true,
	};
	struct builder b;
	struct batch batch;
	struct buf out;

	(void)state;
	buf_init(&out, ROOM);
	assert_false(err_is(builder_init(&b, &shape()->schema, ROOM)));
	assert_true(column_bytes(&b.columns[ROLLOUT_binary_payload], SLICE("b")));
	assert_true(column_int64(&b.columns[ROLLOUT__seq], 7));
	end_row(&b);
	batch = builder_batch(&b);
	assert_true(row_write(&out, shape(), &batch, 0, columns));
	/* A blob that is asked for by name. */
	assert_true(slice_eq(buf_slice(&out), SLICE("{\"id\":\"x\","
	    "\"binary_payload\":\"Yg==\"}")));
	memset(columns, 0, sizeof(columns));
	out.len = 0;
	assert_true(row_write(&out, shape(), &batch, 0, columns));
	assert_true(slice_eq(buf_slice(&out), SLICE("{}")));
	builder_free(&b);
	buf_free(&out);
}

/* Every cap that is too small is told, and leaves what was there. */
static void
full_buffer(void **state)
{
	static const char body[] = "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\","
	    "\"content\":\"\\n\xc3\xa9\",\"input_tokens\":[1,2,3],\"loss_mask\":[],"
	    "\"relationships\":[{\"target_id\":\"t\",\"relation\":\"r\"}],"
	    "\"reward\":0.5,\"include_in_training\":false,\"metadata\":{\"a\":1}}]}";
	struct rows r;
	struct batch batch;
	struct buf whole, out;
	size_t cap;
	bool fits;

	(void)state;
	rows_init(&r);
	buf_init(&whole, ROOM);
	assert_false(err_is(rows_read(&r, SLICE(body), SIZE_MAX, 0)));
	batch = builder_batch(&r.builder);
	assert_true(row_write(&whole, shape(), &batch, 0, NULL));
	for (cap = 3; cap < whole.len + 500; cap++) {
		buf_init(&out, cap);
		assert_true(buf_append(&out, "abc", 3));
		fits = row_write(&out, shape(), &batch, 0, NULL);
		if (fits)
			assert_memory_equal(out.ptr + 3, whole.ptr, whole.len);
		assert_int_equal(out.len, fits ? 3 + whole.len : 3);
		assert_memory_equal(out.ptr, "abc", 3);
		buf_free(&out);
	}
	assert_true(fits);
	buf_free(&whole);
	rows_free(&r);
}

/* All float32 there are, or a sample of them: written, read, the same bits. */
static void
floats_there_and_back(void **state)
{
	struct builder b;
	struct rows back;
	struct buf out, body;
	uint32_t bits = 1, i;
	struct batch batch;

	(void)state;
	rows_init(&back);
	buf_init(&out, ROOM);
	buf_init(&body, ROOM);
	assert_false(err_is(builder_init(&b, &shape()->schema, ROOM)));
	for (i = 0; i < 20000; i++) {
		float f;

		bits = bits * 1664525 + 1013904223;
		memcpy(&f, &bits, sizeof(f));
		assert_true(column_float(
		    &b.columns[ROLLOUT_ref_logprobs].children[0],
		    isfinite(f) ? f : 0.0f));
	}
	assert_true(column_end_value(&b.columns[ROLLOUT_ref_logprobs]));
	end_row(&b);
	batch = builder_batch(&b);
	assert_true(row_write(&out, shape(), &batch, 0, NULL));
	assert_true(buf_append(&body, "{\"records\":[", 12));
	assert_true(buf_append_slice(&body, buf_slice(&out)));
	assert_true(buf_append(&body, "]}", 2));
	assert_false(err_is(rows_read(&back, buf_slice(&body), 5000, 777)));
	assert_memory_equal(
	    b.columns[ROLLOUT_ref_logprobs].children[0].values.ptr,
	    back.builder.columns[ROLLOUT_ref_logprobs].children[0].values.ptr,
	    20000 * sizeof(float));
	builder_free(&b);
	rows_free(&back);
	buf_free(&out);
	buf_free(&body);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(floats_that_json_cannot_say),
		cmocka_unit_test(foreign_values),
		cmocka_unit_test(columns_that_are_wanted),
		cmocka_unit_test(full_buffer),
		cmocka_unit_test(floats_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
