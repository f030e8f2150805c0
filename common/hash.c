#include "common/base.h"

#include <xxhash.h>

#include "common/hash.h"

uint64_t
hash_bytes(const void *bytes, size_t n)
{
	return XXH3_64bits(bytes, n);
}
