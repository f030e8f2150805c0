#include "common/base.h"

#include <uuid/uuid.h>

#include "common/uuid.h"

struct uuid
uuid_random(void)
{
	struct uuid u;

	uuid_generate_random(u.bytes);
	return u;
}

struct uuid
uuid_named(struct slice name)
{
	struct uuid u;

	uuid_generate_sha1(u.bytes, *uuid_get_template("oid"), name.ptr,
	    name.len);
	return u;
}

void
uuid_to_text(const struct uuid *u, char text[UUID_TEXT_LEN + 1])
{
	uuid_unparse_lower(u->bytes, text);
}

bool
uuid_from_text(struct slice text, struct uuid *u)
{
	char copy[UUID_TEXT_LEN + 1];

	if (text.len != UUID_TEXT_LEN)
		return false;
	memcpy(copy, text.ptr, UUID_TEXT_LEN);
	copy[UUID_TEXT_LEN] = '\0';
	return uuid_parse(copy, u->bytes) == 0;
}
