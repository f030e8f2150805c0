#include "common/base.h"

#include <stdio.h>

#include "shm/ordinal_table.h"
#include "shm/part.h"
#include "shm/stray.h"

static struct table {
	_Atomic uint32_t count;		/* an entry is there once it counts */
	_Atomic uint32_t beyond;	/* 1: there was no room for more */
	struct shm_stray entries[SHM_STRAYS_MAX];
} *table;

uint64_t
shm_stray_bytes(const struct shm_config *cfg)
{
	(void)cfg;
	return sizeof(struct table);
}

void
shm_stray_carve(void *at, const struct shm_config *cfg)
{
	(void)cfg;
	table = at;
}

bool
shm_stray_note(const struct uuid *shard, uint32_t kind, const char *store)
{
	uint32_t i, count = atomic_load(&table->count);
	struct shm_stray *to;

	for (i = 0; i < count; i++) {
		if (uuid_eq(&table->entries[i].shard, shard))
			return false;
	}
	if (count == SHM_STRAYS_MAX) {
		/* Nobody knows which of them: told of once. */
		return atomic_exchange(&table->beyond, 1) == 0;
	}
	to = &table->entries[count];
	to->shard = *shard;
	to->kind = kind;
	snprintf(to->store, sizeof(to->store), "%s", store);
	atomic_store_explicit(&table->count, count + 1, memory_order_release);
	return true;
}

bool
shm_stray_next(uint32_t *index, struct shm_stray *s)
{
	uint32_t count = atomic_load_explicit(&table->count,
	    memory_order_acquire);
	uint32_t ordinal;

	while (*index < count) {
		*s = table->entries[(*index)++];
		if (err_is(shm_ordinal_find(&s->shard, &ordinal)))
			return true;
	}
	return false;
}

uint32_t
shm_stray_count(void)
{
	uint32_t index = 0, n = atomic_load(&table->beyond);
	struct shm_stray s;

	while (shm_stray_next(&index, &s))
		n++;
	return n;
}
