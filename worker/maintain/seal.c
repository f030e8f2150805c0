#include "common/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/log.h"
#include "shm/metric.h"
#include "shm/process.h"
#include "shm/view.h"
#include "worker/arrow/ipc.h"
#include "worker/lance/commit.h"
#include "worker/lance/deletion.h"
#include "worker/lance/key_index.h"
#include "worker/lance/page_write.h"
#include "worker/lance/shard_manifest.h"
#include "worker/maintain/seal.h"
#include "worker/object/local.h"
#include "worker/store/reload.h"
#include "worker/store/wal.h"
#include "worker/store/wal_walk.h"

#define SEAL_ARENA_MAX	(64u << 20)
#define KEYS_MAX	(2048ull << 20)
#define NAME_MAX_BYTES	512
#define CHECK_BYTES	(1u << 20)	/* between two looks at the limit */
#define CLAIMED_SINCE	"shard was claimed since its entry was closed"

struct sealing {
	struct aged_store *aged;
	uint32_t shard;
	struct uuid uuid;
	struct arena arena;
	struct shard_manifest from;	/* what the seal started from */
	struct shard_manifest after;	/* what it made of it */
	uint32_t span_count;		/* entries to seal */
	const struct wal_span *spans;
	uint64_t *ends;
	bool by_owner;			/* the last one was closed, not followed */
	uint64_t closed_epoch;

	char directory[64];		/* below the shard's */
	bool named;			/* by the manifest */
	struct object_dir *dir;		/* the generation's */
	struct page_writer *writer;
	struct key_build *keys;
	struct key_index *index;
	uint64_t max_sequence;
	struct page_written written;
};

/*
 * Which entries may be sealed: from the first on, as long as each has a
 * recorded end or was closed by this host's owner. Sentinels at the end are
 * left: a claimer whose sentinel is passed has to start again. Entries without
 * a commit, which claims leave behind, wait for one that has some.
 */
static struct err
choose(struct sealing *s, const struct wal_list *list, bool *more)
{
	struct shm_shard_state *state =
	    shm_store_shard(s->aged->ref, s->shard);
	/* The epoch first: a claim clears the mark before it changes the epoch,
	 * so the mark that is read next is never of an older one. */
	struct shm_claim claim = shm_shard_claimed(state);
	struct shm_point closed = shm_shard_closed(state);
	/* Who loaded the slot after the owner's death may have read more than he
	 * acknowledged; as it is shown it stays, so a claim has to record it. */
	bool shown = shm_point_before(closed, shm_shard_commit(state));
	bool any = false;
	uint64_t bytes = 0;
	uint32_t i;

	s->ends = arena_calloc(&s->arena, MAX(list->count, 1u),
	    sizeof(*s->ends));
	if (s->ends == NULL)
		return FAIL(NO_MEMORY, "seal a shard");
	s->spans = list->spans;
	*more = false;
	for (i = 0; i < list->count; i++) {
		const struct wal_span *span = &list->spans[i];
		bool by_owner = !span->recorded && !shown &&
		    closed.position == span->position;

		if (span->sentinel)
			continue;
		if (!span->recorded && !by_owner)
			break;
		s->ends[i] = span->recorded ? span->end : closed.end;
		if (s->span_count > 0 && bytes + s->ends[i] > SEAL_BYTES_MAX) {
			*more = true;
			break;
		}
		bytes += s->ends[i];
		any |= s->ends[i] > span->head_bytes;
		s->span_count = i + 1;
		s->by_owner = by_owner;
		s->closed_epoch = claim.epoch;
	}
	if (!any)
		s->span_count = 0;
	return OK;
}

static void
report_corrupt(const struct sealing *s, const struct wal_span *span,
    const struct wal_batch *b)
{
	char shard[UUID_TEXT_LEN + 1];

	uuid_to_text(&s->uuid, shard);
	shm_metric_add(METRIC_memwald_wal_corrupt_batches_total, 0, 1);
	log_error("wal batch is damaged, its rows are not sealed, the rest is; "
	    "restore the file from a copy store=%s shard=%s position=%llu "
	    "offset=%llu bytes=%llu", s->aged->name, shard,
	    (unsigned long long)span->position, (unsigned long long)b->offset,
	    (unsigned long long)b->bytes);
}

static struct err
write_batch(struct sealing *s, const struct wal_span *span,
    const struct wal_walk *walk, const struct wal_batch *from,
    struct arena *arena)
{
	const bool *far = wal_far_all(s->aged->shape, arena);
	struct batch batch;
	struct err e;

	if (far == NULL)
		return FAIL(NO_MEMORY, "seal a shard");
	e = wal_walk_read(walk, from, &s->aged->shape->schema, far, arena,
	    &batch);
	/* As the tail reads it: one batch must not keep all others. */
	if (e.kind == ERR_CORRUPT) {
		report_corrupt(s, span, from);
		return OK;
	}
	if (!err_is(e))
		e = page_write_batch(s->writer, &batch);
	if (!err_is(e))
		e = key_build_add(s->keys,
		    &batch.columns[s->aged->shape->key]);
	s->max_sequence = MAX(s->max_sequence, from->sequence);
	return e;
}

static struct err
write_walked(struct sealing *s, const struct wal_span *span,
    struct wal_walk *walk)
{
	struct wal_batch batch;
	enum wal_found what;
	struct arena arena;
	uint64_t bytes = 0;		/* since the last look at the limit */
	struct err e = OK;

	arena_init(&arena, SIZE_MAX);
	while (!err_is(e)) {
		arena_reset(&arena);
		e = wal_walk_next(walk, &what, &batch);
		if (err_is(e) || what == WAL_END)
			break;
		if (what == WAL_BATCH)
			e = write_batch(s, span, walk, &batch, &arena);
		else
			report_corrupt(s, span, &batch);
		bytes += batch.bytes;
		if (!err_is(e) && bytes >= CHECK_BYTES) {
			bytes = 0;
			e = aged_check(s->aged);
		}
	}
	e = aged_keep(s->aged, e);	/* its text may be in arena */
	arena_free(&arena);
	return e;
}

static struct err
write_entry(struct sealing *s, const struct wal_span *span, uint64_t end)
{
	char path[WAL_PATH_MAX];
	struct wal_walk walk;
	uint64_t size;
	struct err e;
	int fd;

	if (end <= span->head_bytes)
		return OK;
	wal_path(&s->uuid, span->position, path);
	e = object_entry_open(s->aged->dir, path, &fd, &size);
	if (err_is(e))
		return e;
	/* Somebody may have cut the file: what is left of it is sealed. */
	wal_walk_init(&walk, fd, span->ours, span->head_bytes, MIN(end, size));
	wal_walk_set_end(&walk, end);
	e = write_walked(s, span, &walk);
	wal_walk_free(&walk);
	close(fd);
	return e;
}

static void
generation_path(const struct sealing *s, char path[NAME_MAX_BYTES])
{
	size_t n;

	shard_directory_name(&s->uuid, path);
	n = strlen(path);
	snprintf(path + n, NAME_MAX_BYTES - n, "/%s", s->directory);
}

static struct err
open_directory(struct sealing *s)
{
	char path[NAME_MAX_BYTES];
	struct uuid random = uuid_random();

	snprintf(s->directory, sizeof(s->directory),
	    "%02x%02x%02x%02x_gen_%llu", random.bytes[0], random.bytes[1],
	    random.bytes[2], random.bytes[3],
	    (unsigned long long)s->from.current_generation);
	generation_path(s, path);
	return object_dir_open(s->aged->dir, path, true, &s->dir);
}

/* Of each key only the last row counts; the others are masked. */
static struct err
mask_older(struct sealing *s, struct table_deletion *to)
{
	uint64_t i, count = key_index_count(s->index);
	struct deletion *older;
	struct err e;

	*to = (struct table_deletion){ 0 };
	if (key_index_unique(s->index))
		return OK;
	e = deletion_new(&older);
	if (err_is(e))
		return e;
	for (i = 0; i + 1 < count; i++) {
		if (slice_eq(key_index_key(s->index, i),
		    key_index_key(s->index, i + 1)))
			deletion_add(older, key_index_row(s->index, i));
	}
	/* A generation's deletion file bears read version 1 (7.4). */
	e = deletion_write(s->dir, 0, 1, older, to);
	deletion_free(older);
	return e;
}

static struct err
describe(struct sealing *s, const char *file)
{
	const struct arrow_schema *schema = &s->aged->shape->schema;
	struct table_file data;
	struct table_fragment fragment = { .row_count = s->written.row_count,
	    .file_count = 1, .files = &data };
	struct arrow_pair meta = { .key = SLICE(META_MAX_SEQ) };
	struct err e;

	e = page_write_describe(schema, slice_of(file), &s->written, &s->arena,
	    &data);
	if (!err_is(e))
		e = mask_older(s, &fragment.deletion);
	if (err_is(e))
		return e;
	meta.value = slice_of(arena_printf(&s->arena, "%llu",
	    (unsigned long long)s->max_sequence));
	return commit_create_generation(s->dir, schema, &fragment, &meta, 1);
}

static struct err
write_generation(struct sealing *s)
{
	char path[NAME_MAX_BYTES], text[UUID_TEXT_LEN + 1];
	struct uuid file = uuid_random();
	struct key_index_paths paths;
	struct err e;
	uint32_t i;

	uuid_to_text(&file, text);
	snprintf(path, sizeof(path), "data/%s.lance", text);
	e = FAULT(seal_write);
	if (!err_is(e))
		e = open_directory(s);
	if (!err_is(e))
		e = page_write_open(s->dir, path, &s->aged->shape->schema,
		    &s->aged->env->pace, &s->writer);
	if (!err_is(e))
		e = key_build_start(KEYS_MAX, &s->keys);
	for (i = 0; !err_is(e) && i < s->span_count; i++) {
		if (!s->spans[i].sentinel)
			e = write_entry(s, &s->spans[i], s->ends[i]);
		if (!err_is(e))
			e = aged_check(s->aged);
	}
	if (err_is(e) || page_write_rows(s->writer) == 0)
		return e;
	e = page_write_finish(s->writer, &s->written);
	s->writer = NULL;
	if (!err_is(e)) {
		e = key_build_end(s->keys, &s->index);
		s->keys = NULL;
	}
	key_index_paths_generation(&paths,
	    &s->aged->shape->schema.fields[s->aged->shape->key]);
	if (!err_is(e))
		e = key_index_write(s->index, s->dir, &paths,
		    &s->aged->env->pace);
	return err_is(e) ? e : describe(s, path + strlen("data/"));
}

/* The manifest names the generation if it is still what we started from. */
static struct err
name_generation(struct shard_manifest *m, struct arena *arena, bool *stands,
    void *ctx)
{
	struct sealing *s = ctx;
	struct shard_generation *list;
	uint32_t i;

	/* By a put of ours whose outcome was unknown, and which came late. */
	for (i = 0; i < m->generation_count; i++) {
		*stands = slice_eq(m->generations[i].directory,
		    slice_of(s->directory));
		if (*stands)
			return OK;
	}
	*stands = false;
	if (m->replay_after != s->from.replay_after ||
	    m->current_generation != s->from.current_generation)
		return FAIL(CONFLICT, "shard was sealed by another");
	if (s->by_owner && m->epoch != s->closed_epoch)
		return FAIL(FENCED, CLAIMED_SINCE);
	list = arena_calloc(arena, m->generation_count + 1u, sizeof(*list));
	if (list == NULL)
		return FAIL(NO_MEMORY, "name a generation");
	if (m->generation_count > 0)
		memcpy(list, m->generations,
		    m->generation_count * sizeof(*list));
	list[m->generation_count++] = (struct shard_generation){
	    m->current_generation, slice_of(s->directory) };
	m->generations = list;
	m->current_generation++;
	m->replay_after = s->spans[s->span_count - 1].position;
	m->last_seen = MAX(m->last_seen, m->replay_after);
	return OK;
}

static uint64_t
sealed_bytes(const struct sealing *s)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < s->span_count; i++) {
		if (!s->spans[i].sentinel)
			bytes += s->ends[i];
	}
	return bytes;
}

static struct err
publish(struct sealing *s, const struct shard_manifest *m)
{
	struct shm_shard_state *state =
	    shm_store_shard(s->aged->ref, s->shard);
	struct shm_view_mark mark = { .shard = s->shard };
	struct err e;

	/* A fold may have drained this manifest and not have said so yet: its
	 * generations are to be found in no base but the one that it made. */
	e = reload_base(s->aged->dir, s->aged->ref);
	if (err_is(e))
		return e;
	mark.marks.version = m->version;
	mark.marks.epoch = m->epoch;
	mark.marks.replay_after = m->replay_after;
	mark.marks.pending_generations = m->generation_count;
	mark.marks.pending_bytes = shm_shard_marks(state).pending_bytes +
	    s->written.size_bytes;
	return shm_view_raise(s->aged->ref, 0, &mark, 1, NULL);
}

/* By a claim above its owner's, which may go no further and never fence him: he
 * is asked for another one (tick.c), since only that records the end now. */
static struct err
tell_claimed(struct sealing *s)
{
	struct err e = publish(s, &s->from);

	return err_is(e) ? e : FAIL(FENCED, CLAIMED_SINCE);
}

static struct err
seal(struct sealing *s, struct seal_result *result)
{
	struct wal_list list;
	struct err e;

	e = shard_manifest_load(s->aged->dir, &s->uuid, &s->arena, &s->from);
	if (e.kind == ERR_NOT_FOUND)
		return OK;		/* never written to */
	if (!err_is(e))
		e = wal_list_read(s->aged->dir, &s->uuid,
		    s->from.replay_after, &s->arena, &list);
	if (!err_is(e))
		e = choose(s, &list, &result->more);
	if (err_is(e))
		return e;
	/* Who sealed before us may have died before he published it. */
	if (s->span_count == 0)
		return publish(s, &s->from);
	if (s->by_owner && s->from.epoch != s->closed_epoch)
		return tell_claimed(s);
	e = write_generation(s);
	if (err_is(e))
		return e;
	if (s->index == NULL) {
		result->more = false;	/* no row in these entries */
		return publish(s, &s->from);
	}
	e = FAULT(seal_commit);
	if (!err_is(e))
		e = aged_check(s->aged);
	if (!err_is(e))
		e = shard_manifest_change(s->aged->dir, &s->uuid,
		    name_generation, s, &s->arena, &s->after);
	if (err_is(e))
		return e;
	s->named = true;
	result->generations = 1;
	result->rows = s->written.row_count;
	FAULT_HERE(seal_publish);
	e = publish(s, &s->after);
	shm_shard_tail_sealed(shm_store_shard(s->aged->ref, s->shard),
	    sealed_bytes(s));
	return e;
}

static void
finish(struct sealing *s, struct err e)
{
	char path[NAME_MAX_BYTES];

	page_write_abort(s->writer);
	key_build_abort(s->keys);
	key_index_close(s->index);
	if (s->dir != NULL)
		object_dir_close(s->dir);
	if (s->directory[0] != '\0' && !s->named) {
		generation_path(s, path);
		aged_remove(s->aged, path, e);
	}
	arena_free(&s->arena);
}

static void
count(const struct sealing *s, struct err e, const struct seal_result *result,
    uint64_t began_ns)
{
	enum metric_outcome outcome = e.kind == ERR_FENCED ?
	    METRIC_OUTCOME_FENCED : result->generations > 0 ?
	    METRIC_OUTCOME_SEALED : METRIC_OUTCOME_NOOP;

	/* Deleted or pinned meanwhile: left alone. */
	if (err_is(e) && aged_check(s->aged).kind != ERR_NOT_FOUND)
		shm_metric_add(METRIC_rollout_flush_errors_total, 0, 1);
	if (!err_is(e) || e.kind == ERR_FENCED)
		shm_metric_observe(METRIC_rollout_flush_duration_seconds,
		    outcome, clock_mono_ns() - began_ns);
	shm_metric_add(METRIC_memwald_maintain_written_bytes_total, 0,
	    s->written.size_bytes);
}

struct err
seal_shard(struct aged_store *aged, uint32_t shard, struct seal_result *result)
{
	struct sealing s = { .aged = aged, .shard = shard,
	    .uuid = shm_store_shard_uuid(aged->ref, shard) };
	uint64_t began = clock_mono_ns(), token;
	struct err e;

	*result = (struct seal_result){ 0 };
	token = shm_store_seal_try(aged->ref, shard, aged->deadline_ns);
	if (token == 0)
		return FAIL(BUSY, "shard is being sealed");
	arena_init(&s.arena, SEAL_ARENA_MAX);
	e = seal(&s, result);
	shm_store_seal_release(aged->ref, shard, token);
	count(&s, e, result, began);
	e = aged_keep(aged, e);		/* its text may be in s.arena */
	finish(&s, e);
	return e;
}
