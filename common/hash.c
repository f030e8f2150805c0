#include "common/base.h"

/* The state of a hash in parts lives on the stack. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "common/hash.h"

uint64_t
hash_bytes(const void *bytes, size_t n)
{
	return XXH3_64bits(bytes, n);
}

uint64_t
hash_parts(const struct slice *parts, uint32_t count)
{
	XXH3_state_t state;
	uint32_t i;

	MUST(XXH3_64bits_reset(&state) == XXH_OK);
	for (i = 0; i < count; i++)
		MUST(XXH3_64bits_update(&state, parts[i].ptr, parts[i].len) == XXH_OK);
	return XXH3_64bits_digest(&state);
}

struct hash_stream *
hash_stream_new(void)
{
	XXH3_state_t *state = XXH3_createState();

	if (state != NULL)
		MUST(XXH3_64bits_reset(state) == XXH_OK);
	return (struct hash_stream *)state;
}

void
hash_stream_add(struct hash_stream *h, struct slice s)
{
	MUST(XXH3_64bits_update((XXH3_state_t *)h, s.ptr, s.len) == XXH_OK);
}

uint64_t
hash_stream_end(struct hash_stream *h)
{
	uint64_t hash = XXH3_64bits_digest((XXH3_state_t *)h);

	XXH3_freeState((XXH3_state_t *)h);
	return hash;
}
