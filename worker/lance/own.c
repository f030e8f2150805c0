#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/lance/own.h"

static uint32_t own_tag;		/* 0: none */

void
own_set(uint32_t tag)
{
	own_tag = tag;
}

struct uuid
own_uuid(void)
{
	struct uuid u = uuid_random();
	int i;

	for (i = 0; own_tag != 0 && i < 4; i++)
		u.bytes[i] = (uint8_t)(own_tag >> (24 - 8 * i));
	return u;
}

uint64_t
own_id(void)
{
	struct uuid u = uuid_random();
	uint64_t id;

	/* The last eight are random but for two bits of the first. */
	memcpy(&id, u.bytes + 8, sizeof(id));
	return own_tag == 0 ? id : (uint64_t)own_tag << 32 | (uint32_t)(id >> 32);
}

bool
own_is(const char *name)
{
	char tag[9];
	const char *at;

	snprintf(tag, sizeof(tag), "%08x", own_tag);
	if (own_tag == 0)
		return false;
	if (strncmp(name, "data/", 5) == 0)
		return strncmp(name + 5, tag, 8) == 0 && name[13] == '-';
	if (strncmp(name, "_indices/", 9) == 0)
		return strncmp(name + 9, tag, 8) == 0;
	at = strchr(name, '-');
	if (at != NULL && strncmp(name, "_transactions/", 14) == 0)
		return strncmp(at + 1, tag, 8) == 0;
	at = at == NULL ? NULL : strchr(at + 1, '-');
	if (at != NULL && strncmp(name, "_deletions/", 11) == 0)
		return strtoull(at + 1, NULL, 10) >> 32 == own_tag;
	return false;
}
