#include "common/base.h"

#include <zstd.h>

#include "worker/arrow/zstd.h"

struct err
zstd_expand(struct slice frame, void *to, size_t to_bytes)
{
	size_t n = ZSTD_decompress(to, to_bytes, frame.ptr, frame.len);

	if (ZSTD_isError(n))
		return FAIL(CORRUPT, "zstd frame");
	if (n != to_bytes)
		return FAIL(CORRUPT, "zstd frame of another length");
	return OK;
}
