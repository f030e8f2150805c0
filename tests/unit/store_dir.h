#ifndef MEMWALD_TESTS_STORE_DIR_H
#define MEMWALD_TESTS_STORE_DIR_H

/*
 * store_dir - a segment, a directory and in it a store for each test, written
 * to without a server: claims, commits and reads by the engine's own parts.
 *
 * A row has a key and a text; its created_at is 1 unless a test says more. An
 * owner is the writer of one ordinal's shard: own_claim claims and announces,
 * own_write brings a commit to the disk, own_acknowledge looks at the fence and
 * publishes; own_put is all of it.
 */

#include "shm_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/config.h"
#include "common/fault.h"
#include "shm/ordinal_table.h"
#include "shm/sequence.h"
#include "shm/view.h"
#include "worker/maintain/fold.h"
#include "worker/maintain/seal.h"
#include "worker/object/local.h"
#include "worker/object/map.h"
#include "worker/store/claim.h"
#include "worker/store/merge_sources.h"
#include "worker/store/registry.h"
#include "worker/store/reload.h"
#include "worker/store/snapshot.h"
#include "worker/store/store.h"
#include "worker/store/tail.h"
#include "worker/store/wal.h"
#include "worker/arrow/column.h"

#define see_ok(call) do { \
	struct err see_ok_ = (call); \
	if (err_is(see_ok_)) \
		fail_msg("%s: %s", err_name(see_ok_), see_ok_.what); \
} while (0)

#define see_error(call, kind_) do { \
	struct err see_err_ = (call); \
	if (see_err_.kind != ERR_##kind_) \
		fail_msg("%s: %s", err_name(see_err_), see_err_.what); \
} while (0)

/* In a child: what cmocka would say. */
#define child_ok(call)	MUST(!err_is(call))

#define UNUSED	__attribute__((unused))
#define TEXT_MAX_BYTES 64
#define ROW_MESSAGE_MAX 8192u	/* of one row */

UNUSED static const struct kind *const kind = &kind_rollout;
UNUSED static char root_path[] = "/tmp/memwald-store-XXXXXX";
UNUSED static struct object_dir *root;
UNUSED static struct object_dir *dir;		/* the store's */
UNUSED static char store_name[32];
UNUSED static struct shm_ref ref;
UNUSED static struct config config;
UNUSED static struct maintain_env env;
UNUSED static struct aged_store aged;
UNUSED static _Atomic uint64_t aged_stepped_ns;

static inline const struct store_shape *
shape_of(void)
{
	return kind->shape;
}

/* ---- groups and tests */

static inline int
store_group(void **state)
{
	static char program[] = "memwald";
	char *argv[] = { program, NULL }, *no_env[] = { NULL };
	struct shm_config cfg = test_config();
	enum config_ask ask;

	(void)state;
	log_set_level(getenv("LOUD") != NULL ? LOG_DEBUG : LOG_ERROR);
	alarm(getenv("LONG") != NULL ? 600 : 120);	/* a hang is a failure */
	cfg.shard_records = 64;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || mkdtemp(root_path) == NULL)
		return -1;
	test_segment(&cfg);
	object_map_install();
	see_ok(config_read(1, argv, no_env, &config, &ask));
	see_ok(object_root_open(root_path, &root));
	object_pace_init(&env.pace, 0);
	ask_init(&env.asks);
	env.config = &config;
	env.root = root;
	snprintf(env.tag, sizeof(env.tag), "%08x", 0x7e57u);
	return 0;
}

static inline int
store_group_end(void **state)
{
	char command[sizeof(root_path) + 16];

	(void)state;
	object_dir_close(root);
	snprintf(command, sizeof(command), "rm -rf %s", root_path);
	if (system(command) != 0)
		return -1;
	shm_segment_destroy();
	return munmap(shared, sizeof(*shared));
}

static inline void
aged_begin(void)
{
	aged = (struct aged_store){ .env = &env, .kind = kind,
	    .stepped_ns = &aged_stepped_ns,
	    .shape = shape_of(), .ref = ref, .dir = dir,
	    .deadline_ns = UINT64_MAX };
	snprintf(aged.name, sizeof(aged.name), "%s", store_name);
	arena_init(&aged.errors, 64u << 10);
}

/* A new store, loaded, as whose directory a test uses dir. */
static inline int
fresh_store(void **state)
{
	static int number;

	(void)state;
	reset_shared();
	snprintf(store_name, sizeof(store_name), "store%d", number++);
	see_ok(store_create(root, kind, kind->shape, store_name));
	see_ok(reload_open(root, kind, store_name, &ref, &dir));
	see_ok(shm_store_pin(ref));
	aged_begin();
	return 0;
}

static inline int
store_gone(void **state)
{
	(void)state;
	see_ok(fault_set_all("wal_sync=off claim_entry=off claim_epoch=off "
	    "claim_sentinel=off seal_write=off seal_commit=off "
	    "seal_publish=off fold_prepare=off fold_write=off "
	    "fold_commit=off fold_drain=off fold_publish=off table_commit=off "
	    "compact_prepare=off compact_commit=off"));
	arena_free(&aged.errors);
	shm_store_unpin(ref);
	object_dir_close(dir);
	see_ok(shm_store_evict(ref));
	return 0;
}

#define store_test(f) \
	cmocka_unit_test_setup_teardown(f, fresh_store, store_gone)

/* As after a restart: nothing is known in shared memory. */
static inline void
forget_all(void)
{
	shm_store_unpin(ref);
	see_ok(shm_store_evict(ref));
	object_dir_close(dir);
	see_ok(reload_open(root, kind, store_name, &ref, &dir));
	see_ok(shm_store_pin(ref));
	arena_free(&aged.errors);
	aged_begin();
}

/* ---- rows */

static inline void
add_row(struct builder *b, const char *key, const char *text,
    int64_t created_at)
{
	const struct arrow_schema *s = &shape_of()->schema;
	uint32_t c;

	for (c = 0; c < s->field_count; c++) {
		struct column *col = &b->columns[c];
		bool ok;

		if (c == ROLLOUT_id)
			ok = column_bytes(col, slice_of(key));
		else if (c == ROLLOUT_content)
			ok = column_bytes(col, slice_of(text));
		else if (c == ROLLOUT_created_at)
			ok = column_int64(col, created_at);
		else if (c == ROLLOUT__seq)
			ok = column_int64(col, 0);
		else if (s->fields[c].nullable)
			ok = column_null(col);
		else if (s->fields[c].type == ARROW_UTF8)
			ok = column_bytes(col, SLICE("x"));
		else
			ok = column_int32(col, 0);
		MUST(ok);
	}
	builder_end_row(b);
}

static inline void
rows_begin(struct builder *b)
{
	child_ok(builder_init(b, &shape_of()->schema, 64u << 20));
}

static inline void
set_sequence(struct builder *b, uint64_t sequence)
{
	struct column *c = &b->columns[shape_of()->seq];
	uint64_t i;

	for (i = 0; i < b->row_count; i++)
		memcpy(c->values.ptr + i * 8, &sequence, 8);
}

/* A commit's message. */
static inline void
message_of(struct builder *b, uint64_t sequence, struct buf *out)
{
	struct wal_layout layout;
	struct arena arena;
	struct batch batch;
	size_t bytes;

	set_sequence(b, sequence);
	batch = builder_batch(b);
	arena_init(&arena, 4u << 20);
	child_ok(wal_layout_init(&layout, &shape_of()->schema, &arena));
	bytes = wal_batch_size(&layout, &batch, 0, batch.row_count);
	MUST(buf_reserve(out, bytes));
	wal_batch_write(&layout, &batch, 0, batch.row_count, sequence,
	    out->ptr + out->len);
	out->len += bytes;
	arena_free(&arena);
}

/* ---- an owner */

struct owner {
	uint32_t ordinal;
	struct uuid shard;
	struct shm_shard_state *state;
	struct claim claim;
	struct wal_writer entry;
	uint64_t sequence;		/* of the commit that is written */
	size_t written;			/* bytes of it */
};

static inline struct owner
owner_of(uint32_t ordinal)
{
	return (struct owner){ .ordinal = ordinal,
	    .shard = shm_ordinal_shard(ordinal),
	    .state = shm_store_shard(ref, ordinal), .entry.fd = -1 };
}

/* The durable part alone. */
static inline struct err
own_take(struct owner *o)
{
	struct err e = claim_shard(dir, &o->shard, &shape_of()->schema,
	    &o->claim);

	if (!err_is(e)) {
		wal_writer_close(&o->entry);
		o->entry = o->claim.entry;
	}
	return e;
}

/* What the worker tells the segment of its claim. */
static inline void
own_announce(struct owner *o)
{
	const struct shard_manifest *m = &o->claim.manifest;
	struct shm_view_mark mark = { o->ordinal, shm_shard_marks(o->state) };

	mark.marks.version = m->version;
	mark.marks.epoch = m->epoch;
	mark.marks.replay_after = m->replay_after;
	mark.marks.pending_generations = m->generation_count;
	child_ok(shm_view_raise(ref, 0, &mark, 1, NULL));
	shm_shard_claim(o->state, o->ordinal, m->epoch, (struct shm_point){
	    o->claim.tail.position, o->claim.tail.end });
}

static inline struct owner
own_claim(uint32_t ordinal)
{
	struct owner o = owner_of(ordinal);

	child_ok(own_take(&o));
	own_announce(&o);
	return o;
}

static inline void
own_end(struct owner *o)
{
	wal_writer_close(&o->entry);
}

static inline struct err
own_write_rows(struct owner *o, struct builder *b)
{
	struct buf message;
	struct err e;

	o->sequence = shm_sequence_next();
	buf_init(&message, 64u << 20);
	message_of(b, o->sequence, &message);
	MUST(o->entry.end + message.len <= o->entry.size_bytes);
	e = object_write_sync(o->entry.fd, message.ptr, message.len,
	    o->entry.end);
	o->written = message.len;
	buf_free(&message);
	return e;
}

static inline struct err
own_acknowledge(struct owner *o)
{
	struct err e = wal_exists(dir, &o->shard, o->entry.position + 1);

	if (e.kind != ERR_NOT_FOUND)
		return err_is(e) ? e : FAIL(FENCED, "fenced");
	o->entry.end += o->written;
	shm_shard_publish(o->state, o->claim.manifest.epoch, (struct shm_point){
	    o->entry.position, o->entry.end }, o->sequence);
	return OK;
}

static inline struct err
own_write(struct owner *o, const char *key, const char *text)
{
	struct builder b;
	struct err e;

	rows_begin(&b);
	add_row(&b, key, text, 1);
	e = own_write_rows(o, &b);
	builder_free(&b);
	return e;
}

/* A commit that begins the next entry. */
static inline struct err
own_rotate(struct owner *o, const char *key, const char *text)
{
	struct wal_start start = { .position = o->entry.position + 1,
	    .epoch = o->claim.manifest.epoch,
	    .closes = { o->entry.position, o->entry.end },
	    .size_bytes = WAL_ENTRY_MIN };
	struct wal_writer next;
	struct buf message;
	struct builder b;
	struct err e;

	rows_begin(&b);
	add_row(&b, key, text, 1);
	buf_init(&message, 64u << 20);
	o->sequence = shm_sequence_next();
	message_of(&b, o->sequence, &message);
	builder_free(&b);
	start.first = buf_slice(&message);
	e = wal_entry_start(dir, &o->shard, &shape_of()->schema, &start,
	    &next);
	buf_free(&message);
	if (err_is(e))
		return e;
	wal_writer_close(&o->entry);
	o->entry = next;
	o->written = 0;
	return own_acknowledge(o);
}

static inline struct err
own_put(struct owner *o, const char *key, const char *text)
{
	struct err e;

	if (o->entry.end + ROW_MESSAGE_MAX > o->entry.size_bytes)
		return own_rotate(o, key, text);
	e = own_write(o, key, text);
	return err_is(e) ? e : own_acknowledge(o);
}

static inline void
own_close(struct owner *o)
{
	shm_shard_close(o->state, (struct shm_point){ o->entry.position,
	    o->entry.end });
	wal_writer_close(&o->entry);
}

/* ---- reading everything */

struct seen {
	uint32_t count;
	struct {
		char key[TEXT_MAX_BYTES];
		char text[TEXT_MAX_BYTES];
	} rows[512];
};

static inline void
copy_text(char *to, struct slice from)
{
	MUST(from.len < TEXT_MAX_BYTES);
	memcpy(to, from.ptr, from.len);
	to[from.len] = '\0';
}

static inline void
see_rows(struct merge *m, struct seen *seen)
{
	const struct batch *batch;
	struct merge_row row;
	uint64_t at;
	bool found;

	for (;;) {
		see_ok(merge_next(m, &row, &found));
		if (!found)
			return;
		see_ok(merge_read(m, &row, &batch, &at));
		MUST(seen->count < ARRAY_LEN(seen->rows));
		copy_text(seen->rows[seen->count].key,
		    array_slice(&batch->columns[ROLLOUT_id], at));
		copy_text(seen->rows[seen->count].text,
		    array_slice(&batch->columns[ROLLOUT_content], at));
		seen->count++;
	}
}

/* A snapshot and its tails, as a read takes them. */
struct reading {
	struct shm_readers readers;
	struct snapshot *snapshot;
	struct tail **tails;
	struct tail_sorted *sorted;
};

static inline void
reading_begin(struct reading *r)
{
	struct snapshot *s;
	uint32_t i;

	shm_readers_init(&r->readers);
	see_ok(reload_others(dir, kind, ref));
	see_ok(snapshot_take(dir, shape_of(), ref, &r->readers, NULL, &s));
	r->snapshot = s;
	r->tails = calloc(s->shard_count + 1, sizeof(*r->tails));
	r->sorted = calloc(s->shard_count + 1, sizeof(*r->sorted));
	for (i = 0; i < s->shard_count; i++) {
		uint64_t after = s->shards[i].manifest.replay_after;

		see_ok(tail_new(shape_of(), &s->shards[i].uuid, &r->tails[i]));
		see_ok(tail_follow(r->tails[i], dir, after, shm_shard_commit(
		    shm_store_shard(ref, s->shards[i].shard))));
		see_ok(tail_sort(r->tails[i], after, &r->sorted[i]));
	}
}

static inline void
reading_end(struct reading *r)
{
	uint32_t i;

	for (i = 0; i < r->snapshot->shard_count; i++) {
		tail_sorted_free(&r->sorted[i]);
		tail_free(r->tails[i]);
	}
	free(r->sorted);
	free(r->tails);
	snapshot_drop(r->snapshot);
	shm_readers_free(&r->readers);
}

static inline struct merge *
reading_merge(const struct reading *r)
{
	struct snapshot *s = r->snapshot;
	struct merge *m;
	uint32_t i, k, runs = 0;

	for (i = 0; i < s->shard_count; i++)
		runs += r->sorted[i].run_count;
	see_ok(merge_new(shape_of(), runs + snapshot_pending(s).sum +
	    s->base->keys_count, &m));
	for (i = 0; i < s->shard_count; i++) {
		merge_add_tail(m, &r->sorted[i]);
		for (k = 0; k < s->shards[i].source_count; k++)
			merge_add_source(m, s->shards[i].sources[k]);
	}
	merge_add_base(m, s->base);
	return m;
}

static inline void
reading_rows(struct reading *r, struct seen *seen)
{
	struct merge *m = reading_merge(r);

	*seen = (struct seen){ 0 };
	see_rows(m, seen);
	merge_free(m);
}

static inline void
read_store(struct seen *seen)
{
	struct reading r;

	reading_begin(&r);
	reading_rows(&r, seen);
	reading_end(&r);
}

static inline const char *
text_in(const struct seen *seen, const char *key)
{
	const char *text = NULL;
	uint32_t i;

	for (i = 0; i < seen->count; i++) {
		if (strcmp(seen->rows[i].key, key) != 0)
			continue;
		assert_null(text);	/* a key twice */
		text = seen->rows[i].text;
	}
	return text;
}

static inline void
see_text(const char *key, const char *text)
{
	struct seen seen;
	const char *is;

	read_store(&seen);
	is = text_in(&seen, key);
	if (text == NULL && is == NULL)
		return;
	if (is == NULL || text == NULL || strcmp(is, text) != 0)
		fail_msg("%s is %s, not %s", key, is == NULL ? "absent" : is,
		    text == NULL ? "absent" : text);
}

/* "k1=a k2=b": these rows and no others, in this order. */
static inline void
see_store(const char *want)
{
	char got[8192] = "";
	struct seen seen;
	uint32_t i;

	read_store(&seen);
	for (i = 0; i < seen.count; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got),
		    "%s%s=%s", i > 0 ? " " : "", seen.rows[i].key,
		    seen.rows[i].text);
	assert_string_equal(got, want);
}

/* ---- what is on the disk */

static inline struct shard_manifest
manifest_of(const struct uuid *shard)
{
	static struct arena arena;
	struct shard_manifest m;

	if (arena.cap_bytes == 0)
		arena_init(&arena, 64u << 20);
	arena_reset(&arena);
	see_ok(shard_manifest_load(dir, shard, &arena, &m));
	return m;
}

static inline struct wal_list
wal_of(const struct uuid *shard, uint64_t after)
{
	static struct arena arena;
	struct wal_list list;

	if (arena.cap_bytes == 0)
		arena_init(&arena, 64u << 20);
	arena_reset(&arena);
	see_ok(wal_list_read(dir, shard, after, &arena, &list));
	return list;
}

/* A file of the store, to be damaged. */
static inline int
open_file(const char *name)
{
	int fd = openat(object_dir_fd(dir), name, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static inline int
open_wal(const struct uuid *shard, uint64_t position)
{
	char path[WAL_PATH_MAX];

	wal_path(shard, position, path);
	return open_file(path);
}

/* Open descriptors of this process. */
static inline uint32_t
descriptors(void)
{
	uint32_t n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Its program in a child that dies at the fault. */
static inline void
die_in(uint16_t slot, const char *fault, int (*run)(void *), void *arg)
{
	pid_t pid;
	int status;

	see_ok(fault_set(fault));
	pid = test_fork(slot, run, arg);
	status = test_wait(pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("%s was not met: status %x", fault, status);
	test_reap(slot);
}

/* ---- ageing */

static inline struct seal_result
seal_now(uint32_t ordinal)
{
	struct seal_result r;

	see_ok(seal_shard(&aged, ordinal, &r));
	return r;
}

static inline struct fold_result
fold_now(uint32_t ordinal)
{
	struct fold_result r;
	uint64_t token = shm_store_guard_try(ref, UINT64_MAX);

	assert_true(token != 0);
	see_ok(fold_shard(&aged, ordinal, &r));
	shm_store_guard_release(ref, token);
	return r;
}

/* For another process, which is stopped or killed on its way. */
static inline int
fold_first_shard(void *unused)
{
	struct fold_result r;

	(void)unused;
	return err_is(fold_shard(&aged, 0, &r));
}

/* One row sealed into a generation of its own. */
static inline void
generation_with(struct owner *o, const char *key, const char *text)
{
	see_ok(own_rotate(o, key, text));
	own_close(o);
	assert_int_equal(seal_now(o->ordinal).generations, 1);
}

/* ---- what is there */

/* Names of a directory of the store, but for hidden ones. */
static inline uint32_t
count_in(const char *folder, const char *part)
{
	int fd = openat(object_dir_fd(dir), folder, O_RDONLY | O_DIRECTORY);
	struct dirent *at;
	uint32_t n = 0;
	DIR *d;

	if (fd < 0)
		return 0;
	d = fdopendir(fd);
	assert_non_null(d);
	while ((at = readdir(d)) != NULL)
		n += at->d_name[0] != '.' && strstr(at->d_name, part) != NULL;
	closedir(d);
	return n;
}

static inline uint32_t
shard_has(const struct uuid *shard, const char *folder, const char *part)
{
	char path[SHARD_NAME_MAX + 16];

	shard_directory_name(shard, path);
	strcat(path, folder);
	return count_in(path, part);
}

#endif
