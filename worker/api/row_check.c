#include "common/base.h"

#include "worker/api/query.h"
#include "worker/api/row_check.h"

static struct err
read_unknown(struct slice query, struct arena *a, bool *rejected)
{
	struct slice value;
	bool found;
	struct err e = query_text(query, "unknown", a, &value, &found);

	if (err_is(e) || !found)
		return e;
	if (slice_eq(value, SLICE("metadata")))
		return FAIL(UNSUPPORTED, "'unknown=metadata' is not served");
	*rejected = slice_eq(value, SLICE("reject"));
	return *rejected ? OK :
	    FAIL(BAD_INPUT, "query parameter 'unknown' must be 'reject'");
}

static struct err
read_lengths(struct slice query, const struct kind *kind, struct arena *a,
    bool *agree)
{
	struct slice value;
	bool found;
	struct err e = query_text(query, "check", a, &value, &found);

	if (err_is(e) || !found)
		return e;
	*agree = slice_eq(value, SLICE("lengths")) && kind == &kind_rollout;
	return *agree ? OK : FAIL(BAD_INPUT, "query parameter 'check' must be "
	    "'lengths', and is for rollouts");
}

struct err
row_check_read(struct slice query, const struct kind *kind, struct arena *a,
    struct row_check *check)
{
	struct err e;

	*check = (struct row_check){ false, false };
	e = read_unknown(query, a, &check->unknown_rejected);
	if (err_is(e))
		return e;
	return read_lengths(query, kind, a, &check->lengths_agree);
}

static struct err
check_row(struct arena *a, const struct batch *b, uint64_t row, uint64_t told)
{
	static const enum rollout_column lists[] = { ROLLOUT_output_tokens,
	    ROLLOUT_output_logprobs, ROLLOUT_loss_mask };
	const struct array *first = NULL;
	uint64_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct array *list = &b->columns[lists[i]];
		uint64_t n;

		if (array_is_null(list, row))
			continue;
		n = array_span(list, row).count;
		if (first == NULL) {
			first = list;
			count = n;
		} else if (n != count) {
			return FAIL(BAD_INPUT, arena_printf(a, "records[%llu]: "
			    "%s has %llu items, but %s has %llu",
			    (unsigned long long)told, first->field->name.ptr,
			    (unsigned long long)count, list->field->name.ptr,
			    (unsigned long long)n));
		}
	}
	return OK;
}

struct err
row_check_rows(const struct row_check *check, struct arena *a,
    const struct batch *b, const struct row_read_result *rows)
{
	struct err e = OK;

	if (check->unknown_rejected && rows->ignored_count > 0)
		return FAIL(BAD_INPUT, arena_printf(a, "unknown field '%.*s'",
		    (int)rows->ignored[0].len, rows->ignored[0].ptr));
	for (uint64_t i = 0; check->lengths_agree && !err_is(e) &&
	    i < rows->count; i++)
		e = check_row(a, b, rows->first_row + i, i);
	return e;
}
