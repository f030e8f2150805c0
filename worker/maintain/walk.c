#include "common/base.h"

#include "common/clock.h"
#include "common/log.h"
#include "shm/server_state.h"
#include "worker/maintain/collect.h"
#include "worker/maintain/explain.h"
#include "worker/maintain/temporary.h"
#include "worker/maintain/walk.h"
#include "worker/store/registry.h"
#include "worker/store/reload.h"

#define STORES_A_JOB	32u
#define AGAIN_NS	(200 * NS_PER_MS)
#define NAMES_BYTES_MAX	(64u << 20)

static struct {
	struct walk_plan plan;
	struct op op;
	struct timer again;
	bool runs, stopped;

	/* The job's while it runs. */
	uint32_t kind;			/* enum store_kind */
	bool listed;			/* names are those of kind */
	struct arena arena;
	const char **names;
	uint32_t count, at;
	struct shm_ref refs[STORES_A_JOB];
	bool only_garbage[STORES_A_JOB];
	uint32_t ref_count;
	uint32_t seen;
	bool ended;
	bool full;			/* no slot for the next one */
} walk;

/* False: there is no slot for it. */
static bool
look_at(const struct kind *kind, const char *name)
{
	struct shm_store_info info;
	struct object_dir *dir;
	struct shm_ref ref;
	bool garbage, left;
	struct err e;

	e = reload_open(walk.plan.root, kind, name, &ref, &dir);
	if (e.kind == ERR_BUSY)
		return false;
	if (err_is(e)) {
		log_err(LOG_WARN, e, "store not loaded, it is served and aged "
		    "once that works store=%s kind=%s", name, kind->name);
		return true;
	}
	temporary_clean_store(dir);
	garbage = collect_look(dir, ref);
	object_dir_close(dir);
	walk.seen++;
	explain_store(walk.plan.root, ref);
	if (!shm_store_peek(ref, &info))
		return true;
	left = info.tail_shards > 0 || info.pending_generations > 0;
	if (!left && !garbage)
		return true;
	walk.only_garbage[walk.ref_count] = !left;
	walk.refs[walk.ref_count++] = ref;
	return true;
}

/* Names of the next kind that this version serves; false: no more kinds. */
static bool
list_names(void)
{
	const struct kind *kind;
	struct err e;

	if (walk.listed && walk.at < walk.count)
		return true;
	if (walk.listed)
		walk.kind++;
	for (; walk.kind < STORE_KIND_COUNT; walk.kind++) {
		kind = kind_get((enum store_kind)walk.kind);
		if (kind == NULL)
			continue;
		arena_reset(&walk.arena);
		walk.listed = true;
		walk.at = 0;
		e = registry_names(walk.plan.root, kind, &walk.arena, &walk.names,
		    &walk.count);
		if (!err_is(e) && walk.count > 0)
			return true;
		if (err_is(e))
			log_err(LOG_WARN, e, "registry not listed, stores are "
			    "aged when they are used kind=%s", kind->name);
	}
	return false;
}

static int32_t
run(struct op *op)
{
	uint32_t i;

	(void)op;
	walk.ref_count = 0;
	if (!walk.listed)
		temporary_clean_root(walk.plan.root);
	walk.ended = !list_names();
	walk.full = false;
	for (i = 0; !walk.ended && i < STORES_A_JOB && walk.at < walk.count;
	    i++) {
		walk.full = !look_at(kind_get((enum store_kind)walk.kind),
		    walk.names[walk.at]);
		if (walk.full)
			break;
		walk.at++;
	}
	return 0;
}

static void
start(void)
{
	walk.runs = true;
	pool_submit_first(walk.plan.pool, &walk.op, run);
}

static void
again(struct timer *t)
{
	(void)t;
	if (!walk.stopped)
		start();
}

static void
done(struct op *op, int32_t res)
{
	uint32_t i;

	(void)op;
	(void)res;
	walk.runs = false;
	for (i = 0; i < walk.ref_count && !walk.stopped; i++)
		(walk.only_garbage[i] ? walk.plan.garbage :
		    walk.plan.found)(walk.refs[i]);
	/* Where there are more stores than slots the others wait for theirs. */
	if (walk.ended || walk.full)
		shm_server_clear(SHM_SERVER_STARTING);
	if (walk.ended)
		log_info("registry walked stores=%u", walk.seen);
	if (walk.ended || walk.stopped) {
		arena_free(&walk.arena);
		return;
	}
	if (!walk.full) {
		start();
		return;
	}
	walk.plan.no_room();
	timer_init(&walk.again, again);
	timer_set(loop_timers(walk.plan.loop), &walk.again,
	    loop_now_ns(walk.plan.loop) + AGAIN_NS);
}

void
walk_start(const struct walk_plan *plan)
{
	walk.plan = *plan;
	walk.op.done = done;
	arena_init(&walk.arena, NAMES_BYTES_MAX);
	start();
}

void
walk_stop(void)
{
	walk.stopped = true;
}

bool
walk_idle(void)
{
	return !walk.runs;
}
