#include "common/base.h"

#include <stdlib.h>

#include "common/log.h"
#include "shm/metric.h"
#include "shm/ordinal_table.h"
#include "shm/process.h"
#include "shm/sequence.h"
#include "shm/view.h"
#include "worker/store/claim.h"
#include "worker/store/guest.h"
#include "worker/store/reload.h"

#define ASKERS_MAX 8u

struct guest {
	struct list link;		/* engine's guests */
	struct store *store;
	uint32_t ordinal, number;
	struct uuid shard;
	uint32_t asker_count;
	struct shm_command askers[ASKERS_MAX];

	/* The job's. */
	struct op op;
	uint32_t moves;			/* of the ordinal, before it */
	bool claimed;
	struct claim claim;
	struct err err;
};

static struct guest *
find(const struct store *s, const struct uuid *shard)
{
	const struct list *l;

	LIST_FOREACH(l, &s->engine->guests) {
		struct guest *g = CONTAINER_OF(l, struct guest, link);

		if (g->store == s && uuid_eq(&g->shard, shard))
			return g;
	}
	return NULL;
}

/* What the claim found, and by whose right: as a writer's claim_done. */
static void
publish(struct guest *g)
{
	const struct shard_manifest *m = &g->claim.manifest;
	struct shm_shard_state *state =
	    shm_store_shard(g->store->ref, g->number);
	struct shm_view_mark mark = { .shard = g->number,
	    .marks = shm_shard_marks(state) };
	struct err e;

	mark.marks.version = m->version;
	mark.marks.epoch = m->epoch;
	mark.marks.replay_after = m->replay_after;
	mark.marks.pending_generations = m->generation_count;
	/* The handle holds a pin: the slot is there. */
	e = shm_view_raise(g->store->ref, 0, &mark, 1, NULL);
	MUST(!err_is(e));
	/* Another host's clock is believed within bounds (reload.c). */
	if (shm_sequence_plausible(g->claim.sequence))
		shm_sequence_raise(g->claim.sequence);
	shm_shard_claim(state, g->ordinal, m->epoch, (struct shm_point){
	    g->claim.tail.position, g->claim.tail.end });
	shm_store_touch(g->store->ref);
	/* It moved on meanwhile; whoever has it now fences what we claimed. */
	if (shm_ordinal_moves(g->ordinal) != g->moves)
		shm_shard_unclaim(state);
}

static void
done(struct op *op, int32_t res)
{
	struct guest *g = CONTAINER_OF(op, struct guest, op);
	uint32_t i;

	(void)res;
	if (g->claimed)
		publish(g);
	if (g->claimed || err_is(g->err))
		shm_metric_add(METRIC_memwald_wal_claims_total,
		    err_is(g->err) ? METRIC_SUCCESS_FAILED :
		    METRIC_SUCCESS_SUCCESS, 1);
	if (err_is(g->err))
		log_err(LOG_WARN, g->err, "shard of another ordinal not "
		    "claimed, its next tick tries again store=%s ordinal=%.*s",
		    g->store->name, (int)shm_ordinal_name(g->ordinal).len,
		    shm_ordinal_name(g->ordinal).ptr);
	for (i = 0; i < g->asker_count; i++)
		shm_mailbox_reply(&g->askers[i], g->err, 0);
	list_remove(&g->link);
	store_close(g->store);
	free(g);
}

static struct err
claim(struct guest *g)
{
	struct store *s = g->store;
	struct claim_right right = { .root = s->engine->root,
	    .ordinal = g->ordinal,
	    .owner = (uint16_t)SHM_WORKER(s->engine->ordinal) };
	uint64_t version;
	struct err e = shard_manifest_newest(s->dir, &g->shard, &version);

	if (e.kind == ERR_NOT_FOUND)
		return OK;		/* never written to */
	if (!err_is(e))
		e = claim_ordinal(&right, s->dir, &g->shard,
		    &s->shape->schema, &g->claim);
	g->moves = right.moves;
	if (err_is(e))
		return e;
	wal_writer_close(&g->claim.entry);
	g->claimed = true;
	/* Before the manifest is published: what a fold drained from it is in no
	 * older base. */
	e = reload_base(s->dir, s->ref);
	g->claimed = !err_is(e);
	return e;
}

static int32_t
run(struct op *op)
{
	struct guest *g = CONTAINER_OF(op, struct guest, op);

	g->err = claim(g);
	return 0;
}

static struct err
start(struct store *s, const struct shm_command *c)
{
	struct guest *g = calloc(1, sizeof(*g));
	struct err e;

	if (g == NULL)
		return FAIL(NO_MEMORY, "claim a shard");
	g->store = s;
	g->shard = c->shard;
	g->op.done = done;
	e = shm_ordinal_find(&c->shard, &g->ordinal);
	if (!err_is(e))
		e = shm_store_shard_add(s->ref, &c->shard, &g->number);
	if (err_is(e)) {
		free(g);
		return e;
	}
	g->askers[g->asker_count++] = *c;
	list_append(&s->engine->guests, &g->link);
	store_hold(s);
	/* Bounded: one a shard, and few shards are aged at once. */
	pool_submit_first(s->engine->pool, &g->op, run);
	return OK;
}

static bool
is_claimed(const struct store *s, const struct uuid *shard)
{
	uint32_t number = shm_store_shard_find(s->ref, shard);
	struct shm_claim c;

	if (number == SHM_SHARD_NONE)
		return false;
	c = shm_shard_claimed(shm_store_shard(s->ref, number));
	return c.live && c.own && c.newest;
}

void
guest_rotate(struct store *s, const struct shm_command *c)
{
	struct guest *g = find(s, &c->shard);
	struct err e = OK;

	if (g != NULL && g->asker_count < ASKERS_MAX) {
		g->askers[g->asker_count++] = *c;
		return;
	}
	if (g != NULL)
		e = FAIL(BUSY, "too many claims of one shard");
	else if (!is_claimed(s, &c->shard))
		e = start(s, c);
	else
		shm_mailbox_reply(c, OK, 0);
	if (err_is(e))
		shm_mailbox_reply(c, e, 0);
}

bool
guest_busy(const struct engine *en)
{
	return !list_empty(&en->guests);
}
