#include "common/base.h"

#include "common/clock.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "worker/store/pressure.h"

#define ASK_SPAN_NS	NS_PER_SEC

/* Of the generations that a read may open, those from which on nothing is
 * appended: at least one. */
static uint32_t
appends_end(uint32_t reads_end)
{
	return reads_end - reads_end / 8;
}

static bool
stops_reads(const struct config *c, const struct shm_store_info *info)
{
	uint32_t most = CONFIG_NOW(c, rollout_wal_pending_max_generations);

	return most != 0 && info->pending_generations > most;
}

/* What others have left is no reason: it does not go away by what is done here,
 * and what is known of it is only as new as the last read. */
static bool
stops_appends(const struct config *c, const struct shm_store_info *info)
{
	uint32_t most = CONFIG_NOW(c, rollout_wal_pending_max_generations);
	uint64_t limit = CONFIG_NOW(c, backlog_max_bytes);

	return (most != 0 && info->own_generations >= appends_end(most)) ||
	    (limit != 0 && info->own_bytes >= limit);
}

static enum shm_pressure
level_of(const struct config *c, const struct shm_store_info *info)
{
	uint32_t warn = CONFIG_NOW(c, rollout_wal_pending_warn_generations);
	uint64_t limit = CONFIG_NOW(c, backlog_max_bytes);

	if (stops_reads(c, info))
		return SHM_PRESSURE_NO_READS;
	if (stops_appends(c, info))
		return SHM_PRESSURE_NO_APPENDS;
	if ((warn != 0 && info->own_generations_max >= warn) ||
	    (limit != 0 && info->own_bytes >= limit / 2))
		return SHM_PRESSURE_FOLDS_FIRST;
	return SHM_PRESSURE_NONE;
}

static const char *
meaning_of(enum shm_pressure level)
{
	switch (level) {
	case SHM_PRESSURE_NO_READS:
		return "reads are refused until some is folded: check that "
		    "folds succeed, of every instance";
	case SHM_PRESSURE_NO_APPENDS:
		return "appends are refused until some is folded: check that "
		    "seals and folds succeed";
	case SHM_PRESSURE_FOLDS_FIRST:
		return "it is folded before others, reads get slower: check "
		    "that seals and folds succeed";
	default:
		return "it is as it should be again";
	}
}

/* Whoever sees the level change says so: one of all processes. */
static void
note(const struct shm_store_info *info, enum shm_pressure level)
{
	struct shm_slot *slot = shm_store_slot(info->ref);
	uint32_t before;

	if (slot == NULL || info->pressure == level)
		return;
	before = atomic_exchange(&slot->pressure, level);
	if (before != (uint32_t)level)
		log_line(level > before ? LOG_WARN : LOG_INFO, "backlog of a "
		    "store, %s store=%s kind=%s generations=%u bytes=%llu "
		    "unsealed=%llu", meaning_of(level), info->name,
		    store_kind_name(info->kind), info->pending_generations,
		    (unsigned long long)info->pending_bytes,
		    (unsigned long long)info->tail_bytes);
}

enum shm_pressure
pressure_look(const struct config *c, struct shm_ref ref)
{
	struct shm_store_info info;
	enum shm_pressure level;

	if (!shm_store_peek(ref, &info))
		return SHM_PRESSURE_NONE;
	level = level_of(c, &info);
	note(&info, level);
	return level;
}

static bool
look_at_appends(const struct config *c, struct shm_ref ref)
{
	struct shm_store_info info;

	if (!shm_store_peek(ref, &info))
		return false;
	note(&info, level_of(c, &info));
	return stops_appends(c, &info);
}

/* The reply is for nobody: the next look sees what came of it. */
static void
ask_for_tick(const struct store *s)
{
	struct shm_command command = { .kind = SHM_MAIL_FOLD, .store = s->ref,
	    .token = shm_mailbox_token() };
	struct err e = shm_mailbox_send(SHM_MAINTAINER, &command);

	if (err_is(e))
		log_err(LOG_DEBUG, e, "tick of a store with a backlog not "
		    "asked for store=%s", s->name);
}

struct err
pressure_append(struct store *s)
{
	uint64_t now_ns = loop_now_ns(s->engine->loop);

	if (s->pressure_ns == 0 || now_ns - s->pressure_ns > PRESSURE_SPAN_NS) {
		s->appends_stopped = look_at_appends(s->engine->config,
		    s->ref);
		s->pressure_ns = now_ns;
	}
	if (!s->appends_stopped)
		return OK;
	shm_metric_add(METRIC_memwald_appends_refused_total, s->kind->id, 1);
	if (s->tick_asked_ns == 0 || now_ns - s->tick_asked_ns > ASK_SPAN_NS) {
		s->tick_asked_ns = now_ns;
		ask_for_tick(s);
	}
	return FAIL(BACKLOG, "too much of the store waits to be sealed and "
	    "folded, try again");
}

struct err
pressure_read(const struct config *c, struct shm_ref ref)
{
	struct shm_store_info info;

	/* At a pinned version no generation is read. */
	if (!shm_store_peek(ref, &info) || info.pinned_version != 0 ||
	    !stops_reads(c, &info))
		return OK;
	note(&info, SHM_PRESSURE_NO_READS);
	return FAIL(BACKLOG, "too many pending WAL generations, try again when "
	    "some are folded");
}
