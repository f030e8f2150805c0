#include "common/base.h"

#include <stdlib.h>

#include "common/hash.h"
#include "worker/maintain/collect_parts.h"

#define ROOM_FIRST	1024u
#define ROOM_MAX	(1u << 26)

static uint64_t
hash_of(const char *name)
{
	return MAX(hash_bytes(name, strlen(name)), 1ull);
}

void
collect_names_free(struct collect_names *n)
{
	free(n->cells);
	*n = (struct collect_names){ 0 };
}

/* Where it is, or may be put. */
static uint64_t *
cell_of(const struct collect_names *n, uint64_t hash)
{
	uint32_t at = (uint32_t)hash & (n->room - 1);

	while (n->cells[at] != 0 && n->cells[at] != hash)
		at = (at + 1) & (n->room - 1);
	return &n->cells[at];
}

static struct err
grow(struct collect_names *n)
{
	struct collect_names more = { .count = n->count,
	    .room = MAX(n->room * 2, ROOM_FIRST) };
	uint32_t i;

	if (more.room > ROOM_MAX)
		return FAIL(NO_MEMORY, "a store names too many files");
	more.cells = calloc(more.room, sizeof(*more.cells));
	if (more.cells == NULL)
		return FAIL(NO_MEMORY, "names of a store's files");
	for (i = 0; i < n->room; i++) {
		if (n->cells[i] != 0)
			*cell_of(&more, n->cells[i]) = n->cells[i];
	}
	free(n->cells);
	*n = more;
	return OK;
}

struct err
collect_names_add(struct collect_names *n, const char *name)
{
	uint64_t hash = hash_of(name), *cell;
	struct err e = OK;

	if (n->count >= n->room / 2)
		e = grow(n);
	if (err_is(e))
		return e;
	cell = cell_of(n, hash);
	n->count += *cell == 0;
	*cell = hash;
	return OK;
}

bool
collect_names_has(const struct collect_names *n, const char *name)
{
	return n->room > 0 && *cell_of(n, hash_of(name)) != 0;
}
