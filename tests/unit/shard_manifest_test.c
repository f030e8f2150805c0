#include "common/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/fault.h"
#include "worker/lance/shard_manifest.h"

#define UNSHARDED "aa48498d-ac91-59e2-8452-69f46010ace2"

static char root_path[] = "/tmp/memwald-shard-XXXXXX";
static struct object_dir *root;
static struct arena arena;
static struct uuid shard;

static int
set_up(void **state)
{
	(void)state;
	arena_reset(&arena);
	shard = uuid_random();
	return 0;
}

static void
set_fault(const char *spec)
{
	assert_int_equal(fault_set(spec).kind, ERR_OK);
}

struct job {
	uint64_t expect_epoch;		/* gives up at another one, unless 0 */
	uint64_t generation;		/* adds one of this number, unless 0 */
	const char *directory;
	uint64_t drain;			/* drops that one, unless 0 */
	bool stands;
	uint32_t calls;
};

/* Claims: epoch + 1. Or adds a generation, or drains one, at the same epoch. */
static struct err
edit(struct shard_manifest *m, struct arena *a, bool *stands, void *ctx)
{
	struct job *job = ctx;
	struct shard_generation *g;
	uint32_t n = 0, i;

	job->calls++;
	if (job->expect_epoch != 0 && m->epoch != job->expect_epoch)
		return FAIL(FENCED, "another epoch");
	if (job->generation == 0 && job->drain == 0) {
		m->epoch++;
		return OK;
	}
	g = arena_calloc(a, m->generation_count + 1, sizeof(*g));
	assert_non_null(g);
	for (i = 0; i < m->generation_count; i++) {
		if (m->generations[i].number != job->drain)
			g[n++] = m->generations[i];
		if (job->directory != NULL && slice_eq(m->generations[i].directory,
		    slice_of(job->directory))) {
			job->stands = *stands = true;
			return OK;
		}
	}
	if (job->generation != 0) {
		g[n++] = (struct shard_generation){ m->current_generation,
			slice_of(job->directory) };
		m->current_generation++;
		m->replay_after = m->last_seen = 10 * m->current_generation;
	}
	m->generations = g;
	m->generation_count = n;
	return OK;
}

static struct shard_manifest
change(struct job *job)
{
	struct shard_manifest m = { 0 };
	struct err e;

	e = shard_manifest_change(root, &shard, edit, job, &arena, &m);
	if (err_is(e))
		print_error("%s: %s\n", err_name(e), e.what);
	assert_int_equal(e.kind, ERR_OK);
	return m;
}

static struct shard_manifest
load(void)
{
	struct shard_manifest m = { 0 };
	struct err e;

	e = shard_manifest_load(root, &shard, &arena, &m);
	assert_int_equal(e.kind, ERR_OK);
	return m;
}

static bool
version_exists(uint64_t version)
{
	char name[SHARD_NAME_MAX];

	shard_manifest_name(&shard, version, name);
	return !err_is(object_exists(root, name));
}

static void
test_names(void **state)
{
	char name[SHARD_NAME_MAX];
	uint64_t n = 0;
	struct uuid u;
	size_t i;

	(void)state;
	assert_true(uuid_from_text(SLICE(UNSHARDED), &u));
	shard_manifest_name(&u, 3, name);
	assert_string_equal(name, "_mem_wal/" UNSHARDED "/manifest/1100000000000"
	    "000000000000000000000000000000000000000000000000000.binpb");
	shard_wal_name(&u, 5, name);
	assert_string_equal(name, "_mem_wal/" UNSHARDED "/wal/10100000000000000000"
	    "00000000000000000000000000000000000000000000.arrow");
	for (i = 0; i < 64; i++) {
		shard_wal_name(&u, (1ull << i) | 1, name);
		assert_true(shard_number_parse(slice_of(strrchr(name, '/') + 1),
		    SLICE(".arrow"), &n));
		assert_true(n == ((1ull << i) | 1));
	}
	assert_false(shard_number_parse(SLICE("version_hint.json"),
	    SLICE(".binpb"), &n));
	assert_false(shard_number_parse(slice_of(strrchr(name, '/') + 1),
	    SLICE(".binpb"), &n));
	*(strrchr(name, '/') + 5) = '2';
	assert_false(shard_number_parse(slice_of(strrchr(name, '/') + 1),
	    SLICE(".arrow"), &n));
}

/* What the engine wrote. */
static void
test_fixture(void **state)
{
	struct object_dir *dir, *data;
	struct shard_manifest m;
	struct uuid u;
	uint64_t newest;
	struct err e;

	(void)state;
	assert_true(uuid_from_text(SLICE(UNSHARDED), &u));
	e = object_root_open("tests/data/lance", &data);
	assert_int_equal(e.kind, ERR_OK);
	e = object_dir_open(data, "memwal_v20.lance", false, &dir);
	assert_int_equal(e.kind, ERR_OK);
	e = shard_manifest_newest(dir, &u, &newest);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(newest, 4);
	e = shard_manifest_load(dir, &u, &arena, &m);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(m.version, 4);
	assert_int_equal(m.epoch, 2);
	assert_int_equal(m.replay_after, 2);
	assert_int_equal(m.last_seen, 3);
	assert_int_equal(m.current_generation, 2);
	assert_int_equal(m.generation_count, 1);
	assert_int_equal(m.generations[0].number, 1);
	assert_true(slice_eq(m.generations[0].directory, SLICE("c0f5d344_gen_1")));
	e = shard_manifest_load(dir, &shard, &arena, &m);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	object_dir_close(dir);
	object_dir_close(data);
}

/* Byte for byte what the engine's first version is, and then our uuid. */
static void
test_first_version(void **state)
{
	static const uint8_t head[] = { 0x08, 1, 0x10, 1, 0x30, 1, 0x50, 1, 0x5a,
		0x12, 0x0a, 0x10 };
	static const uint8_t field_1000[] = { 0xc2, 0x3e, 0x10 };
	struct job job = { 0 };
	struct shard_manifest m = change(&job);
	char name[SHARD_NAME_MAX];
	struct slice bytes;
	struct err e;

	(void)state;
	assert_int_equal(m.version, 1);
	assert_int_equal(m.epoch, 1);
	shard_manifest_name(&shard, 1, name);
	e = object_get(root, name, 4096, &arena, &bytes);
	assert_int_equal(e.kind, ERR_OK);
	assert_int_equal(bytes.len, sizeof(head) + 16 + sizeof(field_1000) + 16);
	assert_memory_equal(bytes.ptr, head, sizeof(head));
	assert_memory_equal(bytes.ptr + sizeof(head), shard.bytes, 16);
	assert_memory_equal(bytes.ptr + sizeof(head) + 16, field_1000,
	    sizeof(field_1000));
	assert_memory_equal(bytes.ptr + sizeof(head) + 16 + sizeof(field_1000),
	    m.writer.bytes, 16);
}

static void
test_seal_and_drain(void **state)
{
	struct job claim = { 0 };
	struct job seal = { .expect_epoch = 1, .generation = 1,
		.directory = "a_gen_1" };
	struct job drain = { .drain = 1 };
	struct shard_manifest m;
	struct err e;

	(void)state;
	change(&claim);
	m = change(&seal);
	assert_int_equal(m.version, 2);
	assert_int_equal(m.current_generation, 2);
	seal.directory = "a_gen_2";
	change(&seal);
	m = load();
	assert_int_equal(m.generation_count, 2);
	assert_int_equal(m.generations[1].number, 2);
	assert_int_equal(m.epoch, 1);
	change(&drain);
	m = load();
	assert_int_equal(m.generation_count, 1);
	assert_true(slice_eq(m.generations[0].directory, SLICE("a_gen_2")));
	assert_int_equal(m.current_generation, 3);
	/* Sealing it again finds it there and writes nothing. */
	m = change(&seal);
	assert_true(seal.stands);
	assert_int_equal(m.version, 4);
	/* The call back gives up. */
	seal.expect_epoch = 7;
	e = shard_manifest_change(root, &shard, edit, &seal, &arena, &m);
	assert_int_equal(e.kind, ERR_FENCED);
}

/* Another engine's field in a version is in the next one as well. */
static void
test_carry_over(void **state)
{
	static const char bytes[] = "\x08\x01\x10\x01\x30\x02"
	    "\x42\x0f\x08\x01\x12\x07" "a_gen_1" "\x1a\x02" "mb"
	    "\x50\x01\x5a\x12\x0a\x10" "0123456789abcdef" "\x9a\x06\x03" "new";
	struct job claim = { 0 };
	struct shard_manifest m;
	char name[SHARD_NAME_MAX];
	struct slice after;
	struct err e;

	(void)state;
	memcpy(shard.bytes, "0123456789abcdef", 16);
	shard_manifest_name(&shard, 1, name);
	e = object_put_new(root, name, slice_make(bytes, sizeof(bytes) - 1));
	assert_int_equal(e.kind, ERR_OK);
	m = change(&claim);
	assert_int_equal(m.version, 2);
	shard_manifest_name(&shard, 2, name);
	e = object_get(root, name, 4096, &arena, &after);
	assert_int_equal(e.kind, ERR_OK);
	assert_non_null(memmem(after.ptr, after.len,
	    "\x9a\x06\x03" "new", 6));
	assert_non_null(memmem(after.ptr, after.len, "\x1a\x02" "mb", 4));
}

/* In a process of its own; answers with the exit status. */
static pid_t
spawn(struct job *job, int count, const char *fault)
{
	struct shard_manifest m;
	struct err e = OK;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (fault != NULL)
		e = fault_set(fault);
	while (count-- > 0 && !err_is(e)) {
		arena_reset(&arena);
		e = shard_manifest_change(root, &shard, edit, job, &arena, &m);
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

/* Each of 4 processes raises the epoch: none is raised over. A claim whose
 * version was taken back because others went on from it is raised again, so
 * the epoch may be higher than the count, never lower. */
static void
test_race(void **state)
{
	const int each = getenv("LONG") != NULL ? 300 : 20;
	struct job jobs[4] = { 0 };
	struct shard_manifest m;
	pid_t pids[4];
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		pids[i] = spawn(&jobs[i], each, NULL);
	for (i = 0; i < 4; i++)
		assert_int_equal(wait_for(pids[i]), 0);
	m = load();
	assert_true(m.epoch >= (uint64_t)(4 * each));
	assert_int_equal(m.version, m.epoch);
}

/* Generations of four at once: each is named once, in order, none is lost. */
static void
test_race_of_seals(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	struct job claim = { 0 }, jobs[4];
	struct shard_manifest m;
	pid_t pids[4];
	int i;

	(void)state;
	change(&claim);
	for (i = 0; i < 4; i++) {
		jobs[i] = (struct job){ .generation = 1, .directory = names[i] };
		pids[i] = spawn(&jobs[i], 1, NULL);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(wait_for(pids[i]), 0);
	m = load();
	assert_int_equal(m.generation_count, 4);
	assert_int_equal(m.current_generation, 5);
	for (i = 0; i < 4; i++)
		assert_int_equal(m.generations[i].number, i + 1);
}

/* A claimer slept before its put; the version that it puts was made by another
 * and collected since. Its own must go again, and its claim be made on top. */
static void
test_hole(void **state)
{
	struct job claim = { 0 }, other = { 0 };
	struct shard_manifest m;
	char name[SHARD_NAME_MAX];
	pid_t pid;

	(void)state;
	change(&claim);
	pid = spawn(&claim, 1, "shard_commit=stop:1");
	assert_true(WIFSTOPPED(wait_for(pid)));
	change(&other);
	change(&other);
	shard_manifest_name(&shard, 2, name);
	assert_int_equal(object_delete(root, name).kind, ERR_OK);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(wait_for(pid), 0);
	m = load();
	assert_int_equal(m.version, 4);
	assert_int_equal(m.epoch, 4);
	assert_false(version_exists(2));
}

/* A sealer slept after its put, and others went on from it: its generation
 * stands, is not named twice, and its own version goes. */
static void
test_went_on(void **state)
{
	struct job claim = { 0 };
	struct job seal = { .generation = 1, .directory = "s_gen_1" };
	struct shard_manifest m;
	pid_t pid;

	(void)state;
	change(&claim);
	pid = spawn(&seal, 1, "shard_committed=stop:1");
	assert_true(WIFSTOPPED(wait_for(pid)));
	change(&claim);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(wait_for(pid), 0);
	m = load();
	assert_int_equal(m.version, 3);
	assert_int_equal(m.generation_count, 1);
	assert_int_equal(m.current_generation, 2);
	assert_false(version_exists(2));
}

/* Unknown is read back and known as ours: one claim, not two. */
static void
test_unknown(void **state)
{
	struct job claim = { 0 };
	struct shard_manifest m;

	(void)state;
	change(&claim);
	set_fault("object_link_sync=fail:5:1");
	claim.calls = 0;
	m = change(&claim);
	set_fault("object_link_sync=off");
	assert_int_equal(claim.calls, 1);
	assert_int_equal(m.epoch, 2);
	assert_int_equal(load().version, 2);
	/* Ours, but not to be made durable: it stays unknown. */
	set_fault("object_link_sync=fail:5:2");
	assert_int_equal(shard_manifest_change(root, &shard, edit, &claim,
	    &arena, &m).kind, ERR_UNKNOWN);
	set_fault("object_link_sync=off");
}

static void
test_killed(void **state)
{
	static const struct {
		const char *fault;
		uint64_t epoch;
	} cases[] = {
		{ "shard_commit=die", 1 }, { "object_write=die:1", 1 },
		{ "object_link=die:1", 1 }, { "object_linked=die:1", 2 },
		{ "shard_committed=die", 2 },
	};
	struct job claim = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		set_up(state);
		change(&claim);
		assert_true(WIFSIGNALED(wait_for(spawn(&claim, 1,
		    cases[i].fault))));
		assert_int_equal(load().epoch, cases[i].epoch);
		assert_int_equal(change(&claim).epoch, cases[i].epoch + 1);
	}
}

/* No bytes make more than an error of it. */
static void
test_damaged(void **state)
{
	struct job seal = { .generation = 1, .directory = "s_gen_1" };
	char name[SHARD_NAME_MAX], copy[256];
	struct shard_manifest m;
	struct slice bytes;
	struct err e;
	size_t i;
	int bit;

	(void)state;
	change(&seal);
	shard_manifest_name(&shard, 1, name);
	e = object_get(root, name, sizeof(copy), &arena, &bytes);
	assert_int_equal(e.kind, ERR_OK);
	for (i = 0; i < bytes.len; i++) {
		for (bit = 0; bit < 8; bit++) {
			memcpy(copy, bytes.ptr, bytes.len);
			copy[i] = (char)(copy[i] ^ 1 << bit);
			e = shard_manifest_parse(slice_make(copy, bytes.len),
			    &arena, &m);
			assert_true(e.kind == ERR_OK || e.kind == ERR_CORRUPT);
		}
		e = shard_manifest_parse(slice_make(copy, i), &arena, &m);
		assert_true(e.kind == ERR_OK || e.kind == ERR_CORRUPT);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_names, set_up),
		cmocka_unit_test_setup(test_fixture, set_up),
		cmocka_unit_test_setup(test_first_version, set_up),
		cmocka_unit_test_setup(test_seal_and_drain, set_up),
		cmocka_unit_test_setup(test_carry_over, set_up),
		cmocka_unit_test_setup(test_race, set_up),
		cmocka_unit_test_setup(test_race_of_seals, set_up),
		cmocka_unit_test_setup(test_hole, set_up),
		cmocka_unit_test_setup(test_went_on, set_up),
		cmocka_unit_test_setup(test_unknown, set_up),
		cmocka_unit_test_setup(test_killed, set_up),
		cmocka_unit_test_setup(test_damaged, set_up),
	};
	struct err e;
	int failed;

	MUST(mkdtemp(root_path) != NULL);
	e = object_root_open(root_path, &root);
	MUST(!err_is(e));
	arena_init(&arena, 16u << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_free(&arena);
	object_dir_close(root);
	e = object_root_open("/tmp", &root);
	MUST(!err_is(e));
	e = object_delete_tree(root, root_path + sizeof("/tmp/") - 1);
	MUST(!err_is(e));
	object_dir_close(root);
	return failed;
}
