#include "common/base.h"

#include <stdio.h>

#include "common/merge_target.h"

#define GENERIC "generic:"

bool
merge_target_next(const char **list, struct slice *target)
{
	size_t len = strcspn(*list, ",");

	if (**list == '\0')
		return false;
	*target = slice_make(*list, len);
	*list += len + ((*list)[len] == ',');
	return true;
}

/* Without the word for its kind. */
static struct slice
name_of(struct slice target, bool *generic)
{
	size_t len = strlen(GENERIC);

	*generic = target.len >= len && memcmp(target.ptr, GENERIC, len) == 0;
	return *generic ? slice_make(target.ptr + len, target.len - len) :
	    target;
}

static bool
is_name(struct slice s)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789-_.";
	size_t i;

	for (i = 0; i < s.len; i++) {
		if (memchr(allowed, s.ptr[i], sizeof(allowed) - 1) == NULL)
			return false;
	}
	return s.len > 0;
}

struct err
merge_target_check(const char *owned, const char *drain)
{
	static char text[200];
	size_t len = strlen(drain);
	struct slice target;
	bool generic;

	if (*owned != '\0')
		return FAIL(BAD_INPUT, "--merge-owned-targets needs a "
		    "coordinator in etcd, which this server does not use: "
		    "leave it empty, it folds by itself");
	if (len > 0 && drain[len - 1] == ',')
		return FAIL(BAD_INPUT, "--merge-drain-targets ends with a comma");
	while (merge_target_next(&drain, &target)) {
		if (is_name(name_of(target, &generic)))
			continue;
		snprintf(text, sizeof(text), "--merge-drain-targets: '%.*s' is "
		    "neither the name of a store nor generic:NAME",
		    (int)MIN(target.len, (size_t)64), target.ptr);
		return FAIL(BAD_INPUT, text);
	}
	return OK;
}

bool
merge_target_has(const char *list, const char *kind, const char *name)
{
	bool wanted = strcmp(kind, "generic") == 0, generic;
	struct slice target;

	if (!wanted && strcmp(kind, "rollout") != 0)
		return false;
	while (merge_target_next(&list, &target)) {
		struct slice s = name_of(target, &generic);

		if (generic == wanted && slice_eq(s, slice_of(name)))
			return true;
	}
	return false;
}
