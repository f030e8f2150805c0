#include "common/base.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/clock.h"
#include "shm/process.h"
#include "shm/view.h"
#include "worker/maintain/collect_parts.h"

#define TRIES	8		/* at a view that does not change meanwhile */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct collect_mark **marks;	/* by slot; NULL: none yet */

/*
 * Whoever takes his view at this serial or later sees this state or a later
 * one: the serial is looked at under the slot's lock before and after, and who
 * changes the one changes the other.
 */
static bool
copy_state(struct collect_mark *m)
{
	struct shm_slot *slot = shm_store_slot(m->ref);
	uint64_t after;
	uint32_t i;

	if (slot == NULL || shm_store_load_state(m->ref) != SHM_LOAD_READY ||
	    (shm_store_flags(m->ref) & SHM_FLAG_STALE) != 0 ||
	    err_is(shm_view_load_begin(m->ref, &m->serial)))
		return false;
	m->base_version = atomic_load(&slot->base_version);
	for (i = 0; i < m->shard_count; i++) {
		struct shm_manifest_marks s = shm_shard_marks(
		    shm_store_shard(m->ref, m->shards[i].at.shard));

		m->shards[i].version = s.version;
		m->shards[i].replay_after = s.replay_after;
	}
	return !err_is(shm_view_load_begin(m->ref, &after)) &&
	    after == m->serial;
}

static uint32_t
count_aged(struct shm_ref ref)
{
	struct shm_aged aged;
	uint32_t at = 0, n = 0;

	while (shm_store_aged_next(ref, &at, &aged))
		n++;
	return n;
}

struct collect_mark *
collect_mark_new(struct shm_ref ref)
{
	uint32_t room = count_aged(ref), at = 0;
	struct collect_mark *m = calloc(1, sizeof(*m) +
	    room * sizeof(m->shards[0]));
	int tries = 0;

	if (m == NULL)
		return NULL;
	m->ref = ref;
	while (m->shard_count < room && shm_store_aged_next(ref, &at,
	    &m->shards[m->shard_count].at))
		m->shard_count++;
	while (tries++ < TRIES) {
		if (!copy_state(m))
			continue;
		/* What this state does not name had left before. */
		m->since_ns = clock_mono_ns();
		return m;
	}
	free(m);
	return NULL;
}

void
collect_mark_free(struct collect_mark *m)
{
	if (m != NULL)
		free(m->unnamed);
	free(m);
}

struct collect_mark *
collect_mark_get(struct shm_ref ref)
{
	struct collect_mark *m;

	MUST(pthread_mutex_lock(&mutex) == 0);
	m = marks == NULL ? NULL : marks[ref.index];
	MUST(pthread_mutex_unlock(&mutex) == 0);
	return m != NULL && shm_ref_eq(m->ref, ref) ? m : NULL;
}

void
collect_mark_put(struct shm_ref ref, struct collect_mark *m)
{
	struct collect_mark *old = m;

	MUST(pthread_mutex_lock(&mutex) == 0);
	if (marks == NULL)
		marks = calloc(shm_store_slots(), sizeof(struct collect_mark *));
	if (marks != NULL) {
		old = marks[ref.index];
		marks[ref.index] = m;
	}
	MUST(pthread_mutex_unlock(&mutex) == 0);
	collect_mark_free(old);
}
