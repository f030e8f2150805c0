#include "common/base.h"

#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "worker/store/assignment.h"
#include "worker/store/claim.h"

#define CLAIM_BYTES_MAX	(64u << 20)

/* Step 1's edit: nobody else holds this epoch when the put succeeds. */
static struct err
raise_epoch(struct shard_manifest *m, struct arena *arena, bool *stands,
    void *ctx)
{
	(void)arena;
	(void)ctx;
	*stands = false;
	m->epoch++;
	return OK;
}

/* Step 4: the end of the last data entry below our sentinel, unless that was
 * put whole and records it itself, and of the last one that holds a batch. If there is one behind it, of who claimed after us,
 * then the position of our own is taken, and step 5 fails. */
static struct err
read_tail(struct object_dir *dir, const struct uuid *shard,
    uint64_t replay_after, struct arena *arena, struct wal_end *closes,
    struct claim *c)
{
	struct wal_found_end found;
	struct wal_list list;
	bool newest = true;
	struct err e;
	uint32_t i;

	*closes = c->tail = (struct wal_end){ 0, 0 };
	c->sequence = 0;
	e = wal_list_read(dir, shard, replay_after, arena, &list);
	if (err_is(e))
		return e;
	for (i = list.count; i-- > 0;) {
		const struct wal_span *s = &list.spans[i];

		if (s->sentinel)
			continue;
		e = wal_find_end(dir, shard, s, &found);
		if (err_is(e))
			return e;
		if (found.torn) {
			shm_metric_add(METRIC_memwald_wal_torn_batches_total,
			    0, 1);
			log_warn("stepped over a torn commit, which was never "
			    "acknowledged position=%llu end=%llu",
			    (unsigned long long)s->position,
			    (unsigned long long)found.end);
		}
		if (newest)
			*closes = s->whole ? (struct wal_end){ 0, 0 } :
			    (struct wal_end){ s->position, found.end };
		newest = false;
		if (c->tail.position == 0)
			c->tail = wal_span_end(s, &found);
		c->sequence = MAX(c->sequence, found.sequence);
		/* Sequences rise within a shard: the newest tells. */
		if (found.sequence != 0 && c->tail.position != 0)
			break;
	}
	return OK;
}

/* Room for the first data entry, before the sentinel takes any: a full disk
 * that had room for the small one alone would leave a claim half done, and
 * other instances waiting for its end. */
static struct err
make_entry(struct object_dir *dir, const struct uuid *shard,
    struct object_entry *made)
{
	char folder[WAL_PATH_MAX];
	struct err e;

	if (!object_can_append(dir))
		return OK;
	wal_folder(shard, folder);
	e = object_entry_create(dir, folder, WAL_ENTRY_MIN, made);
	/* A nearly full disk may still have room for a few commits. */
	if (e.kind == ERR_FULL)
		e = object_entry_create(dir, folder, WAL_HEAD_PEEK, made);
	if (err_is(e))
		made->fd = -1;
	return e;
}

struct err
claim_shard(struct object_dir *dir, const struct uuid *shard,
    const struct arrow_schema *schema, struct claim *out)
{
	struct shard_manifest mine, now;
	struct wal_start start = { .size_bytes = WAL_ENTRY_MIN };
	struct object_entry made = { .fd = -1 };
	struct arena arena;
	uint64_t sentinel;
	struct claim c;
	struct err e;

	arena_init(&arena, CLAIM_BYTES_MAX);
	e = make_entry(dir, shard, &made);
	if (!err_is(e))
		e = FAULT(claim_epoch);
	if (!err_is(e))
		e = shard_manifest_change(dir, shard, raise_epoch, NULL,
		    &arena, &mine);
	if (!err_is(e))
		e = FAULT(claim_sentinel);
	if (err_is(e))
		goto out;
	sentinel = mine.replay_after + 1;
	e = wal_put_sentinel(dir, shard, mine.epoch, &sentinel);
	if (!err_is(e))
		e = shard_manifest_load(dir, shard, &arena, &now);
	if (err_is(e))
		goto out;
	if (now.epoch != mine.epoch || now.replay_after >= sentinel) {
		e = FAIL(FENCED, "shard was claimed by another");
		goto out;
	}
	e = read_tail(dir, shard, now.replay_after, &arena, &start.closes,
	    &c);
	if (!err_is(e))
		e = FAULT(claim_entry);
	if (err_is(e))
		goto out;
	start.position = sentinel + 1;
	start.epoch = mine.epoch;
	start.prepared = made.fd < 0 ? NULL : &made;
	e = wal_entry_start(dir, shard, schema, &start, &c.entry);
	made.fd = -1;
	if (err_is(e))
		goto out;
	c.manifest = now;
	c.manifest.generations = NULL;	/* they lie in our arena */
	*out = c;
out:
	if (made.fd >= 0)
		object_entry_abandon(dir, &made);
	if (err_is(e)) {
		log_err(LOG_DEBUG, e, "claim failed");
		if (e.kind == ERR_CORRUPT || e.kind == ERR_UNSUPPORTED)
			e.what = "claim a shard";
	}
	arena_free(&arena);
	return e;
}

struct err
claim_ordinal(struct claim_right *r, struct object_dir *dir,
    const struct uuid *shard, const struct arrow_schema *schema,
    struct claim *out)
{
	uint32_t now;
	struct err e = assignment_check(r->root, r->ordinal, r->owner,
	    &r->moves);

	if (!err_is(e))
		e = claim_shard(dir, shard, schema, out);
	if (err_is(e))
		return e;
	/* Of a stay that ended meanwhile and began anew the claim is not: that
	 * is seen by r->moves, by whoever goes by it. */
	e = assignment_check(r->root, r->ordinal, r->owner, &now);
	if (err_is(e))
		wal_writer_close(&out->entry);
	return e;
}
