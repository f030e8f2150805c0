#include "common/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <protobuf-c/protobuf-c.h>

#include "common/buf.h"
#include "common/fault.h"
#include "worker/lance/commit.h"
#include "worker/lance/field.h"
#include "worker/lance/proto.h"
#include "worker/lance/table.pb-c.h"

static char root_path[] = "/tmp/memwald-commit-XXXXXX";
static struct object_dir *root;
static struct arena errors;
static int table_number;

static const struct arrow_field item = { .name = { "item", 4 },
	.type = ARROW_FLOAT32, .nullable = true, .id = -1 };
static const struct arrow_field fields[] = {
	{ .name = { "id", 2 }, .type = ARROW_UTF8, .id = -1 },
	{ .name = { "l", 1 }, .type = ARROW_LIST, .nullable = true, .id = -1,
	  .child_count = 1, .children = &item },
	{ .name = { "_seq", 4 }, .type = ARROW_INT64, .nullable = true, .id = -1 },
};
static const struct arrow_schema schema = { 3, fields, 0, NULL };

static struct object_dir *
new_dir(void)
{
	struct object_dir *dir;
	char name[32];
	struct err e;

	snprintf(name, sizeof(name), "t%d.lance", table_number++);
	e = object_dir_open(root, name, true, &dir);
	assert_int_equal(e.kind, ERR_OK);
	return dir;
}

static struct object_dir *
new_table(void)
{
	const struct arrow_pair uuid = { SLICE("memwald:store"), SLICE("u") };
	struct commit_create create = { &schema, SLICE("id"), 1, &uuid };
	struct object_dir *dir = new_dir();
	struct err e;

	e = commit_create_table(dir, &create, &errors);
	assert_int_equal(e.kind, ERR_OK);
	return dir;
}

static struct table *
load(struct object_dir *dir)
{
	struct table *t;
	struct err e;

	e = table_load(dir, &errors, &t);
	assert_int_equal(e.kind, ERR_OK);
	return t;
}

static const int32_t file_fields[] = { 0, 1, 2, 3 };

/* A fragment of one file that nobody reads. */
static struct table_fragment
fragment_of(struct arena *a, const char *path)
{
	struct table_file *f = arena_calloc(a, 1, sizeof(*f));

	assert_non_null(f);
	*f = (struct table_file){ slice_of(path), 4, file_fields, file_fields,
		1000 };
	return (struct table_fragment){ .row_count = 10, .file_count = 1,
		.files = f };
}

struct job {				/* what a call back of these tests does */
	enum commit_operation operation;
	const char *path;		/* of a new fragment; NULL: none */
	const struct commit_deletion *deletion;
	const uint64_t *removed;
	struct table_progress progress;	/* generation 0: none */
	struct arrow_pair metadata;
	uint32_t calls;
};

static struct err
build(const struct table *t, struct arena *a, struct commit_edit *edit, void *ctx)
{
	struct job *job = ctx;
	struct table_fragment *f = arena_calloc(a, 1, sizeof(*f));

	assert_non_null(f);
	job->calls++;
	if (job->progress.generation != 0 && table_progress_of(t,
	    &job->progress.shard) >= job->progress.generation)
		return OK;
	edit->operation = job->operation;
	if (job->path != NULL) {
		*f = fragment_of(a, job->path);
		edit->added = f;
		edit->added_count = 1;
	}
	edit->deletions = job->deletion;
	edit->deletion_count = job->deletion != NULL;
	edit->removed = job->removed;
	edit->removed_count = job->removed != NULL;
	edit->progress = &job->progress;
	edit->progress_count = job->progress.generation != 0;
	edit->metadata = &job->metadata;
	edit->metadata_count = job->metadata.key.len > 0;
	return OK;
}

static struct commit_result
run(struct object_dir *dir, struct job *job)
{
	struct commit_result r;
	struct err e;

	e = commit_run(dir, build, job, &errors, &r);
	if (err_is(e))
		print_error("%s: %s\n", err_name(e), e.what);
	assert_int_equal(e.kind, ERR_OK);
	return r;
}

static void
test_create(void **state)
{
	struct commit_create create = { &schema, SLICE("id"), 0, NULL };
	struct object_dir *dir = new_table();
	struct table *t = load(dir);
	struct err e;

	(void)state;
	assert_int_equal(t->version, 2);
	assert_true(t->has_mem_wal);
	assert_int_equal(t->indices[0].fragment_bitmap.len, 8);
	assert_int_equal(t->key_column, 0);
	assert_int_equal(t->schema.fields[1].children[0].id, 2);
	assert_int_equal(t->schema.fields[2].id, 3);
	assert_int_equal(t->fragment_count, 0);
	assert_int_equal(t->next_fragment_id, 0);
	assert_false(t->manifest->has_max_fragment_id);
	assert_true(t->manifest->fields[0]->primary_key);
	assert_int_equal(t->manifest->fields[0]->primary_key_position, 1);
	assert_true(slice_eq(table_metadata_get(t, SLICE("memwald:store")),
	    SLICE("u")));
	table_free(t);
	e = commit_create_table(dir, &create, &errors);
	assert_int_equal(e.kind, ERR_EXISTS);
	object_dir_close(dir);
}

/* Killed between version 1 and 2: the next creation completes the table. */
static void
test_create_completed(void **state)
{
	struct commit_create create = { &schema, SLICE("id"), 0, NULL };
	struct object_dir *dir = new_dir();
	struct table *t;
	struct err e;
	pid_t pid;
	int status;

	(void)state;
	pid = fork();
	if (pid == 0) {
		e = fault_set("table_commit=die:1@1");
		if (!err_is(e))
			e = commit_create_table(dir, &create, &errors);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	t = load(dir);
	assert_int_equal(t->version, 1);
	table_free(t);
	e = commit_create_table(dir, &create, &errors);
	assert_int_equal(e.kind, ERR_OK);
	t = load(dir);
	assert_int_equal(t->version, 2);
	assert_true(t->has_mem_wal);
	table_free(t);
	object_dir_close(dir);
}

static void
test_fold(void **state)
{
	const struct commit_deletion deletion = { 0,
		{ TABLE_DELETION_BITMAP, 3, UINT64_MAX - 5, 4 } };
	const uint64_t removed = 0;
	struct object_dir *dir = new_table();
	struct job job = { .operation = COMMIT_APPEND, .path = "a.lance" };
	struct uuid shard = uuid_random();
	struct table *t;

	(void)state;
	assert_int_equal(run(dir, &job).version, 3);

	job = (struct job){ .operation = COMMIT_UPDATE, .path = "b.lance",
		.deletion = &deletion, .progress = { shard, 4 },
		.metadata = { SLICE("memwald:max_seq"), SLICE("17") } };
	assert_true(run(dir, &job).written);
	t = load(dir);
	assert_int_equal(t->version, 4);
	assert_int_equal(t->fragment_count, 2);
	assert_int_equal(t->fragments[1].id, 1);
	assert_int_equal(t->fragments[0].deletion.id, UINT64_MAX - 5);
	assert_int_equal(t->reader_flags, TABLE_FLAG_DELETIONS);
	assert_int_equal(table_progress_of(t, &shard), 4);
	assert_true(slice_eq(table_metadata_get(t, SLICE("memwald:max_seq")),
	    SLICE("17")));
	assert_true(slice_eq(table_metadata_get(t, SLICE("memwald:store")),
	    SLICE("u")));
	table_free(t);

	/* The same again finds that it stands already. */
	assert_false(run(dir, &job).written);

	/* The whole fragment goes: with it the flag; its id is not used again. */
	job = (struct job){ .operation = COMMIT_UPDATE, .path = "c.lance",
		.removed = &removed, .progress = { shard, 5 },
		.metadata = { SLICE("memwald:max_seq"), SLICE("18") } };
	assert_int_equal(run(dir, &job).version, 5);
	t = load(dir);
	assert_int_equal(t->fragment_count, 2);
	assert_int_equal(t->fragments[0].id, 1);
	assert_int_equal(t->fragments[1].id, 2);
	assert_int_equal(t->reader_flags, 0);
	assert_int_equal(t->progress_count, 1);
	assert_int_equal(t->metadata_count, 2);
	table_free(t);
	object_dir_close(dir);
}

/* An edit of fragments that are not there is refused. */
static void
test_gone_fragment(void **state)
{
	const uint64_t removed = 7;
	struct object_dir *dir = new_table();
	struct job job = { .operation = COMMIT_UPDATE, .removed = &removed };
	struct commit_result r;
	struct err e;

	(void)state;
	e = commit_run(dir, build, &job, &errors, &r);
	assert_int_equal(e.kind, ERR_BAD_INPUT);
	object_dir_close(dir);
}

static struct slice
pack(struct arena *a, const ProtobufCMessage *m)
{
	struct slice s;
	struct err e;

	e = proto_pack(a, m, &s);
	assert_int_equal(e.kind, ERR_OK);
	return s;
}

/* Field 99 with four bytes, as a newer engine might add anywhere. */
static ProtobufCMessageUnknownField unknown = { 99,
	PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, 4, (uint8_t *)"\x03" "new" };

static void
add_unknown(ProtobufCMessage *m)
{
	m->n_unknown_fields = 1;
	m->unknown_fields = &unknown;
}

static void
assert_unknown(const ProtobufCMessage *m)
{
	assert_int_equal(m->n_unknown_fields, 1);
	assert_int_equal(m->unknown_fields[0].tag, 99);
	assert_memory_equal(m->unknown_fields[0].data, unknown.data, 4);
}

/* What we do not know goes from version to version. */
static void
test_carry_over(void **state)
{
	struct object_dir *dir = new_table();
	struct job job = { .operation = COMMIT_APPEND, .path = "a.lance" };
	struct uuid shard = uuid_random();
	Pb__IndexSection *x;
	struct slice section, message;
	struct table *t;
	struct buf file;
	struct err e;
	uint64_t position;
	uint32_t len;
	void *out;

	(void)state;
	run(dir, &job);
	t = load(dir);
	add_unknown(&t->manifest->base);
	add_unknown(&t->manifest->fields[0]->base);
	add_unknown(&t->manifest->fragments[0]->base);
	add_unknown(&t->manifest->fragments[0]->files[0]->base);
	e = proto_unpack(&t->arena, &pb__index_section__descriptor,
	    t->index_section, "index section", &out);
	assert_int_equal(e.kind, ERR_OK);
	x = out;
	add_unknown(&x->base);
	add_unknown(&x->indices[0]->base);
	section = pack(&t->arena, &x->base);
	t->manifest->version = 4;
	t->manifest->index_section = 0;
	t->manifest->has_transaction_section = 0;
	message = pack(&t->arena, &t->manifest->base);
	buf_init(&file, 1u << 20);
	len = (uint32_t)section.len;
	assert_true(buf_append(&file, &len, 4) && buf_append_slice(&file, section));
	position = file.len;
	len = (uint32_t)message.len;
	assert_true(buf_append(&file, &len, 4) && buf_append_slice(&file, message));
	assert_true(buf_append(&file, &position, 8));
	assert_true(buf_append(&file, "\0\0\2\0LANC", 8));
	e = object_put_new(dir, "_versions/18446744073709551611.manifest",
	    buf_slice(&file));
	assert_int_equal(e.kind, ERR_OK);
	buf_free(&file);
	table_free(t);

	job = (struct job){ .operation = COMMIT_UPDATE, .path = "b.lance",
		.progress = { shard, 1 } };
	assert_int_equal(run(dir, &job).version, 5);
	t = load(dir);
	assert_unknown(&t->manifest->base);
	assert_unknown(&t->manifest->fields[0]->base);
	assert_unknown(&t->manifest->fragments[0]->base);
	assert_unknown(&t->manifest->fragments[0]->files[0]->base);
	e = proto_unpack(&t->arena, &pb__index_section__descriptor,
	    t->index_section, "index section", &out);
	assert_int_equal(e.kind, ERR_OK);
	x = out;
	assert_unknown(&x->base);
	assert_unknown(&x->indices[0]->base);
	table_free(t);
	object_dir_close(dir);
}

/* On a table that LanceDB made: its MemWAL entry gets the bitmap that it lacks,
 * everything else of it stays. */
static void
test_entry_of_lancedb(void **state)
{
	static const char name[] = "_versions/18446744073709551612.manifest";
	struct object_dir *dir = new_dir(), *data;
	struct job job = { .operation = COMMIT_UPDATE, .path = "b.lance",
		.progress = { uuid_random(), 2 } };
	struct slice bytes;
	struct uuid uuid;
	struct table *t;
	struct err e;

	(void)state;
	e = object_root_open("tests/data/lance/memwal_v20.lance", &data);
	assert_int_equal(e.kind, ERR_OK);
	e = object_get(data, name, 65536, &errors, &bytes);
	assert_int_equal(e.kind, ERR_OK);
	e = object_put_new(dir, name, bytes);
	assert_int_equal(e.kind, ERR_OK);
	t = load(dir);
	uuid = t->indices[0].uuid;
	assert_int_equal(t->indices[0].fragment_bitmap.len, 0);
	table_free(t);
	assert_int_equal(run(dir, &job).version, 4);
	t = load(dir);
	assert_int_equal(t->indices[0].fragment_bitmap.len, 8);
	assert_true(uuid_eq(&t->indices[0].uuid, &uuid));
	assert_int_equal(table_progress_of(t, &job.progress.shard), 2);
	assert_int_equal(t->fragment_count, 2);
	assert_int_equal(t->fragments[1].id, 1);
	assert_int_equal(t->key_column, 0);
	table_free(t);
	object_dir_close(data);
	object_dir_close(dir);
}

/* Tables with stable row ids are not written. */
static void
test_not_writable(void **state)
{
	static const char name[] = "_versions/18446744073709551612.manifest";
	struct object_dir *dir = new_dir(), *data;
	struct job job = { .operation = COMMIT_APPEND, .path = "b.lance" };
	struct commit_result r;
	struct slice bytes;
	struct err e;

	(void)state;
	e = object_root_open("tests/data/lance/rowids_v20.lance", &data);
	assert_int_equal(e.kind, ERR_OK);
	e = object_get(data, name, 65536, &errors, &bytes);
	assert_int_equal(e.kind, ERR_OK);
	e = object_put_new(dir, name, bytes);
	assert_int_equal(e.kind, ERR_OK);
	e = commit_run(dir, build, &job, &errors, &r);
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	assert_int_equal(job.calls, 0);
	object_dir_close(data);
	object_dir_close(dir);
}

/* Unknown is not failed: the directory's sync fails, the version is there. */
static void
test_unknown(void **state)
{
	struct object_dir *dir = new_table();
	struct job job = { .operation = COMMIT_APPEND, .path = "a.lance" };
	struct commit_result r;
	struct table *t;

	(void)state;
	assert_int_equal(fault_set("object_link_sync=fail:5:1@1").kind, ERR_OK);
	r = run(dir, &job);
	assert_true(r.written);
	assert_int_equal(r.tries, 1);
	t = load(dir);
	assert_int_equal(t->version, 3);
	assert_int_equal(t->fragment_count, 1);
	table_free(t);
	/* Ours, but not to be made durable: it stays unknown. */
	job.path = "b.lance";
	assert_int_equal(fault_set("object_link_sync=fail:5:2@1").kind, ERR_OK);
	assert_int_equal(commit_run(dir, build, &job, &errors, &r).kind,
	    ERR_UNKNOWN);
	assert_int_equal(fault_set("object_link_sync=off").kind, ERR_OK);
	/* A put that was given up may land, whatever the next try comes to. */
	job.path = "c.lance";
	assert_int_equal(fault_set_all("put_base=answer:UNKNOWN:1 "
	    "table_commit=fail:28:1@1").kind, ERR_OK);
	assert_int_equal(commit_run(dir, build, &job, &errors, &r).kind,
	    ERR_UNKNOWN);
	assert_int_equal(fault_set("table_commit=fail:28:1").kind, ERR_OK);
	assert_int_equal(commit_run(dir, build, &job, &errors, &r).kind,
	    ERR_FULL);
	object_dir_close(dir);
}

/* A definite failure leaves the version as it was, and no half file. */
static void
test_full_disk(void **state)
{
	static const char *const points[] = { "object_put", "object_write",
		"object_sync", "object_link" };
	struct object_dir *dir = new_table();
	struct commit_result r;
	struct job job;
	struct table *t;
	char spec[64];
	struct err e;
	size_t i;
	int nth;

	(void)state;
	for (i = 0; i < ARRAY_LEN(points); i++) {
		for (nth = 0; nth < 2; nth++) {
			snprintf(spec, sizeof(spec), "%s=fail:28:1@%d",
			    points[i], nth);
			assert_int_equal(fault_set(spec).kind, ERR_OK);
			job = (struct job){ .operation = COMMIT_APPEND,
				.path = "a.lance" };
			e = commit_run(dir, build, &job, &errors, &r);
			assert_int_equal(e.kind, ERR_FULL);
			snprintf(spec, sizeof(spec), "%s=off", points[i]);
			assert_int_equal(fault_set(spec).kind, ERR_OK);
			t = load(dir);
			assert_int_equal(t->version, 2);
			table_free(t);
		}
	}
	object_dir_close(dir);
}

/* In a process of its own; answers with the exit status. */
static pid_t
spawn(struct object_dir *dir, struct job *job, int count, const char *fault)
{
	struct commit_result r;
	struct err e = OK;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (fault != NULL)
		e = fault_set(fault);
	while (count-- > 0 && !err_is(e)) {
		e = commit_run(dir, build, job, &errors, &r);
		if (job->progress.generation != 0)
			job->progress.generation++;
	}
	if (err_is(e))
		print_error("%s: %s\n", err_name(e), e.what);
	_exit(err_is(e));
}

static int
wait_for(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	return status;
}

/* Four processes commit at once: every version is there, none is lost. */
static void
test_race(void **state)
{
	const int each = getenv("LONG") != NULL ? 200 : 12;
	struct object_dir *dir = new_table();
	struct job jobs[4];
	struct table *t;
	pid_t pids[4];
	uint64_t v;
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		jobs[i] = (struct job){ .operation = COMMIT_UPDATE,
			.path = "x.lance", .progress = { uuid_random(), 1 } };
		pids[i] = spawn(dir, &jobs[i], each, NULL);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(wait_for(pids[i]), 0);
	t = load(dir);
	assert_int_equal(t->version, 2 + 4 * each);
	assert_int_equal(t->fragment_count, 4 * each);
	for (i = 0; i < 4; i++)
		assert_int_equal(table_progress_of(t, &jobs[i].progress.shard),
		    each);
	for (v = 1; v <= t->version; v++)
		assert_false(err_is(table_version_exists(dir, v)));
	table_free(t);
	object_dir_close(dir);
}

/* A commit that slept while others went on and collection removed the version
 * that it puts: its own lies in a hole, and must be made again on top. */
static void
test_hole(void **state)
{
	struct object_dir *dir = new_table();
	struct job sleeper = { .operation = COMMIT_UPDATE, .path = "s.lance",
		.progress = { uuid_random(), 1 } };
	struct job other = { .operation = COMMIT_APPEND, .path = "o.lance" };
	char name[TABLE_NAME_MAX];
	struct table *t;
	pid_t pid;

	(void)state;
	pid = spawn(dir, &sleeper, 1, "table_commit=stop:1");
	assert_true(WIFSTOPPED(wait_for(pid)));
	run(dir, &other);
	run(dir, &other);
	table_manifest_name(3, name);
	assert_int_equal(object_delete(dir, name).kind, ERR_OK);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(wait_for(pid), 0);
	t = load(dir);
	assert_int_equal(t->version, 5);
	assert_int_equal(t->fragment_count, 3);
	assert_int_equal(table_progress_of(t, &sleeper.progress.shard), 1);
	table_free(t);
	assert_int_equal(object_exists(dir, name).kind, ERR_NOT_FOUND);
	object_dir_close(dir);
}

/* Killed around the put: all of it is there, or nothing. */
static void
test_killed(void **state)
{
	static const struct {
		const char *fault;
		uint64_t version;
	} cases[] = {
		{ "object_write=die:1@1", 2 }, { "object_sync=die:1@1", 2 },
		{ "table_commit=die", 2 }, { "object_link=die:1@1", 2 },
		{ "object_linked=die:1@1", 3 }, { "table_committed=die", 3 },
	};
	struct object_dir *dir;
	struct job job;
	struct table *t;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		dir = new_table();
		job = (struct job){ .operation = COMMIT_UPDATE,
			.path = "a.lance", .progress = { uuid_random(), 1 } };
		assert_true(WIFSIGNALED(wait_for(spawn(dir, &job, 1,
		    cases[i].fault))));
		t = load(dir);
		assert_int_equal(t->version, cases[i].version);
		table_free(t);
		/* Again, as the next tick does: once in all. */
		assert_int_equal(run(dir, &job).version, 3);
		t = load(dir);
		assert_int_equal(t->fragment_count, 1);
		table_free(t);
		object_dir_close(dir);
	}
}

static void
test_generation(void **state)
{
	struct object_dir *dir = new_dir();
	struct arrow_schema with_ids;
	struct table_fragment f;
	struct arena a;
	struct table *t;
	struct err e;

	(void)state;
	arena_init(&a, 1u << 20);
	assert_int_equal(field_assign_ids(&a, &schema, 0, &with_ids).kind, ERR_OK);
	f = fragment_of(&a, "g.lance");
	f.deletion = (struct table_deletion){ TABLE_DELETION_BITMAP, 1, 9, 2 };
	e = commit_create_generation(dir, &with_ids, &f, NULL, 0);
	assert_int_equal(e.kind, ERR_OK);
	e = commit_create_generation(dir, &with_ids, &f, NULL, 0);
	assert_int_equal(e.kind, ERR_EXISTS);
	t = load(dir);
	assert_int_equal(t->version, 1);
	assert_int_equal(t->reader_flags | t->writer_flags, 0);
	assert_int_equal(t->fragments[0].deletion.row_count, 2);
	assert_int_equal(t->transaction_uuid.len, 0);
	table_free(t);
	arena_free(&a);
	object_dir_close(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),
		cmocka_unit_test(test_create_completed),
		cmocka_unit_test(test_fold),
		cmocka_unit_test(test_gone_fragment),
		cmocka_unit_test(test_carry_over),
		cmocka_unit_test(test_entry_of_lancedb),
		cmocka_unit_test(test_not_writable),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_hole),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_generation),
	};
	struct err e;
	int failed;

	MUST(mkdtemp(root_path) != NULL);
	e = object_root_open(root_path, &root);
	MUST(!err_is(e));
	arena_init(&errors, 16u << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(&errors);
	object_dir_close(root);
	e = object_root_open("/tmp", &root);
	MUST(!err_is(e));
	e = object_delete_tree(root, root_path + sizeof("/tmp/") - 1);
	MUST(!err_is(e));
	object_dir_close(root);
	return failed;
}
