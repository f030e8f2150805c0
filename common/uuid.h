#ifndef MEMWALD_COMMON_UUID_H
#define MEMWALD_COMMON_UUID_H

/*
 * uuid - random ones (version 4) and named ones (version 5, SHA-1), RFC 4122.
 */

#include "common/base.h"
#include "common/slice.h"

#define UUID_TEXT_LEN 36

struct uuid {
	uint8_t bytes[16];
};

struct uuid uuid_random(void);
/* Version 5 in the OID namespace, the one that shard ids use (contract 5.4). */
struct uuid uuid_named(struct slice name);
/* Lower case with dashes and a NUL: UUID_TEXT_LEN + 1 bytes. */
void uuid_to_text(const struct uuid *, char text[UUID_TEXT_LEN + 1]);
bool uuid_from_text(struct slice text, struct uuid *) MUST_CHECK;

static inline bool
uuid_eq(const struct uuid *a, const struct uuid *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

#endif
