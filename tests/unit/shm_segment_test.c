#include "shm_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/fault.h"
#include "shm/limit.h"
#include "shm/store_table.h"

static void
size_is_known_before(void **state)
{
	struct shm_config cfg = test_config();

	(void)state;
	assert_false(err_is(shm_segment_create(&cfg)));
	assert_int_equal(shm_segment_bytes(), shm_segment_size(&cfg));
	shm_segment_destroy();
	/* What the contract's defaults take: it must stay small. */
	cfg.workers_max = 16;
	cfg.slots = 12000;
	cfg.shard_records = SHM_SHARD_RECORDS_DEFAULT;
	cfg.ordinals = SHM_ORDINALS_DEFAULT;
	assert_true(shm_segment_size(&cfg) < 80ull << 20);
}

static void
too_large_is_refused_with_the_size(void **state)
{
	struct shm_config cfg = test_config();
	char size[32];
	struct err e;

	(void)state;
	cfg.slots = 10000;
	cfg.memory_limit = shm_segment_size(&cfg);
	snprintf(size, sizeof(size), "%llu bytes",
	    (unsigned long long)shm_segment_size(&cfg));
	e = shm_segment_create(&cfg);
	assert_int_equal(e.kind, ERR_NO_MEMORY);
	assert_non_null(strstr(e.what, size));
	cfg.memory_limit = shm_segment_size(&cfg) + (64ull << 20);
	assert_false(err_is(shm_segment_create(&cfg)));
	shm_segment_destroy();
}

/* E.4: what the system does not give is an error at the start, no SIGBUS. */
static int
create_without_room(void *arg)
{
	struct shm_config cfg = test_config();
	struct rlimit r = { 1 << 20, 1 << 20 };
	struct err e;

	(void)arg;
	cfg.slots = 10000;
	signal(SIGXFSZ, SIG_IGN);
	MUST(setrlimit(RLIMIT_FSIZE, &r) == 0);
	e = shm_segment_create(&cfg);
	return e.kind == ERR_NO_MEMORY && strstr(e.what, " bytes") != NULL ?
	    0 : 1;
}

static void
unbacked_is_refused(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(create_without_room(NULL));
	assert_left_well(pid);
}

/* Every page is there before anybody touches it. */
static void
all_of_it_is_backed(void **state)
{
	struct shm_config cfg = test_config();
	struct rusage before, after;
	uint32_t i;

	(void)state;
	cfg.slots = 2000;
	assert_false(err_is(shm_segment_create(&cfg)));
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	for (i = 0; i < cfg.slots; i++)
		atomic_store(&shm_slot_at(i)->dirty, 1);
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_int_equal(before.ru_minflt + before.ru_majflt,
	    after.ru_minflt + after.ru_majflt);
	shm_segment_destroy();
}

static void
bad_configurations_are_refused(void **state)
{
	struct shm_config bad[7];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = test_config();
	bad[0].workers = 0;
	bad[1].workers = bad[1].workers_max + 1;
	bad[2].workers_max = SHM_WORKERS_LIMIT + 1;
	bad[3].slots = 0;
	bad[4].ordinals = bad[4].workers_max - 1;
	bad[5].instance_id = SLICE("");
	bad[6].shard_records = UINT32_MAX;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(shm_segment_create(&bad[i]).kind,
		    ERR_BAD_INPUT);
}

static size_t
open_descriptors(void)
{
	size_t n = 0;
	int fd;

	for (fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* D.6: no name anywhere, and no descriptor but the eventfds. */
static void
nothing_is_left_behind(void **state)
{
	struct shm_config cfg = test_config();
	size_t before = open_descriptors();

	(void)state;
	assert_false(err_is(shm_segment_create(&cfg)));
	assert_int_equal(open_descriptors(), before + 2 + cfg.workers_max);
	shm_segment_destroy();
	assert_int_equal(open_descriptors(), before);
}

static int
look(void *arg)
{
	struct err e;

	MUST(shm_segment_bytes() == *(uint64_t *)arg);
	MUST(shm_self() == SHM_WORKER(0));
	/* The table of fault points is shared too. */
	e = FAULT(wal_sync);
	MUST(e.kind == ERR_IO && e.os == 5);
	shm_store_touch((struct shm_ref){ 0, 1 });
	return 0;
}

static void
children_share_it(void **state)
{
	struct shm_config cfg = test_config();
	uint64_t bytes = shm_segment_size(&cfg);

	(void)state;
	test_segment(&cfg);
	assert_false(err_is(fault_set("wal_sync=fail:5:1")));
	assert_left_well(test_fork(SHM_WORKER(0), look, &bytes));
	/* The child took the one failure. */
	assert_false(err_is(FAULT(wal_sync)));
	test_reap(SHM_WORKER(0));
	shm_segment_destroy();
}

static int
attach_again(void *arg)
{
	/* The stamp is the first word of the mapping. */
	*(uint64_t *)arg ^= 1;
	shm_segment_check();
	return 0;
}

static void
foreign_stamp_is_a_panic(void **state)
{
	struct shm_config cfg = test_config();
	char line[256];
	void *start = NULL;
	uint64_t from;
	int status;
	FILE *f;

	(void)state;
	test_segment(&cfg);
	f = fopen("/proc/self/maps", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strstr(line, "memfd:memwald") != NULL &&
		    sscanf(line, "%lx", &from) == 1)
			start = (void *)(uintptr_t)from;
	}
	fclose(f);
	assert_non_null(start);
	status = test_wait(test_fork(SHM_WORKER(0), attach_again, start));
	assert_true(WIFSIGNALED(status));
	*(uint64_t *)start ^= 1;
	test_reap(SHM_WORKER(0));
	shm_segment_destroy();
}

static void
write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Both versions, and the smallest of all groups above counts. */
static void
memory_limit_of_cgroups(void **state)
{
	char dir[] = "/tmp/memwald-limit-XXXXXX", path[128], cgroup[128];
	uint64_t machine = shm_memory_limit_under("/nonexistent", "/none");
	static const char *const dirs[] = { "a", "a/b", "memory",
	    "memory/x" };
	size_t i;

	(void)state;
	assert_true(machine > 0 && machine < 1ull << 60);
	assert_true(shm_memory_limit() <= machine);
	assert_non_null(mkdtemp(dir));
	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, dirs[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(cgroup, sizeof(cgroup), "%s/cgroup", dir);
	write_file(cgroup, "0::/a/b\n");
	assert_int_equal(shm_memory_limit_under(cgroup, dir), machine);
	snprintf(path, sizeof(path), "%s/a/b/memory.max", dir);
	write_file(path, "max\n");
	assert_int_equal(shm_memory_limit_under(cgroup, dir), machine);
	snprintf(path, sizeof(path), "%s/a/memory.max", dir);
	write_file(path, "1000000\n");
	assert_int_equal(shm_memory_limit_under(cgroup, dir), 1000000);
	snprintf(path, sizeof(path), "%s/memory.max", dir);
	write_file(path, "900000\n");
	assert_int_equal(shm_memory_limit_under(cgroup, dir), 900000);

	write_file(cgroup, "4:cpu,cpuacct:/x\n3:memory:/x\n");
	assert_int_equal(shm_memory_limit_under(cgroup, dir), machine);
	snprintf(path, sizeof(path), "%s/memory/x/memory.limit_in_bytes", dir);
	write_file(path, "123456\n");
	assert_int_equal(shm_memory_limit_under(cgroup, dir), 123456);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_is_known_before),
		cmocka_unit_test(too_large_is_refused_with_the_size),
		cmocka_unit_test(unbacked_is_refused),
		cmocka_unit_test(all_of_it_is_backed),
		cmocka_unit_test(bad_configurations_are_refused),
		cmocka_unit_test(nothing_is_left_behind),
		cmocka_unit_test(children_share_it),
		cmocka_unit_test(foreign_stamp_is_a_panic),
		cmocka_unit_test(memory_limit_of_cgroups),
	};

	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
