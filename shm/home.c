#include "common/base.h"

#include "shm/home.h"
#include "shm/process.h"

/* "K" without a sign or a zero in front; false: no number of a worker. */
static bool
read_worker(const char *text, uint32_t *worker)
{
	uint32_t n = 0;

	if (*text < '1' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		n = n * 10 + (uint32_t)(*text - '0');
		if (n >= SHM_WORKERS_LIMIT)
			return false;
	}
	if (*text != '\0')
		return false;
	*worker = n;
	return true;
}

struct shm_home
shm_home_of(const struct shm_ordinal *o)
{
	const char *mark = strrchr(o->name, '#');
	struct shm_home home = { .worker = 0 };
	size_t len = strlen(o->name);

	if (mark != NULL && read_worker(mark + 1, &home.worker))
		len = (size_t)(mark - o->name);
	if (len < sizeof(home.instance))
		memcpy(home.instance, o->name, len);
	return home;
}

bool
shm_home_is_ours(const struct shm_home *home)
{
	return strcmp(home->instance, shm_instance_id()) == 0;
}

bool
shm_home_left(const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);
	struct uuid named = uuid_named(slice_of(o->name));

	if (o->version == 0 || (o->is.state != SHM_ORDINAL_OWNED &&
	    o->is.state != SHM_ORDINAL_MOVING))
		return false;
	return home.worker != o->is.worker ||
	    strcmp(home.instance, o->is.instance) != 0 ||
	    !uuid_eq(&named, &o->shard);
}

enum shm_errand
shm_home_errand(const struct shm_ordinal *o)
{
	struct shm_home home = shm_home_of(o);
	struct shm_instance owner;

	if (!shm_home_left(o))
		return SHM_ERRAND_NONE;
	if (o->owner != SHM_NOBODY)
		return SHM_ERRAND_HERE;
	if (!shm_home_is_ours(&home) ||
	    !shm_instance_find(o->is.instance, &owner))
		return SHM_ERRAND_NONE;
	return shm_instance_lives(&owner) ? SHM_ERRAND_THERE :
	    SHM_ERRAND_NONE;
}
