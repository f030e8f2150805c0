#include "common/base.h"

#include <stdio.h>

#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/store_table.h"
#include "master/list.h"

#define SLOTS_A_STEP 512

static const struct report_column columns[] = {
	{ "KIND", "kind", -8 },
	{ "STORE", "store", -24 },
	{ "ORDINAL", "ordinal", -24 },
	{ "EPOCH", "epoch", 7 },
	{ "CLAIM", "claimed_by", 5 },
	{ "LIVE", "claim_live", -4 },
	{ "COMMIT", "position", 8 },
	{ "END", "end", 10 },
	{ "SEALED", "sealed_up_to", 8 },
	{ "UNSEALED", "tail_bytes", 12 },
	{ "PENDING", "pending_generations", 7 },
	{ "BYTES", "pending_bytes", 12 },
	{ "MANIFEST", "manifest_version", 8 },
	{ "SEALING", "sealing", -7 },
	{ NULL, "shard", 0 },
};

/* Whose it is; no ordinal that is known here may explain it. */
static void
put_ordinal(struct report *r, const struct uuid *shard)
{
	struct slice name;
	uint32_t index;

	if (err_is(shm_ordinal_find(shard, &index))) {
		report_text(r, "%s", "");
		return;
	}
	name = shm_ordinal_name(index);
	report_text(r, "%.*s", (int)name.len, name.ptr);
}

static bool
is_known(const struct shm_shard_state *s)
{
	return shm_shard_marks(s).version != 0 || shm_shard_commit(s).end != 0;
}

static void
put_shard(struct report *r, const struct shm_store_info *info,
    const struct shm_shard_state *s, const struct uuid *shard)
{
	struct shm_manifest_marks m = shm_shard_marks(s);
	struct shm_point commit = shm_shard_commit(s);
	struct shm_claim claim = shm_shard_claimed(s);
	struct shm_who who;
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(shard, text);
	report_row(r);
	report_text(r, "%s", store_kind_name(info->kind));
	report_text(r, "%s", info->name);
	put_ordinal(r, shard);
	report_uint(r, MAX(m.epoch, claim.epoch));
	report_int(r, claim.slot == SHM_NOBODY ? -1 : claim.slot);
	report_bool(r, claim.live);
	report_uint(r, commit.position);
	report_uint(r, commit.end);
	report_uint(r, m.replay_after);
	report_uint(r, shm_shard_tail_bytes(s));
	report_uint(r, m.pending_generations);
	report_uint(r, m.pending_bytes);
	report_uint(r, m.version);
	report_bool(r, shm_guard_holder(&s->seal_guard, &who));
	report_text(r, "%s", text);
	report_row_end(r);
}

/* Shards of others, behind the inner ones that were listed. Bounded: a chain
 * that is taken apart may lead anywhere. False: the piece is full. */
static bool
list_records(struct call *call, struct shm_slot *slot,
    const struct shm_store_info *info)
{
	struct cursor *at = &call->cursor;
	uint32_t i, seen = shm_workers_max();

	for (i = atomic_load(&slot->first_record); i != SHM_NO_RECORD &&
	    seen < shm_workers_max() + shm_records();
	    i = atomic_load(&shm_record_at(i)->next)) {
		const struct shm_record *record = shm_record_at(i);
		struct uuid shard = record->shard;

		if (seen++ < at->inner)
			continue;
		if (call->body.len >= CALL_PIECE_BYTES)
			return false;
		at->inner++;
		if (is_known(&record->state))
			put_shard(&call->report, info, &record->state, &shard);
	}
	return true;
}

/* False: the piece is full, and inner says where. */
static bool
list_store_shards(struct call *call, const struct shm_store_info *info)
{
	struct shm_slot *slot = shm_store_slot(info->ref);
	struct cursor *at = &call->cursor;

	if (slot == NULL)
		return true;
	for (; at->inner < shm_workers_max(); at->inner++) {
		const struct shm_shard_state *s = shm_slot_local(slot,
		    at->inner);
		struct uuid shard = shm_ordinal_shard(at->inner);

		if (call->body.len >= CALL_PIECE_BYTES)
			return false;
		if (is_known(s))
			put_shard(&call->report, info, s, &shard);
	}
	return list_records(call, slot, info);
}

bool
list_shards(struct call *call)
{
	struct cursor *at = &call->cursor;
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t n, next;

	if (!at->begun)
		report_list(&call->report, "shards", columns,
		    ARRAY_LEN(columns));
	at->begun = true;
	for (n = 0; n < SLOTS_A_STEP; n++) {
		next = at->index;
		if (!shm_store_next(&next, &ref)) {
			report_list_end(&call->report);
			return true;
		}
		if (shm_store_peek(ref, &info) && list_wants(call, &info) &&
		    !list_store_shards(call, &info))
			return false;
		at->index = next;
		at->inner = 0;
	}
	return false;
}
