#ifndef MEMWALD_TESTS_LANCE_JSON_H
#define MEMWALD_TESTS_LANCE_JSON_H

/*
 * lance_json - rows against the JSON that the real engine gave for them
 * (tests/data/lance/README.md says how values are written).
 *
 * cJSON ends a string at its first NUL, and the rows have such strings. So
 * each \u0000 of the text becomes a character that no row has, and the same is
 * done to a value before it is compared.
 */

#include "common/base.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"
#include "worker/arrow/batch.h"

#define STANDS_FOR_NUL "\xee\x80\x80"	/* U+E000 */

static inline cJSON *
json_load(const char *path)
{
	FILE *in = fopen(path, "rb");
	static char text[1u << 20];
	cJSON *json;
	char *at;

	assert_non_null(in);
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	while ((at = strstr(text, "\\u0000")) != NULL)
		memcpy(at, "\\ue000", 6);
	json = cJSON_Parse(text);
	assert_non_null(json);
	return json;
}

static inline bool
json_text_same(const cJSON *want, struct slice got, bool as_hex)
{
	struct buf text;
	bool same;
	size_t i;

	buf_init(&text, 1u << 20);
	for (i = 0; i < got.len; i++) {
		if (as_hex)
			assert_true(buf_printf(&text, "%02x", (uint8_t)got.ptr[i]));
		else if (got.ptr[i] == '\0')
			assert_true(buf_append(&text, STANDS_FOR_NUL, 3));
		else
			assert_true(buf_append(&text, got.ptr + i, 1));
	}
	same = cJSON_IsString(want) && strlen(want->valuestring) == text.len &&
	    (text.len == 0 || memcmp(want->valuestring, text.ptr, text.len) == 0);
	buf_free(&text);
	return same;
}

static inline bool
json_double_same(const cJSON *want, double got)
{
	if (cJSON_IsNumber(want))
		return want->valuedouble == got && !signbit(got) == !signbit(want->valuedouble);
	if (!cJSON_IsString(want))
		return false;
	if (strcmp(want->valuestring, "NaN") == 0)
		return isnan(got);
	if (strcmp(want->valuestring, "inf") == 0)
		return isinf(got) && got > 0;
	if (strcmp(want->valuestring, "-inf") == 0)
		return isinf(got) && got < 0;
	return strcmp(want->valuestring, "-0") == 0 && got == 0 && signbit(got);
}

static inline bool
json_int_same(const cJSON *want, int64_t got)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)got);
	if (cJSON_IsString(want))
		return strcmp(want->valuestring, text) == 0;
	return cJSON_IsNumber(want) && want->valuedouble == (double)got;
}

static inline bool json_same(const cJSON *want, const struct array *a, uint64_t i);

static inline bool
json_list_same(const cJSON *want, const struct array *a, uint64_t i)
{
	struct span items = array_span(a, i);
	uint64_t k = 0;
	cJSON *item;

	if (!cJSON_IsArray(want) ||
	    (uint64_t)cJSON_GetArraySize(want) != items.count)
		return false;
	cJSON_ArrayForEach(item, want) {
		if (!json_same(item, &a->children[0], items.first + k++))
			return false;
	}
	return true;
}

static inline bool
json_fixed_list_same(const cJSON *want, const struct array *a, uint64_t i)
{
	uint64_t dim = (uint64_t)a->field->dim, k = 0;
	cJSON *item;

	if (!cJSON_IsArray(want) || (uint64_t)cJSON_GetArraySize(want) != dim)
		return false;
	cJSON_ArrayForEach(item, want) {
		if (!json_double_same(item, array_float(a, i * dim + k++)))
			return false;
	}
	return true;
}

static inline bool
json_struct_same(const cJSON *want, const struct array *a, uint64_t i)
{
	char name[64];
	uint32_t k;

	if (!cJSON_IsObject(want))
		return false;
	for (k = 0; k < a->field->child_count; k++) {
		const struct arrow_field *f = a->children[k].field;

		snprintf(name, sizeof(name), "%.*s", (int)f->name.len, f->name.ptr);
		if (!json_same(cJSON_GetObjectItemCaseSensitive(want, name),
		    &a->children[k], i))
			return false;
	}
	return true;
}

static inline bool
json_same(const cJSON *want, const struct array *a, uint64_t i)
{
	if (want == NULL || cJSON_IsNull(want) || array_is_null(a, i))
		return want != NULL && cJSON_IsNull(want) && array_is_null(a, i);
	switch (a->field->type) {
	case ARROW_BOOL:
		return cJSON_IsBool(want) && cJSON_IsTrue(want) == array_bool(a, i);
	case ARROW_FLOAT32:
		return json_double_same(want, array_float(a, i));
	case ARROW_FLOAT64:
		return json_double_same(want, array_double(a, i));
	case ARROW_UTF8:
	case ARROW_LARGE_UTF8:
		return json_text_same(want, array_slice(a, i), false);
	case ARROW_BINARY:
	case ARROW_LARGE_BINARY:
		return json_text_same(want, array_slice(a, i), true);
	case ARROW_LIST:
		return json_list_same(want, a, i);
	case ARROW_FIXED_LIST:
		return json_fixed_list_same(want, a, i);
	case ARROW_STRUCT:
		return json_struct_same(want, a, i);
	default:
		return json_int_same(want, array_int(a, i));
	}
}

/* Row i of a batch; fails the test with the column's name. */
static inline void
json_see_row(const cJSON *want, const struct batch *b, uint64_t i)
{
	char name[64];
	uint32_t k;

	assert_int_equal(cJSON_GetArraySize(want), b->schema->field_count);
	for (k = 0; k < b->schema->field_count; k++) {
		const struct arrow_field *f = &b->schema->fields[k];

		snprintf(name, sizeof(name), "%.*s", (int)f->name.len, f->name.ptr);
		if (!json_same(cJSON_GetObjectItemCaseSensitive(want, name),
		    &b->columns[k], i))
			fail_msg("row %llu, column %s: not the engine's value",
			    (unsigned long long)i, name);
	}
}

#endif
