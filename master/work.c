#include "common/base.h"

#include <stdio.h>

#include "common/clock.h"
#include "shm/process.h"
#include "master/admin.h"
#include "master/command.h"
#include "master/list.h"
#include "master/work.h"

#define SLOTS_A_STEP 512
#define AGAIN_NS     (200 * NS_PER_MS)

static const struct report_column columns[] = {
	{ "KIND", "kind", -8 },
	{ "STORE", "name", -24 },
	{ "GENERATIONS", "generations", 11 },	/* made, or folded */
	{ "LEFT", "pending_generations", 7 },
	{ "UNSEALED", "tail_bytes", 12 },
	{ "RESULT", "result", -1 },
};

static bool
is_fold(const struct call *call)
{
	return call->command == ADMIN_FOLD;
}

/* What is there to do: generations, and tails that become one. */
static uint32_t
left_of(const struct call *call, const struct shm_store_info *info)
{
	return info->tail_shards +
	    (is_fold(call) ? info->pending_generations : 0);
}

static void
ask(struct call *call, struct work_item *item)
{
	struct shm_command m = {
		.kind = is_fold(call) ? SHM_MAIL_FOLD : SHM_MAIL_SEAL,
		.store = item->ref,
		/* Forced; waits for the guard until the call ends. */
		.args = { 1, clock_mono_ns() + call->deadline_ns -
		    MIN(call->now_ns, call->deadline_ns) },
	};

	mail_ask(&item->question, &m);
}

static void
open_store(struct work_item *item)
{
	struct shm_command m = { .kind = SHM_MAIL_OPEN,
	    .args = { item->kind } };

	snprintf(m.text, sizeof(m.text), "%s", item->name);
	mail_ask(&item->question, &m);
}

/* Not before there is something to say: a name that nobody bears has no body. */
static void
open_body(struct call *call)
{
	if (call->work.written)
		return;
	report_open(&call->report);
	report_list(&call->report, "stores", columns, ARRAY_LEN(columns));
	call->work.written = true;
}

static void
close_body(struct call *call)
{
	open_body(call);
	report_list_end(&call->report);
	report_close(&call->report);
}

/* No slot is free, or the maintainer has too much to do, or is being replaced. */
static bool
is_busy(const struct work_item *item)
{
	return item->question.err.kind == ERR_BUSY;
}

/* The maintainer died before it said whether there is such a store. */
static bool
is_unsaid(const struct work_item *item)
{
	return item->question.err.kind == ERR_UNAVAILABLE &&
	    !shm_life_goes_on(item->question.life);
}

static void
ask_again(const struct call *call, struct work_item *item)
{
	item->again_ns = call->now_ns + AGAIN_NS;
}

/* The line of a store that is done with. */
static void
end_item(struct call *call, struct work_item *item, const char *result)
{
	struct report *r = &call->report;
	struct shm_store_info info = { 0 };
	bool there = shm_store_peek(item->ref, &info);

	open_body(call);
	report_row(r);
	report_text(r, "%s", store_kind_name(item->kind));
	report_text(r, "%s", item->name);
	report_uint(r, item->count);
	report_uint(r, there ? info.pending_generations : 0);
	report_uint(r, there ? info.tail_bytes : 0);
	report_text(r, "%s", result);
	report_row_end(r);
	call->work.done++;
	call->work.failed += strcmp(result, "done") != 0;
	mail_drop(&item->question);
	item->used = false;
}

/* The maintainer has opened it, or there is none of this kind. */
static void
opened(struct call *call, struct work_item *item)
{
	struct shm_store_info info;

	if (is_busy(item) || is_unsaid(item)) {
		ask_again(call, item);
		return;
	}
	if (item->question.err.kind == ERR_NOT_FOUND) {
		item->used = false;
		return;
	}
	call->work.found++;
	if (err_is(item->question.err)) {
		end_item(call, item, item->question.err.what);
		return;
	}
	item->ref = item->question.reply.store;
	if (shm_store_peek(item->ref, &info))
		item->before = item->left = left_of(call, &info);
	ask(call, item);
}

/* A run came to an end. */
static void
ran(struct call *call, struct work_item *item)
{
	struct err e = item->question.err;
	struct shm_store_info info;
	uint32_t left;

	if (is_busy(item)) {
		ask_again(call, item);
		return;
	}
	if (!err_is(e))
		item->count += item->question.reply.args[0];
	if (!shm_store_peek(item->ref, &info)) {
		end_item(call, item, "gone: deleted, or given up for others");
		return;
	}
	left = left_of(call, &info);
	if (is_fold(call) && left > 0 && left < item->left &&
	    (!err_is(e) || e.kind == ERR_TIMED_OUT)) {
		item->left = left;
		ask(call, item);
		return;
	}
	end_item(call, item, err_is(e) ? e.what : "done");
}

static struct work_item *
free_item(struct work *w)
{
	uint32_t i;

	for (i = 0; i < WORK_AT_ONCE; i++) {
		if (!w->items[i].used)
			return &w->items[i];
	}
	return NULL;
}

/* One of each kind that was asked for. */
static void
begin_named(struct call *call)
{
	const char *kind = call->values[ADMIN_OPTION_KIND];
	struct work *w = &call->work;

	for (; w->index < STORE_KIND_COUNT; w->index++) {
		struct work_item *item = free_item(w);

		if (kind != NULL &&
		    strcmp(kind, store_kind_name(w->index)) != 0)
			continue;
		*item = (struct work_item){ .used = true,
		    .kind = (enum store_kind)w->index };
		snprintf(item->name, sizeof(item->name), "%s",
		    call->operands[0]);
		open_store(item);
	}
	w->listed = true;
}

static bool
is_due(const struct call *call, const struct shm_store_info *info)
{
	return list_wants(call, info) && left_of(call, info) > 0 &&
	    (info->flags & SHM_FLAG_DELETED) == 0 && info->pinned_version == 0;
}

/* With --all: the next ones that have anything left, as far as there is room. */
static void
begin_some(struct call *call)
{
	struct work *w = &call->work;
	struct shm_store_info info;
	struct work_item *item;
	struct shm_ref ref;
	uint32_t n;

	for (n = 0; n < SLOTS_A_STEP && (item = free_item(w)) != NULL; n++) {
		if (!shm_store_next(&w->index, &ref)) {
			w->listed = true;
			return;
		}
		if (!shm_store_peek(ref, &info) || !is_due(call, &info))
			continue;
		w->found++;
		*item = (struct work_item){ .used = true, .ref = ref,
		    .kind = info.kind, .before = left_of(call, &info) };
		item->left = item->before;
		snprintf(item->name, sizeof(item->name), "%s", info.name);
		ask(call, item);
	}
}

/* How many stores --all will find, for the progress. */
static bool
count_all(struct call *call)
{
	struct work *w = &call->work;
	struct shm_store_info info;
	struct shm_ref ref;
	uint32_t n;

	for (n = 0; n < SLOTS_A_STEP; n++) {
		if (!shm_store_next(&w->index, &ref)) {
			w->index = 0;
			return true;
		}
		if (shm_store_peek(ref, &info))
			w->total += is_due(call, &info);
	}
	return false;
}

/* Of stores with --all, of generations otherwise. */
static void
tell_progress(struct call *call)
{
	uint64_t before = 0, left = 0;
	struct work *w = &call->work;
	const char *phase = "";
	struct shm_store_info info;
	uint32_t i;

	if (call->given[ADMIN_OPTION_ALL]) {
		call_progress(call, w->done, MAX(w->total, w->found),
		    "stores");
		return;
	}
	for (i = 0; i < WORK_AT_ONCE; i++) {
		const struct work_item *item = &w->items[i];

		if (!item->used || !shm_store_peek(item->ref, &info))
			continue;
		before += item->before;
		left += MIN(left_of(call, &info), item->before);
		if (info.guarded)
			phase = tick_phase_name(info.guard_phase);
	}
	if (before > 0)
		call_progress(call, before - left, before, "%s%s%s",
		    is_fold(call) ? "generations" : "tails",
		    *phase != '\0' ? ", in " : "", phase);
}

static void
work_on_item(struct call *call, struct work_item *item)
{
	bool is_open = item->ref.incarnation != 0;

	if (item->again_ns != 0) {
		if (call->now_ns < item->again_ns)
			return;
		item->again_ns = 0;
		if (is_open)
			ask(call, item);
		else
			open_store(item);
	} else if (mail_answered(&item->question)) {
		if (is_open)
			ran(call, item);
		else
			opened(call, item);
	}
}

static bool
work_on(struct call *call)
{
	struct work *w = &call->work;
	bool busy = false;
	uint32_t i;

	for (i = 0; i < WORK_AT_ONCE; i++) {
		if (w->items[i].used)
			work_on_item(call, &w->items[i]);
		busy = busy || w->items[i].used;
	}
	return busy;
}

static enum call_step
finish(struct call *call)
{
	struct work *w = &call->work;

	if (w->found == 0 && !call->given[ADMIN_OPTION_ALL])
		return call_refuse(call, "no store %s", call->operands[0]);
	close_body(call);
	if (w->failed > 0)
		return call_refuse(call, "%u of %u stores failed", w->failed,
		    w->done);
	return CALL_DONE;
}

/* The deadline passed: what was asked for goes on without us. Of a store that
 * nobody has found there is nothing to say. */
static void
give_up(struct call *call)
{
	uint32_t i;

	for (i = 0; i < WORK_AT_ONCE; i++) {
		struct work_item *item = &call->work.items[i];

		if (item->used && item->ref.incarnation != 0)
			end_item(call, item, "not done yet");
	}
	close_body(call);
}

static enum call_step
begin(struct call *call)
{
	bool all = call->given[ADMIN_OPTION_ALL];

	if (all == (call->operand_count > 0))
		return call_refuse(call, "%s: name a store, or say --all",
		    is_fold(call) ? "fold" : "seal");
	if (!all && strlen(call->operands[0]) > SHM_STORE_NAME_MAX)
		return call_refuse(call, "no store has so long a name");
	if (all && !count_all(call))
		return CALL_MORE;
	call->work.begun = true;
	return CALL_MORE;
}

static enum call_step
step(struct call *call)
{
	struct work *w = &call->work;
	bool busy;

	if (!w->begun)
		return begin(call);
	if (call_late(call)) {
		give_up(call);
		return CALL_DONE;
	}
	if (!w->listed && call->given[ADMIN_OPTION_ALL])
		begin_some(call);
	else if (!w->listed)
		begin_named(call);
	busy = work_on(call);
	tell_progress(call);
	if (!busy && w->listed)
		return finish(call);
	return busy ? CALL_WAIT : CALL_MORE;
}

enum call_step
command_seal(struct call *call)
{
	return step(call);
}

enum call_step
command_fold(struct call *call)
{
	return step(call);
}

void
work_end(struct call *call)
{
	uint32_t i;

	for (i = 0; i < WORK_AT_ONCE; i++)
		mail_drop(&call->work.items[i].question);
}
