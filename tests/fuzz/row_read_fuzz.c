#include "common/base.h"

#include "tests/fuzz/rows.h"

/* The first byte says in what pieces the rest, the body of an append of
 * rollouts, comes. */

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rows rows = { .shape = kind_rollout.shape, .name = "records" };

	if (size >= 2)
		rows_check(&rows, slice_make(data + 1, size - 1),
		    1 + data[0] % 37u);
	return 0;
}
