#include "common/base.h"

#include <stdio.h>

#include "shm/process.h"
#include "shm/store_table.h"
#include "master/facts.h"
#include "master/list.h"

#define PATIENCE_MS   20		/* of one list, for locks that are held */
#define SLOTS_A_STEP  512

/* What has no column in the text is in the JSON alone, and the other way
 * round; shards and guard are objects, written by hand. */
static const struct report_column store_columns[] = {
	{ "KIND", "kind", -8 },
	{ "STORE", "name", -24 },
	{ "LOAD", "load", -7 },
	{ "BASE", "base_version", 7 },
	{ "PENDING", "pending_generations", 7 },
	{ "BYTES", "pending_bytes", 12 },
	{ "UNSEALED", "tail_bytes", 12 },
	{ "TAILS", "tail_shards", 5 },
	{ "PINS", "pins", 5 },
	{ "GUARD", NULL, -1 },
	{ NULL, "stale", 0 },
	{ NULL, "deleted", 0 },
	{ NULL, "dirty", 0 },
	{ NULL, "pinned_version", 0 },
	{ NULL, "serial", 0 },
	{ NULL, "oldest_serial", 0 },
	{ NULL, "pending_generations_max", 0 },
	{ NULL, "pressure", 0 },
	{ NULL, "ticks", 0 },
	{ NULL, "busy_skips", 0 },
	{ NULL, "seal_errors", 0 },
	{ NULL, "fold_errors", 0 },
	{ NULL, "errors_in_row", 0 },
	{ NULL, "last_error_phase", 0 },
	{ NULL, "compactions", 0 },
	{ NULL, "timeouts", 0 },
};

bool
list_wants(const struct call *call, const struct shm_store_info *s)
{
	const char *kind = call->values[ADMIN_OPTION_KIND];

	return (call->operand_count == 0 ||
	    strcmp(call->operands[0], s->name) == 0) &&
	    (kind == NULL || strcmp(kind, store_kind_name(s->kind)) == 0);
}

/* The shards of this instance that anything waits in. */
static void
json_shards(struct json_writer *w, struct shm_ref ref)
{
	struct shm_slot *slot = shm_store_slot(ref);
	uint32_t i;

	json_write_open(w, "shards", '[');
	for (i = 0; slot != NULL && i < shm_workers_max(); i++) {
		const struct shm_shard_state *s = shm_slot_local(slot, i);
		struct shm_manifest_marks m = shm_shard_marks(s);
		uint64_t tail_bytes = shm_shard_tail_bytes(s);

		if (m.pending_generations == 0 && tail_bytes == 0)
			continue;
		json_write_open(w, NULL, '{');
		json_write_uint64(w, "ordinal", i);
		json_write_uint64(w, "pending_generations",
		    m.pending_generations);
		json_write_uint64(w, "pending_bytes", m.pending_bytes);
		json_write_uint64(w, "tail_bytes", tail_bytes);
		json_write_close(w, '}');
	}
	json_write_close(w, ']');
}

static void
json_guard(struct json_writer *w, const struct shm_store_info *s)
{
	json_write_open(w, "guard", '{');
	json_write_bool(w, "held", s->guarded);
	if (s->guarded) {
		json_write_uint64(w, "slot", s->guard_holder.slot);
		json_write_uint64(w, "thread", s->guard_holder.thread);
		json_write_text(w, "phase",
		    slice_of(tick_phase_name(s->guard_phase)));
		json_write_uint64(w, "held_ms", facts_guard_ms(s));
	}
	json_write_close(w, '}');
}

/* The last column of the text: guard, and whatever is out of the ordinary. */
static void
put_state(struct report *r, const struct shm_store_info *s,
    uint32_t *patience_ms)
{
	struct lock_facts l = { .writer = -1 };
	char guard[96] = "free";

	if (!r->json)
		l = facts_kept_lock(s->ref, patience_ms);
	if (s->guarded)
		snprintf(guard, sizeof(guard), "slot %u in %s, for %llu ms",
		    s->guard_holder.slot, tick_phase_name(s->guard_phase),
		    (unsigned long long)facts_guard_ms(s));
	report_text(r, "%s%s%s%s%s%s", guard,
	    s->pressure != SHM_PRESSURE_NONE ? ", " : "",
	    s->pressure != SHM_PRESSURE_NONE ?
	    shm_pressure_name(s->pressure) : "",
	    facts_is_locked(&l) ? ", locked" : "",
	    s->flags & SHM_FLAG_STALE ? ", stale" : "",
	    s->flags & SHM_FLAG_DELETED ? ", deleted" : "");
}

static void
put_store(struct report *r, const struct shm_store_info *s,
    uint32_t *patience_ms)
{
	report_row(r);
	report_text(r, "%s", store_kind_name(s->kind));
	report_text(r, "%s", s->name);
	report_text(r, "%s", shm_load_state_name(s->load));
	report_uint(r, s->base_version);
	report_uint(r, s->pending_generations);
	report_uint(r, s->pending_bytes);
	report_uint(r, s->tail_bytes);
	report_uint(r, s->tail_shards);
	report_uint(r, s->pins);
	put_state(r, s, patience_ms);
	report_bool(r, s->flags & SHM_FLAG_STALE);
	report_bool(r, s->flags & SHM_FLAG_DELETED);
	report_bool(r, s->dirty);
	report_uint(r, s->pinned_version);
	report_uint(r, s->serial);
	report_uint(r, s->oldest_serial);
	report_uint(r, s->pending_generations_max);
	report_text(r, "%s", shm_pressure_name(s->pressure));
	report_uint(r, s->ticks);
	report_uint(r, s->busy_skips);
	report_uint(r, s->seal_errors);
	report_uint(r, s->fold_errors);
	report_uint(r, s->errors_in_row);
	report_text(r, "%s", tick_phase_name(s->last_err_phase));
	report_uint(r, s->compactions);
	report_uint(r, s->timeouts);
	if (r->json) {
		json_shards(&r->w, s->ref);
		json_guard(&r->w, s);
	}
	report_row_end(r);
}

bool
list_stores(struct call *call)
{
	struct report *r = &call->report;
	struct cursor *at = &call->cursor;
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t n;

	if (!at->begun) {
		at->begun = true;
		at->patience_ms = PATIENCE_MS;
		report_list(r, "stores", store_columns,
		    ARRAY_LEN(store_columns));
	}
	for (n = 0; n < SLOTS_A_STEP && call->body.len < CALL_PIECE_BYTES;
	    n++) {
		if (!shm_store_next(&at->index, &ref)) {
			report_list_end(r);
			return true;
		}
		if (shm_store_peek(ref, &s) && list_wants(call, &s))
			put_store(r, &s, &at->patience_ms);
	}
	return false;
}

static void
json_lock(struct json_writer *w, const struct lock_facts *l, const char *store)
{
	char name[160], holder[80];

	snprintf(name, sizeof(name), "store_slot %s", store);
	snprintf(holder, sizeof(holder), "slot %d, %s",
	    l->writer >= 0 ? l->writer : l->reader,
	    l->writer >= 0 ? "writing" : "reading");
	json_write_open(w, NULL, '{');
	json_write_text(w, "name", slice_of(name));
	json_write_text(w, "holder", slice_of(holder));
	json_write_uint64(w, "readers", l->readers);
	json_write_uint64(w, "writers_waiting", l->waiting);
	json_write_close(w, '}');
}

/* The locks that anybody keeps; in the text they are a word of their store. */
bool
list_locks(struct call *call)
{
	struct json_writer *w = &call->report.w;
	struct cursor *at = &call->cursor;
	struct shm_store_info s;
	struct shm_ref ref;
	uint32_t n;

	if (!call->report.json)
		return true;
	if (!at->begun) {
		at->begun = true;
		at->patience_ms = PATIENCE_MS;
		json_write_open(w, "locks", '[');
	}
	for (n = 0; n < SLOTS_A_STEP && call->body.len < CALL_PIECE_BYTES;
	    n++) {
		struct lock_facts l;

		if (!shm_store_next(&at->index, &ref)) {
			json_write_close(w, ']');
			return true;
		}
		l = facts_kept_lock(ref, &at->patience_ms);
		if (facts_is_locked(&l) && shm_store_peek(ref, &s))
			json_lock(w, &l, s.name);
	}
	return false;
}
