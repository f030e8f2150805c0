#include "common/base.h"

#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/store_table.h"

/*
 * Looks at a slot without a lock: the master does, which may never wait for
 * one. What changes meanwhile may be of two moments; only a change of hands
 * would mix two stores, so the incarnation is looked at before and after.
 */

static void
add_shard(struct shm_store_info *info, const struct shm_shard_state *s)
{
	struct shm_manifest_marks m = shm_shard_marks(s);
	struct shm_point commit = shm_shard_commit(s);

	if (m.version == 0 && commit.end == 0)
		return;
	info->shards++;
	info->pending_generations += m.pending_generations;
	info->pending_generations_max = MAX(info->pending_generations_max,
	    m.pending_generations);
	info->pending_bytes += m.pending_bytes;
	if (commit.end != 0 && commit.position > m.replay_after)
		info->tail_shards++;
}

static bool
has_living_owner(uint32_t ordinal)
{
	uint16_t owner = shm_ordinal_owner(ordinal);

	return owner != SHM_NOBODY &&
	    atomic_load(&shm_process_get(owner)->pid) != 0;
}

/* Whose worker does not live, and so whose tail nobody closes, is another's
 * matter: of another instance, or until the ordinal is given to somebody. */
static void
add_own(struct shm_store_info *info, const struct shm_shard_state *s,
    uint32_t ordinal)
{
	struct shm_manifest_marks m = shm_shard_marks(s);
	uint64_t tail_bytes = shm_shard_tail_bytes(s);

	if (ordinal == SHM_NO_ORDINAL || !shm_ordinal_aged(ordinal))
		return;
	info->tail_bytes += tail_bytes;
	info->own_generations += m.pending_generations;
	info->own_generations_max = MAX(info->own_generations_max,
	    m.pending_generations);
	info->own_bytes += m.pending_bytes;
	if (has_living_owner(ordinal))
		info->own_bytes += tail_bytes;
}

static void
add_shards(struct shm_store_info *info, struct shm_slot *s)
{
	uint32_t i, seen = 0;

	for (i = 0; i < shm_workers_max(); i++) {
		add_shard(info, shm_slot_local(s, i));
		add_own(info, shm_slot_local(s, i), i);
	}
	/* Bounded: a chain that is taken apart may lead anywhere. */
	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD &&
	    seen < shm_records(); i = atomic_load(&shm_record_at(i)->next)) {
		add_shard(info, &shm_record_at(i)->state);
		add_own(info, &shm_record_at(i)->state, shm_record_ordinal(i));
		seen++;
	}
}

static void
add_users(struct shm_store_info *info, struct shm_slot *s)
{
	uint64_t serial;
	uint16_t p;

	for (p = 0; p < shm_process_count(); p++) {
		info->pins += atomic_load(&shm_slot_pins(s)[p]);
		serial = atomic_load(&shm_slot_serials(s)[p]);
		if (serial != 0 && (info->oldest_serial == 0 ||
		    serial < info->oldest_serial))
			info->oldest_serial = serial;
	}
}

static void
copy_guard(struct shm_store_info *info, const struct shm_guard *g)
{
	info->guarded = shm_guard_holder(g, &info->guard_holder);
	info->guard_phase = atomic_load(&g->phase);
	info->guard_since_ns = atomic_load(&g->since_ns);
	info->guard_deadline_ns = atomic_load(&g->deadline_ns);
}

static void
copy_tick(struct shm_store_info *info, const struct shm_tick_status *t)
{
	info->tick_start_us = atomic_load(&t->last_start_us);
	info->tick_end_us = atomic_load(&t->last_end_us);
	info->ticks = atomic_load(&t->ticks);
	info->busy_skips = atomic_load(&t->busy_skips);
	info->seal_errors = atomic_load(&t->seal_errors);
	info->fold_errors = atomic_load(&t->fold_errors);
	info->timeouts = atomic_load(&t->timeouts);
	info->last_err_kind = atomic_load(&t->last_err_kind);
	info->last_err_phase = atomic_load(&t->last_err_phase);
	info->errors_in_row = atomic_load(&t->errors_in_row);
	info->compactions = atomic_load(&t->compactions);
	info->compact_err_kind = atomic_load(&t->compact_err_kind);
	info->compacted_us = atomic_load(&t->compacted_us);
}

bool
shm_store_peek(struct shm_ref ref, struct shm_store_info *info)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint8_t len;

	if (s == NULL)
		return false;
	memset(info, 0, sizeof(*info));
	info->ref = ref;
	info->kind = s->kind;
	len = s->name_len;
	memcpy(info->name, s->name, MIN(len, SHM_STORE_NAME_MAX));
	info->store = s->store;
	info->load = shm_store_load_state(ref);
	info->flags = atomic_load(&s->flags);
	info->dirty = atomic_load(&s->dirty) != 0;
	info->serial = atomic_load(&s->serial);
	info->garbage = atomic_load(&s->collected_serial) !=
	    atomic_load(&s->serial);
	info->base_version = atomic_load(&s->base_version);
	info->pinned_version = atomic_load(&s->pinned_version);
	info->reads_refused = atomic_load(&s->reads_refused);
	info->pressure = atomic_load(&s->pressure);
	add_users(info, s);
	add_shards(info, s);
	copy_guard(info, &s->guard);
	copy_tick(info, &s->tick);
	atomic_thread_fence(memory_order_acquire);
	return shm_slot_is(s, ref);
}

static bool
is_left(const struct shm_shard_state *s)
{
	struct shm_manifest_marks m = shm_shard_marks(s);
	struct shm_point commit = shm_shard_commit(s);

	return m.pending_generations > 0 ||
	    (commit.end != 0 && commit.position > m.replay_after);
}

bool
shm_store_left(struct shm_ref ref)
{
	struct shm_slot *s = shm_store_slot(ref);
	uint32_t i, ordinal, seen = 0;

	if (s == NULL)
		return false;
	for (i = 0; i < shm_workers_max(); i++) {
		if (is_left(shm_slot_local(s, i)) && shm_ordinal_aged(i))
			return true;
	}
	for (i = atomic_load(&s->first_record); i != SHM_NO_RECORD &&
	    seen < shm_records(); i = atomic_load(&shm_record_at(i)->next)) {
		seen++;
		if (!is_left(&shm_record_at(i)->state))
			continue;
		ordinal = shm_record_ordinal(i);
		if (ordinal != SHM_NO_ORDINAL && shm_ordinal_aged(ordinal))
			return true;
	}
	return false;
}
