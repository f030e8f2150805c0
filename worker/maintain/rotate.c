#include "common/base.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/server_state.h"
#include "worker/maintain/rotate.h"

#define SPAN_NS	(5 * NS_PER_SEC)

/* Whether this host writes the ordinal: its worker lives. */
static uint16_t
living_owner(uint32_t ordinal)
{
	uint16_t owner = shm_ordinal_owner(ordinal);

	return owner != SHM_NOBODY &&
	    atomic_load_explicit(&shm_process_get(owner)->pid,
	    memory_order_relaxed) != 0 ? owner : SHM_NOBODY;
}

static struct err
list_shards(const struct aged_store *a, struct aged_shards *s)
{
	uint32_t at = 0, room = 0;
	struct shm_aged aged;

	while (shm_store_aged_next(a->ref, &at, &aged))
		room++;
	s->count = 0;
	s->all = calloc(MAX(room, 1u), sizeof(*s->all));
	if (s->all == NULL)
		return FAIL(NO_MEMORY, "list the shards of a store");
	for (at = 0; s->count < room &&
	    shm_store_aged_next(a->ref, &at, &aged); s->count++)
		s->all[s->count] = (struct aged_shard){ .shard = aged.shard,
		    .ordinal = aged.ordinal,
		    .owner = living_owner(aged.ordinal),
		    .guest = shm_ordinal_guest(aged.ordinal) };
	return OK;
}

static bool
has_tail(const struct shm_shard_state *state)
{
	return shm_shard_commit(state).position >
	    shm_shard_marks(state).replay_after;
}

/* Commits behind replay_after that no closed entry holds yet. */
static bool
wants_rotation(const struct aged_store *a, const struct aged_shard *s,
    bool claim)
{
	const struct shm_shard_state *state = shm_store_shard(a->ref, s->shard);
	struct shm_point commit = shm_shard_commit(state);
	struct shm_point closed = shm_shard_closed(state);
	struct shm_claim last = shm_shard_claimed(state);

	if (s->owner == SHM_NOBODY)
		return false;
	/* A claim records its end, and nothing comes behind that but what a
	 * later claim put there. */
	if (s->guest)
		return !(last.live && last.newest) && (claim || has_tail(state));
	if (!has_tail(state))
		return false;
	/* Who gave his claim up closed before; who died may have begun the next
	 * entry. Behind a later claim nothing that he closes can be sealed. */
	return (last.slot != SHM_NOBODY && !last.live) || !last.newest ||
	    shm_point_before(closed, commit);
}

struct err
rotate_begin(struct aged_store *a, bool claim, struct aged_shards *shards)
{
	struct err e = list_shards(a, shards);
	uint32_t i;

	shards->until_ns = clock_mono_ns() + SPAN_NS;
	for (i = 0; !err_is(e) && i < shards->count; i++) {
		struct aged_shard *s = &shards->all[i];
		struct shm_command command = { .kind = SHM_MAIL_ROTATE,
		    .store = a->ref, .shard = shm_ordinal_shard(s->ordinal) };

		s->asked = wants_rotation(a, s, claim);
		if (s->asked)
			ask_begin(&a->env->asks, &s->question, s->owner,
			    &command);
	}
	return e;
}

void
rotate_end(struct aged_shards *shards)
{
	free(shards->all);
}

bool
rotate_has_any(const struct aged_store *a, const struct aged_shard *s)
{
	return s->asked || shm_shard_commit(
	    shm_store_shard(a->ref, s->shard)).position != 0;
}

struct err
rotate_wait(struct aged_store *a, const struct aged_shards *shards,
    struct aged_shard *s)
{
	struct err e = OK;

	if (s->asked)
		e = ask_wait(&a->env->asks, &s->question, shards->until_ns);
	if (err_is(e) && !shm_life_goes_on(s->question.life)) {
		/* It died: what it left is its successor's. */
		s->asked = false;
		s->owner = SHM_NOBODY;
		return OK;
	}
	if (err_is(e))
		log_err(LOG_WARN, e, "owner did not rotate, what was closed "
		    "before is sealed store=%s ordinal=%.*s", a->name,
		    (int)shm_ordinal_name(s->ordinal).len,
		    shm_ordinal_name(s->ordinal).ptr);
	return e;
}

/* Its worker has died, and the next one will close what is left: whoever asked
 * for a seal has not got it. When we leave the WAL keeps it. */
struct err
rotate_check(const struct aged_store *a, const struct aged_shard *s)
{
	const struct shm_shard_state *state = shm_store_shard(a->ref, s->shard);

	if (s->asked || s->owner != SHM_NOBODY || !has_tail(state) ||
	    shm_ordinal_owner(s->ordinal) == SHM_NOBODY ||
	    shm_server_is(SHM_SERVER_DRAINING) ||
	    shm_server_is(SHM_SERVER_HANDING_OVER))
		return OK;
	return FAIL(UNAVAILABLE, "the worker of a shard with rows that are not "
	    "sealed does not run");
}
