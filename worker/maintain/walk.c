#include "common/base.h"

#include "common/log.h"
#include "worker/maintain/walk.h"
#include "worker/store/registry.h"
#include "worker/store/reload.h"

#define STORES_A_JOB	32u
#define NAMES_BYTES_MAX	(64u << 20)

static struct {
	struct pool *pool;
	struct object_dir *root;
	void (*found)(struct shm_ref);
	struct op op;
	bool runs, stopped;

	/* The job's while it runs. */
	uint32_t kind;			/* enum store_kind */
	bool listed;			/* names are those of kind */
	struct arena arena;
	const char **names;
	uint32_t count, at;
	struct shm_ref refs[STORES_A_JOB];
	uint32_t ref_count;
	uint32_t seen;
	bool ended;
} walk;

static void
look_at(const struct kind *kind, const char *name)
{
	struct shm_store_info info;
	struct object_dir *dir;
	struct shm_ref ref;
	struct err e;

	e = reload_open(walk.root, kind, name, &ref, &dir);
	if (err_is(e)) {
		log_err(LOG_WARN, e, "store not loaded, it is served and aged "
		    "once that works store=%s kind=%s", name, kind->name);
		return;
	}
	object_dir_close(dir);
	walk.seen++;
	if (shm_store_peek(ref, &info) &&
	    (info.tail_shards > 0 || info.pending_generations > 0))
		walk.refs[walk.ref_count++] = ref;
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
		e = registry_names(walk.root, kind, &walk.arena, &walk.names,
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
	walk.ended = !list_names();
	for (i = 0; !walk.ended && i < STORES_A_JOB && walk.at < walk.count;
	    i++)
		look_at(kind_get((enum store_kind)walk.kind),
		    walk.names[walk.at++]);
	return 0;
}

static void
done(struct op *op, int32_t res)
{
	uint32_t i;

	(void)op;
	(void)res;
	walk.runs = false;
	for (i = 0; i < walk.ref_count && !walk.stopped; i++)
		walk.found(walk.refs[i]);
	if (walk.ended)
		log_info("registry walked stores=%u", walk.seen);
	if (walk.ended || walk.stopped) {
		arena_free(&walk.arena);
		return;
	}
	walk.runs = true;
	pool_submit_first(walk.pool, &walk.op, run);
}

void
walk_start(struct pool *pool, struct object_dir *root,
    void (*found)(struct shm_ref))
{
	walk.pool = pool;
	walk.root = root;
	walk.found = found;
	walk.op.done = done;
	arena_init(&walk.arena, NAMES_BYTES_MAX);
	walk.runs = true;
	pool_submit_first(pool, &walk.op, run);
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
