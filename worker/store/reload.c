#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/instance.h"
#include "shm/ordinal_table.h"
#include "shm/sequence.h"
#include "shm/view.h"
#include "worker/lance/shard_manifest.h"
#include "worker/lance/table.h"
#include "worker/object/retry.h"
#include "worker/store/pin.h"
#include "worker/store/registry.h"
#include "worker/store/reload.h"
#include "worker/store/wal.h"

#define RELOAD_BYTES_MAX (256u << 20)
#define RELOAD_TRIES	8
#define SHARDS_MAX	65536u

#define LIST_TRIES	16	/* of entries that rotate meanwhile */
/* A claim is two puts and a sync. */
#define CLAIM_SPAN_NS	NS_PER_SEC

struct loading {
	struct object_dir *dir;
	const struct kind *kind;
	struct shm_ref ref;
	struct arena arena;
	uint32_t shard_count, shard_room;
	struct uuid *shards;
	struct shm_view_mark *marks;
	uint64_t max_sequence;		/* to be adopted */
	uint64_t refused;		/* another host's, too far ahead */
	bool full;			/* a shard found no room */
};

void
reload_max_seq_key(const struct uuid *shard, char *key)
{
	char text[UUID_TEXT_LEN + 1];

	uuid_to_text(shard, text);
	snprintf(key, META_MAX_SEQ_KEY_MAX, META_MAX_SEQ ":%s", text);
}

static bool
add_shard(const struct object_info *info, void *ctx)
{
	struct loading *l = ctx;
	struct uuid shard;

	if (!info->is_dir || !uuid_from_text(info->name, &shard))
		return true;
	if (l->shard_count == l->shard_room) {
		uint32_t room = MAX(l->shard_room * 2, 64u);
		struct uuid *more = room > SHARDS_MAX ? NULL :
		    arena_alloc(&l->arena, room * sizeof(*more));

		/* A view without some of its shards would lose their rows. */
		l->full = more == NULL;
		if (l->full)
			return false;
		if (l->shard_count > 0)
			memcpy(more, l->shards,
			    l->shard_count * sizeof(*more));
		l->shards = more;
		l->shard_room = room;
	}
	l->shards[l->shard_count++] = shard;
	return true;
}

static struct err
list_shards(struct loading *l)
{
	struct err e;

	l->shard_count = l->shard_room = 0;
	l->full = false;
	e = object_list(l->dir, "_mem_wal", add_shard, l);
	if (e.kind == ERR_NOT_FOUND)
		return OK;		/* nothing was ever written */
	if (!err_is(e) && l->full)
		return FAIL(NO_MEMORY, "store has too many shards");
	return e;
}

/* Ours is adopted whatever the wall clock says: after it was set back, new
 * writes would lose against our own old ones. Another host's clock is believed
 * within bounds. */
static void
note_sequence(struct loading *l, bool local, uint64_t sequence)
{
	if (local || shm_sequence_plausible(sequence))
		l->max_sequence = MAX(l->max_sequence, sequence);
	else
		l->refused = MAX(l->refused, sequence);
}

static bool
is_local(const struct loading *l, uint32_t i)
{
	return l->marks[i].shard < SHM_SHARD_RECORD;
}

struct tail_end {		/* of a shard whose owner does not announce it */
	const struct uuid *shard;
	bool ours;
	bool waited;			/* for a claim that does not end */
	uint64_t replay_after;
	struct wal_end point;		/* position 0: there is no tail */
	uint64_t bytes;			/* up to there */
};

enum decided { DECIDED, LIST_AGAIN, BEING_CLAIMED };

/* Whether the newest sentinel's claim takes longer than claims do: who put it
 * has died, or found no room for its entry. */
static bool
is_claim_old(const struct wal_list *list)
{
	uint64_t put_us = list->spans[list->count - 1].modified_us;

	return put_us + CLAIM_SPAN_NS / NS_PER_US <= clock_wall_us();
}

/*
 * Whether nobody but this server's workers can have written a shard since it
 * had no live claim here: its ordinal is ours and never was another's, and so
 * was the lease all the time. Before the server has a lease at all it serves
 * nobody yet.
 */
static bool
is_ours(uint32_t number)
{
	uint32_t term = shm_lease_term();

	return number < SHM_SHARD_RECORD && shm_ordinal_here(number) &&
	    shm_ordinal_moves(number) == 0 &&
	    (term == 0 || (term == 1 && shm_lease_held()));
}

static bool
is_aged(struct shm_ref ref, uint32_t number)
{
	uint32_t ordinal = shm_store_shard_ordinal(ref, number);

	return ordinal != SHM_NO_ORDINAL && shm_ordinal_aged(ordinal);
}

/* By who writes it. Of a guest a claim says nothing once its home has it again,
 * which this server may learn of later. */
static bool
is_claimed(struct shm_ref ref, uint32_t number)
{
	return number < SHM_SHARD_RECORD && !shm_ordinal_guest(number) &&
	    shm_shard_claimed(shm_store_shard(ref, number)).live;
}

bool
reload_is_others(struct shm_ref ref, uint32_t number)
{
	return !is_ours(number) && !is_claimed(ref, number);
}

/*
 * Whether what was read of an entry counts although no successor records its
 * end. Of shards that are ours it does: their writer is dead, and who claims them
 * next reads at least as much. Another instance's may be alive: its entry
 * counts while the position behind it is absent. If that is taken, the entry
 * was fenced, and who did that may have read less (the reader of the model
 * waits then): its own entry, a moment later, records how much. Where none
 * comes, all that was acknowledged lies in what was read after the fence, and
 * the next to claim reads at least as much; so then it counts, too.
 */
static struct err
check_undecided(struct loading *l, const struct tail_end *t,
    const struct wal_list *list, uint32_t i, enum decided *decided)
{
	const struct wal_span *s = &list->spans[i];
	struct err e;

	*decided = DECIDED;
	if (s->recorded || t->ours)
		return OK;
	if (i + 1 < list->count) {
		if (!t->waited && !is_claim_old(list))
			*decided = BEING_CLAIMED;
		return OK;
	}
	e = wal_exists(l->dir, t->shard, s->position + 1);
	if (!err_is(e))
		*decided = LIST_AGAIN;
	return e.kind == ERR_NOT_FOUND ? OK : e;
}

/* Up to where it is followed: all of it waits for a seal. */
static uint64_t
bytes_up_to(const struct wal_list *list, struct wal_end to)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < list->count; i++) {
		const struct wal_span *s = &list->spans[i];

		if (s->position == to.position)
			bytes += to.end;
		else if (s->position < to.position && s->recorded)
			bytes += s->end;
	}
	return bytes;
}

/* Where the tail ends by its entries as they are listed now. */
static struct err
find_commit(struct loading *l, struct tail_end *t, enum decided *decided)
{
	struct wal_found_end found;
	struct wal_list list;
	struct err e;
	uint32_t i;

	*decided = DECIDED;
	t->point = (struct wal_end){ 0, 0 };
	e = wal_list_read(l->dir, t->shard, t->replay_after, &l->arena, &list);
	if (err_is(e))
		return e;
	FAULT_HERE(reload_listed);
	for (i = list.count; i-- > 0;) {
		const struct wal_span *s = &list.spans[i];

		if (s->sentinel)
			continue;
		e = wal_find_end(l->dir, t->shard, s, &found);
		if (!err_is(e))
			e = check_undecided(l, t, &list, i, decided);
		if (err_is(e) || *decided != DECIDED)
			return e;
		/* Without a batch it is no tail: raised to it, every start
		 * would claim the shard anew only to close it. */
		if (t->point.position == 0)
			t->point = wal_span_end(s, &found);
		note_sequence(l, t->ours, found.sequence);
		if (found.sequence != 0 && t->point.position != 0)
			break;
	}
	t->bytes = bytes_up_to(&list, t->point);
	return OK;
}

/* Until what was listed is decided. */
static struct err
find_decided_commit(struct loading *l, struct tail_end *t)
{
	enum decided decided;
	struct object_retry r;
	struct err e;
	int tries = 0;

	object_retry_begin(&r, CLAIM_SPAN_NS);
	for (;;) {
		e = find_commit(l, t, &decided);
		if (err_is(e) || decided == DECIDED)
			return e;
		if (decided == BEING_CLAIMED)
			t->waited = !object_retry_wait(&r);
		else if (++tries == LIST_TRIES)
			return FAIL(UNAVAILABLE, "another instance's entries "
			    "change faster than they are read, try again");
	}
}

/* Reads the end of a tail that no live claim announces. */
static struct err
load_commit(struct loading *l, const struct uuid *shard, uint32_t number,
    bool ours, uint64_t replay_after)
{
	struct shm_shard_state *state = shm_store_shard(l->ref, number);
	struct tail_end t = { .shard = shard, .ours = ours,
	    .replay_after = replay_after };
	struct err e = find_decided_commit(l, &t);

	if (err_is(e))
		return e;
	FAULT_HERE(reload_commit);
	/* Who claimed meanwhile announces what he has acknowledged, while we
	 * may have read what he has only written. */
	if (t.point.position != 0 && !is_claimed(l->ref, number)) {
		shm_shard_raise(state, (struct shm_point){ t.point.position,
		    t.point.end });
		/* The slot stays until it is sealed: else nobody would know. */
		if (is_aged(l->ref, number)) {
			shm_shard_tail_found(state, t.bytes);
			shm_store_touch(l->ref);
		}
	}
	return OK;
}

static struct err
load_commits(struct loading *l)
{
	struct shm_shard_state *state;
	struct shard_manifest m;
	struct err e;
	uint32_t i;

	for (i = 0; i < l->shard_count; i++) {
		e = shm_store_shard_add(l->ref, &l->shards[i],
		    &l->marks[i].shard);
		if (err_is(e))
			return e;
		state = shm_store_shard(l->ref, l->marks[i].shard);
		note_sequence(l, is_local(l, i), shm_shard_max_seq(state));
		if (is_claimed(l->ref, l->marks[i].shard))
			continue;
		e = shard_manifest_load(l->dir, &l->shards[i], &l->arena, &m);
		if (e.kind == ERR_NOT_FOUND)
			continue;	/* its first claim is under way */
		if (!err_is(e))
			e = load_commit(l, &l->shards[i], l->marks[i].shard,
			    is_ours(l->marks[i].shard), m.replay_after);
		if (err_is(e))
			return e;
	}
	return OK;
}

uint64_t
reload_sequence(const struct table *t, struct slice key)
{
	struct slice text = table_metadata_get(t, key);
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9';
	    i++)
		n = n * 10 + (uint64_t)(text.ptr[i] - '0');
	return n;
}

/* Bytes and highest sequence of a generation, from its own manifest. */
static struct err
load_generation(struct loading *l, uint32_t shard,
    const struct shard_generation *g)
{
	struct shm_manifest_marks *marks = &l->marks[shard].marks;
	struct object_dir *gdir;
	struct table *t;
	char path[512];
	struct err e;
	size_t n;

	shard_directory_name(&l->shards[shard], path);
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/%.*s", (int)g->directory.len,
	    g->directory.ptr);
	e = object_dir_open(l->dir, path, false, &gdir);
	if (err_is(e))
		return e;
	e = table_load_version(gdir, 1, &l->arena, &t);
	object_dir_close(gdir);
	if (err_is(e))
		return e;
	if (t->fragment_count > 0 && t->fragments[0].file_count > 0)
		marks->pending_bytes += t->fragments[0].files[0].size_bytes;
	note_sequence(l, is_local(l, shard), reload_sequence(t,
	    SLICE(META_MAX_SEQ)));
	table_free(t);
	return OK;
}

static struct err
load_manifests(struct loading *l)
{
	struct shard_manifest m;
	struct err e;
	uint32_t i, k;

	for (i = 0; i < l->shard_count; i++) {
		struct shm_manifest_marks *marks = &l->marks[i].marks;

		*marks = (struct shm_manifest_marks){ 0 };
		e = shard_manifest_load(l->dir, &l->shards[i], &l->arena, &m);
		if (e.kind == ERR_NOT_FOUND)
			continue;
		if (err_is(e))
			return e;
		marks->version = m.version;
		marks->epoch = m.epoch;
		marks->replay_after = m.replay_after;
		marks->pending_generations = m.generation_count;
		for (k = 0; k < m.generation_count; k++) {
			e = load_generation(l, i, &m.generations[k]);
			/* Folded and collected since we read the manifest. */
			if (err_is(e) && e.kind != ERR_NOT_FOUND)
				return e;
		}
	}
	return OK;
}

static struct err
load_base(struct loading *l, uint64_t *version, uint64_t *pinned)
{
	struct shm_slot *slot = shm_store_slot(l->ref);
	char key[META_MAX_SEQ_KEY_MAX];
	struct table *t;
	struct uuid store;
	struct err e;
	uint32_t i;

	if (slot == NULL)
		return FAIL(NOT_FOUND, "store is not resident any more");
	e = table_load(l->dir, &l->arena, &t);
	if (err_is(e))
		return e;
	if (!uuid_from_text(table_metadata_get(t, SLICE(META_STORE_UUID)),
	    &store) || !uuid_eq(&store, &slot->store))
		e = FAIL(NOT_FOUND, "directory holds another store");
	for (i = 0; i < l->shard_count; i++) {
		reload_max_seq_key(&l->shards[i], key);
		note_sequence(l, is_local(l, i), reload_sequence(t,
		    slice_of(key)));
	}
	*version = t->version;
	*pinned = pin_of(t);
	table_free(t);
	return e;
}

static void
raise_clock(const struct loading *l)
{
	shm_sequence_raise(l->max_sequence);
	if (l->refused != 0)
		log_warn("another host's sequence lies more than a minute "
		    "ahead, not adopted; writes of this host may lose against "
		    "it: check the clocks sequence=%llu",
		    (unsigned long long)l->refused);
}

static struct err
load_once(struct loading *l)
{
	uint64_t serial, base_version, pinned_version;
	struct err e;

	l->max_sequence = l->refused = 0;
	e = shm_view_load_begin(l->ref, &serial);
	if (err_is(e))
		return e;
	e = list_shards(l);
	if (err_is(e))
		return e;
	l->marks = arena_calloc(&l->arena, MAX(l->shard_count, 1u),
	    sizeof(*l->marks));
	if (l->marks == NULL)
		return FAIL(NO_MEMORY, "load a store");
	e = load_commits(l);
	if (!err_is(e))
		e = load_manifests(l);
	if (!err_is(e))
		e = load_base(l, &base_version, &pinned_version);
	if (err_is(e))
		return e;
	raise_clock(l);
	return shm_view_load_end(l->ref, serial, base_version, pinned_version,
	    l->marks, l->shard_count);
}

struct err
reload_slot(struct object_dir *dir, const struct kind *kind,
    struct shm_ref ref)
{
	struct loading l = { .dir = dir, .kind = kind, .ref = ref };
	struct err e;
	int tries = 0;

	do {
		arena_init(&l.arena, RELOAD_BYTES_MAX);
		e = load_once(&l);
		if (err_is(e) && e.kind != ERR_CONFLICT) {
			log_err(LOG_DEBUG, e, "store not loaded");
			e.what = "load a store";	/* text is in l.arena */
		}
		arena_free(&l.arena);
	} while (e.kind == ERR_CONFLICT && ++tries < RELOAD_TRIES);
	return e;
}

/* Whether a shard directory is one that the slot does not know, or another
 * instance's whose manifest has moved on. */
static struct err
is_news(struct loading *l, const struct uuid *shard, bool *news)
{
	uint32_t number = shm_store_shard_find(l->ref, shard);
	uint64_t newest;
	struct err e;

	*news = number == SHM_SHARD_NONE;
	if (*news || !reload_is_others(l->ref, number))
		return OK;
	e = shard_manifest_newest(l->dir, shard, &newest);
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	if (!err_is(e))
		*news = newest > shm_shard_marks(
		    shm_store_shard(l->ref, number)).version;
	return e;
}

static struct err
look_for_news(struct loading *l, bool *news)
{
	struct err e = list_shards(l);
	uint32_t i;

	*news = false;
	for (i = 0; !err_is(e) && !*news && i < l->shard_count; i++)
		e = is_news(l, &l->shards[i], news);
	return e;
}

struct err
reload_base(struct object_dir *dir, struct shm_ref ref)
{
	struct shm_slot *slot = shm_store_slot(ref);
	uint64_t newest;
	struct arena arena;
	struct table *t;
	struct err e;

	if (slot == NULL)
		return FAIL(NOT_FOUND, "store is not resident any more");
	e = table_newest(dir, &newest);
	if (err_is(e) || newest <= atomic_load_explicit(&slot->base_version,
	    memory_order_acquire))
		return e;
	arena_init(&arena, RELOAD_BYTES_MAX);
	e = table_load(dir, &arena, &t);
	if (err_is(e)) {
		log_err(LOG_DEBUG, e, "newest version not loaded");
		e.what = "load a store";	/* text is in arena */
	} else {
		e = shm_view_raise_base(ref, t->version, pin_of(t));
		table_free(t);
	}
	arena_free(&arena);
	return e;
}

struct err
reload_others(struct object_dir *dir, const struct kind *kind,
    struct shm_ref ref)
{
	struct loading l = { .dir = dir, .kind = kind, .ref = ref };
	bool news;
	struct err e;

	e = reload_base(dir, ref);
	if (err_is(e))
		return e;
	arena_init(&l.arena, RELOAD_BYTES_MAX);
	e = look_for_news(&l, &news);
	arena_free(&l.arena);
	return err_is(e) || !news ? e : reload_slot(dir, kind, ref);
}

static struct err
load_tail(struct loading *l, const struct uuid *shard)
{
	uint32_t number = shm_store_shard_find(l->ref, shard);
	struct shard_manifest m;
	struct err e;

	/* One that is new is loaded with its view. What is claimed announces
	 * itself. Ours without a claim may have been written by a server that
	 * had our id and does not know yet that it lost it. */
	if (number == SHM_SHARD_NONE || is_claimed(l->ref, number))
		return OK;
	e = shard_manifest_load(l->dir, shard, &l->arena, &m);
	if (e.kind == ERR_NOT_FOUND)
		return OK;
	return err_is(e) ? e : load_commit(l, shard, number, false,
	    m.replay_after);
}

struct err
reload_tails(struct object_dir *dir, const struct kind *kind,
    struct shm_ref ref)
{
	struct loading l = { .dir = dir, .kind = kind, .ref = ref };
	struct err e;
	uint32_t i;

	arena_init(&l.arena, RELOAD_BYTES_MAX);
	e = list_shards(&l);
	for (i = 0; !err_is(e) && i < l.shard_count; i++)
		e = load_tail(&l, &l.shards[i]);
	if (err_is(e))
		e.what = "read the tails of other instances"; /* was in l.arena */
	else
		raise_clock(&l);
	arena_free(&l.arena);
	return e;
}

/* Deleted by another instance: what was resident before the registry had no
 * such name is of no use to anybody. Who still needs the slot finds out by
 * himself. */
static void
drop_gone(struct shm_ref resident)
{
	struct err e = shm_store_evict(resident);

	if (err_is(e) && e.kind != ERR_NOT_FOUND)
		log_err(LOG_DEBUG, e, "slot of a deleted store stays");
}

/* The registry's entry for a name, and a slot for that store, pinned. */
static struct err
look_up(struct object_dir *root, const struct kind *kind, const char *name,
    struct registry_entry *entry, struct shm_ref *ref)
{
	struct shm_store_key key = { (enum store_kind)kind->id,
	    slice_of(name) };
	struct uuid gone = { 0 };
	struct shm_ref before;
	bool resident;
	struct err e;
	int tries = 0;

	/* Another store was resident before this look at the registry: if that
	 * does not name it, it is gone. Without the second look it could be the
	 * newer one, and we be late. A slot that goes before we have a pin of it
	 * is filled again. */
	do {
		resident = !err_is(shm_store_find(key, &before));
		e = registry_get(root, kind, name, entry);
		if (e.kind == ERR_NOT_FOUND && resident)
			drop_gone(before);
		if (!err_is(e))
			e = shm_store_insert(key, &entry->store, &gone, ref);
		if (!err_is(e) && err_is(shm_store_pin(*ref)))
			e = FAIL(CONFLICT, "the slot was evicted");
	} while (e.kind == ERR_CONFLICT && ++tries < RELOAD_TRIES);
	return e;
}

struct err
reload_open(struct object_dir *root, const struct kind *kind,
    const char *name, struct shm_ref *ref, struct object_dir **out)
{
	char directory[REGISTRY_DIRECTORY_MAX];
	struct registry_entry entry, now;
	struct object_dir *dir;
	struct err e;

	e = look_up(root, kind, name, &entry, ref);
	if (err_is(e))
		return e;
	registry_directory(kind, name, directory);
	e = object_dir_open(root, directory, false, &dir);
	if (err_is(e))
		goto out;
	if (shm_store_load_state(*ref) != SHM_LOAD_READY ||
	    (shm_store_flags(*ref) & SHM_FLAG_STALE) != 0)
		e = reload_slot(dir, kind, *ref);
	else
		e = reload_base(dir, *ref);
	/* Deleted while we opened it: the row would be gone (contract 5.3); or
	 * created anew, and the directory is the new one's. */
	if (!err_is(e))
		e = registry_get(root, kind, name, &now);
	if (!err_is(e) && !uuid_eq(&now.store, &entry.store))
		e = FAIL(UNAVAILABLE, "store was created anew, try again");
	if (err_is(e))
		object_dir_close(dir);
	else
		*out = dir;
out:
	shm_store_unpin(*ref);
	return e;
}
