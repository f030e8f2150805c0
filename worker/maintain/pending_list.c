#include "common/base.h"

#include <stdio.h>

#include "common/fault.h"
#include "common/log.h"
#include "shm/home.h"
#include "shm/segment.h"
#include "worker/lance/shard_manifest.h"
#include "worker/maintain/pending_list.h"
#include "worker/store/registry.h"
#include "worker/store/wal.h"

#define STORES_A_JOB	32u
#define NAMES_BYTES_MAX	(64u << 20)
#define STORE_BYTES_MAX	(64u << 20)
#define ORDINALS_MAX	SHM_ORDINALS_DEFAULT

static struct {
	struct pool *pool;
	struct object_dir *root;
	struct op op;
	bool runs;
	struct shm_command asked;

	/* The job's while it runs; names are kept between two. */
	struct shm_command reply;
	struct err err;
	struct arena arena;
	uint32_t kind;			/* whose names those are */
	bool listed;
	const char **names;
	uint32_t count;
} pending;

/* On the pool. */

struct err
pending_list_shard(struct object_dir *dir, const struct uuid *shard,
    struct arena *a, bool *left)
{
	struct wal_found_end found;
	struct shard_manifest m;
	struct wal_list list;
	struct err e = shard_manifest_load(dir, shard, a, &m);
	uint32_t i;

	*left = false;
	if (e.kind == ERR_NOT_FOUND)
		return OK;		/* its first claim did not end */
	if (err_is(e) || m.generation_count > 0) {
		*left = !err_is(e);
		return e;
	}
	e = wal_list_read(dir, shard, m.replay_after, a, &list);
	/* Sentinels and entries without a batch are left by claims. */
	for (i = 0; !err_is(e) && i < list.count && !*left; i++) {
		if (list.spans[i].sentinel)
			continue;
		e = wal_find_end(dir, shard, &list.spans[i], &found);
		*left = !err_is(e) && found.any;
	}
	return e;
}

struct shards {
	bool there[ORDINALS_MAX];	/* by ordinal */
	struct uuid shard[ORDINALS_MAX];
};

/* Those whose folds are ours to order. */
static bool
take_shard(const struct object_info *info, void *ctx)
{
	struct shards *s = ctx;
	struct shm_ordinal o;
	struct uuid shard;
	uint32_t i;

	if (info->is_dir && uuid_from_text(info->name, &shard) &&
	    !err_is(shm_ordinal_find(&shard, &i)) && i < ORDINALS_MAX &&
	    !err_is(shm_ordinal_get(i, &o)) &&
	    shm_home_errand(&o) != SHM_ERRAND_NONE) {
		s->there[i] = true;
		s->shard[i] = shard;
	}
	return true;
}

/* The first of a store's shards from an ordinal on that has anything left. */
static bool
look_in(struct object_dir *dir, const char *name, uint32_t from,
    struct arena *a, uint32_t *ordinal)
{
	struct shards *s = arena_calloc(a, 1, sizeof(*s));
	struct err e = s == NULL ? FAIL(NO_MEMORY, "shards of a store") :
	    object_list_names(dir, "_mem_wal", take_shard, s);
	bool left = false;
	uint32_t i;

	if (err_is(e)) {
		if (e.kind != ERR_NOT_FOUND)
			log_err(LOG_WARN, e, "store passed over, nobody folds "
			    "what others left in it store=%s", name);
		return false;
	}
	for (i = from; i < ORDINALS_MAX && !left; i++) {
		if (!s->there[i])
			continue;
		e = pending_list_shard(dir, &s->shard[i], a, &left);
		left = left || err_is(e);
		*ordinal = i;
	}
	return left;
}

static bool
look_at(const struct kind *kind, const char *name, uint32_t from,
    uint32_t *ordinal)
{
	char directory[REGISTRY_DIRECTORY_MAX];
	struct object_dir *dir;
	struct arena a;
	bool left;

	registry_directory(kind, name, directory);
	/* Deleted meanwhile, or it cannot be served either. */
	if (err_is(object_dir_open(pending.root, directory, false, &dir)))
		return false;
	arena_init(&a, STORE_BYTES_MAX);
	left = look_in(dir, name, from, &a, ordinal);
	arena_free(&a);
	object_dir_close(dir);
	return left;
}

static struct err
list_names(uint32_t kind, bool anew)
{
	struct err e;

	if (pending.listed && pending.kind == kind && !anew)
		return OK;
	pending.listed = false;
	arena_reset(&pending.arena);
	e = registry_names(pending.root, kind_get((enum store_kind)kind),
	    &pending.arena, &pending.names, &pending.count);
	pending.listed = !err_is(e);
	pending.kind = kind;
	return e;
}

/* The first name that is not before it: names lie bytewise. */
static uint32_t
find_name(const char *name)
{
	uint32_t low = 0, high = pending.count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (strcmp(pending.names[middle], name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
set_place(uint32_t kind, const char *name, uint64_t ordinal)
{
	struct shm_command *r = &pending.reply;

	r->args[1] = kind;
	r->args[2] = ordinal;
	snprintf(r->text, sizeof(r->text), "%s", name);
}

/* On through the stores of a kind, a few; true: there are no more. */
static bool
look_on(uint32_t kind, const char *name, uint64_t from, uint32_t *looked)
{
	const struct kind *k = kind_get((enum store_kind)kind);
	uint32_t i, ordinal = 0;

	for (i = find_name(name); i < pending.count; i++) {
		bool same = strcmp(pending.names[i], name) == 0;

		if (*looked == STORES_A_JOB)
			return false;
		(*looked)++;
		if (look_at(k, pending.names[i], same ? (uint32_t)from : 0,
		    &ordinal)) {
			set_place(kind, pending.names[i], ordinal);
			pending.reply.args[0] = SHM_PENDING_ONE;
			return false;
		}
		/* Behind it, whatever its ordinals. */
		set_place(kind, pending.names[i], ORDINALS_MAX);
	}
	return true;
}

static int32_t
run(struct op *op)
{
	const struct shm_command *c = &pending.asked;
	uint32_t kind, looked = 0;
	bool first = true;

	(void)op;
	pending.reply = *c;
	pending.reply.args[0] = SHM_PENDING_MORE;
	pending.err = FAULT(pending_look);
	if (err_is(pending.err))
		return 0;
	for (kind = (uint32_t)c->args[1]; kind < STORE_KIND_COUNT; kind++) {
		const char *name = first ? c->text : "";

		if (kind_get((enum store_kind)kind) != NULL) {
			pending.err = list_names(kind, *name == '\0');
			if (err_is(pending.err) || !look_on(kind, name,
			    first ? c->args[2] : 0, &looked))
				return 0;
		}
		first = false;
	}
	pending.reply.args[0] = SHM_PENDING_END;
	pending.listed = false;
	arena_reset(&pending.arena);
	return 0;
}

/* On the loop. */

static void
done(struct op *op, int32_t res)
{
	(void)op;
	(void)res;
	pending.runs = false;
	shm_mailbox_reply_with(&pending.asked, pending.err, &pending.reply);
}

bool
pending_list_command(const struct shm_command *c)
{
	if (c->kind != SHM_MAIL_JOB || c->args[0] != SHM_JOB_PENDING)
		return false;
	if (pending.runs) {
		shm_mailbox_reply(c, FAIL(BUSY, "a list is being made"), 0);
		return true;
	}
	pending.asked = *c;
	pending.asked.text[SHM_MAIL_TEXT - 1] = '\0';
	pending.runs = true;
	pool_submit_first(pending.pool, &pending.op, run);
	return true;
}

void
pending_list_start(struct pool *pool, struct object_dir *root)
{
	pending.pool = pool;
	pending.root = root;
	pending.op.done = done;
	arena_init(&pending.arena, NAMES_BYTES_MAX);
}

bool
pending_list_idle(void)
{
	return !pending.runs;
}
