#include "common/base.h"

#include "common/clock.h"
#include "shm/ordinal_table.h"
#include "worker/maintain/askers.h"
#include "worker/maintain/fold_job.h"
#include "worker/maintain/runs.h"
#include "worker/store/assignment.h"
#include "worker/store/kind.h"
#include "worker/store/reload.h"

#define WAITING_MAX	64u
#define AGAIN_NS	(100 * NS_PER_MS)

static struct {
	struct fold_job_plan plan;
	struct shm_command asked[WAITING_MAX];	/* a ring */
	uint32_t first, count;
	struct op op;
	struct timer again;
	bool runs, waits, stopped;

	/* The op's, of the first asker. */
	struct err err;
	struct shm_ref ref;
	bool empty;			/* nothing can be in such a shard there */
} jobs;

/* As the newest assignment says: an answer of who is late to learn of it would
 * be taken for its new owner's. */
static struct err
find_ordinal(const struct uuid *shard, uint32_t *index, struct shm_ordinal *o)
{
	struct err e = assignment_look(jobs.plan.root);

	if (err_is(e))
		return e;
	/* One of ours that never was in the assignment is nobody's. */
	if (err_is(shm_ordinal_find(shard, index)) ||
	    err_is(shm_ordinal_get(*index, o)) || o->version == 0)
		return FAIL(BAD_INPUT, "no ordinal has that shard");
	return OK;
}

/* The slot stays until the run that is asked for next: it is dirty. */
static struct err
open_store(const struct shm_command *c)
{
	const struct kind *kind = c->args[0] < STORE_KIND_COUNT ?
	    kind_get((enum store_kind)c->args[0]) : NULL;
	struct object_dir *dir;
	struct err e;

	if (kind == NULL)
		return FAIL(NOT_FOUND, "no such kind");
	e = reload_open(jobs.plan.root, kind, c->text, &jobs.ref, &dir);
	if (err_is(e))
		return e;
	shm_store_touch(jobs.ref);
	/* It may be new here, and so unknown. */
	e = shm_store_slot(jobs.ref) == NULL ?
	    FAIL(BUSY, "the slot was evicted") :
	    reload_others(dir, kind, jobs.ref);
	object_dir_close(dir);
	jobs.empty = !err_is(e) && shm_store_shard_find(jobs.ref, &c->shard) ==
	    SHM_SHARD_NONE;
	return e;
}

/* The store, unless nothing can be in the shard: that is noted. */
static struct err
prepare(const struct shm_command *c)
{
	uint32_t index;
	struct shm_ordinal o;
	struct err e = find_ordinal(&c->shard, &index, &o);

	if (err_is(e))
		return e;
	/* In every store it was folded empty, and nobody will ever own it again
	 * but a home that comes back. */
	jobs.empty = o.is.state == SHM_ORDINAL_RETIRED;
	if (jobs.empty)
		return OK;
	return shm_ordinal_here(index) ? open_store(c) :
	    FAIL(FENCED, "the ordinal is no worker's of this server");
}

static int32_t
run(struct op *op)
{
	const struct shm_command *c = &jobs.asked[jobs.first];

	(void)op;
	jobs.empty = false;
	jobs.err = clock_mono_ns() < c->args[1] ? prepare(c) :
	    FAIL(TIMED_OUT, "turn of a fold job did not come");
	return 0;
}

static void
go_on(void)
{
	if (jobs.runs || jobs.waits || jobs.count == 0)
		return;
	jobs.runs = true;
	pool_submit_first(jobs.plan.pool, &jobs.op, run);
}

static void
again(struct timer *t)
{
	(void)t;
	jobs.waits = false;
	go_on();
}

static void
hand_on(const struct shm_command *c)
{
	struct shm_command fold = *c;

	fold.kind = SHM_MAIL_FOLD;
	fold.store = jobs.ref;
	fold.args[0] = ASKERS_FOLD_SHARD;
	jobs.plan.fold(&fold);
}

static void
done(struct op *op, int32_t res)
{
	struct shm_command c = jobs.asked[jobs.first];

	(void)op;
	(void)res;
	jobs.runs = false;
	if (jobs.err.kind == ERR_BUSY && !jobs.stopped &&
	    clock_mono_ns() < c.args[1]) {
		jobs.plan.no_room();
		jobs.waits = true;
		timer_set(loop_timers(jobs.plan.loop), &jobs.again,
		    loop_now_ns(jobs.plan.loop) + AGAIN_NS);
		return;
	}
	jobs.first = (jobs.first + 1) % WAITING_MAX;
	jobs.count--;
	if (err_is(jobs.err) || jobs.empty)
		shm_mailbox_reply(&c, jobs.err, 0);
	else
		hand_on(&c);
	go_on();
}

void
fold_job_start(const struct fold_job_plan *plan)
{
	jobs.plan = *plan;
	jobs.op.done = done;
	timer_init(&jobs.again, again);
}

void
fold_job_ask(const struct shm_command *c)
{
	struct shm_command *kept;

	if (jobs.stopped || jobs.count == WAITING_MAX) {
		shm_mailbox_reply(c, jobs.stopped ?
		    FAIL(UNAVAILABLE, "server is draining") :
		    FAIL(BUSY, "too many ask"), 0);
		return;
	}
	kept = &jobs.asked[(jobs.first + jobs.count++) % WAITING_MAX];
	*kept = *c;
	kept->text[SHM_MAIL_TEXT - 1] = '\0';
	go_on();
}

void
fold_job_stop(void)
{
	uint32_t i, kept = jobs.runs ? 1 : 0;

	jobs.stopped = true;
	jobs.waits = false;
	timer_cancel(loop_timers(jobs.plan.loop), &jobs.again);
	for (i = kept; i < jobs.count; i++)
		shm_mailbox_reply(&jobs.asked[(jobs.first + i) % WAITING_MAX],
		    FAIL(UNAVAILABLE, "server is draining"), 0);
	jobs.count = kept;
}

bool
fold_job_idle(void)
{
	return jobs.count == 0;
}
